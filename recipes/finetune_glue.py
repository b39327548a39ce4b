"""Fine-tune an encoder on a task of GLUE, with several seeds, and compare with what costs nothing.

    keras-albert finetune-glue SST-2 --preset run/preset --data glue --submission submission
    keras-albert finetune-glue MNLI --preset albert_base_v2.tar.gz --data glue --output run-MNLI
    keras-albert finetune-glue RTE --preset run/preset --start run-MNLI/preset --data glue

The settings are those of the paper's Table 14, for the released ALBERTs. A narrower encoder
(H below 768) has the same but for the rate, which is RATE here and is not tuned.

With `--early-exit` every depth gets a head; `keras-albert early-exit` shows what that saves. The
scores here are of all depths. `--packing` puts several short texts into one row, so that little of
a batch is padding.

For SST-2 `--held-out` takes whole sentences and trains on no phrase of them: the training set has
the phrases of its own sentences, so that a plain random part would be known in good part.

Measured with `albert_tiny` pretrained for an hour on 23 books (H 128, 768,386 parameters), PyTorch,
three seeds, on one core of two, the other busy; all of each training file but what was held out,
rate 1e-3. Percent, the median (lowest to highest), and TF-IDF with logistic regression:

| task, score | rows, epochs, dropout | held out | a seed | encoder | of all | words | majority |
|---|---|---|---|---|---|---|---|
| SST-2, accuracy | 59,644, 2, 0.1 | 688 | 14 min | 78.8 (78.1-79.1) | 79.2 | 80.8 | 52.0 |
| RTE, accuracy | 1,992, 3, 0.1 | 498 | 3 min | 54.0 (53.2-55.6) | 55.0 | 53.0 | 47.0 |
| QNLI, accuracy | 3,200, 3, 0 | 800 | 3 min | 54.6 (54.5-55.6) | 55.9 | 67.5 | 48.5 |
| STS-B, Pearson | 4,599, 3, 0 | 1,150 | 3 min | 31.8 (28.6-32.3) | 33.2 | 56.7 | 0 |
| CoLA, Matthews | 6,841, 3, 0 | 1,710 | 3 min | 3.5 (2.5-6.2) | 3.4 | 16.1 | 0 |

One seed of SST-2 without dropout, 3 epochs, made 78.6. So an hour of pretraining is worth less than
counting words, by 2.0 points where there is much to train on and by up to 25 where there is little;
level with it on RTE, where both are near chance (standard error 2.2).
"""

import argparse
import os
import pathlib
import statistics
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # the start-up notes of TensorFlow

import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras_albert_recipes import finetuning, options  # noqa: E402
from keras_albert_recipes import finetuning_results as results  # noqa: E402
from keras_albert_recipes.finetuning import Settings  # noqa: E402

import keras_albert  # noqa: E402
from keras_albert import datasets, training  # noqa: E402

