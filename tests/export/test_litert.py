"""Oracle: the Keras models' own outputs, whatever backend they are of."""

import warnings

import keras
import numpy as np
import pytest

import keras_albert as ka
from tests.export import conftest as tasks
from tests.export.conftest import LENGTH
from tests.export.test_onnx import deep, expected, inputs_of

tf = pytest.importorskip("tensorflow")

# What a conversion costs on other backends is a process under TensorFlow for each.
IN_PROCESS = keras.backend.backend() == "tensorflow"
ALL = (  # a classifier is below
    tasks.regression,
    tasks.embedder,
    tasks.tagger,
    tasks.chooser,
    tasks.filler,
    tasks.extractor,
    tasks.beam_extractor,
)


@pytest.fixture(scope="module")
def tokenizer():
    return tasks.make_tokenizer(ka.AlbertTokenizer)


def runner_of(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it will be a package of its own
        return tf.lite.Interpreter(str(path)).get_signature_runner("serving_default")


def same(model, path, x, atol=1e-5):
    found = runner_of(path)(**x)
    wanted = expected(model, x, found)
    if "beam_starts" in wanted:  # where nothing can be, any place may stand
        possible = wanted["beam_start_log_probs"] > -1e29
        assert (found["beam_starts"] == wanted["beam_starts"])[possible].all()
        assert possible.any()
    for name, value in wanted.items():
        if not name.startswith("beam_"):
            value = value.reshape(found[name].shape)
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=atol, err_msg=name)


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(
            task,
            id=task.__name__,
            marks=() if task is tasks.tagger else (pytest.mark.slow, pytest.mark.backend_free),
        )
        for task in ALL
    ],
)
def test_ids_are_answered_as_keras_does(task, tokenizer, tmp_path):
    model = task(tokenizer)
    path = ka.export.litert(model, tmp_path / "model.tflite", length=LENGTH)
    assert [file.name for file in tmp_path.iterdir()] == ["model.tflite"]
    for batch in (5, 1):
        # Without the first row, which is empty: no vector of nothing can be scaled to a length.
        x = inputs_of(model, 1 + batch, LENGTH)
        x = {name: values[1:] for name, values in x.items()}
        same(model, path, x)


@pytest.mark.slow
@pytest.mark.backend_free
def test_int8_is_smaller_and_answers_nearly_the_same(tokenizer, tmp_path):
    backbone = deep(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        hidden_dim=96,
        intermediate_dim=512,
        num_heads=4,
        initializer_range=0.1,
    )
    preprocessor = ka.AlbertPreprocessor(tokenizer, sequence_length=LENGTH)
    model = ka.AlbertTextClassifier(backbone, 3, preprocessor)
    texts = tasks.texts_of(24)
    x = preprocessor(texts)
    wanted = expected(model, x, ["logits"])["logits"]
    spread = np.abs(wanted - wanted.mean(0)).max()
    size = 4 * model.count_params()
    for representative, tolerance in ((None, 0.25), (texts, 1.5)):
        path = ka.export.litert(
            model,
            tmp_path / "model.tflite",
            length=LENGTH,
            quantize="int8",
            representative=representative,
        )
        assert path.stat().st_size < 0.6 * size
        found = runner_of(path)(**{k: np.asarray(v) for k, v in x.items()})["logits"]
        error = np.abs(found - wanted).max()
        assert 0 < error < tolerance * spread, representative is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": None}, "`model` of litert must be one of AlbertMultipleChoice"),
        ({"path": 3}, "must be a file's path"),
        ({"length": 3}, "an integer of at least 4"),
        ({"length": 33}, "must not be above the backbone's max_sequence_length=32"),
        ({"quantize": "float16"}, r"must be one of \(None, 'int8'\)"),
        ({"representative": ["a"]}, "goes with quantize='int8'"),
        ({"representative": ["a"], "quantize": "int8"}, "has a preprocessor"),
    ],
)
@pytest.mark.backend_free
def test_what_cannot_be_written_is_refused(tmp_path, arguments, message):
    model = ka.AlbertTextClassifier(deep(), 2)
    defaults = {"model": model, "path": tmp_path / "model.tflite", "length": 8}
    with pytest.raises(ValueError, match=message):
        ka.export.litert(**{**defaults, **arguments})
    assert not any(tmp_path.iterdir())
