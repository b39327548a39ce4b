"""Reading and checking vocabularies: SentencePiece models and WordPiece lists.

A vocabulary that would give wrong ids is refused here, by file, line and rule. A path is opened
only when the caller passed it, never when a saved configuration names it.
"""

import os
import sys
from pathlib import Path


def read_bytes(path):
    """Read a vocabulary file whole.

    Args:
        path: `str` or `os.PathLike`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not a file, it is empty, or a configuration in safe mode asks for it.
    """
    path = Path(os.fspath(path))
    if _loading_in_safe_mode():
        raise ValueError(
            "A saved configuration must not name a vocabulary file, as opening it could read "
            "anything on this machine; vocabularies are saved as assets. Pass `safe_mode=False` "
            f"if you trust the source. Received: {str(path)!r}"
        )
    if not path.exists():
        raise FileNotFoundError(f"The vocabulary must be an existing file. Received: {str(path)!r}")
    if not path.is_file():
        raise ValueError(f"The vocabulary must be a file. Received: {str(path)!r}")
    data = path.read_bytes()
    if not data:
        raise ValueError(f"The vocabulary must not be empty. Received: {str(path)!r}, 0 bytes")
    return data


def _loading_in_safe_mode():
    # Asked of Keras only where it is loaded: text is prepared without it too.
    serialization = sys.modules.get("keras.src.saving.serialization_lib")
    return serialization is not None and serialization.in_safe_mode()


def read_sentencepiece(proto):
    """Read and check a SentencePiece model for ALBERT.

    Args:
        proto: a path (`str` or `os.PathLike`), or the model's `bytes`.

    Returns:
        The model's `bytes`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no SentencePiece model, or lacks a special piece.
    """
    import sentencepiece

    if isinstance(proto, bytes):
        source, data = f"{len(proto)} bytes", proto
    elif isinstance(proto, (str, os.PathLike)):
        source, data = repr(os.fspath(proto)), read_bytes(proto)
    else:
        raise ValueError(
            "`proto` must be the path of a SentencePiece model or its bytes. "
            f"Received: {proto!r} of type {type(proto).__name__}"
        )
    try:
        model = sentencepiece.SentencePieceProcessor(model_proto=data)
        size = model.vocab_size()
    except (RuntimeError, OSError) as error:
        raise ValueError(
            "`proto` must be a SentencePiece model, the `.model` file that its trainer writes. "
            f"Received: {source}, which SentencePiece refuses: {error}"
        ) from error
    pieces = {model.id_to_piece(id): id for id in range(size)}
    missing = [t for t in ("[CLS]", "[SEP]", "<pad>", "[MASK]", "<unk>") if t not in pieces]
    if missing:
        raise ValueError(
            "ALBERT's SentencePiece model must have the pieces <pad>, <unk>, [CLS], [SEP] and "
            "[MASK]: train one with `AlbertTokenizer.train(...)`, or with the trainer's "
            "`pad_id=0`, `unk_id=1` and `control_symbols=['[CLS]', '[SEP]', '[MASK]']`. "
            f"Missing: {', '.join(missing)}. Received: {source}, {size} pieces"
        )
    return data


def read_wordpiece(vocabulary):
    """Read and check a WordPiece vocabulary.

    A byte order mark, CRLF line ends and blank lines at the end of the file change nothing.

    Args:
        vocabulary: a path (`str` or `os.PathLike`) of a UTF-8 file with one token a line, or an
            iterable of tokens.

    Returns:
        A list of tokens; a token's place is its id.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: not UTF-8, an empty line, a token twice, or a special token missing.
    """
    if isinstance(vocabulary, (str, os.PathLike)):
        source = repr(os.fspath(vocabulary))
        data = read_bytes(vocabulary)
        try:
            lines = data.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ValueError(
                f"A WordPiece vocabulary must be UTF-8 text: save it as such. "
                f"Received: {source}, line {line}, {error.reason}"
            ) from error
        tokens = [line.strip() for line in lines]
        while tokens and not tokens[-1]:
            tokens.pop()
    elif isinstance(vocabulary, bytes) or not hasattr(vocabulary, "__iter__"):
        raise ValueError(
            "`vocabulary` must be the path of a WordPiece vocabulary or a list of its tokens. "
            f"Received: {vocabulary!r} of type {type(vocabulary).__name__}"
        )
    else:
        source, tokens = "a list of tokens", list(vocabulary)
    _check_wordpiece(tokens, source)
    return tokens


def _check_wordpiece(tokens, source):
    first_line = {}
    for line, token in enumerate(tokens, start=1):
        if not isinstance(token, str):
            raise ValueError(
                f"A WordPiece token must be a string. Received: {source}, line {line}, {token!r}"
            )
        if not token:
            raise ValueError(
                "A WordPiece vocabulary must have one token a line, as the line is the token's id: "
                "put the missing token there, or a placeholder such as [unused1]. "
                f"Received: {source}, line {line} is empty"
            )
        if token in first_line:
            raise ValueError(
                "A WordPiece vocabulary must have each token once, as an id must mean one token: "
                "rename the one not trained, for instance to [unused1]. "
                f"Received: {source}, lines {first_line[token]} and {line} are both {token!r}"
            )
        first_line[token] = line
    missing = [t for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if t not in first_line]
    if missing:
        raise ValueError(
            "A WordPiece vocabulary must have the tokens [PAD], [UNK], [CLS], [SEP] and [MASK], "
            "each on a line of its own: add them, or train one with `BertTokenizer.train(...)`. "
            f"Missing: {', '.join(missing)}. Received: {source}, {len(tokens)} tokens"
        )
