"""`PretrainingDataset`: shards -> masked batches, each example a pure function of three numbers.

The numbers are (seed, epoch, index). Order and batches are the stream's (`stream.py`).

Suffixes: B batch, S sequence, P predictions.
"""

import os
from pathlib import Path

import numpy as np

from keras_albert.arguments import check, check_booleans, check_integers, is_integer, is_path
from keras_albert.data.manifest import Manifest, load_tokenizer
from keras_albert.data.stream import ExampleStream
from keras_albert.preprocessing.masking import (
    MaskingVocabulary,
    check_shares,
    default_max_predictions,
    mask_ngrams,
)
from keras_albert.preprocessing.randomness import example_keys
from keras_albert.preprocessing.segments import (
    OBJECTIVES,
    Document,
    aims_short,
    draw_batch,
    draws_one_sentence,
    examples_in,
    pack_pairs,
)


class PretrainingDataset(ExampleStream):
    """Batches for masked language modelling with sentence order, for `model.fit`.

    The stream of examples does not end: item j is the example at place `j % num_examples` of epoch
    `j // num_examples`, and `data[step]` is items `step * batch_size` onwards. Masks, segments and
    order are drawn anew in each epoch. Give `fit` a `steps_per_epoch`, and `shuffle=False` (Keras
    warns that it cannot shuffle a stream). To go on from step n, set `data.start_step = n`.

    With `static=True` it ends: one pass in the shards' order, always with the draws of epoch 0, the
    last batch as short as need be. Use that for held-out evaluation. With `dupe_factor=k` the draws
    of epoch e are those of epoch `e % k`: k fixed copies of the corpus, as the original code made
    them, still in a new order each epoch (a `static` pass then goes through all k).

    The paper's two phases, 90% of the steps at length 128 and 10% at 512, are two datasets over the
    same shards and two calls of `fit`.

    Args:
        shards: directory that `prepare_corpus` wrote.
        sequence_length: S, at least 5.
        batch_size: B, examples in a batch of all processes together.
        objective: `"sop"` (0: in order, 1: swapped), `"nsp"` (1: from another document) or
            `"none"` (one segment, no label).
        max_ngram: longest n-gram of words to mask.
        seed: integer. Other seeds give other masks, segments and order.
        mask_rate: share of the tokens to predict.
        max_predictions: P, slots for predictions; None for `ceil(mask_rate * sequence_length)`.
        short_sequence_probability: how often an example aims at a shorter, random length.
        whole_words: whether to mask words rather than pieces.
        static: see above.
        shuffle: whether the order is random; else it is the shards'. `static` is never shuffled.
        dupe_factor: None, or k; see above.
        packing: whether short examples share rows, with the same losses for less padding; see
            below. On one device.
        process_index, num_processes: which of how many equal slices of each batch this process
            gets. In a `static` pass over several processes the last batch is filled up with
            examples of weight 0, so that all slices are equal.
        legacy: with `"sop"`, do as the original code does when a chunk has one sentence: take the
            second segment from another document and label it 1.
        tokenizer: checked to be the one that the shards were made with; None trusts them.
        verify: whether to compare every shard's SHA-256 now (0.5 GB/s and core). Without, files
            are checked for presence, size and number of records.
        prefetch: batches made ahead, in threads, while the device computes; 0 for none.
        workers, use_multiprocessing, max_queue_size: as in `keras.utils.PyDataset`. Leave them:
            with threads of Keras `fit` does not begin with the first batch.

    Indexing gives `(x, y, sample_weight)` of NumPy arrays:
        x: `token_ids` (B, S) int32, `segment_ids` (B, S) int32, `padding_mask` (B, S) bool,
            `mask_positions` (B, P) int32.
        y: `mlm` (B, P) int32, `sentence` (B,) int32.
        sample_weight: `mlm` (B, P) float32, 1 for a prediction and 0 for an unused slot;
            `sentence` (B,) float32, ones.
    With objective `"none"` there is no `sentence`. With `packing` the examples and `y` are the
    same, and x has fewer rows (R, S), as `keras_albert.preprocessing.packed_rows.pack_texts` says;
    `mask_positions` (R, K) are its `positions`. R differs a little from batch to batch, and XLA
    compiles a step for each.

    Raises:
        ValueError: for arguments outside these rules, shards that are missing or damaged (naming
            the file), another tokenizer than the shards' (naming both).

    Example:
        ```python
        data = keras_albert.PretrainingDataset("shards/", sequence_length=128, batch_size=64)
        data.start_step = 1000
        model.fit(data, epochs=10, steps_per_epoch=100, shuffle=False)
        held_out = keras_albert.PretrainingDataset("shards/heldout", 128, 64, static=True)
        model.evaluate(held_out)
        ```
    """

    def __init__(
        self,
        shards: str | os.PathLike,
        sequence_length: int = 512,
        batch_size: int = 32,
        objective: str = "sop",
        max_ngram: int = 3,
        seed: int = 0,
        *,
        mask_rate: float = 0.15,
        max_predictions: int | None = None,
        short_sequence_probability: float = 0.1,
        whole_words: bool = True,
        static: bool = False,
        shuffle: bool = True,
        dupe_factor: int | None = None,
        packing: bool = False,
        process_index: int = 0,
        num_processes: int = 1,
        legacy: bool = False,
        tokenizer=None,
        verify: bool = True,
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
            dupe_factor=dupe_factor,
            packing=packing,
            process_index=process_index,
            num_processes=num_processes,
            prefetch=prefetch,
            workers=workers,
            use_multiprocessing=use_multiprocessing,
            max_queue_size=max_queue_size,
        )
        owner = "PretrainingDataset"
        if objective not in OBJECTIVES:
            raise ValueError(f"`objective` must be one of {OBJECTIVES}. Received: {objective!r}")
        check_integers(owner, 1, sequence_length=sequence_length)
        check(owner, "a directory's path", is_path, shards=shards)
        check_booleans(owner, whole_words=whole_words, legacy=legacy, verify=verify)
        check(
            owner,
            "a tokenizer of this package, or None",
            lambda value: value is None or hasattr(value, "fingerprint"),
            tokenizer=tokenizer,
        )
        check_shares(mask_rate, 0.8, 0.1)
        self.shards = Path(os.path.expanduser(shards))
        self.sequence_length = sequence_length
        self.objective = objective
        self.max_ngram = max_ngram
        self.mask_rate = mask_rate
        if max_predictions is None:
            max_predictions = default_max_predictions(sequence_length, mask_rate)
        self.max_predictions = max_predictions
        self.short_sequence_probability = short_sequence_probability
        self.whole_words = whole_words
        self.legacy = legacy

        self.manifest = Manifest.load(self.shards)
        self._tokenizer = self._checked(tokenizer)
        self._vocabulary = MaskingVocabulary.from_tokenizer(self.tokenizer)
        self._special_ids = tuple(
            int(getattr(self.tokenizer, f"{name}_token_id")) for name in ("cls", "sep", "pad")
        )
        self._reader, index = self.manifest.open(self.shards, verify)
        examples = examples_in(index[:, 0], sequence_length)
        self._first_examples = np.concatenate([[0], np.cumsum(examples)])
        self._documents = index[:, 1]
        self.num_examples = int(self._first_examples[-1])
        if not self.num_examples:
            raise ValueError(
                "Shards must hold a document of at least 2 tokens. "
                f"Received: {self.manifest.num_tokens} tokens in {str(self.shards)!r}"
            )
        if (
            objective == "nsp" or (objective == "sop" and legacy)
        ) and self.manifest.num_documents < 2:
            raise ValueError(
                '`objective="nsp"` and `legacy` need at least two documents. '
                f"Received: {self.manifest.num_documents} in {str(self.shards)!r}"
            )
        self.example(0)  # an argument outside its rule shows here, not in a worker

    @property
    def tokenizer(self):
        """The tokenizer that the shards were made with."""
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(self.shards / "tokenizer")
        return self._tokenizer

    def __getstate__(self):
        # Engines of tokenizers do not all survive a pickle; it is loaded again if asked for.
        return {**super().__getstate__(), "_tokenizer": None}

    def _examples(self, index_B: np.ndarray, epoch_B: np.ndarray):
        rows, label_B, _ = self._rows(index_B, epoch_B)
        y = {"mlm": rows.pop("mask_ids")}
        sample_weight = {"mlm": rows.pop("mask_weights")}
        if self.objective != "none":
            y["sentence"] = label_B
            sample_weight["sentence"] = np.ones(len(label_B), "float32")
        return rows, y, sample_weight

    def example(self, index: int, epoch: int = 0) -> dict:
        """One example, the same as its row in a batch.

        Args:
            index: 0 to `num_examples` (exclusive), in the shards' order.
            epoch: which epoch's draws.

        Returns:
            A dict of `token_ids`, `segment_ids`, `padding_mask` (S,), `mask_positions`, `mask_ids`,
            `mask_weights` (P,), `sentence` (an int), `segments`: the two arrays of token ids
            before packing and masking (the second is None with objective `"none"`), and two bools:
            `aims_short`, whether it aims at a shorter length, and `one_sentence`, whether its chunk
            of the document is one sentence, or a part of one.

        Raises:
            ValueError: where there is no such example.
        """
        if not (is_integer(index) and 0 <= index < self.num_examples) or not (
            is_integer(epoch) and epoch >= 0
        ):
            raise ValueError(
                f"`index` must be an integer in [0, {self.num_examples}) and `epoch` one of at "
                f"least 0. Received: index={index!r}, epoch={epoch!r}"
            )
        rows, label_B, pairs = self._rows(np.array([index]), np.array([epoch]))
        row = {name: array[0] for name, array in rows.items()}
        return {
            **row,
            "sentence": int(label_B[0]),
            "segments": pairs[0][:2],
            **self._draw(index, epoch),
        }

    def _draw(self, index: int, epoch: int) -> dict:
        """What `example` says of the draw itself."""
        keys = example_keys(self.seed, epoch, [index])
        record = int(np.searchsorted(self._first_examples, index, side="right")) - 1
        first, end = self._first_examples[record : record + 2].tolist()
        short = {"short_sequence_probability": self.short_sequence_probability}
        one_sentence = draws_one_sentence(
            self._read([record])[0],
            index - first,
            end - first,
            keys[0],
            sequence_length=self.sequence_length,
            objective=self.objective,
            **short,
        )
        return {"aims_short": bool(aims_short(keys, **short)[0]), "one_sentence": one_sentence}

    def _rows(self, index_B: np.ndarray, epoch_B: np.ndarray):
        """Returns (dict of (B, ...) arrays, labels (B,) int32, the B (a, b, label))."""
        keys_B = example_keys(self.seed, epoch_B, index_B)
        record_B = np.searchsorted(self._first_examples, index_B, side="right") - 1
        first_B, end_B = self._first_examples[record_B], self._first_examples[record_B + 1]
        pairs = draw_batch(
            self._read(record_B),
            (index_B - first_B).tolist(),
            (end_B - first_B).tolist(),
            keys_B,
            sequence_length=self.sequence_length,
            objective=self.objective,
            short_sequence_probability=self.short_sequence_probability,
            legacy=self.legacy,
            random_document=lambda row, u: self._another(record_B[row], u),
            word_starts_V=self._vocabulary.word_starts if self.whole_words else None,
        )
        token_ids_BS, segment_ids_BS, padding_mask_BS = pack_pairs(
            pairs, self.sequence_length, *self._special_ids
        )
        masked = mask_ngrams(
            token_ids_BS,
            keys_B,
            vocabulary=self._vocabulary,
            mask_rate=self.mask_rate,
            max_predictions=self.max_predictions,
            max_ngram=self.max_ngram,
            whole_words=self.whole_words,
        )
        rows = {**masked, "segment_ids": segment_ids_BS, "padding_mask": padding_mask_BS}
        return rows, np.array([label for _, _, label in pairs], "int32"), pairs

    def _read(self, records: np.ndarray) -> list[Document]:
        return [Document.from_lengths(*record) for record in self._reader.read(records)]

    def _another(self, record: int, u: float) -> Document:
        """A record of another document than this record's, uniformly by `u` in [0, 1)."""
        own = self._documents[record]  # its records stand together
        first, end = np.searchsorted(self._documents, [own, own + 1])
        chosen = int(u * (len(self._documents) - (end - first)))
        return self._read([chosen if chosen < first else chosen + (end - first)])[0]

    def _checked(self, tokenizer):
        """The tokenizer given, or else the shards' own; the manifest's in either case."""
        whose = "`tokenizer`" if tokenizer is not None else f"{self.shards}/tokenizer"
        if tokenizer is None:
            tokenizer = load_tokenizer(self.shards / "tokenizer")
        made_with, received = self.manifest.tokenizer["fingerprint"], tokenizer.fingerprint()
        if received != made_with:
            raise ValueError(
                "The tokenizer must be the one that the shards were made with: prepare the corpus "
                f"again or leave `tokenizer` out. Received: {type(tokenizer).__name__} "
                f"{received} as {whose}; the shards have {self.manifest.tokenizer['class_name']} "
                f"{made_with}"
            )
        return tokenizer
