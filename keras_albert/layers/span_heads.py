"""Heads that point at a span of the sequence: BERT's linear one, and ALBERT's with a beam.

Shapes: B batch, S sequence, H hidden, K starts of the beam.
"""

import keras
from keras import ops

from keras_albert.arguments import check_positive_integers, check_positive_numbers, check_rates
from keras_albert.layers.dropout import Dropout
from keras_albert.layers.initializers import get_initializer

_NEVER = -1e30  # the logit of a token that cannot be part of an answer


@keras.saving.register_keras_serializable(package="keras_albert")
class LinearSpanHead(keras.layers.Layer):
    """Two logits for every token: an answer starts here, an answer ends here.

    Args:
        kernel_initializer: of the projection.

    Call arguments:
        sequence_output: (B, S, H).

    Returns:
        A dict of `"start"` and `"end"`, logits (B, S) in float32.

    Source: Devlin et al. (2019), section 4.2; `create_model` of Google's `run_squad.py`.

    Example:
    ```python
    keras_albert.layers.LinearSpanHead()(keras.random.normal((2, 5, 8)))["start"].shape  # (2, 5)
    ```
    """

    def __init__(self, kernel_initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.kernel_initializer = get_initializer(kernel_initializer)
        self.dense = keras.layers.Dense(
            2, kernel_initializer=self.kernel_initializer, dtype=self.dtype_policy, name="dense"
        )

    def build(self, sequence_output_shape):
        self.dense.build(sequence_output_shape)

    def call(self, sequence_output):
        logits_BS2 = ops.cast(self.dense(sequence_output), "float32")
        return {"start": logits_BS2[..., 0], "end": logits_BS2[..., 1]}

    def compute_output_spec(self, sequence_output):
        logits = keras.KerasTensor(sequence_output.shape[:2], dtype="float32")
        return {"start": logits, "end": keras.KerasTensor(logits.shape, dtype="float32")}

    def get_config(self):
        config = super().get_config()
        config["kernel_initializer"] = keras.initializers.serialize(self.kernel_initializer)
        return config


@keras.saving.register_keras_serializable(package="keras_albert")
class BeamSpanHead(keras.layers.Layer):
    """ALBERT's head for SQuAD 2.0: a start, an end given the start, and whether there is no answer.

    Only tokens of the context, and [CLS] for "no answer", can start or end a span. In training the
    end is conditioned on the true start. For inference the `beam_size` most probable starts are
    followed, each to its `beam_size` most probable ends.

    Args:
        beam_size: K.
        dropout: rate of dropout before the answerability logit.
        layer_norm_epsilon: added to the variance.
        kernel_initializer: of the projections.

    Call arguments:
        sequence_output: (B, S, H).
        segment_ids: (B, S) integers, 1 for the context and the [SEP] after it.
        padding_mask: (B, S) bool, true for tokens that are not padding.
        start_positions: (B,) integers, the true starts; any valid index at inference.
        training: whether dropout is active.

    Returns:
        A dict, all in float32 but the indices:
        `"start"` (B, S), logits; `"end"` (B, S), logits given `start_positions`;
        `"unanswerable"` (B,), a logit;
        `"beam_starts"` (B, K) and `"beam_ends"` (B, K, K), int32 positions;
        `"beam_start_log_probs"` (B, K) and `"beam_end_log_probs"` (B, K, K).

    Source: Lan et al. (2020), section 4.1 (as XLNet); `create_v2_model` of Google's `squad_utils`.

    Example:
    ```python
    head = keras_albert.layers.BeamSpanHead()
    head(
        keras.random.normal((1, 8, 4)),
        segment_ids=np.array([[0, 0, 0, 1, 1, 1, 1, 0]]),
        padding_mask=np.array([[1, 1, 1, 1, 1, 1, 1, 0]]),
        start_positions=np.array([3]),
    )["beam_ends"].shape  # (1, 5, 5)
    ```
    """

    def __init__(
        self,
        beam_size=5,
        dropout=0.1,
        layer_norm_epsilon=1e-12,
        kernel_initializer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive_integers("BeamSpanHead", beam_size=beam_size)
        check_rates("BeamSpanHead", dropout=dropout)
        check_positive_numbers("BeamSpanHead", layer_norm_epsilon=layer_norm_epsilon)
        self.beam_size = beam_size
        self.dropout = dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.kernel_initializer = get_initializer(kernel_initializer)

    def build(
        self,
        sequence_output_shape,
        segment_ids_shape=None,
        padding_mask_shape=None,
        start_positions_shape=None,
    ):
        hidden_dim = sequence_output_shape[-1]
        one, two = (None, None, hidden_dim), (None, None, 2 * hidden_dim)
        self.start_dense = self._dense("start_dense", 1, one)
        self.end_hidden = self._dense("end_hidden", hidden_dim, two)
        self.end_norm = keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name="end_norm"
        )
        self.end_norm.build(one)
        self.end_dense = self._dense("end_dense", 1, one)
        self.answer_hidden = self._dense("answer_hidden", hidden_dim, two, activation="tanh")
        self.answer_dropout = Dropout(self.dropout, dtype=self.dtype_policy, name="answer_dropout")
        self.answer_dense = self._dense("answer_dense", 1, one, use_bias=False)

    def _dense(self, name, units, input_shape, **options):
        dense = keras.layers.Dense(
            units,
            kernel_initializer=self.kernel_initializer.clone(),
            dtype=self.dtype_policy,
            name=name,
            **options,
        )
        dense.build(input_shape)
        return dense

    def call(self, sequence_output, segment_ids, padding_mask, start_positions, training=None):
        h_BSH = sequence_output
        allowed_BS = _may_be_answer(segment_ids, padding_mask)
        start_BS = ops.cast(self.start_dense(h_BSH)[..., 0], "float32")
        start_BS = ops.where(allowed_BS, start_BS, _NEVER)
        start_log_probs_BS = ops.log_softmax(start_BS)
        beam_log_probs_BK, beam_starts_BK = self._top(start_log_probs_BS)

        true_start_B1 = ops.expand_dims(ops.cast(start_positions, "int32"), -1)
        end_BS = self._end_logits(h_BSH, true_start_B1, allowed_BS)[:, 0]
        end_BKS = self._end_logits(h_BSH, beam_starts_BK, allowed_BS)
        end_log_probs_BKK, beam_ends_BKK = self._top(ops.log_softmax(end_BKS))

        p_BS = ops.cast(ops.exp(start_log_probs_BS), self.compute_dtype)
        summary_BH = ops.einsum("bs,bsh->bh", p_BS, h_BSH)
        answer = self.answer_hidden(ops.concatenate([summary_BH, h_BSH[:, 0]], axis=-1))
        answer = self.answer_dense(self.answer_dropout(answer, training=training))
        return {
            "start": start_BS,
            "end": end_BS,
            "unanswerable": ops.cast(answer[:, 0], "float32"),
            "beam_starts": beam_starts_BK,
            "beam_start_log_probs": beam_log_probs_BK,
            "beam_ends": beam_ends_BKK,
            "beam_end_log_probs": end_log_probs_BKK,
        }

    def _end_logits(self, h_BSH, starts_BK, allowed_BS):
        """Logits (B, K, S) of the end, given each of K starts.

        concat(h, h_start) W = h W_1 + h_start W_2: the large product is computed once.
        """
        hidden_dim = h_BSH.shape[-1]
        kernel = ops.cast(self.end_hidden.kernel, self.compute_dtype)
        h_start_BKH = ops.take_along_axis(h_BSH, starts_BK[..., None], axis=1)
        of_token = ops.matmul(h_BSH, kernel[:hidden_dim])
        of_start = ops.matmul(h_start_BKH, kernel[hidden_dim:])
        bias = ops.cast(self.end_hidden.bias, self.compute_dtype)
        x_BKSH = ops.tanh(of_token[:, None] + of_start[:, :, None] + bias)
        logits_BKS = ops.cast(self.end_dense(self.end_norm(x_BKSH))[..., 0], "float32")
        return ops.where(allowed_BS[:, None], logits_BKS, _NEVER)

    def _top(self, log_probs):
        """The K best along the last axis, which may be shorter than K: then the last repeats."""
        length = ops.shape(log_probs)[-1]
        if isinstance(length, int) and length < self.beam_size:
            missing = self.beam_size - length
            padding = [(0, 0)] * (len(log_probs.shape) - 1) + [(0, missing)]
            log_probs = ops.pad(log_probs, padding, constant_values=_NEVER)
        values, indices = ops.top_k(log_probs, self.beam_size)
        return values, ops.cast(indices, "int32")

    def compute_output_spec(
        self, sequence_output, segment_ids, padding_mask, start_positions, training=None
    ):
        batch, length = sequence_output.shape[:2]
        k = self.beam_size
        shapes = {
            "start": (batch, length),
            "end": (batch, length),
            "unanswerable": (batch,),
            "beam_starts": (batch, k),
            "beam_start_log_probs": (batch, k),
            "beam_ends": (batch, k, k),
            "beam_end_log_probs": (batch, k, k),
        }
        integers = {"beam_starts", "beam_ends"}
        return {
            name: keras.KerasTensor(shape, dtype="int32" if name in integers else "float32")
            for name, shape in shapes.items()
        }

    def get_config(self):
        config = super().get_config()
        config.update(
            {
                "beam_size": self.beam_size,
                "dropout": self.dropout,
                "layer_norm_epsilon": self.layer_norm_epsilon,
                "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            }
        )
        return config


def _may_be_answer(segment_ids, padding_mask):
    """(B, S): the context without the [SEP] after it, and [CLS], which stands for no answer."""
    context_BS = ops.logical_and(
        ops.cast(segment_ids, "int32") == 1, ops.cast(padding_mask, "bool")
    )
    next_BS = ops.concatenate([context_BS[:, 1:], ops.zeros_like(context_BS[:, :1])], axis=1)
    first_BS = ops.cumsum(ops.ones_like(ops.cast(context_BS, "int32")), axis=1) == 1
    return ops.logical_or(ops.logical_and(context_BS, next_BS), first_BS)
