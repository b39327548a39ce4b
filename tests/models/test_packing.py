"""Oracle: the same texts in rows of their own."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keras_albert as ka
from keras_albert.models.pipelines import for_keras
from keras_albert.preprocessing.example_batches import ExampleBatches
from keras_albert.preprocessing.packed_rows import pack_texts
from keras_albert.training.throughput import operations_per_step
from tests.conftest import to_numpy

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]
TEXTS = [" ".join("abcdefghij"[n % 10 : n % 10 + 1 + n % 4] * (1 + n % 5)) for n in range(21)]
LABELS = [n % 3 for n in range(21)]


def small_backbone():
    keras.utils.set_random_seed(0)
    return ka.AlbertBackbone(
        vocabulary_size=len(WORDS),
        num_layers=3,
        num_heads=2,
        embedding_dim=4,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=64,
        initializer_range=0.3,
    )


def classifier(num_classes=3, early_exit=False):
    preprocessor = ka.AlbertPreprocessor(ka.BertTokenizer(WORDS), sequence_length=64)
    return ka.AlbertTextClassifier(
        small_backbone(), num_classes, preprocessor, dropout=0.0, early_exit=early_exit
    )


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Documents of 2 to 60 tokens in sentences, most of them short."""
    rng = np.random.default_rng(0)
    directory = tmp_path_factory.mktemp("short") / "shards"
    documents = [
        "\n".join(" ".join(rng.choice(list("abcdefghij"), 2 + int(3 * rng.pareto(1.5)) % 20))
                  for _ in range(1 + number % 3))
        for number in range(90)
    ]  # fmt: skip
    tokenizer = ka.BertTokenizer(WORDS)
    ka.prepare_corpus(
        iter(documents), directory, tokenizer=tokenizer, sentences="lines", progress=False
    )
    return directory


def short_documents(shards, **options):
    options = {"sequence_length": 32, "batch_size": 24, "seed": 2, **options}
    return ka.PretrainingDataset(shards, **options)


@pytest.mark.backend_free
@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=40),
    st.integers(8, 40),
    st.integers(0, 4),
    st.randoms(use_true_random=False),
)
def test_every_text_stands_whole_in_one_place(lengths, limit, others, random):
    longest = max(lengths)
    mask = np.arange(longest) < np.array(lengths)[:, None]
    ids = np.arange(1, mask.size + 1).reshape(mask.shape)
    x = {
        "token_ids": np.where(mask, ids, 0).astype("int32"),
        "segment_ids": (ids % 2 * mask).astype("int32"),
        "padding_mask": mask,
    }
    places = np.zeros((len(lengths), 1 + others), "int32")
    for row, size in zip(places, lengths, strict=True):
        drawn = sorted(random.sample(range(1, size), min(others, size - 1)))
        row[1 : 1 + len(drawn)] = drawn
    packed = pack_texts(x, limit, places if others else None)
    count, length = packed["token_ids"].shape
    assert length == max(limit, longest)
    assert packed["padding_mask"].sum() == sum(lengths)
    slots = packed["positions"].shape[1]
    assert packed["answers"].shape == places.shape
    for text, size in enumerate(lengths):
        row_M, slot_M = np.divmod(packed["answers"][text], slots)
        row = row_M[0]
        assert (row_M == row).all()
        read_M = packed["positions"][row, slot_M]
        first = read_M[0]
        np.testing.assert_array_equal(read_M - first, places[text])
        part = slice(first, first + size)
        for name in x:
            np.testing.assert_array_equal(packed[name][row, part], x[name][text, :size])
        np.testing.assert_array_equal(packed["position_ids"][row, part], np.arange(size))
        number = packed["text_ids"][row, first]
        assert number > 0
        np.testing.assert_array_equal(
            np.flatnonzero(packed["text_ids"][row] == number), np.arange(first, first + size)
        )
    assert len(set(packed["answers"][:, 0].tolist())) == len(lengths)
    # First fit leaves at most one row that is not more than half full, but for what is rounded up.
    used = packed["padding_mask"].sum(1)
    assert (used[used > 0] <= length / 2).sum() <= 1
    assert (used == 0).sum() < max(1, len(lengths) // 16)


@pytest.mark.parametrize("pairs", [True, pytest.param(False, marks=pytest.mark.backend_free)])
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


@pytest.mark.backend_free
def test_it_learns_and_draws_batches_whatever_the_length():
    model = classifier(2)
    model.compile(learning_rate=1e-2)
    labels = [int("a" in text) for text in TEXTS]
    history = model.fit(
        TEXTS, labels, 8, epochs=30, packing=True, validation_split=0.2, verbose=0
    ).history
    assert history["loss"][-1] < 0.3 * history["loss"][0]
    assert len(history["val_loss"]) == 30


@pytest.mark.parametrize("objective", ["sop", pytest.param("none", marks=pytest.mark.backend_free)])
def test_pretraining_on_short_documents_is_that_on_rows_of_their_own(shards, objective):
    """Losses, accuracies, logits, and weights after steps of plain descent."""
    found = []
    for packing in (False, True):
        options = {"packing": packing, "objective": objective}
        data = short_documents(shards, **options)
        held_out = short_documents(shards, **options, static=True, batch_size=48)
        model = ka.AlbertPretrainer(small_backbone(), objective=objective)
        model.compile(keras.optimizers.SGD(0.5))
        logits = model.predict(held_out, verbose=0)
        history = model.fit(data, steps_per_epoch=3, validation_data=held_out, verbose=0).history
        scores = model.evaluate(held_out, verbose=0)
        weights = [to_numpy(weight) for weight in model.weights]
        found.append([*logits.values(), *history.values(), scores, *weights])
        rows = [data[step][0]["token_ids"].shape for step in range(8)]
        assert {length for _, length in rows} == {32}
        assert max(count for count, _ in rows) <= (12 if packing else 24)
    assert len(held_out) * 48 > held_out.num_examples  # the last batch is a short one
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-5)


