"""Strings -> masked examples, for `AlbertPretrainer.fit` on raw text.

Corpora of more than a few megabytes are better prepared once: see `PretrainingDataset`.
"""

import keras

from keras_albert.preprocessing.mask_generator import NGramMaskGenerator
from keras_albert.preprocessing.preprocessor import AlbertPreprocessor, labels_and_weights


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertPretrainerPreprocessor(AlbertPreprocessor):
    """Texts, or pairs of texts, to masked inputs and labels of `AlbertPretrainer`.

    Args:
        tokenizer: an `AlbertTokenizer` or `BertTokenizer`.
        sequence_length: int. S.
        truncate: `"random"`, as in ALBERT's pretraining, or `"longest_first"`.
        max_ngram, mask_rate, max_predictions, seed: see `NGramMaskGenerator`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: a string, a list or tensor of strings, or a tuple `(a, b)` of these.
        y: sentence labels int (B,), 0 in order and 1 swapped (or random); None where there is
            nothing to learn from the order: the sentence loss then has weight 0.
        sample_weight: weight of each example, (B,); None for 1.

    Returns:
        `(x, y, sample_weight)`, as `PretrainingDataset` gives them.

    Raises:
        ValueError: an argument breaks its rule (see the layers named above).

    Example:
    ```python
    preprocessor = keras_albert.AlbertPretrainerPreprocessor(tokenizer, sequence_length=64)
    model = keras_albert.AlbertPretrainer(backbone, preprocessor)
    model.fit((["A first sentence."], ["A second one."]), y=[0])
    ```
    """

    def __init__(
        self,
        tokenizer,
        sequence_length=512,
        truncate="random",
        max_ngram=3,
        mask_rate=0.15,
        max_predictions=None,
        seed=0,
        **kwargs,
    ):
        super().__init__(tokenizer, sequence_length=sequence_length, truncate=truncate, **kwargs)
        self.max_ngram = max_ngram
        self.mask_rate = mask_rate
        self.max_predictions = max_predictions
        self.seed = seed
        self.masker = NGramMaskGenerator(
            tokenizer,
            max_ngram=max_ngram,
            mask_rate=mask_rate,
            max_predictions=max_predictions,
            seed=seed,
        )

    def call(self, inputs, *labels, y=None, sample_weight=None):
        return self._mask(super().call(inputs, *labels), y, sample_weight)

    def collate(self, rows, sequence_length):
        x = self.packer.pack([row.segments for row in rows], sequence_length)
        return self._mask(x, *labels_and_weights(rows))

    def _mask(self, x, y, sample_weight):
        masked = self.masker(x["token_ids"])
        x = {**x, "token_ids": masked["token_ids"], "mask_positions": masked["mask_positions"]}
        mask_weights = masked["mask_weights"]
        nothing = mask_weights[..., 0] * 0  # (B,) zeros, of whichever kind the masks are
        sentence = nothing if y is None else y
        sentence_weight = nothing if y is None else nothing + 1
        if sample_weight is not None:
            sentence_weight = sentence_weight * sample_weight
            mask_weights = mask_weights * sample_weight[..., None]
        return (
            x,
            {"mlm": masked["mask_ids"], "sentence": sentence},
            {"mlm": mask_weights, "sentence": sentence_weight},
        )

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "max_ngram": self.max_ngram,
                "mask_rate": self.mask_rate,
                "max_predictions": self.max_predictions,
                "seed": self.seed,
            }
        )
        return config
