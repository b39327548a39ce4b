"""AlbertMultipleChoice: which of several options fits, as RACE and SWAG ask.

Shapes: B batch, N options, S sequence.
"""

import keras
import keras_hub

from keras_albert.arguments import check_known, check_rates
from keras_albert.layers.options import FoldOptions, UnfoldScores
from keras_albert.models.labels import add_classifier
from keras_albert.models.task import AlbertTask
from keras_albert.preprocessing.multiple_choice import AlbertMultipleChoicePreprocessor


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertMultipleChoice(AlbertTask, keras_hub.models.Task):
    """A score for each option from its own [CLS]; a softmax over the options of an example.

    `fit`, `evaluate` and `predict` take `(contexts, options)` or `(passages, questions, options)`,
    with a list of options for each example; their number may differ.

    Args:
        backbone: an `AlbertBackbone`.
        preprocessor: an `AlbertMultipleChoicePreprocessor`; None where inputs are token ids.
        dropout: rate of dropout before the linear layer.
        **kwargs: `name`, `trainable`, `dtype`, `compile`.

    Call arguments:
        The backbone's inputs, each with options: (B, N, S). An option without a token is padding.

    Returns:
        Logits (B, N) in float32; -1e9 for options that are padding.

    Raises:
        ValueError: an argument breaks its rule; `fit` meets a label without an option.

    Source: Lan et al. (2020), section 4.1 (RACE); Devlin et al. (2019), section 4.4 (SWAG).

    Example:
    ```python
    model = keras_albert.AlbertMultipleChoice.from_preset("run/preset")
    model.fit((["He opened the door."], [["It creaked.", "Blue is a colour."]]), [0])
    ```
    """

    preprocessor_cls = AlbertMultipleChoicePreprocessor
    takes = "a tuple (contexts, options) or (passages, questions, options)"

    def __init__(self, backbone, preprocessor=None, dropout=0.1, **kwargs):
        self.check_parts(backbone, preprocessor)
        check_rates("AlbertMultipleChoice", dropout=dropout)
        check_known("AlbertMultipleChoice", kwargs, ("name", "trainable", "dtype", "compile"))

        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        add_classifier(self, backbone, 1, dropout)
        fold, unfold = FoldOptions(name="fold_options"), UnfoldScores(name="unfold_scores")

        # === Graph ===
        inputs = {
            name: keras.Input((None, None), dtype=tensor.dtype, name=name)
            for name, tensor in backbone.input.items()
        }
        pooled_output = backbone.pooled({name: fold(x) for name, x in inputs.items()})
        scores = self.classifier(self.classifier_dropout(pooled_output))
        logits = unfold(scores, padding_mask=inputs["padding_mask"])
        compile = kwargs.pop("compile", True)
        super().__init__(inputs=inputs, outputs=logits, compile=False, **kwargs)

        # === Config ===
        self.dropout = dropout
        if compile:
            self.compile()

    def default_loss(self):
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )

    def default_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def check_labels(self, rows):
        for i, row in enumerate(rows):
            if not isinstance(row.label, int) or not 0 <= row.label < len(row.segments):
                raise ValueError(
                    "`y` must be the index of an option, from 0 to the number of options less 1. "
                    f"Received: {row.label!r} at index {i}, of {len(row.segments)} options"
                )

    def get_config(self):
        return {**super().get_config(), "dropout": self.dropout}
