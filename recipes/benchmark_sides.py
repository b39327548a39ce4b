"""One side of `keras-albert benchmark peers`, in a process of its own; that command starts it.

    python -m keras_albert_recipes.benchmark_sides '{"side": "keras_albert-jax", ...}'

The process loads its model, answers with its outputs on a fixed input, and then, for each line on
its standard input, runs a workload once and answers with the seconds that it took. The clock stops
when numbers are on the host. Lines are JSON, both ways.

A workload is a step on one batch (`batch` x `length` tokens), or a pass over a list of examples
(`examples`), as a user of that side would make it: here sorted by length, in transformers padded to
the longest of a batch (`arrival`) or to a fixed length (`fixed`), in KerasHub to a fixed length.
Of a fixed length the first batch alone is computed, since every batch then costs the same.
"""

import contextlib
import functools
import json
import os
import pathlib
import sys
import time

import numpy as np
from keras_albert_recipes.benchmark_cases import masked

RATE, DECAY, EPSILON, CLIP = 1e-4, 0.01, 1e-6, 1.0  # of AdamW, on each side
OURS, HUB, OTHERS = "keras_albert", "keras_hub", "transformers"


def main(arguments=None):
    """Answer until the standard input ends."""
    spec = json.loads((sys.argv[1:] if arguments is None else arguments)[0])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(**found):
        print(json.dumps(found), file=answers, flush=True)

    if spec.get("task") == "prepare":
        from keras_albert_recipes import benchmark_material

        answer(**benchmark_material.prepare(spec))
        for _ in sys.stdin:  # afterwards it measures the peak, as often as it is asked
            answer(peak=benchmark_material.matrix_peak(spec["dtype"]))
        return None
    if spec.get("task") == "memory":
        return answer(**memory(spec))
    side = open_side(spec)
    if spec.get("task") == "start":
        return answer(**start(side, spec))
    if path := spec.get("outputs"):
        np.savez(path, **side.outputs())
    answer(ready=True, device=side.device)
    workloads = {}
    for line in sys.stdin:
        task = json.loads(line)
        key = json.dumps(task["workload"], sort_keys=True)
        if key not in workloads:
            workloads[key] = make_workload(side, task["workload"])
        began = time.perf_counter()
        loss = workloads[key]()
        seconds = time.perf_counter() - began
        answer(seconds=seconds, loss=loss)


def open_side(spec):
    """The side that a specification names, with its model."""
    package, _, kind = spec["side"].partition("-")
    if kind == "onnx":
        return OnnxSide(spec)
    return TransformersSide(spec) if package == OTHERS else KerasSide(spec)


def make_workload(side, workload):
    """A function that runs a workload once, and returns its loss or None."""
    if "examples" in workload:
        return side.over_examples(workload)
    if workload["train"]:
        x, y = batch_of(side, workload["batch"], workload["length"])
        return functools.partial(side.train, *side.given(x, y))
    x, _ = batch_of(side, workload["batch"], workload["length"])
    x = side.given(x)[0]

    def infer():
        side.infer(x)

    return infer


def batch_of(side, rows, length, seed=0, lengths=None):
    """Random ids, `lengths` of a row or all of them, with labels of its model."""
    rng = np.random.default_rng(seed)
    mask = np.arange(length)[None] < np.broadcast_to(lengths or [length], (rows,))[:, None]
    ids = rng.integers(5, side.vocabulary_size, (rows, length))
    x = {
        "token_ids": (ids * mask).astype("int32"),
        "segment_ids": np.zeros((rows, length), "int32"),
        "padding_mask": mask,
    }
    classes = rng.integers(0, 2, rows).astype("int32")
    if not side.pretrains:
        return x, classes
    count, shortest = masked(length), min(lengths or [length])
    drawn = [np.sort(rng.permutation(shortest)[:count]) for _ in range(rows)]
    x["mask_positions"] = np.stack(drawn).astype("int32")
    tokens = rng.integers(5, side.vocabulary_size, (rows, count)).astype("int32")
    return x, {"mlm": tokens, "sentence": classes}


