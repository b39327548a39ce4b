"""The encoder: distinct sublayers, owned once, applied in the order of the sharing plan."""

import keras

from keras_albert.arguments import check_booleans, check_positive_numbers
from keras_albert.layers.activations import get_activation, serialize_activation
from keras_albert.layers.attention import SelfAttention, output_shape
from keras_albert.layers.depths import rematerialize, scan, scans, traced_once
from keras_albert.layers.feed_forward import FeedForward
from keras_albert.layers.shared_products import shared_products
from keras_albert.layers.sharing import sharing_plan
from keras_albert.layers.transformer_encoder import TransformerEncoder


@keras.saving.register_keras_serializable(package="keras_albert")
class EncoderStack(keras.layers.Layer):
    """`num_layers` Transformer blocks, with the parameters shared as `sharing` says.

    Args:
        num_layers, sharing, num_groups, num_inner_repetitions: see
            `keras_albert.layers.sharing_plan`.
        num_heads, attention_dropout: see `SelfAttention`.
        intermediate_dim, activation: see `FeedForward`.
        hidden_dropout: rate of dropout on the output of every sublayer.
        layer_norm_epsilon: added to the variance.
        initializer_range: standard deviation of the truncated normal of every kernel.
        remat: whether training keeps only the inputs of the blocks, and computes a block again for
            its gradients (rematerialisation): less memory for a third more operations. Results are
            the same. XLA for CPUs undoes it under JAX unless one block serves all depths.

    Call arguments:
        inputs: (B, S, H), floating point.
        attention_mask: see `SelfAttention`.
        positions: int (B, P): the tokens whose output is asked for; the last block computes no
            other. None is all.
        training: whether dropout is active.
        return_all_layers: return the output of every depth, which goes without `positions`.

    Returns:
        (B, S, H), (B, P, H) with `positions`, or a list of `num_layers` of (B, S, H) with
        `return_all_layers=True`.

    Raises:
        ValueError: an argument is out of range (see the sublayers and `sharing_plan`), or both
            `positions` and `return_all_layers` are asked for.

    Source: Lan et al. (2020), section 3.1; `transformer_model` of Google's ALBERT.

    Example:
    ```python
    stack = keras_albert.layers.EncoderStack(
        num_layers=12, num_heads=2, intermediate_dim=32, sharing="all"
    )
    outputs = stack(keras.random.normal((1, 3, 8)), return_all_layers=True)
    len(outputs), stack.count_params()  # 12 depths, the parameters of one block
    ```
    """

    def __init__(
        self,
        num_layers,
        num_heads,
        intermediate_dim,
        sharing="all",
        num_groups=1,
        num_inner_repetitions=1,
        activation="gelu_tanh",
        hidden_dropout=0.0,
        attention_dropout=0.0,
        layer_norm_epsilon=1e-12,
        initializer_range=0.02,
        remat=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive_numbers("EncoderStack", initializer_range=initializer_range)
        check_booleans("EncoderStack", remat=remat)
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.sharing = sharing
        self.num_groups = num_groups
        self.num_inner_repetitions = num_inner_repetitions
        self.activation = get_activation(activation)
        self.hidden_dropout = hidden_dropout
        self.attention_dropout = attention_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.remat = remat
        self.supports_masking = True

        self.plan = sharing_plan(sharing, num_layers, num_groups, num_inner_repetitions)
        # Flat attributes, one per distinct sublayer: shared layers that are tracked through lists
        # have failed to reload.
        for index in sorted({attention for attention, _ in self.plan}):
            setattr(self, f"attention_{index}", self._make_attention(f"attention_{index}"))
        for index in sorted({feed_forward for _, feed_forward in self.plan}):
            name = f"feed_forward_{index}"
            setattr(self, name, self._make_feed_forward(name))
        for attention, feed_forward in sorted(set(self.plan)):
            block = TransformerEncoder(
                getattr(self, f"attention_{attention}"),
                getattr(self, f"feed_forward_{feed_forward}"),
                dtype=self.dtype_policy,
                name=_block_name(attention, feed_forward),
            )
            setattr(self, block.name, block)

    def _make_attention(self, name):
        return SelfAttention(
            self.num_heads,
            hidden_dropout=self.hidden_dropout,
            attention_dropout=self.attention_dropout,
            layer_norm_epsilon=self.layer_norm_epsilon,
            kernel_initializer=self._make_initializer(),
            dtype=self.dtype_policy,
            name=name,
        )

    def _make_feed_forward(self, name):
        return FeedForward(
            self.intermediate_dim,
            activation=self.activation,
            hidden_dropout=self.hidden_dropout,
            layer_norm_epsilon=self.layer_norm_epsilon,
            kernel_initializer=self._make_initializer(),
            dtype=self.dtype_policy,
            name=name,
        )

    def _make_initializer(self):
        return keras.initializers.TruncatedNormal(stddev=self.initializer_range)

    @property
    def blocks(self):
        """The block of each step of the plan; shared blocks stand there more than once."""
        return [getattr(self, _block_name(*pair)) for pair in self.plan]

    def build(self, inputs_shape):
        for block in self.blocks:
            if not block.built:
                block.build(inputs_shape)

    def call(
        self,
        inputs,
        attention_mask=None,
        positions=None,
        training=None,
        return_all_layers=False,
    ):
        if positions is not None and return_all_layers:
            raise ValueError(
                "EncoderStack computes either the tokens at `positions`, or every token of every "
                "depth. Received: positions and return_all_layers=True"
            )
        x, blocks, outputs = inputs, self.blocks, []
        options = {"attention_mask": attention_mask}
        # With `return_all_layers` a loss may leave out the last depths.
        whole = training and not return_all_layers
        if whole and scans(blocks, x, self.remat):
            x = scan(blocks[0], x, len(blocks) - 1, self.remat, **options)
            blocks = blocks[-1:]
        if whole and not self.remat:
            blocks = traced_once(blocks)
        with shared_products(self, x, whole and not self.remat):
            for number, block in enumerate(blocks, 1):
                if number == len(blocks):
                    options["positions"] = positions
                if self.remat and training:
                    x = rematerialize(block, x, **options)
                else:
                    x = block(x, **options, training=training)
                outputs.append(x)
        # With inner repetitions, a depth's output is that of its last block.
        return (
            outputs[self.num_inner_repetitions - 1 :: self.num_inner_repetitions]
            if return_all_layers
            else x
        )

    def compute_output_spec(
        self,
        inputs,
        attention_mask=None,
        positions=None,
        training=None,
        return_all_layers=False,
    ):
        shape = output_shape(inputs.shape, None if positions is None else positions.shape)
        x = keras.KerasTensor(shape, dtype=self.compute_dtype)
        return [x] * self.num_layers if return_all_layers else x

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "num_layers": self.num_layers,
                "num_heads": self.num_heads,
                "intermediate_dim": self.intermediate_dim,
                "sharing": self.sharing,
                "num_groups": self.num_groups,
                "num_inner_repetitions": self.num_inner_repetitions,
                "activation": serialize_activation(self.activation),
                "hidden_dropout": self.hidden_dropout,
                "attention_dropout": self.attention_dropout,
                "layer_norm_epsilon": self.layer_norm_epsilon,
                "initializer_range": self.initializer_range,
                "remat": self.remat,
            }
        )
        return config


def _block_name(attention: int, feed_forward: int) -> str:
    return f"block_{attention}_{feed_forward}"
