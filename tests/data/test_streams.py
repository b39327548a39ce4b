"""Oracles: the stream of one process, of one dataset; shares that are counted."""

import concurrent.futures

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.data import (
    MixedDataset,
    PretrainingDataset,
    TFRecordDataset,
    prepare_corpus,
    write_tfrecords,
)
from keras_albert.data.mixture import PERIOD
from tests.data.conftest import made_up_documents
from tests.data.test_dataset import assert_equal, flat, rows_of, stream


def dataset(shards, **options):
    return PretrainingDataset(
        shards, **{"sequence_length": 64, "batch_size": 8, "seed": 3, **options}
    )


@pytest.fixture(scope="module")
def other_shards(tmp_path_factory, tokenizer):
    directory = tmp_path_factory.mktemp("other") / "shards"
    documents = made_up_documents(25, seed=9)
    prepare_corpus(iter(documents), directory, tokenizer=tokenizer, progress=False)
    return directory


def joined(batches):
    """The batches of several processes as one dict of arrays."""
    parts = [flat(batch) for batch in batches]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.backend_free
@pytest.mark.parametrize("num_processes", [2, 4])
@pytest.mark.parametrize("mixed", [False, True])
def test_processes_share_the_batches_of_one(shards, other_shards, num_processes, mixed):
    def stream_of(**options):
        if not mixed:
            return dataset(shards, **options)
        parts = [dataset(shards), dataset(other_shards)]
        return MixedDataset(parts, [2, 1], batch_size=8, **options)

    alone = stream_of()
    processes = [
        stream_of(process_index=index, num_processes=num_processes)
        for index in range(num_processes)
    ]
    for step in (0, 1, 50, 1_000):
        together = joined([process[step] for process in processes])
        for name, array in flat(alone[step]).items():
            np.testing.assert_array_equal(together[name], array)


@pytest.mark.backend_free
def test_a_static_pass_over_processes_has_equal_slices_and_no_extra_weight(shards):
    size = next(size for size in (12, 16, 20) if dataset(shards).num_examples % size)
    options = {"static": True, "batch_size": size}
    alone = dataset(shards, **options)
    processes = [dataset(shards, **options, process_index=i, num_processes=4) for i in range(4)]
    assert {len(process) for process in processes} == {len(alone)}
    parts = [process[len(alone) - 1] for process in processes]
    assert {len(x["token_ids"]) for x, _, _ in parts} == {size // 4}
    expected, together = flat(alone[len(alone) - 1]), joined(parts)
    count = len(expected["token_ids"])
    assert count < size
    for name, array in expected.items():
        np.testing.assert_array_equal(together[name][:count], array)
    assert not together["weight/mlm"][count:].any()
    assert not together["weight/sentence"][count:].any()


@pytest.mark.backend_free
def test_dupe_factor_repeats_the_draws_in_a_new_order(shards):
    data = dataset(shards, dupe_factor=2, batch_size=1)
    count = data.num_examples
    epochs = [[rows_of(data[e * count + i])[0] for i in range(count)] for e in range(4)]
    assert sorted(epochs[0]) == sorted(epochs[2]) and sorted(epochs[1]) == sorted(epochs[3])
    assert sorted(epochs[0]) != sorted(epochs[1])
    assert epochs[0] != epochs[2]
    static = dataset(shards, dupe_factor=2, static=True)
    assert len(stream(static, 2 * count)) == 2 * count
    assert sorted(stream(static, 2 * count)) == sorted(epochs[0] + epochs[1])
    with pytest.raises(IndexError):
        static[len(static)]


@pytest.mark.backend_free
def test_a_mixture_keeps_its_shares_and_loses_nothing(shards, other_shards):
    """Each dataset's rows are its own stream, in its order."""
    one, two = dataset(shards, seed=1), dataset(other_shards, seed=2)
    mixed = MixedDataset([one, two], weights=[3, 1.0], batch_size=50)
    rows = stream(mixed, PERIOD // 4)
    streams = [stream(one, len(rows)), stream(two, len(rows))]
    taken, source = [0, 0], []
    for row in rows:
        which = 0 if row == streams[0][taken[0]] else 1
        assert row == streams[which][taken[which]]
        taken[which] += 1
        source.append(which)
    assert abs(np.mean(source) - 0.25) < 0.03
    assert 0.3 < np.mean(np.diff(source) != 0) < 0.45  # spread as by chance: 2 * 3/4 * 1/4


@pytest.mark.backend_free
@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=5), st.integers(0, 2**40))
def test_a_mixture_counts_exactly_in_every_period(shared_parts, weights, start):
    mixed = MixedDataset(shared_parts[: len(weights)], weights, batch_size=4)
    sources = mixed._source[(start + np.arange(PERIOD)) % PERIOD]
    counts = np.bincount(sources, minlength=len(weights))
    np.testing.assert_allclose(counts / PERIOD, np.array(weights) / sum(weights), atol=1 / PERIOD)


@pytest.fixture(scope="module")
def shared_parts(shards):
    return [dataset(shards, seed=seed, verify=False) for seed in range(5)]


