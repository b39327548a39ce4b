"""Measure what serves a classifier: latency by batch and length, size, and lost accuracy.

    keras-albert benchmark serving                    # albert_base_v2, random weights
    keras-albert benchmark serving --model run/model.keras --examples dev.tsv

The first table has milliseconds of processor time for a batch on one core, medians of alternating
repeats in one process: SavedModel, ONNX and LiteRT of this package from ids, beside transformers in
PyTorch and its own ONNX export, which have the same architecture. The second has sizes, and with
`--examples` (a header, then texts and labels in the first and last column of a TSV) the accuracy;
without, how far logits of random ids move, as a share of their spread. LiteRT is converted for each
length, which takes minutes for a base model.

Measured of `albert_base_v2` on one core of an AMD EPYC (AVX2) that other programs shared, medians
of three repeats in milliseconds:

|                       | 1 x 32 | 8 x 32 | 32 x 32 | 1 x 128 | 8 x 128 | 32 x 128 | MB |
|---|---|---|---|---|---|---|---|
| SavedModel            | 178 | 1,030 | 3,437 | 526 | 3,619 | 14,739 | 48.0 |
| ONNX float32          | 116 |   712 | 3,308 | 357 | 3,807 | 14,972 | 46.8 |
| ONNX float16          | 108 |   695 | 3,212 | 366 | 3,678 | 14,995 | 23.4 |
| ONNX int8             |  66 |   516 | 2,059 | 243 | 2,369 |  9,054 | 12.1 |
| transformers, PyTorch | 264 | 1,067 | 3,800 | 593 | 4,490 | 18,570 | |
| transformers, ONNX    | 125 |   713 | 3,423 | 380 | 4,024 | 15,309 | |
| LiteRT float32        | 125 |   705 | 3,088 | 377 | 3,223 | 12,415 | 46.8 |
| LiteRT int8           |  84 |   649 | 2,619 | 336 | 2,892 | 11,332 | 12.0 |

Logits of random ids moved by 0.2% of their spread in ONNX float16, 4.4% in ONNX int8, 5.2% in
LiteRT int8 and 2.6% in Keras' int8 (25.6 MB).
"""

import argparse
import csv
import os
import pathlib
import statistics
import tempfile
import time
import warnings

import numpy as np
from keras_albert_recipes import options

BATCHES, LENGTHS, REPEATS = (1, 8, 32), (32, 128), 5
ROWS = 16  # of random ids, to compare logits on


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parser().parse_args(arguments)
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.simplefilter("ignore")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = load(args)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        programs = {"SavedModel": saved_model(model, folder / "1")}
        for kind in (None, "float16", "int8"):
            name = f"ONNX {kind or 'float32'}"
            programs[name] = onnx(model, folder / f"{kind}.onnx", kind)
        speed(model, programs, folder, args)
        accuracy(model, programs, folder, args)


def load(args):
    """The classifier to measure."""
    import keras

    import keras_albert as ka

    if args.model:
        return keras.saving.load_model(args.model, compile=False)
    backbone = ka.AlbertBackbone.from_preset(args.preset, load_weights=False)
    return ka.AlbertTextClassifier(backbone, 2)


def speed(model, programs, folder, args):
    """The first table."""
    programs = {**programs, **transformers(model, folder)}
    lengths = [n for n in args.lengths if n <= model.backbone.max_sequence_length]
    print("ms of processor time for a batch, on one core: median (least)")
    shapes = [(batch, length) for length in lengths for batch in args.batches]
    print(f"{'':<22}" + "".join(f"{f'{b} x {n}':>19}" for b, n in shapes))
    found = {name: [] for name in programs}
    for length in lengths:
        here = dict(programs)
        if not args.no_litert:
            for kind in (None, "int8"):
                name = f"LiteRT {kind or 'float32'}"
                here[name] = litert(model, folder, length, kind)
                found.setdefault(name, [])
        for batch in args.batches:
            x = random_ids(model, batch, length)
            seconds = {name: [] for name in here}
            for program in here.values():
                program(x)
            for _ in range(args.repeats):
                for name, program in here.items():
                    began = time.process_time()
                    program(x)
                    seconds[name].append(1e3 * (time.process_time() - began))
            for name, values in seconds.items():
                found[name].append((statistics.median(values), min(values)))
    for name, row in found.items():
        cells = "".join(f"{f'{middle:,.1f} ({least:,.1f})':>19}" for middle, least in row)
        print(f"{name:<22}{cells}", flush=True)


