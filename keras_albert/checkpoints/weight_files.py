"""Files of weights as Hugging Face writes them: safetensors, `pytorch_model.bin`, shards of either.

Headers are checked before a number is read, and tensors are read one at a time. A `.bin` is a
pickle: it is read by torch's `weights_only` unpickler, which executes nothing, and never otherwise.
"""

import json
import re
import struct
import zipfile
from pathlib import Path

import numpy as np

from keras_albert.checkpoints.files import (
    MAX_CONFIG_BYTES,
    MAX_INDEX_BYTES,
    inside,
    parse_json,
    read_json,
)
from keras_albert.checkpoints.stored import Stored

_DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.(?:safetensors|bin)")
_TORCH = (2, 10)  # older unpicklers have had holes


def read_weights(directory: Path) -> dict[str, Stored]:
    """The tensors of a directory: safetensors if there are any, else `pytorch_model.bin`.

    Raises:
        ImportError: safetensors, or a torch that is new enough, is not installed.
        ValueError: there is no such file, it is broken, or shards and index disagree.
    """
    for name, open_file in (("model.safetensors", _safetensors), ("pytorch_model.bin", _pickle)):
        single = inside(directory, name)
        if single is not None:
            return open_file(single)
        index = inside(directory, f"{name}.index.json")
        if index is not None:
            return _shards(directory, index, open_file)
    raise ValueError(
        "A Hugging Face directory must have `model.safetensors`, `pytorch_model.bin`, or an "
        f"`.index.json` of their shards. Received: {directory}"
    )


def _shards(directory: Path, index: Path, open_file) -> dict[str, Stored]:
    weight_map = read_json(index, MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(f"An index of shards must have a `weight_map`. Received: {index}")
    names = {str(name) for name in weight_map.values()}
    shards = [_SHARD.fullmatch(name) for name in sorted(names)]
    if None in shards or {int(shard[3]) for shard in shards} != {len(names)}:
        raise ValueError(
            "An index must name all the shards that their names count (`-00001-of-0000N`), and no "
            f"other. Received: {sorted(names)[:5]}, {len(names)} files, in {index}"
        )
    tensors = {}
    for name in sorted(names):
        path = inside(directory, name)
        if path is None:
            raise ValueError(
                f"A shard that the index names is not there. Received: {name!r} in {index}"
            )
        held = open_file(path)
        listed = {tensor for tensor, shard in weight_map.items() if shard == name}
        if set(held) != listed:
            raise ValueError(
                "A shard must hold the tensors that the index lists for it, each once. "
                f"Received: {sorted(set(held) ^ listed)[:5]} differ between {path} and {index}"
            )
        tensors |= held
    return tensors


def _safetensors(path: Path) -> dict[str, Stored]:
    _check_header(path)
    try:
        import ml_dtypes  # noqa: F401  NumPy knows bfloat16 by it
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise ImportError(
            "safetensors files are read by safetensors: pip install 'keras-albert[hf]'"
        ) from error
    try:
        # Reads, not a mapping: mapped pages would count in memory beside the model.
        file = safe_open(path, framework="numpy", backend="pread")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(
            "A safetensors file must have a header and the data that the header describes, to the "
            f"last byte. Received: {path}: {error}"
        ) from error
    return {
        name: Stored(
            name,
            tuple(part.get_shape()),
            _DTYPES.get(part.get_dtype(), part.get_dtype()),
            lambda name=name: file.get_tensor(name),
        )
        for name, part in slices.items()
    }


def _check_header(path: Path) -> None:
    """Bound the header and refuse a name twice, which the library lets pass."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= length <= min(size - 8, MAX_INDEX_BYTES):
            raise ValueError(
                "A safetensors file must start with the length of its header, which lies in the "
                f"file. Received: a header of {length:,} bytes in {path}, {size:,} bytes"
            )
        header = file.read(length)
    try:
        parse_json(header.decode("utf-8"))
    except ValueError as error:
        raise ValueError(
            f"A safetensors header must be a JSON object with each name once. Received: {path}: "
            f"{error}"
        ) from error


def _pickle(path: Path) -> dict[str, Stored]:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "`pytorch_model.bin` is read by torch: pip install 'torch>=2.10', or convert it to "
            "safetensors"
        ) from error
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if version < _TORCH:
        raise ImportError(
            f"`pytorch_model.bin` needs torch 2.10 or later, whose `weights_only` is safe. "
            f"Received: torch {torch.__version__}"
        )
    in_zip = zipfile.is_zipfile(path)
    if in_zip:
        _check_zip(path)
    try:
        # Files from before torch 1.6 are no archives, and cannot be mapped.
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=in_zip)
    except Exception as error:  # torch and pickle raise many kinds
        reason = str(error).strip().split("\n")[0]
        raise ValueError(
            "`pytorch_model.bin` must hold tensors and nothing that is executed. "
            f"Received: {path}: {reason}"
        ) from error
    if not isinstance(state, dict):
        raise ValueError(
            f"`pytorch_model.bin` must hold a dict of tensors. Received: {type(state).__name__}"
        )
    return {name: _torch_tensor(name, tensor, path) for name, tensor in state.items()}


def _torch_tensor(name, tensor, path: Path) -> Stored:
    import torch

    plain = isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided
    if not isinstance(name, str) or not plain or tensor.is_meta:
        raise ValueError(f"{path} must hold dense tensors by name. Received: {name!r}")
    # A stride of 0 makes a tensor of any size out of one number.
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise ValueError(
            "A tensor must be stored with all its numbers. "
            f"Received: {name!r} of shape {tuple(tensor.shape)}, stored in "
            f"{tensor.untyped_storage().nbytes():,} bytes, in {path}"
        )

    def read():
        return tensor.detach().to(torch.float32, copy=True).numpy()  # not the mapped file

    return Stored(name, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), read)


def _check_zip(path: Path) -> None:
    """Refuse an archive that unpacks to more than it is."""
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    packed = [member.filename for member in members if member.compress_type != zipfile.ZIP_STORED]
    total = sum(member.file_size for member in members)
    pickles = max((m.file_size for m in members if m.filename.endswith(".pkl")), default=0)
    if packed or total > size or pickles > MAX_INDEX_BYTES:
        raise ValueError(
            "`pytorch_model.bin` must be an archive that is not compressed, as torch writes it. "
            f"Received: {path}, {size:,} bytes that unpack to {total:,}"
        )


def write_safetensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Write arrays as transformers does; names are sorted, so the same weights give the same bytes.

    Raises:
        ImportError: safetensors is not installed.
    """
    try:
        from safetensors.numpy import save_file
    except ImportError as error:
        raise ImportError(
            "safetensors files are written by safetensors: pip install 'keras-albert[hf]'"
        ) from error
    arrays = {name: np.ascontiguousarray(tensors[name]) for name in sorted(tensors)}
    save_file(arrays, path, metadata={"format": "pt"})


def write_json(path: Path, value: dict) -> None:
    """Write a configuration as these programs do: indented, keys sorted."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if len(text.encode()) > MAX_CONFIG_BYTES:
        raise ValueError(f"A configuration must be at most {MAX_CONFIG_BYTES:,} bytes: {path}")
    path.write_text(text, encoding="utf-8")
