r"""Tokenize a corpus into shards on a cluster, with Apache Beam: `prepare_corpus.py`'s very bytes.

    pip install "keras-albert[prepare]"
    python recipes/prepare_corpus_beam.py text/ --tokenizer spiece.model --output shards \
        --direct_running_mode=multi_processing --direct_num_workers=2

Flags that are not listed below go to Beam; without `--runner` it runs on this machine, in memory,
for trying out. Paths are on a file system that all workers share, or of an object store.

    ... --runner=FlinkRunner --flink_master=HOST:8081 --parallelism=64 \
        --environment_type=DOCKER --environment_config=IMAGE
    ... --runner=SparkRunner --spark_master_url=spark://HOST:7077 \
        --environment_type=DOCKER --environment_config=IMAGE
    ... --runner=DataflowRunner --project=PROJECT --region=REGION --temp_location=gs://BUCKET/tmp \
        --sdk_container_image=IMAGE --max_num_workers=16

IMAGE is Beam's of the same Python and Beam version, with this package:

    FROM apache/beam_python3.11_sdk:VERSION
    RUN pip install "keras-albert[prepare]"
    ENV KERAS_ALBERT_LIGHT=1

The last line keeps Keras out of the workers. `docs/corpus_16gb.md` has hours and costs. One machine
with many cores is served better by `prepare_corpus.py`, which also goes on when interrupted.
"""

import argparse
import os
import sys

if "keras_albert" not in sys.modules:  # on its own, it needs neither Keras nor a backend
    os.environ["KERAS_ALBERT_LIGHT"] = "1"

from keras_albert.data.beam_pipeline import prepare_corpus_beam  # noqa: E402
from keras_albert.data.documents import ON_ERROR, SEPARATORS  # noqa: E402
from keras_albert.preprocessing.encoders import load_encoder  # noqa: E402


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args, flags = parse(arguments)
    options = {"lowercase": False, "strip_accents": False} if args.cased else {}
    manifest = prepare_corpus_beam(
        args.files,
        args.output,
        tokenizer=load_encoder(args.tokenizer, **options),
        options=flags,
        sentences=args.sentences,
        document_separator=args.document_separator,
        text_field=args.text_field,
        on_error=args.on_error,
        drop_duplicates=args.drop_duplicates,
        holdout=args.holdout,
        max_document_tokens=args.max_document_tokens,
        shard_tokens=args.shard_tokens,
        overwrite=args.overwrite,
    )
    skipped = sum(manifest.inputs["skipped"]["counts"].values())
    print(
        f"{args.output}: {manifest.num_documents:,} documents, {manifest.num_tokens:,} tokens in "
        f"{len(manifest.shards)} shards; {manifest.inputs['duplicates']:,} documents dropped as "
        f"duplicates, {skipped:,} skipped as broken"
    )


def parse(arguments):
    """Read the command line; returns the recipe's arguments and the flags that are Beam's."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("files", nargs="+", help="files, directories, patterns or names of objects")
    add("--output", required=True, help="directory of the shards")
    add(
        "--tokenizer",
        required=True,
        help="spiece.model, vocab.txt or a saved tokenizer's directory",
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
    add("--overwrite", action="store_true", help="replace what --output holds")
    return parser.parse_known_args(arguments)


if __name__ == "__main__":
    main()
