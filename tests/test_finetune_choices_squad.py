"""Oracles: marker words that decide the answer, SQuAD's scorer on the files, brute force, hand."""

import json
import math

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keras_albert
from keras_albert.datasets import SquadExample, load_squad, squad_score
from keras_albert.preprocessing.span_predictions import NO_ANSWER, SpanCandidate, SpanPrediction

squad = pytest.importorskip(
    "keras_albert_recipes.finetune_squad", reason="the package is installed"
)
race = pytest.importorskip("keras_albert_recipes.finetune_race", reason="the package is installed")
swag = pytest.importorskip("keras_albert_recipes.finetune_swag", reason="the package is installed")
choices = pytest.importorskip(
    "keras_albert_recipes.finetuning_choices", reason="the package is installed"
)

WORDS = "the cat sat by a red door while rain fell on every old roof and no dog came near".split()
MARKERS = "ruby opal jade".split()


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """An encoder of random weights that knows the toys' words."""
    keras.utils.set_random_seed(0)
    folder = tmp_path_factory.mktemp("toy")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", "what"]
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join([*special, *sorted({*WORDS, *MARKERS})]) + "\n")
    tokenizer = keras_albert.BertTokenizer(str(vocabulary))
    backbone = keras_albert.AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=2,
        embedding_dim=16,
        hidden_dim=32,
        intermediate_dim=64,
        max_sequence_length=64,
        initializer_range=0.1,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    )
    preprocessor = keras_albert.AlbertPretrainerPreprocessor(tokenizer, sequence_length=64)
    keras_albert.AlbertPretrainer(backbone, preprocessor).save_to_preset(str(folder / "preset"))
    return folder / "preset"


def toy_squad(path, version, articles=8, questions=24):
    """Questions whose answer is the only marker in the paragraph; every other has none in 2.0."""
    rng = np.random.default_rng(1)
    data = []
    for article in range(articles):
        paragraphs = []
        for number in range(questions):
            words = rng.choice(WORDS, 12).tolist()
            place, marker = int(rng.integers(12)), str(rng.choice(MARKERS))
            impossible = version == "2.0" and number % 2 == 1
            if not impossible:
                words[place] = marker
            start = len(" ".join(words[:place])) + (place > 0)
            answers = [] if impossible else [{"text": marker, "answer_start": start}]
            qa = {"id": f"{article}-{number}", "question": "what?", "answers": answers}
            if version == "2.0":
                qa["is_impossible"] = impossible
            paragraphs.append({"context": " ".join(words), "qas": [qa]})
        data.append({"title": f"article {article}", "paragraphs": paragraphs})
    path.write_text(json.dumps({"version": version, "data": data}))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "head"),
    [
        ("1.1", "linear"),
        pytest.param("2.0", "linear", marks=pytest.mark.backend_free),
        pytest.param("2.0", "beam", marks=pytest.mark.backend_free),
    ],
)
@pytest.mark.filterwarnings("ignore:.*newly initialised")
def test_squad_learns_the_marker_and_its_files_score_as_it_says(
    preset, tmp_path, capsys, version, head
):
    train = toy_squad(tmp_path / "train.json", version)
    output = tmp_path / "run"
    options = ["--preset", str(preset), "--train", str(train), "--held-out", "0.25"]
    options += ["--head", head, "--seeds", "2", "--epochs", "12", "--batch-size", "16"]
    options += ["--learning-rate", "5e-3", "--sequence-length", "48", "--output", str(output)]
    squad.main(options)
    printed = capsys.readouterr().out
    results = json.loads((output / "results.json").read_text())
    _, dev = squad.split_by_article(load_squad(train), 0.25)
    exact = "exact_match" if version == "1.1" else "exact"
    folders = {f"seed-{n}": run["scores"] for n, run in enumerate(results["runs"])}
    for name, scores in {**folders, "ensemble": results["ensemble"]}.items():
        files = [json.loads(path.read_text()) for path in sorted((output / name).glob("*.json"))]
        n_best, odds, answers = files  # by name: nbest_predictions, null_odds, predictions
        assert set(n_best) == set(odds) == set(answers) == {e.id for e in dev}
        official = squad_score(dev, answers, version=version)
        assert scores["f1"] == pytest.approx(official["f1"] / 100)
        assert scores["exact"] == pytest.approx(official[exact] / 100)
        if version == "2.0":
            assert scores["NoAns_f1"] == pytest.approx(official["NoAns_f1"] / 100)
            # The threshold is the best of all that the official search tries.
            texts = {id: next((c["text"] for c in found if c["text"]), "")
                     for id, found in n_best.items()}  # fmt: skip
            best = squad_score(dev, texts, odds)["best_f1"]
            assert official["f1"] >= best - 1e-6
        assert scores["f1"] > 0.9
        assert f"{100 * scores['f1']:.1f}" in printed
    assert (output / "curves.png").read_bytes().startswith(b"\x89PNG")

    # The preset is the best seed's, threshold and all.
    best = max(folders, key=lambda name: folders[name]["f1"])
    model = keras_albert.AlbertSpanExtractor.from_preset(output / "preset")
    assert model.head == head and (model.null_threshold is None) == (version == "1.1")
    answers = json.loads((output / best / "predictions.json").read_text())
    same = [a.text == answers[e.id] for e, a in zip(dev, model.answer(dev, verbose=0), strict=True)]
    assert np.mean(same) >= 0.97  # a question at the threshold may fall to either side
    with pytest.raises(ValueError, match="holds an earlier run"):
        squad.main(options)


