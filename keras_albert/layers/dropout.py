"""Dropout whose masks differ between the replicas of a step."""

import contextlib
import threading

import keras
from keras import ops

_FAR = 1_000_003  # a prime: seeds of replicas do not meet those of layers
_replica = threading.local()  # replicas are traced in threads of their own


@contextlib.contextmanager
def masks_of_replica(number):
    """Inside, every `Dropout` draws the masks of one of several replicas.

    Args:
        number: of the replica, a scalar tensor or an int. Replica 0 draws what a single device
            draws.
    """
    _replica.number = number
    try:
        yield
    finally:
        _replica.number = None


@keras.saving.register_keras_serializable(package="keras_albert")
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout`, with masks of its own on every replica of a `tf.distribute` step.

    Keras keeps one seed, the same on all replicas, and so would drop the same places of different
    examples. Outside of `masks_of_replica` nothing differs from Keras' layer.

    Args:
        rate, noise_shape, seed: see `keras.layers.Dropout`.
    """

    def call(self, inputs, training=False):
        number = getattr(_replica, "number", None)
        if number is None or not (training and self.rate > 0):
            return super().call(inputs, training=training)
        seed = _SeedOfReplica(self.seed_generator, number)
        return keras.random.dropout(inputs, self.rate, noise_shape=self.noise_shape, seed=seed)


class _SeedOfReplica(keras.random.SeedGenerator):
    """Draws from another generator, and moves its seed by the replica's number."""

    def __init__(self, generator, number):  # not Keras' own, which would make a variable
        self.generator, self.number = generator, number

    def next(self, ordered=True):
        seed = self.generator.next(ordered)
        move = ops.cast(self.number, seed.dtype) * _FAR
        return seed + ops.stack([move, ops.zeros_like(move)])
