"""load: a file that `keras_albert.export.onnx` wrote, as a model that takes strings."""

import base64
import json
import os
from pathlib import Path

from keras_albert.arguments import check, check_positive_integers, is_path
from keras_albert.preprocessing.encoders import SentencePieceEncoder, WordPieceEncoder
from keras_albert.runtime.tasks import TASKS

SETTINGS, VOCABULARY = "keras_albert", "vocabulary"  # keys of the file's metadata


def load(path: str | os.PathLike, num_threads: int | None = None):
    """Load a file of `keras_albert.export.onnx`.

    Args:
        path: the file's.
        num_threads: of one call; by default one for each core.

    Returns:
        A model of `keras_albert.runtime.tasks` with the methods of the Keras model that was
        exported: `predict`, and `predict_classes`, `tag`, `answer` or `fill_mask`.

    Raises:
        ValueError: it is no such file, is damaged, or holds no tokenizer.
        ImportError: `onnxruntime` is not installed.

    Example:
    ```python
    model = keras_albert.runtime.load("model.onnx")
    model.predict_classes(["not bad"])  # [("yes", 0.83)]
    ```
    """
    check("load", "a file's path", is_path, path=path)
    if num_threads is not None:
        check_positive_integers("load", num_threads=num_threads)
    if not Path(path).is_file():
        raise ValueError(
            "`path` must be a file that keras_albert.export.onnx wrote. "
            f"Received: no file {str(path)!r}"
        )
    session = open_session(path, num_threads or 0)
    stored = session.get_modelmeta().custom_metadata_map
    if SETTINGS not in stored:
        raise ValueError(
            "`path` must be a file that keras_albert.export.onnx wrote. Received: "
            f"{str(path)!r}, an ONNX file of another program"
        )
    about = json.loads(stored[SETTINGS])
    if VOCABULARY not in stored:
        raise ValueError(
            "To take strings, a file must have been exported from a model with a preprocessor. "
            f"Received: {str(path)!r}, which holds no tokenizer"
        )
    encoder = make_encoder(about["tokenizer"], base64.b64decode(stored[VOCABULARY]))
    if encoder.fingerprint() != about["tokenizer"]["fingerprint"]:
        raise ValueError(
            "The vocabulary must be the one that the model was exported with, fingerprint "
            f"{about['tokenizer']['fingerprint'][:12]}. Received: {str(path)!r}, fingerprint "
            f"{encoder.fingerprint()[:12]}"
        )
    return TASKS[about["task"]](session, about, Tokenizer(encoder))


def open_session(path, num_threads):
    """A session of onnxruntime on the CPU."""
    try:
        import onnxruntime
    except ImportError:
        raise ImportError("ONNX files are run with `pip install onnxruntime`") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    try:
        return onnxruntime.InferenceSession(
            os.fspath(path), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # its errors have no class in common
        raise ValueError(
            f"`path` must be an ONNX file that is whole. Received: {str(path)!r}: {error}"
        ) from None


def make_encoder(about: dict, vocabulary: bytes):
    """The encoder of a tokenizer's class, normalisation and vocabulary."""
    if about["class_name"] == SentencePieceEncoder.class_name:
        return SentencePieceEncoder(vocabulary, **about["normalization"])
    return WordPieceEncoder(vocabulary.decode("utf-8").split("\n"), **about["normalization"])


class Tokenizer:
    """What tasks ask of a tokenizer: ids of texts, and special tokens."""

    mask_token = "[MASK]"

    def __init__(self, encoder):
        self.encoder = encoder
        self.encode_batch = encoder.encode_batch
        self.vocabulary_size = encoder.vocabulary_size
        self.id_to_token = encoder.tokens.__getitem__
        id_of = encoder.tokens.index
        self.cls_token_id = id_of("[CLS]")
        self.sep_token_id = id_of("[SEP]")
        self.mask_token_id = id_of(self.mask_token)
        is_albert = encoder.class_name == SentencePieceEncoder.class_name
        self.pad_token_id = id_of("<pad>" if is_albert else "[PAD]")
        self.unk_token_id = id_of("<unk>" if is_albert else "[UNK]")
