"""Batches for several replicas or micro-batches: all parts of a batch are equally large."""

import keras
import numpy as np


class EvenBatches(keras.utils.PyDataset):
    """Batches of a finite dataset, the last one filled up with examples of weight 0.

    Args:
        data: a `keras.utils.PyDataset` of `(x, y)` or `(x, y, sample_weight)`.
        parts: what divides the number of examples in every batch.
    """

    def __init__(self, data, parts: int):
        super().__init__(data.workers, data.use_multiprocessing, data.max_queue_size)
        self.data = data
        self.parts = parts

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return fill_up(self.data[index], self.parts)

    def on_epoch_begin(self):
        self.data.on_epoch_begin()

    def on_epoch_end(self):
        self.data.on_epoch_end()


def fill_up(batch, parts: int):
    """`(x, y, sample_weight)` with so many copies of the first example that `parts` divides it.

    The copies have weight 0, so losses and `weighted_metrics` do not see them.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
    rows = len(keras.tree.flatten(x)[0])
    missing = -rows % parts
    if y is None:
        return batch
    if sample_weight is None:
        sample_weight = keras.tree.map_structure(lambda _: np.ones(rows, "float32"), y)
    if not missing:
        return x, y, sample_weight
    places = [*range(rows), *[0] * missing]
    x, y, sample_weight = keras.tree.map_structure(
        lambda leaf: np.asarray(leaf)[places], (x, y, sample_weight)
    )
    for weights in keras.tree.flatten(sample_weight):
        weights[rows:] = 0
    return x, y, sample_weight


def check_divides(rows: int, count: int, replicas: int, what: str = "`batch_size`") -> None:
    """Raise a `ValueError` where a batch cannot be cut into equal parts."""
    if rows % (count * replicas):
        raise ValueError(
            f"{what} must be a multiple of the replicas times `accumulation_steps`, "
            f"{replicas} x {count}, so that all parts of a batch are equally large. "
            f"Received: {rows}"
        )


def over_replicas(data, strategy, shuffle=False):
    """What Keras' loops take for a `PyDataset`: each replica gets its rows of every batch.

    Keras would let `tf.distribute` guess how to share batches among processes. Here a dataset with
    `num_processes` gives each process its part; of another, each takes its part.

    Args:
        data: a `keras.utils.PyDataset`, or the adapter that Keras makes of it.
        strategy: a `tf.distribute.Strategy`.
        shuffle: whether batches of a `PyDataset` come in a random order.

    Raises:
        ValueError: the dataset is for another number of processes.
    """
    import tensorflow as tf
    from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

    adapter = (
        data if isinstance(data, PyDatasetAdapter) else PyDatasetAdapter(data, shuffle=shuffle)
    )
    source = adapter.py_dataset
    whole = adapter.get_tf_dataset

    def for_process(context):
        workers, worker = context.num_input_pipelines, context.input_pipeline_id
        local = context.num_replicas_in_sync // workers
        slices, slice_ = getattr(source, "num_processes", 1), getattr(source, "process_index", 0)
        if slices != 1 and (slices, slice_) != (workers, worker):
            raise ValueError(
                "The dataset must be for as many processes as the strategy has workers: make it "
                f"with num_processes={workers}, process_index={worker}. "
                f"Received: num_processes={slices}, process_index={slice_}"
            )
        parts = local if slices == workers else local * workers
        first = 0 if slices == workers else local * worker
        # Of a stream all batches are equally large, which a TPU needs to know.
        rows = None if source.num_batches else source.batch_size // slices // parts

        def replicas(*batch):
            def divide(leaf):
                shape = tf.concat([[parts, rows or -1], tf.shape(leaf)[1:]], 0)
                divided = tf.reshape(leaf, shape)[first : first + local]
                divided.set_shape([local, rows, *leaf.shape[1:]])
                return divided

            return tf.data.Dataset.from_tensor_slices(tf.nest.map_structure(divide, batch))

        return whole().flat_map(replicas).prefetch(local)

    adapter.get_tf_dataset = lambda: strategy.distribute_datasets_from_function(for_process)
    return adapter
