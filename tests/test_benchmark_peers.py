"""Oracles: operations counted by hand and by the package, transformers' outputs, planted faults."""

import dataclasses
import itertools
import json
import types

import numpy as np
import pytest

peers = pytest.importorskip(
    "keras_albert_recipes.benchmark_peers", reason="the package is installed"
)
from keras_albert_recipes import (  # noqa: E402
    benchmark_cases,
    benchmark_material,
    benchmark_report,
    benchmark_sides,
    benchmark_solo,
    benchmark_workers,
)

from keras_albert.models.presets import PRESETS  # noqa: E402
from keras_albert.preprocessing.example_batches import ExampleBatches  # noqa: E402
from keras_albert.training.throughput import operations_per_step  # noqa: E402

pytestmark = pytest.mark.backend_free

TOY = {
    "vocabulary_size": 60,
    "num_layers": 2,
    "num_heads": 2,
    "embedding_dim": 8,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "max_sequence_length": 64,
    "num_segments": 2,
}


def test_operations_by_hand():
    config = {**TOY, "num_layers": 3, "vocabulary_size": 11, "embedding_dim": 2, "hidden_dim": 4}
    config["intermediate_dim"] = 5
    # A token of a row of 7: q, k, v, output; two of the feed-forward; scores and contexts.
    block = 4 * 2 * 4 * 4 + 2 * 2 * 4 * 5 + 2 * 2 * 7 * 4
    projection, head = 2 * 2 * 4, 2 * 4 * 2 + 2 * 2 * 11
    count = benchmark_cases.operations
    assert count(config, 6, 7) == 6 * 7 * (3 * block + projection)
    assert count(config, 6, 7, 2, True) == 3 * (count(config, 6, 7) + 6 * 2 * head)
    assert count({**config, "embedding_dim": 4}, 1, 7) == 7 * 3 * block  # no projection


def test_operations_of_the_base_model_are_the_known_ones():
    base, count = PRESETS["albert_base_v2"], benchmark_cases.operations
    assert round(count(base, 8, 128) / 1.59 / 1e9) == 113
    step = count(base, 8, 128, benchmark_cases.masked(128), True)
    assert round(step / 4.9 / 1e9) == 110
    for name, config in PRESETS.items():
        found = operations_per_step(types.SimpleNamespace(**config), 3, 40, 6)
        assert count(config, 3, 40, 6, True) == pytest.approx(found, rel=1e-12), name


def test_columns_of_a_table_stand_above_their_numbers():
    names = ("keras_albert-tensorflow, packed", "keras_albert-jax", "transformers, as they come")
    values = {name: [1.0 + place, 1.2 + place] for place, name in enumerate(names)}
    record = {"what": "lengths", "case": "c", "unit": "s", "per": 1, "operations": None}
    lines = benchmark_report.table(
        benchmark_report.summary({**record, "peak": 1, "values": values})
    )
    heads, row = lines[-2], lines[-1]
    ends = [heads.index(name) + len(name) for name in ("tensorflow, packed", "jax")]
    assert [place + 1 for place, letter in enumerate(row) if letter == ")"] == ends
    assert row.split()[:5] == ["transformers,", "as", "they", "come", "2.83"]  # (3 + 3.2 / 1.2) / 2


def test_operations_of_real_lengths_leave_out_padding():
    found = {"sizes": {"toy": TOY}, "has_data": True}
    found["lengths"] = {"SST-2": {"tokens": [5, 9], "batch": 1}}
    args = types.SimpleNamespace(preset="toy", sides=["transformers", "keras_hub-jax"])
    (case,) = benchmark_cases.cases_of("finetuning", args, found)
    one = [benchmark_cases.operations(TOY, 1, length, training=True) for length in (5, 9)]
    assert case.operations == sum(one) and case.per == 2
    assert list(case.lanes) == [
        "transformers, as they come",
        "transformers, to the limit",
        "keras_hub-jax, to the limit",
    ]
    assert [scale for *_, scale in case.lanes.values()] == [1, 2, 2]  # one batch of two


def test_a_side_with_other_outputs_is_named():
    right = np.linspace(-2, 2, 8).reshape(2, 4)
    outputs = {"keras_albert-jax": {"mlm": right + 1.9e-4}, "transformers": {"mlm": right}}
    benchmark_workers.compare(outputs, 1e-4)  # of the largest, which is 2
    for wrong in (right + 2.1e-4, np.where(right > 1, np.nan, right), right[:1]):
        with pytest.raises(ValueError, match="Received: 'mlm' of keras_albert-jax"):
            benchmark_workers.compare({**outputs, "keras_albert-jax": {"mlm": wrong}}, 1e-4)