@pytest.mark.backend_free
def test_a_mixture_is_seekable(shards, other_shards):
    mixed = MixedDataset([dataset(shards), dataset(other_shards)], [1, 1], batch_size=8)
    expected = mixed[12_345]
    mixed.start_step = 12_000
    assert_equal(mixed[345], expected)


@pytest.mark.backend_free
def test_mixtures_and_files_of_examples_can_be_mixed(shards, other_shards, tmp_path):
    one, two = dataset(shards), dataset(other_shards)
    write_tfrecords(two, tmp_path / "two.tfrecord", progress=False)
    files = TFRecordDataset(tmp_path / "two.tfrecord", progress=False)
    mixed = MixedDataset([MixedDataset([one, two], [1, 1]), files], [1, 1], batch_size=64)
    rows = stream(mixed, 200)
    inner = stream(MixedDataset([one, two], [1, 1]), 200)
    assert 60 < len(set(rows) & set(inner)) < 140


@pytest.mark.backend_free
def test_datasets_that_do_not_fit_together_are_refused(shards, other_shards, tokenizer, tmp_path):
    one = dataset(shards)
    with pytest.raises(ValueError, match=r"same names, shapes.*\(32,\).*from dataset 1"):
        MixedDataset([one, dataset(other_shards, sequence_length=32)], [1, 1])
    with pytest.raises(ValueError, match="same names"):
        MixedDataset([one, dataset(other_shards, objective="none")], [1, 1])
    prepare_corpus(
        iter(made_up_documents(5)), tmp_path, tokenizer=type(tokenizer)(77), progress=False
    )
    with pytest.raises(ValueError, match="one tokenizer.*chunks-1001.*chunks-77"):
        MixedDataset([one, dataset(tmp_path)], [1, 1])
    with pytest.raises(ValueError, match="without `static`"):
        MixedDataset([one, dataset(other_shards, static=True)], [1, 1])


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_fit_gets_every_batch_once_in_order_whatever_the_threads(shards, prefetch):
    """What a model is trained on, over several epochs of Keras, is data[0], data[1], ..."""

    class Recorder(keras.Model):
        def __init__(self):
            super().__init__()
            self.seen = []
            self.scale = self.add_weight(shape=())

        def call(self, inputs):
            return self.scale * keras.ops.cast(inputs["token_ids"], "float32")

    data = dataset(shards, prefetch=prefetch)
    sums = []

    class Sums(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            sums.append(logs["loss"])

    class Total(keras.losses.Loss):
        def call(self, y_true, y_pred):
            unused = 0.0 * keras.ops.mean(y_pred)  # there must be a gradient
            return keras.ops.mean(keras.ops.cast(y_true, "float32"), axis=-1) + unused

    model = Recorder()
    model.compile(loss=Total(), optimizer=keras.optimizers.SGD(0.0))

    class Labels(keras.utils.PyDataset):
        """The same stream with a single target that tells batches apart."""

        num_batches = None

        def __getitem__(self, index):
            x, y, _ = data[index]
            return x, y["mlm"] * 1.0

    model.fit(Labels(), epochs=3, steps_per_epoch=4, verbose=0, shuffle=False, callbacks=[Sums()])
    means = [data[step][1]["mlm"].mean() for step in range(12)]
    running = [
        np.mean(means[epoch * 4 : epoch * 4 + i + 1]) for epoch in range(3) for i in range(4)
    ]
    np.testing.assert_allclose(sums, running, rtol=1e-4)


@pytest.mark.backend_free
def test_batches_from_threads_are_those_asked_for(shards):
    data = dataset(shards, prefetch=3)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for step, batch in zip(range(40), pool.map(data.__getitem__, range(40)), strict=False):
            assert_equal(batch, data[step])


def test_two_phases_use_the_same_shards(shards):
    """One model, one optimizer, two lengths: the paper's schedule as two calls of `fit`."""
    import keras_albert

    short = dataset(shards, sequence_length=16)
    long = dataset(shards, sequence_length=64, batch_size=2)
    keras.utils.set_random_seed(0)
    backbone = keras_albert.AlbertBackbone(
        vocabulary_size=1001,
        num_layers=1,
        num_heads=2,
        embedding_dim=8,
        hidden_dim=16,
        intermediate_dim=32,
        max_sequence_length=64,
    )
    model = keras_albert.AlbertPretrainer(backbone)
    schedule = keras_albert.WarmupPolynomialDecay(1e-2, warmup_steps=2, total_steps=6)
    model.compile(keras_albert.Lamb(schedule))
    model.fit(short, epochs=1, steps_per_epoch=4, verbose=0, shuffle=False)
    positions = np.array(backbone.embedding.position_embedding.embeddings)
    model.fit(long, epochs=2, initial_epoch=1, steps_per_epoch=2, verbose=0, shuffle=False)
    assert int(model.optimizer.iterations) == 6
    moved = np.array(backbone.embedding.position_embedding.embeddings) - positions
    assert np.abs(moved[16:]).max() > 1e-4  # positions that only the second phase has
