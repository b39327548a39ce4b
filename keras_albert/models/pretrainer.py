"""AlbertPretrainer: the backbone with the heads and losses of pretraining.

Shapes: B batch, S sequence, P predictions, V vocabulary.
"""

import keras
import keras_hub

from keras_albert.arguments import check_booleans, check_known, check_positive_integers
from keras_albert.layers.heads import MaskedLMHead, SentenceOrderHead
from keras_albert.models.backbone import AlbertBackbone
from keras_albert.models.fill_mask import fill_mask
from keras_albert.models.presets import PRESETS, load_preset
from keras_albert.preprocessing.pretraining import AlbertPretrainerPreprocessor
from keras_albert.preprocessing.segments import OBJECTIVES
from keras_albert.training.lamb import Lamb
from keras_albert.training.losses import MaskedLMLoss


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertPretrainer(keras_hub.models.Task):
    """Masked language modelling, with sentence order (SOP), next sentence (NSP), or alone.

    Args:
        backbone: an `AlbertBackbone`.
        preprocessor: an `AlbertPretrainerPreprocessor`, for strings and for `fill_mask`; None
            where the data is a `PretrainingDataset`.
        objective: `"sop"`, `"nsp"` (the same head, other data) or `"none"` (no sentence head; the
            backbone's pooler, which nothing trains then, is frozen).
        **kwargs: other arguments of `keras_hub.models.Task`.

    Call arguments:
        The backbone's inputs, and `"mask_positions"` int (B, P).

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

    backbone_cls = AlbertBackbone
    preprocessor_cls = AlbertPretrainerPreprocessor

    def __init__(self, backbone, preprocessor=None, objective="sop", **kwargs):
        if not isinstance(backbone, AlbertBackbone):
            raise ValueError(
                "`backbone` must be a keras_albert.AlbertBackbone. "
                f"Received: {type(backbone).__name__}"
            )
        if objective not in OBJECTIVES:
            raise ValueError(f"`objective` must be one of {OBJECTIVES}. Received: {objective!r}")
        check_known("AlbertPretrainer", kwargs, ("name", "trainable", "dtype", "compile"))
        if preprocessor is not None:
            if not isinstance(preprocessor, AlbertPretrainerPreprocessor):
                raise ValueError(
                    "`preprocessor` must be a keras_albert.AlbertPretrainerPreprocessor or None: "
                    "give a tokenizer as `AlbertPretrainerPreprocessor(tokenizer)`. "
                    f"Received: {type(preprocessor).__name__}"
                )
            _check_vocabulary(backbone, preprocessor)

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
        features = backbone(backbone.input)
        outputs = {
            "mlm": self.masked_lm_head(
                features["sequence_output"], mask_positions=inputs["mask_positions"]
            )
        }
        if self.sentence_head is not None:
            outputs["sentence"] = self.sentence_head(features["pooled_output"])
        # The functional constructor, not a subclassed model's, sets up the graph; compiling comes
        # last, since it looks at the objective.
        compile = kwargs.pop("compile", True)
        super().__init__(inputs=inputs, outputs=outputs, compile=False, **kwargs)

        # === Config ===
        self.objective = objective
        if compile:
            self.compile()

    def compile(
        self, optimizer="auto", loss="auto", *, loss_weights=None, weighted_metrics="auto", **kwargs
    ):
        """Configure training; without arguments, as ALBERT was pretrained.

        Args:
            optimizer: `"auto"` is `Lamb(1e-3)`. The paper's 1.76e-3, with a warm-up, goes with
                batches of 4,096.
            loss: `"auto"` is the sum of the masked-LM loss and the sentence loss.
            loss_weights: weights of the two losses in the sum.
            weighted_metrics: `"auto"` is the accuracy of both tasks.
            **kwargs: see `keras.Model.compile`.
        """
        tasks = ["mlm"] if self.objective == "none" else ["mlm", "sentence"]
        if optimizer == "auto":
            optimizer = Lamb(1e-3)
        if loss == "auto":
            losses = {
                "mlm": MaskedLMLoss(),
                "sentence": keras.losses.SparseCategoricalCrossentropy(
                    from_logits=True, reduction="mean_with_sample_weight", name="sentence_loss"
                ),
            }
            loss = {task: losses[task] for task in tasks}
        if weighted_metrics == "auto":
            # Keras puts the task before the name where there are several.
            name = "accuracy" if len(tasks) > 1 else "mlm_accuracy"
            weighted_metrics = {
                task: [keras.metrics.SparseCategoricalAccuracy(name=name)] for task in tasks
            }
        super().compile(
            optimizer=optimizer,
            loss=loss,
            loss_weights=loss_weights,
            weighted_metrics=weighted_metrics,
            **kwargs,
        )

    def get_compile_config(self):
        config = super().get_compile_config()
        if config:
            config["optimizer_is_built"] = bool(self.optimizer and self.optimizer.built)
        return config

    def compile_from_config(self, config):
        # Keras leaves a loaded model uncompiled where `compile` is a class's own. The optimizer is
        # built where the saved one was, so that its state finds its place.
        config = keras.saving.deserialize_keras_object(config)
        optimizer_is_built = config.pop("optimizer_is_built", False)
        # What suits this backend, whatever it was where the model was saved.
        self.compile(**{**config, "jit_compile": "auto"})
        if optimizer_is_built:
            self.optimizer.build(self.trainable_variables)

    def save_task_weights(self, filepath):
        """Save the heads' weights alone: neither the backbone's, nor the optimizer's state."""
        keras.saving.save_weights(self, filepath, objects_to_skip=self._not_the_heads())

    def load_task_weights(self, filepath):
        """Load what `save_task_weights` saved."""
        keras.saving.load_weights(self, filepath, objects_to_skip=self._not_the_heads())

    def _not_the_heads(self):
        optimizer = [self.optimizer] if getattr(self, "optimizer", None) is not None else []
        return [*self.backbone._flatten_layers(), *optimizer]

    def preprocess_samples(self, x, y=None, sample_weight=None):
        if not _is_model_input(x):
            if self.preprocessor is None:
                raise ValueError(
                    "To train on strings the model needs a tokenizer: make it with "
                    "`preprocessor=AlbertPretrainerPreprocessor(tokenizer)`; or pass a "
                    "`PretrainingDataset` or a dict of model inputs. "
                    f"Received: {type(x).__name__}"
                )
            sample = super().preprocess_samples(x, y, sample_weight)
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(sample)
        if self.objective == "none":
            y, sample_weight = _without_sentence(y), _without_sentence(sample_weight)
        return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)

    def fit(self, x=None, y=None, batch_size=None, *, validation_data=None, **kwargs):
        """Train on a `PretrainingDataset`, on strings, or on model inputs; as `keras.Model.fit`.

        Args:
            x: a `PretrainingDataset`, whose pass is the default of `steps_per_epoch`; or whatever
                `keras_hub.models.Task.fit` takes. Strings are used in the order given.
            y: labels, where `x` has none.
            batch_size: examples in a batch of strings or inputs; a dataset has its own.
            validation_data: like `x`; a `PretrainingDataset` with `static=True`, so that every
                epoch is measured on the same examples.
            **kwargs: see `keras.Model.fit`.

        Returns:
            A `keras.callbacks.History`.
        """
        _check_training_data(x, y, validation_data)
        if batch_size is not None:
            check_positive_integers("fit", batch_size=batch_size)
        if not _needs_no_preprocessing(x):
            kwargs.setdefault("shuffle", False)  # KerasHub keeps the order of strings
            return super().fit(x, y, batch_size, validation_data=validation_data, **kwargs)
        if _is_endless(x):
            kwargs["steps_per_epoch"] = kwargs.get("steps_per_epoch") or len(x)
            kwargs["shuffle"] = False  # it shuffles itself, and Keras would warn that it cannot
        if _is_endless(validation_data):
            kwargs["validation_steps"] = kwargs.get("validation_steps") or len(validation_data)
        return keras.Model.fit(self, x, y, batch_size, validation_data=validation_data, **kwargs)

    def evaluate(self, x=None, y=None, batch_size=None, **kwargs):
        """Losses and accuracies on a `PretrainingDataset`, strings or inputs; see `fit`."""
        if not _needs_no_preprocessing(x):
            return super().evaluate(x, y, batch_size, **kwargs)
        if _is_endless(x):
            kwargs["steps"] = kwargs.get("steps") or len(x)
        return keras.Model.evaluate(self, x, y, batch_size, **kwargs)

    def predict(self, x, batch_size=None, **kwargs):
        """Logits for a `PretrainingDataset`, strings or inputs; see `fit`."""
        if not _needs_no_preprocessing(x):
            return super().predict(x, batch_size, **kwargs)
        if _is_endless(x):
            kwargs["steps"] = kwargs.get("steps") or len(x)
        return keras.Model.predict(self, x, batch_size, **kwargs)

    def train_on_batch(self, x, y=None, sample_weight=None, **kwargs):
        """One step on one batch of strings or inputs; as `keras.Model.train_on_batch`."""
        batch = self.preprocess_samples(x, y, sample_weight)
        batch = keras.utils.unpack_x_y_sample_weight(batch)
        return keras.Model.train_on_batch(self, *batch, **kwargs)

    def test_on_batch(self, x, y=None, sample_weight=None, **kwargs):
        """Losses and metrics of one batch; as `keras.Model.test_on_batch`."""
        batch = self.preprocess_samples(x, y, sample_weight)
        batch = keras.utils.unpack_x_y_sample_weight(batch)
        return keras.Model.test_on_batch(self, *batch, **kwargs)

    def fill_mask(self, text, top_k=5):
        """The most probable tokens for every [MASK] in a text; see `models.fill_mask.fill_mask`."""
        return fill_mask(self, text, top_k)

    def get_config(self):
        return {**super().get_config(), "objective": self.objective}

    @classmethod
    def from_preset(cls, preset, load_weights=True, **kwargs):
        """A pretrainer from the table of architectures, a preset, or a checkpoint, heads included.

        See `AlbertBackbone.from_preset`. A head that a checkpoint lacks is named in a warning
        ("newly initialised: ..."); its vocabulary makes the preprocessor.
        """
        check_booleans("from_preset", load_weights=load_weights)
        preset = str(preset)
        if preset in PRESETS:
            names = ("preprocessor", "objective", "compile")
            own = {name: kwargs.pop(name) for name in names if name in kwargs}
            backbone = AlbertBackbone.from_preset(preset, load_weights=load_weights, **kwargs)
            return cls(backbone, **own)
        return load_preset(cls, super().from_preset, preset, load_weights, **kwargs)


