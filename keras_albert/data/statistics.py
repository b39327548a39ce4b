"""What examples look like in numbers: lengths, what is masked and by what, n-grams.

An n-gram cannot be told from its neighbour in an example: two of one word side by side look like
one of two. So runs of masked words are counted, and what to expect of them is found by following
the rule (words in random order, p(n) proportional to 1/n) over the same texts once more, with code
that shares nothing with the masking itself.

Suffixes: S sequence, N examples, W words of an example, R length of a run in words, from 1 on.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_albert.preprocessing.masking import MaskingVocabulary


@dataclass(frozen=True, eq=False)
class Statistics:
    """Counts over N examples.

    Attributes:
        sequence_length: S.
        length_N: (N,) tokens that are not padding.
        predictions_N: (N,) tokens to predict.
        masked, random, kept: how many of these became [MASK], another token, or stayed.
        runs_R: (R,) runs of 1, 2, ... masked words.
        expected_runs_R: (R',) likewise, of masks drawn anew by the rule.
        label_N: (N,) labels of the segments' order; empty where there are none.
        aims_short_N, one_sentence_N: (N,) bool, as `PretrainingDataset.example` gives them; empty
            for files of examples, which do not say.
    """

    sequence_length: int
    length_N: np.ndarray
    predictions_N: np.ndarray
    masked: int
    random: int
    kept: int
    runs_R: np.ndarray
    expected_runs_R: np.ndarray
    label_N: np.ndarray
    aims_short_N: np.ndarray
    one_sentence_N: np.ndarray

    def expected_label(self, objective: str) -> float | None:
        """The share of label 1 to expect; None where that is not known.

        Half, but with "nsp" a chunk of one sentence always takes another document.
        """
        if objective == "sop":
            return 0.5
        known = objective == "nsp" and len(self.one_sentence_N)
        return 0.5 + 0.5 * float(self.one_sentence_N.mean()) if known else None

    def ngram_table(self, max_ngram: int) -> list[tuple[str, float | None, float, float]]:
        """Rows (words, share drawn by p(n) ~ 1/n, expected share of runs, observed share).

        Runs longer than `max_ngram` are n-grams that touch; they stand in the last row.
        """
        drawn_R = 1 / np.arange(1, max_ngram + 1)
        names = [str(n) for n in range(1, max_ngram + 1)] + [f"{max_ngram + 1} or more"]
        columns = [[*(drawn_R / drawn_R.sum()), None]]
        for runs_R in (self.expected_runs_R, self.runs_R):
            runs_R = np.pad(runs_R, (0, max_ngram + 1))
            total = max(int(runs_R.sum()), 1)
            columns.append([*(runs_R[:max_ngram] / total), runs_R[max_ngram:].sum() / total])
        return list(zip(names, *columns, strict=True))


def original_tokens(example: dict) -> np.ndarray:
    """The (S,) token ids of an example before masking.

    Args:
        example: as `PretrainingDataset.example` and `TFRecordDataset.example` give it.
    """
    token_ids_S = example["token_ids"].copy()
    used = example["mask_weights"] > 0
    token_ids_S[example["mask_positions"][used]] = example["mask_ids"][used]
    return token_ids_S


def collect(
    examples: Iterable[dict], vocabulary: MaskingVocabulary, max_ngram: int = 3, seed: int = 0
) -> Statistics:
    """Counts what examples hold.

    Args:
        examples: dicts, as `PretrainingDataset.example` and `TFRecordDataset.example` give them.
        vocabulary: says which ids begin a word, are special, and mask.
        max_ngram: the longest n-gram of the rule that observed runs are compared with.
        seed: of the masks that are drawn for that.

    Raises:
        ValueError: where there are no examples.

    Example:
        ```python
        vocabulary = MaskingVocabulary.from_tokenizer(data.tokenizer)
        counts = collect((data.example(n) for n in range(100)), vocabulary)
        print(counts.predictions_N.sum() / counts.length_N.sum())
        ```
    """
    generator = np.random.default_rng(seed)
    lengths, predictions, labels, runs, expected = [], [], [], [], []
    flags = {"aims_short": [], "one_sentence": []}
    shown_as = np.zeros(3, "int64")
    for example in examples:
        original_S = original_tokens(example)
        used = example["mask_weights"] > 0
        places, originals = example["mask_positions"][used], example["mask_ids"][used]
        shown = example["token_ids"][places]
        masked, kept = shown == vocabulary.mask_token_id, shown == originals
        shown_as += [masked.sum(), (~masked & ~kept).sum(), kept.sum()]
        lengths.append(int(example["padding_mask"].sum()))
        predictions.append(len(places))
        if "sentence" in example:
            labels.append(example["sentence"])
        for name, found in flags.items():
            found += [example[name]] if name in example else []

        chosen_S = np.zeros(len(original_S), bool)
        chosen_S[places] = True
        first_W, size_W, breaks_W = _words(original_S, vocabulary)
        if len(first_W):
            runs += _runs(np.logical_or.reduceat(chosen_S, first_W), breaks_W)
            drawn_W = _follow_rule(size_W, breaks_W, len(places), max_ngram, generator)
            expected += _runs(drawn_W, breaks_W)
    if not lengths:
        raise ValueError("`examples` must hold at least one. Received: none")
    return Statistics(
        sequence_length=len(original_S),
        length_N=np.array(lengths),
        predictions_N=np.array(predictions),
        masked=int(shown_as[0]),
        random=int(shown_as[1]),
        kept=int(shown_as[2]),
        runs_R=np.bincount(runs, minlength=2)[1:],
        expected_runs_R=np.bincount(expected, minlength=2)[1:],
        label_N=np.array(labels, int),
        aims_short_N=np.array(flags["aims_short"], bool),
        one_sentence_N=np.array(flags["one_sentence"], bool),
    )


def _words(token_ids_S, vocabulary):
    """Of each word: its first position, its tokens, and whether none stands right before it."""
    ordinary_S = vocabulary.selectable[token_ids_S]
    after_gap_S = np.append(True, ~ordinary_S[:-1])
    begins_S = ordinary_S & (vocabulary.word_starts[token_ids_S] | after_gap_S)
    first_W = np.flatnonzero(begins_S)
    size_W = np.bincount(np.cumsum(begins_S)[ordinary_S] - 1, minlength=len(first_W))
    return first_W, size_W, after_gap_S[first_W]


def _runs(chosen_W, breaks_W) -> list[int]:
    """Lengths of the runs of chosen words."""
    begins_W = chosen_W & (breaks_W | ~np.append(False, chosen_W[:-1]))
    return np.bincount(np.cumsum(begins_W)[chosen_W])[1:].tolist()


def _follow_rule(size_W, breaks_W, budget, max_ngram, generator) -> np.ndarray:
    """Words that the rule of masking takes, (W,) bool, for `budget` tokens to predict."""
    chosen_W = np.zeros(len(size_W), bool)
    for word in generator.permutation(len(size_W)).tolist():
        if not budget:
            break
        most = 1
        while most < max_ngram and word + most < len(size_W) and not breaks_W[word + most]:
            most += 1
        share = 1 / np.arange(1, most + 1)
        count = int(np.searchsorted(np.cumsum(share), generator.random() * share.sum(), "right"))
        stop = word + count + 1
        while stop > word and size_W[word:stop].sum() > budget:
            stop -= 1
        if stop > word and not chosen_W[word:stop].any():
            chosen_W[word:stop] = True
            budget -= int(size_W[word:stop].sum())
    return chosen_W


def plot_statistics(
    statistics: Statistics,
    path: str | os.PathLike,
    *,
    max_ngram: int = 3,
    mask_rate: float | None = None,
):
    """Draws lengths, masked share and n-gram lengths as one PNG. Needs matplotlib.

    Args:
        statistics: from `collect`.
        path: the file; it is there whole or not at all.
        max_ngram: as given to `collect`.
        mask_rate: drawn as a line where it is known.
    """
    import matplotlib.ticker
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    lengths, shares, ngrams = figure.subplots(1, 3)
    examples, length = len(statistics.length_N), statistics.sequence_length
    figure.suptitle(f"{examples:,} examples of at most {length} tokens")

    lengths.hist(statistics.length_N, bins=np.linspace(0, length, 33), color="tab:blue", log=True)
    lengths.set(title="Length", xlabel="tokens, without padding", ylabel="examples, log scale")
    lengths.set(xlim=(0, length), ylim=(0.7, 2 * examples))

    share_N = statistics.predictions_N / np.maximum(statistics.length_N, 1)
    mean = statistics.predictions_N.sum() / max(statistics.length_N.sum(), 1)
    shares.plot(statistics.length_N, share_N, "o", color="tab:blue", alpha=0.3, label="an example")
    shares.axhline(mean, color="tab:orange", label=f"all tokens: {mean:.1%}")
    if mask_rate is not None:
        shares.axhline(mask_rate, color="black", linestyle="--", label=f"asked: {mask_rate:.1%}")
    shares.set(title="Masked share", xlabel="tokens, without padding", ylabel="to predict")
    shares.set(xlim=(0, 1.03 * length), ylim=(0, max(0.3, 1.1 * share_N.max())))
    shares.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1, decimals=0))
    shares.legend()

    names, drawn, expected, observed = zip(*statistics.ngram_table(max_ngram), strict=True)
    place = np.arange(len(names))
    ngrams.bar(place - 0.2, observed, 0.4, color="tab:blue", label="observed runs")
    ngrams.bar(place + 0.2, expected, 0.4, color="tab:orange", label="runs that the rule gives")
    ngrams.plot(place[:-1], drawn[:-1], "k_", markersize=22, label="n-grams as drawn, 1/n")
    ngrams.set_xticks(place, names)
    ngrams.set(title="Masked words in a row", xlabel="words", ylabel="share of runs")
    ngrams.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1, decimals=0))
    ngrams.legend()
    for axis in (lengths, shares, ngrams):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)

    partial = Path(f"{path}.partial")
    figure.savefig(partial, format="png", dpi=110)
    os.replace(partial, path)
