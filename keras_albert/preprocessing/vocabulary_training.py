"""Training vocabularies from text: SentencePiece as ALBERT's was made, WordPiece as BERT's.

Both are functions of the texts alone: no seed, no clock, no hash order.
"""

import collections
import io
import os
import random
import re

from keras_albert.arguments import check, check_positive_integers, is_number, is_path
from keras_albert.preprocessing.files import find_files, names_files
from keras_albert.whole_files import write_whole

ALBERT_CONTROL = ("[CLS]", "[SEP]", "[MASK]")
ALBERT_SYMBOLS = ("(", ")", '"', "-", ".", "\u2013", "\u00a3", "\u20ac")
BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_MAX_LINE_BYTES = 4192  # SentencePiece's default; the trainer skips longer lines
_RESERVED = "\u2585"  # SentencePiece marks the unknown with it, and skips lines that contain it


def iterate_texts(files):
    """Stream the texts that `train(files)` names.

    Args:
        files: what `find_files` takes (UTF-8, one text a line; a byte order mark and CRLF change
            nothing), or any other iterable, which gives the texts themselves.

    Yields:
        `str`, one line or text at a time.

    Raises:
        ValueError: a path or pattern matches no file, a line is not UTF-8, or a text is not a
            string.
    """
    if not names_files(files):
        check(
            "train", "paths or an iterable of texts", lambda f: hasattr(f, "__iter__"), files=files
        )
        for number, text in enumerate(files):
            if not isinstance(text, str):
                raise ValueError(
                    f"Training texts must be strings. Received: text {number}, {text!r}"
                )
            yield text
        return
    for path in find_files(files):
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise ValueError(
                        "Training files must be UTF-8 text: convert the file first. "
                        f"Received: {str(path)!r}, line {number}, {error.reason}"
                    ) from error
                yield text.rstrip("\r\n")


def split_line(text, max_bytes=_MAX_LINE_BYTES):
    """Cut a text at its spaces into parts of at most `max_bytes` bytes; nothing is lost.

    A word longer than that is cut between characters.
    """
    data = text.encode("utf-8")
    start = 0
    while len(data) - start > max_bytes:
        end = data.rfind(b" ", start, start + max_bytes + 1)
        if end < start:  # no space
            end = start + max_bytes
            while data[end] & 0xC0 == 0x80:  # inside a character
                end -= 1
        yield data[start:end].decode("utf-8")
        start = end + (data[end : end + 1] == b" ")
    yield data[start:].decode("utf-8")


def sample_lines(lines, max_bytes):
    """All lines where they have at most `max_bytes` bytes of UTF-8, else an even sample that has.

    One pass, in memory for the sample; the same lines give the same sample, in their order.
    """
    draws = random.Random(0)
    kept, size, share = [], 0, 1.0
    for line in lines:
        draw = draws.random()
        if draw < share:
            kept.append((draw, line))
            size += len(line.encode("utf-8"))
        while size > max_bytes and len(kept) > 1:
            share /= 2
            kept = [(draw, line) for draw, line in kept if draw < share]
            size = sum(len(line.encode("utf-8")) for _, line in kept)
    return [line for _, line in kept]


def train_sentencepiece(
    files,
    vocabulary_size,
    output,
    *,
    normalize,
    character_coverage=0.99995,
    max_sentences=10_000_000,
    max_bytes=32_000_000,
):
    """Train a SentencePiece unigram model with the settings inside ALBERT's released model.

    Args:
        files: see `iterate_texts`.
        vocabulary_size: int. Number of pieces.
        output: path to write the model to, or `None`.
        normalize: function of a text; what it returns is trained on.
        character_coverage: float.
        max_sentences: int. A larger corpus is sampled down to so many lines.
        max_bytes: int. A larger corpus is sampled down to so much text: the trainer needs about
            twenty times as much memory.

    Returns:
        The model's `bytes`.

    Raises:
        ValueError: no file, no text, or a `vocabulary_size` that the text does not allow.
    """
    import sentencepiece

    check_positive_integers(
        "train",
        vocabulary_size=vocabulary_size,
        max_sentences=max_sentences,
        max_bytes=max_bytes,
    )
    check(
        "train",
        "a number above 0 and at most 1",
        lambda share: is_number(share) and 0 < share <= 1,
        character_coverage=character_coverage,
    )
    _check_output(output)
    lines = (
        line
        for text in iterate_texts(files)
        for line in split_line(normalize(text).replace(_RESERVED, " "))
        if line and not line.isspace()
    )
    lines = sample_lines(lines, max_bytes)
    if not lines:
        raise _no_text(files)
    model = io.BytesIO()
    # The trainer samples from a corpus of more than `max_sentences` lines with this generator.
    sentencepiece.set_random_generator_seed(0)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocabulary_size,
            character_coverage=character_coverage,
            input_sentence_size=max_sentences,
            shuffle_input_sentence=True,
            max_sentence_length=_MAX_LINE_BYTES,
            normalization_rule_name="nmt_nfkc",
            control_symbols=list(ALBERT_CONTROL),
            user_defined_symbols=list(ALBERT_SYMBOLS),
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            num_threads=16,  # counts are summed per thread: a fixed number keeps their rounding
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _sentencepiece_error(error, vocabulary_size) from error
    if output is not None:
        write_whole(output, model.getvalue())
    return model.getvalue()


