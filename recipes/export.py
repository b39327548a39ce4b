"""Export a fine-tuned model for TensorFlow Serving, onnxruntime or LiteRT.

    keras-albert export run/model.keras served
    keras-albert export run/preset served --task text_embedder --name vectors
    keras-albert export run/model.keras model.onnx         # or model.tflite
    python recipes/export.py run/model.keras served --pair --warmup 1 8 32 --latency 50

Writes `served/NAME/VERSION/`, whole or not at all, and beside it `models.config`, a
`docker-compose.yaml` and two clients: `docker compose up` in `served` is the server. Earlier
versions stay. The model may come from any backend; TensorFlow and tensorflow-text are needed here.
`--latency` measures the export on this machine and writes `batching.config`. An output that ends
with `.onnx` or `.tflite` is a file instead; `keras_albert.runtime.load` takes strings to the first.
"""

import argparse
import json
import os
import pathlib
import re

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # the start-up notes of TensorFlow

from keras_albert_recipes import options  # noqa: E402

TASKS = {
    "multiple_choice": "AlbertMultipleChoice",
    "pretrainer": "AlbertPretrainer",
    "span_extractor": "AlbertSpanExtractor",
    "text_classifier": "AlbertTextClassifier",
    "text_embedder": "AlbertTextEmbedder",
    "token_classifier": "AlbertTokenClassifier",
}


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parser().parse_args(arguments)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", args.name):
        raise ValueError(
            "`name` must be letters, digits, '-', '_' and '.', and start with one of the first. "
            f"Received: name={args.name!r}"
        )
    # On the backend that exports, where it is installed, there is no second process.
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    if pathlib.Path(args.output).suffix in (".onnx", ".tflite"):
        return to_file(args)
    if args.quantize is not None:
        raise ValueError(
            "`quantize` is of a .onnx or a .tflite file. "
            f"Received: quantize={args.quantize!r}, for {args.output!r}"
        )
    from keras_albert.export import saved_model
    from keras_albert.export.batching import write_batching
    from keras_albert.export.manifest import read_about
    from keras_albert.export.serving_files import write_serving_files

    model = load(args.source, args.task)
    base = pathlib.Path(args.output, args.name)
    version = args.version if args.version is not None else next_version(base)
    path = saved_model(
        model,
        base / str(version),
        sequence_length=args.sequence_length,
        pair=args.pair,
        warmup_batch_sizes=tuple(args.warmup),
    )
    about = read_about(path)
    if args.latency is not None:
        for size, seconds in write_batching(path, args.latency / 1e3).items():
            print(f"batch {size:>3}  {seconds * 1e3:8.1f} ms  {size / seconds:8.1f} texts/s")
    write_serving_files(args.output, args.name, about["inputs"], args.latency is not None)
    inputs = ", ".join(about["inputs"])
    print(f"{about['task']}, {model.count_params():,} parameters, takes {inputs}: {path}/")
    print(f"Check it with: keras-albert serve-check {path}")


def to_file(args):
    """Write a `.onnx` or a `.tflite` file."""
    from keras_albert.export import litert, onnx

    model = load(args.source, args.task)
    if pathlib.Path(args.output).suffix == ".onnx":
        path = onnx(model, args.output, quantize=args.quantize)
    else:
        length = args.sequence_length or model.preprocessor.sequence_length
        path = litert(model, args.output, length=length, quantize=args.quantize)
    size = path.stat().st_size / 1e6
    print(f"{type(model).__name__}, {model.count_params():,} parameters: {path}, {size:,.1f} MB")


def load(source, task):
    """The model of a `.keras` file or of a preset."""
    import keras

    import keras_albert

    if pathlib.Path(source).suffix == ".keras":
        return keras.saving.load_model(source, compile=False)
    saved = pathlib.Path(source, "task.json")
    if task is not None:
        name = TASKS[task]
    elif saved.is_file() and json.loads(saved.read_text()).get("class_name") in TASKS.values():
        name = json.loads(saved.read_text())["class_name"]
    else:
        raise ValueError(
            f"`task` must be given with a preset that has none: one of {', '.join(TASKS)}. "
            f"Received: task=None, for {source!r}"
        )
    return getattr(keras_albert, name).from_preset(source)


def next_version(base):
    """One more than the highest version that is there, from 1."""
    numbers = [int(path.name) for path in base.glob("*") if path.name.isdigit()]
    return max(numbers, default=0) + 1


def parser():
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="keras-albert export", description=__doc__, formatter_class=options.Help
    )
    add = parser.add_argument
    add("source", help="a .keras file, or a preset's directory")
    add("output", help="directory of the server's models, or a .onnx or .tflite file")
    add("--name", default="albert", help="the model's name on the server")
    add("--version", type=int, help="by default the next that is free")
    add("--task", choices=sorted(TASKS), help="of a preset that is of a backbone alone, or another")
    add("--sequence-length", type=int, help="tokens; longer texts are cut (default: the model's)")
    add("--pair", action="store_true", help="take pairs of texts")
    add(
        "--warmup",
        type=int,
        nargs="*",
        default=[],
        help="batch sizes to warm the server up with (default: none)",
    )
    add("--latency", type=float, help="ms that a request may take: settings for batching")
    add("--quantize", choices=("float16", "int8"), help="of a file; float16 for ONNX alone")
    return parser


if __name__ == "__main__":
    main()
