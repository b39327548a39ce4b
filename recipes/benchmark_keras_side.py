"""Sides of `keras-albert benchmark peers` in Keras: this package, and KerasHub."""

import pathlib
import time

import numpy as np
from keras_albert_recipes.benchmark_sides import CLIP, DECAY, EPSILON, HUB, OURS, RATE, Side


class KerasSide(Side):
    """This package or KerasHub, as `fit` and `predict` run them."""

    def __init__(self, spec):
        super().__init__(spec)
        import keras

        if self.package == OURS:
            import keras_albert  # noqa: F401
        else:
            import keras_hub  # noqa: F401
        self.imported = time.time()
        if self.mixed:
            keras.config.set_dtype_policy("mixed_bfloat16")
        make = own_model if self.package == OURS else hub_model
        self.model, optimizer = make(spec, self.pretrains)
        self.vocabulary_size = self.model.backbone.vocabulary_size
        jit = {} if spec["jit"] == "auto" else {"jit_compile": spec["jit"] == "yes"}
        self.model.compile(optimizer, **jit)
        from keras_albert_recipes import training_memory

        self.device = training_memory.device()

    def given(self, x, y=None):
        if self.package == HUB:
            x = {**x, "padding_mask": x["padding_mask"].astype("int32")}
            y = y["mlm"] if isinstance(y, dict) else y
        return x, y

    def infer(self, x):
        found = self.model.predict_on_batch(x)
        return {"mlm": found} if self.pretrains and self.package == HUB else found

    def train(self, x, y):
        self.model.reset_metrics()  # they would give the mean of all steps
        loss = float(self.model.train_on_batch(x, y, return_dict=True)["loss"])
        return None if self.package == HUB and self.pretrains else loss  # it has one loss of two

    def over_examples(self, workload):
        if self.package == HUB:
            return self._hub_over_examples(workload)
        if self.pretrains:
            return self._pretraining(workload)
        from keras_albert.preprocessing.example_batches import ExampleBatches

        rows = self.rows(workload["examples"])
        _, _, size = self.examples(workload["examples"])
        packing = workload["padding"] == "packed"

        def fit():
            batches = ExampleBatches(self.model, rows, size, shuffle=True, packing=packing)
            self.model.fit(batches, epochs=1, verbose=0)

        def predict():
            self.model.predict_rows(rows, size, packing=packing, verbose=0)

        return fit if workload["train"] else predict

    def _pretraining(self, workload):
        from keras_albert.data.stream import ExampleStream

        x, y, size = self.examples(workload["examples"])
        weights = {"mlm": (y["mlm"] >= 0).astype("float32")}
        weights["sentence"] = np.ones(len(y["sentence"]), "float32")
        y = {**y, "mlm": np.maximum(y["mlm"], 0)}

        class Texts(ExampleStream):
            num_examples = len(weights["mlm"]) if workload["padding"] == "packed" else size

            def _examples(self, index, epoch):
                cut = [{name: v[index] for name, v in part.items()} for part in (x, y, weights)]
                return tuple(cut)

        data = Texts(batch_size=size, static=True, packing=workload["padding"] == "packed")

        def fit():
            self.model.fit(data, epochs=1, shuffle=False, verbose=0)

        return fit

    def _hub_over_examples(self, workload):
        (x, y), *_ = self.cut(workload)
        size = len(y)

        def fit():
            self.model.fit(x, y, size, shuffle=False, verbose=0)

        def predict():
            self.model.predict(x, size, verbose=0)

        return fit if workload["train"] else predict


def own_model(spec, pretrains):
    """A model of this package, and its optimizer."""
    import keras_albert as ka

    if "preset" in spec:  # random weights; without dropout, so that sizes compare
        backbone = ka.AlbertBackbone.from_preset(
            spec["preset"], load_weights=False, hidden_dropout=0.0, attention_dropout=0.0
        )
        model = ka.AlbertPretrainer(backbone)
    elif pretrains:
        model = ka.AlbertPretrainer.from_preset(spec["folder"], strict=True)
    else:
        model = ka.AlbertTextClassifier.from_preset(
            spec["folder"], num_classes=2, dropout=0.0, strict=True
        )
    kind = ka.Lamb if spec.get("optimizer") == "lamb" else ka.AdamW
    return model, kind(RATE, weight_decay=DECAY, epsilon=EPSILON, global_clipnorm=CLIP)


def hub_model(spec, pretrains):
    """A model of KerasHub; its conversion leaves out the heads."""
    import keras
    import keras_hub
    from safetensors.numpy import load_file

    stored = load_file(pathlib.Path(spec["folder"], "model.safetensors"))
    backbone = keras_hub.models.AlbertBackbone.from_preset(spec["folder"])
    if pretrains:
        model = keras_hub.models.AlbertMaskedLM(backbone, preprocessor=None)
        head = model.masked_lm_head
        head._intermediate_dense.kernel.assign(stored["predictions.dense.weight"].T)
        head._intermediate_dense.bias.assign(stored["predictions.dense.bias"])
        head._intermediate_layer_norm.gamma.assign(stored["predictions.LayerNorm.weight"])
        head._intermediate_layer_norm.beta.assign(stored["predictions.LayerNorm.bias"])
        head._bias.assign(stored["predictions.bias"])
        head._intermediate_layer_norm.epsilon = 1e-12  # theirs is 1e-5, and logits would differ
    else:
        model = keras_hub.models.AlbertTextClassifier(backbone, 2, preprocessor=None, dropout=0.0)
        model.output_dense.kernel.assign(stored["classifier.weight"].T)
        model.output_dense.bias.assign(stored["classifier.bias"])
    optimizer = keras.optimizers.AdamW(
        RATE, weight_decay=DECAY, epsilon=EPSILON, global_clipnorm=CLIP
    )
    return model, optimizer
