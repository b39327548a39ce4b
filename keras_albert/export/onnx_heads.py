"""The graph of each task: the encoder of `onnx_graph.py` and a head, ids in, logits out.

A head adds its nodes and returns `{output: (dtype, axes)}`. Inputs and outputs have the names that
a served model has; those of a beam do not hold `end`, which depends on the true start.

Shapes: B batch, S sequence, H hidden, C classes, N options, P predictions, K starts of the beam.
"""

import keras

from keras_albert.export.onnx_graph import AlbertGraph, array, known_activation

NO_OPTION = -1e9  # as `layers.UnfoldScores`
NEVER = -1e30  # as `layers.BeamSpanHead`
INPUTS = {"token_ids": "int32", "segment_ids": "int32", "padding_mask": "bool"}


def make_model(model, metadata, half=False):
    """An `onnx.ModelProto` of a task model.

    Args:
        model: a task model.
        metadata: a dict of strings to store in it.
        half: whether matrices are stored as float16.

    Raises:
        ValueError: the backbone's activation is unknown here, or a weight is no float16.
    """
    graph = AlbertGraph(half)
    head = HEADS[type(model).__name__]
    axes = ["batch", "options", "length"] if head is choose else ["batch", "length"]
    inputs = {name: (dtype, axes) for name, dtype in INPUTS.items()}
    if head is fill:
        inputs["mask_positions"] = ("int32", ["batch", "masks"])
    graph.scope = "inputs"
    outputs = head(graph, model)
    return graph.model(inputs, outputs, metadata)


def classify(graph, model):
    """`logits` (B, C), or of a regression `value` (B,)."""
    pooled = graph.pool(model.backbone, encoded(graph, model, first=True)[-1])
    graph.scope = "head"
    logits = graph.dense(pooled, model.classifier, "head/classifier")
    if model.num_classes == 1:
        graph.add("Squeeze", logits, graph.constant([1]), output="value")
        return {"value": ("float32", ["batch"])}
    graph.add("Identity", logits, output="logits")
    return {"logits": ("float32", ["batch", model.num_classes])}


def tag(graph, model):
    """`logits` (B, S, C)."""
    x = encoded(graph, model)[-1]
    graph.scope = "head"
    logits = graph.dense(x, model.classifier, "head/classifier")
    graph.add("Identity", logits, output="logits")
    return {"logits": ("float32", ["batch", "length", model.num_classes])}


def choose(graph, model):
    """`logits` (B, N); -1e9 for options that are padding."""
    rows = graph.add("ReduceProd", graph.add("Shape", "token_ids", end=2))
    length = graph.add("Shape", "token_ids", start=2)
    flat = graph.add("Concat", rows, length, axis=0)
    x = {name: graph.add("Reshape", name, flat, allowzero=1) for name in INPUTS}
    pooled = graph.pool(model.backbone, encoded(graph, model, x, first=True)[-1])
    graph.scope = "head"
    scores = graph.dense(pooled, model.classifier, "head/classifier")
    options = graph.add("Shape", "token_ids", end=2)
    scores_BN = graph.add("Reshape", scores, options, allowzero=1)
    is_token_BNS = graph.add("Cast", "padding_mask", to=1)
    tokens_BN = graph.add("ReduceSum", is_token_BNS, graph.constant([2]), keepdims=0)
    is_option_BN = graph.add("Greater", tokens_BN, graph.constant(0, "float32"))
    graph.add(
        "Where", is_option_BN, scores_BN, graph.constant(NO_OPTION, "float32"), output="logits"
    )
    return {"logits": ("float32", ["batch", "options"])}


