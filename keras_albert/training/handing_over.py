"""What `fit` does for the callbacks that need to know the data."""

import keras

from keras_albert.training.log import TrainingLog
from keras_albert.training.state import TrainingState


def hand_over(data, callbacks):
    """Tells a run's `TrainingLog` and `TrainingState` which data it is for.

    Args:
        data: the stream that `fit` was given.
        callbacks: those that `fit` was given: one, a list, or None.

    Returns:
        What to train on: `data`, or that of `TrainingState.batches`.
    """
    callbacks = keras.tree.flatten(getattr(callbacks, "callbacks", callbacks) or [])
    for callback in callbacks:
        if isinstance(callback, TrainingLog):
            callback.watch(data)
    for callback in callbacks:
        if isinstance(callback, TrainingState):
            return callback.batches(data)
    return data
