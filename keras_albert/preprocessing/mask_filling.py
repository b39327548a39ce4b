"""Texts with [MASK] in them to ids, and probabilities to tokens; without Keras.

Shapes: B batch, S sequence, P predictions, V vocabulary.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

BATCH_SIZE = 32


class FilledMask(NamedTuple):
    """One candidate for a mask."""

    token: str
    probability: float
    token_id: int


def fill_texts(probabilities: Callable, tokenizer, texts, top_k: int, limit: int) -> list:
    """Fill the masks of one batch of texts; see `models.fill_mask.fill_mask`.

    Args:
        probabilities: a function of a model's inputs that gives an array (B, P, V).
        tokenizer: with `encode_batch`, `mask_token` and the ids of special tokens.
        texts: a list of strings.
        top_k: candidates per mask.
        limit: the model's positions.

    Raises:
        ValueError: a text has no `[MASK]`, or more tokens than `limit`.
    """
    rows = [_encode(tokenizer, text, limit) for text in texts]
    masks = [[i for i, id in enumerate(row) if id == tokenizer.mask_token_id] for row in rows]
    token_ids_BS = _pad(rows, tokenizer.pad_token_id)
    lengths = np.array([[len(row)] for row in rows])
    probabilities_BPV = probabilities(
        {
            "token_ids": token_ids_BS,
            "segment_ids": np.zeros_like(token_ids_BS),
            "padding_mask": np.arange(token_ids_BS.shape[1])[None] < lengths,
            "mask_positions": _pad(masks, 0),
        }
    )
    results = []
    for probabilities_PV, positions in zip(probabilities_BPV, masks, strict=True):
        filled = [_best(tokenizer, probabilities_PV[p], top_k) for p in range(len(positions))]
        results.append(filled[0] if len(filled) == 1 else filled)
    return results


def encode_with_mask(tokenizer, text) -> list[int]:
    """Ids of a text in which the mask token stands for itself."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="replace")
    first, *rest = tokenizer.encode_batch(text.split(tokenizer.mask_token))
    return first + [id for part in rest for id in (tokenizer.mask_token_id, *part)]


def _encode(tokenizer, text, limit):
    inner = encode_with_mask(tokenizer, text)
    if tokenizer.mask_token_id not in inner:
        raise ValueError(
            f"The text must hold {tokenizer.mask_token} where a token is to be filled in. "
            f"Received: {text!r}"
        )
    row = [tokenizer.cls_token_id, *inner, tokenizer.sep_token_id]
    if len(row) > limit:
        raise ValueError(
            f"The text has {len(row)} tokens with [CLS] and [SEP], and the model has "
            f"{limit} positions: shorten it. Received: {text[:60]!r}..."
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