def embed(graph, model):
    """`vectors` (B, D), or (B, S, D) where nothing is pooled."""
    x = inputs_of(graph, model)
    depths = graph.encode(model.backbone, x)
    graph.scope = "head"
    if model.feature_layers == "sum_last_four":
        vectors = graph.add("Sum", *depths[-4:])
    elif model.feature_layers == "concat_last_four":
        vectors = graph.add("Concat", *depths[-4:], axis=-1)
    else:
        vectors = depths[-1] if model.feature_layers == "last" or len(depths) == 1 else depths[-2]
    if model.pooling == "cls":
        vectors = graph.first_token(vectors)
    elif model.pooling == "mean":
        mask_BS1 = graph.add(
            "Unsqueeze", graph.add("Cast", x["padding_mask"], to=1), graph.constant([2])
        )
        one = graph.constant([1])
        count_B1 = graph.add("ReduceSum", mask_BS1, one, keepdims=0)
        total_BD = graph.add("ReduceSum", graph.add("Mul", vectors, mask_BS1), one, keepdims=0)
        count_B1 = graph.add("Max", count_B1, graph.constant(1, "float32"))
        vectors = graph.add("Div", total_BD, count_B1)
    if model.normalize:
        length = graph.add("ReduceL2", vectors, graph.constant([-1]))
        least = graph.constant(keras.backend.epsilon(), "float32")
        vectors = graph.add("Div", vectors, graph.add("Max", length, least))
    graph.add("Identity", vectors, output="vectors")
    axes = ["batch", "length", "width"] if model.pooling is None else ["batch", "width"]
    return {"vectors": ("float32", axes)}


def fill(graph, model):
    """`mlm` (B, P, V), and `sentence` (B, 2) of a model that has it."""
    x = inputs_of(graph, model)
    x_BSH = graph.encode(model.backbone, x)[-1]
    graph.scope = "masked_lm"
    last = graph.add("Sub", graph.add("Shape", x["token_ids"], start=1), graph.constant([1]))
    positions = graph.add("Cast", "mask_positions", to=7)
    positions = graph.add("Min", positions, last)  # of masks that were cut off
    x_BPH = at(graph, x_BSH, positions)
    head = model.masked_lm_head
    x_BPE = graph.dense(x_BPH, head.dense, "masked_lm/dense", known_activation(head.activation))
    x_BPE = graph.norm(x_BPE, head.layer_norm, "masked_lm/layer_norm")
    # The same table as the embedding's, transposed by the product: it is stored once.
    table_VE = graph.table(head.token_embedding, "token")
    flat = graph.add("Reshape", x_BPE, graph.constant([-1, head.token_embedding.output_dim]))
    bias_V = graph.weight("masked_lm/bias", lambda: array(head.bias))
    logits = graph.add("Gemm", flat, table_VE, bias_V, transB=1)
    size = head.token_embedding.input_dim
    shape = graph.add("Concat", graph.add("Shape", positions), graph.constant([size]), axis=0)
    graph.add("Reshape", logits, shape, allowzero=1, output="mlm")
    outputs = {"mlm": ("float32", ["batch", "masks", size])}
    if model.sentence_head is None:
        return outputs
    pooled = graph.pool(model.backbone, x_BSH)
    graph.scope = "sentence"
    logits = graph.dense(pooled, model.sentence_head.dense, "sentence/dense")
    graph.add("Identity", logits, output="sentence")
    return {**outputs, "sentence": ("float32", ["batch", 2])}


def extract(graph, model):
    """`start` and `end` (B, S); of the beam what `layers.BeamSpanHead` gives but `end`."""
    if model.head == "beam":
        return extract_beam(graph, model)
    x = encoded(graph, model)[-1]
    graph.scope = "head"
    logits = graph.dense(x, model.span_head.dense, "head/span")
    for i, name in enumerate(("start", "end")):
        graph.add("Gather", logits, graph.constant(i), axis=2, output=name)
    return {name: ("float32", ["batch", "length"]) for name in ("start", "end")}