@pytest.mark.backend_free
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.floats(0.05, 0.95))
def test_articles_stay_whole(articles, share):
    examples = [SquadExample(str(i), f"t{a}", "c", "q") for i, a in enumerate(articles)]
    count = round(share * len(set(articles)))
    if not 0 < count < len(set(articles)):
        with pytest.raises(ValueError, match="articles on both sides"):
            squad.split_by_article(examples, share)
        return
    train, dev = squad.split_by_article(examples, share)
    assert not {e.title for e in train} & {e.title for e in dev}
    assert len({e.title for e in dev}) == count
    assert sorted(e.id for e in train + dev) == sorted(e.id for e in examples)
    assert squad.split_by_article(examples, share) == (train, dev)


@pytest.mark.backend_free
def test_the_threshold_is_the_best_of_all():
    rng = np.random.default_rng(3)
    examples, predictions = [], []
    for i in range(30):
        answers = () if i % 3 == 0 else ("red door",)
        examples.append(
            SquadExample(str(i), "t", "red door roof", "q", answers, (0,) * len(answers))
        )
        text = str(rng.choice(["red door", "red", "roof"]))
        candidate = SpanCandidate(text, 0, len(text), 1.0, 0.0, 0.0)
        predictions.append(SpanPrediction(str(i), [candidate], float(rng.normal())))
    threshold, scores = squad.measure(examples, predictions, "2.0")

    def f1(threshold):
        answers = {p.id: p.answer(threshold).text for p in predictions}
        return squad_score(examples, answers, version="2.0")["f1"] / 100

    tried = [f1(x) for x in [-math.inf, *(p.null_odds for p in predictions)]]
    assert scores["f1"] == pytest.approx(f1(threshold)) == pytest.approx(max(tried))


@pytest.mark.backend_free
def test_beams_are_averaged_by_hand():
    log = math.log
    of = lambda text, start, p: SpanCandidate(
        text, start, start + len(text), 0.0, log(p) / 2, log(p) / 2
    )
    one = SpanPrediction("a", [of("red", 0, 0.6), of("door", 4, 0.2)], 0.0)
    two = SpanPrediction("a", [of("door", 4, 0.7), of("roof", 9, 0.1)], log(3))
    (mean,) = squad.average_beams([[one], [two]])
    assert [c.text for c in mean.n_best] == ["door", "red", "roof"]
    shares = np.array([0.45, 0.3, 0.05])
    np.testing.assert_allclose([c.probability for c in mean.n_best], shares / shares.sum())
    chances = [math.exp(c.start_logit + c.end_logit) for c in mean.n_best]
    np.testing.assert_allclose(chances, shares)
    assert mean.null_odds == pytest.approx(log(0.625 / 0.375))  # of (1/2 + 3/4) / 2
    none = SpanPrediction("a", [NO_ANSWER], 5.0)
    assert squad.average_beams([[none], [none]])[0].n_best == [NO_ANSWER]


@pytest.mark.backend_free
def test_the_baseline_reads_the_sentence_that_shares_the_most():
    context = "Rain fell on every roof. The dog met Ada Lovelace of London in 1843. It slept."
    found = squad.overlap([
        SquadExample("a", "t", context, "Whom did the dog meet, or who met the dog?"),
        SquadExample("b", "t", context, "On what fell rain?"),
    ])  # fmt: skip
    texts = [p.n_best[0].text for p in found]
    assert texts == ["Ada Lovelace of London", "Rain fell on every roof."]
    for prediction in found:
        candidate = prediction.n_best[0]
        assert context[candidate.start : candidate.end] == candidate.text
    assert found[0].null_odds > found[1].null_odds >= 0


def toy_options(rng):
    """Four options, one of them with the marker, and its place."""
    options = [" ".join(rng.choice(WORDS, 4)) for _ in range(4)]
    right = int(rng.integers(4))
    words = options[right].split()
    words[int(rng.integers(4))] = "ruby"
    options[right] = " ".join(words)
    return options, right


def toy_command(preset, output):
    options = ["--preset", str(preset), "--held-out", "0.25", "--seeds", "2", "--epochs", "10"]
    options += ["--batch-size", "16", "--learning-rate", "3e-3", "--sequence-length", "40"]
    return [*options, "--dropout", "0", "--output", str(output)]


