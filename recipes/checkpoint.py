"""Describe a checkpoint of ALBERT or BERT, or convert it to another program's format.

    keras-albert checkpoint inspect albert_base_v2.tar.gz
    keras-albert checkpoint convert albert_base_v2.tar.gz out --to huggingface
    python recipes/checkpoint.py convert hf://albert/albert-base-v2 out --to google

Reads Google's checkpoints (a prefix, a directory, the `.tar.gz` as released), TF-Hub's, Hugging
Face's directories and `hf://owner/name`, KerasHub's presets, and presets of this package. Writes a
directory that must be new or empty: whole or not at all.
"""

import argparse
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # the start-up notes of TensorFlow

from keras_albert_recipes import options  # noqa: E402

import keras_albert  # noqa: E402

PREFIX = "model.ckpt-best"  # as in the released archives


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parse(arguments)
    check_source(args.path if args.command == "inspect" else args.source)
    if args.command == "inspect":
        print(keras_albert.checkpoints.report(args.path, check_finite=not args.fast))
    else:
        convert(args)


def check_source(source):
    """Refuse what is no checkpoint, by what it is."""
    path = pathlib.Path(source).expanduser()
    if path.joinpath("manifest.json").exists() or any(path.glob("shard-*.array_record")):
        raise ValueError(
            "A checkpoint is asked for, and this is a directory of shards: look at it with "
            f"`keras-albert inspect`. Received: {source!r}"
        )
    archive = path.name.endswith((".tar.gz", ".tgz", ".tar"))
    if archive and not path.exists() and "://" not in source:
        raise ValueError(f"There is no such archive. Received: {source!r}")


def convert(args):
    """Read with the heads that there are, write with them."""
    model = keras_albert.checkpoints.load(args.source)
    tokenizer = keras_albert.checkpoints.load_tokenizer(args.source)
    target = pathlib.Path(args.target)
    if args.to == "huggingface":
        keras_albert.checkpoints.to_huggingface(model, target, tokenizer=tokenizer)
    elif args.to == "google":
        keras_albert.checkpoints.to_google(model, target / PREFIX, tokenizer=tokenizer)
    else:
        keras_albert.checkpoints.to_preset(model, target, tokenizer=tokenizer)
    vocabulary = "with" if tokenizer else "without"
    print(
        f"{type(model).__name__}, {model.count_params():,} parameters, {vocabulary} a vocabulary: "
        f"{args.source} -> {target}/ ({args.to})"
    )


def parser():
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="keras-albert checkpoint",
        description=__doc__,
        formatter_class=options.Help,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    inspect = commands.add_parser("inspect", help="print what a checkpoint holds")
    inspect.add_argument("path", help="a path, or hf://owner/name")
    inspect.add_argument("--fast", action="store_true", help="do not look for non-finite weights")
    convert = commands.add_parser("convert", help="write it in another format")
    convert.add_argument("source", help="a path, or hf://owner/name")
    convert.add_argument("target", help="a directory that is new or empty")
    convert.add_argument("--to", required=True, choices=("huggingface", "google", "keras"))
    return parser


def parse(arguments):
    """Read the command line."""
    return parser().parse_args(arguments)


if __name__ == "__main__":
    main()
