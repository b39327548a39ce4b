"""saved_model: a task model as a SavedModel that takes strings."""

import os
import shutil
from pathlib import Path

import keras
import numpy as np

from keras_albert.arguments import check, check_booleans, check_integers, is_integer, is_path
from keras_albert.export.conversion import convert
from keras_albert.export.manifest import write_manifest
from keras_albert.export.replay import read_answers
from keras_albert.export.tasks import check_task
from keras_albert.models.text_classifier import AlbertTextClassifier
from keras_albert.models.text_embedder import AlbertTextEmbedder

PAIRS = (AlbertTextClassifier, AlbertTextEmbedder)


def saved_model(
    model,
    directory: str | os.PathLike,
    sequence_length: int | None = None,
    pair: bool = False,
    warmup_batch_sizes: tuple[int, ...] = (),
) -> Path:
    """Write a task model as a SavedModel for TensorFlow Serving, with its tokenizer inside.

    Three signatures, all with named dense outputs:

    - `serving_default` takes strings: `text` (B,), with `pair` also `text_pair` (B,); for multiple
      choice `context` (B,) and `options` (B, N), where "" fills up the rows that have fewer; for
      spans `question` and `context` (B,). Texts are truncated in the graph, contexts of spans after
      32 windows; empty ones, invalid UTF-8 and an empty batch are answered.
    - `token_ids` takes the model's inputs, and has no ops on text. Rows are cut to
      `sequence_length`.
    - `examples` takes serialized `tf.train.Example`s (B,) with these strings as features.

    The outputs:

    - `AlbertTextClassifier`: `logits`, `probabilities` (B, C), `label` (B,); of a regression
      `value` (B,).
    - `AlbertTextEmbedder`: `vectors`.
    - `AlbertTokenClassifier`: `words`, `tags`, `probabilities`, `starts`, `ends` (B, W), for the
      words of the first `sequence_length` tokens; offsets are characters.
    - `AlbertMultipleChoice`: `logits`, `probabilities` (B, N), `choice` (B,).
    - `AlbertSpanExtractor`: `answer`, its characters `start` and `end` in the context, `score`,
      `null_score` and `null_odds`, each (B,); see `AlbertSpanExtractor.answer`.
    - `AlbertPretrainer`: `tokens`, `probabilities` (B, M, 5), the best for each [MASK].

    `assets.extra/` holds the vocabulary, the labels, what the export is (`about.json`), recorded
    answers, and the SHA-256 of every file; `serve_check` reads them. A model of JAX or PyTorch is
    converted in a process under TensorFlow, and its outputs are compared with the export's.

    Args:
        model: one of the models above, with a preprocessor.
        directory: a version directory, as `"served/1"`; its last part is a number, and it must not
            exist. It appears under its name when it is whole.
        sequence_length: S, to which texts are truncated; the preprocessor's by default.
        pair: whether a classifier or an embedder takes pairs of texts.
        warmup_batch_sizes: for each a request that the server runs before it is ready; needs
            `tensorflow-serving-api`.

    Returns:
        The directory's path.

    Raises:
        ValueError: an argument breaks its rule, or the model has ops that a stock server lacks.
        RuntimeError: the conversion failed, or the export answers otherwise than the model.
        ImportError: `tensorflow-serving-api` is asked for and not installed.

    Example:
    ```python
    keras_albert.export.saved_model(classifier, "served/1")
    served = tf.saved_model.load("served/1")  # after `import tensorflow_text`
    served.signatures["serving_default"](text=tf.constant(["not bad"]))["label"]
    ```
    """
    directory = _check(model, directory, sequence_length, pair, warmup_batch_sizes)
    options = {
        "sequence_length": sequence_length or model.preprocessor.sequence_length,
        "pair": pair,
        "warmup_batch_sizes": list(warmup_batch_sizes),
    }
    partial = directory.with_name(f".{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        convert(model, "writing", partial, options)
        compare(model, partial)
        write_manifest(partial)
        os.rename(partial, directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return directory


def compare(model, directory) -> None:
    """Raise a `RuntimeError` where the export's recorded outputs are not the model's own."""
    half = model.backbone.compute_dtype in ("float16", "bfloat16")
    tolerance = 5e-2 if half else 1e-4
    for signature, inputs, recorded in read_answers(directory):
        if signature != "token_ids":
            continue
        if "start_positions" in getattr(model, "input", {}):
            inputs["start_positions"] = np.zeros(len(inputs["token_ids"]), "int32")
        outputs = model(inputs, training=False)
        if not isinstance(outputs, dict):
            names = {"logits", "value", "vectors"} & set(recorded)
            outputs = dict.fromkeys(names, outputs)
        for name, output in outputs.items():
            expected = keras.ops.convert_to_numpy(keras.ops.cast(output, "float32"))
            expected = expected.reshape(recorded[name].shape)
            difference = float(np.abs(expected - recorded[name]).max(initial=0))
            if not difference <= tolerance * max(1.0, float(np.abs(expected).max(initial=0))):
                raise RuntimeError(
                    f"The export's {name!r} must equal the model's. They differ by {difference:.2g}"
                )


def _check(model, directory, sequence_length, pair, warmup_batch_sizes) -> Path:
    owner = "saved_model"
    check_task(owner, model)
    if model.preprocessor is None:
        raise ValueError(
            "To take strings, the model needs a tokenizer: make it with "
            f"`preprocessor={model.preprocessor_cls.__name__}(tokenizer)`. Received: none"
        )
    check(owner, "a directory's path", is_path, directory=directory)
    directory = Path(directory)
    if not (directory.name.isascii() and directory.name.isdigit()):
        raise ValueError(
            "`directory` must end with a version, a number, as TensorFlow Serving reads no other: "
            f"'served/1'. Received: {str(directory)!r}"
        )
    if directory.exists():
        raise ValueError(
            "`directory` must be new: an export is not changed, the next version is another. "
            f"Received: {str(directory)!r}, which exists"
        )
    if sequence_length is not None:
        # [CLS], two [SEP] and a token; of spans beside the question.
        question = getattr(model.preprocessor, "max_query_length", 0)
        check_integers(owner, question + 4, sequence_length=sequence_length)
        if sequence_length > model.backbone.max_sequence_length:
            raise ValueError(
                "`sequence_length` must not be above the backbone's max_sequence_length="
                f"{model.backbone.max_sequence_length}. Received: {sequence_length}"
            )
    check_booleans(owner, pair=pair)
    if pair and not isinstance(model, PAIRS):
        raise ValueError(
            "`pair` is of a classifier or an embedder; another task's inputs are fixed. "
            f"Received: pair=True for an {type(model).__name__}"
        )
    check(
        owner,
        "a list or tuple of integers of at least 1",
        lambda sizes: (
            isinstance(sizes, (list, tuple)) and all(is_integer(n) and n >= 1 for n in sizes)
        ),
        warmup_batch_sizes=warmup_batch_sizes,
    )
    return directory
