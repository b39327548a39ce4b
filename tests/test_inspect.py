"""Oracles: the documents' own text, counts made again in plain Python, closed forms."""

import random
import re

import numpy as np
import pytest

import keras_albert
from keras_albert.data.statistics import collect, original_tokens, plot_statistics
from keras_albert.data.tfrecord_writer import write_tfrecords
from keras_albert.preprocessing.masking import MaskingVocabulary

inspect_shards = pytest.importorskip(
    "keras_albert_recipes.inspect_shards", reason="the package is installed"
)

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = [f"w{n}" for n in range(60)]
LENGTH = 32


def documents():
    """Sentences of words in the vocabulary, some with a second piece; none above 29 tokens."""
    generator = random.Random(0)
    for _ in range(80):
        sentences = []
        for _ in range(generator.randint(2, 4)):
            chosen = generator.choices(WORDS, k=generator.randint(2, 4))
            sentences.append(" ".join(w + generator.choice(["", "ly"]) for w in chosen[:-1]))
        yield sentences


def tokens_of(sentences):
    """What the tokenizer makes of them, by hand."""
    words = " ".join(sentences).split()
    return [t for w in words for t in ([w[:-2], "##ly"] if w.endswith("ly") else [w])]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("inspect")
    vocabulary = directory / "vocab.txt"
    vocabulary.write_text("\n".join([*SPECIAL, *WORDS, "##ly"]))
    tokenizer = keras_albert.BertTokenizer(vocabulary)
    keras_albert.prepare_corpus(
        documents(), directory / "shards", tokenizer=tokenizer, progress=False
    )
    return directory


def run(corpus, capsys, *options, files=("shards",)):
    capsys.readouterr()
    arguments = [*(str(corpus / name) for name in files), "--output", str(corpus / "stats.png")]
    inspect_shards.main([*arguments, "--sequence-length", str(LENGTH), *options])
    return capsys.readouterr().out


def dataset(corpus, **settings):
    return keras_albert.PretrainingDataset(corpus / "shards", LENGTH, **settings)


def parsed(output):
    """Printed tokens of segments A and B: a list of (original, shown, sign) each."""
    block = output.split("to predict: ")[1].split("\n", 1)[1].split("word→")[0]
    segments, name = {}, None
    for line in block.splitlines():
        if line[:1] in ("A", "B"):
            name = line[0]
        for text in line[1:].split():
            sign = next((s for s in "→=" if s in text), "")
            original, _, shown = text.partition(sign) if sign else (text, "", text)
            segments.setdefault(name, []).append((original, shown, sign))
    return segments


@pytest.mark.backend_free
@pytest.mark.parametrize("objective", ["sop", "none"])
def test_the_printed_tokens_are_the_documents(corpus, capsys, objective):
    texts = [tokens_of(sentences) for sentences in documents()]
    data = dataset(corpus, objective=objective, seed=4)
    assert data.num_examples == len(texts)  # one each, in order
    whole = 0
    for index in range(12):
        options = ["--index", str(index), "--objective", objective, "--seed", "4", "--epoch", "1"]
        output = run(corpus, capsys, *options, "--examples", "0")
        segments = parsed(output)
        example = data.example(index, epoch=1)
        assert f"Example {index} of 80, epoch 1" in output
        shown = [data.tokenizer.id_to_token(int(n)) for n in example["token_ids"]]
        printed = [token for name in segments for token in segments[name]]
        assert [token[1] for token in printed] == shown[: example["padding_mask"].sum()]
        chosen = [place for place, token in enumerate(printed) if token[2]]
        assert chosen == example["mask_positions"][example["mask_weights"] > 0].tolist()
        for original, replacement, sign in printed:
            assert (original == replacement) == (sign != "→")
            assert replacement != "[MASK]" or sign == "→"

        order = ["A", "B"] if objective == "sop" else ["A"]
        assert list(segments) == order
        swapped = ", swapped" in output
        assert swapped == bool(example["sentence"]) and (", in order" in output) == (
            objective == "sop" and not swapped
        )
        text = []
        for name in reversed(order) if swapped else order:
            text += [token for token, _, _ in segments[name] if token not in SPECIAL]
        # A short target takes a part of the document, of whole sentences or a window.
        starts = range(len(texts[index]) - len(text) + 1)
        assert any(texts[index][n : n + len(text)] == text for n in starts)
        whole += text == texts[index]
    assert whole >= 8


