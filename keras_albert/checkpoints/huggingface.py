"""Directories of Hugging Face's transformers: ALBERT and BERT, with heads, by any class of theirs.

Names stand with `albert.` or `bert.` before those of the encoder in models with heads, and without
in bare ones. Both are read; buffers are dropped.
"""

from pathlib import Path

from keras_albert.checkpoints.configs import dropout_note, head_of, to_arguments
from keras_albert.checkpoints.files import MAX_INDEX_BYTES, inside, read_json
from keras_albert.checkpoints.names import HUGGINGFACE_ALBERT, HUGGINGFACE_BERT, TIED
from keras_albert.checkpoints.piece_models import read_fast_tokenizer
from keras_albert.checkpoints.stored import Checkpoint, Stored
from keras_albert.checkpoints.weight_files import read_weights

TABLES = {"albert": HUGGINGFACE_ALBERT, "bert": HUGGINGFACE_BERT}
HUB = "hf://"
_PATTERNS = ("*.json", "*.txt", "*.model", "*.spm")
_WEIGHTS = (("*.safetensors", "*.safetensors.index.json"), ("pytorch_model*.bin", "*.h5"))


def open_huggingface(directory: Path, name: str) -> Checkpoint:
    """Open a directory with a `config.json` of transformers; `name` is what the user called it."""
    config_path = inside(directory, "config.json")
    config = read_json(config_path)
    family = config.get("model_type")
    if family not in TABLES:
        raise ValueError(
            f"`model_type` of a checkpoint must be one of {sorted(TABLES)}. "
            f"Received: {family!r} in {config_path}"
        )
    tensors, dropped = _named(read_weights(directory), family, directory)
    shapes = {key: tensor.shape for key, tensor in tensors.items()}
    arguments = to_arguments(config, "huggingface", family, config_path, shapes)
    vocabulary, tokenizer_arguments, notes = _vocabulary(directory, family)
    called = f"{name} {config.get('_name_or_path', '')}"
    notes = [*dropout_note(called, arguments), *notes]
    return Checkpoint(
        directory,
        "huggingface",
        family,
        arguments,
        TABLES[family],
        tensors,
        dropped,
        vocabulary,
        tokenizer_arguments,
        notes,
        *head_of(config),
    )


def download(handle: str) -> Path:
    """The local directory of `hf://owner/name` or `hf://owner/name@revision`.

    Downloaded by huggingface_hub, into its cache and by its settings (`HF_HOME`, `HF_ENDPOINT`,
    `HF_HUB_OFFLINE`). Pickles are downloaded only where there are no safetensors.

    Raises:
        ImportError: huggingface_hub is not installed.
        ValueError: the handle is none, or the hub does not give it.
    """
    repository, _, revision = handle.removeprefix(HUB).partition("@")
    if repository.count("/") != 1 or ".." in repository:
        raise ValueError(
            "A handle of Hugging Face's hub must be 'hf://owner/name', or with '@revision' behind. "
            f"Received: {handle!r}"
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ImportError(
            "hf:// is read by huggingface_hub: pip install 'keras-albert[hf]'"
        ) from error
    directory = None
    for patterns in _WEIGHTS:
        try:
            directory = Path(
                snapshot_download(
                    repository, revision=revision or None, allow_patterns=[*_PATTERNS, *patterns]
                )
            )
        except Exception as error:  # the hub's and the transport's own kinds
            reason = str(error).strip().split("\n")[0]
            raise ValueError(
                f"Hugging Face's hub does not give this checkpoint. Received: {handle!r}: {reason}"
            ) from error
        if any(directory.glob("*.safetensors")):
            break
    return directory


def _named(stored: dict[str, Stored], family: str, directory: Path):
    """Tensors by the names of the tables, and the names that are left out."""
    tensors, dropped = {}, []
    for name, tensor in stored.items():
        key = name.removeprefix(f"{family}.")
        if key.endswith(("LayerNorm.gamma", "LayerNorm.beta")):  # files from before 2019
            key = key.replace(".gamma", ".weight").replace(".beta", ".bias")
        if key in ("embeddings.position_ids", "embeddings.token_type_ids"):
            dropped.append(name)
        elif key in tensors:
            raise ValueError(
                "A checkpoint must have each variable once, with or without "
                f"'{family}.' before its name. Received: {name!r} and {tensors[key].name!r} in "
                f"{directory}"
            )
        else:
            tensors[key] = tensor
    for second, first in TIED.items():
        if second in tensors and first not in tensors:
            tensors[first] = tensors.pop(second)
    return tensors, dropped


def _vocabulary(directory: Path, family: str):
    """The vocabulary's file, the tokenizer's arguments, and notes."""
    path = inside(directory, "tokenizer_config.json")
    config = read_json(path, MAX_INDEX_BYTES) if path else {}
    lowercase = config.get("do_lower_case", config.get("do_lowercase", True))
    for name in ("spiece.model", "30k-clean.model", "sentencepiece.bpe.model"):
        pieces = inside(directory, name)
        if pieces:
            strip = not config.get("keep_accents", False)
            return pieces, {"lowercase": bool(lowercase), "strip_accents": strip}, []
    words, arguments = inside(directory, "vocab.txt"), {"lowercase": bool(lowercase)}
    if isinstance(config.get("strip_accents"), bool):
        arguments["strip_accents"] = config["strip_accents"]
    if words:
        return words, arguments, []
    fast = inside(directory, "tokenizer.json")
    if fast is None:
        return None, {}, []
    saved = read_json(fast, MAX_INDEX_BYTES)
    try:
        pieces = read_fast_tokenizer(saved)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            "A unigram vocabulary must be a list of [piece, score], as transformers writes it. "
            f"Received: {fast} ({type(error).__name__}: {error})"
        ) from None
    if pieces:
        return *pieces, []
    normalizer = saved.get("normalizer") or {}
    model = saved.get("model") or {}
    ids = model.get("vocab")
    if model.get("type") == "WordPiece" and isinstance(ids, dict):
        tokens = sorted(ids, key=ids.get)
        if [ids[token] for token in tokens] == list(range(len(tokens))):
            if isinstance(normalizer.get("lowercase"), bool):
                arguments["lowercase"] = normalizer["lowercase"]
            return tokens, arguments, []
    return None, {}, [f"the vocabulary in {fast.name} is not in a form that can be read"]
