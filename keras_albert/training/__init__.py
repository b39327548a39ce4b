"""Optimizers, schedules, losses, metrics; runs that are logged, safe and go on after a kill."""

from keras_albert.training.adamw import AdamW
from keras_albert.training.lamb import Lamb
from keras_albert.training.layouts import layout_map
from keras_albert.training.log import TrainingLog
from keras_albert.training.losses import MaskedLMLoss
from keras_albert.training.memory import keep_freed_memory
from keras_albert.training.metrics import (
    F1Score,
    MatthewsCorrelation,
    PearsonCorrelation,
    SpearmanCorrelation,
)
from keras_albert.training.safety import SkipNonFinite
from keras_albert.training.schedules import WarmupPolynomialDecay
from keras_albert.training.state import TrainingState

__all__ = [
    "AdamW",
    "F1Score",
    "Lamb",
    "MaskedLMLoss",
    "MatthewsCorrelation",
    "PearsonCorrelation",
    "SkipNonFinite",
    "SpearmanCorrelation",
    "TrainingLog",
    "TrainingState",
    "WarmupPolynomialDecay",
    "keep_freed_memory",
    "layout_map",
]
