"""Look at pretraining data: one example in colour, and statistics as a table and a picture.

    keras-albert inspect run/shards --index 17

A masked token is printed with what the model sees in its place: `cat→[MASK]`, `cat→moon` for a
random token, `cat=cat` where it was kept. Files in the original's TFRecord format are shown too:

    keras-albert inspect train-*.tfrecord --tokenizer vocab.txt

Seconds on any computer; no model is made.
"""

import argparse
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # the start-up notes of TensorFlow

import numpy as np  # noqa: E402
from keras_albert_recipes import options  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.progress import track  # noqa: E402
from rich.table import Table  # noqa: E402
from rich.text import Text  # noqa: E402

import keras_albert  # noqa: E402
from keras_albert.data.manifest import FILE_NAME, load_tokenizer  # noqa: E402
from keras_albert.data.statistics import collect, original_tokens, plot_statistics  # noqa: E402
from keras_albert.data.tfrecord_dataset import TFRecordDataset  # noqa: E402
from keras_albert.preprocessing.masking import MaskingVocabulary  # noqa: E402

SEQUENCE_LENGTH = 128
EXAMPLES = 1_000
OUTPUT = "stats.png"
SEGMENTS = (("A", "cyan"), ("B", "magenta"))
MASKED, RANDOM, KEPT, SPECIAL = "bold green", "bold red", "bold yellow", "dim"
ORDERS = {
    "sop": ("in order", "swapped: B comes before A in the document"),
    "nsp": ("in order", "random: B is from another document"),
}


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parse(arguments)
    console = Console()

    # 1. The data: shards, whose examples are drawn now, or files that hold examples.
    data, tokenizer, example = open_shards(args) if args.shards else open_tfrecords(args)

    # 2. One example.
    print_example(console, example(args.index), args, data, tokenizer)

    # 3. Statistics over examples that are spread over the whole.
    if not args.examples:
        return
    count = min(args.examples, data.num_examples)
    indices = np.linspace(0, data.num_examples - 1, count).round().astype(int).tolist()
    shown = track(indices, "Counting", console=console, transient=True) if count > 100 else indices
    vocabulary = MaskingVocabulary.from_tokenizer(tokenizer)
    statistics = collect(map(example, shown), vocabulary, args.max_ngram, args.seed)
    print_statistics(console, statistics, args, data)

    # 4. The same as a picture.
    mask_rate = getattr(data, "mask_rate", None)
    try:
        plot_statistics(statistics, args.output, max_ngram=args.max_ngram, mask_rate=mask_rate)
    except ImportError:
        console.print("No picture drawn: pip install keras-albert[plots]", markup=False)
        return
    console.print(f"Picture: {args.output}", highlight=False, markup=False)


def open_shards(args):
    """Shards: the data, the tokenizer beside them, and a function of an index."""
    data = keras_albert.PretrainingDataset(
        args.files[0],
        sequence_length=args.sequence_length or SEQUENCE_LENGTH,
        objective=args.objective,
        max_ngram=args.max_ngram,
        seed=args.seed,
        verify=False,
    )
    return data, data.tokenizer, lambda index: data.example(index, args.epoch)


def open_tfrecords(args):
    """TFRecord files: the data, the tokenizer that was named, and a function of an index."""
    if pathlib.Path(args.tokenizer).is_dir():
        tokenizer = load_tokenizer(args.tokenizer)
    elif args.tokenizer.endswith(".txt"):
        tokenizer = keras_albert.BertTokenizer(args.tokenizer)
    else:
        tokenizer = keras_albert.AlbertTokenizer(args.tokenizer)
    data = TFRecordDataset(
        args.files,
        sequence_length=args.sequence_length,
        objective=args.objective,
        vocabulary_size=tokenizer.vocabulary_size(),
    )
    return data, tokenizer, data.example