@pytest.mark.backend_free
def test_a_random_second_segment_is_named(corpus, capsys):
    texts = [tokens_of(sentences) for sentences in documents()]
    seen = set()
    for index in range(8):
        output = run(corpus, capsys, "--index", str(index), "--objective", "nsp", "--examples", "0")
        is_random = ", random: B is from another document" in output
        assert is_random != (", in order" in output)
        seen.add(is_random)
        second = [token for token, _, _ in parsed(output)["B"] if token not in SPECIAL]
        where = {n for n, text in enumerate(texts) for start in range(len(text))
                 if text[start : start + len(second)] == second}  # fmt: skip
        assert where and (where != {index} if is_random else index in where)
    assert seen == {True, False}


@pytest.mark.backend_free
def test_colour_adds_nothing_that_is_not_there_without(corpus, capsys, monkeypatch):
    plain = run(corpus, capsys, "--examples", "0")
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = run(corpus, capsys, "--examples", "0")
    assert "\x1b[1;32m" in coloured  # bold green: what became [MASK]
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.backend_free
def test_files_of_examples_are_shown_like_the_shards_they_are_from(corpus, capsys):
    data = dataset(corpus, static=True)
    write_tfrecords(data, corpus / "a.tfrecord", num_files=2, overwrite=True, progress=False)
    names = ("a-00000-of-00002.tfrecord", "a-00001-of-00002.tfrecord")
    options = ["--tokenizer", str(corpus / "vocab.txt"), "--index", "42", "--examples", "80"]
    files = run(corpus, capsys, *options, files=names)
    shards = run(corpus, capsys, *options[2:])
    assert parsed(files) == parsed(shards)
    assert files.split("\n", 1)[0] == shards.split("\n", 1)[0].replace(", epoch 0", "")
    for name in ("mean length", "seen as [MASK]", "swapped"):
        assert row(files, name) == row(shards, name)
    assert files.split("Masked words")[1] == shards.split("Masked words")[1]
    directory = ["--tokenizer", str(corpus / "shards" / "tokenizer"), *options[2:]]
    assert run(corpus, capsys, *directory, files=names) == files


def row(output, name):
    """The cells of a table's row."""
    (line,) = [line for line in output.splitlines() if line.startswith(f"│ {name}")
               or line.startswith(f"│   {name}")]  # fmt: skip
    return [cell.strip() for cell in line.split("│")[2:-1]]


@pytest.mark.backend_free
def test_statistics_are_what_counting_gives(corpus, capsys):
    output = run(corpus, capsys, "--examples", "500", "--epoch", "2")
    data = dataset(corpus)
    vocabulary = [*SPECIAL, *WORDS, "##ly"]
    tokens = predictions = swapped = 0
    kinds = {"[MASK]": 0, "random": 0, "kept": 0}
    runs = []
    for index in range(80):
        example = data.example(index, epoch=2)
        shown = [vocabulary[n] for n in example["token_ids"]]
        original, masked = list(shown), [False] * LENGTH
        for place, id, weight in zip(
            example["mask_positions"], example["mask_ids"], example["mask_weights"], strict=True
        ):
            if weight:
                original[place], masked[place] = vocabulary[id], True
                same = shown[place] == original[place]
                kinds["kept" if same else "[MASK]" if shown[place] == "[MASK]" else "random"] += 1
        count = sum(token != "[PAD]" for token in original)
        tokens, predictions = tokens + count, predictions + sum(masked)
        swapped += example["sentence"]
        # A word is a letter W where it is masked and w where it is not; others are gaps.
        signs = ""
        for token, is_masked in zip(original, masked, strict=True):
            if token == "##ly" and signs[-1] != " ":
                continue  # goes with its word
            signs += " " if token in SPECIAL else "W" if is_masked else "w"
        runs += [len(found) for found in re.findall("W+", signs)]

    assert row(output, "examples") == ["80 of 80", ""]
    assert row(output, "documents") == ["80", ""]
    assert row(output, "tokens, all")[0] == str(sum(len(tokens_of(s)) for s in documents()))
    assert row(output, "tokens in these") == [f"{tokens:,}", ""]
    assert row(output, "mean length")[0] == f"{tokens / 80:.1f} of {LENGTH}"
    assert row(output, "padding")[0] == f"{1 - tokens / (80 * LENGTH):.1%}"
    assert row(output, "tokens to predict") == [f"{predictions / tokens:.1%}", "15.0%"]
    assert row(output, "seen as [MASK]") == [f"{kinds['[MASK]'] / predictions:.1%}", "80.0%"]
    assert row(output, "seen as a random") == [f"{kinds['random'] / predictions:.1%}", "10.0%"]
    assert row(output, "kept") == [f"{kinds['kept'] / predictions:.1%}", "10.0%"]
    assert row(output, "swapped") == [f"{swapped / 80:.1%}", "50.0%"]
    assert f"({len(runs):,} runs)" in output
    for words, share in ((1, "54.5%"), (2, "27.3%"), (3, "18.2%")):
        observed, _, drawn = row(output, str(words))
        assert observed == f"{runs.count(words) / len(runs):.1%}" and drawn == share
    assert row(output, "4 or more")[0] == f"{sum(n > 3 for n in runs) / len(runs):.1%}"
    assert (corpus / "stats.png").read_bytes().startswith(b"\x89PNG")
    assert not list(corpus.glob("*.partial"))