def test_a_side_that_trains_otherwise_is_named():
    losses = {"transformers": [11.0, 10.0], "keras_hub-jax": [None, None]}
    benchmark_workers.compare_losses({**losses, "keras_albert-jax": [11.001, 9.995]}, 1e-3)
    with pytest.raises(ValueError, match="of keras_albert-jax"):  # its weights stayed as they were
        benchmark_workers.compare_losses({**losses, "keras_albert-jax": [11.0, 11.0]}, 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["classifier", "pretrainer"])
def test_both_sides_compute_and_train_the_same(tmp_path, model):
    pytest.importorskip("transformers")
    specs = []
    for seed in (0, 1):
        benchmark_material.write_weights(tmp_path / str(seed), model, TOY, 2, seed)
        spec = {"model": model, "folder": str(tmp_path / str(seed)), "data": str(tmp_path)}
        specs.append({**spec, "dtype": "float32", "jit": "auto", "threads": 1})
    theirs = benchmark_sides.open_side({**specs[0], "side": "transformers"})
    ours = benchmark_sides.open_side({**specs[0], "side": "keras_albert-torch"})
    other = benchmark_sides.open_side({**specs[1], "side": "keras_albert-torch"})
    outputs = {"transformers": theirs.outputs(), "keras_albert-torch": ours.outputs()}
    assert set(outputs["transformers"]) == set(outputs["keras_albert-torch"])
    benchmark_workers.compare(outputs, 1e-4)
    with pytest.raises(ValueError, match="of keras_albert-torch is"):
        benchmark_workers.compare({**outputs, "keras_albert-torch": other.outputs()}, 1e-4)

    workload = {"train": True, "batch": 4, "length": 16}
    losses = {}
    for name, side in (("transformers", theirs), ("keras_albert-torch", ours)):
        run = benchmark_sides.make_workload(side, workload)
        losses[name] = [run() for _ in range(4)]
    benchmark_workers.compare_losses(losses, 1e-3)
    assert losses["transformers"][3] < losses["transformers"][0]


def test_the_table_and_the_json_say_the_same(tmp_path, capsys):
    record = {
        "what": "latency",
        "case": "toy",
        "unit": "s",
        "per": 1,
        "operations": 6e9,
        "peak": 10e9,
        "values": {"keras_albert-jax": [2.0, 1.0, 4.0], "transformers": [3.0, 3.0, 3.0]},
    }
    found = benchmark_report.summary(record)
    assert found["sides"]["keras_albert-jax"] == {
        "median": 2.0,
        "min": 1.0,
        "max": 4.0,
        "values": [2.0, 1.0, 4.0],
        "gflops": 3.0,
        "share": 0.3,
    }
    # Rounds 1.5, 3 and 0.75 times as fast: not the ratio of the medians alone.
    ratios = {"keras_albert-jax": {"transformers": {"median": 1.5, "min": 0.75, "max": 3.0}}}
    assert found["ratios"] == ratios
    report = {
        "machine": {"device": "toy"},
        "threads": 1,
        "dtype": "float32",
        "minutes": 0.5,
        "left_out": {},
        "dropped": ["start: toy"],
        "records": [found],
    }
    args = types.SimpleNamespace(json=str(tmp_path / "a.json"), plot=str(tmp_path / "a.png"))
    benchmark_report.write(report, args)
    assert json.loads((tmp_path / "a.json").read_text()) == report
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "(not measured, --minutes were over: start: toy)" in capsys.readouterr().out
    lines = benchmark_report.table(found)
    (ours,) = [line.split() for line in lines if line.startswith("  keras_albert-jax ")]
    assert ours[1:] == ["2", "1..4", "3", "30%"]
    assert lines[-1].split() == ["transformers", "1.50", "(0.75..3.00)"]


def test_values_of_an_example_and_operations_of_a_side():
    record = {"what": "sizes", "case": "toy", "unit": "s", "per": 4, "peak": 4e9}
    record |= {"operations": {"a": 8e9, "b": 2e9}, "values": {"a": [2.0], "b": [1.0]}}
    record["relative"] = {"to": "a", "values": {"a": [1.0], "b": [2.0]}, "paper": {"b": 4.7}}
    found = benchmark_report.summary(record)
    assert found["sides"]["a"]["median"] == 0.5 and found["sides"]["b"]["share"] == 0.5
    assert found["sides"]["a"]["gflops"] == 4.0 and found["ratios"] == {}
    assert benchmark_report.table(found)[-1].split() == ["b", "2.00", "(2.00..2.00)", "4.7"]