def accuracy(model, programs, folder, args):
    """The second table."""
    length = min(max(args.lengths), model.backbone.max_sequence_length)
    if args.examples:
        texts, labels = read(args.examples, args.count)
        x = model.collate(model.preprocessor.encode(texts), length)
        labels = np.array([label_of(model, label) for label in labels])
    else:
        x, labels, texts = random_ids(model, ROWS, length), None, None
    programs = {"Keras float32": keras_model(model, folder), **programs}
    if not args.no_litert:
        kinds = [(None, None), ("int8", None)] + ([("int8", texts[:200])] if texts else [])
        for kind, examples in kinds:
            name = f"LiteRT {kind or 'float32'}{', representative' if examples else ''}"
            programs[name] = litert(model, folder, length, kind, examples)
    programs["Keras int8"] = keras_int8(model, folder)
    wanted = None
    print(f"\n{'':<28}{'MB':>8}{'moved':>9}{'agree':>9}{'accuracy':>10}")
    for name, program in programs.items():
        logits = np.concatenate(
            [
                program({k: v[i : i + 32] for k, v in x.items()})
                for i in range(0, len(x["token_ids"]), 32)
            ]
        )
        wanted = logits if wanted is None else wanted
        moved = np.abs(logits - wanted).max() / np.ptp(wanted, axis=0).max()
        agree = (logits.argmax(-1) == wanted.argmax(-1)).mean()
        right = "" if labels is None else f"{(logits.argmax(-1) == labels).mean():>10.1%}"
        print(f"{name:<28}{program.bytes / 1e6:>8.1f}{moved:>9.2%}{agree:>9.1%}{right}", flush=True)


class Program:
    """A function of ids that gives logits, and how many bytes its weights take on the disk."""

    def __init__(self, run, size):
        self.run, self.bytes = run, size

    def __call__(self, x):
        """Logits (B, C)."""
        return self.run(x)


def keras_model(model, folder):
    """The model itself."""
    model.save(folder / "model.keras")
    return Program(
        lambda x: np.asarray(model(x, training=False)), (folder / "model.keras").stat().st_size
    )


def keras_int8(model, folder):
    """A copy whose encoder Keras has quantised; the embedding stays whole."""
    import keras

    copy = keras.saving.load_model(folder / "model.keras", compile=False)
    for layer in copy.backbone.encoder._flatten_layers():
        if isinstance(layer, keras.layers.Dense):
            layer.quantize("int8")
    copy.save(folder / "int8.keras")
    return Program(
        lambda x: np.asarray(copy(x, training=False)), (folder / "int8.keras").stat().st_size
    )


def saved_model(model, directory):
    """The signature of ids, without a tokenizer."""
    import tensorflow as tf

    from keras_albert.export.litert_writing import make_function

    holder = tf.Module()
    holder.variables_ = [weight.value for weight in model.weights]
    function = make_function(model, None)
    tf.saved_model.save(holder, str(directory), signatures={"token_ids": function})
    loaded = tf.saved_model.load(str(directory))
    signature = loaded.signatures["token_ids"]

    def run(x, loaded=loaded):  # which its variables live in
        return signature(**{k: tf.constant(v) for k, v in x.items()})["logits"].numpy()

    return Program(run, sum(path.stat().st_size for path in directory.rglob("*")))


def onnx(model, path, quantize):
    """A file of this package."""
    from keras_albert.export import onnx

    onnx(model, path, quantize=quantize)
    session = session_of(path)
    return Program(lambda x: session.run(None, x)[0], path.stat().st_size)


