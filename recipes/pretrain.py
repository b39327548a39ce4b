"""Pretrain an ALBERT on raw text, measure what it learned, fill masks, and save it.

    python recipes/pretrain.py                                  # Python's own language reference
    python recipes/pretrain.py --files "books/*.md" --steps 20000
    keras-albert pretrain --help                                # the same, installed

Without arguments: trains a SentencePiece tokenizer on the language reference that every Python
ships (0.5 MB, 79 documents), prepares shards, pretrains `albert_tiny`, and measures it on documents
that it has not seen (only the tokenizer has: its vocabulary is made from all of them).
KERAS_BACKEND chooses tensorflow (the default), jax or torch.
"""

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # the start-up notes of TensorFlow

import keras  # noqa: E402
from keras_albert_recipes import options  # noqa: E402
from keras_albert_recipes.phases import deepen  # noqa: E402
from keras_albert_recipes.pretraining_results import (  # noqa: E402
    baselines,
    plot,
    report,
    save,
    write_table,
)

import keras_albert  # noqa: E402
from keras_albert.data.manifest import load_tokenizer  # noqa: E402
from keras_albert.training.distribution import make_strategy  # noqa: E402

OUTPUT = "run"
PRESET = "albert_tiny"
VOCABULARY_SIZE = 2_000
SEQUENCE_LENGTH = 128
BATCH_SIZE = 8
STEPS = 800
# The paper's rate goes with its batch; other batches take the square root rule (You et al., 2020).
# `albert_tiny` on a small corpus learns faster with its own.
PAPER_RATE, PAPER_BATCH, TINY_RATE = 1.76e-3, 4_096, 1e-2
WARMUP_SHARE = 0.1
HOLDOUT = 0.1
EVALUATIONS = 10
PROMPTS = (
    "The [MASK] statement is used to define a new function.",
    "If the object has no such attribute, an AttributeError is [MASK].",
    "The value of the expression is returned to the [MASK].",
)


