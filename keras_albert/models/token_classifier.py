"""AlbertTokenClassifier: a label for every word, as named-entity recognition asks.

Shapes: B batch, S sequence, C classes.
"""

import keras
import keras_hub
import numpy as np

from keras_albert.arguments import check_known, check_positive_integers, check_rates
from keras_albert.models.labels import (
    add_classifier,
    check_class_labels,
    check_class_names,
    classify,
)
from keras_albert.models.task import AlbertTask
from keras_albert.preprocessing.tagging import AlbertTokenClassifierPreprocessor


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTokenClassifier(AlbertTask, keras_hub.models.Task):
    """Dropout and a linear layer on every token; the first piece of a word stands for it.

    `fit`, `evaluate` and `tag` take sentences as lists of words, with an integer for each word.

    Args:
        backbone: an `AlbertBackbone`, whose pooler, which nothing trains here, is frozen.
        num_classes: number of tags C.
        preprocessor: an `AlbertTokenClassifierPreprocessor`; None where inputs are token ids.
        dropout: rate of dropout before the linear layer.
        class_names: a name for each tag, as `"B-PER"`, saved with the model.
        **kwargs: `name`, `trainable`, `dtype`, `compile`.

    Call arguments:
        The backbone's inputs.

    Returns:
        Logits (B, S, C) in float32.

    Raises:
        ValueError: an argument breaks its rule; `fit` meets a label out of range.

    Source: Devlin et al. (2019), section 5.3.

    Example:
    ```python
    tagger = keras_albert.AlbertTokenClassifier.from_preset(
        "run/preset", num_classes=3, class_names=["O", "B-PER", "I-PER"]
    )
    tagger.fit([["Ada", "Lovelace", "wrote"]], [[1, 2, 0]])
    tagger.tag([["Ada", "wrote"]])  # [["B-PER", "O"]]
    ```
    """

    preprocessor_cls = AlbertTokenClassifierPreprocessor
    uses_pooler = False
    same_length = True
    takes = "a list of sentences, each a list of words"

    def __init__(
        self, backbone, num_classes, preprocessor=None, dropout=0.1, class_names=None, **kwargs
    ):
        self.check_parts(backbone, preprocessor)
        check_positive_integers("AlbertTokenClassifier", num_classes=num_classes)
        check_rates("AlbertTokenClassifier", dropout=dropout)
        check_class_names("AlbertTokenClassifier", class_names, num_classes)
        check_known("AlbertTokenClassifier", kwargs, ("name", "trainable", "dtype", "compile"))

        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        backbone.pooler.trainable = False  # nothing would train it, and Keras would warn
        add_classifier(self, backbone, num_classes, dropout)

        # === Graph ===
        sequence_output = backbone(backbone.input)["sequence_output"]
        logits = classify(self, sequence_output)
        compile = kwargs.pop("compile", True)
        super().__init__(inputs=backbone.input, outputs=logits, compile=False, **kwargs)

        # === Config ===
        self.num_classes = num_classes
        self.dropout = dropout
        self.class_names = None if class_names is None else list(class_names)
        if compile:
            self.compile()

    def default_loss(self):
        # The mean over words: other pieces have weight 0.
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )

    def default_metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def check_labels(self, rows):
        if rows[0].label is None:
            raise ValueError("`y` must hold a list of labels for every sentence. Received: y=None")
        check_class_labels([label for row in rows for label in row.label], self.num_classes)

    def tag(self, x, batch_size=None, **kwargs):
        """The most probable tag of every word.

        Args:
            x: a list of sentences, each a list of words or a string that white space divides. Long
                ones are read in stretches that fit.
            batch_size: see `predict`.
            **kwargs: see `keras.Model.predict`.

        Returns:
            A list for each sentence, with a tag for each word: a name where the model has
            `class_names`, else an integer.

        Raises:
            ValueError: `x` is something else, or a sentence has no word.
        """
        if not len(x):
            return []
        logits = keras.ops.convert_to_numpy(self.predict(x, batch_size, **kwargs))
        best = np.argmax(logits, axis=-1)
        tags = [[] for _ in x]
        for row, classes in zip(self.preprocessor.encode(x), best, strict=True):
            tags[row.sentence] += classes[row.starts].tolist()
        if self.class_names:
            tags = [[self.class_names[tag] for tag in sentence] for sentence in tags]
        return tags

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "num_classes": self.num_classes,
                "dropout": self.dropout,
                "class_names": self.class_names,
            }
        )
        return config
