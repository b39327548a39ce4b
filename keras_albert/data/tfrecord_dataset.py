"""`TFRecordDataset`: the original's pretraining files -> the batches of `PretrainingDataset`.

An example is a `tf.train.Example` as `create_pretraining_data.py` of BERT and ALBERT writes it.
Segments and masks were drawn when it was written: only the order is still random.

Suffixes: B batch, S sequence, P predictions.
"""

import os

import numpy as np

from keras_albert.arguments import check, check_booleans, is_integer
from keras_albert.data.stream import ExampleStream
from keras_albert.data.tfrecord_example import decode_example
from keras_albert.data.tfrecords import RecordReader
from keras_albert.preprocessing.files import find_files, names_files
from keras_albert.preprocessing.segments import OBJECTIVES

# The original's names, and what they are called here.
SEQUENCE = {"input_ids": "token_ids", "segment_ids": "segment_ids", "input_mask": "padding_mask"}
PREDICTIONS = {
    "masked_lm_positions": "mask_positions",
    "masked_lm_ids": "mask_ids",
    "masked_lm_weights": "mask_weights",
}
LABEL = {"next_sentence_labels": "sentence"}  # ALBERT's order of segments too
WORD_STARTS = "token_boundary"  # ALBERT's files have it, BERT's have not; nothing is trained on it
DTYPES = {"padding_mask": "bool", "mask_weights": "float32"}  # the others are int32


