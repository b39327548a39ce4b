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

from keras_albert_recipes import options

with options.light():  # on its own, it needs neither Keras nor a backend
    from keras_albert.data.beam_files import local_file
    from keras_albert.data.beam_pipeline import prepare_corpus_beam
    from keras_albert.data.manifest import FILE_NAME, Manifest
    from keras_albert.preprocessing.encoders import load_encoder


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args, flags = parse(arguments)
    normalization = {"lowercase": False, "strip_accents": False} if args.cased else {}
    manifest = prepare_corpus_beam(
        args.files,
        args.output,
        tokenizer=load_encoder(args.tokenizer, **normalization),
        options=flags,
        **options.preparation(args),
    )
    held_out = None
    if args.holdout:
        with local_file(f"{args.output.rstrip('/')}/heldout/{FILE_NAME}") as path:
            held_out = Manifest.load(path.parent).num_documents
    options.report(manifest, held_out, args)


def parse(arguments):
    """Read the command line; returns the recipe's arguments and the flags that are Beam's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=options.Help, allow_abbrev=False
    )
    parser.add_argument("files", nargs="+", help="files, directories, patterns or object names")
    parser.add_argument(
        "--tokenizer",
        required=True,
        help="spiece.model, vocab.txt or a saved tokenizer's directory",
    )
    options.add_preparation(parser)
    return parser.parse_known_args(arguments)


if __name__ == "__main__":
    main()
