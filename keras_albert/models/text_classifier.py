"""AlbertTextClassifier: one label, or one number, for a text or a pair of texts."""

import keras
import keras_hub
from keras import ops

from keras_albert.arguments import check, check_known, check_positive_integers, check_rates
from keras_albert.models.early_exit import EarlyExit
from keras_albert.models.inputs import is_packed
from keras_albert.models.labels import (
    add_classifier,
    check_class_labels,
    check_class_names,
    classify,
)
from keras_albert.models.task import AlbertTask
from keras_albert.preprocessing.preprocessor import AlbertPreprocessor


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTextClassifier(EarlyExit, AlbertTask, keras_hub.models.TextClassifier):
    """Classification, or regression with `num_classes=1`: dropout and a linear layer on [CLS].

    `fit`, `evaluate` and `predict` take strings, or a tuple of two lists for pairs:
    `fit((premises, hypotheses), labels)`.

    Args:
        backbone: an `AlbertBackbone`.
        num_classes: number of classes; 1 is regression by the mean squared error.
        preprocessor: an `AlbertPreprocessor`; None where inputs are token ids.
        dropout: rate of dropout before the linear layer.
        class_names: a name for each class, saved with the model.
        early_exit: whether every depth has a head, all trained together, so that `predict` may
            leave out depths; see `patience`.
        patience: how often on end the heads of an example must agree before it leaves and its last
            head answers; None computes all depths. It may be set later (`choose_patience`).
        exit_threshold: of a regression, heads agree where they differ by less than this.
        **kwargs: `name`, `trainable`, `dtype`, `compile`.

    Call arguments:
        The backbone's inputs.

    Returns:
        Logits (B, num_classes) in float32; of a regression the number itself. With `early_exit`
        and `training=True`, those of all depths (B, L, num_classes).

    With `early_exit`, `evaluate` and exports are of all depths, whatever the patience.

    Raises:
        ValueError: an argument breaks its rule; `fit` meets a label out of range.

    Source: Devlin et al. (2019), section 4.1; `create_model` of Google's `run_classifier`;
    Zhou et al. (2020), "BERT Loses Patience", for the early exits.

    Example:
    ```python
    classifier = keras_albert.AlbertTextClassifier.from_preset("run/preset", num_classes=2)
    classifier.fit(["fine", "dreadful"], [1, 0], epochs=3)
    classifier.predict(["not bad"]).shape  # (1, 2)
    ```
    """

    preprocessor_cls = AlbertPreprocessor
    takes = "strings, or a tuple (a, b) of two lists of strings"

    def __init__(
        self,
        backbone,
        num_classes,
        preprocessor=None,
        dropout=0.1,
        class_names=None,
        early_exit=False,
        patience=None,
        exit_threshold=0.1,
        **kwargs,
    ):
        self.check_parts(backbone, preprocessor)
        check_positive_integers("AlbertTextClassifier", num_classes=num_classes)
        check_rates("AlbertTextClassifier", dropout=dropout)
        check_class_names("AlbertTextClassifier", class_names, num_classes)
        self.check_exits("AlbertTextClassifier", early_exit, patience, exit_threshold, backbone)
        check_known("AlbertTextClassifier", kwargs, ("name", "trainable", "dtype", "compile"))

        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        add_classifier(self, backbone, num_classes, dropout)

        # === Graph ===
        pooled_output = backbone.pooled(backbone.input)
        logits = classify(self, pooled_output)
        compile = kwargs.pop("compile", True)
        super().__init__(inputs=backbone.input, outputs=logits, compile=False, **kwargs)

        # === Config ===
        self.num_classes = num_classes
        self.dropout = dropout
        self.class_names = None if class_names is None else list(class_names)
        self.early_exit = early_exit
        self.exit_threshold = exit_threshold
        self.patience = patience
        if early_exit:
            self.add_exits()
        if compile:
            self.compile()

    @property
    def packs(self):
        """Whether the model takes rows of several texts: not where they leave one by one."""
        return not self.early_exit

    def call(self, inputs, training=None, mask=None):
        if not is_packed(inputs):
            return super().call(inputs, training=training, mask=mask)
        x_N1H = self.backbone.outputs_of_texts(inputs, inputs["positions"], training)
        pooled_NH = self.backbone.pooler(x_N1H)
        logits = self.classifier(self.classifier_dropout(pooled_NH, training=training))
        return ops.cast(logits, "float32")

    def default_loss(self):
        if self.num_classes == 1:
            return keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )

    def default_metrics(self):
        if self.num_classes == 1:
            return [keras.metrics.MeanSquaredError(name="mse")]
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def check_labels(self, rows):
        labels = [row.label for row in rows]
        if labels[0] is None:
            raise ValueError("`y` must hold a label for every text. Received: y=None")
        if self.num_classes > 1:
            check_class_labels(labels, self.num_classes)

    def predict_classes(self, x, batch_size=None, **kwargs):
        """The most probable class of each text, and its probability.

        Args:
            x: see `predict`.
            batch_size: see `predict`.
            **kwargs: see `keras.Model.predict`.

        Returns:
            A list of `(class, probability)`: a name where the model has `class_names`, else an
            integer.

        Raises:
            ValueError: the model is a regression.
        """
        check(
            "predict_classes",
            "of a classifier: num_classes of at least 2",
            lambda count: count > 1,
            num_classes=self.num_classes,
        )
        logits = self.predict(x, batch_size, **kwargs)
        probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(logits))
        names = self.class_names or range(self.num_classes)
        return [(names[int(row.argmax())], float(row.max())) for row in probabilities]

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "num_classes": self.num_classes,
                "dropout": self.dropout,
                "class_names": self.class_names,
                "early_exit": self.early_exit,
                "patience": self.patience,
                "exit_threshold": self.exit_threshold,
            }
        )
        return config
