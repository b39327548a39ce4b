"""Checkpoints of other programs: read with heads, described, changed, and written.

`from_preset` of the models reads them all; see `loading`.
"""

from keras_albert.checkpoints.architecture import change_architecture
from keras_albert.checkpoints.google import load_google_checkpoint
from keras_albert.checkpoints.loading import load, load_tokenizer
from keras_albert.checkpoints.report import report
from keras_albert.checkpoints.writing import to_google, to_huggingface, to_preset

__all__ = [
    "change_architecture",
    "load",
    "load_google_checkpoint",
    "load_tokenizer",
    "report",
    "to_google",
    "to_huggingface",
    "to_preset",
]
