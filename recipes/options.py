"""What the recipes' command lines share: help with defaults, and the options of a preparation.

No recipe, and nothing that takes time to import.
"""

import argparse
import contextlib
import os
import sys

LIGHT = "KERAS_ALBERT_LIGHT"  # as in keras_albert/light.py, which is not imported before it is set


class Help(argparse.RawDescriptionHelpFormatter):
    """Shows the description as it is written, and every default that says something."""

    def _get_help_string(self, action):
        text = action.help or ""
        says_nothing = any(action.default is d for d in (None, False, argparse.SUPPRESS))
        if says_nothing or "default:" in text or not action.option_strings:
            return text
        value = action.default
        shown = " ".join(map(str, value)) if isinstance(value, (list, tuple)) else f"{value}"
        return f"{text} (default: {shown})".replace("%", "%%").strip()


@contextlib.contextmanager
def light():
    """What is imported inside loads neither Keras nor a backend, if this is the first import.

    Afterwards the environment is as before, also for programs that are started from here.
    """
    before = os.environ.get(LIGHT)
    if "keras_albert" not in sys.modules:
        os.environ[LIGHT] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(LIGHT, None)
        else:
            os.environ[LIGHT] = before


def add_preparation(parser):
    """Add the options of `prepare_corpus` and `prepare_corpus_beam`, tokenizers aside."""
    from keras_albert.data.documents import ON_ERROR, SEPARATORS

    add = parser.add_argument
    add("--output", required=True, help="directory of the shards")
    add("--cased", action="store_true", help="keep capitals and accents")
    add("--sentences", default="en", help="language for sentence splitting, or 'lines'")
    add("--document-separator", default="auto", choices=SEPARATORS, help="in plain text")
    add("--text-field", default="text", help="of JSON lines and Parquet")
    add("--on-error", default="raise", choices=ON_ERROR, help="what to do with what is broken")
    add("--drop-duplicates", action="store_true", help="keep the first of equal documents")
    add("--holdout", type=float, default=0.0, help="share of documents kept for evaluation")
    add("--max-document-tokens", type=int, default=8192, help="in a record; longer ones are cut")
    add("--shard-tokens", type=int, default=50_000_000, help="in a shard, at least")
    add(
        "--overwrite",
        action="store_true",
        help="replace what --output holds, and start afresh; without, an interrupted run goes on",
    )


def reading(args):
    """How the files are read: arguments of `read_documents`."""
    return {name: getattr(args, name) for name in ("document_separator", "text_field", "on_error")}


def preparation(args):
    """The arguments of a preparation that `add_preparation` has options for."""
    names = ("sentences", "drop_duplicates", "holdout", "max_document_tokens", "shard_tokens")
    return {**reading(args), **{name: getattr(args, name) for name in (*names, "overwrite")}}


def report(manifest, held_out, args):
    """Say what was written and what was left out; `held_out` is a number of documents, or None."""
    skipped = manifest.inputs["skipped"]
    print(
        f"{args.output}: {counted(manifest.num_documents, 'document')}, "
        f"{counted(manifest.num_sentences, 'sentence')}, "
        f"{counted(manifest.num_tokens, 'token')} in {counted(len(manifest.shards), 'shard')}"
    )
    if held_out is not None:
        print(f"Held out: {counted(held_out, 'document')}, in {args.output}/heldout")
    if args.drop_duplicates:
        dropped = counted(manifest.inputs["duplicates"], "document")
        print(f"Dropped: {dropped} with the text of one before, counted in neither")
    if count := sum(skipped["counts"].values()):
        print(f"Skipped as broken: {count:,}; the first of them:")
        print("\n".join(f"  {message}" for message in skipped["first"]))


def counted(number, noun):
    """`1 shard`, `2 shards`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
