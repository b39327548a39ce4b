"""Oracles: the Keras models' own outputs; the number of parameters; the recorded base size."""

import keras
import numpy as np
import pytest

import keras_albert as ka
from tests.conftest import random_inputs, to_numpy
from tests.export import conftest as tasks

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

backend_free = pytest.mark.backend_free
TASKS = (
    tasks.classifier,
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


def session_of(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def run(session, x):
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, x), strict=True))


def inputs_of(model, batch, length):
    """Rows of 0 to `length` tokens."""
    lengths = np.linspace(0, length, batch).astype(int)
    x = random_inputs(batch, length, lengths=lengths)
    if isinstance(model, ka.AlbertMultipleChoice):
        x = {name: values[:, None] for name, values in x.items()}
    if isinstance(model, ka.AlbertPretrainer):
        x["mask_positions"] = np.minimum(lengths, length - 1)[:, None].astype("int32")
    return x


def expected(model, x, names):
    if "start_positions" in model.input:
        x = {**x, "start_positions": np.zeros(len(x["token_ids"]), "int32")}
    outputs = model(x, training=False)
    if not isinstance(outputs, dict):
        outputs = dict.fromkeys(names, outputs)
    return {name: to_numpy(outputs[name]) for name in names}


def same(model, session, x, atol=1e-5):
    found = run(session, x)
    wanted = expected(model, x, found)
    if "beam_ends" in wanted:
        # Where nothing can be, any place may stand.
        starts = wanted["beam_start_log_probs"] > -1e29
        ends = starts[..., None] & (wanted["beam_end_log_probs"] > -1e29)
        assert starts.any() and ends.any()
        for name in [name for name in wanted if name.startswith("beam_")]:
            possible = starts if name.startswith("beam_start") else ends
            for side in (found, wanted):
                side[name] = np.where(possible, side[name], 0)
    for name, value in wanted.items():
        value = value.reshape(found[name].shape)
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=atol, err_msg=name)


