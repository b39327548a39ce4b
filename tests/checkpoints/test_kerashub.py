"""Oracle: KerasHub's own ALBERT and BERT, saved by it and run by it."""

import keras_hub
import numpy as np
import pytest

import keras_albert
from keras_albert.checkpoints import report
from tests.checkpoints.conftest import WORDS, batch, load, outputs, shake
from tests.conftest import to_numpy

SIZES = {
    "vocabulary_size": 53,
    "num_layers": 4,
    "num_heads": 3,
    "hidden_dim": 12,
    "intermediate_dim": 19,
    "max_sequence_length": 23,
    "num_segments": 3,
    "dropout": 0.1,
}
ALBERT = {"embedding_dim": 7, "num_groups": 2, "num_inner_repetitions": 2}


@pytest.mark.parametrize(
    ("family", "changes"),
    [("Albert", ALBERT), ("Albert", {**ALBERT, "embedding_dim": 12}), ("Bert", {})],
)
def test_a_preset_with_its_head(tmp_path, family, changes):
    backbone = getattr(keras_hub.models, f"{family}Backbone")(**{**SIZES, **changes})
    theirs = getattr(keras_hub.models, f"{family}MaskedLM")(backbone)
    shake(theirs)
    theirs.save_to_preset(str(tmp_path / "preset"))
    if family == "Bert":
        tokenizer = keras_hub.models.BertTokenizer(WORDS, lowercase=True)
        tokenizer.save_to_preset(str(tmp_path / "preset"))
    with pytest.warns(UserWarning, match="masked-LM head has LayerNorm's epsilon at 1e-5"):
        ours = load(tmp_path / "preset", objective="none")
    assert ours.backbone.hidden_dropout == ours.backbone.attention_dropout == 0.1
    theirs.masked_lm_head._intermediate_layer_norm.epsilon = 1e-12
    theirs.masked_lm_head._intermediate_dense.activation = ours.backbone.activation
    x = batch()
    rows = x["padding_mask"]
    received = outputs(ours, x)
    expected = {
        **theirs.backbone({name: x[name] for name in theirs.backbone.input}),
        "mlm": theirs(x),
    }
    assert set(expected) == set(received)
    for name, value in expected.items():
        one, other = received[name], to_numpy(value)
        if one.ndim == 3:
            one, other = one[rows], other[rows]
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5, err_msg=name)
    if family == "Bert":
        assert ours.preprocessor.tokenizer.get_vocabulary() == WORDS
        assert ours.preprocessor.tokenizer.lowercase


def test_a_backbone_alone_in_bfloat16(tmp_path):
    backbone = keras_hub.models.BertBackbone(**SIZES, dtype="bfloat16")
    backbone.save_to_preset(str(tmp_path / "preset"))
    with pytest.warns(UserWarning, match="newly initialised: masked_lm_head, sentence_head"):
        load(tmp_path / "preset", strict=False)
    ours = keras_albert.AlbertBackbone.from_preset(tmp_path / "preset", strict=True)
    np.testing.assert_array_equal(
        to_numpy(ours.token_embedding.embeddings.value),
        to_numpy(backbone.token_embedding.embeddings.value).astype("float32"),
    )
    described = report(tmp_path / "preset")
    assert described.format == "kerashub" and described.parameters == backbone.count_params()
