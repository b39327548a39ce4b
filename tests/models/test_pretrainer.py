"""Oracles: a batch learned by heart, invariants, agreement with the layers underneath."""

import keras
import numpy as np
import pytest

import keras_albert
from keras_albert.layers.sharing import STRATEGIES
from tests.conftest import random_inputs, to_numpy
from tests.models.test_backbone import make, outputs_of


def batch(size=4, length=10, slots=3, seed=0):
    rng = np.random.default_rng(seed)
    x = random_inputs(size, length, lengths=rng.integers(5, length + 1, size), seed=seed)
    x["mask_positions"] = np.stack([rng.permutation(5)[:slots] for _ in range(size)])
    weights = np.ones((size, slots), "float32")
    weights[0, 1:] = 0.0
    y = {
        "mlm": rng.integers(5, 40, (size, slots)).astype("int32"),
        "sentence": np.arange(size).astype("int32") % 2,
    }
    return x, y, {"mlm": weights, "sentence": np.ones(size, "float32")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "sharing",
    [pytest.param(s, marks=[] if s == "all" else pytest.mark.backend_free) for s in STRATEGIES],
)
def test_one_batch_is_learned_by_heart(sharing):
    wide = {"hidden_dim": 48, "num_heads": 4, "intermediate_dim": 96, "embedding_dim": 24}
    model = keras_albert.AlbertPretrainer(make(sharing=sharing, initializer_range=0.02, **wide))
    schedule = keras_albert.WarmupPolynomialDecay(0.03, 20, 200)
    model.compile(keras_albert.Lamb(schedule, weight_decay=0.0))
    x, y, weights = batch()
    for _ in range(200):
        losses = model.train_on_batch(x, y, weights, return_dict=True)
    scores = model.test_on_batch(x, y, weights, return_dict=True)
    assert float(scores["loss"]) < 0.02, (losses, scores)
    assert float(scores["mlm_accuracy"]) == float(scores["sentence_accuracy"]) == 1.0


def test_compiled_without_arguments_it_has_both_losses_and_accuracies():
    model = keras_albert.AlbertPretrainer(make())
    x, y, weights = batch()
    scores = model.test_on_batch(x, y, weights, return_dict=True)
    outputs = outputs_of(model, x)

    def cross_entropy(logits, targets):
        log_sum = np.log(np.exp(logits).sum(-1))
        return log_sum - np.take_along_axis(logits, targets[..., None], -1)[..., 0]

    w = weights["mlm"]
    mlm = (w * cross_entropy(outputs["mlm"], y["mlm"])).sum() / (w.sum() + 1e-5)
    sentence = cross_entropy(outputs["sentence"], y["sentence"]).mean()
    hits = outputs["mlm"].argmax(-1) == y["mlm"]
    expected = {
        "mlm_loss": mlm,
        "sentence_loss": sentence,
        "loss": mlm + sentence,
        "mlm_accuracy": (w * hits).sum() / w.sum(),
        "sentence_accuracy": (outputs["sentence"].argmax(-1) == y["sentence"]).mean(),
    }
    assert set(scores) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(float(scores[name]), value, rtol=1e-5, err_msg=name)


def test_the_weights_of_the_labels_count():
    model = keras_albert.AlbertPretrainer(make())
    x, y, weights = batch()
    plain = model.test_on_batch(x, y, weights, return_dict=True)
    y["mlm"][weights["mlm"] == 0] = 39  # slots that are not used
    same = model.test_on_batch(x, y, weights, return_dict=True)
    np.testing.assert_allclose(float(same["mlm_loss"]), float(plain["mlm_loss"]), rtol=1e-6)
    nothing = {name: 0 * value for name, value in weights.items()}
    assert float(model.test_on_batch(x, y, nothing, return_dict=True)["loss"]) == 0.0


def test_the_decoder_is_the_embedding_table():
    model = keras_albert.AlbertPretrainer(make())
    tables = [v for v in model.trainable_variables if tuple(v.shape) == (40, 6)]
    assert len(tables) == 1
    x, _, _ = batch()
    table = model.backbone.token_embedding.embeddings
    changed = to_numpy(table.value).copy()
    changed[39, 0] += 5.0  # an id that no input holds
    x["token_ids"][x["token_ids"] == 39] = 38
    before = outputs_of(model, x)["mlm"]
    table.assign(changed)
    after = outputs_of(model, x)["mlm"]
    np.testing.assert_array_equal(before[..., :39], after[..., :39])
    assert np.abs(before[..., 39] - after[..., 39]).max() > 1e-2


def test_without_a_sentence_objective_there_is_no_sentence_head():
    model = keras_albert.AlbertPretrainer(make(), objective="none")
    x, y, weights = batch()
    y.pop("sentence")
    weights.pop("sentence")
    scores = model.test_on_batch(x, y, weights, return_dict=True)
    assert set(scores) == {"loss", "mlm_accuracy"}
    assert set(model(x)) == {"mlm"}


