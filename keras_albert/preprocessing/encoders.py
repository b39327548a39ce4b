"""From texts to token ids in plain Python and C++: what the tokenizers use, and corpora alone.

Nothing here imports Keras: a process that only prepares text starts at once and stays small.
"""

import hashlib
import itertools
import json
import os
from pathlib import Path

from keras_albert.arguments import check_booleans
from keras_albert.preprocessing.alignment import (
    SPACE,
    align_normalized,
    align_words,
    sentencepiece_spans,
    split_span,
)
from keras_albert.preprocessing.bert_words import split_words
from keras_albert.preprocessing.normalizer import normalize_text
from keras_albert.preprocessing.vocabulary import read_sentencepiece, read_wordpiece

MAX_WORD_LENGTH = 200  # characters; a longer word is [UNK], as in `WordpieceTokenizer`


def load_encoder(path: str | os.PathLike, **options) -> "Encoder":
    """The encoder of a vocabulary file, or of a directory that a tokenizer was saved to.

    Args:
        path: a SentencePiece model, a WordPiece list (`.txt`), or a directory with
            `tokenizer.json`, as `prepare_corpus` writes one.
        **options: normalisation, as the tokenizer of that vocabulary takes it.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no vocabulary, or the directory is of another tokenizer.
    """
    path = Path(path)
    if not path.is_dir():
        kind = WordPieceEncoder if path.suffix == ".txt" else SentencePieceEncoder
        return kind(path, **options)
    try:
        saved = json.loads((path / "tokenizer.json").read_text())
        kinds = {kind.class_name: kind for kind in (SentencePieceEncoder, WordPieceEncoder)}
        kind = kinds[saved["class_name"]]
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            "A tokenizer's directory must hold the `tokenizer.json` of an AlbertTokenizer or a "
            f"BertTokenizer. Received: {str(path)!r} ({type(error).__name__}: {error})"
        ) from None
    settings = {name: saved["config"][name] for name in kind.options if name in saved["config"]}
    return kind(path / kind.asset, **{**settings, **options})


