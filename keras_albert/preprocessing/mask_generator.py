"""NGramMaskGenerator: `mask_ngrams` as a Keras preprocessing layer."""

import sys
import threading

import keras
import numpy as np

from keras_albert.arguments import check, check_booleans, is_integer
from keras_albert.preprocessing.masking import (
    MaskingVocabulary,
    check_counts,
    check_shares,
    default_max_predictions,
    mask_ngrams,
)
from keras_albert.preprocessing.randomness import example_keys


@keras.saving.register_keras_serializable(package="keras_albert")
class NGramMaskGenerator(keras.layers.Layer):
    """Mask n-grams of whole words in packed rows of token ids; see `mask_ngrams`.

    For use eagerly, in a grain pipeline or in `tf.data`. The outputs are of the input's kind:
    NumPy for NumPy or lists, tensors of the backend for its tensors.

    With `index` a call is a pure function of (seed, epoch, index, token_ids). Without, an internal
    count of the rows seen stands for the index: repeated runs draw the same masks, repeated calls
    different ones. Where calls run in parallel (`num_parallel_calls`, workers), give `index`.

    Args:
        tokenizer: A tokenizer of this package (`word_starts()`, `vocabulary_size()`, and the ids of
            the special tokens).
        max_ngram: Integer >= 1, the longest n-gram in words.
        mask_rate: The share of tokens to predict, in (0, 1].
        max_predictions: The number P of slots; None gives `default_max_predictions(S)`.
        whole_words: False takes every token for a word of its own; with `max_ngram=1` it is
            BERT's first masking.
        seed: Integer.

    Call arguments:
        token_ids: `(B, S)` or `(S,)` integers.
        index: `(B,)` integers >= 0 (one integer for `(S,)`), or None.
        epoch: Integer >= 0.

    Returns:
        A dict of `token_ids` `(B, S)` int32, `mask_positions` `(B, P)` int32, `mask_ids` `(B, P)`
        int32, `mask_weights` `(B, P)` float32; without B if the input has none.

    Raises:
        ValueError: If an argument breaks its rule.

    Example:
    ```python
    tokenizer = keras_albert.AlbertTokenizer("spiece.model")
    masker = keras_albert.NGramMaskGenerator(tokenizer, seed=1)
    rows = np.array([[2, 13, 45, 71, 9, 84, 3, 0]])
    masker(rows, index=np.array([12]), epoch=3)
    ```
    """

    def __init__(
        self,
        tokenizer,
        max_ngram=3,
        mask_rate=0.15,
        max_predictions=None,
        whole_words=True,
        seed=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        # As in KerasHub's preprocessing layers: inputs come as they are, on every backend.
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.built = True
        owner = "NGramMaskGenerator"
        rule = "an AlbertTokenizer or BertTokenizer, or have their `word_starts`"
        check(owner, rule, lambda value: hasattr(value, "word_starts"), tokenizer=tokenizer)
        check_booleans(owner, whole_words=whole_words)
        check(owner, "an integer", is_integer, seed=seed)
        check_shares(mask_rate, 0.8, 0.1)
        check_counts(1 if max_predictions is None else max_predictions, max_ngram)
        self.tokenizer = tokenizer
        self.max_ngram = max_ngram
        self.mask_rate = mask_rate
        self.max_predictions = max_predictions
        self.whole_words = whole_words
        self.seed = seed
        self._vocabulary = None  # read at the first call: a tokenizer may get its assets later
        self._rows_seen = 0
        self._count_lock = threading.Lock()

    def call(self, token_ids, index=None, epoch=0):
        tf = sys.modules.get("tensorflow")
        if tf is not None and not tf.executing_eagerly():
            return self._call_graph(tf, token_ids, index, epoch)
        outputs = self._call_numpy(_to_numpy(token_ids), _to_numpy(index), _to_numpy(epoch))
        if keras.ops.is_tensor(token_ids):
            return {k: keras.ops.convert_to_tensor(v) for k, v in outputs.items()}
        return outputs

    def _call_numpy(self, token_ids, index, epoch):
        single = token_ids.ndim == 1
        token_ids_BS = token_ids[None] if single else token_ids
        if index is None:
            with self._count_lock:
                index = np.arange(len(token_ids_BS)) + self._rows_seen
                self._rows_seen += len(token_ids_BS)
        if self._vocabulary is None:
            self._vocabulary = MaskingVocabulary.from_tokenizer(self.tokenizer)
        outputs = mask_ngrams(
            token_ids_BS,
            example_keys(self.seed, epoch, index),
            vocabulary=self._vocabulary,
            mask_rate=self.mask_rate,
            max_predictions=self._slots(token_ids_BS.shape[1]),
            max_ngram=self.max_ngram,
            whole_words=self.whole_words,
        )
        return {k: v[0] for k, v in outputs.items()} if single else outputs

    def _call_graph(self, tf, token_ids, index, epoch):
        """Run in `tf.data`, on any backend: NumPy behind an op, with the static shapes restored."""
        token_ids = tf.convert_to_tensor(token_ids)
        no_index = index is None
        names = ("token_ids", "mask_positions", "mask_ids", "mask_weights")

        def run(token_ids, index, epoch):
            outputs = self._call_numpy(token_ids, None if no_index else index, epoch)
            return [outputs[name] for name in names]

        outputs = tf.numpy_function(
            run,
            [token_ids, tf.constant(0) if no_index else index, epoch],
            [tf.int32, tf.int32, tf.int32, tf.float32],
        )
        rows, length = token_ids.shape[:-1], token_ids.shape[-1]
        slots = self.max_predictions if length is None else self._slots(length)
        for name, output in zip(names, outputs, strict=True):
            output.set_shape([*rows, length if name == "token_ids" else slots])
        return dict(zip(names, outputs, strict=True))

    def _slots(self, length):
        if self.max_predictions is not None:
            return self.max_predictions
        return default_max_predictions(length, self.mask_rate)

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "tokenizer": keras.saving.serialize_keras_object(self.tokenizer),
                "max_ngram": self.max_ngram,
                "mask_rate": self.mask_rate,
                "max_predictions": self.max_predictions,
                "whole_words": self.whole_words,
                "seed": self.seed,
            }
        )
        return config

    @classmethod
    def from_config(cls, config):
        config["tokenizer"] = keras.saving.deserialize_keras_object(config["tokenizer"])
        return cls(**config)


def _to_numpy(x):
    if x is None:
        return None
    return keras.ops.convert_to_numpy(x) if keras.ops.is_tensor(x) else np.asarray(x)