def extract_beam(graph, model):
    """The K best starts, and the K best ends for each."""
    head, size = model.beam_head, model.beam_head.beam_size
    x = inputs_of(graph, model, least=size)  # as many as it looks for
    h_BSH = graph.encode(model.backbone, x)[-1]
    graph.scope = "head"
    never, two = graph.constant(NEVER, "float32"), graph.constant([2])
    allowed_BS = may_be_answer(graph, x)
    start_BS = graph.add("Squeeze", graph.dense(h_BSH, head.start_dense, "head/start"), two)
    start_BS = graph.add("Where", allowed_BS, start_BS, never)
    start_log_probs_BS = graph.add("LogSoftmax", start_BS, axis=-1)
    best_BK, starts_BK = graph.add_two("TopK", start_log_probs_BS, graph.constant([size]))

    # concat(h, h_start) W = h W_1 + h_start W_2, as in the layer.
    width = model.backbone.hidden_dim
    kernel = array(head.end_hidden.kernel)
    of_token = graph.weight("head/end_token", lambda: kernel[:width])
    of_start = graph.weight("head/end_start", lambda: kernel[width:])
    of_token_BSH = graph.add("MatMul", h_BSH, of_token)
    of_start_BKH = graph.add("MatMul", at(graph, h_BSH, starts_BK), of_start)
    x_BKSH = graph.add(
        "Add",
        graph.add("Unsqueeze", of_token_BSH, graph.constant([1])),
        graph.add("Unsqueeze", of_start_BKH, two),
    )
    bias = graph.weight("head/end_bias", lambda: array(head.end_hidden.bias))
    x_BKSH = graph.add("Tanh", graph.add("Add", x_BKSH, bias))
    x_BKSH = graph.norm(x_BKSH, head.end_norm, "head/end_norm")
    end_BKS = graph.dense(x_BKSH, head.end_dense, "head/end")
    end_BKS = graph.add("Squeeze", end_BKS, graph.constant([3]))
    allowed_B1S = graph.add("Unsqueeze", allowed_BS, graph.constant([1]))
    end_BKS = graph.add("Where", allowed_B1S, end_BKS, never)
    end_log_probs_BKS = graph.add("LogSoftmax", end_BKS, axis=-1)
    ends_BKK, end_at_BKK = graph.add_two("TopK", end_log_probs_BKS, graph.constant([size]))

    p_B1S = graph.add("Unsqueeze", graph.add("Exp", start_log_probs_BS), graph.constant([1]))
    summary_BH = graph.add("Squeeze", graph.add("MatMul", p_B1S, h_BSH), graph.constant([1]))
    answer = graph.add("Concat", summary_BH, graph.first_token(h_BSH), axis=-1)
    answer = graph.dense(answer, head.answer_hidden, "head/answer_hidden", "tanh")
    answer = graph.dense(answer, head.answer_dense, "head/answer")

    length = graph.add("Shape", "token_ids", start=1)
    zero, one = graph.constant([0]), graph.constant([1])
    graph.add("Slice", start_BS, zero, length, one, output="start")
    graph.add("Squeeze", answer, one, output="unanswerable")
    graph.add("Cast", starts_BK, to=6, output="beam_starts")
    graph.add("Cast", end_at_BKK, to=6, output="beam_ends")
    graph.add("Identity", best_BK, output="beam_start_log_probs")
    graph.add("Identity", ends_BKK, output="beam_end_log_probs")
    return {
        "start": ("float32", ["batch", "length"]),
        "unanswerable": ("float32", ["batch"]),
        "beam_starts": ("int32", ["batch", size]),
        "beam_start_log_probs": ("float32", ["batch", size]),
        "beam_ends": ("int32", ["batch", size, size]),
        "beam_end_log_probs": ("float32", ["batch", size, size]),
    }


def may_be_answer(graph, x):
    """(B, S): the context without the [SEP] after it, and [CLS]."""
    of_context_BS = graph.add("Equal", x["segment_ids"], graph.constant(1, "int32"))
    context_BS = graph.add("And", of_context_BS, x["padding_mask"])
    one, far = graph.constant([1]), graph.constant([2**31 - 1])
    next_BS = graph.add("Slice", context_BS, one, far, one)
    next_BS = graph.add("Pad", next_BS, graph.constant([0, 0, 0, 1]))
    positions_S = graph.add(
        "Range",
        graph.constant(0),
        graph.add("Squeeze", graph.add("Shape", x["token_ids"], start=1)),
        graph.constant(1),
    )
    is_first_S = graph.add("Equal", positions_S, graph.constant(0))
    return graph.add("Or", graph.add("And", context_BS, next_BS), is_first_S)


def inputs_of(graph, model, x=None, least=1):
    """The model's inputs, cut to its positions and padded to `least`."""
    x = x or {name: name for name in INPUTS}
    return graph.fit(x, model.backbone.max_sequence_length, least)


def encoded(graph, model, x=None, first=False):
    """The outputs of all depths; see `AlbertGraph.encode`."""
    return graph.encode(model.backbone, inputs_of(graph, model, x), first)


def at(graph, x_BSH, positions_BP):
    """Rows (B, P, H) at positions."""
    return graph.add(
        "GatherND", x_BSH, graph.add("Unsqueeze", positions_BP, graph.constant([2])), batch_dims=1
    )


HEADS = {
    "AlbertMultipleChoice": choose,
    "AlbertPretrainer": fill,
    "AlbertSpanExtractor": extract,
    "AlbertTextClassifier": classify,
    "AlbertTextEmbedder": embed,
    "AlbertTokenClassifier": tag,
}