@pytest.mark.backend_free
def test_short_targets_are_a_tenth(corpus, capsys):
    """Closed form: each of n examples aims short with p = 0.1; within 4 deviations."""
    data = dataset(corpus)
    found = [data.example(n, e)["aims_short"] for e in range(25) for n in range(80)]
    assert abs(np.mean(found) - 0.1) < 4 * (0.1 * 0.9 / len(found)) ** 0.5
    output = run(corpus, capsys, "--examples", "80", "--epoch", "7")
    assert row(output, "aimed at") == [f"{np.mean(found[7 * 80 : 8 * 80]):.1%}", "10.0%"]


@pytest.mark.backend_free
@pytest.mark.parametrize("length", [7, 32])
def test_random_second_segments_are_half_and_those_of_one_sentence(corpus, capsys, length):
    options = ["--objective", "nsp", "--examples", "80", "--sequence-length", str(length)]
    output = run(corpus, capsys, *options)
    observed, expected = (float(cell.rstrip("%")) for cell in row(output, "random second"))
    single = float(row(output, "of one sentence")[0].rstrip("%"))
    assert expected == pytest.approx(50 + single / 2, abs=0.11)
    count = int(row(output, "examples")[0].split()[0])
    assert single > 10 if length == 7 else single < 5
    assert abs(observed - expected) < 4 * 50 / count**0.5
    assert "nothing to split" in output


@pytest.mark.backend_free
def test_short_targets_are_counted(corpus, capsys):
    """What differs from data that never aims short did aim short, and the other way round."""
    mixed, never, always = (
        dataset(corpus, short_sequence_probability=share) for share in (0.1, 0.0, 1.0)
    )

    def differ(one, other, epoch):
        pairs = [(one.example(n, epoch), other.example(n, epoch)) for n in range(80)]
        return sum((a["token_ids"] != b["token_ids"]).any() for a, b in pairs)

    for epoch in (0, 3):
        output = run(corpus, capsys, "--examples", "80", "--epoch", str(epoch))
        count = 80 * float(row(output, "aimed at")[0].rstrip("%")) / 100
        assert differ(mixed, never, epoch) <= round(count) <= 80 - differ(mixed, always, epoch)


def synthetic(length, places, vocabulary_size=9):
    """An example of one-token words in which these places are [MASK]."""
    token_ids = np.full(length, 5, "int32")
    token_ids[0], token_ids[places] = 1, 3
    return {
        "token_ids": token_ids,
        "padding_mask": np.ones(length, bool),
        "segment_ids": np.zeros(length, "int32"),
        "mask_positions": np.array(places, "int32"),
        "mask_ids": np.full(len(places), 5, "int32"),
        "mask_weights": np.ones(len(places), "float32"),
    }


VOCABULARY = MaskingVocabulary(
    word_starts=np.array([1] * 8 + [0], bool),
    selectable=np.arange(9) > 3,
    replacements=np.arange(4, 9),
    mask_token_id=3,
    pad_token_id=0,
)