OUTPUT = "run-glue"
SPLIT_SEED = 0  # of the held-out part: the same for all seeds of training
RATE = 1e-3  # of small encoders
# Lan et al. (2020), Table 14: rate, batch, dropout, steps, warm-up steps, length.
PAPER = {
    "CoLA": Settings(1e-5, 16, 0.0, 5336, 320, 512),
    "STS-B": Settings(2e-5, 16, 0.0, 3598, 214, 512),
    "SST-2": Settings(1e-5, 32, 0.0, 20935, 1256, 512),
    "MNLI": Settings(3e-5, 128, 0.0, 10000, 1000, 512),
    "QNLI": Settings(1e-5, 32, 0.0, 33112, 1986, 512),
    "QQP": Settings(5e-5, 128, 0.1, 14000, 1000, 512),
    "RTE": Settings(3e-5, 32, 0.1, 800, 200, 512),
    "MRPC": Settings(2e-5, 32, 0.0, 800, 200, 512),
    "WNLI": Settings(2e-5, 16, 0.1, 2000, 250, 512),
}
FROM_MNLI = ("RTE", "STS-B", "MRPC")  # there the paper starts from a model of MNLI
# Single models on the development sets, the median of 5 runs: the paper's Table 9, 1.5M steps; and
# the README of Google's ALBERT for base v2.
PAPER_SCORES = {
    "BERT-large": {
        "MNLI": 0.866, "QNLI": 0.923, "QQP": 0.913, "RTE": 0.704,
        "SST-2": 0.932, "MRPC": 0.880, "CoLA": 0.606, "STS-B": 0.900,
    },
    "ALBERT-base v2": {"MNLI": 0.846, "SST-2": 0.929},
    "ALBERT-xxlarge": {
        "MNLI": 0.908, "QNLI": 0.953, "QQP": 0.922, "RTE": 0.892,
        "SST-2": 0.969, "MRPC": 0.909, "CoLA": 0.714, "STS-B": 0.930,
    },
}  # fmt: skip
METRICS = {
    "accuracy": lambda: keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
    "f1": training.F1Score,
    "matthews": training.MatthewsCorrelation,
    "pearson": training.PearsonCorrelation,
    "spearman": training.SpearmanCorrelation,
}
INTERRUPTED = finetuning.INTERRUPTED


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parser().parse_args(arguments)
    task = datasets.find_task(args.task)
    if task.name not in PAPER:
        raise ValueError(f"`task` must be one of {', '.join(PAPER)}. Received: task={args.task}")
    output = finetuning.open_output(args)

    # 1. Examples.
    train, dev = read(task, args)
    other, tests = read_other(task, args), read_tests(task, args)
    print(f"{task.name}: {len(train):,} examples to train on, {len(dev):,} to measure on")
    if task.name in FROM_MNLI and not args.start:
        print(f"The paper starts {task.name} from a model of MNLI: --start run-MNLI/preset")

    # 2. A model with each seed. The best of them is saved, all of them vote.
    settings, best = None, float("-inf")

    def train_one(seed):
        nonlocal settings, best
        model = finetuning.load_model(
            keras_albert.AlbertTextClassifier,
            args,
            PAPER[task.name],
            num_classes=max(1, len(task.label_names)),
            class_names=list(task.label_names) or None,
            early_exit=args.early_exit,
        )
        settings = finetuning.settings_of(args, PAPER[task.name], len(train), model.backbone, RATE)
        if seed == 0:
            print(f"{model.count_params():,} parameters; {settings}")
        history = finetuning.fit(
            model,
            settings,
            train.x,
            train.y,
            validation_data=(dev.x, dev.y),
            metrics=[METRICS[name]() for name in task.metrics],
            monitor=f"val_{task.metrics[0]}" if args.keep == "best" else None,
            packing=args.packing,
        )
        parts = {"dev": dev, **other, **tests}
        outputs = {name: answers(model, part.x) for name, part in parts.items()}
        scores = datasets.glue_scores(task.name, dev.y, decided(outputs["dev"]))
        if scores[task.metrics[0]] > best:
            best = scores[task.metrics[0]]
            finetuning.save_preset(model, output / "preset")
        return scores, history, outputs

    runs = finetuning.run_seeds(args.seeds, train_one)
    together = {name: decided(mean(runs, name)) for name in ("dev", *tests)}
    ensemble = datasets.glue_scores(task.name, dev.y, together["dev"])

    # 3. Beside it: answers without an encoder, and the paper's.
    baselines = {
        "always the same answer": results.majority(train.y, len(dev)),
        "words (TF-IDF)": results.tfidf(train.x, train.y, dev.x),
    }
    with warnings.catch_warnings(action="ignore"):  # a correlation with one value is none, so 0
        baselines = {
            name: datasets.glue_scores(task.name, dev.y, predictions)
            for name, predictions in baselines.items()
        }
    rows = [(name, *scores.values()) for name, scores in baselines.items()]
    rows += results.score_rows(runs, task.metrics, ensemble)
    for name, scores in PAPER_SCORES.items():
        if task.name in scores:
            shown = [scores[task.name], *[None] * (len(task.metrics) - 1)]
            rows.append((f"{name}, published", *shown))
    minutes = sum(run.minutes for run in runs)
    title = f"{task.name}, {len(dev):,} examples to measure on, {minutes:.1f} minutes"
    results.table(title, ("", *task.metrics), rows)

    # 4. MNLI's second development set, of genres that were not trained on.
    more = {"task": task.name, "ensemble": ensemble, "baselines": baselines}
    for name, part in other.items():
        found = [decided(run.outputs[name]) for run in runs] + [decided(mean(runs, name))]
        found = [datasets.glue_scores(task.name, part.y, y)["accuracy"] for y in found]
        more[name] = {"runs": found[:-1], "ensemble": found[-1]}
        middle, low, high = statistics.median(found[:-1]), min(found[:-1]), max(found[:-1])
        print(f"{name}: accuracy {middle:.1%} ({low:.1%} to {high:.1%}), of all {found[-1]:.1%}")

    # 5. Files.
    results.draw_curves(runs, task.metrics, output / "curves.png", baselines)
    if not task.is_regression:
        names = task.label_names
        results.draw_confusion(dev.y, together["dev"], names, output / "confusion.png")
    results.write_results(output / "results.json", args, settings, runs, **more)
    for name in tests:
        print(datasets.write_submission(name, tests[name].ids, together[name], args.submission))
    print(f"{output}/: preset/ (the best seed's), results.json, and pictures")


