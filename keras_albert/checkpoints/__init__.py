"""Checkpoints of other programs."""

from keras_albert.checkpoints.google import load_google_checkpoint

__all__ = ["load_google_checkpoint"]
