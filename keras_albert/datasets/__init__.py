"""Readers of the sets that models are fine-tuned on, and their official scores.

No Keras here: everything is strings, lists and NumPy arrays.
"""

from keras_albert.datasets.choices import load_race, load_swag
from keras_albert.datasets.examples import Examples
from keras_albert.datasets.glue import load_glue
from keras_albert.datasets.glue_tasks import GLUE_TASKS, GlueTask, find_task, write_submission
from keras_albert.datasets.scores import glue_scores, span_f1
from keras_albert.datasets.squad import SquadExample, load_squad
from keras_albert.datasets.squad_score import squad_score
from keras_albert.datasets.tagging import load_conll

__all__ = [
    "GLUE_TASKS",
    "Examples",
    "GlueTask",
    "SquadExample",
    "find_task",
    "glue_scores",
    "load_conll",
    "load_glue",
    "load_race",
    "load_squad",
    "load_swag",
    "span_f1",
    "squad_score",
    "write_submission",
]