@pytest.mark.backend_free
def test_runs_end_at_gaps_and_count_words():
    example = synthetic(12, [3, 4, 6, 7, 8, 10])
    example["token_ids"][[5, 9]] = [2, 8]  # [SEP], and a piece that continues the word at 8
    example["mask_ids"][3:5] = 8  # 7 and 8 continue the word at 6; so does 9, unmasked
    assert original_tokens(example).tolist() == [1, 5, 5, 5, 5, 2, 5, 8, 8, 8, 5, 5]
    counts = collect([example], VOCABULARY)
    # Words 3 and 4 up to [SEP]; then the word of 6-9 and the one at 10.
    assert counts.runs_R.tolist() == [0, 2]
    assert counts.predictions_N.tolist() == [6] and counts.masked == 6 and not counts.kept


@pytest.mark.backend_free
def test_what_the_rule_gives_is_the_closed_form():
    # Three tokens to predict among very many words: runs hardly ever touch, and the last n-gram is
    # cut to what is left. p is 6/11, 3/11, 2/11.
    counts = collect((synthetic(3000, [10, 20, 30]) for _ in range(1500)), VOCABULARY)
    ones = 3 / 11 + 6 / 11 * (6 / 11 * 3 + 5 / 11)
    twos = 3 / 11 + 6 / 11 * 5 / 11
    expected = np.array([ones, twos, 2 / 11])
    received = counts.expected_runs_R[:3] / counts.expected_runs_R.sum()
    np.testing.assert_allclose(received, expected / expected.sum(), atol=0.03)
    assert counts.runs_R.tolist() == [4500]
    assert [drawn for _, drawn, _, _ in counts.ngram_table(3)] == pytest.approx(
        [6 / 11, 3 / 11, 2 / 11, None]
    )


@pytest.mark.backend_free
@pytest.mark.parametrize(("max_ngram", "agrees"), [(3, True), (1, False)])
def test_observed_runs_agree_with_the_rule_they_were_drawn_by(corpus, max_ngram, agrees):
    data = dataset(corpus, max_ngram=max_ngram, mask_rate=0.3, max_predictions=12)
    vocabulary = MaskingVocabulary.from_tokenizer(data.tokenizer)
    examples = (data.example(n, epoch) for epoch in range(5) for n in range(80))
    counts = collect(examples, vocabulary, max_ngram=3)
    shares = np.array([row[2:] for row in counts.ngram_table(3)], float)
    assert (np.abs(shares[:, 0] - shares[:, 1]).max() < 0.05) == agrees


@pytest.mark.backend_free
def test_a_picture_is_drawn_without_a_known_rate(tmp_path):
    counts = collect([synthetic(12, [2, 3])], VOCABULARY)
    plot_statistics(counts, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="at least one"):
        collect([], VOCABULARY)


@pytest.mark.backend_free
def test_wrong_options_say_what_to_do(corpus, capsys):
    for options, message in (
        (["--tokenizer", "vocab.txt"], "shards have theirs"),
        (["--examples", "-1"], "at least 0"),
        (["--max-ngram", "0"], "at least 1"),
    ):
        with pytest.raises(SystemExit):
            run(corpus, capsys, *options)
        assert message in capsys.readouterr().err
    (corpus / "empty").mkdir()
    for files, message in (
        (("shards", "shards"), "one directory of shards at a time"),
        (("shards", "vocab.txt"), "one directory of shards at a time"),
        (("missing",), "no such file or directory"),
        (("empty",), "must hold shards or TFRecord files"),
        (("albert.tar.gz",), "keras-albert checkpoint inspect"),
    ):
        with pytest.raises(SystemExit):
            run(corpus, capsys, files=files)
        assert message in capsys.readouterr().err
    (corpus / "x.tfrecord").write_bytes(b"")
    for options, message in (
        ([], "--tokenizer"),
        (["--tokenizer", "v.txt", "--epoch", "1"], "one draw of each example"),
    ):
        with pytest.raises(SystemExit):
            run(corpus, capsys, *options, files=("x.tfrecord",))
        assert message in capsys.readouterr().err
    with pytest.raises(ValueError, match="index.*80"):
        run(corpus, capsys, "--index", "80")
