"""The tables of KerasHub's presets and of TensorFlow Model Garden's encoders; see `names`.

Both keep attention's projections with an axis of heads: the same numbers in another shape.
Names: files that keras-hub 0.32 writes; for Model Garden, what tf-models-official 2.20 writes of
`AlbertEncoder` and `BertPretrainerV2`, and what KerasHub's conversion reads of released encoders.
"""

import re

from keras_albert.checkpoints.names import (
    ATTENTION,
    EMBEDDING_NORM,
    FEED_FORWARD,
    MASKED_LM,
    POOLER,
    POSITIONS,
    PROJECTION,
    PROJECTIONS,
    SEGMENTS,
    TOKENS,
    Row,
)


def _dense(names, theirs, ours, axes, stored="", stored_bias=""):
    kernel, bias = names
    return (
        Row(theirs + kernel, f"{ours}.kernel", axes, stored=stored),
        Row(theirs + bias, f"{ours}.bias", axes.split()[1], stored=stored_bias),
    )


def _norm(names, theirs, ours, axis="H"):
    gamma, beta = names
    return (
        Row(theirs + gamma, f"{ours}.gamma", axis),
        Row(theirs + beta, f"{ours}.beta", axis),
    )


def _block(dense, norm, layer, attention, names):
    """The rows of one Transformer block; `names` are theirs of the five parts besides q, k, v."""
    attention_output, attention_norm, intermediate, output, output_norm = names
    return (
        *(
            row
            for name in PROJECTIONS
            for row in _dense(
                dense,
                layer + attention.format(name),
                f"{ATTENTION}.{name}",
                "H H",
                stored="H N D",
                stored_bias="N D",
            )
        ),
        *_dense(
            dense, layer + attention_output, f"{ATTENTION}.output_dense", "H H", stored="N D H"
        ),
        *_norm(norm, layer + attention_norm, f"{ATTENTION}.layer_norm"),
        *_dense(dense, layer + intermediate, f"{FEED_FORWARD}.intermediate_dense", "H I"),
        *_dense(dense, layer + output, f"{FEED_FORWARD}.output_dense", "I H"),
        *_norm(norm, layer + output_norm, f"{FEED_FORWARD}.layer_norm"),
    )


_VARS = ("/vars/0", "/vars/1")

_KERASHUB = (
    Row("layers/reversible_embedding/vars/0", TOKENS, "V E"),
    Row("layers/embedding/vars/0", SEGMENTS, "T E"),
    Row("layers/position_embedding/vars/0", POSITIONS, "P E"),
    *_norm(_VARS, "layers/layer_normalization", EMBEDDING_NORM, "E"),
    *_block(
        _VARS,
        _VARS,
        "layers/transformer_encoder{numbered}",
        "/_self_attention_layer/{}_dense",
        (
            "/_self_attention_layer/output_dense",
            "/_self_attention_layer_norm",
            "/_feedforward_intermediate_dense",
            "/_feedforward_output_dense",
            "/_feedforward_layer_norm",
        ),
    ),
    # What `task.weights.h5` holds is read with `task/` before its names.
    *_dense(_VARS, "task/layers/masked_lm_head/_intermediate_dense", f"{MASKED_LM}.dense", "H E"),
    *_norm(
        _VARS,
        "task/layers/masked_lm_head/_intermediate_layer_norm",
        f"{MASKED_LM}.layer_norm",
        "E",
    ),
    Row("task/layers/masked_lm_head/vars/0", f"{MASKED_LM}.bias", "V"),
)

KERASHUB_ALBERT = (
    *_KERASHUB,
    *_dense(_VARS, "layers/dense", PROJECTION, "E H"),
    *_dense(_VARS, "layers/dense_1", POOLER, "H H"),
)
KERASHUB_BERT = (*_KERASHUB, *_dense(_VARS, "layers/dense", POOLER, "H H"))

_KERNEL_BIAS, _GAMMA_BETA = ("/kernel", "/bias"), ("/gamma", "/beta")

_GARDEN = "encoder/layer_with_weights-"
# A dense layer of the encoder's own after the first block; 4 is the projection.
_OWN_POOLER = re.compile(rf"{_GARDEN}(?!4/)\d+/kernel")


def _garden(projection, block, pooler):
    """An encoder, which counts its layers, and the head that its pretraining stores beside it."""
    return (
        Row(f"{_GARDEN}0/embeddings", TOKENS, "V E"),
        Row(f"{_GARDEN}1/embeddings", POSITIONS, "P E"),
        Row(f"{_GARDEN}2/embeddings", SEGMENTS, "T E"),
        *_norm(_GAMMA_BETA, f"{_GARDEN}3", EMBEDDING_NORM, "E"),
        *projection,
        *_block(
            _KERNEL_BIAS,
            _GAMMA_BETA,
            _GARDEN + block,
            "/_attention_layer/_{}_dense",
            (
                "/_attention_layer/_output_dense",
                "/_attention_layer_norm",
                "/_intermediate_dense",
                "/_output_dense",
                "/_output_layer_norm",
            ),
        ),
        *_dense(_KERNEL_BIAS, _GARDEN + pooler, POOLER, "H H"),
        *_dense(_KERNEL_BIAS, "masked_lm/dense", f"{MASKED_LM}.dense", "H E"),
        *_norm(_GAMMA_BETA, "masked_lm/layer_norm", f"{MASKED_LM}.layer_norm", "E"),
        Row("masked_lm/output_bias.Sbias", f"{MASKED_LM}.bias", "V"),
    )


# Names as they stand without `/.ATTRIBUTES/VARIABLE_VALUE`.
MODEL_GARDEN_BERT = _garden((), "{next}", "{next}")
MODEL_GARDEN_ALBERT = _garden(_dense(_KERNEL_BIAS, f"{_GARDEN}4", PROJECTION, "E H"), "5", "6")


def garden_table(shapes) -> tuple[Row, ...] | None:
    """The table for a Model Garden checkpoint's names, or None if they are none of its.

    A table of tokens that encoder and head hold is stored once, by the head's shorter name. An
    encoder without a pooler leaves pooling to the head of next sentences.
    """
    if f"{_GARDEN}4/_attention_layer/_query_dense/kernel" in shapes:
        table, pooler = MODEL_GARDEN_BERT, _GARDEN + "{next}"
    elif f"{_GARDEN}5/_attention_layer/_query_dense/kernel" in shapes:
        table, pooler = MODEL_GARDEN_ALBERT, f"{_GARDEN}6"
    else:
        return None
    names = {
        f"{_GARDEN}0/embeddings": "masked_lm/embedding_table",
        f"{pooler}/kernel": "next_sentence..pooler_dense/kernel",
        f"{pooler}/bias": "next_sentence..pooler_dense/bias",
    }
    return tuple(
        row._replace(theirs=names[row.theirs]) if _is_renamed(row, names, shapes) else row
        for row in table
    )


def _is_renamed(row, names, shapes) -> bool:
    if names.get(row.theirs) not in shapes:
        return False
    return row.part != "backbone.pooler" or not any(map(_OWN_POOLER.fullmatch, shapes))
