r"""Fine-tune an ALBERT on SQuAD 1.1 or 2.0, choose the threshold for no answer, score, save.

    keras-albert finetune-squad --preset albert_base_v2.tar.gz \
        --train train-v2.0.json --dev dev-v2.0.json
    keras-albert finetune-squad --preset run/preset --train ten-articles.json --held-out 0.2 \
        --sequence-length 256 --epochs 3

The version is that of the files: 2.0 where a question has no answer. `--head linear` is BERT's and
the default of 1.1; `--head beam` is ALBERT's and the default of 2.0. Without `--dev`, whole
articles are held out: paragraphs of one article tell of each other.

Steps, rate, batch and lengths are those of the paper's Table 14 (appendix A.4); encoders narrower
than 768 take a rate of 1e-3. The threshold for no answer is the best on the development set, as in
BERT and ALBERT, so scores of 2.0 on that set are a little too good; baselines have it too.

Into `--output`: for each seed `seed-N/` with predictions.json, nbest_predictions.json and
null_odds.json; the same in `ensemble/` (the linear head's logits averaged, the beam's
probabilities); `preset/` of the seed with the best F1, with its `null_threshold`; curves.png;
results.json.

Measured with `albert_tiny` after an hour of pretraining on 23 books, ten articles of SQuAD, two of
them held out (Imperialism, Packet_switching): length 256, batch 16, rate 1e-3, three seeds,
PyTorch, one core of two, the other busy. Percent, the median (lowest to highest):

| version, head | questions, epochs | a seed | exact / F1 | of all three | baseline |
|---|---|---|---|---|---|
| 1.1, linear | 1,557, 3 | 7 min | 2.1 (1.7-2.7) / 8.8 (8.4-11.2) | 2.7 / 9.4 | 11.0 / 20.6 |
| 2.0, beam | 3,171, 2 | 13 min | 60.5 (60.5-60.7) / the same | 60.7 / 60.7 | 60.5 / 60.5 |

The baseline of 1.1 answers from the sentence with most of the question's words, that of 2.0 never
answers. The encoder is 11.8 points of F1 below the first and level with the second, whose threshold
it takes: so little pretraining and so few questions teach it eight articles, not reading. On
paragraphs whose answer is a marker word both heads reach F1 above 90 in 12 epochs, in the tests.
"""

import argparse
import dataclasses
import math
import os
import re

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # the start-up notes of TensorFlow

import numpy as np  # noqa: E402
from keras_albert_recipes import finetuning, finetuning_results, options  # noqa: E402

import keras_albert  # noqa: E402
from keras_albert.datasets import load_squad, squad_score  # noqa: E402
from keras_albert.preprocessing.span_decoding import decode_spans  # noqa: E402
from keras_albert.preprocessing.span_predictions import (  # noqa: E402
    NO_ANSWER,
    SpanCandidate,
    SpanPrediction,
    best_threshold,
    write_predictions,
)

OUTPUT = "run-squad"
PAPER = {  # rate, batch, dropout, steps, warm-up, length
    "1.1": finetuning.Settings(5e-5, 48, 0.0, 3649, 365, 384),
    "2.0": finetuning.Settings(3e-5, 48, 0.0, 8144, 814, 512),
}
PAPER_SCORES = {  # exact match and F1 on the official development sets, of version 1
    "ALBERT-base": {"1.1": (0.823, 0.893), "2.0": (0.771, 0.800)},
    "ALBERT-xxlarge": {"1.1": (0.893, 0.948), "2.0": (0.874, 0.902)},
}
SMALL_RATE = 1e-3
HELD_OUT = 0.2
N_BEST = 20
SCORES = {
    "1.1": ("exact", "f1"),
    "2.0": ("exact", "f1", "HasAns_exact", "HasAns_f1", "NoAns_f1"),
}
INTERRUPTED = finetuning.INTERRUPTED


