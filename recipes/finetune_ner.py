"""Fine-tune an encoder to tag words, as the names in CoNLL-2003, with several seeds.

    keras-albert finetune-ner --preset run/preset --train eng.train --dev eng.testa \
        --test eng.testb --iob1
    keras-albert finetune-ner --preset run/preset --train mine.txt --held-out 0.1

Files have a word a line, its tag in the last field, and an empty line after each sentence; a file
in Hugging Face's columns does too. Scores are of whole spans, as CoNLL's own script counts them.

The ALBERT paper has no such task; the settings are BERT's for fine-tuning (Devlin et al., 2019,
appendix A.3). BERT-base has an F1 of 92.4 on the test set of CoNLL-2003 (Table 7), with capitals
kept and context of the document; an uncased vocabulary, as the released ALBERTs have, loses what
capitals say.

Tried on made-up sentences alone (tests/test_finetune_recipes.py): not on CoNLL-2003 itself, and the
rate of small encoders is not tuned.
"""

import argparse
import os
import warnings
from collections import Counter, defaultdict

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # the start-up notes of TensorFlow

import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras_albert_recipes import finetuning, options  # noqa: E402
from keras_albert_recipes import finetuning_results as results  # noqa: E402

import keras_albert  # noqa: E402
from keras_albert import datasets  # noqa: E402

OUTPUT = "run-ner"
SPLIT_SEED = 0  # of the held-out part: the same for all seeds of training
RATE, BATCH_SIZE, EPOCHS, WARMUP_SHARE, LENGTH = 5e-5, 32, 4, 0.1, 128
SMALL_RATE = 1e-3
SCORES = ("f1", "precision", "recall")
BERT_BASE = 0.924
INTERRUPTED = finetuning.INTERRUPTED


class SpanScores(keras.callbacks.Callback):
    """Adds precision, recall and F1 of spans to the logs of every epoch."""

    def __init__(self, dev):
        super().__init__()
        self.dev = dev

    def on_epoch_end(self, epoch, logs=None):
        scores = scores_of(self.dev, self.model.tag(self.dev.x, verbose=0))
        logs.update({f"val_{name}": value for name, value in scores.items()})
        print("  of spans: " + ", ".join(f"{name} {scores[name]:.1%}" for name in SCORES))


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parser().parse_args(arguments)
    output = finetuning.open_output(args)

    # 1. Sentences.
    train, dev, test = read(args)
    names = train.label_names
    kinds = sorted({name[2:] for name in names if name != "O"})
    print(f"{len(train):,} sentences to train on, {len(dev):,} to measure on: {', '.join(kinds)}")

    # 2. A model with each seed; the best of them is saved.
    steps = EPOCHS * -(-len(train) // (args.batch_size or BATCH_SIZE))
    paper = finetuning.Settings(RATE, BATCH_SIZE, 0.1, steps, round(WARMUP_SHARE * steps), LENGTH)
    settings, best = None, -1.0

    def train_one(seed):
        nonlocal settings, best
        model = finetuning.load_model(
            keras_albert.AlbertTokenClassifier,
            args,
            paper,
            num_classes=len(names),
            class_names=list(names),
        )
        settings = finetuning.settings_of(args, paper, len(train), model.backbone, SMALL_RATE)
        if seed == 0:
            print(f"{model.count_params():,} parameters; {settings}")
        history = finetuning.fit(
            model,
            settings,
            train.x,
            train.y,
            validation_data=(dev.x, dev.y),
            monitor="val_f1" if args.keep == "best" else None,
            callbacks=[SpanScores(dev)],
        )
        tags = model.tag(dev.x, verbose=0)
        scores = scores_of(dev, tags)
        if test:
            tested = scores_of(test, model.tag(test.x, verbose=0))
            scores |= {f"test {name}": value for name, value in tested.items()}
        if scores["f1"] > best:
            best = scores["f1"]
            finetuning.save_preset(model, output / "preset")
        return scores, history, tags

    runs = finetuning.run_seeds(args.seeds, train_one)

    # 3. Beside it: the most frequent tag of each word, and a published result.
    shown = [*SCORES, *(["test f1"] if test else [])]
    baseline = {}
    for prefix, part in (("", dev), ("test ", test)):
        if part:
            for name, value in scores_of(part, tags_by_word(train, part.x)).items():
                baseline[prefix + name] = value
    rows = [("each word's most frequent tag", *(baseline[name] for name in shown))]
    rows += results.score_rows(runs, shown)
    if test:
        published = [BERT_BASE if name == "test f1" else None for name in shown]
        rows.append(("BERT-base, CoNLL-2003, published", *published))
    minutes = sum(run.minutes for run in runs)
    results.table(f"Spans, {len(dev):,} sentences, {minutes:.1f} minutes", ("", *shown), rows)

    # 4. Files.
    baselines = {"each word's most frequent tag": baseline}
    results.draw_curves(runs, SCORES, output / "curves.png", baselines)
    best_run = max(runs, key=lambda run: run.scores["f1"])
    classes = {name: number for number, name in enumerate(names)}
    predicted = [classes[tag] for tags in best_run.outputs for tag in tags]
    results.draw_confusion(np.concatenate(dev.y), predicted, names, output / "confusion.png")
    results.write_results(output / "results.json", args, settings, runs, baselines=baselines)
    print(f"{output}/: preset/ (of seed {best_run.seed}), results.json, and pictures")


def read(args):
    """Sentences to train on, to measure on, and of the test set (None without)."""
    train = datasets.load_conll(args.train, iob1=args.iob1)
    load = lambda path: datasets.load_conll(path, train.label_names, iob1=args.iob1)
    if (args.dev is None) == (args.held_out is None):
        raise ValueError(
            "Pass either --dev, or --held-out 0.1 to measure on a part of the training set. "
            f"Received: --dev {args.dev} and --held-out {args.held_out}"
        )
    if args.dev is None:
        train, dev = train.split(1 - args.held_out, seed=SPLIT_SEED)
    else:
        dev = load(args.dev)
    if args.examples:
        train = train.shuffled(SPLIT_SEED).take(args.examples)
    return train, dev, load(args.test) if args.test else None


def scores_of(examples, tags):
    """Precision, recall and F1 of spans; 0 where none is predicted."""
    true = [[examples.label_names[tag] for tag in row] for row in examples.y]
    with warnings.catch_warnings(action="ignore"):
        return datasets.span_f1(true, tags)


def tags_by_word(train, sentences):
    """For each word the tag that it has most often in the training set, O for others."""
    counts = defaultdict(Counter)
    for words, tags in zip(train.x, train.y, strict=True):
        for word, tag in zip(words, tags, strict=True):
            counts[word][train.label_names[tag]] += 1
    known = {word: count.most_common(1)[0][0] for word, count in counts.items()}
    return [[known.get(word, "O") for word in words] for words in sentences]


def parser():
    """The command line; its defaults are the constants above."""
    parser = argparse.ArgumentParser(
        prog="keras-albert finetune-ner", description=__doc__, formatter_class=options.Help
    )
    add = parser.add_argument
    add("--train", required=True, help="file of tagged sentences")
    add("--dev", help="file to measure on while and after training")
    add("--test", help="file to measure on at the end")
    add("--held-out", type=float, help="measure on this share of the training set, not on --dev")
    add("--iob1", action="store_true", help="the tags are IOB1, as those of CoNLL-2003")
    finetuning.add_options(parser, output=OUTPUT)
    return parser


if __name__ == "__main__":
    main()
