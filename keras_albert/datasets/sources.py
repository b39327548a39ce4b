"""Rows of sets in the layout of Hugging Face and TFDS: by name, or from files already on disk.

A row is a dict; `place` says where it stands, for messages. What the columns mean is for the
reader of each set.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path

from keras_albert.datasets.reading import json_lines, refuse

NAMES = ("hf", "tfds")
_PACKAGES = {"hf": ("datasets", "datasets"), "tfds": ("tensorflow_datasets", "tensorflow-datasets")}
_ENDINGS = (".parquet", ".arrow", ".jsonl", ".json")


def is_name(source) -> bool:
    """Whether `source` asks for a library rather than for files."""
    return isinstance(source, str) and source in NAMES


def rows_by_name(source: str, hf: tuple, tfds: str | None, split: str) -> Iterator:
    """Yields (place, row) through an installed library.

    Args:
        source: `"hf"` or `"tfds"`.
        hf: the path, and the configuration if any, for `datasets.load_dataset`.
        tfds: the name for `tensorflow_datasets.load`, None where it has no such set.
        split: by its name in these libraries.

    Raises:
        ImportError: where the library is not installed.
        ValueError: where the library has no such set.
    """
    if source == "tfds" and tfds is None:
        raise ValueError(f"TFDS has no set {hf[0]}: use source='hf' or files. Received: 'tfds'")
    library, package = _PACKAGES[source]
    try:
        module = importlib.import_module(library)
    except ImportError:
        raise ImportError(
            f"source={source!r} reads through the library `{library}`: pip install {package}"
        ) from None
    if source == "hf":
        rows, name = module.load_dataset(*hf, split=split), "/".join(hf)
    else:
        rows, name = module.as_numpy(module.load(tfds, split=split)), tfds
    for number, row in enumerate(rows):
        yield f"{name}, {split}, row {number}", _plain(row)


def stored_files(directory: Path, split: str) -> list[Path]:
    """The files of a split: `train-00000-of-00001.parquet`, `train.jsonl`, `train/data-*.arrow`."""
    found = [path for path in directory.glob(f"{split}*") if path.suffix in _ENDINGS]
    # "validation" is also the beginning of "validation_matched-0000..."
    found = [path for path in found if path.stem == split or path.stem.startswith(f"{split}-")]
    return sorted(found) or sorted((directory / split).glob("data-*.arrow"))


def rows_of_files(paths: list[Path]) -> Iterator:
    """Yields (place, row) of Parquet, Arrow or JSON-lines files."""
    for path in paths:
        if path.suffix in (".jsonl", ".json"):
            rows = ((f"line {number}", row) for number, row in json_lines(path))
        else:
            rows = ((f"row {number}", row) for number, row in enumerate(_table_rows(path)))
        for place, row in rows:
            yield f"{path}, {place}", row


def _table_rows(path: Path) -> Iterator[dict]:
    try:
        import pyarrow
        from pyarrow import ipc, parquet
    except ImportError:
        raise ImportError(f"Reading {path.suffix} needs pyarrow: pip install pyarrow") from None
    try:
        if path.suffix == ".parquet":
            batches = parquet.ParquetFile(path).iter_batches()
        else:
            with open(path, "rb") as file:
                is_file = file.read(6) == b"ARROW1"
            stream = pyarrow.memory_map(str(path))  # Hugging Face writes streams, others files
            table = (ipc.open_file if is_file else ipc.open_stream)(stream).read_all()
            batches = table.to_batches()
        for batch in batches:
            yield from batch.to_pylist()
    except pyarrow.ArrowInvalid as error:
        refuse(path, str(error).split("\n")[0], f"The file must be whole {path.suffix} data", path)


def _plain(value):
    """NumPy and bytes, as TFDS gives them, to Python."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return [_plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value
