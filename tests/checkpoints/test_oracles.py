"""Oracles: outputs of Google's code and of Hugging Face's, recorded in the shared data."""

import numpy as np
import pytest

import keras_albert
from tests.checkpoints.conftest import (
    assert_same_outputs,
    assert_same_weights,
    load,
    outputs,
)

TOLERANCE = 1e-5


def close(received, expected):
    np.testing.assert_allclose(received, expected, rtol=0, atol=TOLERANCE)


def recorded_inputs(expected, prefix="in_"):
    names = {
        "token_ids": "input_ids",
        "segment_ids": "segment_ids",
        "padding_mask": "input_mask",
        "mask_positions": "masked_lm_positions",
    }
    if not prefix:
        names |= {"segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    return {
        ours: expected[prefix + theirs].astype("int32")
        for ours, theirs in names.items()
        if prefix + theirs in expected
    }


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@pytest.mark.parametrize("folder", ["google_albert", "hf_albert_pretraining"])
def test_albert_with_its_heads(shared_data, folder, request):
    if folder == "google_albert":
        request.getfixturevalue("tensorflow")
    model = load(shared_data / "oracle" / folder)
    google = np.load(shared_data / "oracle" / "google_albert" / "forward_expected.npz")
    received = outputs(model, recorded_inputs(google))
    close(received["sequence_output"], google["out_sequence_output"])
    close(received["pooled_output"], google["out_pooled_output"])
    log_probabilities = google["out_masked_lm_log_probs"]  # of the first ids
    mlm = log_softmax(received["mlm"]).reshape(len(log_probabilities), -1)
    close(mlm[:, : log_probabilities.shape[1]], log_probabilities)
    close(log_softmax(received["sentence"]), google["out_sop_log_probs"])

    torch = np.load(shared_data / "oracle" / "hf_albert_pretraining" / "expected.npz")
    x = recorded_inputs(torch, prefix="")
    length = x["token_ids"].shape[1]
    x["mask_positions"] = np.tile(np.arange(length), (len(x["token_ids"]), 1))
    received = outputs(model, x)
    close(received["sequence_output"], torch["last_hidden_state"])
    close(received["pooled_output"], torch["pooler_output"])
    close(received["mlm"][..., :256], torch["prediction_logits_first256"])
    close(received["sentence"], torch["sop_logits"])


def test_bert(shared_data):
    folder = shared_data / "oracle" / "hf_bert"
    backbone = keras_albert.AlbertBackbone.from_preset(folder, strict=True)
    assert backbone.sharing == "none"
    expected = np.load(folder / "expected.npz")
    received = outputs(backbone, recorded_inputs(expected, prefix=""))
    close(received["sequence_output"], expected["out_last_hidden_state"])
    close(received["pooled_output"], expected["out_pooler_output"])


def test_two_formats_of_the_same_weights_are_one_model(shared_data, tensorflow):
    google = load(shared_data / "oracle" / "google_albert")
    torch = load(shared_data / "oracle" / "hf_albert_pretraining")
    assert_same_weights(google, torch)
    assert_same_outputs(google, torch, atol=0)
