"""Tokenize a corpus of any size into shards that `PretrainingDataset` reads.

    keras-albert prepare 'wikipedia/*.xml.bz2' --train-tokenizer 30000 --output shards
    keras-albert prepare books/ news.jsonl.gz --tokenizer spiece.model --output shards

Text, Markdown, JSON lines, Parquet and Wikipedia dumps, each also as .gz, .bz2, .xz or .zst. It
takes well below 1 GB of memory however large the corpus. Interrupted and run again, it goes on.
"""

import argparse
import os
import pathlib
import sys

ALONE = "keras_albert" not in sys.modules
if ALONE:  # it needs neither Keras nor a backend
    os.environ["KERAS_ALBERT_LIGHT"] = "1"

from keras_albert.data.documents import ON_ERROR, SEPARATORS, read_documents  # noqa: E402
from keras_albert.data.prepare import prepare_corpus  # noqa: E402
from keras_albert.preprocessing.encoders import SentencePieceEncoder, load_encoder  # noqa: E402
from keras_albert.preprocessing.normalizer import normalize_text  # noqa: E402
from keras_albert.preprocessing.vocabulary_training import train_sentencepiece  # noqa: E402

if ALONE:
    del os.environ["KERAS_ALBERT_LIGHT"]  # not for programs that are started from here

MAX_SENTENCES = 500_000  # that the tokenizer is trained on; a larger corpus is sampled


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parse(arguments)
    output = pathlib.Path(args.output)
    reading = {
        "document_separator": args.document_separator,
        "text_field": args.text_field,
        "on_error": args.on_error,
    }
    normalization = {"lowercase": not args.cased, "strip_accents": not args.cased}
    if args.tokenizer:
        options = normalization if args.cased else {}
        tokenizer = load_encoder(args.tokenizer, **options)
    else:
        tokenizer = train_tokenizer(args, output, reading, normalization)
    manifest = prepare_corpus(
        args.files,
        output,
        tokenizer=tokenizer,
        sentences=args.sentences,
        drop_duplicates=args.drop_duplicates,
        holdout=args.holdout,
        max_document_tokens=args.max_document_tokens,
        shard_tokens=args.shard_tokens,
        num_workers=args.num_workers,
        overwrite=args.overwrite,
        **reading,
    )
    report(manifest, output, args.holdout)


def train_tokenizer(args, output, reading, normalization):
    """Train a SentencePiece vocabulary on the corpus, unless an earlier run did."""
    path = output / "spiece.model"
    if path.exists() and not args.overwrite:
        print(f"The tokenizer is {path}, of an earlier run.")
        tokenizer = SentencePieceEncoder(path, **normalization)
        if tokenizer.vocabulary_size() != args.train_tokenizer:
            raise ValueError(
                f"{path}, of an earlier run, has {tokenizer.vocabulary_size():,} pieces. Pass "
                "--overwrite to train another, or the same size to go on. Received: "
                f"--train-tokenizer {args.train_tokenizer}"
            )
        return tokenizer
    print(f"Training a tokenizer of {args.train_tokenizer:,} pieces ...")
    output.mkdir(parents=True, exist_ok=True)
    documents = read_documents(args.files, sentences="lines", **reading)
    proto = train_sentencepiece(
        (paragraph for document in documents for paragraph in document.sentences),
        args.train_tokenizer,
        path,
        normalize=lambda text: normalize_text(text, **normalization),
        character_coverage=0.99995,
        max_sentences=MAX_SENTENCES,
    )
    return SentencePieceEncoder(proto, **normalization)


def report(manifest, output, holdout):
    """Say what was written and what was left out."""
    inputs = manifest.inputs
    skipped = sum(inputs["skipped"]["counts"].values())
    print(
        f"{output}/: {manifest.num_documents:,} documents, {manifest.num_sentences:,} sentences, "
        f"{manifest.num_tokens:,} tokens in {len(manifest.shards)} shards"
        + (f"; {holdout:.3%} of the documents in {output / 'heldout'}/" if holdout else "")
    )
    if inputs["duplicates"]:
        print(f"Dropped as duplicates: {inputs['duplicates']:,} documents")
    if skipped:
        print(f"Skipped as broken: {skipped:,}; the first of them:")
        print("\n".join(f"  {message}" for message in inputs["skipped"]["first"]))


def parse(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="keras-albert prepare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("files", nargs="+", help="files, directories or patterns")
    add("--output", required=True, help="directory of the shards")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--tokenizer", help="spiece.model, vocab.txt or a saved tokenizer's directory"
    )
    which.add_argument(
        "--train-tokenizer", type=int, metavar="SIZE", help="train one of SIZE pieces"
    )
    add("--cased", action="store_true", help="keep capitals and accents")
    add("--sentences", default="en", help="language for sentence splitting, or 'lines'")
    add("--document-separator", default="auto", choices=SEPARATORS, help="in plain text")
    add("--text-field", default="text", help="of JSON lines and Parquet")
    add("--on-error", default="raise", choices=ON_ERROR, help="what to do with what is broken")
    add("--drop-duplicates", action="store_true", help="keep the first of equal documents")
    add("--holdout", type=float, default=0.0, help="share of documents kept for evaluation")
    add("--max-document-tokens", type=int, default=8192, help="in a record; longer ones are cut")
    add("--shard-tokens", type=int, default=50_000_000)
    add("--num-workers", type=int, help="processes; default: one a core, at most 8")
    add("--overwrite", action="store_true", help="replace what --output holds")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
