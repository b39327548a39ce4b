"""Oracle: outputs and losses of Google's code, recorded in the shared data."""

import json
import types

import keras
import numpy as np
import pytest

import keras_albert
from tests.conftest import to_numpy

TOLERANCE = 1e-5
# Differences of one part in 10^7 at the first step grow to this over 20 steps at rate 0.02.
TRAINING_FLOOR = 7e-3


@pytest.fixture
def google(shared_data):
    pytest.importorskip("tensorflow", reason="TensorFlow reads Google's checkpoints")
    folder = shared_data / "oracle" / "google_albert"
    model = keras_albert.AlbertPretrainer.from_preset(folder, strict=True)
    return types.SimpleNamespace(
        model=model,
        expected=np.load(folder / "forward_expected.npz"),
        training=json.loads((folder / "train_lamb_losses.json").read_text()),
    )


def google_batch(expected):
    x = {
        "token_ids": expected["in_input_ids"].astype("int32"),
        "segment_ids": expected["in_segment_ids"].astype("int32"),
        "padding_mask": expected["in_input_mask"].astype(bool),
        "mask_positions": expected["in_masked_lm_positions"].astype("int32"),
    }
    y = {
        "mlm": expected["in_masked_lm_ids"].astype("int32"),
        "sentence": expected["in_sentence_order_label"][:, 0].astype("int32"),
    }
    weights = {"mlm": expected["in_masked_lm_weights"], "sentence": np.ones(len(y["mlm"]), "f4")}
    return x, y, weights


def test_google_forward(google):
    model, expected = google.model, google.expected
    backbone = model.backbone
    x, y, weights = google_batch(expected)

    embedded = backbone.embedding.embed(x["token_ids"], x["segment_ids"])
    close(embedded, expected["out_embedding_output"])
    layers = backbone.encoder(
        backbone.embedding(x["token_ids"], segment_ids=x["segment_ids"]),
        attention_mask=x["padding_mask"],
        return_all_layers=True,
    )
    for index, output in enumerate(layers):
        close(output, expected[f"out_layer_{index}"])
    outputs = backbone({name: x[name] for name in backbone.input})
    close(outputs["sequence_output"], expected["out_sequence_output"])
    close(outputs["pooled_output"], expected["out_pooled_output"])

    outputs = model(x)
    log_probabilities = to_numpy(keras.ops.log_softmax(outputs["mlm"]))
    recorded = expected["out_masked_lm_log_probs"]
    close(log_probabilities.reshape(len(recorded), -1)[:, : recorded.shape[1]], recorded)
    close(keras.ops.log_softmax(outputs["sentence"]), expected["out_sop_log_probs"])

    losses = model.test_on_batch(x, y, weights, return_dict=True)
    close(losses["mlm_loss"], expected["out_masked_lm_loss"])
    close(losses["sentence_loss"], expected["out_sop_loss"])
    close(losses["loss"], expected["out_masked_lm_loss"] + expected["out_sop_loss"])


@pytest.mark.slow
def test_google_training(google):
    settings = google.training
    model = google.model
    schedule = keras_albert.WarmupPolynomialDecay(
        settings["init_lr"], settings["num_warmup_steps"], settings["num_train_steps"]
    )
    model.compile(
        keras_albert.Lamb(
            schedule,
            weight_decay=settings["weight_decay"],
            beta_1=settings["beta_1"],
            beta_2=settings["beta_2"],
            epsilon=settings["epsilon"],
            exclude=settings["exclude"],
            global_clipnorm=settings["clip_norm"],
        )
    )
    batch = google_batch(google.expected)
    for step, expected in enumerate(settings["losses"]):  # each row stands before its step
        losses = model.train_on_batch(*batch, return_dict=True)
        received = [float(losses[name]) for name in ("loss", "mlm_loss", "sentence_loss")]
        # Up to the first step at a rate above 0, nothing has grown yet.
        floor = 1e-4 if step < 3 else TRAINING_FLOOR
        np.testing.assert_allclose(received, expected, rtol=0, atol=floor)


def close(received, expected):
    np.testing.assert_allclose(to_numpy(received), expected, rtol=0, atol=TOLERANCE)