class Side:
    """What the sides share: a fixed input to compare outputs on."""

    def __init__(self, spec):
        self.spec = spec
        self.package, _, self.kind = spec["side"].partition("-")
        self.pretrains = spec["model"] == "pretrainer"
        self.mixed = spec["dtype"] == "mixed_bfloat16"
        self.device = "cpu"
        if folder := spec.get("folder"):
            config = json.loads(pathlib.Path(folder, "config.json").read_text())
            self.vocabulary_size = config["vocab_size"]

    def outputs(self):
        """Outputs by name, of rows with padding."""
        x, _ = batch_of(self, 4, 16, seed=1, lengths=[16, 11, 16, 7])
        found = self.infer(self.given(x)[0])
        return found if isinstance(found, dict) else {"logits": found}

    def examples(self, name):
        """Packed ids of a list of examples, its labels, and how they are batched."""
        with np.load(pathlib.Path(self.spec["data"], f"{name}.npz")) as file:
            arrays = dict(file)
        y, size = arrays.pop("labels"), int(arrays.pop("batch"))
        return arrays, y, size

    def rows(self, name):
        """The same as rows of this package."""
        from keras_albert.preprocessing.rows import Row

        text = pathlib.Path(self.spec["data"], f"{name}.json").read_text()
        return [Row(tuple(segments), label) for segments, label in json.loads(text)]

    def cut(self, workload):
        """Batches in the order of the list, padded as the workload says."""
        arrays, y, size = self.examples(workload["examples"])
        for begin in range(0, size if workload["padding"] == "fixed" else len(y), size):
            x = {name: value[begin : begin + size] for name, value in arrays.items()}
            if workload["padding"] == "arrival":
                longest = int(x["padding_mask"].sum(1).max())
                x = {name: value[:, :longest] for name, value in x.items()}
            yield self.given(x, y[begin : begin + size])

    def over_examples(self, workload):
        """One batch after the other; a side with a loop of its own has its own method."""
        batches = list(self.cut(workload))

        def run():
            for x, y in batches:
                if workload["train"]:
                    self.train(x, y)
                else:
                    self.infer(x)

        return run


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
        from keras_albert.preprocessing.example_batches import ExampleBatches

        rows = self.rows(workload["examples"])
        _, _, size = self.examples(workload["examples"])

        def fit():
            batches = ExampleBatches(self.model, rows, size, shuffle=True)
            self.model.fit(batches, epochs=1, verbose=0)

        def predict():
            self.model.predict_rows(rows, size, verbose=0)

        return fit if workload["train"] else predict

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


class TransformersSide(Side):
    """transformers in PyTorch, eager or under torch.compile, in a loop as its Trainer's."""

    def __init__(self, spec):
        super().__init__(spec)
        import torch
        from transformers import AlbertForPreTraining, AlbertForSequenceClassification

        self.imported = time.time()
        self.torch = torch
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        cls = AlbertForPreTraining if self.pretrains else AlbertForSequenceClassification
        self.model = cls.from_pretrained(spec["folder"]).to(self.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=RATE, eps=EPSILON, weight_decay=DECAY
        )
        self.compiled = {
            # One program for all lengths where they differ, else one for each shape.
            padding: torch.compile(self.model, dynamic=padding == "arrival")
            if self.kind == "compile"
            else self.model
            for padding in ("arrival", "fixed")
        }
        self.run = self.compiled["fixed"]
        self.cast = contextlib.nullcontext
        if self.mixed:
            self.cast = functools.partial(torch.autocast, self.device, torch.bfloat16)

    def given(self, x, y=None):
        found = names_of_others(x)
        if isinstance(y, dict):
            labels = np.full(x["token_ids"].shape, -100, "int64")
            np.put_along_axis(labels, x["mask_positions"].astype("int64"), y["mlm"], 1)
            y = {"labels": labels, "sentence_order_label": y["sentence"].astype("int64")}
        elif y is not None:
            y = {"labels": y.astype("int64")}
        return {**found, "positions": x.get("mask_positions")}, y

    def tensors(self, arrays):
        return {
            name: self.torch.from_numpy(np.ascontiguousarray(value)).to(self.device)
            for name, value in arrays.items()
            if name != "positions"
        }

    def infer(self, x):
        self.model.eval()
        with self.torch.inference_mode(), self.cast():
            found = self.run(**self.tensors(x))
        if not self.pretrains:
            return found.logits.float().cpu().numpy()
        mlm = found.prediction_logits.float().cpu().numpy()
        mlm = np.take_along_axis(mlm, x["positions"].astype("int64")[..., None], 1)
        return {"mlm": mlm, "sentence": found.sop_logits.float().cpu().numpy()}

    def train(self, x, y):
        self.model.train()
        with self.cast():
            loss = self.run(**self.tensors(x), **self.tensors(y)).loss
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()  # waits for the device

    def over_examples(self, workload):
        run = super().over_examples(workload)

        def with_padding():
            self.run = self.compiled[workload["padding"]]
            run()
            self.run = self.compiled["fixed"]

        return with_padding


