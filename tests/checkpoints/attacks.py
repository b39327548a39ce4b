"""Malicious checkpoints, made by the tests; and a program that loads them and watches itself.

python -m tests.checkpoints.attacks FOLDER      prints a JSON object: name -> what happened
"""

import io
import json
import os
import pickle
import re
import stat
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np

CONFIG = {
    "model_type": "bert",
    "vocab_size": 12,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 6,
    "type_vocab_size": 2,
}


class Executes:
    """Unpickled by Python, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.system, (f"touch {self.path}",))


def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(shape, start, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def huggingface(folder, config=None, weights=None, **files):
    """A directory of Hugging Face's; `files` are contents by name, `__` for a dot."""
    folder.mkdir(parents=True)
    text = config if isinstance(config, str) else json.dumps({**CONFIG, **(config or {})})
    (folder / "config.json").write_text(text)
    if weights is None:
        weights = safetensors({"embeddings.word_embeddings.weight": entry([1], 0, 4)}, b"\0" * 4)
    if weights:
        (folder / "model.safetensors").write_bytes(weights)
    for name, data in files.items():
        (folder / name.replace("__", ".")).write_bytes(data)


def archive(path, *members, mode="w:gz"):
    """A tar of (name, content, changes of its header)."""
    with tarfile.open(path, mode) as tar:
        for name, data, changes in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in changes.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data))


