"""Oracles: plain loops over each example's logits, losses by hand, the model without exits."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import keras_albert as ka
from keras_albert.models.exit_steps import DepthSteps, leaving_depths
from tests.conftest import random_inputs, to_numpy

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "fine", "bad", "awful", "film"]
TEXTS = ["good", "good film", "fine film", "fine", "bad", "bad film", "awful film", "awful"]
LABELS = [1, 1, 1, 1, 0, 0, 0, 0]
LENGTHS = [3, 10, 5, 8, 2, 10, 6, 4, 9, 3, 7, 10, 5, 2, 8, 6]
COUNT = len(LENGTHS)
DEPTHS = 4
OWN = ("patience", "exit_threshold")


def classifier(num_classes=3, preprocessor=None, dropout=0.0, dtype=None, **arguments):
    own = {name: arguments.pop(name) for name in OWN if name in arguments}
    sizes = {
        "vocabulary_size": 40,
        "num_layers": DEPTHS,
        "num_heads": 2,
        "embedding_dim": 8,
        "hidden_dim": 12,
        "intermediate_dim": 16,
        "max_sequence_length": 16,
        "initializer_range": 0.3,  # larger than in use, so that heads disagree
        "dtype": dtype,
    }
    backbone = ka.AlbertBackbone(**{**sizes, **arguments})
    own = {"preprocessor": preprocessor, "dropout": dropout, "early_exit": True, **own}
    return ka.AlbertTextClassifier(backbone, num_classes, **own)


def reader():
    return ka.AlbertPreprocessor(ka.BertTokenizer(WORDS), sequence_length=8)


def pooled_by_hand(model, x):
    """(B, L, H): every depth's [CLS] through the pooler."""
    backbone = model.backbone
    embedded = backbone.embedding(x["token_ids"], segment_ids=x["segment_ids"])
    pooled = []
    for block in backbone.encoder.blocks:
        embedded = block(embedded, attention_mask=x["padding_mask"])
        pooled.append(to_numpy(keras.ops.cast(backbone.pooler(embedded), "float32")))
    return np.stack(pooled[backbone.num_inner_repetitions - 1 :: backbone.num_inner_repetitions], 1)


def logits_by_hand(model, x):
    """(B, L, C): by that depth's own matrix."""
    kernels = [*to_numpy(model.exits.kernel), to_numpy(model.classifier.kernel)]
    biases = [*to_numpy(model.exits.bias), to_numpy(model.classifier.bias)]
    return np.einsum("blh,lhc->blc", pooled_by_hand(model, x), kernels) + np.stack(biases)


def all_heads(model, x):
    """(B, L, C) as in training: without dropout, and without `predict`, which would compile."""
    return to_numpy(model(x, training=True))


def left_by_hand(logits_LC, patience, threshold):
    """The depth at which one example leaves."""
    agreements = 0
    for depth in range(2, len(logits_LC) + 1):
        before, now = list(logits_LC[depth - 2]), list(logits_LC[depth - 1])
        if len(now) == 1:
            same = abs(now[0] - before[0]) < threshold
        else:
            same = before.index(max(before)) == now.index(max(now))
        agreements = agreements + 1 if same else 0
        if agreements == patience:
            return depth
    return len(logits_LC)


shapes = st.tuples(st.integers(1, 5), st.integers(2, 7), st.integers(1, 3))
logits = arrays.arrays("float32", shapes, elements=st.integers(0, 2).map(float))


@given(logits, st.integers(1, 8), st.sampled_from([0.5, 1.5]))
def test_the_decision_is_that_of_a_plain_loop(logits_BLC, patience, threshold):
    expected = [left_by_hand(logits_LC, patience, threshold) for logits_LC in logits_BLC]
    assert leaving_depths(logits_BLC, patience, threshold).tolist() == expected


PLANS = {
    "all": {},
    "none": {"sharing": "none"},
    "attention": {"sharing": "attention", "num_groups": 2},
    "inner": {"num_inner_repetitions": 2},
    "number": {"num_classes": 1, "exit_threshold": 0.5},
}


