"""A task model's SavedModel and its assets, written under TensorFlow.

Imported only where TensorFlow is Keras' backend.
"""

import importlib.metadata
import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_albert.export import served_spans, served_tasks
from keras_albert.export.allowed_ops import check_ops
from keras_albert.export.manifest import ABOUT, EXTRA
from keras_albert.export.replay import ANSWERS, run, to_json

SERVED = {
    "AlbertMultipleChoice": served_tasks.ServedChoice,
    "AlbertPretrainer": served_tasks.ServedMaskFiller,
    "AlbertSpanExtractor": served_spans.ServedSpans,
    "AlbertTextClassifier": served_tasks.ServedClassifier,
    "AlbertTextEmbedder": served_tasks.ServedEmbedder,
    "AlbertTokenClassifier": served_tasks.ServedTagger,
}
VERSIONS = ("keras", "keras-albert", "keras-hub", "tensorflow", "tensorflow-text")
# One of each kind: plain, with accents and numbers, empty, not UTF-8.
RECORDED = [b"The cat sat on the [MASK].", "Café déjà vu in 2010, [MASK]!".encode(), b"", b"a \xff"]


def write(model, directory: Path, sequence_length: int, pair: bool, warmup_batch_sizes) -> None:
    """Write the SavedModel and all of `assets.extra` but the list of files."""
    task = SERVED[type(model).__name__](model, sequence_length, pair)
    signatures = make_signatures(task)
    holder = tf.Module()
    holder.variables_ = [weight.value for weight in model.weights]
    tf.saved_model.save(holder, str(directory), signatures=signatures)
    ops = check_ops(directory)
    extra = directory / EXTRA
    extra.mkdir()
    write_about(model, task, extra, ops, sequence_length)
    inputs = {name: recorded_strings(shape) for name, shape in task.strings.items()}
    write_answers(task, directory, inputs)
    if warmup_batch_sizes:
        from keras_albert.export.warmup import write_warmup

        write_warmup(extra, inputs, warmup_batch_sizes)


def make_signatures(task) -> dict:
    """The three signatures of a served task, as concrete functions."""
    specs = {name: tf.TensorSpec(shape, tf.string, name) for name, shape in task.strings.items()}
    # The strings' function is one, that two signatures call.
    answer = tf.function(task.answer_texts, autograph=False).get_concrete_function(**specs)
    features = {
        name: tf.io.FixedLenFeature([], tf.string)
        if len(shape) == 1
        else tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True)
        for name, shape in task.strings.items()
    }

    def examples(examples):
        return answer(**tf.io.parse_example(examples, features))

    functions = {
        "serving_default": (lambda **texts: answer(**texts), specs),
        "token_ids": (task.answer_ids, task.id_inputs()),
        "examples": (examples, {"examples": tf.TensorSpec([None], tf.string, "examples")}),
    }
    return {
        name: tf.function(function, autograph=False).get_concrete_function(**inputs)
        for name, (function, inputs) in functions.items()
    }


def write_about(model, task, extra: Path, ops, sequence_length) -> None:
    """Write the vocabulary, the labels and `about.json`."""
    encoder = task.tokenizer.encoder
    (extra / encoder.asset).write_bytes(encoder.vocabulary_bytes)
    labels = getattr(model, "class_names", None)
    if labels:
        (extra / "labels.txt").write_text("\n".join(labels) + "\n", encoding="utf-8")
    about = {
        "task": type(model).__name__,
        "sequence_length": sequence_length,
        "inputs": task.strings,
        "signatures": ["serving_default", "token_ids", "examples"],
        "labels": labels,
        "vocabulary": {
            "file": encoder.asset,
            "class_name": encoder.class_name,
            "normalization": encoder.normalization,
            "fingerprint": encoder.fingerprint(),
        },
        "versions": {name: importlib.metadata.version(name) for name in VERSIONS},
        "ops": ops,
    }
    text = json.dumps(about, indent=2, ensure_ascii=False)
    (extra / ABOUT).write_text(text + "\n", encoding="utf-8")


def recorded_strings(shape) -> np.ndarray:
    """Strings to record answers to; a second axis has options, the first row fewer of them."""
    texts = np.array(RECORDED, dtype=object)
    if len(shape) == 1:
        return texts
    options = np.stack([texts[::-1], np.roll(texts, 1)], axis=1)
    options[options == b""] = b"no"
    options[0, 1] = b""
    return options


def write_answers(task, directory: Path, inputs) -> None:
    """Load what was written, run every signature, and record inputs and outputs."""
    signatures = tf.saved_model.load(str(directory)).signatures
    calls = [
        ("serving_default", inputs),
        ("serving_default", {name: values[:0] for name, values in inputs.items()}),
        ("token_ids", recorded_ids(task)),
        ("examples", {"examples": np.array(as_examples(inputs), dtype=object)}),
    ]
    saved = []
    for name, arrays in calls:
        outputs = run(signatures[name], arrays)
        sides = {"inputs": arrays, "outputs": outputs}
        saved.append(
            {"signature": name}
            | {side: {key: to_json(x) for key, x in some.items()} for side, some in sides.items()}
        )
    (directory / ANSWERS).write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


def recorded_ids(task) -> dict[str, np.ndarray]:
    """Inputs of ids: rows of several lengths, the last with nothing but padding."""
    special = set(task.tokenizer.special_token_ids)
    usable = [id for id in range(task.tokenizer.vocabulary_size()) if id not in special]
    length = min(16, task.text.sequence_length)
    lengths = np.array([[length], [length // 2], [2], [0]])
    ids = np.resize(np.array(usable, "int32"), (4, length))
    mask = np.arange(length) < lengths
    x = {
        "token_ids": np.where(mask, ids, task.tokenizer.pad_token_id).astype("int32"),
        "segment_ids": np.zeros((4, length), "int32"),
        "padding_mask": mask,
    }
    if task.rank == 3:
        return {name: values.reshape(2, 2, length) for name, values in x.items()}
    if "mask_positions" in task.id_inputs():
        x["mask_positions"] = np.array([[1, 3], [1, 0], [0, 0], [0, 0]], "int32")
    return x


def as_examples(inputs) -> list[bytes]:
    """The strings as serialized `tf.train.Example`s, one for each row."""
    examples = []
    for row in zip(*inputs.values(), strict=True):
        features = {
            name: tf.train.Feature(bytes_list=tf.train.BytesList(value=np.atleast_1d(value)))
            for name, value in zip(inputs, row, strict=True)
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        examples.append(example.SerializeToString())
    return examples
