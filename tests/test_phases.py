"""Oracle: the shallow model's block, applied more often."""

import keras
import numpy as np
import pytest
from keras_albert_recipes.phases import deepen

import keras_albert
from tests.conftest import random_inputs, to_numpy


def make(**arguments):
    backbone = keras_albert.AlbertBackbone(
        **{
            "vocabulary_size": 40,
            "num_layers": 1,
            "num_heads": 2,
            "embedding_dim": 6,
            "hidden_dim": 12,
            "intermediate_dim": 20,
            "max_sequence_length": 32,
            "initializer_range": 0.3,
            **arguments,
        }
    )
    return keras_albert.AlbertPretrainer(backbone, objective="none")


def test_a_deeper_model_applies_the_same_block_more_often():
    model = make()
    deeper = deepen(model, 3)
    assert deeper.backbone.num_layers == 3 and deeper.objective == "none"
    inputs = random_inputs()
    x = model.backbone.embedding(inputs["token_ids"], segment_ids=inputs["segment_ids"])
    (block,) = model.backbone.encoder.blocks
    for _ in range(3):
        x = block(x, attention_mask=keras.ops.convert_to_tensor(inputs["padding_mask"]))
    found = deeper.backbone(inputs)["sequence_output"]
    np.testing.assert_allclose(to_numpy(found), to_numpy(x), rtol=0, atol=1e-6)
    for one, other in zip(deeper.weights, model.weights, strict=True):  # the head's too
        np.testing.assert_array_equal(to_numpy(one), to_numpy(other))


def test_layers_with_parameters_of_their_own_cannot_be_repeated():
    with pytest.raises(ValueError, match="Received: sharing='none', num_groups=1"):
        deepen(make(sharing="none", num_layers=2), 4)
