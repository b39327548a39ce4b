"""The tables of KerasHub's presets and of TensorFlow Model Garden's BERT encoder; see `names`.

Both keep attention's projections with an axis of heads: the same numbers in another shape.
Names: files that keras-hub 0.32 writes; for Model Garden, the variables that its released BERT
encoders hold, as KerasHub's conversion of them lists them.
"""

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

# Names as they stand without `/.ATTRIBUTES/VARIABLE_VALUE`.
MODEL_GARDEN_BERT = (
    Row("encoder/layer_with_weights-0/embeddings", TOKENS, "V E"),
    Row("encoder/layer_with_weights-1/embeddings", POSITIONS, "P E"),
    Row("encoder/layer_with_weights-2/embeddings", SEGMENTS, "T E"),
    *_norm(_GAMMA_BETA, "encoder/layer_with_weights-3", EMBEDDING_NORM, "E"),
    *_block(
        _KERNEL_BIAS,
        _GAMMA_BETA,
        "encoder/layer_with_weights-{next}",
        "/_attention_layer/_{}_dense",
        (
            "/_attention_layer/_output_dense",
            "/_attention_layer_norm",
            "/_intermediate_dense",
            "/_output_dense",
            "/_output_layer_norm",
        ),
    ),
    *_dense(_KERNEL_BIAS, "encoder/layer_with_weights-{next}", POOLER, "H H"),
)
