"""`ExampleStream`: an endless, seekable stream of batches over anything that has examples.

Batch n is a pure function of the stream's arguments and n, so nothing is kept between batches:
workers, process and order of asking change nothing, and a run resumes from its step.

Suffix: B batch.
"""

import operator

import keras
import numpy as np

from keras_albert.arguments import check, check_booleans, check_integers, is_integer
from keras_albert.data.prefetching import Prefetcher
from keras_albert.data.shuffling import shuffled_run
from keras_albert.preprocessing.packed_rows import pack_texts


class ExampleStream(keras.utils.PyDataset):
    """What datasets of this package share: epochs, order, batches, processes, the first step.

    A subclass sets `num_examples` and defines `_examples(index_B, epoch_B)`, which returns
    `(x, y, sample_weight)`, dicts of arrays with a row for each example.

    Item j of the stream is the example at place `j % num_examples` of epoch `j // num_examples`,
    and `data[step]` is items `step * batch_size` onwards. With `static` the stream ends after one
    pass in the given order (`dupe_factor` passes, where that is set), its last batch as short as
    need be.

    Args:
        batch_size: B, examples in a batch of all processes together.
        seed: integer; see the subclass.
        static: see above.
        shuffle: whether each epoch has a random order of its own. `static` is never shuffled.
        dupe_factor: None, or the number of epochs after which draws repeat.
        packing: whether examples of a batch share rows; see `PretrainingDataset`.
        process_index, num_processes: which of how many equal slices of each batch this process
            gets. In a `static` pass over several processes the last batch is filled up with
            examples of weight 0, so that all slices are equal.
        prefetch: batches made ahead, in threads, while the device computes; 0 for none.
        workers, use_multiprocessing, max_queue_size: as in `keras.utils.PyDataset`. Leave them:
            with threads of Keras `fit` does not begin with the first batch.

    Raises:
        ValueError: for arguments outside these rules.
    """

    num_examples: int

    def __init__(
        self,
        *,
        batch_size: int,
        seed: int = 0,
        static: bool = False,
        shuffle: bool = True,
        dupe_factor: int | None = None,
        packing: bool = False,
        process_index: int = 0,
        num_processes: int = 1,
        prefetch: int = 2,
        workers: int = 1,
        use_multiprocessing: bool = False,
        max_queue_size: int = 10,
    ):
        owner = type(self).__name__
        check_integers(owner, 1, batch_size=batch_size, max_queue_size=max_queue_size)
        check_integers(owner, 0, workers=workers, prefetch=prefetch, process_index=process_index)
        check_integers(owner, 1, num_processes=num_processes)
        check(owner, "an integer", is_integer, seed=seed)
        check_booleans(
            owner,
            static=static,
            shuffle=shuffle,
            packing=packing,
            use_multiprocessing=use_multiprocessing,
        )
        check(
            owner,
            "None or an integer of at least 1",
            lambda value: value is None or (is_integer(value) and value >= 1),
            dupe_factor=dupe_factor,
        )
        if process_index >= num_processes or batch_size % num_processes:
            raise ValueError(
                "`process_index` must be below `num_processes`, and `batch_size`, which is that of "
                "all processes together, a multiple of it. Received: "
                f"process_index={process_index}, num_processes={num_processes}, "
                f"batch_size={batch_size}"
            )
        if packing and num_processes > 1:
            raise ValueError(
                "`packing` must be False where several processes share a batch: each would have "
                f"another number of rows. Received: num_processes={num_processes}"
            )
        super().__init__(workers, use_multiprocessing, max_queue_size)
        self.batch_size = batch_size
        self.seed = seed
        self.static = static
        self.shuffle = shuffle
        self.dupe_factor = dupe_factor
        self.packing = packing
        self.process_index = process_index
        self.num_processes = num_processes
        self.prefetch = prefetch
        self._start_step = 0
        self._step = Prefetcher(self._make_step, prefetch)

    def __getstate__(self):
        # Batches made ahead are of this object: a copy, which may be changed, makes its own.
        return {name: value for name, value in self.__dict__.items() if name != "_step"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._step = Prefetcher(self._make_step, self.prefetch)

    @property
    def start_step(self) -> int:
        """The step that `data[0]` is."""
        return self._start_step

    @start_step.setter
    def start_step(self, step: int):
        if not is_integer(step) or step < 0 or (self.static and step):
            raise ValueError(
                "`start_step` must be an integer of at least 0, and 0 with `static=True`. "
                f"Received: {step!r} with static={self.static}"
            )
        self._start_step = int(step)

    @property
    def num_batches(self) -> int | None:
        """None, as the stream does not end; with `static`, the batches of the pass."""
        return len(self) if self.static else None

    def __len__(self) -> int:
        """The number of batches that one pass takes."""
        return -(-self._pass_length() // self.batch_size)

    def _pass_length(self) -> int:
        return self.num_examples * (self.dupe_factor or 1 if self.static else 1)

    @property
    def rows_per_batch(self) -> int:
        """Rows that a batch takes: examples, or with `packing` what batch 0 takes."""
        return len(self[0][0]["token_ids"]) if self.packing else self.batch_size

    def __getitem__(self, index: int):
        if index < 0 or (self.static and index >= len(self)):
            raise IndexError(f"No batch {index}: there are {len(self)} in a pass, from 0 on")
        step = self._start_step + operator.index(index)
        return self._step(step, len(self) if self.static else None)

    def _make_step(self, step: int):
        rows = self.batch_size // self.num_processes
        start = step * self.batch_size + self.process_index * rows
        item_B = np.arange(start, start + rows)
        within = item_B < (self._pass_length() if self.static else np.inf)
        if self.num_processes == 1 or not self.static:
            batch = self._batch(item_B[within])
            return _packed(*batch) if self.packing else batch
        x, y, sample_weight = self._batch(np.where(within, item_B, 0))
        for weight in sample_weight.values():
            weight[~within] = 0
        return x, y, sample_weight

    def _batch(self, item_B: np.ndarray):
        """`(x, y, sample_weight)` of any items of the stream."""
        epoch_B, index_B = np.divmod(item_B, self.num_examples)
        if self.shuffle and not self.static:
            index_B = shuffled_run(index_B, self.num_examples, self.seed, epoch_B)
        if self.dupe_factor is not None:
            epoch_B = epoch_B % self.dupe_factor
        return self._examples(index_B, epoch_B)

    def _examples(self, index_B: np.ndarray, epoch_B: np.ndarray):
        raise NotImplementedError


def _packed(x, y, sample_weight):
    """The same examples in fewer rows of the same length."""
    places_BM = np.pad(x["mask_positions"], [(0, 0), (1, 0)])  # [CLS], and the tokens to predict
    packed = pack_texts(x, x["token_ids"].shape[1], places_BM)
    packed["mask_positions"] = packed.pop("positions")
    return packed, y, sample_weight