def test_gathered_positions_are_the_positions_of_the_sequence():
    model = keras_albert.AlbertPretrainer(make())
    x, _, _ = batch()
    some = outputs_of(model, x)["mlm"]
    positions = x["mask_positions"]
    every = {**x, "mask_positions": np.tile(np.arange(10), (4, 1))}
    all_logits = outputs_of(model, every)["mlm"]
    expected = np.take_along_axis(all_logits, positions[..., None], 1)
    np.testing.assert_allclose(some, expected, rtol=0, atol=1e-5)


def test_more_padding_and_another_order_change_no_output():
    model = keras_albert.AlbertPretrainer(make())
    x, _, _ = batch(size=5)
    expected = outputs_of(model, x)
    order = np.array([3, 0, 4, 2, 1])
    longer = {
        name: array if name == "mask_positions" else np.pad(array, ((0, 0), (0, 4)))
        for name, array in x.items()
    }
    outputs = outputs_of(model, {name: array[order] for name, array in longer.items()})
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value[order], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("objective", ["sop", "none"])
def test_saved_whole_with_optimizer_and_objective(tmp_path, objective):
    model = keras_albert.AlbertPretrainer(make(sharing="ffn"), objective=objective)
    x, y, weights = batch()
    if objective == "none":
        y.pop("sentence")
        weights.pop("sentence")
    model.train_on_batch(x, y, weights)
    model.save(tmp_path / "model.keras")
    model.save_to_preset(str(tmp_path / "preset"))
    for loaded in (
        keras.saving.load_model(tmp_path / "model.keras"),
        keras_albert.AlbertPretrainer.from_preset(tmp_path / "preset"),
    ):
        assert loaded.objective == objective
        for name, value in outputs_of(model, x).items():
            np.testing.assert_array_equal(outputs_of(loaded, x)[name], value)
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for one in (model, loaded):
        one.train_on_batch(x, y, weights)
    for one, other in zip(model.trainable_variables, loaded.trainable_variables, strict=True):
        np.testing.assert_array_equal(to_numpy(one.value), to_numpy(other.value))


TEXTS = [
    "The cat sat on the mat. It was warm there. The dog looked on from the door.",
    "A dog ran over the road. A cat looked at it. Then the dog was gone.",
] * 3


@pytest.fixture(scope="module")
def tokenizer():
    words = sorted({word.strip(".").lower() for text in TEXTS for word in text.split()})
    return keras_albert.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *words])


@pytest.fixture
def text_model(tokenizer):
    preprocessor = keras_albert.AlbertPretrainerPreprocessor(tokenizer, sequence_length=24)
    backbone = make(vocabulary_size=tokenizer.vocabulary_size(), initializer_range=0.02)
    return keras_albert.AlbertPretrainer(backbone, preprocessor)


def test_fit_takes_strings_pairs_and_labels(text_model):
    first, second = [t.split(". ")[0] for t in TEXTS], [t.split(". ")[1] for t in TEXTS]
    history = text_model.fit((first, second), y=[0, 1] * 3, batch_size=2, epochs=2, verbose=0)
    assert {"mlm_loss", "sentence_loss"} <= set(history.history)
    # Strings alone have no order to learn: the sentence loss is left out.
    scores = text_model.evaluate(TEXTS, batch_size=2, return_dict=True, verbose=0)
    assert scores["sentence_loss"] == 0.0 and scores["mlm_loss"] > 0


def test_a_batch_of_strings_is_the_batch_of_its_inputs(text_model):
    pair = (["The cat sat on the mat.", "A dog ran."], ["It was warm there.", "A cat looked."])
    x, y, weights = text_model.preprocess_samples(pair, y=np.array([0, 1]))
    segments, mask = to_numpy(x["segment_ids"]), to_numpy(x["padding_mask"])
    assert {0, 1} == set(segments[0][mask[0]])  # the second text is a segment, not a label
    np.testing.assert_array_equal(to_numpy(y["sentence"]), [0, 1])
    scores = text_model.test_on_batch(pair, y=np.array([0, 1]), return_dict=True)
    assert float(scores["sentence_loss"]) > 0
    losses = [
        float(text_model.train_on_batch(pair, y=np.array([0, 1]), return_dict=True)["loss"])
        for _ in range(30)
    ]
    assert losses[-1] < losses[0]


def test_strings_without_a_sentence_objective(tokenizer):
    preprocessor = keras_albert.AlbertPretrainerPreprocessor(tokenizer, sequence_length=24)
    backbone = make(vocabulary_size=tokenizer.vocabulary_size())
    model = keras_albert.AlbertPretrainer(backbone, preprocessor, objective="none")
    scores = model.evaluate(TEXTS, batch_size=2, return_dict=True, verbose=0)
    assert set(scores) == {"loss", "mlm_accuracy"}


def test_random_truncation_follows_the_seed(tokenizer):
    long = ["the cat sat on the mat. a dog ran over the road. " * 5] * 8

    def token_ids(seed):
        preprocessor = keras_albert.AlbertPretrainerPreprocessor(
            tokenizer, sequence_length=12, seed=seed, mask_rate=0.01, max_predictions=1
        )
        return to_numpy(preprocessor((long, long))[0]["token_ids"])

    np.testing.assert_array_equal(token_ids(1), token_ids(1))
    assert (token_ids(1) != token_ids(2)).any()


