"""Oracles: NumPy means, the schedule, published sizes, the lines themselves."""

import json
import struct

import keras
import numpy as np
import pytest

import keras_albert
from keras_albert.training.handing_over import hand_over
from keras_albert.training.log import TrainingLog, read_log
from keras_albert.training.safety import SkipNonFinite
from keras_albert.training.state import TrainingState
from keras_albert.training.throughput import matrix_peak, operations_per_step
from tests.conftest import random_inputs
from tests.training.resumable_run import Stream, make_model


class Weighted(Stream):
    """Batches whose weights differ from step to step; from `bad` on, `count` are not finite."""

    def __init__(self, bad=10**9, count=1):
        super().__init__()
        self.bad, self.count = bad, count

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        step = self.start_step + index
        spoiled = np.nan if self.bad <= step < self.bad + self.count else 1.0
        return x * spoiled, y, np.full(4, 1.0 + step % 3, "float32")


def make_line(rate=0.0):
    """A model y = 0 x, which a rate of 0 does not change."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(SkipNonFinite(keras.optimizers.SGD(rate)), "mse", weighted_metrics=["mae"])
    return model


def fit(directory, model=None, data=None, epochs=2, every=3, state=False, **options):
    callbacks = [TrainingLog(directory, every=every, **options)]
    callbacks += [TrainingState(directory, every=None)] if state else []
    data = hand_over(data or Weighted(), callbacks)
    (model or make_line()).fit(
        data, epochs=epochs, steps_per_epoch=7, callbacks=callbacks, verbose=0, shuffle=False
    )
    return read_log(directory / "log.jsonl")


def test_every_line_is_over_the_steps_since_the_line_before(tmp_path):
    data, rows = Weighted(), fit(tmp_path)
    assert [row["step"] for row in rows] == [3, 6, 9, 12]
    assert [row["epoch"] for row in rows] == [0, 0, 1, 1]
    # The second epoch begins after step 7.
    for row, steps in zip(rows, [(0, 1, 2), (3, 4, 5), (7, 8), (9, 10, 11)], strict=True):
        batches = [data[step] for step in steps]
        errors = [np.abs(y[:, 0]) for _, y, _ in batches]
        weights = [w for _, _, w in batches]
        mae = np.concatenate([e * w for e, w in zip(errors, weights, strict=True)]).sum()
        np.testing.assert_allclose(row["mae"], mae / np.concatenate(weights).sum(), rtol=1e-5)
        losses = [(e**2 * w).mean() for e, w in zip(errors, weights, strict=True)]
        np.testing.assert_allclose(row["loss"], np.mean(losses), rtol=1e-5)


def test_the_norm_of_the_gradient_and_the_rates(tmp_path):
    schedule = keras_albert.WarmupPolynomialDecay(1e-9, 2, 20)
    rows = fit(tmp_path, make_line(schedule), tokens_per_step=100)
    for row in rows:
        x, y, w = Weighted()[row["step"] - 1]
        gradient = np.concatenate([x, np.ones((4, 1))], 1).T @ (-2 * y[:, 0] * w) / 4
        np.testing.assert_allclose(row["gradient_norm"], np.linalg.norm(gradient), rtol=1e-5)
        # That of the next step.
        np.testing.assert_allclose(row["learning_rate"], 1e-9 * (1 - row["step"] / 20), rtol=1e-5)
        assert row["skipped"] == 0
        np.testing.assert_allclose(row["tokens_per_second"], 100 * row["steps_per_second"])
        left = (14 - row["step"]) / row["steps_per_second"]
        np.testing.assert_allclose(row["seconds_left"], left)


def test_the_trust_ratios_of_lamb(tmp_path):
    """At a rate of 0 the weights stay, so the ratios follow from the gradients alone."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1), keras.layers.Dense(2)])
    lamb = keras_albert.Lamb(0.0, global_clipnorm=None, exclude=["bias"])
    model.compile(SkipNonFinite(lamb), lambda y, y_pred: keras.ops.sum(y_pred))
    a, b = model.get_weights()[0], model.get_weights()[2]
    rows = fit(tmp_path, model, epochs=1, every=2)
    moments = [np.zeros_like(w) for w in (a, a, b, b)]
    ratios = []
    for step in range(rows[-1]["step"]):
        x, _, weights = Weighted()[step]
        weights = weights / len(x)  # one loss over a batch, weighted by each row
        gradients = (
            (x.sum(0)[:, None] * b.sum(1)) * weights.sum(),
            ((x @ a).sum(0)[:, None] * np.ones(2)) * weights.sum(),
        )
        ratios = []
        for n, (w, g) in enumerate(zip((a, b), gradients, strict=True)):
            m, v = moments[2 * n : 2 * n + 2]
            m += 0.1 * (g - m)
            v += 0.001 * (g**2 - v)
            update = m / (np.sqrt(v) + 1e-6) + 0.01 * w
            ratios.append(np.linalg.norm(w) / np.linalg.norm(update))
    found = [rows[-1][f"trust_ratio{which}"] for which in ("_min", "", "_max")]
    np.testing.assert_allclose(found, [min(ratios), np.mean(ratios), max(ratios)], rtol=1e-4)