def test_every_round_runs_every_side_and_begins_with_another():
    asked = []

    @dataclasses.dataclass
    class Fake:
        name: str

        def ask(self, workload):
            asked.append(self.name)
            return {"seconds": float(len(asked))}

    lanes = {name: (Fake(name), {}, 2.0) for name in "abc"}
    found = benchmark_workers.rounds(lanes, 3)
    assert "".join(asked) == "abcbcacab"
    assert found == {"a": [2.0, 12.0, 16.0], "b": [4.0, 8.0, 18.0], "c": [6.0, 10.0, 14.0]}
    assert len(benchmark_workers.rounds(lanes)["a"]) == benchmark_workers.MOST


class Fake:
    """A worker that answers with these seconds, again and again."""

    def __init__(self, *seconds):
        self.seconds = itertools.cycle(seconds)

    def ask(self, workload):
        return {"seconds": next(self.seconds)}

    def answer(self):
        return {}

    __enter__ = lambda self: self
    __exit__ = lambda self, *error: None


def fake_run(worker, **options):
    """A run whose processes are `worker(task)`, and the list of what it adds."""
    added = []
    run = types.SimpleNamespace(
        args=types.SimpleNamespace(
            sides=["transformers", "keras_albert-jax"], repeats=2, **options
        ),
        found={"sizes": PRESETS},
        is_over=lambda names: False,
        open=lambda side, task: worker(task),
        add=lambda what, case, values, **more: added.append((case, values, more)),
    )
    return run, added


def test_sizes_are_relative_to_bert_large_in_rounds_of_the_two():
    seconds = {"bert_large_uncased": 6.0, "albert_base_v2": 1.5, "albert_xxlarge_v2": 12.0}
    run, added = fake_run(lambda task: Fake(seconds[task["preset"]]), sizes=list(seconds))
    benchmark_solo.sizes(run)
    assert [case.split(",")[0] for case, *_ in added] == ["training step", "prediction"]
    for _, values, more in added:
        assert values["albert_base_v2"] == [1.5, 1.5]
        assert more["relative"]["values"]["albert_base_v2"] == [4.0, 4.0]
        assert more["relative"]["values"]["albert_xxlarge_v2"] == [0.5, 0.5]
        assert more["operations"]["albert_xxlarge_v2"] > more["operations"]["bert_large_uncased"]


def test_jit_is_compared_round_by_round_with_the_same_backend_without_it():
    # A first round, which compiles, and two that count.
    seconds = {"yes": (60.0, 1.0, 2.0), "no": (5.0, 3.0, 3.0)}
    run, added = fake_run(lambda task: Fake(*seconds[task["jit"]]), preset="albert_base_v2")
    benchmark_solo.jit(run)
    assert [case for case, *_ in added] == [
        "training step, 8 x 128 tokens",
        "prediction, 8 x 128 tokens",
        "training step, 1 x 32 tokens",
        "prediction, 1 x 32 tokens",
    ]
    for _, values, more in added:
        assert values == {
            "keras_albert-jax, jit_compile": [1.0, 2.0],
            "keras_albert-jax, without": [3.0, 3.0],
        }
        assert more["relative"]["values"] == {"keras_albert-jax": [3.0, 1.5]}


