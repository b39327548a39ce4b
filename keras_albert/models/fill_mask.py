"""Filling masks: text with [MASK] in it -> the most probable tokens."""

from keras import ops

from keras_albert.arguments import is_integer
from keras_albert.preprocessing.mask_filling import BATCH_SIZE, fill_texts


def fill_mask(model, text, top_k=5):
    """The `top_k` most probable tokens for every [MASK] in a text.

    Args:
        model: an `AlbertPretrainer` with a preprocessor.
        text: a string that holds `[MASK]` once or more, or a list of such strings.
        top_k: candidates per mask.

    Returns:
        For a string with one mask, a list of `FilledMask(token, probability, token_id)`, the most
        probable first; for a string with several masks, a list of such lists; for a list of
        strings, a list with one of these for each.

    Raises:
        ValueError: the model has no preprocessor; a text has no `[MASK]` or is longer than the
            model's positions; `top_k` is out of range.

    Example:
    ```python
    model = keras_albert.AlbertPretrainer.from_preset("run/preset")
    for token, probability, _ in model.fill_mask("Paris is the [MASK] of France.", top_k=5):
        print(f"{probability:.3f} {token}")
    ```
    """
    if model.preprocessor is None:
        raise ValueError(
            "`fill_mask` needs a tokenizer: make the model with `preprocessor="
            "AlbertPretrainerPreprocessor(tokenizer)`, or load one that was saved with it."
        )
    if not is_integer(top_k) or not 1 <= top_k <= model.backbone.vocabulary_size:
        raise ValueError(
            "`top_k` must be an integer from 1 to the vocabulary's size, "
            f"{model.backbone.vocabulary_size}. Received: {top_k!r}"
        )
    if isinstance(text, str):
        return _fill_batch(model, [text], top_k)[0]
    if not isinstance(text, (list, tuple)) or not all(isinstance(t, str) for t in text):
        raise ValueError(f"`text` must be a string or a list of strings. Received: {text!r}")
    results = []
    for start in range(0, len(text), BATCH_SIZE):
        results += _fill_batch(model, list(text[start : start + BATCH_SIZE]), top_k)
    return results


def _fill_batch(model, texts, top_k):
    tokenizer = model.preprocessor.tokenizer

    def probabilities(x):
        return ops.convert_to_numpy(ops.softmax(model(x, training=False)["mlm"]))

    return fill_texts(probabilities, tokenizer, texts, top_k, model.backbone.max_sequence_length)