@pytest.mark.backend_free
def test_a_packed_stream_has_the_examples_of_its_plain_one(shards, tmp_path):
    """Of shards, of the original's files and of a mixture: labels are equal, and every token."""
    plain, packed = (short_documents(shards, packing=packing) for packing in (False, True))
    file = tmp_path / "examples.tfrecord"
    ka.write_tfrecords(short_documents(shards, static=True), file, progress=False)
    both = [plain, short_documents(shards, seed=4)]
    pairs = [
        (plain, packed),
        (
            ka.TFRecordDataset(file, 24, progress=False),
            ka.TFRecordDataset(file, 24, progress=False, packing=True),
        ),
        (
            ka.MixedDataset(both, [1, 2], batch_size=24),
            ka.MixedDataset(both, [1, 2], batch_size=24, packing=True),
        ),
    ]
    for one, other in pairs:
        for step in (0, 3, 40):
            (x, *labels), (z, *others) = one[step], other[step]
            for wanted, got in zip(labels, others, strict=True):
                assert wanted.keys() == got.keys()
                for name in wanted:
                    np.testing.assert_array_equal(got[name], wanted[name])
            row, slot = np.divmod(z["answers"], z["mask_positions"].shape[1])
            place = z["mask_positions"][row, slot]
            np.testing.assert_array_equal(place[:, 1:] - place[:, :1], x["mask_positions"])
            lengths = x["padding_mask"].sum(1)
            for text, length in enumerate(lengths):
                part = row[text, 0], slice(place[text, 0], place[text, 0] + length)
                np.testing.assert_array_equal(z["token_ids"][part], x["token_ids"][text, :length])
            assert z["padding_mask"].sum() == lengths.sum()
    assert packed.rows_per_batch == len(packed[0][0]["token_ids"]) < plain.rows_per_batch == 24
    assert ka.MixedDataset(both, [1, 2]).sequence_length == 32


@pytest.mark.backend_free
def test_an_empty_text_reads_padding_and_no_place_is_in_another_text():
    mask = np.arange(8)[None] < np.array([5, 0, 8, 3])[:, None]
    x = {name: np.arange(1, 33).reshape(4, 8) * mask for name in ("token_ids", "segment_ids")}
    places = np.array([[0, 4], [0, 0], [0, 7], [0, 2]])
    packed = pack_texts({**x, "padding_mask": mask}, 8, places)
    row, slot = np.divmod(packed["answers"], packed["positions"].shape[1])
    place = packed["positions"][row, slot]
    found = packed["token_ids"][row, place]
    np.testing.assert_array_equal(found, [[1, 5], [0, 0], [17, 24], [25, 27]])
    for text, beyond in ((0, 5), (1, 1), (3, 7)):
        wrong = places.copy()
        wrong[text, 1] = beyond
        with pytest.raises(ValueError, match=f"within their text.*place {beyond} .*row {text} "):
            pack_texts({**x, "padding_mask": mask}, 8, wrong)