def check_choices(output, dev, printed):
    results = json.loads((output / "results.json").read_text())
    for scores in [*(run["scores"] for run in results["runs"]), results["ensemble"]]:
        assert scores["accuracy"] > 0.9
        assert f"{100 * scores['accuracy']:.1f}" in printed
    assert results["baselines"]["chance"]["accuracy"] == pytest.approx(0.25)
    assert results["baselines"]["longest option"]["accuracy"] < 0.6
    model = keras_albert.AlbertMultipleChoice.from_preset(output / "preset")
    right = model.predict(dev.x, verbose=0).argmax(axis=-1) == dev.y
    best = max(run["scores"]["accuracy"] for run in results["runs"])
    assert right.mean() == pytest.approx(best)
    assert (output / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.backend_free
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*newly initialised")
def test_swag_learns_the_marker(preset, tmp_path, capsys):
    rng = np.random.default_rng(2)
    rows = []
    for _ in range(160):
        endings, label = toy_options(rng)
        row = {f"ending{i}": ending for i, ending in enumerate(endings)}
        first = " ".join(rng.choice(WORDS, 5))
        rows.append(json.dumps({**row, "label": label, "sent1": first, "sent2": "the cat"}))
    train = tmp_path / "train.json"
    train.write_text("\n".join(rows))
    swag.main([*toy_command(preset, tmp_path / "run"), "--train", str(train)])
    examples = swag.load_swag(train)
    dev = choices.split_by(examples, list(range(len(examples))), 0.25)[1]
    assert len(dev) == 40
    check_choices(tmp_path / "run", dev, capsys.readouterr().out)


@pytest.mark.backend_free
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*newly initialised")
def test_race_learns_the_marker(preset, tmp_path, capsys):
    rng = np.random.default_rng(4)
    for number in range(80):
        level = ("middle", "high")[number % 2]
        folder = tmp_path / "RACE" / "train" / level
        folder.mkdir(parents=True, exist_ok=True)
        asked = [toy_options(rng) for _ in range(2)]
        passage = {
            "id": f"{level}{number}.txt",
            "article": f"{number} " + " ".join(rng.choice(WORDS, 8)),
            "questions": ["what?", "the cat _ ."],
            "options": [options for options, _ in asked],
            "answers": ["ABCD"[right] for _, right in asked],
        }
        (folder / f"{number}.txt").write_text(json.dumps(passage))
    data = tmp_path / "RACE"
    race.main([*toy_command(preset, tmp_path / "run"), "--data", str(data)])
    examples = race.load_race(data)
    train, dev = choices.split_by(examples, examples.x[0], 0.25)
    assert not set(train.x[0]) & set(dev.x[0]) and len(train) + len(dev) == 160
    check_choices(tmp_path / "run", dev, capsys.readouterr().out)
    scores = json.loads((tmp_path / "run" / "results.json").read_text())["runs"][0]["scores"]
    count = sum(name.startswith("middle") for name in dev.ids)
    both = scores["middle"] * count + scores["high"] * (len(dev) - count)
    assert both / len(dev) == pytest.approx(scores["accuracy"])


@pytest.mark.backend_free
def test_baselines_of_choices_by_hand():
    pytest.importorskip("sklearn", reason="scikit-learn is optional")
    x = (["rain fell on the roof", "a dog"], ["what?", "who?"],
         [["a cat", "rain and roof"], ["no", "never ever", "dog"]])  # fmt: skip
    assert choices.longest(x) == [1, 1]
    assert choices.most_alike(x, x) == [1, 2]
    examples = keras_albert.datasets.Examples(x, np.array([1, 2]), ["a", "b"])
    assert choices.chance(examples)["accuracy"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    groups = ["middle", "high"]
    assert choices.accuracies(examples.y, [1, 1], groups) == {
        "accuracy": 0.5, "high": 0.0, "middle": 1.0
    }  # fmt: skip


@pytest.mark.backend_free
def test_race_takes_the_settings_of_version_2(monkeypatch, tmp_path):
    folder = tmp_path / "train" / "middle"
    folder.mkdir(parents=True)
    passage = {"article": "a", "questions": ["q"], "options": [["b", "c"]], "answers": ["A"]}
    (folder / "1.txt").write_text(json.dumps(passage))
    (folder / "2.txt").write_text(json.dumps({**passage, "article": "d"}))
    seen = []
    monkeypatch.setattr(choices, "run", lambda name, args, *rest, **_: seen.append(rest[2]))
    options = ["--data", str(tmp_path), "--level", "middle", "--held-out", "0.5"]
    for preset in ("albert_base_v1.tar.gz", "albert_base_v2.tar.gz"):
        race.main(["--preset", preset, *options])
    assert [(s.learning_rate, s.dropout) for s in seen] == [(2e-5, 0.1), (1e-5, 0.0)]