def session_of(path):
    """A session of onnxruntime with one thread."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])


def litert(model, folder, length, quantize, representative=None):
    """A file of this package, for one length; converted once."""
    import tensorflow as tf

    from keras_albert.export import litert

    path = folder / f"{quantize}-{length}-{bool(representative)}.tflite"
    if not path.exists():
        litert(model, path, length=length, quantize=quantize, representative=representative)
    runner = tf.lite.Interpreter(str(path), num_threads=1).get_signature_runner()
    return Program(lambda x: runner(**x)["logits"], path.stat().st_size)


def transformers(model, folder):
    """The same architecture in transformers: PyTorch, and its own ONNX export."""
    try:
        import torch
        from transformers import AlbertConfig, AlbertForSequenceClassification
    except ImportError:
        print("(transformers and torch are not installed: no other side)")
        return {}
    torch.set_num_threads(1)
    backbone = model.backbone
    config = AlbertConfig(
        vocab_size=backbone.vocabulary_size,
        embedding_size=backbone.embedding_dim,
        hidden_size=backbone.hidden_dim,
        num_hidden_layers=backbone.num_layers,
        num_attention_heads=backbone.num_heads,
        intermediate_size=backbone.intermediate_dim,
        max_position_embeddings=backbone.max_sequence_length,
        num_labels=model.num_classes,
    )
    other = AlbertForSequenceClassification(config).eval()
    names = {"token_ids": "input_ids", "padding_mask": "attention_mask"}
    names["segment_ids"] = "token_type_ids"

    def ids(x):
        return {names[key]: torch.from_numpy(value.astype("int64")) for key, value in x.items()}

    def run(x):
        with torch.inference_mode():
            return other(**ids(x)).logits.numpy()

    size = 4 * sum(p.numel() for p in other.parameters())
    sides = {"transformers, PyTorch": Program(run, size)}
    path = folder / "transformers.onnx"
    x = ids(random_ids(model, 2, 16))
    keys = ["input_ids", "attention_mask", "token_type_ids"]
    try:
        torch.onnx.export(
            other,
            tuple(x[key] for key in keys),
            str(path),
            input_names=keys,
            output_names=["logits"],
            dynamic_axes={key: {0: "batch", 1: "length"} for key in keys},
            dynamo=False,
        )
    except Exception as error:  # of many kinds; the rest is measured all the same
        print(f"(transformers' own ONNX export failed: {type(error).__name__}: {error})"[:200])
        return sides
    session = session_of(path)

    def run_onnx(x):
        return session.run(None, {names[key]: value.astype("int64") for key, value in x.items()})[0]

    return {**sides, "transformers, ONNX": Program(run_onnx, path.stat().st_size)}


def random_ids(model, batch, length):
    """Rows without padding."""
    ids = np.random.default_rng(0).integers(5, model.backbone.vocabulary_size, (batch, length))
    return {
        "token_ids": ids.astype("int32"),
        "segment_ids": np.zeros((batch, length), "int32"),
        "padding_mask": np.ones((batch, length), bool),
    }


def read(path, count):
    """Texts and labels of a TSV with a header."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    rows = rows[-count:]
    return [row[0] for row in rows], [row[-1] for row in rows]


def label_of(model, label):
    """The index of a class, which a file names or numbers."""
    return model.class_names.index(label) if model.class_names else int(label)


def parser():
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="keras-albert benchmark serving", description=__doc__, formatter_class=options.Help
    )
    add = parser.add_argument
    add("--preset", default="albert_base_v2", help="the architecture, with random weights")
    add("--model", help="a .keras file of a classifier instead")
    add("--examples", help="a TSV with texts and labels; needs --model")
    add("--count", type=int, default=1000, help="of examples, from the end of the file")
    add("--batches", type=int, nargs="+", default=BATCHES, help="batch sizes")
    add("--lengths", type=int, nargs="+", default=LENGTHS, help="tokens of a row")
    add("--repeats", type=int, default=REPEATS, help="of each measurement")
    add("--no-litert", action="store_true", help="leave LiteRT out")
    return parser


if __name__ == "__main__":
    main()
