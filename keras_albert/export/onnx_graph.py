"""A task model as an ONNX graph, written from its weights.

The architecture is small and fixed, so the graph is written rather than traced: from the weights of
any backend, with open batch and length, and with every weight stored once, however many depths
apply it. `onnx_heads.py` has the heads.

Imported only where `onnx` is installed. Shapes: B batch, S sequence, Q tokens of it that are asked
for, N heads, D width of a head, H = N * D hidden, E embedding.
"""

import keras
import numpy as np

from keras_albert.export.onnx_nodes import Nodes
from keras_albert.layers.activations import serialize_activation

MASKED = -1e30  # added to the scores of keys that are padding
ACTIVATIONS = ("gelu", "gelu_tanh", "linear", "relu", "sigmoid", "silu", "tanh")


class AlbertGraph(Nodes):
    """The nodes of an encoder's parts."""

    def dense(self, x, layer, name, activation=None) -> str:
        """`x W + b`, and an activation by name."""
        x = self.add("MatMul", x, self.weight(f"{name}/kernel", lambda: array(layer.kernel)))
        if layer.bias is not None:
            x = self.add("Add", x, self.weight(f"{name}/bias", lambda: array(layer.bias)))
        return self.activate(x, activation or "linear")

    def activate(self, x, name) -> str:
        """An activation by name."""
        if name == "linear":
            return x
        if name in ("gelu", "gelu_tanh"):
            return self.add("Gelu", x, approximate="tanh" if name == "gelu_tanh" else "none")
        if name == "silu":
            return self.add("Mul", x, self.add("Sigmoid", x))
        return self.add(name.capitalize(), x)

    def norm(self, x, layer, name) -> str:
        """LayerNorm over the last axis."""
        return self.add(
            "LayerNormalization",
            x,
            self.weight(f"{name}/gamma", lambda: array(layer.gamma)),
            self.weight(f"{name}/beta", lambda: array(layer.beta)),
            epsilon=layer.epsilon,
        )

    def table(self, layer, name) -> str:
        """An embedding's table."""
        return self.weight(f"embedding/{name}", lambda: array(layer.embeddings))

    def fit(self, x, limit, least) -> dict:
        """Inputs (B, S), cut to `limit` columns, padded to `least`; as a served model does."""
        length = self.add("Shape", x["token_ids"], start=-1)
        missing = self.add("Sub", self.constant([least]), length)
        missing = self.add("Max", missing, self.constant([0]))
        pads = self.add("Concat", self.constant([0, 0, 0]), missing, axis=0)
        fitted = {}
        for name, values in x.items():
            values = self.add("Pad", values, pads)
            fitted[name] = self.add("Slice", values, *map(self.constant, ([0], [limit], [1])))
        return fitted

    def embed(self, backbone, x) -> str:
        """Ids to (B, S, H)."""
        layer = backbone.embedding
        self.scope = "embedding"
        token = self.add("Gather", self.table(layer.token_embedding, "token"), x["token_ids"])
        length = self.add("Shape", x["token_ids"], start=1)
        position = self.table(layer.position_embedding, "position")
        position = self.add("Slice", position, self.constant([0]), length, self.constant([0]))
        segment = self.add(
            "Gather", self.table(layer.segment_embedding, "segment"), x["segment_ids"]
        )
        x_BSE = self.add("Add", self.add("Add", token, position), segment)
        x_BSE = self.norm(x_BSE, layer.layer_norm, "embedding/layer_norm")
        if layer.projection is None:
            return x_BSE
        return self.dense(x_BSE, layer.projection, "embedding/projection")

    def encode(self, backbone, x, first=False) -> list[str]:
        """Ids to each depth's output (B, S, H); with `first`, the last one's of [CLS] alone."""
        depth_BSH = self.embed(backbone, x)
        is_token_BS = self.add("Cast", x["padding_mask"], to=1)
        is_padding_BS = self.add("Sub", self.constant(1, "float32"), is_token_BS)
        masked_BS = self.add("Mul", is_padding_BS, self.constant(MASKED, "float32"))
        mask_B11S = self.add("Unsqueeze", masked_BS, self.constant([1, 2]))
        depths = []
        blocks = backbone.encoder.blocks
        for index, block in enumerate(blocks):
            self.scope = f"depth_{index}/attention"
            asked = depth_BSH
            if first and index == len(blocks) - 1:
                asked = self.add("Slice", depth_BSH, *map(self.constant, ([0], [1], [1])))
            depth_BSH = self.attend(depth_BSH, block.attention, mask_B11S, asked)
            self.scope = f"depth_{index}/feed_forward"
            depth_BSH = self.feed_forward(depth_BSH, block.feed_forward)
            depths.append(depth_BSH)
        # With inner repetitions, a depth's output is that of its last block.
        step = backbone.num_inner_repetitions
        return depths[step - 1 :: step]

    def attend(self, x_BSH, layer, mask_B11S, asked_BQH) -> str:
        """The attention sublayer, for the tokens that are asked: (B, Q, H)."""
        width = layer.hidden_dim // layer.num_heads
        split = self.constant([0, 0, layer.num_heads, width])

        def heads(name, order):
            x = asked_BQH if name == "query" else x_BSH
            projected = self.dense(x, getattr(layer, name), f"{layer.name}/{name}")
            return self.add("Transpose", self.add("Reshape", projected, split), perm=order)

        q_BNQD = heads("query", [0, 2, 1, 3])
        k_BNDS = heads("key", [0, 2, 3, 1])
        v_BNSD = heads("value", [0, 2, 1, 3])
        q_BNQD = self.add("Mul", q_BNQD, self.constant(layer.scale, "float32"))
        scores_BNQS = self.add("Add", self.add("MatMul", q_BNQD, k_BNDS), mask_B11S)
        context_BNQD = self.add("MatMul", self.add("Softmax", scores_BNQS, axis=-1), v_BNSD)
        context_BQND = self.add("Transpose", context_BNQD, perm=[0, 2, 1, 3])
        context_BQH = self.add("Reshape", context_BQND, self.constant([0, 0, layer.hidden_dim]))
        output = self.dense(context_BQH, layer.output_dense, f"{layer.name}/output")
        return self.norm(self.add("Add", asked_BQH, output), layer.layer_norm, f"{layer.name}/norm")

    def feed_forward(self, x_BSH, layer) -> str:
        """The feed-forward sublayer."""
        name = layer.name
        activation = known_activation(layer.activation)
        x = self.dense(x_BSH, layer.intermediate_dense, f"{name}/intermediate", activation)
        x = self.dense(x, layer.output_dense, f"{name}/output")
        return self.norm(self.add("Add", x_BSH, x), layer.layer_norm, f"{name}/norm")

    def first_token(self, x_BSH) -> str:
        """(B, H), [CLS]."""
        return self.add("Gather", x_BSH, self.constant(0), axis=1)

    def pool(self, backbone, x_BSH) -> str:
        """The pooled output (B, H)."""
        self.scope = "pooler"
        return self.dense(self.first_token(x_BSH), backbone.pooler.dense, "pooler/dense", "tanh")


def array(weight) -> np.ndarray:
    """A weight as an array in float32."""
    return keras.ops.convert_to_numpy(keras.ops.cast(weight, "float32"))


def known_activation(activation) -> str:
    """An activation's name, where the graph has it.

    Raises:
        ValueError: the graph has not.
    """
    name = serialize_activation(activation)
    if name not in ACTIVATIONS:
        raise ValueError(
            f"An ONNX export knows the activations {', '.join(ACTIVATIONS)}. Received: {name!r}"
        )
    return name