def _sentencepiece_error(error, vocabulary_size):
    message = str(error)
    largest = re.search(r"too high \(\d+\)\. Please set it to a value <= (\d+)", message)
    if largest:
        return _too_large(largest[1], vocabulary_size)
    if "smaller than required_chars" in message:
        return ValueError(
            "`vocabulary_size` must leave room for every character of the text: raise it, or lower "
            f"`character_coverage`. Received: vocabulary_size={vocabulary_size}; {message}"
        )
    return ValueError(
        f"SentencePiece cannot train on this text. "
        f"Received: vocabulary_size={vocabulary_size}; {message}"
    )


def _no_text(files):
    return ValueError(f"A vocabulary must be trained on some text. Received: none in {files!r}")


def _too_large(largest, vocabulary_size):
    return ValueError(
        f"`vocabulary_size` must be at most {largest} for this text: lower it, or add text. "
        f"Received: vocabulary_size={vocabulary_size}"
    )


def train_wordpiece(files, vocabulary_size, output, *, split, max_characters):
    """Train a WordPiece vocabulary with the `tokenizers` library.

    Args:
        files: see `iterate_texts`.
        vocabulary_size: int. Number of tokens.
        output: path to write the vocabulary to, one token a line, or `None`.
        split: function of a text that returns its words.
        max_characters: int. So many of the commonest characters are kept.

    Returns:
        A list of tokens.

    Raises:
        ValueError: no file, no text, or a `vocabulary_size` that the text does not allow.
    """
    import tokenizers

    check_positive_integers("train", vocabulary_size=vocabulary_size, max_characters=max_characters)
    _check_output(output)
    words = collections.Counter()
    for text in iterate_texts(files):
        words.update(split(text))
    if not words:
        raise _no_text(files)
    characters = collections.Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    kept = sorted(characters, key=lambda character: (-characters[character], character))
    alphabet = sorted(kept[:max_characters])
    # The trainer numbers the ## characters in the order of a hash table; named first, they, and
    # every merge that ties on them, have the same ids each time.
    first = [*BERT_SPECIAL, *alphabet, *(f"##{character}" for character in alphabet)]
    if vocabulary_size < len(first):
        raise ValueError(
            f"`vocabulary_size` must be at least {len(first)} for the characters of this text: "
            f"raise it, or lower `max_characters`. Received: vocabulary_size={vocabulary_size}"
        )
    allowed = set(alphabet)
    model = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocabulary_size, special_tokens=first, show_progress=False
    )
    model.train_from_iterator(
        (
            " ".join([word] * min(1_000, count - done))
            for word, count in sorted(words.items())
            if allowed.issuperset(word)
            for done in range(0, count, 1_000)
        ),
        trainer,
    )
    ids = model.get_vocab(with_added_tokens=False)
    tokens = sorted(ids, key=ids.get)
    if len(tokens) < vocabulary_size:
        raise _too_large(len(tokens), vocabulary_size)
    if output is not None:
        write_whole(output, "".join(f"{token}\n" for token in tokens).encode())
    return tokens


def _check_output(output):
    check(
        "train",
        "None or a file's path, not a directory",
        lambda path: path is None or (is_path(path) and not os.path.isdir(path)),
        output=output,
    )