@pytest.mark.parametrize("plan", PLANS)
def test_examples_leave_one_by_one_and_the_others_do_not_notice(plan, monkeypatch):
    model = classifier(**PLANS[plan])
    if keras.backend.backend() == "tensorflow":
        model.compile(jit_compile=plan == "all")
    x = random_inputs(batch=COUNT, lengths=LENGTHS)
    make_heads_differ(model, x)
    expected_BLC = logits_by_hand(model, x)
    every = model.predict_depths(x, verbose=0)
    np.testing.assert_allclose(every, expected_BLC, rtol=0, atol=1e-5)
    order = np.random.default_rng(1).permutation(COUNT)
    sizes = spy_on_rows(monkeypatch)
    seen = set()
    for patience in (1, 2):
        left_at = [left_by_hand(rows, patience, model.exit_threshold) for rows in expected_BLC]
        seen |= set(left_at)
        sizes.clear()
        found, depths = model.predict_exits(x, patience, verbose=0)
        assert depths.tolist() == left_at
        expected = expected_BLC[np.arange(COUNT), np.array(left_at) - 1]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        assert sizes == rows_by_hand(left_at, model.jit_compile)

        # Of each example alone, whatever its place and its batch.
        moved = {name: values[order] for name, values in x.items()}
        found, depths = model.predict_exits(moved, patience, batch_size=4, verbose=0)
        assert depths.tolist() == [left_at[place] for place in order]
        np.testing.assert_allclose(found, expected[order], rtol=0, atol=1e-5)
    assert len(seen) > 2


def make_heads_differ(model, x):
    """Biases by which no head has the same class for most of the examples."""
    middle_LC = np.mean(logits_by_hand(model, x), axis=0)
    model.exits.bias.assign(-middle_LC[:-1])
    model.classifier.bias.assign(-middle_LC[-1])


def spy_on_rows(monkeypatch):
    """A list that gets the number of rows of every depth that is computed."""
    sizes, advance = [], DepthSteps.advance

    def spy(self, depth, x, mask):
        sizes.append(x.shape[0])
        return advance(self, depth, x, mask)

    monkeypatch.setattr(DepthSteps, "advance", spy)
    return sizes


def rows_by_hand(left_at, uses_xla):
    """At every depth those that are left; with XLA the next power of two, but never over all."""
    sizes = [sum(1 for left in left_at if left > depth) for depth in range(max(left_at))]
    if not uses_xla:
        return sizes
    return [min(next(2**k for k in range(9) if 2**k >= size), len(left_at)) for size in sizes]


def test_without_patience_it_is_the_model_without_exits():
    model = classifier()
    x = random_inputs(batch=COUNT, lengths=LENGTHS)
    make_heads_differ(model, x)
    plain = ka.AlbertTextClassifier(model.backbone, 3, dropout=0.0)
    plain.classifier.set_weights(model.classifier.get_weights())
    expected = plain.predict(x, verbose=0)
    assert len(model.trainable_weights) == len(plain.trainable_weights) + 2
    for patience in (None, DEPTHS - 1, 100):
        model.patience = patience
        np.testing.assert_allclose(model.predict(x, verbose=0), expected, rtol=0, atol=1e-5)
        found, depths = model.predict_exits(x, verbose=0)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        assert set(depths) == {DEPTHS}
    model.patience = 1
    early, _ = model.predict_exits(x, verbose=0)
    assert np.abs(early - expected).max() > 0.01
    np.testing.assert_array_equal(model.predict(x, verbose=0), early)
    np.testing.assert_array_equal(model.predict_on_batch(x), early)
    # The model's own function is made once, and is there again.
    made = model._made.whole
    model.patience = None
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, rtol=0, atol=1e-5)
    assert model._made.whole is made
    # New weights are seen, with and without a new compilation.
    model.patience = 1
    model.exits.bias.assign(model.exits.bias + np.array([9.0, 0.0, 0.0]))
    found, depths = model.predict_exits(x, verbose=0)
    assert set(depths) == {2} and set(found.argmax(axis=-1)) == {0}


