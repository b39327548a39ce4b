"""Oracle: the same texts in rows of their own."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keras_albert as ka
from keras_albert.preprocessing.example_batches import ExampleBatches, for_keras
from keras_albert.preprocessing.packed_rows import pack_texts
from tests.conftest import to_numpy

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]
TEXTS = [" ".join("abcdefghij"[n % 10 : n % 10 + 1 + n % 4] * (1 + n % 5)) for n in range(21)]
LABELS = [n % 3 for n in range(21)]


def classifier(num_classes=3, early_exit=False):
    keras.utils.set_random_seed(0)
    backbone = ka.AlbertBackbone(
        vocabulary_size=len(WORDS),
        num_layers=3,
        num_heads=2,
        embedding_dim=4,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=64,
        initializer_range=0.3,
    )
    preprocessor = ka.AlbertPreprocessor(ka.BertTokenizer(WORDS), sequence_length=64)
    return ka.AlbertTextClassifier(
        backbone, num_classes, preprocessor, dropout=0.0, early_exit=early_exit
    )


@pytest.mark.backend_free
@given(st.lists(st.integers(1, 20), min_size=1, max_size=40), st.integers(8, 40))
def test_every_text_stands_whole_in_one_place(lengths, limit):
    longest = max(lengths)
    mask = np.arange(longest) < np.array(lengths)[:, None]
    ids = np.arange(1, mask.size + 1).reshape(mask.shape)
    x = {
        "token_ids": np.where(mask, ids, 0).astype("int32"),
        "segment_ids": (ids % 2 * mask).astype("int32"),
        "padding_mask": mask,
    }
    packed = pack_texts(x, limit)
    count, length = packed["token_ids"].shape
    assert length == max(limit, longest)
    assert packed["padding_mask"].sum() == sum(lengths)
    slots = packed["first_positions"].shape[1]
    for text, size in enumerate(lengths):
        row, slot = divmod(int(packed["answers"][text]), slots)
        first = packed["first_positions"][row, slot]
        part = slice(first, first + size)
        for name in x:
            np.testing.assert_array_equal(packed[name][row, part], x[name][text, :size])
        np.testing.assert_array_equal(packed["position_ids"][row, part], np.arange(size))
        assert (packed["text_ids"][row] == slot + 1).sum() == size
    assert len(set(packed["answers"].tolist())) == len(lengths)
    # First fit leaves at most one row that is not more than half full, but for what is rounded up.
    used = packed["padding_mask"].sum(1)
    assert (used[used > 0] <= length / 2).sum() <= 1
    assert (used == 0).sum() < max(1, len(lengths) // 16)


@pytest.mark.parametrize("pairs", [False, True])
def test_outputs_and_steps_are_those_of_rows_of_their_own(pairs):
    """Weights after steps of plain descent: what they lose are gradients."""
    x = (TEXTS, TEXTS[::-1]) if pairs else TEXTS
    found = []
    for packing in (False, True):
        model = classifier()
        model.compile(keras.optimizers.SGD(0.5))
        before = model.predict(x, batch_size=8, packing=packing, verbose=0)
        weights = np.linspace(0, 2, len(TEXTS))
        options = {"batch_size": 21, "packing": packing, "verbose": 0, "sample_weight": weights}
        history = model.fit(x, LABELS, shuffle=False, epochs=2, **options).history
        scores = model.evaluate(x, LABELS, batch_size=8, packing=packing, verbose=0)
        found.append(
            [before, history["loss"], history["accuracy"], scores, *map(to_numpy, model.weights)]
        )
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-5)


def test_it_learns_and_draws_batches_whatever_the_length():
    model = classifier(2)
    model.compile(learning_rate=1e-2)
    labels = [int("a" in text) for text in TEXTS]
    history = model.fit(
        TEXTS, labels, 8, epochs=30, packing=True, validation_split=0.2, verbose=0
    ).history
    assert history["loss"][-1] < 0.3 * history["loss"][0]
    assert len(history["val_loss"]) == 30


def test_what_cannot_be_packed_is_refused():
    model = classifier()
    x = model.preprocessor(TEXTS)
    with pytest.raises(ValueError, match="`packing` is of raw texts"):
        model.predict(x, packing=True)
    with pytest.raises(ValueError, match="without early exits.*AlbertTextClassifier"):
        classifier(early_exit=True).predict(TEXTS, packing=True)
    tagger = ka.AlbertTokenClassifier(model.backbone, 2)
    with pytest.raises(ValueError, match="packing=True of AlbertTokenClassifier"):
        tagger.fit([["a"]], [[0]], packing=True)
    model.compile(accumulation_steps=3)
    with pytest.raises(ValueError, match="cannot be cut into equal parts.*3 parts"):
        model.fit(TEXTS, LABELS, packing=True)
    with pytest.raises(ValueError, match="`packing` of fit must be True or False"):
        model.fit(TEXTS, LABELS, packing="yes")


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.data")
def test_the_pipeline_of_texts_has_any_length_and_no_tuner_to_wait_for():
    model = classifier()
    batches = ExampleBatches(model, model._encode(TEXTS), 2)
    pipeline = for_keras(batches).get_tf_dataset()
    assert pipeline.options().autotune.enabled is False
    assert pipeline.element_spec["token_ids"].shape.as_list() == [None, None]
    found = [x["token_ids"].numpy() for x in pipeline]
    assert len(found) == len(batches)
    for one, index in zip(found, range(len(batches)), strict=True):
        np.testing.assert_array_equal(one, batches[index]["token_ids"])
