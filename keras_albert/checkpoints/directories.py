"""Directories that are written: whole or not at all, with the vocabulary beside the weights."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from keras_albert.checkpoints.piece_models import write_fast_tokenizer
from keras_albert.checkpoints.weight_files import write_json
from keras_albert.preprocessing import AlbertTokenizer


@contextlib.contextmanager
def whole_directory(directory: Path) -> Iterator[Path]:
    """A directory beside `directory` to write to, which gets its name when nothing has failed.

    Raises:
        ValueError: `directory` exists and holds something.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ValueError(
            "A checkpoint must be written to a directory that is new or empty. "
            f"Received: {str(directory)!r}"
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        yield beside
        beside.chmod(0o777 & ~_umask())
        if directory.exists():
            directory.rmdir()
        beside.rename(directory)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_vocabulary(tokenizer, directory: Path) -> None:
    """Write the vocabulary as the original programs name it."""
    if isinstance(tokenizer, AlbertTokenizer):
        (directory / "spiece.model").write_bytes(tokenizer.proto)
    else:
        text = "".join(f"{token}\n" for token in tokenizer.get_vocabulary())
        (directory / "vocab.txt").write_text(text, encoding="utf-8")


def write_tokenizer(tokenizer, directory: Path, length: int) -> None:
    """Write the vocabulary and transformers' `tokenizer_config.json`."""
    write_vocabulary(tokenizer, directory)
    config = {
        "do_lower_case": tokenizer.lowercase,
        "model_max_length": length,
        **{
            f"{role}_token": getattr(tokenizer, f"{role}_token")
            for role in ("pad", "unk", "cls", "sep", "mask")
        },
    }
    if isinstance(tokenizer, AlbertTokenizer):
        write_fast_tokenizer(tokenizer, directory / "tokenizer.json")
        config |= {
            "tokenizer_class": "AlbertTokenizer",
            "keep_accents": not tokenizer.strip_accents,
            "remove_space": True,
            "bos_token": tokenizer.cls_token,
            "eos_token": tokenizer.sep_token,
        }
    else:
        config |= {
            "tokenizer_class": "BertTokenizer",
            "strip_accents": tokenizer.strip_accents,
            "tokenize_chinese_chars": True,
        }
    write_json(directory / "tokenizer_config.json", config)
