"""What fine-tuning on RACE and on SWAG share: models, baselines and the summary."""

import numpy as np
from keras_albert_recipes import finetuning, finetuning_results

import keras_albert

LIKENESS = "TF-IDF, most like the context"


def split_by(examples, keys, share):
    """Two parts of `Examples` without a key in common; `share` of the keys in the second.

    Args:
        examples: `keras_albert.datasets.Examples`.
        keys: one for each example, as its passage.
        share: a number above 0 and below 1.

    Returns:
        `(train, held_out)`, the same for the same examples.

    Raises:
        ValueError: one part would be empty.
    """
    different = sorted(set(keys))
    count = round(share * len(different))
    if not 0 < count < len(different):
        raise ValueError(
            "`held_out` must leave something on both sides. "
            f"Received: held_out={share}, of {len(different)}"
        )
    order = np.random.default_rng(0).permutation(len(different))
    held_out = {different[i] for i in order[:count]}
    is_held_out = np.array([key in held_out for key in keys])
    return tuple(examples.select(np.flatnonzero(is_held_out == side)) for side in (False, True))


def run(name, args, train, dev, paper, small_rate, paper_scores, groups=None):
    """Train with every seed, measure, compare, save.

    Args:
        name: of the set, for the table.
        args: of `finetuning.add_options`.
        train: `Examples` to train on; `args.examples` of them are.
        dev: `Examples` to measure on.
        paper: `Settings` of the paper.
        small_rate: learning rate of small encoders.
        paper_scores: `{label: {score: value}}`, rows of the table.
        groups: a name for each example of `dev`, to score each group too.
    """
    output = finetuning.open_output(args)
    if args.examples:
        train = train.shuffled(0).take(args.examples)
    backbone = keras_albert.AlbertBackbone.from_preset(args.preset, load_weights=False)
    settings = finetuning.settings_of(args, paper, len(train), backbone, small_rate)
    print(f"{name}: {len(train):,} to train on, {len(dev):,} to measure; {settings}")
    scores_of = lambda chosen: accuracies(dev.y, chosen, groups)
    best = -1.0

    def train_one(seed):
        nonlocal best
        model = keras_albert.AlbertMultipleChoice.from_preset(
            args.preset,
            sequence_length=settings.sequence_length,
            hidden_dropout=settings.dropout,
            attention_dropout=settings.dropout,
        )
        monitor = "val_accuracy" if args.keep == "best" else None
        history = finetuning.fit(
            model, settings, train.x, train.y, validation_data=(dev.x, dev.y), monitor=monitor
        )
        chances = finetuning.softmax(predict(model, dev))
        scores = scores_of(chances.argmax(axis=-1))
        if scores["accuracy"] > best:
            best = scores["accuracy"]
            finetuning.save_preset(model, output / "preset")
        return scores, history, chances

    runs = finetuning.run_seeds(args.seeds, train_one)
    mean = np.mean([run.outputs for run in runs], axis=0)
    ensemble = scores_of(mean.argmax(axis=-1)) if len(runs) > 1 else None
    chosen = {
        "longest option": longest(dev.x),
        LIKENESS: most_alike(train.x, dev.x),
    }
    baselines = {"chance": chance(dev, groups)}
    baselines |= {label: scores_of(values) for label, values in chosen.items()}

    names = list(runs[0].scores)
    rows = [(label, *map(scores.get, names)) for label, scores in baselines.items()]
    rows += finetuning_results.score_rows(runs, names, ensemble)
    rows += [(label, *map(scores.get, names)) for label, scores in paper_scores.items()]
    title = f"{name}, {len(dev):,} questions, percent"
    finetuning_results.table(title, ("", *names), rows)
    shown = {label: baselines[label] for label in ("chance", LIKENESS)}
    finetuning_results.draw_curves(runs, ["accuracy"], output / "curves.png", shown)
    finetuning_results.write_results(
        output / "results.json", args, settings, runs, ensemble=ensemble, baselines=baselines
    )
    print(f"\nSaved {output / 'preset'}/ and {output / 'curves.png'}")


def predict(model, examples):
    """Logits (N, options) of all examples; -1e9 for options that an example does not have."""
    logits = np.full((len(examples), max(map(len, examples.x[-1]))), -1e9, "float32")
    counts = np.array([len(options) for options in examples.x[-1]])
    for count in set(counts.tolist()):  # outputs of one width are joined
        which = np.flatnonzero(counts == count)
        logits[which, :count] = model.predict(examples.select(which).x, verbose=0)
    return logits


def accuracies(labels, chosen, groups=None):
    """The share of right choices: of all, and of each group."""
    right = np.asarray(labels) == np.asarray(chosen)
    scores = {"accuracy": float(right.mean())}
    for group in sorted(set(groups or ())):
        scores[group] = float(right[np.equal(groups, group)].mean())
    return scores


def chance(examples, groups=None):
    """The accuracy to be expected of a choice by lot."""
    shares = np.array([1 / len(options) for options in examples.x[-1]])
    scores = {"accuracy": float(shares.mean())}
    for group in sorted(set(groups or ())):
        scores[group] = float(shares[np.equal(groups, group)].mean())
    return scores


def longest(x):
    """The option with the most characters, the first of several."""
    return [int(np.argmax([len(option) for option in options])) for options in x[-1]]


def most_alike(train_x, x):
    """The option whose TF-IDF vector is most like that of its context and question (cosine).

    Words are weighted by the training texts; nothing is learned from labels.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    contexts = lambda x: [" ".join(parts) for parts in zip(*x[:-1], strict=True)]
    texts = contexts(train_x) + [option for options in train_x[-1] for option in options]
    vectorizer = TfidfVectorizer(sublinear_tf=True).fit(texts)
    counts = [len(options) for options in x[-1]]
    asked = vectorizer.transform(contexts(x))[np.repeat(np.arange(len(counts)), counts)]
    given = vectorizer.transform([option for options in x[-1] for option in options])
    likeness = np.asarray(asked.multiply(given).sum(axis=1)).ravel()
    return [int(part.argmax()) for part in np.split(likeness, np.cumsum(counts)[:-1])]