@pytest.mark.parametrize(
    ("accumulation_steps", "weighted", "dtype"),
    [(1, False, None), (2, True, None), (1, True, "mixed_bfloat16")],
)
def test_the_loss_is_of_all_heads_the_deeper_the_heavier(accumulation_steps, weighted, dtype):
    model = classifier(dtype=dtype, num_layers=2)
    x = random_inputs(batch=6, lengths=LENGTHS[:6])
    y = np.array([0, 1, 2, 2, 1, 0])
    weights = np.array([1.0, 0.5, 2.0, 0.0, 3.0, 1.0]) if weighted else np.ones(6)
    pooled_BLH, logits_BLC = pooled_by_hand(model, x), logits_by_hand(model, x)
    shifted = np.exp(logits_BLC - logits_BLC.max(axis=-1, keepdims=True))
    chances = shifted / shifted.sum(axis=-1, keepdims=True)
    losses_BL = -np.log(chances[np.arange(6), :, y])
    losses_L = (losses_BL * weights[:, None]).sum(axis=0) / weights.sum()
    expected = (losses_L * [1, 2]).sum() / 3
    model.compile(keras.optimizers.SGD(0.1), accumulation_steps=accumulation_steps)
    before = [to_numpy(model.exits.kernel), to_numpy(model.classifier.kernel)]
    given = {"sample_weight": weights} if weighted else {}
    history = model.fit(x, y, batch_size=6, verbose=0, shuffle=False, **given).history
    tolerance = 0.03 if dtype else 1e-5
    np.testing.assert_allclose(history["loss"], [expected], rtol=tolerance)
    right = (logits_BLC[:, -1].argmax(axis=-1) == y) * weights
    if not dtype:
        np.testing.assert_allclose(history["accuracy"], [right.sum() / weights.sum()], rtol=1e-5)

    # Closed form of a head's gradient: pooled' (softmax - onehot), in the weight of its depth.
    moved = [to_numpy(model.exits.kernel), to_numpy(model.classifier.kernel)]
    steps_LHC = np.concatenate([before[0] - moved[0], [before[1] - moved[1]]]) / 0.1
    errors_BLC = chances - np.eye(3)[y][:, None]
    errors_BLC *= (weights / weights.sum())[:, None, None] * np.array([1, 2])[:, None] / 3
    expected_LHC = np.einsum("blh,blc->lhc", pooled_BLH, errors_BLC)
    np.testing.assert_allclose(steps_LHC, expected_LHC, rtol=0, atol=0.02 if dtype else 1e-5)


@pytest.mark.slow
def test_all_heads_learn_and_files_keep_them(tmp_path):
    sizes = {"vocabulary_size": len(WORDS), "num_layers": 3, "initializer_range": 0.2}
    model = classifier(2, reader(), **sizes)
    model.compile(learning_rate=1e-2)
    history = model.fit(TEXTS, LABELS, epochs=40, batch_size=8, verbose=0).history
    assert history["loss"][-1] < 0.4 * history["loss"][0]
    assert history["accuracy"][-1] == 1
    x = {name: to_numpy(values) for name, values in model.preprocessor(TEXTS).items()}
    every = all_heads(model, x)
    np.testing.assert_array_equal(every.argmax(axis=-1), np.repeat(np.array(LABELS)[:, None], 3, 1))
    rows = model.choose_patience(TEXTS, LABELS, verbose=0)
    assert [tuple(row) for row in rows] == [(1, 1.0, 2.0), (None, 1.0, 3.0)]
    assert model.patience == 1
    # At the second head, which is now wrong; all depths, which evaluation is of, are not.
    model.exits.bias.assign(model.exits.bias + np.array([99.0, 0.0]))
    assert {found for found, _ in model.predict_classes(TEXTS, verbose=0)} == {0}
    assert model.evaluate(TEXTS, LABELS, verbose=0)[1] == 1

    model.exit_threshold = 0.3
    model.save(tmp_path / "model.keras")
    model.save_to_preset(tmp_path / "preset")
    for loaded in (
        keras.saving.load_model(tmp_path / "model.keras"),
        ka.AlbertTextClassifier.from_preset(tmp_path / "preset"),
    ):
        assert (loaded.patience, loaded.exit_threshold, loaded.early_exit) == (1, 0.3, True)
        np.testing.assert_allclose(all_heads(loaded, x), all_heads(model, x), rtol=0, atol=1e-5)