INTERRUPTED = (
    "The same command goes on: without --overwrite, and with --resume if it was training already."
)


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parse(arguments)
    strategy = make_strategy(args.strategy) if args.strategy else None
    replicas = strategy.num_replicas_in_sync if strategy else 1
    micro_batches = micro_batches_of(args, replicas)
    if args.packing and replicas * micro_batches > 1:
        parser().error(
            "--packing is for one device without micro-batches: received "
            f"{options.counted(replicas, 'replica')} x {micro_batches} micro-batches"
        )
    keras_albert.training.keep_freed_memory()
    keras.utils.set_random_seed(args.seed)
    output = pathlib.Path(args.output)
    output.mkdir(parents=True, exist_ok=True)
    if args.overwrite:
        for states in output.glob("phase-*"):
            shutil.rmtree(states)
        (output / "log.jsonl").unlink(missing_ok=True)
    print(f"keras_albert {keras_albert.__version__} on {keras.backend.backend()}, into {output}/")

    # 1. Text -> tokenizer -> shards of token ids.
    tokenizer = make_tokenizer(args, output)
    shards = output / "shards"
    if args.resume and (shards / "manifest.json").exists():
        corpus = keras_albert.Manifest.load(shards)
    else:
        corpus = keras_albert.prepare_corpus(
            args.files or language_reference(),
            shards,
            tokenizer=tokenizer,
            sentences=args.sentences,
            holdout=args.holdout,
            overwrite=args.overwrite,
        )
    print(f"{corpus.num_documents:,} documents, {corpus.num_tokens:,} tokens to train on")

    # 2. Shards -> batches, for each phase. The held-out ones are the same at every evaluation.
    phases = [
        make_phase(args, shards, number, replicas, micro_batches)
        for number in range(len(args.shares))
    ]
    steps = sum(phase["epochs"] * phase["steps_per_epoch"] for phase in phases)

    # 3. The model.
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = make_model(args, tokenizer, steps, micro_batches)
    print(
        f"{args.preset}: {model.backbone.num_layers} layers, {model.count_params():,} parameters; "
        f"{steps:,} steps at rate {args.learning_rate:.2g} ({args.rate_words})"
    )
    if micro_batches * replicas > 1:
        print(
            f"Batches of {args.global_batch_size:,}: {options.counted(replicas, 'replica')} x "
            f"{micro_batches} micro-batches of {args.batch_size}"
        )
    prompts = args.prompts or PROMPTS
    model.fill_mask(list(prompts))  # a prompt without [MASK] is better told of now

    # 4. Training, with an evaluation on held-out documents now and then. What a killed run has
    #    done comes back from its states: phases that were finished take no step.
    started, history, done = time.monotonic(), [], 0
    for number, phase in enumerate(phases):
        training, heldout = phase["training"], phase["heldout"]
        if number and args.depths[number] != args.depths[number - 1]:
            with strategy.scope() if strategy else contextlib.nullcontext():
                model = deepen(model, args.depths[number])
                compile_model(model, args, steps, steps - done, micro_batches)
            print(f"\n{model.backbone.num_layers} layers from here, with a new optimizer")
        print(
            f"\n{phase['epochs'] * phase['steps_per_epoch']:,} steps of {training.batch_size} x "
            f"{training.sequence_length} tokens, {training.num_examples:,} examples a pass"
            + (f", packed into {training.rows_per_batch} rows" if training.packing else "")
        )
        fitted = model.fit(
            training,
            steps_per_epoch=phase["steps_per_epoch"],
            initial_epoch=len(history),
            epochs=len(history) + phase["epochs"],
            validation_data=heldout,
            callbacks=[
                keras_albert.TrainingLog(output),
                keras_albert.TrainingState(output / f"phase-{number + 1}", keep=2),
            ],
        )
        for epoch in range(phase["epochs"]):
            done += phase["steps_per_epoch"]
            logs = {name: values[epoch] for name, values in fitted.history.items()}
            row = {"epoch": len(history), "step": done}
            history.append({**row, "length": training.sequence_length, **logs})
    write_table(history, output / "log.csv")
    minutes = (time.monotonic() - started) / 60

    # 5. Saved: a preset for fine-tuning, and one file for Keras.
    save(model, output)

    # 6. What it learned.
    scores = model.evaluate(heldout, return_dict=True, verbose=0)
    baseline = baselines(training, heldout)
    report(args, scores, baseline, minutes)
    plot(history, baseline, output / "curves.png")
    for text, filled in zip(prompts, model.fill_mask(list(prompts)), strict=True):
        print(f"\n{text}")
        candidates = filled if isinstance(filled[0], list) else [filled]
        for mask in candidates:
            print("  " + ", ".join(f"{token} {chance:.1%}" for token, chance, _ in mask))


def micro_batches_of(args, replicas):
    """How many micro-batches each replica takes in a step; sets the default of the batch."""
    at_once = args.batch_size * replicas
    args.global_batch_size = args.global_batch_size or at_once
    if args.global_batch_size % at_once:
        parser().error(
            f"--global-batch-size must be a multiple of --batch-size x replicas, "
            f"{args.batch_size} x {replicas}: received {args.global_batch_size}"
        )
    if args.learning_rate is None:
        args.learning_rate, args.rate_words = default_rate(args.preset, args.global_batch_size)
    return args.global_batch_size // at_once


def default_rate(preset, batch):
    """The peak rate for a preset and a batch, and where it is from."""
    if preset == "albert_tiny" and batch < 256:
        return TINY_RATE, "of albert_tiny on a small corpus"
    if batch == PAPER_BATCH:
        return PAPER_RATE, "the paper's"
    rate = PAPER_RATE * (batch / PAPER_BATCH) ** 0.5
    return rate, f"the paper's {PAPER_RATE:.3g} x sqrt({batch:,} / {PAPER_BATCH:,})"


