"""DepthSteps: a classifier computed depth by depth, so that examples leave in between.

Shapes: B batch, N rows that are left of it, S sequence, H hidden, L depths, C classes.
"""

import itertools

import keras
import numpy as np
from keras import ops

INPUTS = {"token_ids": "int32", "segment_ids": "int32", "padding_mask": "bool"}


class DepthSteps:
    """A batch through the depths of a classifier that has `exits`.

    One compiled function serves every depth, as weights are among its arguments: those of a depth
    have the same shapes under every sharing plan. All heads are computed at every depth, which
    costs next to nothing beside a block. JAX and, where the model is compiled so, TensorFlow
    compile with XLA, anew for each number of rows: there the rows are powers of two. PyTorch runs
    as it is, with exactly the rows that are left.

    Args:
        model: an `AlbertTextClassifier` with `early_exit=True`.
    """

    def __init__(self, model):
        self.model = model
        backbone = model.backbone
        count = backbone.num_inner_repetitions
        blocks = backbone.encoder.blocks
        self.depths = [blocks[start : start + count] for start in range(0, len(blocks), count)]
        self.heads = [backbone.pooler, model.exits, model.classifier]
        backend = keras.backend.backend()
        self.uses_xla = backend != "torch" and model.jit_compile and not model.run_eagerly
        self._embed = self._compiled(self._embed_with)
        self._advance = self._compiled(self._advance_with)

    def leave(self, inputs, patience: int, threshold: float):
        """Each example until its heads have agreed `patience` times on end.

        Args:
            inputs: the model's, of one batch.
            patience: see `AlbertTextClassifier`.
            threshold: see `agree`.

        Returns:
            Logits (B, C) of the head at which each example left, and its depth (B,), from 1.
        """
        x, mask = self.embed(inputs)
        batch = x.shape[0]
        answers = np.zeros((batch, self.model.num_classes), "float32")
        left_at = np.zeros(batch, "int32")
        # Of each row of x: which example it is, whether that is undecided, its agreements on end.
        places, is_in = np.arange(batch), np.ones(batch, bool)
        counts, before = np.zeros(batch, int), None
        for depth in range(len(self.depths)):
            x, logits_NC = self.advance(depth, x, mask)
            if before is not None:
                counts = np.where(agree(before, logits_NC, threshold), counts + 1, 0)
            is_last = depth == len(self.depths) - 1
            leaves = is_in & ((counts >= patience) | is_last)
            answers[places[leaves]] = logits_NC[leaves]
            left_at[places[leaves]] = depth + 1
            is_in &= ~leaves
            before = logits_NC
            stay = np.flatnonzero(is_in)
            if not len(stay):
                break
            rows = min(_power_of_two(len(stay)), batch) if self.uses_xla else len(stay)
            if rows < len(places):
                kept = np.resize(stay, rows)  # some of them once more, to fill the shape
                x, mask = (ops.take(values, kept, axis=0) for values in (x, mask))
                places, counts, before = places[kept], counts[kept], before[kept]
                is_in = np.arange(rows) < len(stay)
        return answers, left_at

    def every_depth(self, inputs):
        """The logits (B, L, C) of all heads; no example leaves."""
        x, mask = self.embed(inputs)
        logits = []
        for depth in range(len(self.depths)):
            x, logits_BC = self.advance(depth, x, mask)
            logits.append(logits_BC)
        return np.stack(logits, axis=1)

    def embed(self, inputs):
        """The encoder's input (B, S, H), and the mask (B, S)."""
        ids, segments, mask = (
            ops.cast(ops.convert_to_tensor(inputs[name]), dtype) for name, dtype in INPUTS.items()
        )
        return self._embed(_values([self.model.backbone.embedding]), ids, segments), mask

    def advance(self, depth: int, x, mask):
        """The output (N, S, H) of a depth, and the logits (N, C) of its head as an array."""
        x, logits_NLC = self._advance(_values(self._layers(depth)), x, mask)
        return x, ops.convert_to_numpy(logits_NLC)[:, depth]

    def _layers(self, depth):
        return [*self.depths[depth], *self.heads]

    def _embed_with(self, values, token_ids, segment_ids):
        layer = self.model.backbone.embedding
        with keras.StatelessScope(_mapping([layer], values)):
            return layer(token_ids, segment_ids=segment_ids, training=False)

    def _advance_with(self, values, x, mask):
        with keras.StatelessScope(_mapping(self._layers(0), values)):
            for block in self.depths[0]:
                x = block(x, attention_mask=mask, training=False)
            pooled_N1H = self.model.backbone.pooler(x)[:, None]
            pooled_NLH = ops.repeat(pooled_N1H, len(self.depths), axis=1)
            return x, self.model.score(pooled_NLH)

    def _compiled(self, function):
        backend = keras.backend.backend()
        if backend == "torch":
            import torch

            return torch.no_grad()(function)
        if backend == "jax" and self.uses_xla:
            import jax

            return jax.jit(function)
        if backend == "tensorflow" and not self.model.run_eagerly:
            import tensorflow as tf

            return tf.function(
                function, jit_compile=self.uses_xla, reduce_retracing=True, autograph=False
            )
        return function


def agree(before_NC, now_NC, threshold: float):
    """Whether two heads agree (N,): on the class; of numbers (C = 1), to less than `threshold`."""
    if now_NC.shape[-1] == 1:
        return np.abs(now_NC - before_NC)[..., 0] < threshold
    return before_NC.argmax(axis=-1) == now_NC.argmax(axis=-1)


def leaving_depths(logits_BLC, patience: int, threshold: float):
    """The depth (B,), from 1, at which each example leaves, from the logits of all heads."""
    batch, depths, _ = logits_BLC.shape
    counts, left_at = np.zeros(batch, int), np.full(batch, depths, "int32")
    for depth in range(1, depths):
        agrees = agree(logits_BLC[:, depth - 1], logits_BLC[:, depth], threshold)
        counts = np.where(agrees, counts + 1, 0)
        left_at[(counts >= patience) & (left_at == depths)] = depth + 1
    return left_at


def as_predict_function(model, compute):
    """`compute`, from the inputs of a batch to arrays, as Keras' `predict` calls it.

    Raises:
        ValueError: the model has several replicas.
    """

    def on_batches(batches):
        outputs = [compute(keras.utils.unpack_x_y_sample_weight(batch)[0]) for batch in batches]
        return keras.tree.map_structure(
            lambda *parts: ops.convert_to_tensor(np.concatenate(parts)), *outputs
        )

    def with_state(state, iterator):
        # While it predicts, the model's own variables are empty under JAX.
        batches = [next(iterator), *itertools.islice(iterator, model.steps_per_execution - 1)]
        variables = model.trainable_variables + model.non_trainable_variables
        values = [*state[0], *state[1]]
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return on_batches(batches), state

    return with_state if keras.backend.backend() == "jax" else on_batches


def _values(layers):
    return [weight.value for layer in layers for weight in layer.weights]


def _mapping(layers, values):
    weights = [weight for layer in layers for weight in layer.weights]
    return list(zip(weights, values, strict=True))


def _power_of_two(count: int) -> int:
    """The lowest that is not below `count`."""
    return 1 << (count - 1).bit_length()
