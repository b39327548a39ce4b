"""Measure speed on this machine: medians of alternating repeats, both sides in one run.

    keras-albert benchmark data                 # text -> shards -> batches, tokens a second
    keras-albert benchmark data --files 'corpus/*.txt' --tokenizer spiece.model
    keras-albert benchmark memory --gigabytes 2 # peak memory of preparing so much text
    keras-albert benchmark remat                # memory of a training step, recomputing or not
    keras-albert benchmark serving              # time, size and accuracy of every kind of export
    keras-albert benchmark peers                # beside transformers, KerasHub and ONNX

Rates are tokens for each second of processor time, of one core: other programs on the machine
change them little. `data` compares batches with transformers' whole-word collator, where that is
installed: both get token ids that are ready, and give batches of the same size. `remat` trains
with the backend that KERAS_BACKEND names; `training_memory.py` says what is measured.
"""

import argparse
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from keras_albert_recipes import options, training_memory

REPEATS = 5
LENGTHS = (512, 128)
BATCH_SIZE = 32
BATCHES = 40
WORDS, SENTENCES = 50_000, 100_000  # different ones in generated text


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["serving"]:  # which has options of its own
        from keras_albert_recipes import benchmark_serving

        return benchmark_serving.main(arguments[1:])
    if arguments[:1] == ["peers"]:
        from keras_albert_recipes import benchmark_peers

        return benchmark_peers.main(arguments[1:])
    args = parse(arguments)
    {"data": data, "memory": memory, "remat": training_memory.compare}[args.what](args)


def data(args):
    """Rates of each stage from text to masked batches."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import keras_albert
    from keras_albert.preprocessing.encoders import load_encoder

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        files = args.files or generated(folder / "corpus.txt", 8_000_000, args.seed)
        if args.tokenizer:
            tokenizer = load_encoder(args.tokenizer)
        else:
            tokenizer = keras_albert.AlbertTokenizer.train(files, 8_000).encoder
        tokenizer.num_threads = 1

        def prepare():
            return keras_albert.prepare_corpus(
                files,
                folder / "shards",
                tokenizer=tokenizer,
                num_workers=1,
                overwrite=True,
                progress=False,
            ).num_tokens

        show("text -> shards", *rates([prepare], args.repeats))
        for length in LENGTHS:
            batches_of(length, folder / "shards", args)


def batches_of(length, shards, args):
    """Shards -> masked batches of one length, beside transformers' collator."""
    import keras_albert

    dataset = keras_albert.PretrainingDataset(shards, length, BATCH_SIZE, prefetch=0)
    step = 0

    def ours():
        nonlocal step
        step += BATCHES
        return sum(int(dataset[n][0]["padding_mask"].sum()) for n in range(step, step + BATCHES))

    sides, theirs = [ours], collator(dataset, length)
    if theirs is not None:
        sides.append(theirs)
    found = rates(sides, args.repeats)
    show(f"shards -> batches of {BATCH_SIZE} x {length}", found[0])
    if theirs is not None:
        show("  transformers, whole words, ids at hand", found[1])
        ratios = sorted(one / two for one, two in zip(*found, strict=True))
        print(
            f"  ratio {statistics.median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f}, "
            f"{len(ratios)} repeats)"
        )


def collator(dataset, length):
    """The same work by transformers, without reading: the ids of its examples are in memory."""
    try:
        import transformers
    except ImportError:
        print("(transformers is not installed: no other side)")
        return None
    import tokenizers

    # The collator asks a tokenizer for the ids of special tokens alone, and finds words by offsets.
    special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    names = [f"piece {n}" for n in range(dataset.tokenizer.vocabulary_size())]
    for name, token in special.items():
        names[getattr(dataset.tokenizer, f"{name}_token_id")] = token
    model = tokenizers.models.WordLevel({name: n for n, name in enumerate(names)}, "[UNK]")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(model),
        **{f"{name}_token": token for name, token in special.items()},
    )
    collate = transformers.DataCollatorForLanguageModeling(
        tokenizer,
        mlm_probability=0.15,
        whole_word_mask=True,
        mask_replace_prob=1.0,  # with whole words it knows no other
        random_replace_prob=0.0,
        return_tensors="np",
    )
    starts = dataset.tokenizer.word_starts()
    batches = [dataset[n][0] for n in range(BATCHES)]
    # Rows of full length: the collator pads ids, but not offsets.
    examples = [
        [
            {"input_ids": row.tolist(), "offset_mapping": offsets(starts[row]).tolist()}
            for row in x["token_ids"]
        ]
        for x in batches
    ]

    def theirs():
        for batch in examples:
            collate(batch)
        return sum(int(x["padding_mask"].sum()) for x in batches)

    return theirs


