"""The task models that can be exported."""

from keras_albert.models.multiple_choice import AlbertMultipleChoice
from keras_albert.models.pretrainer import AlbertPretrainer
from keras_albert.models.span_extractor import AlbertSpanExtractor
from keras_albert.models.text_classifier import AlbertTextClassifier
from keras_albert.models.text_embedder import AlbertTextEmbedder
from keras_albert.models.token_classifier import AlbertTokenClassifier

TASKS = (
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanExtractor,
    AlbertTextClassifier,
    AlbertTextEmbedder,
    AlbertTokenClassifier,
)


def check_task(owner: str, model) -> None:
    """Raise a `ValueError` for what is no task model."""
    if not isinstance(model, TASKS):
        names = ", ".join(task.__name__ for task in TASKS)
        raise ValueError(
            f"`model` of {owner} must be one of {names}. Received: {type(model).__name__}"
        )
