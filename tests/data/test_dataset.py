"""Oracles: purity (an example depends on seed, epoch and index alone) and the corpus itself."""

import concurrent.futures
import copy
import hashlib
import os
import pickle
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_albert.data import Manifest, PretrainingDataset, prepare_corpus
from keras_albert.data.shuffling import shuffled


def dataset(shards, **settings):
    settings = {"sequence_length": 64, "batch_size": 8, "seed": 3, **settings}
    return PretrainingDataset(shards, **settings)


def flat(batch):
    """One dict of arrays."""
    x, y, sample_weight = batch
    weights = {f"weight/{name}": array for name, array in sample_weight.items()}
    return {**x, **{f"y/{name}": array for name, array in y.items()}, **weights}


def rows_of(batch):
    """A hashable value for each row."""
    arrays = flat(batch)
    return [
        b"".join(arrays[name][row].tobytes() for name in sorted(arrays))
        for row in range(len(arrays["token_ids"]))
    ]


def stream(data, count):
    """The first `count` rows from `data[0]` on."""
    rows, step = [], 0
    while len(rows) < count:
        rows += rows_of(data[step])
        step += 1
    return rows[:count]


def assert_equal(one, other):
    one, other = flat(one), flat(other)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], strict=True)


def test_batches_have_the_promised_shapes_and_types(shards):
    x, y, sample_weight = dataset(shards)[0]
    expected = {
        "token_ids": ((8, 64), "int32"),
        "segment_ids": ((8, 64), "int32"),
        "padding_mask": ((8, 64), "bool"),
        "mask_positions": ((8, 10), "int32"),  # ceil(0.15 * 64)
    }
    assert {k: (v.shape, v.dtype.name) for k, v in x.items()} == expected
    expected = {"mlm": ((8, 10), "int32"), "sentence": ((8,), "int32")}
    assert {k: (v.shape, v.dtype.name) for k, v in y.items()} == expected
    expected = {"mlm": ((8, 10), "float32"), "sentence": ((8,), "float32")}
    assert {k: (v.shape, v.dtype.name) for k, v in sample_weight.items()} == expected
    x, y, sample_weight = dataset(shards, objective="none")[0]
    assert list(y) == list(sample_weight) == ["mlm"]
    assert not x["segment_ids"].any()


def test_putting_the_masked_tokens_back_gives_text_of_the_corpus(shards, tokenizer, documents):
    """Packed rows hold two segments of a document, in order or swapped as the label says."""
    texts = [
        " ".join(str(i) for s in tokenizer.encode_batch(d) for i in s) + " " for d in documents
    ]
    data = dataset(shards, static=True, sequence_length=48, batch_size=50)
    labels = []
    for x, y, sample_weight in data:
        for row in range(len(x["token_ids"])):
            ids = x["token_ids"][row].copy()
            slots = sample_weight["mlm"][row] == 1
            ids[x["mask_positions"][row][slots]] = y["mlm"][row][slots]
            assert slots.any()
            length = x["padding_mask"][row].sum()
            second = x["segment_ids"][row] == 1
            assert x["padding_mask"][row, :length].all() and not second[length:].any()
            a, b = ids[:length][~second[:length]], ids[second]
            assert (a[0], a[-1], b[-1]) == (2, 3, 3)
            assert (ids[length:] == 0).all()
            label = y["sentence"][row]
            first, last = (b[:-1], a[1:-1]) if label else (a[1:-1], b[:-1])
            first, last = (" ".join(map(str, part)) + " " for part in (first, last))
            assert any(0 <= text.find(first) < text.rfind(last) for text in texts)
            labels.append(label)
    assert 0.4 < np.mean(labels) < 0.6


def test_a_row_does_not_depend_on_the_batch(shards):
    one = stream(dataset(shards, batch_size=8), 400)
    assert one == stream(dataset(shards, batch_size=1), 400)
    assert one == stream(dataset(shards, batch_size=150), 400)


