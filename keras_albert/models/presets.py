"""The only table of architectures, with its sources.

The table holds architectures, not weights: weights come from a checkpoint.

Sources: ALBERT sizes: Lan et al. (2020), Table 1, and the `albert_config.json` of the released v1
and v2 models; dropout: the same files for v1, and the release notes of v2, which dropped dropout.
BERT sizes: Devlin et al. (2019), section 3, and the released `bert_config.json` of the uncased
models. `albert_tiny` and `albert_small` are ours, for two CPU cores.
"""

import importlib
import pathlib

from keras_albert.layers.sharing import sharing_plan

_ALBERT = {
    "vocabulary_size": 30000,
    "embedding_dim": 128,
    "sharing": "all",
    "activation": "gelu_tanh",
    "max_sequence_length": 512,
    "num_segments": 2,
}
_BERT = {
    "vocabulary_size": 30522,
    "sharing": "none",
    "activation": "gelu_tanh",
    "max_sequence_length": 512,
    "num_segments": 2,
    "hidden_dropout": 0.1,
    "attention_dropout": 0.1,
}


def _size(num_layers, num_heads, hidden_dim):
    return {
        "num_layers": num_layers,
        "num_heads": num_heads,
        "hidden_dim": hidden_dim,
        "intermediate_dim": 4 * hidden_dim,
    }


_BASE, _LARGE = _size(12, 12, 768), _size(24, 16, 1024)
_XLARGE, _XXLARGE = _size(24, 16, 2048), _size(12, 64, 4096)
_DROPOUT = {"hidden_dropout": 0.1, "attention_dropout": 0.1}
_NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}

PRESETS = {
    "albert_tiny": {**_ALBERT, **_size(4, 4, 128), **_NO_DROPOUT, "embedding_dim": 64},
    "albert_small": {**_ALBERT, **_size(6, 4, 256), **_NO_DROPOUT},
    "albert_base_v1": {**_ALBERT, **_BASE, **_DROPOUT},
    "albert_large_v1": {**_ALBERT, **_LARGE, **_DROPOUT},
    "albert_xlarge_v1": {**_ALBERT, **_XLARGE, **_DROPOUT},
    "albert_xxlarge_v1": {**_ALBERT, **_XXLARGE, **_NO_DROPOUT},
    "albert_base_v2": {**_ALBERT, **_BASE, **_NO_DROPOUT},
    "albert_large_v2": {**_ALBERT, **_LARGE, **_NO_DROPOUT},
    "albert_xlarge_v2": {**_ALBERT, **_XLARGE, **_NO_DROPOUT},
    "albert_xxlarge_v2": {**_ALBERT, **_XXLARGE, **_NO_DROPOUT},
    "bert_base_uncased": {**_BERT, **_BASE, "embedding_dim": 768},
    "bert_large_uncased": {**_BERT, **_LARGE, "embedding_dim": 1024},
}


def parameter_count(
    config: dict, *, pooler: bool = True, mlm_head: bool = False, sentence_head: bool = False
) -> int:
    """The number of parameters of an `AlbertBackbone`, from its config, without building it.

    Args:
        config: a row of `PRESETS`, or `AlbertBackbone.get_config()`.
        pooler: count the pooler, as the backbone has one.
        mlm_head: count the masked-LM head of `AlbertPretrainer` too.
        sentence_head: count its sentence-order head too.

    Returns:
        The number of scalars in all trainable variables.

    Source: Lan et al. (2020), Tables 1 and 2 give these numbers rounded.

    Example:
    ```python
    from keras_albert.models.presets import PRESETS, parameter_count
    parameter_count(PRESETS["albert_base_v2"])  # 11_683_584
    ```
    """
    vocabulary, embedding = config["vocabulary_size"], config["embedding_dim"]
    hidden, intermediate = config["hidden_dim"], config["intermediate_dim"]
    plan = sharing_plan(
        config["sharing"],
        config["num_layers"],
        config.get("num_groups", 1),
        config.get("num_inner_repetitions", 1),
    )
    project = config.get("project_embeddings")
    project = embedding != hidden if project is None else project
    norm = 2 * hidden
    attention = 4 * _dense(hidden, hidden) + norm
    feed_forward = _dense(hidden, intermediate) + _dense(intermediate, hidden) + norm
    rows = vocabulary + config["max_sequence_length"] + config["num_segments"]
    total = (rows + 2) * embedding + _dense(embedding, hidden) * project
    total += attention * len({index for index, _ in plan})
    total += feed_forward * len({index for _, index in plan})
    total += _dense(hidden, hidden) * pooler
    total += (_dense(hidden, embedding) + 2 * embedding + vocabulary) * mlm_head
    total += _dense(hidden, 2) * sentence_head
    return total


def load_preset(cls, own_preset, preset: str, load_weights: bool, **kwargs):
    """A model from a place: a preset, or a checkpoint of another program.

    Args:
        cls: the model class.
        own_preset: KerasHub's `from_preset` of it, for presets of this package.
        preset: a path or a handle.
        load_weights: whether to load the weights.
        **kwargs: see `keras_albert.AlbertBackbone.from_preset`.
    """
    check_preset_exists(preset)
    # Checkpoints know models, and models no formats: looked up when one is asked for.
    loading = importlib.import_module("keras_albert.checkpoints.loading")
    return loading.from_checkpoint(cls, own_preset, preset, load_weights, **kwargs)


def check_preset_exists(preset: str) -> None:
    """Raise a `ValueError` that lists the known names where `preset` is none, nor a place."""
    is_place = "/" in preset or "\\" in preset or pathlib.Path(preset).exists()
    if not is_place and not pathlib.Path(f"{preset}.index").exists():
        raise ValueError(
            "`preset` must be a directory that `save_to_preset` wrote, a checkpoint (a directory, "
            "a `.tar.gz` or `.zip`, a prefix), a handle of a hub (as 'hf://owner/name'), or one of "
            f"{sorted(PRESETS)}. Received: {preset!r}"
        )


def _dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs
