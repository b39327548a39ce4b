"""Names of variables in other programs' checkpoints, and of ours: one table, read both ways.

A row is (their name, our attribute path from a task model, the axes of our variable). Axes:
V vocabulary, P positions, T segments, E embedding, H hidden, I intermediate, N heads, D head, C
classes. `{group}` and `{inner}` number ALBERT's groups and inner repetitions, `{layer}` BERT's
layers; `{block}` is the sublayer of ours that these choose.

A new head takes part in reading, writing and reports by its rows here. Two rows may share their
name and differ in ours: those whose path the model has are used.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """One variable: its name in the checkpoint, its attribute path in the model, its axes.

    `stored` are the axes in the checkpoint where they differ otherwise than by `transposed`: the
    same numbers in the same order.
    """

    theirs: str
    ours: str
    axes: str
    transposed: bool = False
    stored: str = ""

    @property
    def stored_axes(self) -> list[str]:
        """The axes in the checkpoint."""
        axes = (self.stored or self.axes).split()
        return axes[::-1] if self.transposed else axes

    @property
    def part(self) -> str:
        """What the variable belongs to: `backbone`, its pooler, or a head."""
        first, second = self.ours.split(".")[:2]
        return "backbone.pooler" if (first, second) == ("backbone", "pooler") else first


TOKENS = "backbone.embedding.token_embedding.embeddings"
SEGMENTS = "backbone.embedding.segment_embedding.embeddings"
POSITIONS = "backbone.embedding.position_embedding.embeddings"
EMBEDDING_NORM = "backbone.embedding.layer_norm"
PROJECTION = "backbone.embedding.projection"
ATTENTION = "backbone.encoder.attention_{block}"
FEED_FORWARD = "backbone.encoder.feed_forward_{block}"
POOLER = "backbone.pooler.dense"
MASKED_LM = "masked_lm_head"
SENTENCE = "sentence_head.dense"
CLASSIFIER = "classifier"
SPAN = "span_head.dense"
BEAM = "beam_head"
# Heads of fine-tuned models: a checkpoint without them lacks nothing.
TASK_HEADS = ("classifier", "span_head", "beam_head")
PROJECTIONS = ("query", "key", "value")


def _google_dense(theirs, ours, axes):
    return (
        Row(f"{theirs}/kernel", f"{ours}.kernel", axes),
        Row(f"{theirs}/bias", f"{ours}.bias", axes.split()[1]),
    )


def _google_norm(theirs, ours, axis="H"):
    return (
        Row(f"{theirs}/gamma", f"{ours}.gamma", axis),
        Row(f"{theirs}/beta", f"{ours}.beta", axis),
    )


def _google_embeddings():
    return (
        Row("bert/embeddings/word_embeddings", TOKENS, "V E"),
        Row("bert/embeddings/token_type_embeddings", SEGMENTS, "T E"),
        Row("bert/embeddings/position_embeddings", POSITIONS, "P E"),
        *_google_norm("bert/embeddings/LayerNorm", EMBEDDING_NORM, "E"),
    )


def _google_heads():
    return (
        *_google_dense("bert/pooler/dense", POOLER, "H H"),
        *_google_dense("cls/predictions/transform/dense", f"{MASKED_LM}.dense", "H E"),
        *_google_norm("cls/predictions/transform/LayerNorm", f"{MASKED_LM}.layer_norm", "E"),
        Row("cls/predictions/output_bias", f"{MASKED_LM}.bias", "V"),
        Row("cls/seq_relationship/output_weights", f"{SENTENCE}.kernel", "H 2", transposed=True),
        Row("cls/seq_relationship/output_bias", f"{SENTENCE}.bias", "2"),
        Row("output_weights", f"{CLASSIFIER}.kernel", "H C", transposed=True),
        Row("output_bias", f"{CLASSIFIER}.bias", "C"),
        Row("cls/squad/output_weights", f"{SPAN}.kernel", "H 2", transposed=True),
        Row("cls/squad/output_bias", f"{SPAN}.bias", "2"),
        *_google_dense("start_logits/dense", f"{BEAM}.start_dense", "H 1"),
        *_google_dense("end_logits/dense_0", f"{BEAM}.end_hidden", "2H H"),
        *_google_norm("end_logits/LayerNorm", f"{BEAM}.end_norm"),
        *_google_dense("end_logits/dense_1", f"{BEAM}.end_dense", "H 1"),
        *_google_dense("answer_class/dense_0", f"{BEAM}.answer_hidden", "2H H"),
        Row("answer_class/dense_1/kernel", f"{BEAM}.answer_dense.kernel", "H 1"),
    )


_GROUP = "bert/encoder/transformer/group_{group}/inner_group_{inner}"

GOOGLE_ALBERT = (
    *_google_embeddings(),
    *_google_dense("bert/encoder/embedding_hidden_mapping_in", PROJECTION, "E H"),
    *(
        row
        for name in PROJECTIONS
        for row in _google_dense(f"{_GROUP}/attention_1/self/{name}", f"{ATTENTION}.{name}", "H H")
    ),
    *_google_dense(f"{_GROUP}/attention_1/output/dense", f"{ATTENTION}.output_dense", "H H"),
    *_google_norm(f"{_GROUP}/LayerNorm", f"{ATTENTION}.layer_norm"),
    *_google_dense(
        f"{_GROUP}/ffn_1/intermediate/dense", f"{FEED_FORWARD}.intermediate_dense", "H I"
    ),
    *_google_dense(
        f"{_GROUP}/ffn_1/intermediate/output/dense", f"{FEED_FORWARD}.output_dense", "I H"
    ),
    *_google_norm(f"{_GROUP}/LayerNorm_1", f"{FEED_FORWARD}.layer_norm"),
    *_google_heads(),
)

_LAYER = "bert/encoder/layer_{layer}"

GOOGLE_BERT = (
    *_google_embeddings(),
    *(
        row
        for name in PROJECTIONS
        for row in _google_dense(f"{_LAYER}/attention/self/{name}", f"{ATTENTION}.{name}", "H H")
    ),
    *_google_dense(f"{_LAYER}/attention/output/dense", f"{ATTENTION}.output_dense", "H H"),
    *_google_norm(f"{_LAYER}/attention/output/LayerNorm", f"{ATTENTION}.layer_norm"),
    *_google_dense(f"{_LAYER}/intermediate/dense", f"{FEED_FORWARD}.intermediate_dense", "H I"),
    *_google_dense(f"{_LAYER}/output/dense", f"{FEED_FORWARD}.output_dense", "I H"),
    *_google_norm(f"{_LAYER}/output/LayerNorm", f"{FEED_FORWARD}.layer_norm"),
    *_google_heads(),
)


def _torch_dense(theirs, ours, axes):
    return (
        Row(f"{theirs}.weight", f"{ours}.kernel", axes, transposed=True),
        Row(f"{theirs}.bias", f"{ours}.bias", axes.split()[1]),
    )


def _torch_norm(theirs, ours, axis="H"):
    return (
        Row(f"{theirs}.weight", f"{ours}.gamma", axis),
        Row(f"{theirs}.bias", f"{ours}.beta", axis),
    )


_TORCH_EMBEDDINGS = (
    Row("embeddings.word_embeddings.weight", TOKENS, "V E"),
    Row("embeddings.token_type_embeddings.weight", SEGMENTS, "T E"),
    Row("embeddings.position_embeddings.weight", POSITIONS, "P E"),
    *_torch_norm("embeddings.LayerNorm", EMBEDDING_NORM, "E"),
)

# Of classification, multiple choice and tagging alike; and of question answering.
_TORCH_TASKS = (
    *_torch_dense("classifier", CLASSIFIER, "H C"),
    *_torch_dense("qa_outputs", SPAN, "H 2"),
)

_ALBERT_LAYER = "encoder.albert_layer_groups.{group}.albert_layers.{inner}"

# Names as they stand without the `albert.` or `bert.` of the models with heads.
HUGGINGFACE_ALBERT = (
    *_TORCH_EMBEDDINGS,
    *_torch_dense("encoder.embedding_hidden_mapping_in", PROJECTION, "E H"),
    *(
        row
        for name in PROJECTIONS
        for row in _torch_dense(f"{_ALBERT_LAYER}.attention.{name}", f"{ATTENTION}.{name}", "H H")
    ),
    *_torch_dense(f"{_ALBERT_LAYER}.attention.dense", f"{ATTENTION}.output_dense", "H H"),
    *_torch_norm(f"{_ALBERT_LAYER}.attention.LayerNorm", f"{ATTENTION}.layer_norm"),
    *_torch_dense(f"{_ALBERT_LAYER}.ffn", f"{FEED_FORWARD}.intermediate_dense", "H I"),
    *_torch_dense(f"{_ALBERT_LAYER}.ffn_output", f"{FEED_FORWARD}.output_dense", "I H"),
    *_torch_norm(f"{_ALBERT_LAYER}.full_layer_layer_norm", f"{FEED_FORWARD}.layer_norm"),
    *_torch_dense("pooler", POOLER, "H H"),
    *_torch_dense("predictions.dense", f"{MASKED_LM}.dense", "H E"),
    *_torch_norm("predictions.LayerNorm", f"{MASKED_LM}.layer_norm", "E"),
    Row("predictions.bias", f"{MASKED_LM}.bias", "V"),
    *_torch_dense("sop_classifier.classifier", SENTENCE, "H 2"),
    *_TORCH_TASKS,
)

HUGGINGFACE_BERT = (
    *_TORCH_EMBEDDINGS,
    *(
        row
        for name in PROJECTIONS
        for row in _torch_dense(
            f"encoder.layer.{{layer}}.attention.self.{name}", f"{ATTENTION}.{name}", "H H"
        )
    ),
    *_torch_dense(
        "encoder.layer.{layer}.attention.output.dense", f"{ATTENTION}.output_dense", "H H"
    ),
    *_torch_norm("encoder.layer.{layer}.attention.output.LayerNorm", f"{ATTENTION}.layer_norm"),
    *_torch_dense(
        "encoder.layer.{layer}.intermediate.dense", f"{FEED_FORWARD}.intermediate_dense", "H I"
    ),
    *_torch_dense("encoder.layer.{layer}.output.dense", f"{FEED_FORWARD}.output_dense", "I H"),
    *_torch_norm("encoder.layer.{layer}.output.LayerNorm", f"{FEED_FORWARD}.layer_norm"),
    *_torch_dense("pooler.dense", POOLER, "H H"),
    *_torch_dense("cls.predictions.transform.dense", f"{MASKED_LM}.dense", "H E"),
    *_torch_norm("cls.predictions.transform.LayerNorm", f"{MASKED_LM}.layer_norm", "E"),
    Row("cls.predictions.bias", f"{MASKED_LM}.bias", "V"),
    *_torch_dense("cls.seq_relationship", SENTENCE, "H 2"),
    *_TORCH_TASKS,
)

# Second names of one variable: what must hold the same numbers where a file has it.
TIED = {
    "predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


def expand(table: tuple[Row, ...], arguments: dict) -> list[Row]:
    """The rows of a table for one architecture: one per variable, without placeholders.

    Args:
        table: one of this module's.
        arguments: those of `AlbertBackbone`, of an architecture that the table's format can hold.
    """
    inner_count = arguments.get("num_inner_repetitions", 1)
    albert = [
        {"group": g, "inner": i, "block": g * inner_count + i}
        for g in range(arguments.get("num_groups", 1))
        for i in range(inner_count)
    ]
    bert = [{"layer": layer, "block": layer} for layer in range(arguments["num_layers"])]
    blocks = bert if arguments.get("sharing", "all") == "none" else albert
    for numbers in blocks:
        numbers["numbered"] = f"_{numbers['block']}" if numbers["block"] else ""
    projects = has_projection(arguments)
    rows = []
    for row in table:
        if row.ours.startswith(PROJECTION) and not projects:
            continue
        for numbers in blocks if "{block}" in row.ours else [{}]:
            # `{next}` counts BERT's layers and what stands after them (Model Garden).
            numbers = {**numbers, "next": numbers.get("block", arguments["num_layers"]) + 4}
            names = {"theirs": row.theirs.format(**numbers), "ours": row.ours.format(**numbers)}
            rows.append(row._replace(**names))
    return rows


def has_projection(arguments: dict) -> bool:
    """Whether a backbone of these arguments projects its embeddings."""
    project = arguments.get("project_embeddings")
    return arguments["embedding_dim"] != arguments["hidden_dim"] if project is None else project


def axis_sizes(arguments: dict) -> dict[str, int]:
    """The size of every axis that a row can name, but of C, which any size fits."""
    heads = arguments["num_heads"]
    return {
        "V": arguments["vocabulary_size"],
        "P": arguments["max_sequence_length"],
        "T": arguments["num_segments"],
        "E": arguments["embedding_dim"],
        "H": arguments["hidden_dim"],
        "I": arguments["intermediate_dim"],
        "N": heads,
        "D": arguments["hidden_dim"] // heads,
        "1": 1,
        "2": 2,
        "2H": 2 * arguments["hidden_dim"],
    }


def find(model, path: str):
    """The variable at an attribute path of a task model, or of a backbone; None if there is none.

    A backbone stands for itself: its paths start with `backbone.` too.
    """
    first, *rest = path.split(".")
    if first == "backbone" and not hasattr(type(model), "backbone"):
        value = model
    else:
        value = getattr(model, first, None)
    for attribute in rest:
        value = getattr(value, attribute, None)
    return value