def offsets(is_start):
    """Where pieces of one letter each would stand in a text, with a space before each word."""
    begins = np.arange(len(is_start)) + np.cumsum(is_start)
    return np.stack([begins, begins + 1], 1)


def rates(sides, repeats):
    """Tokens for each second of processor time: a list of `repeats` for each side, alternating."""
    found = [[] for _ in sides]
    for _ in range(repeats):
        for side, its_rates in zip(sides, found, strict=True):
            began = time.process_time()
            tokens = side()
            its_rates.append(tokens / (time.process_time() - began))
    return found


def show(what, found):
    """One line: the median and its spread."""
    print(
        f"{what:<42} {statistics.median(found):>12,.0f} tokens/s "
        f"({min(found):,.0f} to {max(found):,.0f}, {len(found)} repeats)",
        flush=True,
    )


def memory(args):
    """Peak resident memory of `keras-albert prepare`, workers included, over generated text."""
    if sys.platform != "linux":
        raise ValueError(f"`memory` reads /proc, which Linux has. Received: {sys.platform!r}")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        corpus = pathlib.Path(folder, "corpus.txt")
        print(f"Generating {args.gigabytes:g} GB of text ...", flush=True)
        generated(corpus, int(args.gigabytes * 1e9), args.seed)
        command = [sys.executable, "-m", "keras_albert_recipes", "prepare", str(corpus)]
        command += ["--output", f"{folder}/shards"]
        if args.tokenizer:
            command += ["--tokenizer", args.tokenizer]
        else:
            command += ["--train-tokenizer", "8000"]
        if args.num_workers:
            command += ["--num-workers", str(args.num_workers)]
        began, peak = time.monotonic(), 0
        with subprocess.Popen(command) as process:
            while process.poll() is None:
                peak = max(peak, resident(process.pid))
                time.sleep(0.1)
        if process.returncode:
            raise RuntimeError(f"`{' '.join(command)}` ended with status {process.returncode}")
        size, minutes = corpus.stat().st_size, (time.monotonic() - began) / 60
    print(
        f"{size / 1e9:.2f} GB in {minutes:.1f} minutes; peak resident memory {peak / 1e6:,.0f} MB"
    )


def resident(root):
    """Bytes of resident memory of a process and all below it."""
    children, sizes = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                pages = (entry / "statm").read_text().split()[1]
            except OSError:  # it has just ended
                continue
            children.setdefault(int(parent), []).append(int(entry.name))
            sizes[int(entry.name)] = int(pages) * os.sysconf("SC_PAGE_SIZE")
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        total += sizes.get(process, 0)
        waiting += children.get(process, [])
    return total


def generated(path, size, seed):
    """Write about `size` bytes of text with words by Zipf's law, and return the path."""
    generator = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(generator.choices(letters, k=generator.randint(1, 10))) for _ in range(WORDS)]
    weights = [1 / (rank + 2) for rank in range(WORDS)]
    pool = generator.choices(words, weights, k=20 * SENTENCES)
    lengths = generator.choices(range(4, 40), k=SENTENCES)
    starts = generator.choices(range(len(pool) - 40), k=SENTENCES)
    sentences = [
        " ".join(pool[start : start + length]).capitalize()
        + (".\n\n" if generator.random() < 0.05 else ". ")
        for start, length in zip(starts, lengths, strict=True)
    ]
    written = 0
    with open(path, "w", encoding="utf-8") as file:
        while written < size:
            written += file.write("".join(generator.choices(sentences, k=10_000)))
    return path


def parser():
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="keras-albert benchmark",
        description=__doc__,
        formatter_class=options.Help,
    )
    add = parser.add_argument
    add("what", choices=("data", "memory", "remat"), help="see above")
    add("--files", nargs="+", help="text to measure with (default: generated)")
    add("--tokenizer", help="spiece.model, vocab.txt or a saved tokenizer's directory")
    add("--repeats", type=int, default=REPEATS, help="of each measurement")
    add("--gigabytes", type=float, default=2.0, help="of text, for `memory`")
    add("--num-workers", type=int, help="of the preparation, for `memory`")
    add("--folder", help="for temporary files of `memory`")
    add("--seed", type=int, default=0, help="of the generated text")
    add("--preset", default="albert_base_v2", help="architecture, for `remat`")
    add("--length", type=int, default=512, help="tokens of an example, for `remat`")
    add("--batch-size", type=int, default=4, help="examples of a step, for `remat`")
    add("--jit", default="auto", choices=("auto", "yes", "no"), help="Keras' jit_compile")
    add("--json", help="file to write the numbers of `remat` to")
    return parser


def parse(arguments):
    """Read the command line."""
    return parser().parse_args(arguments)


if __name__ == "__main__":
    main()
