"""SavedTask: how a model with a head is saved, loaded and merged."""

import inspect

import keras

from keras_albert.arguments import check_booleans
from keras_albert.models.backbone import AlbertBackbone
from keras_albert.models.presets import PRESETS, load_preset
from keras_albert.training.accumulation import losses_given


class SavedTask:
    """Mixed into every task: its compilation and weights in files, `from_preset`, LoRA merged."""

    def get_compile_config(self):
        config = super().get_compile_config()
        if config:
            config["optimizer_is_built"] = bool(self.optimizer and self.optimizer.built)
            config["automatic"] = [self._automatic, self._highest_rate]
            if self.is_divided:  # the loss as it was given, for any number of devices
                config["loss"] = keras.saving.serialize_keras_object(losses_given(self.loss))
            if self.accumulation_steps > 1:
                config["accumulation_steps"] = self.accumulation_steps
        return config

    def compile_from_config(self, config):
        # Keras leaves a loaded model uncompiled where `compile` is a class's own. The optimizer is
        # built where the saved one was, so that its state finds its place.
        config = keras.saving.deserialize_keras_object(config)
        optimizer_is_built = config.pop("optimizer_is_built", False)
        automatic, rate = config.pop("automatic", (False, 2e-5))
        # What suits this backend, whatever it was where the model was saved.
        self.compile(**{**config, "jit_compile": "auto"})
        self._automatic, self._highest_rate = automatic, rate
        if optimizer_is_built:
            self.optimizer.build(self.trainable_variables)

    def merge_lora(self):
        """A new model with the low-rank updates of `backbone.enable_lora` in its kernels.

        Its outputs are the same, every variable can be trained again, and it costs no more than
        the model did before.
        """
        config = {name: value for name, value in self.get_config().items() if name != "name"}
        config["backbone"] = AlbertBackbone.from_config(self.backbone.get_config())
        merged = type(self)(**{**config, "preprocessor": self.preprocessor})
        for old, new in zip(self._flatten_layers(), merged._flatten_layers(), strict=True):
            if old is not self and old is not self.preprocessor:
                store = {}
                old.save_own_variables(store)  # of a kernel, with the update in it
                new.load_own_variables(store)
        return merged

    def save_task_weights(self, filepath):
        """Save the heads' weights alone: neither the backbone's, nor the optimizer's state."""
        keras.saving.save_weights(self, filepath, objects_to_skip=self._not_the_heads())

    def load_task_weights(self, filepath):
        """Load what `save_task_weights` saved."""
        keras.saving.load_weights(self, filepath, objects_to_skip=self._not_the_heads())

    def _not_the_heads(self):
        optimizer = [self.optimizer] if getattr(self, "optimizer", None) is not None else []
        return [*self.backbone._flatten_layers(), *optimizer]

    @classmethod
    def from_preset(cls, preset, load_weights=True, **kwargs):
        """A model from the table of architectures, a preset, or a checkpoint, heads included.

        See `AlbertBackbone.from_preset`. A head that the checkpoint lacks is named in a warning
        ("newly initialised: ..."); its vocabulary makes the preprocessor.

        Args:
            preset: see `AlbertBackbone.from_preset`.
            load_weights: whether to load weights.
            **kwargs: arguments of this class, and those of `AlbertBackbone.from_preset`;
                `sequence_length` is the preprocessor's.
        """
        check_booleans("from_preset", load_weights=load_weights)
        preset = str(preset)
        sequence_length = kwargs.pop("sequence_length", None)
        if preset in PRESETS:
            names = {*inspect.signature(cls.__init__).parameters, "name", "compile"}
            own = {name: kwargs.pop(name) for name in names - {"self"} if name in kwargs}
            backbone = AlbertBackbone.from_preset(preset, load_weights=load_weights, **kwargs)
            model = cls(backbone, **own)
        else:
            model = load_preset(cls, super().from_preset, preset, load_weights, **kwargs)
        if sequence_length is not None and model.preprocessor is not None:
            config = {**model.preprocessor.get_config(), "sequence_length": sequence_length}
            config["tokenizer"] = model.preprocessor.tokenizer
            preprocessor = type(model.preprocessor)(**config)
            cls.check_parts(model.backbone, preprocessor)
            model.preprocessor = preprocessor
        return model