@pytest.mark.parametrize(
    "task",
    # Weights are read in one way: of the other backends two tasks will do.
    [
        pytest.param(
            task,
            id=task.__name__,
            marks=() if task in (tasks.classifier, tasks.beam_extractor) else backend_free,
        )
        for task in TASKS
    ],
)
def test_ids_are_answered_as_keras_does(task, tokenizer, tmp_path):
    model = task(tokenizer)
    path = ka.export.onnx(model, tmp_path / "model.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    session = session_of(path)
    least = 6 if task is tasks.beam_extractor else 1  # the layer wants as many as it looks for
    for batch, length in ((1, least), (5, 24), (64, 9), (3, 64)):
        same(model, session, inputs_of(model, batch, length))
    # Rows are cut to the model's positions; a row without a column and no row at all are answered.
    long = inputs_of(model, 3, 70)
    short = {n: x if n == "mask_positions" else x[..., :64] for n, x in long.items()}
    found = run(session, long)
    for name, value in run(session, short).items():
        np.testing.assert_array_equal(found[name], value)
    for batch, length in ((2, 0), (0, 8)):
        x = inputs_of(model, max(batch, 1), max(length, 1))
        x = {
            n: v[:batch] if n == "mask_positions" else v[:batch, ..., :length] for n, v in x.items()
        }
        for value in run(session, x).values():
            assert len(value) == batch
            assert np.isfinite(value).all()


ARCHITECTURES = [
    {"sharing": "all", "num_groups": 2},
    {"sharing": "all", "num_inner_repetitions": 2},
    {"sharing": "attention", "activation": "gelu"},
    {"sharing": "ffn", "activation": "relu"},
    {"sharing": "none", "embedding_dim": 12, "activation": "silu"},
    {"embedding_dim": 12, "project_embeddings": True, "activation": "tanh"},
]


def deep(**options):
    return ka.AlbertBackbone(
        **{
            "vocabulary_size": 50,
            "num_layers": 4,
            "num_heads": 2,
            "embedding_dim": 8,
            "hidden_dim": 12,
            "intermediate_dim": 16,
            "max_sequence_length": 32,
            "initializer_range": 0.3,
            **options,
        }
    )


@pytest.mark.parametrize("options", ARCHITECTURES, ids=str)
def test_every_sharing_plan_is_written(options, tmp_path):
    model = ka.AlbertTextClassifier(deep(**options), 3)
    session = session_of(ka.export.onnx(model, tmp_path / "model.onnx"))
    same(model, session, inputs_of(model, 4, 10))


@pytest.mark.parametrize(
    "options",
    [
        {"layers": "second_to_last", "pooling": None},
        {"layers": "sum_last_four", "pooling": "cls", "normalize": True},
        {"layers": "concat_last_four", "pooling": "mean"},
    ],
    ids=str,
)
def test_every_kind_of_features_is_written(options, tmp_path):
    model = ka.AlbertTextEmbedder(deep(num_inner_repetitions=2), **options)
    session = session_of(ka.export.onnx(model, tmp_path / "model.onnx"))
    same(model, session, inputs_of(model, 4, 10))


def test_a_pretrainer_without_a_sentence_head_is_written(tmp_path):
    model = ka.AlbertPretrainer(deep(), objective="none")
    session = session_of(ka.export.onnx(model, tmp_path / "model.onnx"))
    same(model, session, inputs_of(model, 4, 10))
    assert [output.name for output in session.get_outputs()] == ["mlm"]


def test_low_rank_updates_are_written(tmp_path):
    model = ka.AlbertTextClassifier(deep(), 3)
    model.backbone.enable_lora(rank=2)
    for variable in model.trainable_variables:
        variable.assign(keras.random.normal(variable.shape, stddev=0.3, seed=1))
    session = session_of(ka.export.onnx(model, tmp_path / "model.onnx"))
    same(model, session, inputs_of(model, 4, 10))


def stored_bytes(path):
    weights = onnx.load(path).graph.initializer
    return {weight.name: len(weight.raw_data) for weight in weights}


def test_a_weight_is_stored_once_whatever_the_depth(tmp_path):
    for depth in (1, 4):
        model = ka.AlbertPretrainer(deep(num_layers=depth))
        path = ka.export.onnx(model, tmp_path / f"{depth}.onnx")
        sizes = stored_bytes(path)
        weights = {n: size for n, size in sizes.items() if not n.startswith("constant/")}
        assert sum(weights.values()) == 4 * model.count_params()
        assert sum(sizes.values()) - sum(weights.values()) < 1_000


@pytest.mark.slow
@pytest.mark.backend_free
def test_a_base_model_takes_47_megabytes(tmp_path):
    backbone = ka.AlbertBackbone.from_preset("albert_base_v2", load_weights=False)
    path = ka.export.onnx(ka.AlbertTextClassifier(backbone, 2), tmp_path / "model.onnx")
    # 11,683,584 parameters (the paper's 12M), 4 bytes each.
    assert 46.7e6 < path.stat().st_size < 47.1e6


def test_fewer_bytes_for_nearly_the_same_answers(tmp_path):
    options = {"hidden_dim": 64, "intermediate_dim": 256, "num_heads": 4}
    model = ka.AlbertPretrainer(deep(**options, initializer_range=0.1))
    x = inputs_of(model, 16, 20)
    wanted = expected(model, x, ["mlm", "sentence"])
    sizes = {}
    for quantize, tolerance in ((None, 1e-5), ("float16", 8 * 2**-11), ("int8", 0.1)):
        path = ka.export.onnx(model, tmp_path / f"{quantize}.onnx", quantize=quantize)
        found = run(session_of(path), x)
        for name, value in wanted.items():
            scale = np.abs(value).max()
            assert np.abs(found[name] - value).max() < tolerance * scale, (quantize, name)
        sizes[quantize] = stored_bytes(path)
    matrices = sum(
        weight.shape[0] * weight.shape[1] for weight in model.weights if weight.ndim == 2
    )
    totals = {quantize: sum(size.values()) for quantize, size in sizes.items()}
    assert totals[None] - totals["float16"] == 2 * matrices
    # The tied table is whole, and what remains of the matrices is a quarter.
    tied = sizes["int8"]["embedding/token"]
    assert tied == sizes[None]["embedding/token"]
    assert totals["int8"] < totals[None] * 0.35

    classifier = ka.AlbertTextClassifier(model.backbone, 3)
    path = ka.export.onnx(classifier, tmp_path / "model.onnx", quantize="int8")
    assert "embedding/token" not in stored_bytes(path)  # its quantised twin alone
    del x["mask_positions"]
    found = run(session_of(path), x)["logits"]
    logits = expected(classifier, x, ["logits"])["logits"]
    assert np.abs(found - logits).max() < 0.1 * np.abs(logits).max()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": None}, "`model` of onnx must be one of AlbertMultipleChoice"),
        ({"path": 3}, "must be a file's path"),
        ({"quantize": "int4"}, r"must be one of \(None, 'float16', 'int8'\)"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, arguments, message):
    model = ka.AlbertTextClassifier(deep(), 2)
    with pytest.raises(ValueError, match=message):
        ka.export.onnx(**{"model": model, "path": tmp_path / "model.onnx", **arguments})
    assert not any(tmp_path.iterdir())


def test_models_that_cannot_be_written_are_refused(tmp_path):
    path = tmp_path / "model.onnx"
    model = ka.AlbertTextClassifier(deep(activation="elu"), 2)
    with pytest.raises(ValueError, match="knows the activations .* Received: 'elu'"):
        ka.export.onnx(model, path)
    model = ka.AlbertTextClassifier(deep(), 2)
    model.classifier.kernel.assign(np.full((12, 2), 1e5))
    with pytest.raises(ValueError, match="must be at most 65504. .*head/classifier/kernel"):
        ka.export.onnx(model, path, quantize="float16")
    model.classifier.kernel.assign(np.full((12, 2), np.nan))
    with pytest.raises(RuntimeError, match="'logits' must equal the model's"):
        ka.export.onnx(model, path)
    model = ka.AlbertTextClassifier(deep(), 2)
    model.classifier.quantize("int8")
    with pytest.raises(ValueError, match="in floating point: .*is int8"):
        ka.export.onnx(model, path)
    assert not any(tmp_path.iterdir())