def names_of_others(x):
    """Ids as transformers and its ONNX files take them."""
    return {
        "input_ids": x["token_ids"].astype("int64"),
        "attention_mask": x["padding_mask"].astype("int64"),
        "token_type_ids": x["segment_ids"].astype("int64"),
    }


class OnnxSide(Side):
    """An ONNX file in onnxruntime: this package's, or transformers' by torch.onnx.export."""

    def __init__(self, spec):
        super().__init__(spec)
        import onnxruntime

        path = pathlib.Path(spec["data"], f"{spec['side']}.onnx")
        if self.package == OURS:
            from keras_albert.export import onnx

            self.model, _ = own_model(spec, self.pretrains)
            onnx(self.model, path)
        else:
            export_of_others(spec["folder"], path)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = spec["threads"]
        self.session = onnxruntime.InferenceSession(
            str(path), settings, providers=["CPUExecutionProvider"]
        )

    def given(self, x, y=None):
        return (x if self.package == OURS else names_of_others(x)), y

    def infer(self, x):
        return self.session.run(None, x)[0]

    def over_examples(self, workload):
        if self.package == OTHERS:
            return super().over_examples(workload)
        from keras_albert.preprocessing.example_batches import ExampleBatches

        rows = [row._replace(label=None) for row in self.rows(workload["examples"])]
        _, _, size = self.examples(workload["examples"])

        def run():
            for x in ExampleBatches(self.model, rows, size):
                self.infer(x)

        return run


def export_of_others(folder, path):
    """Write a model of transformers as ONNX, by PyTorch's exporter."""
    import torch
    from transformers import AlbertForSequenceClassification

    model = AlbertForSequenceClassification.from_pretrained(folder).eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(
        model,
        (torch.ones(2, 16, dtype=torch.int64),) * 3,
        str(path),
        input_names=names,
        output_names=["logits"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in names},
        dynamo=False,
    )


def start(side, spec):
    """When the first prediction and the first training step were done; seconds of the clock."""
    x, y = batch_of(side, spec["batch"], spec["length"])
    x, y = side.given(x, y)
    before = time.time()
    side.infer(x)
    predicted = time.time()
    side.train(x, y)
    # The step is counted as if nothing had been predicted before.
    return {
        "imported": side.imported,
        "predicted": predicted,
        "trained": time.time() - (predicted - before),
    }


def memory(spec):
    """What the second training step of transformers takes; as `training_memory.measure`."""
    from keras_albert_recipes import training_memory

    training_memory._backend = lambda: "torch"  # without Keras in this process
    side = open_side(spec)
    x, y = batch_of(side, spec["batch_size"], spec["length"])
    x, y = side.given(x, y)
    for step in range(2):
        if step == 1:
            before = training_memory.now()
            training_memory.start_peak()
        began = time.monotonic()
        side.train(x, y)
        seconds = time.monotonic() - began
    peak = training_memory.peak()
    return {"peak_mb": peak / 1e6, "step_mb": (peak - before) / 1e6, "seconds": seconds}


if __name__ == "__main__":
    main()