def print_example(console, example, args, data, tokenizer):
    """Print one example: its tokens by segment, with what was masked by what."""
    original, shown = original_tokens(example), example["token_ids"]
    real, used = example["padding_mask"], example["mask_weights"] > 0
    chosen = set(example["mask_positions"][used].tolist())
    special = ~MaskingVocabulary.from_tokenizer(tokenizer).selectable
    name = getattr(tokenizer, "id_to_token", str)
    kinds = {"[MASK]": 0, "random": 0, "kept": 0}

    texts = [Text(), Text()]
    for place in np.flatnonzero(real).tolist():
        segment = int(example["segment_ids"][place])
        token, replacement = name(int(original[place])), name(int(shown[place]))
        line, style = texts[segment], SEGMENTS[segment][1]
        if place not in chosen:
            line.append(token, SPECIAL if special[original[place]] else style)
        elif shown[place] == original[place]:
            kinds["kept"] += 1
            line.append(f"{token}={replacement}", KEPT)
        elif shown[place] == tokenizer.mask_token_id:
            kinds["[MASK]"] += 1
            line.append(f"{token}→{replacement}", MASKED)
        else:
            kinds["random"] += 1
            line.append(f"{token}→{replacement}", RANDOM)
        line.append(" ")

    order = ""
    if "sentence" in example and args.objective in ORDERS:
        order = f", {ORDERS[args.objective][example['sentence']]}"
    epoch = f", epoch {args.epoch}" if args.shards else ""
    say = Text()
    say.append(f"Example {args.index} of {data.num_examples:,}{epoch}{order}\n", "bold")
    say.append(f"{real.sum()} tokens and {(~real).sum()} of padding; {len(chosen)} to predict: ")
    say.append(", ".join(f"{count} {kind}" for kind, count in kinds.items()) + "\n")
    grid = Table.grid(padding=(0, 2))
    for (label, style), text in zip(SEGMENTS, texts, strict=True):
        if text:
            text.rstrip()
            grid.add_row(Text(label, f"bold {style}"), text)
    legend = Text("\n")
    for text, style in (
        ("word→[MASK]", MASKED),
        ("  word→random", RANDOM),
        ("  word=kept", KEPT),
        ("  special", SPECIAL),
    ):
        legend.append(text, style)
    for part in (say, grid, legend, Text()):
        console.print(part)


def print_statistics(console, statistics, args, data):
    """Print the counts, each beside what it should be where that is known."""
    lengths, predictions = statistics.length_N, statistics.predictions_N
    examples, tokens = len(lengths), int(lengths.sum())
    slots = examples * statistics.sequence_length
    total = max(int(predictions.sum()), 1)
    rows = [("examples", f"{examples:,} of {data.num_examples:,}", "")]
    if args.shards:
        manifest = data.manifest
        rows.append(("documents, all", f"{manifest.num_documents:,}", ""))
        rows.append(("tokens, all", f"{manifest.num_tokens:,}", ""))
    rows += [
        ("tokens in these examples", f"{tokens:,}", ""),
        ("mean length", f"{tokens / examples:.1f} of {statistics.sequence_length}", ""),
        ("padding", f"{1 - tokens / slots:.1%}", ""),
    ]
    if args.shards:
        asked = f"{data.short_sequence_probability:.1%}"
        short = f"{statistics.aims_short_N.mean():.1%}"
        rows.append(("aimed at a shorter length", short, asked))
        rows.append(("of one sentence", f"{statistics.one_sentence_N.mean():.1%}", ""))
    rate = f"{data.mask_rate:.1%}" if args.shards else ""
    rows += [
        ("tokens to predict", f"{predictions.sum() / tokens:.1%}", rate),
        ("  seen as [MASK]", f"{statistics.masked / total:.1%}", "80.0%"),
        ("  seen as a random token", f"{statistics.random / total:.1%}", "10.0%"),
        ("  kept", f"{statistics.kept / total:.1%}", "10.0%"),
    ]
    if len(statistics.label_N):
        name = "swapped" if args.objective == "sop" else "random second segment"
        expected = statistics.expected_label(args.objective)
        expected = "50.0% or more" if expected is None else f"{expected:.1%}"
        rows.append((name, f"{statistics.label_N.mean():.1%}", expected))
    table = Table("", "observed", "expected", title="Statistics", title_justify="left")
    for number in (1, 2):
        table.columns[number].justify = "right"
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    if args.objective == "nsp":
        console.print(
            "A random second segment is drawn half of the time, and always where the chunk of the "
            "document is one sentence: there is nothing to split.\n",
            style="dim",
            highlight=False,
        )

    title = f"Masked words in a row ({statistics.runs_R.sum():,} runs)"
    table = Table("words", "observed", "expected", "as drawn", title=title, title_justify="left")
    for name, drawn, expected, observed in statistics.ngram_table(args.max_ngram):
        drawn = "" if drawn is None else f"{drawn:.1%}"
        table.add_row(name, f"{observed:.1%}", f"{expected:.1%}", drawn)
    for number in (1, 2, 3):
        table.columns[number].justify = "right"
    console.print(table)
    console.print(
        "N-grams are drawn with shares as 1/n (last column). Where two touch, they look like a "
        "longer one: the expected runs are those of the rule, followed anew over the same texts.\n",
        style="dim",
        highlight=False,
    )


