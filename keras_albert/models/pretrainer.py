"""AlbertPretrainer: the backbone with the heads and losses of pretraining.

Shapes: B batch, S sequence, P predictions, V vocabulary.
"""

import keras
import keras_hub
from keras import ops

from keras_albert.arguments import check_known
from keras_albert.layers.heads import MaskedLMHead, SentenceOrderHead
from keras_albert.models.fill_mask import fill_mask
from keras_albert.models.inputs import is_model_input, is_packed
from keras_albert.models.task import AlbertTask
from keras_albert.preprocessing.pretraining import AlbertPretrainerPreprocessor
from keras_albert.preprocessing.segments import OBJECTIVES
from keras_albert.training.handing_over import hand_over
from keras_albert.training.lamb import Lamb
from keras_albert.training.losses import MaskedLMLoss


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertPretrainer(AlbertTask, keras_hub.models.Task):
    """Masked language modelling, with sentence order (SOP), next sentence (NSP), or alone.

    Args:
        backbone: an `AlbertBackbone`.
        preprocessor: an `AlbertPretrainerPreprocessor`, for strings and for `fill_mask`; None
            where the data is a `PretrainingDataset`.
        objective: `"sop"`, `"nsp"` (the same head, other data) or `"none"` (no sentence head; the
            backbone's pooler, which nothing trains then, is frozen).
        **kwargs: other arguments of `keras_hub.models.Task`.

    Call arguments:
        The backbone's inputs, and `"mask_positions"` int (B, P); or the x of a dataset with
        `packing`.

    Returns:
        A dict of `"mlm"`, logits (B, P, V), and `"sentence"`, logits (B, 2); both float32. With
        objective `"none"` there is no `"sentence"`.

    Raises:
        ValueError: the objective is unknown, or the backbone is no `AlbertBackbone`.

    Source: Lan et al. (2020), section 3.1; `run_pretraining` of Google's ALBERT.

    Example:
    ```python
    backbone = keras_albert.AlbertBackbone.from_preset("albert_tiny", load_weights=False)
    model = keras_albert.AlbertPretrainer(backbone)
    model.fit(keras_albert.PretrainingDataset("shards/", sequence_length=128), epochs=3)
    ```
    """

    preprocessor_cls = AlbertPretrainerPreprocessor
    takes = "a `PretrainingDataset`, strings or a dict of model inputs"

    def __init__(self, backbone, preprocessor=None, objective="sop", **kwargs):
        self.check_parts(backbone, preprocessor)
        if objective not in OBJECTIVES:
            raise ValueError(f"`objective` must be one of {OBJECTIVES}. Received: {objective!r}")
        check_known("AlbertPretrainer", kwargs, ("name", "trainable", "dtype", "compile"))

        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        initializer = keras.initializers.TruncatedNormal(stddev=backbone.initializer_range)
        self.masked_lm_head = MaskedLMHead(
            backbone.token_embedding,
            activation=backbone.activation,
            layer_norm_epsilon=backbone.layer_norm_epsilon,
            kernel_initializer=initializer,
            dtype=backbone.dtype_policy,
            name="masked_lm_head",
        )
        self.sentence_head = None
        if objective == "none":
            backbone.pooler.trainable = False  # nothing would train it, and Keras would warn
        else:
            self.sentence_head = SentenceOrderHead(
                kernel_initializer=initializer.clone(),
                dtype=backbone.dtype_policy,
                name="sentence_head",
            )

        # === Graph ===
        inputs = {
            **backbone.input,
            "mask_positions": keras.Input((None,), dtype="int32", name="mask_positions"),
        }
        # [CLS] and the tokens to predict: the last block computes no others.
        first, positions = ops.zeros_like(inputs["token_ids"][:, :1]), inputs["mask_positions"]
        read = ops.concatenate([first, positions], axis=1)
        outputs = self._heads(backbone.outputs_at(inputs, read))
        # The functional constructor, not a subclassed model's, sets up the graph; compiling comes
        # last, since it looks at the objective.
        compile = kwargs.pop("compile", True)
        super().__init__(inputs=inputs, outputs=outputs, compile=False, **kwargs)

        # === Config ===
        self.objective = objective
        if compile:
            self.compile()

    def _heads(self, x_BMH):
        """Logits, from the last layer's output at [CLS] and then the tokens to predict."""
        outputs = {"mlm": self.masked_lm_head(x_BMH[:, 1:])}
        if self.sentence_head is not None:
            outputs["sentence"] = self.sentence_head(self.backbone.pooler(x_BMH))
        return outputs

    def call(self, inputs, training=None, mask=None):
        if not is_packed(inputs):
            return super().call(inputs, training=training, mask=mask)
        positions = inputs["mask_positions"]
        return self._heads(self.backbone.outputs_of_texts(inputs, positions, training))

    def compile(self, optimizer="auto", loss="auto", **kwargs):
        """Configure training; without arguments, as ALBERT was pretrained.

        Args:
            optimizer: `"auto"` is `Lamb(1e-3)`. The paper's 1.76e-3, with a warm-up, goes with
                batches of 4,096.
            loss: `"auto"` is the sum of the masked-LM loss and the sentence loss.
            **kwargs: see `AlbertTask.compile`; the metrics are the accuracies of both tasks.
        """
        if isinstance(optimizer, str) and optimizer == "auto":
            optimizer = Lamb(1e-3)
        super().compile(optimizer, loss, **kwargs)

    def default_loss(self):
        losses = {
            "mlm": MaskedLMLoss(),
            "sentence": keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction="mean_with_sample_weight", name="sentence_loss"
            ),
        }
        return {task: losses[task] for task in self._tasks()}

    def default_metrics(self):
        # Keras puts the task before the name where there are several.
        name = "accuracy" if len(self._tasks()) > 1 else "mlm_accuracy"
        return {
            task: [keras.metrics.SparseCategoricalAccuracy(name=name)] for task in self._tasks()
        }

    @property
    def uses_pooler(self):
        """Whether the sentence objective reads the backbone's pooled output."""
        return self.objective != "none"

    def _tasks(self):
        return ["mlm"] if self.objective == "none" else ["mlm", "sentence"]

    def fit(self, x=None, y=None, batch_size=None, *, validation_data=None, **kwargs):
        """Train on a `PretrainingDataset`, on strings or on model inputs; see `AlbertTask.fit`.

        Args:
            x: a `PretrainingDataset`, whose pass is the default of `steps_per_epoch`; or texts, or
                a tuple of two lists of texts, with sentence labels `y`; or model inputs.
            y: labels, where `x` has none.
            batch_size: examples in a batch of strings or inputs; a dataset has its own.
            validation_data: a `PretrainingDataset` with `static=True`, so that every epoch is
                measured on the same examples; or a tuple `(x, y)`.
            **kwargs: see `AlbertTask.fit`. With a `TrainingState` among `callbacks` a run that was
                interrupted goes on.

        Returns:
            A `keras.callbacks.History`.

        Raises:
            ValueError: the data was made with another vocabulary than the model's, or for another
                objective; or see `AlbertTask.fit`.
        """
        if is_model_input(x) and y is None:
            raise ValueError(
                "`y` must be given with a dict of model inputs: a dict of 'mlm', token ids (B, P), "
                "and 'sentence', (B,), the second not with objective 'none'. Received: y=None"
            )
        if isinstance(validation_data, dict):
            raise ValueError(
                "`validation_data` must have labels: a `PretrainingDataset` with `static=True` or "
                "a tuple (x, y). Received: a dict"
            )
        for data in (x, validation_data):
            self._check_dataset(data, training=data is x)
        if _is_endless(x):
            kwargs["steps_per_epoch"] = kwargs.get("steps_per_epoch") or len(x)
            kwargs["shuffle"] = False  # it shuffles itself, and Keras would warn that it cannot
            x = hand_over(x, kwargs.get("callbacks"))
        if _is_endless(validation_data):
            kwargs["validation_steps"] = kwargs.get("validation_steps") or len(validation_data)
        return super().fit(x, y, batch_size, validation_data=validation_data, **kwargs)

    def evaluate(self, x=None, y=None, batch_size=None, **kwargs):
        """Losses and accuracies on a `PretrainingDataset`, strings or inputs; see `fit`."""
        self._check_dataset(x)
        if _is_endless(x):
            kwargs["steps"] = kwargs.get("steps") or len(x)
        return super().evaluate(x, y, batch_size, **kwargs)

    def predict(self, x, batch_size=None, **kwargs):
        """Logits for a `PretrainingDataset` or inputs; see `fit`."""
        self._check_dataset(x)
        if _is_endless(x):
            kwargs["steps"] = kwargs.get("steps") or len(x)
        return super().predict(x, batch_size, **kwargs)

    def _check_dataset(self, data, training=False) -> None:
        """Raise a `ValueError` where a dataset was made for another model than this one."""
        if getattr(data, "packing", False):
            self.check_undivided(training)
        for part in getattr(data, "datasets", (data,)):
            objective = getattr(part, "objective", self.objective)
            if objective != self.objective:
                raise ValueError(
                    "The dataset and the model must have the same `objective`. Received: "
                    f"{objective!r} of the dataset, {self.objective!r} of the model"
                )
            made_with = getattr(getattr(part, "manifest", None), "tokenizer", None)
            if made_with is None:
                continue
            size = made_with["vocabulary_size"]
            if size > self.backbone.vocabulary_size:
                raise ValueError(
                    "The dataset's ids must be in the model's vocabulary: make the backbone with "
                    f"`vocabulary_size={size}`. Received: vocabulary_size="
                    f"{self.backbone.vocabulary_size} of the model, shards of {size} pieces"
                )
            tokenizer = self.preprocessor.tokenizer if self.preprocessor else None
            if tokenizer is not None and tokenizer.fingerprint() != made_with["fingerprint"]:
                raise ValueError(
                    "The dataset and the model must have the same tokenizer. Received: shards of "
                    f"an {made_with['class_name']} of {size} pieces, fingerprint "
                    f"{made_with['fingerprint'][:12]}, and a model with an "
                    f"{type(tokenizer).__name__} of {tokenizer.vocabulary_size()} pieces, "
                    f"fingerprint {tokenizer.fingerprint()[:12]}"
                )

    def collate(self, rows, length):
        return self._for_objective(super().collate(rows, length))

    def preprocess_samples(self, x, y=None, sample_weight=None):
        return self._for_objective(super().preprocess_samples(x, y, sample_weight))

    def _for_objective(self, sample):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(sample)
        if self.objective == "none":
            y, sample_weight = _without_sentence(y), _without_sentence(sample_weight)
        return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)

    def fill_mask(self, text, top_k=5):
        """The most probable tokens for every [MASK] in a text; see `models.fill_mask.fill_mask`."""
        return fill_mask(self, text, top_k)

    def get_config(self):
        return {**super().get_config(), "objective": self.objective}


def _without_sentence(values):
    if not isinstance(values, dict):
        return values
    return {task: value for task, value in values.items() if task != "sentence"}


def _is_endless(x):
    return isinstance(x, keras.utils.PyDataset) and x.num_batches is None
