"""`MixedDataset`: several corpora in one stream, each with its share.

Suffix: B batch.
"""

import numpy as np

from keras_albert.arguments import check, is_number
from keras_albert.data.stream import ExampleStream

PERIOD = 10_000  # shares are kept to this fraction, exactly, in every so many examples


class MixedDataset(ExampleStream):
    """Examples of several datasets, in fixed shares.

    In every 10,000 consecutive examples each dataset has its share to the nearest example, spread
    at random; each goes through its own epochs in its own order. Like any stream of this package it
    is seekable and the same in every run.

    Args:
        datasets: list of `PretrainingDataset` or `TFRecordDataset`, none of them `static`, made
            with one tokenizer, that give rows of the same shapes and targets. Their own
            `batch_size` is not used.
        weights: a positive number for each; shares are these over their sum.
        batch_size: B, examples in a batch of all processes together.
        seed: integer; another seed spreads the datasets otherwise.
        packing, process_index, num_processes, prefetch: as in `PretrainingDataset`; the datasets'
            own are not used.

    Raises:
        ValueError: fewer than two datasets, datasets whose rows differ, weights that are not
            positive, or whose number is not that of the datasets.

    Example:
        ```python
        wikipedia = keras_albert.PretrainingDataset("wikipedia_shards/", sequence_length=128)
        books = keras_albert.PretrainingDataset("book_shards/", sequence_length=128)
        data = keras_albert.MixedDataset([wikipedia, books], weights=[3, 1], batch_size=64)
        model.fit(data, epochs=10, steps_per_epoch=100, shuffle=False)
        ```
    """

    def __init__(
        self,
        datasets,
        weights,
        batch_size: int = 32,
        seed: int = 0,
        *,
        packing: bool = False,
        process_index: int = 0,
        num_processes: int = 1,
        prefetch: int = 2,
    ):
        super().__init__(
            batch_size=batch_size,
            seed=seed,
            packing=packing,
            process_index=process_index,
            num_processes=num_processes,
            prefetch=prefetch,
        )
        check(
            "MixedDataset",
            "a list of at least two datasets without `static`",
            lambda value: (
                isinstance(value, (list, tuple))
                and len(value) >= 2
                and all(isinstance(d, ExampleStream) and not d.static for d in value)
            ),
            datasets=datasets,
        )
        check(
            "MixedDataset",
            "a list with a positive number for each dataset",
            lambda value: (
                isinstance(value, (list, tuple))
                and len(value) == len(datasets)
                and all(is_number(weight) and weight > 0 for weight in value)
            ),
            weights=weights,
        )
        _check_alike(datasets)
        self.datasets = list(datasets)
        self.sequence_length = datasets[0].sequence_length
        self.max_predictions = datasets[0].max_predictions
        self.weights = list(weights)
        self.num_examples = sum(dataset.num_examples for dataset in datasets)
        counts = _round_to_sum(np.array(weights) / sum(weights) * PERIOD, PERIOD)
        if not counts.all():
            raise ValueError(
                f"Each weight must give at least 1 example in {PERIOD:,}. Received: {weights}"
            )
        # One period: whose turn each place is, and how often it was that dataset's turn before.
        order = np.random.default_rng(seed % 2**64).permutation(PERIOD)
        self._source = np.repeat(np.arange(len(counts)), counts)[order]
        self._before = np.empty(PERIOD, "int64")
        for source, count in enumerate(counts):
            self._before[self._source == source] = np.arange(count)
        self._counts = counts

    def _batch(self, item_B: np.ndarray):
        period_B, place_B = np.divmod(item_B, PERIOD)
        source_B = self._source[place_B]
        rows_B = np.empty(len(item_B), "int64")
        batches, done = [], 0
        for source in np.unique(source_B):
            mine = np.flatnonzero(source_B == source)
            own_items = period_B[mine] * self._counts[source] + self._before[place_B[mine]]
            batches.append(self.datasets[source]._batch(own_items))
            rows_B[mine] = done + np.arange(len(mine))
            done += len(mine)
        return tuple(
            {name: np.concatenate([part[name] for part in parts])[rows_B] for name in parts[0]}
            for parts in zip(*batches, strict=True)
        )


def _round_to_sum(values: np.ndarray, total: int) -> np.ndarray:
    """Integers next to `values` that add up to `total`: the largest fractions are rounded up."""
    counts = np.floor(values).astype("int64")
    largest = np.argsort(counts - values, kind="stable")[: total - counts.sum()]
    counts[largest] += 1
    return counts


def _check_alike(datasets):
    made_with = {one for dataset in datasets if (one := _fingerprint(dataset))}
    if len(made_with) > 1:
        raise ValueError(
            "Datasets to mix must have been made with one tokenizer. Received: fingerprints "
            f"{', '.join(sorted(made_with))}"
        )

    def rows(dataset):
        return [
            {name: (array.shape[1:], array.dtype.name) for name, array in part.items()}
            for part in dataset._batch(np.arange(1))
        ]

    first = rows(datasets[0])
    for number, dataset in enumerate(datasets[1:], 1):
        if (other := rows(dataset)) != first:
            raise ValueError(
                "Datasets to mix must give rows of the same names, shapes and dtypes: the same "
                f"`sequence_length`, `max_predictions` and `objective`. Received: {first} from "
                f"dataset 0 and {other} from dataset {number}"
            )


def _fingerprint(dataset) -> str | None:
    if isinstance(dataset, MixedDataset):
        return next(filter(None, map(_fingerprint, dataset.datasets)), None)
    manifest = getattr(dataset, "manifest", None)  # TFRecord files do not say
    return manifest.tokenizer["fingerprint"] if manifest else None
