"""Optimizer, schedules, losses and metrics."""

from keras_albert.training.adamw import AdamW
from keras_albert.training.lamb import Lamb
from keras_albert.training.losses import MaskedLMLoss
from keras_albert.training.metrics import (
    F1Score,
    MatthewsCorrelation,
    PearsonCorrelation,
    SpearmanCorrelation,
)
from keras_albert.training.schedules import WarmupPolynomialDecay

__all__ = [
    "AdamW",
    "F1Score",
    "Lamb",
    "MaskedLMLoss",
    "MatthewsCorrelation",
    "PearsonCorrelation",
    "SpearmanCorrelation",
    "WarmupPolynomialDecay",
]
