"""Optimizer, schedules and losses."""

from keras_albert.training.lamb import Lamb
from keras_albert.training.losses import MaskedLMLoss
from keras_albert.training.schedules import WarmupPolynomialDecay

__all__ = ["Lamb", "MaskedLMLoss", "WarmupPolynomialDecay"]
