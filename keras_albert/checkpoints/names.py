"""Names of variables in other programs' checkpoints, and of ours: one table, read both ways.

A row is (their name, our attribute path from an `AlbertPretrainer`, transposed?). `{group}` and
`{inner}` number ALBERT's groups and inner repetitions; `{layer}` numbers BERT's layers; `{block}`
is the sublayer of ours that these choose.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """One variable: its name in the checkpoint, its attribute path in the model."""

    theirs: str
    ours: str
    transposed: bool = False


_GOOGLE_BLOCK = "bert/encoder/transformer/group_{group}/inner_group_{inner}/"
_ATTENTION = "backbone.encoder.attention_{block}"
_FEED_FORWARD = "backbone.encoder.feed_forward_{block}"


def _google_dense(theirs, ours):
    return (Row(f"{theirs}/kernel", f"{ours}.kernel"), Row(f"{theirs}/bias", f"{ours}.bias"))


def _google_norm(theirs, ours):
    return (Row(f"{theirs}/gamma", f"{ours}.gamma"), Row(f"{theirs}/beta", f"{ours}.beta"))


GOOGLE_ALBERT = (
    Row("bert/embeddings/word_embeddings", "backbone.embedding.token_embedding.embeddings"),
    Row("bert/embeddings/token_type_embeddings", "backbone.embedding.segment_embedding.embeddings"),
    Row("bert/embeddings/position_embeddings", "backbone.embedding.position_embedding.embeddings"),
    *_google_norm("bert/embeddings/LayerNorm", "backbone.embedding.layer_norm"),
    *_google_dense("bert/encoder/embedding_hidden_mapping_in", "backbone.embedding.projection"),
    *(
        row
        for name in ("query", "key", "value")
        for row in _google_dense(
            f"{_GOOGLE_BLOCK}attention_1/self/{name}",
            f"{_ATTENTION}.{name}",
        )
    ),
    *_google_dense(
        f"{_GOOGLE_BLOCK}attention_1/output/dense",
        _ATTENTION + ".output_dense",
    ),
    *_google_norm(f"{_GOOGLE_BLOCK}LayerNorm", _ATTENTION + ".layer_norm"),
    *_google_dense(
        f"{_GOOGLE_BLOCK}ffn_1/intermediate/dense",
        _FEED_FORWARD + ".intermediate_dense",
    ),
    *_google_dense(
        f"{_GOOGLE_BLOCK}ffn_1/intermediate/output/dense",
        _FEED_FORWARD + ".output_dense",
    ),
    *_google_norm(f"{_GOOGLE_BLOCK}LayerNorm_1", _FEED_FORWARD + ".layer_norm"),
    *_google_dense("bert/pooler/dense", "backbone.pooler.dense"),
    *_google_dense("cls/predictions/transform/dense", "masked_lm_head.dense"),
    *_google_norm("cls/predictions/transform/LayerNorm", "masked_lm_head.layer_norm"),
    Row("cls/predictions/output_bias", "masked_lm_head.bias"),
    Row("cls/seq_relationship/output_weights", "sentence_head.dense.kernel", transposed=True),
    Row("cls/seq_relationship/output_bias", "sentence_head.dense.bias"),
)


def _torch_dense(theirs, ours):
    return (
        Row(f"{theirs}.weight", f"{ours}.kernel", transposed=True),
        Row(f"{theirs}.bias", f"{ours}.bias"),
    )


def _torch_norm(theirs, ours):
    return (Row(f"{theirs}.weight", f"{ours}.gamma"), Row(f"{theirs}.bias", f"{ours}.beta"))


HUGGINGFACE_BERT = (
    Row("embeddings.word_embeddings.weight", "backbone.embedding.token_embedding.embeddings"),
    Row(
        "embeddings.token_type_embeddings.weight", "backbone.embedding.segment_embedding.embeddings"
    ),
    Row(
        "embeddings.position_embeddings.weight", "backbone.embedding.position_embedding.embeddings"
    ),
    *_torch_norm("embeddings.LayerNorm", "backbone.embedding.layer_norm"),
    *(
        row
        for name in ("query", "key", "value")
        for row in _torch_dense(
            f"encoder.layer.{{layer}}.attention.self.{name}",
            f"{_ATTENTION}.{name}",
        )
    ),
    *_torch_dense(
        "encoder.layer.{layer}.attention.output.dense",
        _ATTENTION + ".output_dense",
    ),
    *_torch_norm(
        "encoder.layer.{layer}.attention.output.LayerNorm",
        _ATTENTION + ".layer_norm",
    ),
    *_torch_dense(
        "encoder.layer.{layer}.intermediate.dense",
        _FEED_FORWARD + ".intermediate_dense",
    ),
    *_torch_dense("encoder.layer.{layer}.output.dense", _FEED_FORWARD + ".output_dense"),
    *_torch_norm("encoder.layer.{layer}.output.LayerNorm", _FEED_FORWARD + ".layer_norm"),
    *_torch_dense("pooler.dense", "backbone.pooler.dense"),
)


def expand(table: tuple[Row, ...], backbone) -> list[Row]:
    """The rows of a table for one architecture: one per variable, without placeholders."""
    inner_count = backbone.num_inner_repetitions
    albert = [
        {"group": g, "inner": i, "block": g * inner_count + i}
        for g in range(backbone.num_groups)
        for i in range(inner_count)
    ]
    bert = [{"layer": layer, "block": layer} for layer in range(backbone.num_layers)]
    rows = []
    for row in table:
        if "{group}" in row.theirs:
            numbers = albert
        elif "{layer}" in row.theirs:
            numbers = bert
        else:
            numbers = [{}]
        rows += [Row(row.theirs.format(**n), row.ours.format(**n), row.transposed) for n in numbers]
    return rows


def assign(model, rows: list[Row], tensors: dict) -> None:
    """Assign checkpoint tensors to all weights of an `AlbertPretrainer`.

    Args:
        model: the model; a row's attribute path starts there.
        rows: from `expand`.
        tensors: name -> NumPy array.

    Raises:
        ValueError: the checkpoint lacks a variable or has one more, a shape differs, or a weight of
            the model is left out. Nothing has been assigned then.
    """
    left_over = sorted(set(tensors) - {row.theirs for row in rows})
    if left_over:
        raise ValueError(
            f"The checkpoint has variables that this model has no place for: {left_over[:5]}. Make "
            "the model with the checkpoint's groups, inner repetitions and heads."
        )
    assignments = []
    for row in rows:
        if row.theirs not in tensors:
            raise ValueError(f"The checkpoint has no variable {row.theirs!r}.")
        variable = model
        for attribute in row.ours.split("."):
            variable = getattr(variable, attribute, None)
            if variable is None:
                raise ValueError(f"The model has no {row.ours!r}, for {row.theirs!r}.")
        value = tensors[row.theirs].T if row.transposed else tensors[row.theirs]
        if tuple(value.shape) != tuple(variable.shape):
            raise ValueError(
                f"{row.theirs!r} has shape {tuple(tensors[row.theirs].shape)} and does not fit "
                f"{row.ours!r} of shape {tuple(variable.shape)}."
            )
        assignments.append((variable, value))
    assigned = {id(variable) for variable, _ in assignments}
    missing = [weight.path for weight in model.weights if id(weight) not in assigned]
    if missing:
        raise ValueError(
            f"The checkpoint has nothing for these weights of the model: {missing[:5]}"
        )
    for variable, value in assignments:
        variable.assign(value)
