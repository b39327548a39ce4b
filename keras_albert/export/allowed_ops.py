"""Which ops an export may hold: those that a stock TensorFlow Serving links.

That is TensorFlow's own, without those that call back into Python, and tensorflow-text's. The
server links a release of tensorflow-text that is one behind: `TEXT_OPS` lists what has been there
for years.
"""

import os
from pathlib import Path

# Op -> the library of tensorflow-text that has it.
TEXT_OPS = {
    "FastWordpieceTokenizeWithOffsets": "_fast_wordpiece_tokenizer",
    "NormalizeUTF8": "_normalize_ops",
    "RegexSplitWithOffsets": "_regex_split_ops",
    "SentencepieceOp": "_sentencepiece_tokenizer",
    "SentencepieceTokenizeOp": "_sentencepiece_tokenizer",
    "SentencepieceTokenizeWithOffsetsOp": "_sentencepiece_tokenizer",
}
PYTHON_OPS = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})


def ops_of(directory: str | os.PathLike) -> dict[str, str]:
    """The ops of a SavedModel, each with the name of a node that it is in."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    saved = SavedModel.FromString(Path(directory, "saved_model.pb").read_bytes())
    found = {}
    for meta in saved.meta_graphs:
        library = meta.graph_def.library.function
        for nodes in (meta.graph_def.node, *(function.node_def for function in library)):
            for node in nodes:
                found.setdefault(node.op, node.name)
    return found


def check_ops(directory: str | os.PathLike) -> list[str]:
    """The sorted ops of a SavedModel, all of them allowed.

    Raises:
        ValueError: a stock server lacks one; the message names it.
    """
    import tensorflow as tf

    found = ops_of(directory)
    linked = (set(dir(tf.raw_ops)) - PYTHON_OPS) | set(TEXT_OPS)
    refused = sorted(set(found) - linked)
    if refused:
        named = ", ".join(f"{op} (in node {found[op]!r})" for op in refused)
        raise ValueError(
            "An export must hold only ops that a stock TensorFlow Serving links: TensorFlow's own "
            f"and some of tensorflow-text's. Received: {named}"
        )
    return sorted(found)