class TFRecordDataset(ExampleStream):
    """Batches from TFRecord files in the original's schema, for `model.fit`, without TensorFlow.

    Reads what `create_pretraining_data.py` of BERT and of ALBERT wrote, and `write_tfrecords`.
    The stream is that of `PretrainingDataset`, and so are the batches: it does not end, unless
    `static`, and `data.start_step = n` goes on from step n. Give `fit` a `steps_per_epoch`, and
    `shuffle=False`.

    Args:
        files: path, pattern or directory, or a list of these. Names that end in `.gz` are
            decompressed, into a temporary file.
        batch_size: B, examples in a batch of all processes together.
        sequence_length: S; None for what the files have, which it must be otherwise.
        max_predictions: P; likewise.
        objective: `"sop"`, `"nsp"` or `"none"`. The files do not say what their label means:
            with `"none"` it is left out, and may be absent.
        seed: integer. Other seeds give another order.
        static: one pass in the files' order, the last batch as short as need be.
        shuffle: whether each epoch has a random order of its own; else it is the files'.
        vocabulary_size: token ids from this on are refused; None lets them pass.
        packing: whether short examples share rows; see `PretrainingDataset`.
        process_index, num_processes: which of how many equal slices of each batch this process
            gets; see `PretrainingDataset`.
        progress: whether to show progress while large files are opened.
        workers, use_multiprocessing, max_queue_size: as in `keras.utils.PyDataset`.

    Indexing gives `(x, y, sample_weight)` of NumPy arrays:
        x: `token_ids` (B, S) int32, `segment_ids` (B, S) int32, `padding_mask` (B, S) bool,
            `mask_positions` (B, P) int32.
        y: `mlm` (B, P) int32, `sentence` (B,) int32.
        sample_weight: `mlm` (B, P) float32, the files' weights; `sentence` (B,) float32, ones.
    With objective `"none"` there is no `sentence`.

    Raises:
        ValueError: for arguments outside these rules; for files that are damaged, lack a feature or
            differ in length, and records that break the schema, naming file, record and byte.

    Example:
        ```python
        data = keras_albert.TFRecordDataset("pretraining/*.tfrecord", batch_size=64)
        model.fit(data, epochs=10, steps_per_epoch=100, shuffle=False)
        ```
    """

    def __init__(
        self,
        files,
        batch_size: int = 32,
        sequence_length: int | None = None,
        max_predictions: int | None = None,
        objective: str = "sop",
        seed: int = 0,
        *,
        static: bool = False,
        shuffle: bool = True,
        vocabulary_size: int | None = None,
        packing: bool = False,
        process_index: int = 0,
        num_processes: int = 1,
        progress: bool = True,
        prefetch: int = 2,
        workers: int = 1,
        use_multiprocessing: bool = False,
        max_queue_size: int = 10,
    ):
        super().__init__(
            batch_size=batch_size,
            seed=seed,
            static=static,
            shuffle=shuffle,
            packing=packing,
            process_index=process_index,
            num_processes=num_processes,
            prefetch=prefetch,
            workers=workers,
            use_multiprocessing=use_multiprocessing,
            max_queue_size=max_queue_size,
        )
        owner = "TFRecordDataset"
        check(owner, "a path, a pattern or a list of these", names_files, files=files)
        if objective not in OBJECTIVES:
            raise ValueError(f"`objective` must be one of {OBJECTIVES}. Received: {objective!r}")
        check(
            owner,
            "None or an integer of at least 1",
            lambda value: value is None or (is_integer(value) and value >= 1),
            sequence_length=sequence_length,
            max_predictions=max_predictions,
            vocabulary_size=vocabulary_size,
        )
        check_booleans(owner, progress=progress)
        self.objective = objective
        self.vocabulary_size = vocabulary_size
        self._names = {**SEQUENCE, **PREDICTIONS, **({} if objective == "none" else LABEL)}
        self._reader = RecordReader(find_files(files), progress)
        self.num_examples = len(self._reader)
        if not self.num_examples:
            raise ValueError(f"`files` must hold a record. Received: {str(files)[:200]}, all empty")
        self.sequence_length, self.max_predictions = self._lengths(sequence_length, max_predictions)

    def example(self, index: int) -> dict:
        """One example, the same as its row in a batch.

        Args:
            index: 0 to `num_examples` (exclusive), in the files' order.

        Returns:
            A dict of `token_ids`, `segment_ids`, `padding_mask` (S,), `mask_positions`, `mask_ids`,
            `mask_weights` (P,), `sentence` (an int; not with objective `"none"`), and
            `word_starts` (S,) bool, where the file has `token_boundary`.

        Raises:
            ValueError: where there is no such example.
        """
        if not is_integer(index) or not 0 <= index < self.num_examples:
            raise ValueError(
                f"`index` must be an integer in [0, {self.num_examples}). Received: {index!r}"
            )
        features = self._features(index)
        row = {name: array[0] for name, array in self._arrays([features], [index]).items()}
        if "sentence" in row:
            row["sentence"] = int(row["sentence"])
        if WORD_STARTS in features:
            row["word_starts"] = features[WORD_STARTS] > 0
        return row

    def _examples(self, index_B: np.ndarray, epoch_B: np.ndarray):
        del epoch_B  # the draws were made when the files were
        rows = self._arrays([self._features(index) for index in index_B], index_B)
        y = {"mlm": rows.pop("mask_ids")}
        sample_weight = {"mlm": rows.pop("mask_weights")}
        if self.objective != "none":
            y["sentence"] = rows.pop("sentence")
            sample_weight["sentence"] = np.ones(len(index_B), "float32")
        return rows, y, sample_weight

    def _features(self, index: int) -> dict[str, np.ndarray]:
        """The features of a record, none that is needed missing or of another type."""
        data = self._reader.read(index)
        try:
            features = decode_example(data)
        except ValueError as error:
            raise ValueError(f"{error}, {self._reader.name(index)}") from None
        missing = [name for name in self._names if name not in features]
        if missing:
            raise ValueError(
                f"An example of pretraining must have {', '.join(self._names)}. Received: one "
                f"without {', '.join(missing)}, but with {', '.join(sorted(features)) or 'nothing'}"
                f", {self._reader.name(index)}"
            )
        for name in self._names:
            if features[name].dtype.kind not in ("if" if name == "masked_lm_weights" else "i"):
                raise self._broken(index, f"`{name}` must be an int64_list", features[name].dtype)
        return features

    def _arrays(self, features: list[dict], index_B) -> dict[str, np.ndarray]:
        """Arrays (B, ...) of checked features."""
        arrays = {}
        for name, ours in self._names.items():
            length = 1 if name in LABEL else self._length_of(name)
            for row, index in zip(features, index_B, strict=True):
                if len(row[name]) != length:
                    rule = f"`{name}` must have length {length}, as in the first record"
                    raise self._broken(index, rule, len(row[name]))
            array = np.stack([row[name] for row in features])
            rule, right = self._rule(name, array)
            if not right.all():
                row, place = np.argwhere(~right)[0]
                raise self._broken(index_B[row], f"`{name}` must be {rule}", array[row, place])
            arrays[ours] = array.astype(DTYPES.get(ours, "int32"))
        if "sentence" in arrays:
            arrays["sentence"] = arrays["sentence"][:, 0]
        return arrays

    def _length_of(self, name: str) -> int:
        return self.sequence_length if name in SEQUENCE else self.max_predictions

    def _rule(self, name: str, array: np.ndarray):
        """What the values of a feature must be, and where they are."""
        if name == "masked_lm_weights":
            return "0 or more", array >= 0  # false for NaN
        if name in ("input_ids", "masked_lm_ids"):
            size = self.vocabulary_size or 2**31
            rule = "in [0, vocabulary_size)" if self.vocabulary_size else "in [0, 2^31)"
            rule = rule.replace("vocabulary_size", str(size))
        elif name == "masked_lm_positions":
            rule, size = f"in [0, {self.sequence_length})", self.sequence_length
        else:
            rule, size = "0 or 1", 2
        return rule, (array >= 0) & (array < size)

    def _broken(self, index: int, rule: str, value) -> ValueError:
        return ValueError(f"{rule}. Received: {value} in {self._reader.name(int(index))}")

    def _lengths(self, sequence_length, max_predictions) -> tuple[int, int]:
        """(S, P) of the files, from the first record of each."""
        found = {}
        first = self._reader.first_records
        for index in first[:-1][np.diff(first) > 0]:
            features = self._features(index)
            lengths = len(features["input_ids"]), len(features["masked_lm_positions"])
            found.setdefault(lengths, self._reader.name(int(index)))
        if len(found) > 1:
            listed = "; ".join(f"{s} and {p} in {name}" for (s, p), name in found.items())
            raise ValueError(
                "Files of one dataset must have the same sequence length and number of prediction "
                f"slots: make a dataset of each kind. Received: {listed}"
            )
        ((lengths, name),) = found.items()
        asked = {"sequence_length": sequence_length, "max_predictions": max_predictions}
        for (argument, value), has in zip(asked.items(), lengths, strict=True):
            if value is not None and value != has:
                raise ValueError(
                    f"`{argument}` must be what the files have, {has}, as their examples were "
                    f"drawn for it: leave it out, or write the files again with {value}. "
                    f"Received: {argument}={value}; {os.path.basename(name)} has {has}"
                )
        return lengths
