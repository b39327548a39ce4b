"""Tokenize a corpus of any size into shards that `PretrainingDataset` reads.

    keras-albert prepare 'wikipedia/*.xml.bz2' --train-tokenizer 30000 --output shards
    keras-albert prepare text/ news.jsonl.gz --tokenizer spiece.model --output shards

Text, Markdown, JSON lines, Parquet and Wikipedia dumps, each also as .gz, .bz2, .xz or .zst. It
takes well below 1 GB of memory however large the corpus. Interrupted and run again, it goes on.
"""

import argparse
import json
import os
import pathlib

from keras_albert_recipes import options

with options.light():  # it needs neither Keras nor a backend
    from keras_albert.data.documents import read_documents
    from keras_albert.data.manifest import Manifest
    from keras_albert.data.preparation import check_room, inputs_of
    from keras_albert.data.prepare import prepare_corpus
    from keras_albert.preprocessing.encoders import SentencePieceEncoder, load_encoder
    from keras_albert.preprocessing.files import find_files
    from keras_albert.preprocessing.normalizer import normalize_text
    from keras_albert.preprocessing.vocabulary_training import train_sentencepiece

# What the tokenizer is trained on, in twenty times the memory; a larger corpus is sampled.
MAX_SENTENCES, MAX_BYTES = 500_000, 32_000_000
MODEL, MADE = "spiece.model", "spiece.json"  # the tokenizer, and what it was made from
INTERRUPTED = "What is done is kept: the same command, without --overwrite, goes on from there."


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parse(arguments)
    output = pathlib.Path(args.output).expanduser()
    check_room(output, args.overwrite)
    normalization = {"lowercase": not args.cased, "strip_accents": not args.cased}
    if args.tokenizer:
        tokenizer = load_encoder(args.tokenizer, **(normalization if args.cased else {}))
    else:
        tokenizer = train_tokenizer(args, output, normalization)
    manifest = prepare_corpus(
        args.files,
        output,
        tokenizer=tokenizer,
        num_workers=args.num_workers,
        **options.preparation(args),
    )
    held_out = Manifest.load(output / "heldout").num_documents if args.holdout else None
    options.report(manifest, held_out, args)


def train_tokenizer(args, output, normalization):
    """Train a SentencePiece vocabulary on the corpus, unless an earlier run did from the same."""
    path, made = output / MODEL, output / MADE
    files = [(path.name, path.stat().st_size) for path in find_files(args.files)]
    settings = {"pieces": args.train_tokenizer, "cased": args.cased}
    settings |= {**options.reading(args), "files": inputs_of(files)}
    if path.exists() and not args.overwrite:
        check_made(made, settings)
        print(f"The tokenizer is {path}, of an earlier run.")
        return SentencePieceEncoder(path, **normalization)
    print(f"Training a tokenizer of {args.train_tokenizer:,} pieces ...")
    output.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # first: at no time beside settings that are not its own
    partial = made.with_suffix(".json.partial")
    partial.write_text(json.dumps(settings, indent=2) + "\n")
    os.replace(partial, made)
    documents = read_documents(args.files, sentences="lines", **options.reading(args))
    proto = train_sentencepiece(
        (paragraph for document in documents for paragraph in document.sentences),
        args.train_tokenizer,
        path,
        normalize=lambda text: normalize_text(text, **normalization),
        character_coverage=0.99995,
        max_sentences=MAX_SENTENCES,
        max_bytes=MAX_BYTES,
    )
    return SentencePieceEncoder(proto, **normalization)


def check_made(made, settings):
    """Refuse a tokenizer that an earlier run made with other settings, or from other files."""
    was = json.loads(made.read_text()) if made.exists() else {}
    differ = [f"{k}: {was.get(k)!r}, now {v!r}" for k, v in settings.items() if was.get(k) != v]
    if differ:
        raise ValueError(
            "The tokenizer of an earlier run is used only with the settings and files that it was "
            "made from. Pass these, or `overwrite=True` to train another. Received: "
            f"{str(made.with_name(MODEL))!r} is of another run ({'; '.join(differ)})"
        )


def parser():
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="keras-albert prepare", description=__doc__, formatter_class=options.Help
    )
    parser.add_argument("files", nargs="+", help="files, directories or patterns")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--tokenizer", help="spiece.model, vocab.txt or a saved tokenizer's directory"
    )
    which.add_argument(
        "--train-tokenizer", type=int, metavar="SIZE", help="train one of SIZE pieces"
    )
    options.add_preparation(parser)
    parser.add_argument(
        "--num-workers", type=int, help="processes (default: one a core, at most 8)"
    )
    return parser


def parse(arguments):
    """Read the command line."""
    return parser().parse_args(arguments)


if __name__ == "__main__":
    main()