def _is_model_input(x):
    return isinstance(x, dict) and "token_ids" in x


def _needs_no_preprocessing(x):
    """Whether Keras' own loops can take `x`, past KerasHub's pipeline for strings."""
    return isinstance(x, keras.utils.PyDataset) or _is_model_input(x)


def _without_sentence(values):
    if not isinstance(values, dict):
        return values
    return {task: value for task, value in values.items() if task != "sentence"}


def _is_endless(x):
    return isinstance(x, keras.utils.PyDataset) and x.num_batches is None


def _check_training_data(x, y, validation_data):
    if x is None or isinstance(x, (int, float)):
        raise ValueError(
            "`x` must be a `PretrainingDataset`, strings or a dict of model inputs. "
            f"Received: x={x!r}"
        )
    if _is_model_input(x) and y is None:
        raise ValueError(
            "`y` must be given with a dict of model inputs: a dict of 'mlm', token ids (B, P), and "
            "'sentence', (B,), the second not with objective 'none'. Received: y=None"
        )
    if validation_data is None:
        return
    first = validation_data[0] if isinstance(validation_data, tuple) else validation_data
    without_labels = isinstance(validation_data, dict)
    if without_labels or _needs_no_preprocessing(x) != _needs_no_preprocessing(first):
        raise ValueError(
            "`validation_data` must be of the kind of `x`: a `PretrainingDataset` with "
            "`static=True` or a tuple (x, y) of dicts beside a dataset or inputs, a tuple of "
            f"strings beside strings. Received: {type(first).__name__} beside {type(x).__name__}"
        )


def _check_vocabulary(backbone, preprocessor):
    tokenizer = getattr(preprocessor, "tokenizer", None)
    # A tokenizer that is being loaded has no vocabulary yet.
    if tokenizer is None or getattr(tokenizer, "_token_to_id_map", None) is None:
        return
    if tokenizer.vocabulary_size() > backbone.vocabulary_size:
        raise ValueError(
            "The tokenizer has more pieces than the backbone has embeddings: make the backbone "
            f"with vocabulary_size={tokenizer.vocabulary_size()}. "
            f"Received: vocabulary_size={backbone.vocabulary_size}"
        )