def make_model(args, tokenizer, steps, micro_batches):
    """The model, compiled as ALBERT was pretrained."""
    backbone = keras_albert.AlbertBackbone.from_preset(
        args.preset,
        load_weights=False,
        vocabulary_size=tokenizer.vocabulary_size(),
        max_sequence_length=max(*args.sequence_length, 512),
        initializer_range=args.initializer_range,
        remat=args.remat,
        **({"num_layers": args.depths[0]} if args.depths[0] else {}),
    )
    preprocessor = keras_albert.AlbertPretrainerPreprocessor(
        tokenizer, sequence_length=max(args.sequence_length)
    )
    model = keras_albert.AlbertPretrainer(backbone, preprocessor, objective=args.objective)
    compile_model(model, args, steps, steps, micro_batches)
    return model


def compile_model(model, args, steps, remaining, micro_batches):
    """LAMB for the `remaining` of all `steps`, of which the same share is for the warm-up."""
    warmup_steps = max(1, args.warmup_steps * remaining // steps)
    schedule = keras_albert.WarmupPolynomialDecay(args.learning_rate, warmup_steps, remaining)
    optimizer = keras_albert.SkipNonFinite(keras_albert.Lamb(schedule))
    model.compile(optimizer=optimizer, accumulation_steps=micro_batches)


def language_reference():
    """The topics of Python's language reference, one document each, a paragraph a line."""
    from pydoc_data.topics import topics

    for text in topics.values():
        text = re.sub(r"[*=~^-]{3,}", "", text)  # underlines of headings, rules of tables
        yield "\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text))


def make_tokenizer(args, output):
    """Load the tokenizer that was asked for, or train one on the corpus."""
    if args.tokenizer:
        if pathlib.Path(args.tokenizer).is_dir():
            return load_tokenizer(args.tokenizer)
        if str(args.tokenizer).endswith(".txt"):
            return keras_albert.BertTokenizer(args.tokenizer)
        return keras_albert.AlbertTokenizer(args.tokenizer)
    if args.resume and (output / "spiece.model").exists():
        return keras_albert.AlbertTokenizer(output / "spiece.model")
    print(f"Training a tokenizer of {args.vocabulary_size:,} pieces ...")
    texts = language_reference()
    if args.files:
        documents = keras_albert.read_documents(args.files, sentences="lines")
        texts = (paragraph for document in documents for paragraph in document.sentences)
    return keras_albert.AlbertTokenizer.train(
        texts,
        vocabulary_size=args.vocabulary_size,
        output=output / "spiece.model",
    )


def make_phase(args, shards, number, replicas, micro_batches):
    """Datasets and steps of one phase; batches of later phases have as many tokens."""
    length = args.sequence_length[number]
    settings = {
        "sequence_length": length,
        "objective": args.objective,
        "mask_rate": args.mask_rate,
        "max_ngram": args.max_ngram,
        "packing": args.packing,
    }
    epochs = max(1, round(args.evaluations * args.shares[number]))
    at_once = max(1, args.batch_size * args.sequence_length[0] // length)  # on one device
    return {
        # Another seed for another phase: the same shards, no example again.
        "training": keras_albert.PretrainingDataset(
            shards,
            seed=args.seed + number,
            batch_size=at_once * replicas * micro_batches,
            **settings,
        ),
        "heldout": keras_albert.PretrainingDataset(
            shards / "heldout", static=True, batch_size=at_once * replicas, **settings
        ),
        "epochs": epochs,
        "steps_per_epoch": max(1, -(-round(args.steps * args.shares[number]) // epochs)),
    }


def parser():
    """The command line; its defaults are the constants above."""
    parser = argparse.ArgumentParser(
        prog="keras-albert pretrain",
        description=__doc__,
        formatter_class=options.Help,
    )
    add = parser.add_argument
    add("--files", nargs="+", help="text files, directories or patterns (default: see above)")
    add("--sentences", default="en", help="language for sentence splitting, or 'lines'")
    add(
        "--tokenizer",
        help="spiece.model, vocab.txt or a saved tokenizer's directory (default: train one)",
    )
    add("--vocabulary-size", type=int, default=VOCABULARY_SIZE, help="of the tokenizer to train")
    add("--preset", default=PRESET, help="architecture, as albert_base_v2")
    add("--initializer-range", type=float, default=0.02, help="deviation of initial weights")
    add("--objective", default="sop", choices=("sop", "nsp", "none"), help="of the segments")
    add("--sequence-length", type=int, nargs="+", default=[SEQUENCE_LENGTH], help="of each phase")
    add(
        "--depths",
        type=int,
        nargs="+",
        help="layers in each phase, as 6 12: a deeper model starts with the weights of the one "
        "before (default: the preset's)",
    )
    add("--phase-shares", type=float, nargs="+", default=[1.0], help="of the steps, as 0.9 0.1")
    add(
        "--batch-size",
        type=int,
        default=BATCH_SIZE,
        help="of the first phase: what one device computes at once",
    )
    add(
        "--global-batch-size",
        type=int,
        help="of a step, on all devices; accumulates over as many batches as that takes (default: "
        "one on each device)",
    )
    add(
        "--strategy",
        choices=("mirrored", "tpu"),
        help="several devices with TensorFlow: the GPUs of this machine, or a TPU (never tried)",
    )
    add(
        "--remat",
        action="store_true",
        help="compute each layer again for its gradients: less memory, a third more operations",
    )
    add(
        "--packing",
        action="store_true",
        help="several short documents in one row: the same losses for less padding",
    )
    add("--mask-rate", type=float, default=0.15, help="share of the tokens to predict")
    add("--max-ngram", type=int, default=3, help="longest masked n-gram, in words")
    add("--steps", type=int, default=STEPS, help="of all phases")
    add(
        "--learning-rate",
        type=float,
        help="peak (default: 1e-2 for albert_tiny in batches below 256, else the paper's 1.76e-3 x "
        "sqrt(batch / 4096))",
    )
    add("--warmup-steps", type=int, help="(default: a tenth of the steps)")
    add("--holdout", type=float, default=HOLDOUT, help="share of documents held out")
    add("--evaluations", type=int, default=EVALUATIONS, help="on held-out text, while training")
    add("--prompts", nargs="*", help="texts with [MASK] to fill in (default: three)")
    add("--seed", type=int, default=0, help="of weights, order and masks")
    add("--output", default=OUTPUT, help="directory of all that is made")
    add("--resume", action="store_true", help="go on with the run in --output, after a kill too")
    add("--overwrite", action="store_true", help="replace an earlier run in --output")
    return parser


def parse(arguments):
    """Read the command line, and what its options say together."""
    command_line = parser()
    args = command_line.parse_args(arguments)
    for name in ("steps", "evaluations", "batch_size", "vocabulary_size"):
        if getattr(args, name) < 1:
            command_line.error(f"--{name.replace('_', '-')} must be at least 1")
    args.shares = args.phase_shares
    alike = len(args.shares) == len(args.sequence_length) and min(args.shares) > 0
    if not alike or abs(sum(args.shares) - 1) > 1e-6:
        command_line.error(
            "--phase-shares must have a share above 0 for each --sequence-length, adding up to 1: "
            f"received {args.shares} for {args.sequence_length}"
        )
    args.depths = args.depths or [None] * len(args.shares)
    if len(args.depths) != len(args.shares):
        command_line.error(
            "--depths must have a number of layers for each --sequence-length: received "
            f"{args.depths} for {args.sequence_length}"
        )
    if not 0 < args.holdout < 1:
        command_line.error(
            "--holdout must be above 0 and below 1: what was learned is measured on it"
        )
    # A preparation that was interrupted goes on.
    if args.resume and args.overwrite:
        command_line.error("--resume goes on with a run and --overwrite replaces it: pass one")
    begun = pathlib.Path(args.output, "shards", "manifest.json").exists()
    if begun and not (args.overwrite or args.resume):
        command_line.error(
            f"{args.output}/ holds an earlier run: pass --resume to go on with it, --overwrite to "
            "replace it, or another --output"
        )
    args.rate_words = "as asked for"
    if args.global_batch_size is not None and args.global_batch_size < 1:
        command_line.error("--global-batch-size must be at least 1")
    if args.strategy and keras.backend.backend() != "tensorflow":
        command_line.error("--strategy needs KERAS_BACKEND=tensorflow")
    if args.warmup_steps is None:
        args.warmup_steps = int(args.steps * WARMUP_SHARE)
    return args


if __name__ == "__main__":
    main()