def test_a_planted_bad_batch_is_skipped_and_reported(tmp_path):
    data = Weighted(bad=4)
    with pytest.warns(UserWarning, match=r"Step 5: skipped \(gradient_norm nan, skipped 1\)"):
        rows = fit(tmp_path, data=data)
    assert [row["step"] for row in rows] == [3, 5, 6, 9, 12]
    assert rows[1]["event"] == "skipped"
    assert [row["skipped"] for row in rows[2:]] == [1, 1, 1]
    # What comes after it is not spoilt: step 6 alone.
    _, y, w = data[5]
    np.testing.assert_allclose(rows[2]["loss"], (y[:, 0] ** 2 * w).mean(), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:Step ")
def test_so_many_in_a_row_end_the_run_at_the_last_good_state(tmp_path):
    model, good = make_line(0.01), make_line(0.01)
    with pytest.raises(RuntimeError, match="3 steps in a row .* ends at step 7"):
        fit(tmp_path, model, Weighted(bad=4, count=9), limit=3)
    assert read_log(tmp_path / "log.jsonl")[-1]["event"] == "stopped"
    for step in range(4):
        good.train_on_batch(*Weighted()[step])
    for found, expected in zip(model.get_weights(), good.get_weights(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*may differ")
def test_lines_after_the_state_are_taken_out_and_written_again(tmp_path):
    fit(tmp_path, state=True, epochs=1)
    path = tmp_path / "log.jsonl"
    before = path.read_text()
    # Killed in step 12's line, with no state after step 7.
    path.write_text(before + '{"step": 9, "loss": 1.0, "epoch": 1, "time": 1.0}\n{"step": 12, "lo')
    rows = fit(tmp_path, state=True)
    assert [row["step"] for row in rows] == [3, 6, 9, 12]
    assert path.read_text().startswith(before)
    assert "mae" in rows[2]


def test_tensorboard_has_the_lines(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event

    (tmp_path / "log.jsonl").write_text('{"step": 0, "loss": 2.5, "epoch": 0, "time": 1.0}\n')
    rows = fit(tmp_path)
    (path,) = (tmp_path / "tensorboard").iterdir()
    contents, events = path.read_bytes(), []
    while contents:  # length, its checksum, data, its checksum
        (length,) = struct.unpack("<Q", contents[:8])
        events.append(Event.FromString(contents[12 : 12 + length]))
        contents = contents[16 + length :]
    assert events[0].file_version == "brain.Event:2"
    found = [{v.tag: v.simple_value for v in event.summary.value} for event in events[1:]]
    assert [event.step for event in events[1:]] == [row["step"] for row in rows] == [0, 3, 6, 9, 12]
    np.testing.assert_allclose([f["loss"] for f in found], [r["loss"] for r in rows], rtol=1e-6)


def test_a_pretrainer_logs_accuracy_tokens_and_share_of_the_peak(tmp_path):
    class Masked(Stream):
        max_predictions, sequence_length, batch_size = 2, 10, 3

        def __getitem__(self, index):
            x = {**random_inputs(seed=index), "mask_positions": np.ones((3, 2), "int32")}
            y = {"mlm": np.full((3, 2), 7), "sentence": np.ones(3, "int32")}
            return x, y, {"mlm": np.ones((3, 2)), "sentence": np.ones(3)}

        def __init__(self):
            super().__init__(batch_size=3)
            self.sequence_length = 10

    backbone = keras_albert.AlbertBackbone(40, 2, 2, 4, 8, 16)
    model = keras_albert.AlbertPretrainer(backbone)
    log = TrainingLog(tmp_path, every=2, peak=1e9)
    keras.Model.fit(
        model,
        hand_over(Masked(), log),
        epochs=1,
        steps_per_epoch=4,
        callbacks=[log],
        verbose=0,
        shuffle=False,
    )
    row = read_log(tmp_path / "log.jsonl")[-1]
    np.testing.assert_allclose(row["tokens_per_second"], 30 * row["steps_per_second"])
    share = operations_per_step(backbone, 3, 10, 2) * row["steps_per_second"] / 1e9
    np.testing.assert_allclose(row["peak_share"], share)
    np.testing.assert_allclose(row["loss"], row["mlm_loss"] + row["sentence_loss"], rtol=1e-5)
    assert 0 <= row["mlm_accuracy"] <= 1 and "sentence_accuracy" in row


def test_operations_of_bert_base():
    class Base:
        num_layers, hidden_dim, intermediate_dim, embedding_dim = 12, 768, 3072, 768
        vocabulary_size = 30_522

    # The encoder's matrices have 84,934,656 weights: 110 M without embeddings, biases and pooler.
    encoder = 2 * 84_934_656 * 512 + 12 * 4 * 512 * 512 * 768
    head = 20 * 2 * (768 * 768 + 768 * 30_522)
    assert operations_per_step(Base, 8, 512, 20) == 3 * 8 * (encoder + head)


def test_the_peak_is_operations_over_time(monkeypatch):
    monkeypatch.setattr("keras_albert.training.throughput._timed", lambda x: 0.02)
    assert matrix_peak() == 2 * 1024**3 / 0.02
    monkeypatch.undo()
    assert matrix_peak(seconds=0.05) > 1e8


def test_a_log_that_is_none_is_named_by_line(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\nnonsense\n{"step": 2}\n')
    with pytest.raises(ValueError, match="log.jsonl is no log: line 2 is not JSON"):
        read_log(path)


@pytest.mark.parametrize("bad", [{"every": 0}, {"tokens_per_step": -1}, {"peak": "fast"}])
def test_arguments_outside_their_rules(tmp_path, bad):
    with pytest.raises(ValueError, match=f"`{next(iter(bad))}` of TrainingLog must be"):
        TrainingLog(tmp_path, **bad)


def test_the_plot_draws_what_the_log_has(tmp_path, monkeypatch):
    image = pytest.importorskip("matplotlib.image")
    from matplotlib import figure

    from recipes import plot

    rows = [
        {"step": step, "epoch": 0, "loss": 9.0 / step, "learning_rate": 0.1, "gradient_norm": 1.0}
        for step in range(1, 200)
    ]
    rows.insert(50, {"step": 50, "epoch": 0, "event": "skipped", "gradient_norm": np.nan})
    rows.append({"step": 199, "epoch": 0, "val_loss": 0.5})
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    drawn, savefig = [], figure.Figure.savefig
    monkeypatch.setattr(
        figure.Figure,
        "savefig",
        lambda self, *args, **kwargs: (drawn.append(self), savefig(self, *args, **kwargs)),
    )
    plot.main([str(tmp_path)])
    assert image.imread(tmp_path / "log.png").shape[2] == 4
    titles = [axis.get_title(loc="left") for axis in drawn[0].axes]
    assert titles == ["Loss", "Gradient norm, before clipping", "Learning rate"]
    raw, smooth, held_out = drawn[0].axes[0].lines
    np.testing.assert_array_equal(raw.get_ydata(), [9.0 / step for step in range(1, 200)])
    np.testing.assert_allclose(smooth.get_ydata()[50], 9.0 / 51)  # the median of 1 / x
    assert list(held_out.get_xdata()) == [199]
    assert list(tmp_path.glob("*partial*")) == []
    with pytest.raises(ValueError, match="must hold log.jsonl"):
        plot.main([str(tmp_path / "nothing")])


def test_a_model_that_goes_on_gets_the_steps_of_its_optimizer(tmp_path):
    model = make_model()
    fit(tmp_path, model, epochs=1)
    rows = fit(tmp_path, model, epochs=1)  # another phase
    assert [row["step"] for row in rows] == [3, 6, 9, 12]