def main(arguments=None):
    """Run the recipe; `arguments` are a list of strings, the command line's by default."""
    args = parser().parse_args(arguments)
    output = finetuning.open_output(args)

    # 1. Questions to train on, and questions of other articles.
    train, dev = read(args)
    version = "2.0" if any(example.is_impossible for example in train + dev) else "1.1"
    head = args.head or {"1.1": "linear", "2.0": "beam"}[version]
    articles = [len({example.title for example in examples}) for examples in (train, dev)]
    print(
        f"SQuAD {version}, {head} head: {len(train):,} questions of {articles[0]} articles to "
        f"train on, {len(dev):,} of {articles[1]} to measure"
    )

    # 2. The paper's settings, or those of a small encoder.
    backbone = keras_albert.AlbertBackbone.from_preset(args.preset, load_weights=False)
    settings = PAPER[version]
    length = finetuning.settings_of(args, settings, 1, backbone, SMALL_RATE).sequence_length

    def make(dropout):
        return keras_albert.AlbertSpanExtractor.from_preset(
            args.preset,
            head=head,
            sequence_length=length,
            hidden_dropout=dropout,
            attention_dropout=dropout,
        )

    count = len(make(settings.dropout).preprocessor.windows(train))
    settings = finetuning.settings_of(args, settings, count, backbone, SMALL_RATE)
    print(f"{count:,} windows; {settings}")

    # 3. A model for each seed.
    best = -1.0

    def train_one(seed):
        nonlocal best
        model = make(settings.dropout)
        monitor = "val_start_accuracy" if args.keep == "best" else None
        history = finetuning.fit(
            model, settings, train, count=count, validation_data=(dev, None), monitor=monitor
        )
        windows = model.preprocessor.windows(dev)
        if head == "linear":
            logits = model.predict(windows.inputs(), batch_size=32, verbose=0)
            outputs = windows, logits
            predictions = decode_spans(windows, logits["start"], logits["end"], N_BEST)
        else:
            outputs = predictions = model.predict_spans(dev, N_BEST, batch_size=32, verbose=0)
        threshold, scores = measure(dev, predictions, version)
        write_predictions(output / f"seed-{seed}", predictions, threshold)
        if scores["f1"] > best:
            best, model.null_threshold = scores["f1"], threshold
            finetuning.save_preset(model, output / "preset")
        return scores, history, outputs

    runs = finetuning.run_seeds(args.seeds, train_one)

    # 4. All of them together.
    ensemble = None
    if len(runs) > 1:
        average = average_logits if head == "linear" else average_beams
        predictions = average([run.outputs for run in runs])
        threshold, ensemble = measure(dev, predictions, version)
        write_predictions(output / "ensemble", predictions, threshold)

    # 5. What it is worth.
    baselines = {"most words in common": overlap(dev)}
    if version == "2.0":
        baselines["never an answer"] = [SpanPrediction(e.id, [NO_ANSWER], 0.0) for e in dev]
    baselines = {name: measure(dev, answers, version)[1] for name, answers in baselines.items()}
    report(runs, ensemble, baselines, version, len(dev))
    names = ("start_accuracy", "end_accuracy")
    finetuning_results.draw_curves(runs, names, output / "curves.png")
    finetuning_results.write_results(
        output / "results.json",
        args,
        settings,
        runs,
        version=version,
        head=head,
        ensemble=ensemble,
        baselines=baselines,
    )
    print(f"\nSaved {output / 'preset'}/, curves.png and the predictions of each seed")


def read(args):
    """The questions to train on, and those to measure; `--examples` of the former."""
    train = load_squad(args.train)
    if args.dev:
        dev = load_squad(args.dev, split="dev")
    else:
        train, dev = split_by_article(train, args.held_out)
    if args.examples and args.examples < len(train):
        order = np.random.default_rng(0).permutation(len(train))
        train = [train[i] for i in sorted(order[: args.examples])]
    return train, dev


def split_by_article(examples, share):
    """Two lists of examples without an article in common; `share` of the articles in the second.

    The same articles for the same files: all seeds are measured on the same questions.
    """
    titles = sorted({example.title for example in examples})
    count = round(share * len(titles))
    if not 0 < count < len(titles):
        raise ValueError(
            "`held_out` must leave articles on both sides, or pass --dev. "
            f"Received: held_out={share}, of {len(titles)} articles"
        )
    held_out = {titles[i] for i in np.random.default_rng(0).permutation(len(titles))[:count]}
    parts = [], []
    for example in examples:
        parts[example.title in held_out].append(example)
    return parts


def measure(examples, predictions, version):
    """The threshold for no answer with the best F1 (2.0; else None), and the official scores.

    Scores are fractions: `"exact"`, `"f1"` and, for 2.0, those of questions with and without
    answer.
    """
    threshold = None
    if version == "2.0":
        alone = lambda e, text: squad_score([e], {e.id: text}, version="2.0")["f1"] / 100
        pairs = list(zip(examples, predictions, strict=True))
        threshold, _ = best_threshold(
            [prediction.null_odds for prediction in predictions],
            [alone(example, prediction.answer().text) for example, prediction in pairs],
            [alone(example, "") for example in examples],
        )
    answers = {prediction.id: prediction.answer(threshold).text for prediction in predictions}
    scores = squad_score(examples, answers, version=version)
    if version == "1.1":
        scores["exact"] = scores.pop("exact_match")
    return threshold, {name: scores[name] / 100 for name in SCORES[version] if name in scores}