def zipped(path, *members):
    """A zip of (name, content, type of file)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data, kind in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = kind << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, data)


def shards(folder, weight_map):
    index = json.dumps({"weight_map": weight_map}).encode()
    huggingface(folder, weights=b"", model__safetensors__index__json=index)


def own_preset(folder, config):
    folder.mkdir()
    value = {"module": "keras_albert", "class_name": "AlbertBackbone", "config": config}
    value["registered_name"] = "keras_albert>AlbertBackbone"
    (folder / "config.json").write_text(json.dumps(value))


def kerashub(folder):
    folder.mkdir()
    names = {
        "vocabulary_size": 12,
        "num_layers": 1,
        "num_heads": 2,
        "hidden_dim": 8,
        "intermediate_dim": 16,
        "max_sequence_length": 6,
        "num_segments": 2,
    }
    value = {"registered_name": "keras_hub>BertBackbone", "config": names}
    (folder / "config.json").write_text(json.dumps(value))


def make_configs(root):
    """Configurations that are too large, too deep, not what they should be."""
    huggingface(root / "big_config", json.dumps({**CONFIG, "x": "y" * (2 << 20)}))
    huggingface(root / "deep_config", json.dumps(CONFIG)[:-1] + ', "x": ' + "[" * 100_000)
    huggingface(root / "twice_config", json.dumps(CONFIG)[:-1] + ', "hidden_size": 9}')
    huggingface(root / "nan_config", json.dumps({**CONFIG, "initializer_range": float("nan")}))
    huggingface(root / "list_config", "[1]")
    huggingface(root / "huge_hidden", {"hidden_size": 10**12})
    huggingface(root / "huge_vocabulary", {"vocab_size": 10**9})
    huggingface(root / "deep_model", {"num_hidden_layers": 10**6})
    huggingface(root / "string_size", {"hidden_size": "8"})
    huggingface(root / "negative_size", {"intermediate_size": -16})
    huggingface(root / "bad_heads", {"num_attention_heads": 3})
    # Within the bounds one by one; the file is small all the same.
    huggingface(root / "larger_than_file", {"vocab_size": 4_000_000, "hidden_size": 65_536})
    huggingface(root / "other_model", {"model_type": "gpt2"})
    huggingface(root / "foreign_activation", {"hidden_act": "os.system"})
    huggingface(root / "decoder", {"is_decoder": True})


def make_safetensors(root):
    """Files of weights whose header lies."""
    one = "embeddings.word_embeddings.weight"
    huggingface(root / "long_header", weights=safetensors({}, length=1 << 62))
    huggingface(root / "header_past_end", weights=safetensors({}, length=500))
    huggingface(root / "no_header", weights=b"\x01\x02")
    huggingface(root / "header_not_json", weights=safetensors(b"not json"))
    whole = {one: entry([12, 8], 0, 384)}
    huggingface(root / "truncated", weights=safetensors(whole, b"\0" * 100))
    huggingface(root / "past_end", weights=safetensors({one: entry([12, 8], 900, 1284)}, b"\0" * 4))
    other = {one: entry([12, 9], 0, 384)}
    huggingface(root / "shape_and_bytes", weights=safetensors(other, b"\0" * 384))
    overlapping = {one: entry([12, 8], 0, 384), "x": entry([96], 0, 384)}
    huggingface(root / "overlapping", weights=safetensors(overlapping, b"\0" * 384))
    twice = f'"{one}": {json.dumps(entry([96], 0, 384))}'
    header = f"{{{twice}, {twice}}}".encode()
    huggingface(root / "name_twice", weights=safetensors(header, b"\0" * 384))
    huge = {one: entry([1 << 40, 1 << 40], 0, 4)}
    huggingface(root / "huge_shape", weights=safetensors(huge, b"\0" * 4))
    shards(root / "shard_outside", {one: "../../../etc/passwd"})
    shards(root / "shard_absolute", {one: "/etc/passwd"})
    shards(root / "shard_missing", {one: "model-00001-of-00001.safetensors"})
    shards(root / "shard_count", {one: "model-00001-of-00099.safetensors"})
    shards(root / "shard_extra", {one: "model-00001-of-00001.safetensors"})
    extra = {one: entry([1], 0, 4), "more": entry([1], 4, 8)}
    path = root / "shard_extra" / "model-00001-of-00001.safetensors"
    path.write_bytes(safetensors(extra, b"\0" * 8))


def make_pickles(root):
    """`pytorch_model.bin` that would execute, or grow."""
    import torch

    marker = root / "EXECUTED"
    huggingface(root / "pickle", weights=b"", pytorch_model__bin=pickle.dumps(Executes(marker)))
    data = io.BytesIO()
    torch.save({"w": Executes(marker)}, data)
    huggingface(root / "zip_pickle", weights=b"", pytorch_model__bin=data.getvalue())
    data = io.BytesIO()
    expanded = torch.zeros(1).expand(1 << 20, 1 << 16)
    torch.save({"embeddings.word_embeddings.weight": expanded}, data)
    huggingface(root / "strides", weights=b"", pytorch_model__bin=data.getvalue())
    huggingface(root / "zip_bomb", weights=b"")
    with zipfile.ZipFile(root / "zip_bomb/pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", b"\0" * (1 << 26))
    huggingface(root / "not_torch", weights=b"", pytorch_model__bin=b"nothing of the kind")


def make_archives(root):
    """Archives that lead outside, link, or grow."""
    index = ("albert/model.ckpt.index", b"x", {})
    archive(root / "outside.tar.gz", index, ("../albert_config.json", b"{}", {}))
    archive(root / "absolute.tar.gz", index, ("/tmp/albert_config.json", b"{}", {}))
    link = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
    archive(root / "link.tar.gz", index, ("albert/vocab.txt", b"", link))
    hard = {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}
    archive(root / "hard_link.tar.gz", index, ("albert/vocab.txt", b"", hard))
    archive(root / "device.tar.gz", ("albert/vocab.txt", b"", {"type": tarfile.CHRTYPE}))
    archive(root / "bomb.tar.gz", ("albert/model.ckpt.data-00000-of-00001", b"\0" * (1 << 27), {}))
    noise = np.random.default_rng(0).bytes(20_000)
    archive(root / "cut.tar.gz", ("albert/model.ckpt.data-00000-of-00001", noise, {}))
    whole = (root / "cut.tar.gz").read_bytes()
    (root / "cut.tar.gz").write_bytes(whole[:10_000])
    archive(root / "two.tar.gz", ("a/vocab.txt", b"a", {}), ("b/vocab.txt", b"b", {}))
    zipped(root / "outside.zip", ("../albert_config.json", b"{}", 0))
    zipped(root / "absolute.zip", ("/tmp/albert_config.json", b"{}", 0))
    zipped(root / "link.zip", ("bert/vocab.txt", b"/etc/passwd", stat.S_IFLNK))
    zipped(root / "bomb.zip", ("bert/bert_model.ckpt.data-00000-of-00001", b"\0" * (1 << 27), 0))
    zipped(root / "flipped.zip", ("bert/bert_model.ckpt.data-00000-of-00001", noise, 0))
    content = bytearray((root / "flipped.zip").read_bytes())
    content[10_000] ^= 1
    (root / "flipped.zip").write_bytes(content)
    zipped(root / "locked.zip", ("bert/vocab.txt", b"[PAD]", 0))
    content = bytearray((root / "locked.zip").read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[6] |= 1  # "encrypted", before the data and in the directory
    content[directory + 8] |= 1
    (root / "locked.zip").write_bytes(content)


def make_links(root):
    """Files that are somewhere else."""
    secret = root.parent / "secret.txt"
    secret.write_text("secret")
    for name, file in (("config_link", "config.json"), ("weights_link", "model.safetensors")):
        huggingface(root / name)
        (root / name / file).unlink()
        (root / name / file).symlink_to(secret)


def make_keras(root):
    """Presets of KerasHub and of this package, and a `.keras` file."""
    import h5py

    for name in ("h5_link", "h5_external", "h5_bomb", "h5_broken", "h5_loop"):
        kerashub(root / name)
        path = root / name / "model.weights.h5"
        if name == "h5_broken":
            path.write_bytes(b"not HDF5")
            continue
        with h5py.File(path, "w") as file:
            if name == "h5_link":
                file["layers"] = h5py.ExternalLink("/etc/passwd", "/")
            elif name == "h5_external":
                secret = str(root.parent / "secret.txt")
                file.create_dataset("w", (6,), "u1", external=[(secret, 0, 6)])
            elif name == "h5_bomb":
                file.create_dataset("w", (1 << 28,), "f4", compression="gzip", fillvalue=0)
            else:
                file.create_group("layers")
                file["layers"]["again"] = file["layers"]
    small = {"vocabulary_size": 12, "num_layers": 1, "num_heads": 2, "embedding_dim": 4}
    small |= {"hidden_dim": 8, "intermediate_dim": 16, "max_sequence_length": 6}
    code = {"class_name": "Lambda", "module": "keras.layers", "registered_name": None}
    function = {"class_name": "__lambda__", "config": {"code": "4w=="}}
    code["config"] = {"name": "x", "function": function}
    own_preset(root / "own_lambda", {**small, "activation": code})
    foreign = {"module": "os", "class_name": "function", "config": "system"}
    foreign["registered_name"] = "system"
    own_preset(root / "own_foreign", {**small, "activation": foreign})
    own_preset(root / "own_deep", {**small, "x": json.loads("[" * 40 + "]" * 40)})
    own_preset(root / "own_huge", {**small, "vocabulary_size": 10**12})
    own_preset(root / "own_larger", {**small, "vocabulary_size": 4_000_000, "hidden_dim": 65_536})
    (root / "own_larger" / "model.weights.h5").write_bytes(b"small")
    with zipfile.ZipFile(root / "model.keras", "w") as file:
        file.writestr("config.json", json.dumps(code))


def make_tensorflow(root):
    """Checkpoints of TensorFlow that are not whole."""
    import tensorflow as tf

    for name in ("tf_cut_index", "tf_cut_data", "tf_shards"):
        folder = root / name
        folder.mkdir()
        names = ["bert/embeddings/word_embeddings", "bert/encoder/layer_0/output/dense/kernel"]
        tf.raw_ops.SaveV2(
            prefix=str(folder / "model.ckpt"),
            tensor_names=names,
            shape_and_slices=["", ""],
            tensors=[np.ones((12, 8), "float32"), np.ones((16, 8), "float32")],
        )
        (folder / "bert_config.json").write_text(json.dumps(CONFIG))
        data = folder / "model.ckpt.data-00000-of-00001"
        if name == "tf_cut_index":
            index = folder / "model.ckpt.index"
            index.write_bytes(index.read_bytes()[:40])
        elif name == "tf_cut_data":
            data.write_bytes(data.read_bytes()[:100])
        else:
            data.rename(folder / "model.ckpt.data-00000-of-00002")


MAKERS = (make_configs, make_safetensors, make_pickles, make_archives, make_links, make_keras)


def watch(root, temporary):
    """Load each of them in this process, and tell what it did; for a process of its own."""
    import h5py  # noqa: F401
    import safetensors  # noqa: F401
    import torch  # noqa: F401

    import keras_albert

    try:
        import tensorflow  # noqa: F401
    except ImportError:
        pass
    events, watching = [], []
    suspicious = ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")

    def audit(event, arguments):
        if not watching:
            return
        if event in suspicious:
            events.append(f"{event} {arguments}")
        elif event == "open" and isinstance(arguments[0], str):
            path, mode, flags = arguments
            writes = any(c in (mode or "") for c in "wax+") or (flags or 0) & (
                os.O_WRONLY | os.O_RDWR
            )
            secret = path.endswith(("secret.txt", "/etc/passwd"))
            own = path.startswith((str(temporary), "/dev/null", "/proc/"))
            if secret or (writes and not own and "__pycache__" not in path):
                events.append(f"open {path}")

    sys.addaudithook(audit)
    # What any load costs once: the first model, the readers' own modules.
    _attempt(keras_albert, root / "warm_up")
    start = _peak()
    results = {}
    for path in sorted(root.iterdir()):
        events.clear()
        watching.append(True)
        kind, message = _attempt(keras_albert, path)
        watching.clear()
        results[path.name] = [kind, message, list(events), _peak() - start]
    return results


def _peak():
    """The most memory so far, in MB; not ru_maxrss, which is taken over from the parent process."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else 0


def _attempt(keras_albert, path):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            keras_albert.AlbertPretrainer.from_preset(str(path), compile=False)
        except Exception as error:
            return type(error).__name__, str(error)
    return "loaded", ""


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    print(json.dumps(watch(folder, os.environ["TMPDIR"])))