def test_batches_can_be_asked_for_in_any_order_and_from_threads(shards):
    data = dataset(shards)
    one_by_one = [data[step] for step in range(30)]
    fresh = dataset(shards, verify=False)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        backwards = list(pool.map(fresh.__getitem__, reversed(range(30))))
    for one, other in zip(one_by_one, reversed(backwards), strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("objective", ["sop", "nsp", "none"])
def test_an_example_is_its_row_in_the_batch(shards, objective):
    data = dataset(shards, objective=objective, shuffle=False)
    step = data.num_examples // 8  # this batch runs into epoch 1
    x, y, sample_weight = data[step]
    for row in range(8):
        epoch, index = divmod(step * 8 + row, data.num_examples)
        example = data.example(index, epoch)
        for name in x:
            np.testing.assert_array_equal(x[name][row], example[name])
        np.testing.assert_array_equal(y["mlm"][row], example["mask_ids"])
        np.testing.assert_array_equal(sample_weight["mlm"][row], example["mask_weights"])
        a, b = example["segments"]
        if objective == "none":
            assert b is None and example["sentence"] == 0
        else:
            assert y["sentence"][row] == example["sentence"]
            assert example["segment_ids"].sum() == len(b) + 1
    assert epoch == 1 or data.num_examples % 8 == 0


def test_epochs_visit_every_example_once_and_differ(shards):
    data = dataset(shards, batch_size=1)
    count = data.num_examples
    orders = []
    for epoch in range(3):
        order = shuffled(np.arange(count), count, data.seed, np.full(count, epoch))
        assert sorted(order.tolist()) == list(range(count))
        orders.append(order.tolist())
        for place in (0, count // 2, count - 1):
            x, _, _ = data[epoch * count + place]
            example = data.example(order[place], epoch)
            np.testing.assert_array_equal(x["token_ids"][0], example["token_ids"])
    assert orders[0] != orders[1] != orders[2] != orders[0]
    masks = [data.example(5, epoch)["mask_positions"].tolist() for epoch in range(3)]
    assert masks[0] != masks[1] != masks[2]


def test_static_gives_each_example_once_always_the_same(shards):
    data = dataset(shards, static=True)
    batches = list(data)
    assert len(batches) == data.num_batches == len(data) == -(-data.num_examples // 8)
    assert len(batches[-1][0]["token_ids"]) == data.num_examples - 8 * (len(data) - 1) > 0
    rows = [row for batch in batches for row in rows_of(batch)]
    assert len(rows) == data.num_examples
    ordered = dataset(shards, shuffle=False)
    assert rows == stream(ordered, data.num_examples)
    with pytest.raises(IndexError):
        data[len(data)]


def test_resuming_takes_one_number(shards):
    data = dataset(shards)
    ahead = data.num_examples // 8 + 3
    expected = [data[ahead + i] for i in range(3)]
    resumed = dataset(shards)
    resumed.start_step = ahead
    for i in range(3):
        assert_equal(resumed[i], expected[i])
    with pytest.raises(ValueError, match="Received: -1"):
        resumed.start_step = -1


PRINT_DIGEST = """
import hashlib, sys
import conftest, test_dataset
data = test_dataset.dataset(sys.argv[1], objective=sys.argv[2])
rows = b"".join(test_dataset.stream(data, 100))
print("digest", hashlib.sha256(rows).hexdigest())
"""


def test_another_process_with_another_hash_seed_and_backend_draws_the_same(shards):
    digests = {hashlib.sha256(b"".join(stream(dataset(shards), 100))).hexdigest()}
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "KERAS_BACKEND": "numpy"}
    environment["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    result = subprocess.run(
        [sys.executable, "-c", PRINT_DIGEST, str(shards), "sop"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    digests.add(result.stdout.split()[-1])
    assert len(digests) == 1


def test_a_pickled_dataset_gives_the_same(shards):
    data = dataset(shards)
    data.start_step = 2
    copy = pickle.loads(pickle.dumps(data))
    assert_equal(copy[1], data[1])
    assert copy.tokenizer.fingerprint() == data.tokenizer.fingerprint()


def test_a_copy_is_a_dataset_of_its_own(shards):
    data = dataset(shards, shuffle=False)
    expected = data[0]
    data[1]
    other = copy.copy(data)
    other.seed = 4
    assert_equal(other[0], dataset(shards, shuffle=False, seed=4)[0])
    assert_equal(other[1], dataset(shards, shuffle=False, seed=4)[1])
    assert_equal(data[0], expected)


def test_what_an_example_says_of_its_draw(shards):
    """Aiming short is what the other examples' equality with data that never does shows."""
    mixed, never, always = (
        dataset(shards, short_sequence_probability=share) for share in (0.3, 0.0, 1.0)
    )
    seen = []
    for index in range(mixed.num_examples):
        example = mixed.example(index, 2)
        same = (always if example["aims_short"] else never).example(index, 2)
        np.testing.assert_array_equal(example["token_ids"], same["token_ids"])
        seen.append(example["aims_short"])
    assert {True, False} == set(seen)


def test_examples_of_one_sentence_always_take_another_document(shards):
    data = dataset(shards, objective="nsp", sequence_length=24)
    labels = {True: [], False: []}
    for index in range(data.num_examples):
        example = data.example(index)
        labels[example["one_sentence"]].append(example["sentence"])
    assert all(labels[True]) and len(labels[True]) > 50
    many = len(labels[False])
    assert abs(np.mean(labels[False]) - 0.5) < 4 * 0.5 / many**0.5


def test_seeds_and_settings_matter(shards):
    base = dataset(shards, shuffle=False)[0][0]["token_ids"]
    for setting in ({"seed": 4}, {"mask_rate": 0.3}, {"short_sequence_probability": 1.0}):
        other = dataset(shards, shuffle=False, **setting)[0][0]["token_ids"]
        assert (other != base).any(), setting
    assert dataset(shards, max_predictions=3)[0][1]["mlm"].shape == (8, 3)


def test_the_second_segment_of_nsp_is_from_another_document(shards, tokenizer, documents):
    data = dataset(shards, objective="nsp", sequence_length=128)
    texts = [
        " ".join(str(i) for s in tokenizer.encode_batch(d) for i in s) + " " for d in documents
    ]
    labels = []
    for index in range(data.num_examples):
        example = data.example(index)
        record = np.searchsorted(data._first_examples, index, side="right") - 1
        own = data._documents[record]
        a, b = (" ".join(map(str, part.tolist())) + " " for part in example["segments"])
        assert a in texts[own]
        if example["sentence"] == 0:
            assert b in texts[own]
        elif len(example["segments"][1]) > 3:
            assert b not in texts[own]
        labels.append(example["sentence"])
    assert 0.45 < np.mean(labels) < 0.75  # chunks of one sentence always take another document


def test_fit_and_evaluate_a_model(shards):
    """A constant predictor's loss has a closed form, weights included."""
    ids = keras.Input((64,), dtype="int32", name="token_ids")
    inputs = {
        "token_ids": ids,
        "segment_ids": keras.Input((64,), dtype="int32", name="segment_ids"),
        "padding_mask": keras.Input((64,), dtype="bool", name="padding_mask"),
        "mask_positions": keras.Input((10,), dtype="int32", name="mask_positions"),
    }
    table = keras.layers.Embedding(1001, 4)
    at_masks = keras.layers.Embedding(64, 4)(inputs["mask_positions"])
    zeros = {"kernel_initializer": "zeros"}
    outputs = {
        "mlm": keras.layers.Dense(1001, **zeros)(at_masks),
        "sentence": keras.layers.Dense(2, **zeros)(
            keras.layers.GlobalAveragePooling1D()(table(ids), mask=inputs["padding_mask"])
            + keras.ops.mean(keras.ops.cast(inputs["segment_ids"], "float32"), 1, keepdims=True)
        ),
    }
    model = keras.Model(inputs, outputs)
    loss = lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", {"mlm": loss(), "sentence": loss()})
    held_out = dataset(shards, static=True, batch_size=10_000)  # one batch: means need no weights
    results = model.evaluate(held_out, verbose=0, return_dict=True)
    assert results["sentence_loss"] == pytest.approx(np.log(2), rel=1e-5)
    share = np.mean(np.concatenate([w["mlm"] for _, _, w in held_out]))
    assert results["mlm_loss"] == pytest.approx(np.log(1001) * share, rel=1e-4)

    seen = []
    data = dataset(shards, workers=2)
    original = data.__class__.__getitem__
    recorder = type("Recorder", (PretrainingDataset,), {})
    recorder.__getitem__ = lambda self, i: seen.append(i) or original(self, i)
    data.__class__ = recorder
    history = model.fit(data, epochs=3, steps_per_epoch=2, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert set(range(6)) <= set(seen)  # epochs go on in the stream; they do not start it anew


def test_books_with_the_released_vocabulary(shared_data, tmp_path):
    """Text is recoverable: decoding the shards gives the normalised book."""
    from keras_albert.preprocessing.albert_tokenizer import AlbertTokenizer

    tokenizer = AlbertTokenizer(str(shared_data / "vocab" / "albert_spiece_30k-clean.model"))
    book = shared_data / "text" / "books" / "lewis_carroll_alice_s_adventures_in_wonderland.md"
    manifest = prepare_corpus(book, tmp_path, tokenizer=tokenizer, holdout=0.2, progress=False)
    held_out = Manifest.load(tmp_path / "heldout")
    assert manifest.num_documents + held_out.num_documents == 12  # chapters
    data = PretrainingDataset(tmp_path, 512, 4)
    assert data.tokenizer.fingerprint() == tokenizer.fingerprint()
    reader, index = manifest.open(tmp_path)
    decoded = " ".join(
        tokenizer.detokenize(ids.tolist()) for ids, _ in reader.read(range(len(index)))
    )
    assert "queer-looking party that assembled on the bank" in decoded
    assert len(data[0][0]["token_ids"]) == 4
