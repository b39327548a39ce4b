"""Oracle: the step over the whole batch, and on what a micro-batch computes, a closed form."""

import keras
import numpy as np
import pytest

import keras_albert
from keras_albert.training.accumulation import StepLoss, micro_batches, weights_of_step, whole_step
from tests.conftest import to_numpy
from tests.training.toy_pretraining import BATCH, STEPS, Equal, Steps, fit, make_model

OPTIMIZERS = {
    "lamb": lambda: None,  # `SkipNonFinite(Lamb)`, clipped by the global norm
    "adamw": lambda: keras_albert.AdamW(0.01, global_clipnorm=None, clipvalue=0.02),
}


def close(found, expected, tolerance=1e-6):
    for name, values in expected[0].items():
        np.testing.assert_allclose(
            found[0][name], values, rtol=tolerance, atol=tolerance, err_msg=name
        )
    for one, two in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, two, rtol=20 * tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_micro_batches_make_the_step_of_the_whole_batch(name):
    expected = fit(make_model(optimizer=OPTIMIZERS[name]()))
    for count in (2, 4) if name == "lamb" else (2,):
        model = make_model(optimizer=OPTIMIZERS[name](), accumulation_steps=count)
        close(fit(model), expected)
        assert int(model.optimizer.iterations) == STEPS  # the schedule counts whole steps


@pytest.mark.parametrize("masked", [True, False])
def test_parts_of_a_loss_add_up_to_that_of_all(masked):
    rng = np.random.default_rng(0)
    if masked:
        loss = keras_albert.training.MaskedLMLoss()
        y, shape = rng.integers(0, 5, (6, 2)), (6, 2, 5)
        weights = rng.integers(0, 2, (6, 2)).astype("float32")
    else:
        loss = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )
        y, shape, weights = rng.integers(0, 5, 6), (6, 5), np.array([3, 0, 0, 1, 0, 2.0], "float32")
    logits = rng.normal(size=shape).astype("float32")
    for given in (weights, None):
        whole = StepLoss(loss)
        expected = to_numpy(loss(y, logits, given))
        np.testing.assert_array_equal(to_numpy(whole(y, logits, given)), expected)
        totals = weights_of_step(whole, given)
        parts = []
        for rows in np.split(np.arange(6), 3):
            with whole_step(totals, 3):
                part = None if given is None else given[rows]
                parts.append(to_numpy(whole(y[rows], logits[rows], part)))
        np.testing.assert_allclose(np.mean(parts), expected, rtol=1e-6)


def test_micro_batches_are_every_kth_row():
    x = np.arange(12).reshape(6, 2)
    divided = micro_batches(({"a": x}, None), 3)
    np.testing.assert_array_equal(to_numpy(divided[0]["a"]), [x[0::3], x[1::3], x[2::3]])
    assert divided[1] is None
    with pytest.raises(ValueError, match="`accumulation_steps`.*Received: 6 examples.*=4"):
        micro_batches({"a": x}, 4)


def test_micro_batches_draw_masks_as_steps_do():
    """With a rate of 0, two micro-batches of equal examples are two steps over one of them."""

    def losses(data, steps, **compiled):
        model = make_model(0.3, optimizer=keras.optimizers.SGD(0.0), **compiled)
        kept = Steps()
        model.fit(data, steps_per_epoch=steps, callbacks=[kept], verbose=0)
        return kept.table()["loss"]

    first, second = losses(Equal(BATCH // 2), 2)
    assert abs(first - second) > 1e-3
    both = losses(Equal(), 1, accumulation_steps=2)
    np.testing.assert_allclose(both, [(first + second) / 2], rtol=1e-6)


def test_texts_of_an_odd_number_train_in_micro_batches():
    """The last batch is filled up; weights are those of the run over whole batches."""
    texts, labels = ["one two", "two", "three one", "one", "two three"], [0, 1, 0, 1, 1]
    found = []
    for count in (1, 2):
        keras.utils.set_random_seed(0)
        model = classifier()
        model.compile(keras.optimizers.SGD(0.1), accumulation_steps=count)
        model.fit(texts, labels, batch_size=2, epochs=2, shuffle=False, verbose=0)
        found.append([to_numpy(weight) for weight in model.weights])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def classifier():
    backbone = make_model().backbone
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "three"]
    preprocessor = keras_albert.AlbertPreprocessor(
        keras_albert.BertTokenizer(pieces), sequence_length=6
    )
    return keras_albert.AlbertTextClassifier(backbone, 2, preprocessor, dropout=0.0)


def test_a_saved_model_keeps_its_loss_and_its_micro_batches(tmp_path):
    model = make_model(accumulation_steps=2)
    plain, cut = make_model().get_compile_config(), model.get_compile_config()
    assert cut["loss"] == plain["loss"]
    assert (cut["accumulation_steps"], "accumulation_steps" in plain) == (2, False)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.accumulation_steps == 2
    assert fit(loaded)[0] == fit(model)[0]


def test_what_is_not_exact_is_refused():
    with pytest.raises(ValueError, match="`accumulation_steps` of compile must be .*steps=0"):
        make_model(accumulation_steps=0)
    with pytest.raises(ValueError, match="accumulation_steps=4.*Received: gradient_accum"):
        make_model(optimizer=keras_albert.Lamb(0.1, gradient_accumulation_steps=4))
    with pytest.raises(ValueError, match="accumulation_steps=2"):
        inner = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
        make_model(optimizer=keras_albert.SkipNonFinite(inner))
    with pytest.raises(ValueError, match="`accumulation_steps`.*at least 1.*=0"):
        make_model(accumulation_steps=0)
    with pytest.raises(ValueError, match="multiple.*1 x 3.*Received: 8"):
        fit(make_model(accumulation_steps=3))
    summed = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    with pytest.raises(ValueError, match="reductions.*Received.*'sum'"):
        make_model(accumulation_steps=2, loss={"mlm": summed, "sentence": summed})


def test_the_recipe_chooses_micro_batches_and_rate(capsys):
    pretrain = pytest.importorskip("keras_albert_recipes.pretrain", reason="it is installed")
    options = ["--preset", "albert_base_v2", "--batch-size", "32", "--output", "none"]

    def choose(*more, replicas=1):
        args = pretrain.parse([*options, *more])
        return pretrain.micro_batches_of(args, replicas), args.learning_rate, args.rate_words

    assert choose("--global-batch-size", "4096") == (128, 1.76e-3, "the paper's")
    count, rate, words = choose("--global-batch-size", "1024", replicas=8)
    assert (count, rate) == (4, 1.76e-3 / 2)  # a quarter of the batch, half of the rate
    assert words == "the paper's 0.00176 x sqrt(1,024 / 4,096)"
    assert choose("--learning-rate", "0.5") == (1, 0.5, "as asked for")
    tiny = pretrain.parse(["--output", "none"])
    assert pretrain.micro_batches_of(tiny, 1) == 1 and tiny.learning_rate == 1e-2
    with pytest.raises(SystemExit):
        choose("--global-batch-size", "100")
    assert "32 x 1: received 100" in capsys.readouterr().err