@pytest.mark.slow
def test_each_side_computes_each_example_once(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    size = {**PRESETS["albert_tiny"], **TOY, "vocabulary_size": 2000}
    monkeypatch.setitem(PRESETS, "toy", size)
    spec = {"folder": str(tmp_path), "source": None, "preset": "toy", "sizes": [], "seed": 0}
    spec |= {"sets": ["SST-2"], "examples": 64, "depths": {"classifier": []}, "dtype": "float32"}
    found = benchmark_material.prepare(spec)
    expected = found["lengths"]["SST-2"]["tokens"]
    assert not found["has_data"] and len(expected) == 64 and found["peak"] > 0

    spec = {"model": "classifier", "folder": str(tmp_path / "classifier-2"), "jit": "auto"}
    spec |= {"data": str(tmp_path), "dtype": "float32", "threads": 1}
    theirs = benchmark_sides.open_side({**spec, "side": "transformers"})
    computed = {}
    for padding in ("arrival", "fixed"):
        batches = [x for x, _ in theirs.cut({"examples": "SST-2", "padding": padding})]
        computed[padding] = sum(x["attention_mask"].size for x in batches)
        lengths = np.concatenate([x["attention_mask"].sum(1) for x in batches])
        assert lengths.tolist() == expected[: len(lengths)]
    assert computed["fixed"] == 32 * 64 and computed["arrival"] < 2 * computed["fixed"]

    ours = benchmark_sides.open_side({**spec, "side": "keras_albert-torch"})
    seen, collate = [], ours.model.collate

    def record(rows, length):
        seen.append((rows, length))  # Keras looks at a batch more than it trains on
        return collate(rows, length)

    monkeypatch.setattr(ours.model, "collate", record)
    for train, padding in itertools.product((False, True), ("sorted", "packed")):
        seen.clear()
        workload = {"train": train, "examples": "SST-2", "padding": padding}
        benchmark_sides.make_workload(ours, workload)()
        rows = {id(row): row for rows, _ in seen for row in rows}.values()
        assert sorted(len(row.segments[0]) + 2 for row in rows) == sorted(expected)
    batches = ExampleBatches(ours.model, list(rows), 32)
    assert sum(batches[i][0]["token_ids"].size for i in (0, 1)) < computed["arrival"]


@pytest.mark.slow
def test_pretraining_on_short_texts_has_the_losses_of_transformers(tmp_path, monkeypatch):
    """Padded to the limit, padded to the longest and packed: all masked tokens, each once."""
    pytest.importorskip("transformers")
    size = {**PRESETS["albert_tiny"], **TOY, "vocabulary_size": 2000}
    monkeypatch.setitem(PRESETS, "toy", size)
    spec = {"folder": str(tmp_path), "source": None, "preset": "toy", "sizes": [], "seed": 0}
    spec |= {"sets": ["SST-2"], "examples": 64, "depths": {"pretrainer": []}, "dtype": "float32"}
    found = benchmark_material.prepare(spec)
    counts = [benchmark_cases.masked(length) for length in found["lengths"]["SST-2"]["tokens"]]

    spec = {"model": "pretrainer", "folder": str(tmp_path / "pretrainer-2"), "jit": "auto"}
    spec |= {"data": str(tmp_path), "dtype": "float32", "threads": 1}
    work = {"train": True, "examples": "SST-2"}
    losses = {}
    for padding in ("fixed", "arrival"):
        theirs = benchmark_sides.open_side({**spec, "side": "transformers"})
        batches = list(theirs.cut({**work, "padding": padding}))
        predicted = sum((y["labels"] >= 0).sum() for _, y in batches)
        assert predicted == sum(counts[: 32 * len(batches)])
        losses[padding] = [theirs.train(x, y) for x, y in batches]
    assert len(losses["arrival"]) == 2
    losses["packed"] = losses.pop("arrival")
    for padding, expected in losses.items():
        ours = benchmark_sides.open_side({**spec, "side": "keras_albert-torch"})
        benchmark_sides.make_workload(ours, {**work, "padding": padding})()
        # Keras gives the mean of the batches, as the weights move.
        assert ours.model.history.history["loss"] == pytest.approx([np.mean(expected)], rel=1e-4)


@pytest.mark.slow
def test_the_command(tmp_path, capsys, monkeypatch):
    pytest.importorskip("transformers")
    find_spec = peers.importlib.util.find_spec
    monkeypatch.setattr(
        peers.importlib.util, "find_spec", lambda name: None if name == "jax" else find_spec(name)
    )
    command = ["latency", "--preset", "albert_tiny", "--threads", "1", "--repeats", "3"]
    command += ["--sides", "keras_albert-jax", "transformers"]  # no more processes than it needs
    report = peers.main([*command, "--json", str(tmp_path / "a.json")])
    assert json.loads((tmp_path / "a.json").read_text()) == report
    assert report["left_out"] == {"keras_albert-jax": "jax is not installed"}
    assert report["dropped"] == []
    printed = capsys.readouterr().out
    assert "(keras_albert-jax is left out: jax is not installed)" in printed
    (record,) = report["records"]
    for side in record["sides"].values():
        assert len(side["values"]) == 3 and 0 < side["min"] <= side["median"] <= side["max"]
    assert "\n".join(benchmark_report.table(record)) in printed
    latency = record["sides"]["transformers"]
    needed = benchmark_cases.operations(PRESETS["albert_tiny"], 1, 32)
    assert latency["gflops"] == pytest.approx(needed / latency["median"] / 1e9)


def test_what_cannot_be_measured_is_said(monkeypatch):
    with pytest.raises(ValueError, match="`what` must be of .* Received: 'speed'"):
        peers.main(["speed"])
    with pytest.raises(ValueError, match="`repeats` must be at least 1. Received: 0"):
        peers.main(["latency", "--repeats", "0"])
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="transformers-onnx"):
        peers.main(["latency"])
