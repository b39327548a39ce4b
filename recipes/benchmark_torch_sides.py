"""Sides of `keras-albert benchmark peers` that are not Keras: transformers, and ONNX files."""

import contextlib
import functools
import pathlib
import time

import numpy as np
from keras_albert_recipes.benchmark_keras_side import own_model
from keras_albert_recipes.benchmark_sides import CLIP, DECAY, EPSILON, OTHERS, OURS, RATE, Side


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
