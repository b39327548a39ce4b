"""Filling masks: text with [MASK] in it -> the most probable tokens.

Shapes: B batch, S sequence, P predictions, V vocabulary.
"""

from typing import NamedTuple

import numpy as np
from keras import ops

from keras_albert.arguments import is_integer

BATCH_SIZE = 32


class FilledMask(NamedTuple):
    """One candidate for a mask."""

    token: str
    probability: float
    token_id: int


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
    rows = [_encode(model, text) for text in texts]
    masks = [[i for i, id in enumerate(row) if id == tokenizer.mask_token_id] for row in rows]
    token_ids_BS = _pad(rows, tokenizer.pad_token_id)
    lengths = np.array([[len(row)] for row in rows])
    outputs = model(
        {
            "token_ids": token_ids_BS,
            "segment_ids": np.zeros_like(token_ids_BS),
            "padding_mask": np.arange(token_ids_BS.shape[1])[None] < lengths,
            "mask_positions": _pad(masks, 0),
        },
        training=False,
    )
    probabilities_BPV = ops.convert_to_numpy(ops.softmax(outputs["mlm"]))
    results = []
    for probabilities_PV, positions in zip(probabilities_BPV, masks, strict=True):
        filled = [_best(tokenizer, probabilities_PV[p], top_k) for p in range(len(positions))]
        results.append(filled[0] if len(filled) == 1 else filled)
    return results


def _encode(model, text):
    tokenizer = model.preprocessor.tokenizer
    inner = tokenizer.encode_with_mask(text)
    if tokenizer.mask_token_id not in inner:
        raise ValueError(
            f"The text must hold {tokenizer.mask_token} where a token is to be filled in. "
            f"Received: {text!r}"
        )
    row = [tokenizer.cls_token_id, *inner, tokenizer.sep_token_id]
    if len(row) > model.backbone.max_sequence_length:
        raise ValueError(
            f"The text has {len(row)} tokens with [CLS] and [SEP], and the model has "
            f"{model.backbone.max_sequence_length} positions: shorten it. "
            f"Received: {text[:60]!r}..."
        )
    return row


def _pad(rows, value):
    width = max(len(row) for row in rows)
    return np.array([row + [value] * (width - len(row)) for row in rows], dtype="int32")


def _best(tokenizer, probabilities_V, top_k):
    # A backbone may have more rows than the tokenizer has pieces; those have no name.
    probabilities_V = probabilities_V[: tokenizer.vocabulary_size()]
    best = np.argsort(-probabilities_V, kind="stable")[:top_k]
    return [
        FilledMask(_text(tokenizer.id_to_token(int(id))), float(probabilities_V[id]), int(id))
        for id in best
    ]


def _text(piece):
    return piece.removeprefix("\u2581") or piece  # the piece that is a space alone keeps its mark
