"""ExampleBatches: encoded examples in batches of similar length, for `fit` and `predict`."""

import keras
import numpy as np

from keras_albert.preprocessing.packed_rows import pack_texts

# Lengths of batches. Few, as JAX and XLA compile the model anew for each; close enough together
# that a text carries less than a third of padding.
LENGTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_BATCHES_SORTED_TOGETHER = 50


class ExampleBatches(keras.utils.PyDataset):
    """Batches of rows that a preprocessor has encoded, each as long as its longest row needs.

    Rows of similar length stand together, so little of a batch is padding. With `shuffle` the rows
    and the batches are in a new order every epoch; without, rows stand by length, and `order` says
    which row stands where.

    Args:
        task: a model with a preprocessor; its `collate` makes a batch.
        rows: what the preprocessor's `encode` gave.
        batch_size: rows in a batch.
        shuffle: whether for training.
        seed: of the order of epochs.
        same_length: whether all batches get the same length, where outputs are joined.
        packing: whether to put several rows into one; see `packed_rows.pack_texts`. Shuffled rows
            then stand by chance alone, not by length.

    Returns (`batches[i]`):
        What `collate` gives: `x`, `(x, y)` or `(x, y, sample_weight)`.
    """

    def __init__(
        self, task, rows, batch_size, shuffle=False, seed=0, same_length=False, packing=False
    ):
        super().__init__()
        self.task = task
        self.rows = rows
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.packing = packing
        self.epoch = 0
        self.limit = task.preprocessor.sequence_length
        lengths = [task.preprocessor.length(row) for row in rows]
        self.lengths = np.minimum(lengths, self.limit)
        if same_length:
            self.lengths[:] = self.lengths.max(initial=0)
        self._sort()

    def _sort(self):
        if self.shuffle:
            self.batches = self._shuffled_batches()
        else:
            self.order = np.argsort(self.lengths, kind="stable")
            self.batches = self._cut(self.order)

    def _shuffled_batches(self):
        rng = np.random.default_rng([self.seed, self.epoch])
        order = rng.permutation(len(self.rows))
        if self.packing:
            return self._cut(order)
        size = self.batch_size * _BATCHES_SORTED_TOGETHER
        for start in range(0, len(order), size):
            some = order[start : start + size]
            order[start : start + size] = some[np.argsort(self.lengths[some], kind="stable")]
        batches = self._cut(order)
        return [batches[i] for i in rng.permutation(len(batches))]

    def _cut(self, order):
        return [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        batch = self.batches[index]
        length = padded_length(self.lengths[batch].max(), self.limit)
        batch = self.task.collate([self.rows[i] for i in batch], length)
        if not self.packing:
            return batch
        x, *labels = keras.utils.unpack_x_y_sample_weight(batch)
        return keras.utils.pack_x_y_sample_weight(pack_texts(x), *labels)

    def on_epoch_end(self):
        self.epoch += 1
        if self.shuffle:
            self._sort()


def padded_length(length: int, limit: int) -> int:
    """The length that rows of `length` tokens are packed to: a step of `LENGTHS`, or the limit."""
    steps = [step for step in LENGTHS if step >= length]
    return min(steps[0], limit) if steps else limit
