"""What the two tokenizers share: batches to ids, the mask token in a text, fingerprints."""

import numpy as np
from keras_hub.src.utils.tensor_utils import canonicalize_python_string_inputs, restore_outer_shape

from keras_albert.arguments import check_integers
from keras_albert.preprocessing.mask_filling import encode_with_mask


class TextTokenizer:
    """Mixed into a KerasHub tokenizer that defines `_make_encoder`."""

    _encoder = None  # made when first asked for; setting a vocabulary drops it

    @property
    def encoder(self):
        """The `Encoder` that this tokenizer is around: plain Python, without Keras or tensors."""
        if self._encoder is None:
            self._check_vocabulary()
            self._encoder = self._make_encoder()
        return self._encoder

    def encode_batch(self, texts):
        """Encode texts without tensors; the way for corpora.

        Args:
            texts: a list of `str` or UTF-8 `bytes`.

        Returns:
            A list of lists of ids, without [CLS] and [SEP].

        Raises:
            ValueError: a text is not a string, or no vocabulary is set.
        """
        return self.encoder.encode_batch(texts)

    @property
    def special_token_ids(self):
        """Ids of the special tokens, the unknown token among them: a sorted list."""
        return sorted(super().special_token_ids)

    def encode_with_mask(self, text):
        """Encode a text in which the mask token stands for itself, as in `"Paris is [MASK]."`.

        Args:
            text: `str` or UTF-8 `bytes`.

        Returns:
            A list of ids, with `mask_token_id` for every `mask_token` in the text.

        Example:
        >>> tokenizer.encode_with_mask("the capital of [MASK] is paris")
        [14, 1057, 16, 4, 25, 1162]
        """
        return encode_with_mask(self, text)

    def fingerprint(self):
        """Name the mapping from text to ids: the same fingerprint, the same ids.

        Returns:
            The SHA-256, in hexadecimal, of the class, its normalisation and its vocabulary.
        """
        return self.encoder.fingerprint()

    def _tokenize_texts(self, inputs):
        """Tokenize without TensorFlow whatever form the strings come in."""
        texts, batched, outer_shape = canonicalize_python_string_inputs(inputs, errors="replace")
        ids = self.encode_batch(texts)
        if self.sequence_length:
            length, pad = self.sequence_length, self.pad_token_id
            ids = [row[:length] + [pad] * (length - len(row)) for row in ids]
            ids = np.array(ids, dtype=self.compute_dtype)
        if outer_shape is not None:
            return restore_outer_shape(ids, outer_shape)
        if batched:
            return ids
        return np.array(ids[0], dtype=self.compute_dtype)

    def _shape_tokens_tf(self, tokens, unbatched):
        """Give ragged ids (B, None) the shape that the inputs and `sequence_length` ask for."""
        import tensorflow as tf

        if self.sequence_length:
            shape = [*tokens.shape.as_list()[:-1], self.sequence_length]
            tokens = tokens.to_tensor(shape=shape, default_value=self.pad_token_id)
        return tf.squeeze(tokens, 0) if unbatched else tokens


def refuse(kwargs, names, reason):
    """Refuse options of KerasHub's base class that have no meaning here.

    Raises:
        ValueError: one of `names` is among the keyword arguments.
    """
    for name in names:
        if name in kwargs:
            raise ValueError(f"`{name}` is not an option: {reason}. Received: {kwargs[name]!r}")


def check_output(dtype="int32", sequence_length=None, **_):
    """Raise a ValueError unless ids are integers, in rows of a length that can be."""
    if sequence_length is not None:
        check_integers("a tokenizer", 1, sequence_length=sequence_length)
    if "int" not in str(dtype):
        raise ValueError(
            "A tokenizer's `dtype` must be an integer type; `id_to_token` gives the strings. "
            f"Received: {dtype!r}"
        )
