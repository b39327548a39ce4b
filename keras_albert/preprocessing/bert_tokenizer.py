"""BERT's tokenizer: basic words, then WordPiece by the longest match."""

import os

import keras
import keras_hub
import numpy as np
from keras_hub.src.utils.tensor_utils import preprocessing_function

from keras_albert.arguments import check_booleans
from keras_albert.preprocessing.bert_words import split_words, split_words_tf
from keras_albert.preprocessing.encoders import MAX_WORD_LENGTH, WordPieceEncoder
from keras_albert.preprocessing.text_tokenizer import TextTokenizer, check_output, refuse
from keras_albert.preprocessing.vocabulary import read_wordpiece
from keras_albert.preprocessing.vocabulary_training import train_wordpiece

_FIXED = ("split", "suffix_indicator", "oov_token", "special_tokens", "special_tokens_in_strings")


@keras.saving.register_keras_serializable(package="keras_albert")
class BertTokenizer(TextTokenizer, keras_hub.tokenizers.WordPieceTokenizer):
    """Text to ids as in BERT: clean, lower-case, split into words, WordPiece.

    The ids are those of Google's `FullTokenizer`, in Python as well as inside `tf.data` and
    `tf.function`, where `tensorflow-text` is needed and a few capitals younger than its Unicode
    tables (`normalizer.NEWER_CAPITALS`) keep their case.

    Args:
        vocabulary: path (`str` or `os.PathLike`) of a file with one token a line, or an iterable
            of tokens. `None` waits for the assets of a saved tokenizer.
        lowercase: bool. Lower-case the text.
        strip_accents: bool, or `None` for the same as `lowercase`, as in the original.
        **kwargs: `sequence_length` (pad or cut to it) and arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: a string; or a list, array or tensor of strings.

    Returns:
        Int32 ids of shape `(length,)` for one string. For a batch a list of lists, in a graph a
        `tf.RaggedTensor`, and with `sequence_length` a tensor `(batch, sequence_length)`.

    Raises:
        FileNotFoundError: `vocabulary` names no file.
        ValueError: an empty line, a token twice, or no [PAD], [UNK], [CLS], [SEP] or [MASK].

    Example:
    >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "caf", "##e", "!"])
    >>> tokenizer.encode_batch(["Café! Bar"])
    [[5, 6, 7, 1]]
    """

    def __init__(self, vocabulary=None, lowercase=True, strip_accents=None, **kwargs):
        refuse(kwargs, _FIXED, "BERT's vocabularies fix it")
        check_output(**kwargs)
        check_booleans("BertTokenizer", lowercase=lowercase)
        if strip_accents is not None:
            check_booleans("BertTokenizer", strip_accents=strip_accents)
        self._add_special_token("[CLS]", "cls_token")
        self._add_special_token("[SEP]", "sep_token")
        self._add_special_token("[PAD]", "pad_token")
        self._add_special_token("[MASK]", "mask_token")
        self._add_special_token("[UNK]", "unk_token")
        self._add_special_token("[CLS]", "start_token")
        self._add_special_token("[SEP]", "end_token")
        super().__init__(
            vocabulary=vocabulary, lowercase=lowercase, strip_accents=strip_accents, **kwargs
        )
        self.built = True  # see AlbertPreprocessor

    def set_vocabulary(self, vocabulary):
        """Set the vocabulary: a path, an iterable of tokens, or `None`."""
        self._encoder = None
        super().set_vocabulary(None if vocabulary is None else read_wordpiece(vocabulary))

    def load_assets(self, dir_path):
        self.set_vocabulary(os.path.join(dir_path, self.file_assets[0]))

    def word_starts(self):
        """Which pieces start a word, for whole-word and n-gram masking.

        Returns:
            A boolean array of shape `(vocabulary_size,)`, false for pieces that begin with `##`
            (`_is_start_piece_bert` of Google's `create_pretraining_data.py`).
        """
        return np.array([not piece.startswith("##") for piece in self.get_vocabulary()], dtype=bool)

    def _normalization(self):
        strip_accents = self.lowercase if self.strip_accents is None else self.strip_accents
        return {"lowercase": self.lowercase, "strip_accents": strip_accents}

    def _make_encoder(self):
        return WordPieceEncoder(self.vocabulary, **self._normalization())

    def _set_vocabulary_tf(self):
        import tensorflow_text as tf_text

        self._fast_word_piece = tf_text.FastWordpieceTokenizer(
            vocab=list(self.vocabulary),
            token_out_type=self.compute_dtype,
            suffix_indicator="##",
            unknown_token=self.unk_token,
            max_bytes_per_word=4 * MAX_WORD_LENGTH,  # no bound: `_tokenize_tf` counts characters
            no_pretokenization=True,
            support_detokenization=True,
        )

    def _tokenize_python(self, inputs):
        return self._tokenize_texts(inputs)

    @preprocessing_function
    def _tokenize_tf(self, inputs):
        import tensorflow as tf

        self._maybe_initialized_tf()
        inputs = tf.convert_to_tensor(inputs)
        unbatched = inputs.shape.rank == 0
        if unbatched:
            inputs = tf.expand_dims(inputs, 0)
        words = split_words_tf(inputs, **self._normalization())
        too_long = tf.strings.length(words.flat_values, "UTF8_CHAR") > MAX_WORD_LENGTH
        words = words.with_flat_values(tf.where(too_long, self.unk_token, words.flat_values))
        tokens = self._fast_word_piece.tokenize(words).merge_dims(-2, -1)
        return self._shape_tokens_tf(tokens, unbatched)

    def get_config(self):
        config = super().get_config()
        for name in _FIXED:
            del config[name]
        return config

    @classmethod
    def train(
        cls,
        files,
        vocabulary_size=30_522,
        output=None,
        *,
        max_characters=1_000,
        lowercase=True,
        strip_accents=None,
    ):
        """Train a new WordPiece vocabulary.

        The same texts give the same tokens. Ids: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, then
        the characters, then the merges in the order found.

        Args:
            files: a path or glob, a list of them (UTF-8, one text a line), or any other iterable,
                which gives the texts themselves; wrap a list of texts in `iter`.
            vocabulary_size: int. Number of tokens.
            output: path to write the vocabulary to, one token a line, whole or not at all.
            max_characters: int. So many of the commonest characters get a token; words with others
                are left out of the training.
            lowercase: bool. As in the constructor; the training text is split alike.
            strip_accents: bool or `None`. As in the constructor.

        Returns:
            A `BertTokenizer`.

        Raises:
            ValueError: no file, no text, not UTF-8, or too little text for so many tokens; the
                message names the largest `vocabulary_size` that the text allows.

        Example:
        >>> tokenizer = BertTokenizer.train("corpus/*.txt", 8_000, output="vocab.txt")
        """
        tokenizer = cls(None, lowercase=lowercase, strip_accents=strip_accents)
        options = tokenizer._normalization()
        tokens = train_wordpiece(
            files,
            vocabulary_size,
            output,
            split=lambda text: split_words(text, **options),
            max_characters=max_characters,
        )
        tokenizer.set_vocabulary(tokens)
        return tokenizer