def read(task, args):
    """The examples to train on, and those to measure on."""
    train = datasets.load_glue(task.name, args.data, "train")
    split = "dev_matched" if task.name == "MNLI" else "dev"
    if args.held_out is None and pathlib.Path(args.data).is_file():
        raise ValueError(
            "A single file has no development set beside it: pass --held-out 0.1 to measure on a "
            f"part of it. Received: --data {args.data}"
        )
    if args.held_out is None:
        try:
            dev = datasets.load_glue(task.name, args.data, split)
        except ValueError as error:
            hint = "--held-out 0.1 measures on a part of the training set instead"
            raise ValueError(f"{error}; {hint}") from None
    elif task.name == "SST-2":
        train, dev = split_sentences(train, args.held_out)
    else:
        train, dev = train.split(1 - args.held_out, seed=SPLIT_SEED)
    if args.examples:
        train = train.shuffled(SPLIT_SEED).take(args.examples)
    return train, dev


def split_sentences(train, share):
    """Whole sentences of SST-2 to measure on, and what is no part of them to train on.

    The training set is sentences and the phrases in them; its development set is other sentences.
    Phrases of the very sentences that are measured on would give the answers away.
    """
    phrases = {tuple(text.split()): place for place, text in enumerate(train.x)}
    tree = {}  # word -> the tree of what may follow; None -> the phrase that ends there
    for words in phrases:
        node = tree
        for word in words:
            node = node.setdefault(word, {})
        node[None] = words
    parts = {}  # sentence -> its phrases
    inside = set()
    for words in sorted(phrases, key=len, reverse=True):
        if words not in inside:
            parts[words] = set(phrases_in(words, tree))
            inside |= parts[words]
    sentences = list(parts)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(sentences))
    chosen = [sentences[place] for place in order[: max(1, round(share * len(sentences)))]]
    excluded = set().union(*(parts[words] for words in chosen))
    kept = [place for place, text in enumerate(train.x) if tuple(text.split()) not in excluded]
    return train.select(kept), train.select([phrases[words] for words in chosen])


def phrases_in(words, tree):
    """The phrases of a tree of words that stand in a row in `words`."""
    for start in range(len(words)):
        node = tree
        for place in range(start, len(words)):
            node = node.get(words[place])
            if node is None:
                break
            if None in node:
                yield node[None]


def read_tests(task, args):
    """`{name of the submission: examples}`, none without `--submission`."""
    if not args.submission:
        return {}
    if task.name != "MNLI":
        return {task.name: datasets.load_glue(task.name, args.data, "test")}
    tests = {
        "MNLI-m": datasets.load_glue("MNLI", args.data, "test_matched"),
        "MNLI-mm": datasets.load_glue("MNLI", args.data, "test_mismatched"),
    }
    try:
        tests["AX"] = datasets.load_glue("AX", args.data, "test")  # answered by models of MNLI
    except ValueError as error:
        print(f"No submission for AX: {error}")
    return tests


def read_other(task, args):
    """`{name: examples}` of MNLI's mismatched development set; none of other tasks."""
    if task.name != "MNLI" or args.held_out is not None:
        return {}
    return {"MNLI mismatched": datasets.load_glue("MNLI", args.data, "dev_mismatched")}


def answers(model, x):
    """Probabilities (N, C), or scores (N,)."""
    outputs = keras.ops.convert_to_numpy(model.predict(x, batch_size=64, verbose=0))
    return outputs[:, 0] if outputs.shape[1] == 1 else finetuning.softmax(outputs)


def mean(runs, name):
    """The ensemble's answers: the mean of those of all seeds."""
    return np.mean([run.outputs[name] for run in runs], axis=0)


def decided(outputs):
    """Classes of probabilities; scores stay what they are."""
    return outputs if outputs.ndim == 1 else outputs.argmax(axis=-1)


def parser():
    """The command line; its defaults are the constants above."""
    parser = argparse.ArgumentParser(
        prog="keras-albert finetune-glue", description=__doc__, formatter_class=options.Help
    )
    add = parser.add_argument
    add("task", metavar="TASK", help=", ".join(PAPER))
    add("--data", required=True, help="directory of GLUE, of the task, or the training file")
    finetuning.add_options(parser, output=OUTPUT)
    add("--start", help="take the encoder of this fine-tuned model instead, as the paper MNLI's")
    add("--held-out", type=float, help="measure on this share of the training set, not on dev")
    add("--early-exit", action="store_true", help="train a head after every depth")
    add("--packing", action="store_true", help="several short texts in one row: less padding")
    add("--submission", help="directory for the files that GLUE's server takes (needs test.tsv)")
    return parser


if __name__ == "__main__":
    main()