class Encoder:
    """What both encoders share.

    `encode_batch(texts)` gives a list of lists of ids; `encode_with_offsets(text)` the ids of one
    text and where in it they come from.
    """

    class_name: str  # of the tokenizer that this is the core of
    module: str
    asset: str
    options: tuple[str, ...]

    def __init__(self, tokens: list[str], vocabulary_bytes: bytes, normalization: dict):
        self.tokens = tokens
        self.vocabulary_bytes = vocabulary_bytes
        self.normalization = normalization

    def vocabulary_size(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    def fingerprint(self) -> str:
        """Name the mapping from text to ids: the same fingerprint, the same ids.

        Returns:
            The SHA-256, in hexadecimal, of the class, its normalisation and its vocabulary.
        """
        settings = [self.class_name, self.normalization]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        digest.update(self.vocabulary_bytes)
        return digest.hexdigest()

    def save(self, directory: str | os.PathLike):
        """Write the vocabulary and a `tokenizer.json` from which Keras makes the tokenizer."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        config = {
            "class_name": self.class_name,
            "config": self.normalization,
            "module": f"keras_albert.preprocessing.{self.module}",
            "registered_name": f"keras_albert>{self.class_name}",
        }
        (directory / "tokenizer.json").write_text(json.dumps(config, indent=2, sort_keys=True))
        (directory / self.asset).write_bytes(self.vocabulary_bytes)


class SentencePieceEncoder(Encoder):
    """ALBERT's way: normalise, SentencePiece, split a digit from its comma.

    Args:
        proto: path of a SentencePiece model, or its bytes.
        lowercase, strip_accents, split_digit_commas: as in `AlbertTokenizer`.
        num_threads: of the C++ encoder; -1 for one per core.
    """

    class_name = "AlbertTokenizer"
    module = "albert_tokenizer"
    asset = "vocabulary.spm"
    options = ("lowercase", "strip_accents", "split_digit_commas")

    def __init__(
        self,
        proto,
        lowercase: bool = True,
        strip_accents: bool = True,
        split_digit_commas: bool = True,
        num_threads: int = -1,
    ):
        import sentencepiece

        normalization = {
            "lowercase": lowercase,
            "strip_accents": strip_accents,
            "split_digit_commas": split_digit_commas,
        }
        check_booleans("SentencePieceEncoder", **normalization)
        proto = read_sentencepiece(proto)
        self.num_threads = num_threads
        self._model = sentencepiece.SentencePieceProcessor(model_proto=proto)
        tokens = [self._model.id_to_piece(id) for id in range(self._model.vocab_size())]
        super().__init__(tokens, proto, normalization)
        self.digit_commas = _digit_commas(self._model, tokens) if split_digit_commas else {}

    def __reduce__(self):
        return type(self), (self.vocabulary_bytes, *self.normalization.values(), self.num_threads)

    def encode_batch(self, texts: list) -> list[list[int]]:
        """Ids of texts (`str` or UTF-8 `bytes`), without [CLS] and [SEP]."""
        lowercase, strip_accents = (self.normalization[name] for name in self.options[:2])
        texts = [normalize_text(text, lowercase, strip_accents) for text in texts]
        batch = self._model.Encode(texts, out_type=int, num_threads=self.num_threads)
        table = self.digit_commas
        return [
            ids
            if table.keys().isdisjoint(ids)
            else [new for id in ids for new in table.get(id, (id,))]
            for ids in batch
        ]

    def encode_with_offsets(self, text) -> tuple[list[int], list[int], list[int]]:
        """Ids of one text (`str` or UTF-8 `bytes`), and the characters that each comes from.

        Args:
            text: `str`, or UTF-8 `bytes`, whose offsets are those of the decoded text.

        Returns:
            `(ids, starts, ends)`, lists of one length; the ids are those of `encode_batch`. Token i
            comes from `text[starts[i]:ends[i]]`, without the white space before it; a token that is
            only that white space has an empty span. Neither list ever decreases.

        Raises:
            ValueError: `text` is neither a string nor bytes.

        Example:
        >>> encoder.encode_with_offsets("Café  déjà")
        ([6241, 121, 1004], [0, 6, 8], [4, 8, 10])
        """
        lowercase, strip_accents = (self.normalization[name] for name in self.options[:2])
        aligned = align_normalized(text, lowercase, strip_accents)
        ids, begins, stops = [], [], []
        for id, begin, stop in sentencepiece_spans(self._model, aligned.text):
            new = self.digit_commas.get(id, [id])
            parts = [self.tokens[id] for id in new]
            spans = [(begin, stop)] if len(new) == 1 else split_span(parts, begin, stop)
            ids += new
            begins += [span[0] for span in spans]
            stops += [span[1] for span in spans]
        return ids, *aligned.spans(begins, stops)


def _digit_commas(model, pieces) -> dict[int, list[int]]:
    """The digit-comma rule as a table: piece id -> the ids that replace it.

    The original encodes `piece[:-1]` anew wherever such a piece occurs, without its context: what
    replaces a piece depends on the vocabulary alone.
    """
    replacements = {}
    for id, piece in enumerate(pieces):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            parts = model.EncodeAsPieces(piece[:-1].replace(SPACE, ""))
            if piece[0] != SPACE and parts[0][0] == SPACE:
                parts = [part for part in (parts[0][1:], *parts[1:]) if part]
            replacements[id] = [model.piece_to_id(part) for part in (*parts, ",")]
    return replacements


class WordPieceEncoder(Encoder):
    """BERT's way: clean, lower-case, split into words, WordPiece by the longest match.

    Args:
        vocabulary: path of a file with one token a line, or an iterable of tokens.
        lowercase, strip_accents: as in `BertTokenizer`.
    """

    class_name = "BertTokenizer"
    module = "bert_tokenizer"
    asset = "vocabulary.txt"
    options = ("lowercase", "strip_accents")

    def __init__(self, vocabulary, lowercase: bool = True, strip_accents: bool | None = None):
        normalization = {
            "lowercase": lowercase,
            "strip_accents": lowercase if strip_accents is None else strip_accents,
        }
        check_booleans("WordPieceEncoder", **normalization)
        tokens = read_wordpiece(vocabulary)
        super().__init__(tokens, "\n".join(tokens).encode(), normalization)
        ids = {token: id for id, token in enumerate(tokens)}
        self._pieces = _Searched(ids, ids["[UNK]"])

    def __reduce__(self):
        return type(self), (self.tokens, *self.normalization.values())

    def encode_batch(self, texts: list) -> list[list[int]]:
        """Ids of texts (`str` or UTF-8 `bytes`), without [CLS] and [SEP]."""
        pieces, options = self._pieces.__getitem__, self.normalization
        chain = itertools.chain.from_iterable
        return [list(chain(map(pieces, split_words(text, **options)))) for text in texts]

    def encode_with_offsets(self, text) -> tuple[list[int], list[int], list[int]]:
        """Ids and the characters that each comes from: see `SentencePieceEncoder`."""
        aligned, words = align_words(text, **self.normalization)
        ids, begins, stops = [], [], []
        for begin, stop in words:
            found = self._pieces[aligned.text[begin:stop]]
            ids += found
            lengths = [len(self.tokens[id]) - 2 * (at > 0) for at, id in enumerate(found)]
            ends = [begin + length for length in itertools.accumulate(lengths)]
            ends[-1] = stop  # of [UNK] too
            begins += [begin, *ends[:-1]]
            stops += ends
        return ids, *aligned.spans(begins, stops)


class _Searched(dict):
    """Word -> its ids, found by the greedy longest match when first asked for."""

    LIMIT = 250_000  # words kept; some 50 MB

    def __init__(self, ids, unknown):
        super().__init__()
        self.ids, self.unknown = ids, unknown
        self.longest = max(map(len, ids))

    def __missing__(self, word):
        if len(self) >= self.LIMIT:
            self.clear()
        self[word] = found = self.search(word)
        return found

    def search(self, word):
        if len(word) > MAX_WORD_LENGTH:
            return (self.unknown,)
        found, start, prefix = [], 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self.longest), start, -1):
                id = self.ids.get(prefix + word[start:end])
                if id is not None:
                    break
            else:
                return (self.unknown,)
            found.append(id)
            start, prefix = end, "##"
        return tuple(found)