def test_fit_takes_a_pretraining_dataset(text_model, tokenizer, tmp_path):
    keras_albert.prepare_corpus(
        iter(TEXTS), tmp_path / "shards", tokenizer=tokenizer, progress=False
    )
    data = keras_albert.PretrainingDataset(tmp_path / "shards", 24, batch_size=2)
    static = keras_albert.PretrainingDataset(tmp_path / "shards", 24, batch_size=2, static=True)
    history = text_model.fit(data, validation_data=static, epochs=2, verbose=0)
    assert len(history.history["val_mlm_loss"]) == 2
    # One pass an epoch, and the optimizer has stepped once for each batch of it.
    assert int(text_model.optimizer.iterations) == 2 * len(data)
    one = text_model.evaluate(static, return_dict=True, verbose=0)
    again = text_model.evaluate(static, return_dict=True, verbose=0)
    assert one == again
    assert text_model.predict(static, verbose=0)["sentence"].shape == (static.num_examples, 2)
    scores = text_model.evaluate(data, return_dict=True, verbose=0)  # endless: one pass
    assert scores["mlm_loss"] > 0


@pytest.mark.slow
def test_fill_mask_gives_back_what_was_learned(text_model, tokenizer):
    text_model.compile(keras_albert.Lamb(0.02, weight_decay=0.0))
    sentence = "the cat sat on the mat."
    ids = [tokenizer.cls_token_id, *tokenizer.encode_batch([sentence])[0], tokenizer.sep_token_id]
    place = ids.index(tokenizer.token_to_id("cat"))
    masked = list(ids)
    masked[place] = tokenizer.mask_token_id
    x = {
        "token_ids": np.array([masked]),
        "segment_ids": np.zeros((1, len(ids)), int),
        "padding_mask": np.ones((1, len(ids)), bool),
        "mask_positions": np.array([[place]]),
    }
    y = {"mlm": np.array([[ids[place]]]), "sentence": np.array([0])}
    for _ in range(60):
        text_model.train_on_batch(x, y)
    best, *others = text_model.fill_mask("The [MASK] sat on the mat.", top_k=3)
    assert best.token == "cat" and best.token_id == ids[place] and best.probability > 0.9
    assert len(others) == 2 and best.probability > others[0].probability
    logits = to_numpy(text_model(x)["mlm"])[0, 0]
    expected = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    np.testing.assert_allclose(best.probability, expected[ids[place]], rtol=1e-4)
    # Several masks, several texts of different lengths: the same answers as one at a time.
    texts = ["The [MASK] sat on the mat.", "A [MASK] ran over the [MASK]."]
    one, two = text_model.fill_mask(texts, top_k=3)
    assert [filled.token for filled in one] == [best.token, *(o.token for o in others)]
    assert len(two) == 2 and all(len(filled) == 3 for filled in two)
    alone = text_model.fill_mask(texts[1], top_k=3)
    for a, b in zip(sum(two, []), sum(alone, []), strict=True):
        assert a.token == b.token
        np.testing.assert_allclose(a.probability, b.probability, rtol=1e-4)


def test_a_saved_model_fills_masks(text_model, tmp_path):
    text = "The [MASK] sat."
    expected = text_model.fill_mask(text)
    text_model.save(tmp_path / "model.keras")
    text_model.save_to_preset(str(tmp_path / "preset"))
    assert keras.saving.load_model(tmp_path / "model.keras").fill_mask(text) == expected
    loaded = keras_albert.AlbertPretrainer.from_preset(tmp_path / "preset")
    assert loaded.fill_mask(text) == expected


def test_from_preset_of_the_table():
    model = keras_albert.AlbertPretrainer.from_preset(
        "albert_tiny", load_weights=False, vocabulary_size=50, objective="none"
    )
    assert model.objective == "none" and model.backbone.vocabulary_size == 50


def test_errors_say_what_to_do(text_model, tokenizer):
    plain = keras_albert.AlbertPretrainer(make())
    cases = [
        (lambda: keras_albert.AlbertPretrainer(None), "`backbone` must be a keras_albert"),
        (lambda: keras_albert.AlbertPretrainer(make(), objective="mlm"), "`objective` must be one"),
        (
            lambda: keras_albert.AlbertPretrainer(make(vocabulary_size=9), text_model.preprocessor),
            f"make the backbone with vocabulary_size={tokenizer.vocabulary_size()}",
        ),
        (lambda: plain.fill_mask("a [MASK]"), "`fill_mask` needs a tokenizer"),
        (lambda: text_model.fill_mask("no mask"), r"must hold \[MASK\]"),
        (lambda: text_model.fill_mask("a [MASK]", top_k=0), "`top_k` must be an integer from 1"),
        (lambda: text_model.fill_mask("[MASK] " + "cat " * 50), "32 positions: shorten it"),
        (lambda: text_model.fill_mask(3), "`text` must be a string or a list of strings"),
        (lambda: plain.fit(["a string"], verbose=0), "needs a tokenizer"),
    ]
    for run, message in cases:
        with pytest.raises(ValueError, match=message):
            run()
