"""ALBERT's tokenizer: its text normalisation, SentencePiece, and the digit-comma rule."""

import os

import keras
import keras_hub
import numpy as np
from keras_hub.src.utils.tensor_utils import preprocessing_function

from keras_albert.arguments import check_booleans
from keras_albert.preprocessing.encoders import SPACE, SentencePieceEncoder
from keras_albert.preprocessing.normalizer import normalize_text, normalize_text_tf
from keras_albert.preprocessing.text_tokenizer import TextTokenizer, check_output, refuse
from keras_albert.preprocessing.vocabulary import read_bytes, read_sentencepiece
from keras_albert.preprocessing.vocabulary_training import train_sentencepiece

_LETTERS_AND_PUNCTUATION = frozenset('abcdefghijklmnopqrstuvwxyz!"#$%&()*+,-./:;?@[\\]^_`{|}~')


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTokenizer(TextTokenizer, keras_hub.tokenizers.SentencePieceTokenizer):
    """Text to ids as in ALBERT: normalise, SentencePiece, split a digit from its comma.

    The ids are those of Google's `tokenization.py` (`preprocess_text`, `encode_pieces`), in Python
    as well as inside `tf.data` and `tf.function`, where `tensorflow-text` is needed. There two
    things may differ: letters younger than TensorFlow (`normalizer.NEWER_CAPITALS`), and which of
    two splits with the same score is taken, `8 88` or `88 8`, as tensorflow-text links another
    release of SentencePiece that rounds otherwise (1 of 13,500 paragraphs).

    Args:
        proto: path (`str` or `os.PathLike`) of a SentencePiece model, or its `bytes`. `None` waits
            for the assets of a saved tokenizer.
        lowercase: bool. Lower-case the text.
        strip_accents: bool. Decompose the text (NFKD) and drop combining marks.
        split_digit_commas: bool. Encode a piece such as `"2010,"` again, as `"2010"` and `","`.
        **kwargs: `sequence_length` (pad or cut to it) and arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: a string; or a list, array or tensor of strings.

    Returns:
        Int32 ids of shape `(length,)` for one string. For a batch a list of lists, in a graph a
        `tf.RaggedTensor`, and with `sequence_length` a tensor `(batch, sequence_length)`.

    Raises:
        FileNotFoundError: `proto` names no file.
        ValueError: `proto` is no SentencePiece model, or lacks [CLS], [SEP], <pad>, [MASK], <unk>.

    Example:
    >>> tokenizer = AlbertTokenizer("albert_spiece_30k-clean.model")
    >>> tokenizer.encode_batch(["Café déjà vu in 2010, he said."])
    [[6241, 121, 1004, 12791, 19, 498, 15, 24, 87, 9]]
    """

    def __init__(
        self,
        proto=None,
        lowercase=True,
        strip_accents=True,
        split_digit_commas=True,
        **kwargs,
    ):
        refuse(kwargs, ("add_bos", "add_eos"), "the packer adds [CLS] and [SEP]")
        check_output(**kwargs)
        check_booleans(
            "AlbertTokenizer",
            lowercase=lowercase,
            strip_accents=strip_accents,
            split_digit_commas=split_digit_commas,
        )
        self._add_special_token("[CLS]", "cls_token")
        self._add_special_token("[SEP]", "sep_token")
        self._add_special_token("<pad>", "pad_token")
        self._add_special_token("[MASK]", "mask_token")
        self._add_special_token("<unk>", "unk_token")
        self._add_special_token("[CLS]", "start_token")
        self._add_special_token("[SEP]", "end_token")
        super().__init__(proto=proto, **kwargs)
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.split_digit_commas = split_digit_commas
        self.built = True  # see AlbertPreprocessor

    def set_proto(self, proto):
        """Set the SentencePiece model: a path, its bytes, or `None`."""
        self._encoder = None
        super().set_proto(None if proto is None else read_sentencepiece(proto))

    def load_assets(self, dir_path):
        path = os.path.join(dir_path, self.file_assets[0])
        self.set_proto(read_bytes(path))

    def word_starts(self):
        """Which pieces start a word, for whole-word and n-gram masking.

        A piece starts a word if it begins with a space, is one punctuation mark, or has a character
        outside a-z and punctuation (`_is_start_piece_sp` of Google's
        `create_pretraining_data.py`). Special tokens are words of their own.

        Returns:
            A boolean array of shape `(vocabulary_size,)`.
        """
        starts = [
            piece.startswith((SPACE, "<"))
            or (len(piece) == 1 and not piece.isalpha())
            or not _LETTERS_AND_PUNCTUATION.issuperset(piece.lower())
            for piece in self.get_vocabulary()
        ]
        starts = np.array(starts, dtype=bool)
        starts[self.special_token_ids] = True
        return starts

    def _normalization(self):
        return {
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "split_digit_commas": self.split_digit_commas,
        }

    def _make_encoder(self):
        return SentencePieceEncoder(self.proto, **self._normalization())

    def _set_proto_tf(self, proto):
        """Keep no TensorFlow resource: see `_graph_tokenizer`."""

    def _graph_tokenizer(self):
        # Made inside the graph that uses it, which then owns the model. A resource made outside is
        # lost when `keras.utils.set_random_seed` clears TensorFlow's cache of kernels, and a
        # SavedModel would have to track it.
        import tensorflow_text as tf_text

        return tf_text.SentencepieceTokenizer(model=self.proto, out_type=self.compute_dtype)

    def _tokenize_spm(self, inputs):
        return self._tokenize_texts(inputs)

    @preprocessing_function
    def _tokenize_tf(self, inputs):
        import tensorflow as tf

        inputs = tf.convert_to_tensor(inputs)
        unbatched = inputs.shape.rank == 0
        if unbatched:
            inputs = tf.expand_dims(inputs, 0)
        inputs = normalize_text_tf(inputs, self.lowercase, self.strip_accents)
        tokens = self._graph_tokenizer().tokenize(inputs)
        if self.split_digit_commas:
            tokens = self._split_digit_commas_tf(tokens)
        return self._shape_tokens_tf(tokens, unbatched)

    def _split_digit_commas_tf(self, tokens):
        """Apply the digit-comma rule to ragged ids (..., None)."""
        import tensorflow as tf

        replacements = self.encoder.digit_commas
        if not replacements:
            return tokens
        rows = [replacements.get(id, [id]) for id in range(self.vocabulary_size())]
        table = tf.RaggedTensor.from_row_lengths(
            tf.constant(np.concatenate(rows), tokens.dtype), [len(row) for row in rows]
        )
        return tf.gather(table, tokens).merge_dims(-2, -1)

    @preprocessing_function
    def _detokenize_tf(self, inputs):
        import tensorflow as tf

        if not isinstance(inputs, tf.RaggedTensor):
            inputs = tf.convert_to_tensor(inputs)
        return self._graph_tokenizer().detokenize(tf.cast(inputs, tf.int32))

    def get_config(self):
        config = super().get_config()
        del config["add_bos"], config["add_eos"]
        config.update(self._normalization())
        return config

    @classmethod
    def train(
        cls,
        files,
        vocabulary_size=30_000,
        output=None,
        *,
        character_coverage=0.99995,
        max_sentences=10_000_000,
        max_bytes=32_000_000,
        lowercase=True,
        strip_accents=True,
        split_digit_commas=True,
    ):
        """Train a new vocabulary as ALBERT's was: a SentencePiece unigram model.

        The same texts give the same bytes. Ids: <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4, then
        ( ) " - . – £ € as pieces of their own (the settings inside the released model).

        Args:
            files: a path or glob, a list of them (UTF-8, one text a line), or any other iterable,
                which gives the texts themselves; wrap a list of texts in `iter`.
            vocabulary_size: int. Number of pieces.
            output: path to write the model to, whole or not at all.
            character_coverage: float. Share of the text whose characters get a piece.
            max_sentences: int. A larger corpus is sampled down to so many lines.
            max_bytes: int. A larger corpus is sampled down to so much text; training takes about
                twenty times as much memory.
            lowercase: bool. As in the constructor; the training text is normalised alike.
            strip_accents: bool. As in the constructor.
            split_digit_commas: bool. As in the constructor.

        Returns:
            An `AlbertTokenizer`.

        Raises:
            ValueError: no file, no text, not UTF-8, or too little text for so many pieces; the
                message names the largest `vocabulary_size` that the text allows.

        Example:
        >>> tokenizer = AlbertTokenizer.train("corpus/*.txt", 8_000, output="spiece.model")
        """
        options = {
            "lowercase": lowercase,
            "strip_accents": strip_accents,
            "split_digit_commas": split_digit_commas,
        }
        check_booleans("AlbertTokenizer", **options)
        proto = train_sentencepiece(
            files,
            vocabulary_size,
            output,
            normalize=lambda text: normalize_text(text, lowercase, strip_accents),
            character_coverage=character_coverage,
            max_sentences=max_sentences,
            max_bytes=max_bytes,
        )
        return cls(proto, **options)