def parser():
    """The command line; its defaults are the constants above."""
    parser = argparse.ArgumentParser(
        prog="keras-albert inspect",
        description=__doc__,
        formatter_class=options.Help,
    )
    add = parser.add_argument
    add("files", nargs="+", help="a directory of shards, or TFRecord files")
    add("--index", type=int, default=0, help="of the example to print, from 0")
    add("--epoch", type=int, default=0, help="whose draws to show; shards only")
    add("--sequence-length", type=int, help=f"(default: {SEQUENCE_LENGTH}, or the TFRecords' own)")
    add("--max-ngram", type=int, default=3, help="longest masked n-gram, in words")
    add("--objective", default="sop", choices=("sop", "nsp", "none"), help="of the segments")
    add("--seed", type=int, default=0, help="whose draws to show; shards only")
    add(
        "--tokenizer",
        help="spiece.model, vocab.txt or a saved tokenizer's directory; for TFRecord files",
    )
    add("--examples", type=int, default=EXAMPLES, help="for the statistics; 0 for none")
    add("--output", default=OUTPUT, help="the picture, a PNG")
    return parser


def parse(arguments):
    """Read the command line, and what its options say together."""
    command_line = parser()
    args = command_line.parse_args(arguments)
    directories = [path for path in map(pathlib.Path, args.files) if is_corpus(path)]
    if directories and len(args.files) > 1:
        command_line.error(
            "one directory of shards at a time, and no other file with it. Received: "
            f"{', '.join(args.files)}"
        )
    args.shards = bool(directories)
    if not args.shards and (wrong := not_examples(args.files)):
        command_line.error(wrong)
    if args.shards and args.tokenizer:
        command_line.error("--tokenizer is for TFRecord files: shards have theirs beside them")
    if not args.shards and not args.tokenizer:
        command_line.error("TFRecord files hold ids alone: name their vocabulary with --tokenizer")
    if not args.shards and args.epoch:
        command_line.error("--epoch is for shards: TFRecord files hold one draw of each example")
    if args.examples < 0 or args.max_ngram < 1:
        command_line.error("--examples must be at least 0, --max-ngram at least 1")
    return args


def is_corpus(path):
    """Whether a path is a directory of shards: all others are asked for examples."""
    return path.is_dir() and (path.joinpath(FILE_NAME).exists() or any(path.glob("shard-*")))


def not_examples(files):
    """Why these are neither shards nor files of examples; None where they may be."""
    for path in map(pathlib.Path, files):
        if path.is_dir() and not any(path.glob("*.tfrecord*")):
            return f"a directory must hold shards or TFRecord files. Received: {path}"
        if path.suffix in (".gz", ".ckpt", ".keras", ".h5", ".safetensors"):
            return f"to look at a checkpoint: keras-albert checkpoint inspect. Received: {path}"
        if not path.exists() and not any(sign in str(path) for sign in "*?["):
            return f"there is no such file or directory: {path}"
    return None


if __name__ == "__main__":
    main()
