"""Oracle: the numbers of parameters of the released models, and the paper's tables."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_albert
from keras_albert.models.presets import PRESETS, parameter_count

RELEASED = {  # with pooler; masked-LM head
    "base": (11_683_584, 128_688),
    "large": (17_683_968, 161_456),
    "xlarge": (58_724_864, 292_528),
    "xxlarge": (222_595_584, 554_672),
}


@pytest.mark.parametrize("size", RELEASED)
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_released_sizes(size, version):
    config = PRESETS[f"albert_{size}_{version}"]
    model, head = RELEASED[size]
    assert parameter_count(config) == model
    assert parameter_count(config, mlm_head=True) - model == head
    assert parameter_count(config, sentence_head=True) - model == 2 * config["hidden_dim"] + 2


@pytest.mark.parametrize(
    ("embedding_dim", "sharing", "exact", "table_4"),
    [
        (128, "all", 11.68, 12),
        (128, "attention", 63.65, 64),
        (128, "ffn", 37.69, 38),
        (128, "none", 89.65, 89),
        (768, "all", None, 31),
        (768, "attention", None, 83),
        (768, "ffn", None, 57),
        (768, "none", None, 108),
        (64, "none", None, 87),
        (256, "none", None, 93),
        (64, "all", None, 10),
        (256, "all", None, 16),
    ],
)
def test_tables_3_and_4_of_the_paper(embedding_dim, sharing, exact, table_4):
    config = {**PRESETS["albert_base_v2"], "embedding_dim": embedding_dim, "sharing": sharing}
    if exact is not None:
        assert round(parameter_count(config) / 1e6, 2) == exact
    # The paper counts no pooler (its 108M is BERT base without it), and rounds either way.
    assert abs(parameter_count(config, pooler=False) / 1e6 - table_4) < 1.0


def test_bert():
    assert abs(parameter_count(PRESETS["bert_base_uncased"]) / 1e6 - 108) < 1.6
    assert abs(parameter_count(PRESETS["bert_large_uncased"]) / 1e6 - 334) < 1.6


def test_dropout_of_the_released_versions():
    for name, config in PRESETS.items():
        dropped = name.startswith("bert") or (name.endswith("_v1") and "xxlarge" not in name)
        rate = 0.1 if dropped else 0.0
        assert (config["hidden_dropout"], config["attention_dropout"]) == (rate, rate), name


@pytest.mark.backend_free
@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none"])
@pytest.mark.parametrize(
    "name", ["albert_tiny", "albert_small", "albert_base_v1", "albert_base_v2", "bert_base_uncased"]
)
def test_built_models_have_the_parameters_of_the_config(name, sharing):
    config = {**PRESETS[name], "sharing": sharing}
    backbone = keras_albert.AlbertBackbone(**config)
    assert backbone.count_params() == parameter_count(config)


@pytest.mark.slow
@pytest.mark.backend_free
@pytest.mark.parametrize("name", ["albert_large_v2", "albert_xlarge_v2", "albert_xxlarge_v2"])
def test_built_large_models(name):
    model = keras_albert.AlbertPretrainer.from_preset(name, load_weights=False, compile=False)
    expected = parameter_count(PRESETS[name], mlm_head=True, sentence_head=True)
    assert model.count_params() == expected


@pytest.mark.backend_free
@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["all", "attention", "ffn"]),
    st.integers(1, 2),
    st.integers(1, 2),
    st.sampled_from([4, 8]),
)
def test_groups_and_repetitions(sharing, num_groups, inner, embedding_dim):
    config = {
        "vocabulary_size": 11,
        "num_layers": 2,
        "embedding_dim": embedding_dim,
        "hidden_dim": 8,
        "intermediate_dim": 12,
        "sharing": sharing,
        "num_groups": num_groups,
        "num_inner_repetitions": inner,
        "max_sequence_length": 6,
        "num_segments": 3,
        "project_embeddings": True if embedding_dim == 8 else None,
    }
    backbone = keras_albert.AlbertBackbone(num_heads=2, **config)
    assert backbone.count_params() == parameter_count(config)


def test_from_preset_takes_replacements_and_explains_what_it_cannot_do():
    backbone = keras_albert.AlbertBackbone.from_preset(
        "albert_tiny", load_weights=False, vocabulary_size=50, num_layers=2
    )
    assert (backbone.vocabulary_size, backbone.num_layers) == (50, 2)
    with pytest.raises(ValueError, match="`load_weights=False` for random weights"):
        keras_albert.AlbertBackbone.from_preset("albert_base_v2")
    with pytest.raises(ValueError, match="or one of .*'albert_base_v2'.*Received: 'albert_basev2'"):
        keras_albert.AlbertBackbone.from_preset("albert_basev2")