def average_logits(outputs):
    """Predictions of the mean logits of several linear heads; `outputs` are (windows, logits)."""
    windows = outputs[0][0]
    mean = {name: np.mean([x[name] for _, x in outputs], axis=0) for name in ("start", "end")}
    return decode_spans(windows, mean["start"], mean["end"], N_BEST)


def average_beams(outputs):
    """Predictions of the mean probabilities of several beam heads.

    A span that is not among a model's n-best has probability 0 there. The odds of no answer are
    those of the mean probability of no answer.
    """
    averaged = []
    for predictions in zip(*outputs, strict=True):
        chances, spans = {}, {}
        for prediction in predictions:
            for c in prediction.n_best:
                if c.text:
                    place = c.start, c.end
                    chance = math.exp(c.start_logit + c.end_logit) / len(predictions)
                    chances[place] = chances.get(place, 0.0) + chance
                    spans[place] = c
        places = sorted(chances, key=lambda place: -chances[place])[:N_BEST]
        total = sum(chances[place] for place in places) or 1.0
        n_best = [
            dataclasses.replace(
                spans[place],
                probability=chances[place] / total,
                start_logit=math.log(max(chances[place], 1e-300)),  # of the span as a whole
                end_logit=0.0,
            )
            for place in places
        ]
        null = np.mean([1 / (1 + np.exp(-p.null_odds)) for p in predictions])
        null = np.clip(null, 1e-12, 1 - 1e-12)
        odds = float(np.log(null / (1 - null)))
        averaged.append(SpanPrediction(predictions[0].id, n_best or [NO_ANSWER], odds))
    return averaged


def overlap(examples):
    """Answers without an encoder: from the sentence that shares the most words with the question.

    Words count by their inverse frequency in the paragraphs. The answer is the longest run of
    capitalised words and numbers of that sentence that the question has not, or all of it where
    there is none. The odds of no answer are the share of the question that it does not have.
    """
    words = lambda text: set(re.findall(r"\w+", text.lower()))
    contexts = [words(context) for context in {example.context for example in examples}]
    frequency = {}
    for context in contexts:
        for word in context:
            frequency[word] = frequency.get(word, 0) + 1
    weight = lambda some: sum(math.log(1 + len(contexts) / frequency.get(w, 1)) for w in some)

    predictions = []
    for example in examples:
        asked = words(example.question)
        sentences = re.finditer(r"\S.*?(?:[.!?](?=\s)|$)", example.context, re.DOTALL)
        shares = [(weight(asked & words(m[0])), -m.start(), m) for m in sentences]
        share, _, sentence = max(shares, key=lambda row: row[:2])
        name = r"(?:[A-Z][\w'-]*|\d[\w.,-]*\w|\d)"
        runs = re.finditer(rf"{name}(?: (?:of the |of |the )?{name})*", sentence[0])
        runs = [run for run in runs if not words(run[0]) & asked]
        run = max(runs, key=lambda run: len(run[0]), default=None)
        begin, end = run.span() if run else (0, len(sentence[0]))
        start = sentence.start()
        answer = SpanCandidate(sentence[0][begin:end], start + begin, start + end, 1.0, 0.0, 0.0)
        odds = 1 - share / max(weight(asked), 1e-9)
        predictions.append(SpanPrediction(example.id, [answer], odds))
    return predictions


def report(runs, ensemble, baselines, version, count):
    """Print the scores beside the baselines' and the paper's."""
    names = SCORES[version]
    rows = [(name, *(scores.get(column) for column in names)) for name, scores in baselines.items()]
    rows += finetuning_results.score_rows(runs, names, ensemble)
    empty = (None,) * (len(names) - 2)
    rows += [(f"{name}, paper", *scores[version], *empty) for name, scores in PAPER_SCORES.items()]
    title = f"SQuAD {version}, {count:,} questions, percent"
    columns = [name.replace("_", " ") for name in names]  # a narrow terminal breaks them there
    finetuning_results.table(f"{title}; the paper's are of all SQuAD", ("", *columns), rows)


def parser():
    """The command line; its defaults are the constants above."""
    parser = argparse.ArgumentParser(
        prog="keras-albert finetune-squad", description=__doc__, formatter_class=options.Help
    )
    add = parser.add_argument
    add("--train", required=True, help="train-v1.1.json or train-v2.0.json")
    add("--dev", help="dev-v1.1.json or dev-v2.0.json")
    add("--held-out", type=float, default=HELD_OUT, help="share of the articles, without --dev")
    add("--head", choices=("linear", "beam"), help="(default: linear for 1.1, beam for 2.0)")
    finetuning.add_options(parser, OUTPUT)
    return parser


if __name__ == "__main__":
    main()