def test_the_table_is_what_predictions_at_each_patience_make():
    model = classifier(sharing="none")
    x = random_inputs(batch=40, length=12, seed=1)
    every_BLC = all_heads(model, x)
    y = every_BLC[:, -1].argmax(axis=-1)
    y[:8] = (y[:8] + 1) % 3  # all depths are right of 80%
    rows = model.choose_patience(x, y, tolerance=0.0, batch_size=40, verbose=0)
    assert [row.patience for row in rows] == [1, 2, None]
    assert rows[-1].accuracy == 0.8 and rows[-1].depth == DEPTHS
    assert rows[0].accuracy < 0.8 and rows[0].depth < rows[1].depth < DEPTHS
    for patience, accuracy, depth in rows:
        left_at = [left_by_hand(rows_LC, patience, 0) for rows_LC in every_BLC]
        right = [every_BLC[i, left - 1].argmax() == y[i] for i, left in enumerate(left_at)]
        assert accuracy == np.mean(right)
        assert depth == np.mean(left_at)
    for tolerance in (0.0, *(0.8 - row.accuracy + 1e-9 for row in rows[:2]), 1.0):
        model.choose_patience(x, y, tolerance, batch_size=40, verbose=0)
        fit = [row.patience for row in rows if row.accuracy >= 0.8 - tolerance]
        assert model.patience == fit[0]


def test_merged_lora_keeps_the_heads():
    model = classifier(patience=1, num_layers=2)
    x = random_inputs(batch=6)
    before = all_heads(model, x)
    model.backbone.enable_lora(2)
    for layer in model.backbone._flatten_layers():
        if getattr(layer, "lora_enabled", False):  # the other factor is random
            layer.lora_kernel_b.assign(np.full(layer.lora_kernel_b.shape, 0.5))
    merged = model.merge_lora()
    assert merged.patience == 1
    found = all_heads(merged, x)
    assert np.abs(found - before).max() > 0.01
    np.testing.assert_allclose(found, all_heads(model, x), rtol=0, atol=1e-5)
    logits, depths = model.predict_exits(x, verbose=0)  # computed with the updates
    np.testing.assert_allclose(logits, found[np.arange(6), depths - 1], rtol=0, atol=1e-5)


@pytest.mark.backend_free
def test_an_export_is_of_all_depths(tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    model = classifier(2, reader(), patience=1, vocabulary_size=len(WORDS))
    x = {name: to_numpy(values) for name, values in model.preprocessor(TEXTS).items()}
    ka.export.onnx(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    found = session.run(["logits"], {**x, "padding_mask": x["padding_mask"].astype(bool)})[0]
    np.testing.assert_allclose(found, all_heads(model, x)[:, -1], rtol=0, atol=1e-5)


def test_patience_needs_heads():
    plain = ka.AlbertTextClassifier(classifier().backbone, 3)
    with pytest.raises(ValueError, match="`patience` needs a trained head"):
        plain.patience = 2
    with pytest.raises(ValueError, match="`early_exit` of predict_exits must be True"):
        plain.predict_exits(random_inputs())
    with pytest.raises(ValueError, match="at least 2 layers"):
        classifier(num_layers=1)
    with pytest.raises(ValueError, match="num_classes of at least 2"):
        classifier(1).choose_patience(random_inputs(), [0, 0, 0])
    with pytest.raises(ValueError, match="`num_layers` cannot change.*num_layers=8 for .* of 4"):
        ka.checkpoints.change_architecture(classifier(), num_layers=8)
    model = classifier(2)
    for y, message in (
        ([0, 1], "as many of each.*3 examples and 2 labels"),
        ([0, 2, 0], "from 0 to 1"),
        (None, "a label for every example"),
    ):
        with pytest.raises(ValueError, match=message):
            model.choose_patience(random_inputs(), y, verbose=0)
    with pytest.raises(ValueError, match="`tolerance` of choose_patience.*at least 0"):
        model.choose_patience(random_inputs(), [0, 1, 0], tolerance=-0.1)
    for patience in (0, 1.5, "2"):
        rule = "`patience` of .* must be None or an integer of at least 1"
        with pytest.raises(ValueError, match=rule):
            model.patience = patience
        with pytest.raises(ValueError, match=rule):
            model.predict_exits(random_inputs(), patience)
    assert model.patience is None