@pytest.mark.backend_free
def test_a_packed_step_counts_its_rows_and_the_heads_of_all_its_texts(shards, tmp_path):
    data = short_documents(shards, packing=True)
    model = ka.AlbertPretrainer(small_backbone())
    log = ka.TrainingLog(tmp_path)
    log.set_model(model)
    log.watch(data)
    x, y, _ = data[0]
    rows, (texts, predictions) = len(x["token_ids"]), y["mlm"].shape

    def count(*sizes):
        return operations_per_step(model.backbone, *sizes)

    heads = count(texts, 32, predictions) - count(texts, 32, 0)
    assert log._operations_per_step() == pytest.approx(count(rows, 32, 0) + heads)
    assert log.tokens_per_step == rows * 32


@pytest.mark.parametrize("packing", [False, True])
def test_class_weight_is_that_of_each_example(packing):
    found, weights = [], {0: 0.5, 1: 2.0, 2: 1.0}
    for options in (
        {"class_weight": weights},
        {"sample_weight": np.array([weights[label] for label in LABELS])},
        {},
    ):
        model = classifier()
        model.compile(keras.optimizers.SGD(0.5))
        history = model.fit(
            TEXTS, LABELS, 21, packing=packing, shuffle=False, epochs=2, verbose=0, **options
        )
        found.append(history.history["loss"])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    assert not np.allclose(found[0], found[2], rtol=1e-2)
    model.compile(accumulation_steps=3)
    if not packing:
        with pytest.raises(ValueError, match="`class_weight` must be None.*`sample_weight`"):
            model.fit(TEXTS, LABELS, 21, class_weight=weights, verbose=0)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.data")
def test_class_weight_reaches_the_adapter_of_a_training_state():
    from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

    model = classifier()
    batches = ExampleBatches(model, model.preprocessor.encode(TEXTS, LABELS, None), 21)
    adapter = for_keras(PyDatasetAdapter(batches), class_weight={0: 0.5, 1: 2.0, 2: 1.0})
    _, y, weight = next(iter(adapter.get_tf_dataset()))
    np.testing.assert_array_equal(np.array([0.5, 2.0, 1.0])[np.array(y)], np.array(weight))


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_static_dataset_is_shuffled_by_batches(shards, shuffle):
    """As Keras does with every dataset that ends; `evaluate` and `predict` keep its order."""
    data = short_documents(shards, static=True, batch_size=4)
    asked = []

    class Recording(type(data)):
        def __getitem__(self, index):
            asked.append(index)
            return super().__getitem__(index)

    data.__class__ = Recording
    model = ka.AlbertPretrainer(small_backbone())
    model.compile(keras.optimizers.SGD(0.0))
    model.fit(data, shuffle=shuffle, verbose=0)
    count = len(data)
    order = asked[-count:]
    assert sorted(order) == list(range(count))
    assert (order == list(range(count))) != shuffle


def test_packed_batches_that_would_be_cut_are_refused(shards):
    with pytest.raises(ValueError, match="`packing` must be False.*num_processes=2"):
        short_documents(shards, packing=True, num_processes=2)
    with pytest.raises(ValueError, match="`packing` of PretrainingDataset must be True or False"):
        short_documents(shards, packing="yes")
    model = ka.AlbertPretrainer(small_backbone())
    model.compile(accumulation_steps=2)
    with pytest.raises(ValueError, match="cannot be cut into equal parts.*2 parts"):
        model.fit(short_documents(shards, packing=True), verbose=0)


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
    # Only `fit` makes micro-batches.
    np.testing.assert_allclose(
        model.predict(TEXTS, packing=True, verbose=0), model.predict(TEXTS, verbose=0), atol=1e-5
    )
    np.testing.assert_allclose(
        model.evaluate(TEXTS, LABELS, packing=True, verbose=0),
        model.evaluate(TEXTS, LABELS, verbose=0),
        atol=1e-5,
    )
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
