"""Several texts in one row, so that a batch of short texts carries little padding.

A row holds texts one after the other, each from [CLS] to its last [SEP]; tokens attend to their own
text alone, and positions begin anew with each.

N texts in R rows. S tokens of a text at most, L of a row. A head reads M places of each text, K of
a row.
"""

import numpy as np

ROW = 128  # tokens of a row: attention costs little beside the rest, and few tokens are left over


def pack_texts(x, limit=ROW, places_NM=None):
    """Put the rows of a batch together.

    Rows are filled longest text first, each into the first row that it fits into. R and K are
    rounded up, as JAX and XLA compile a model anew for each shape; so is S, by whoever made the
    batch.

    Args:
        x: a dict of `"token_ids"`, `"segment_ids"` and `"padding_mask"`, (N, S) each; padding
            stands at the end.
        limit: tokens of a row L, where S is not more.
        places_NM: int (N, M), the tokens of each text that a head reads: 0, which is [CLS], and
            then others, filled up with 0. None is [CLS] alone.

    Returns:
        A dict of the same three, (R, L), and
        `"text_ids"` int32 (R, L): which text of its row a token is of, from 1; 0 for padding;
        `"position_ids"` int32 (R, L): the place of a token in its text;
        `"positions"` int32 (R, K): the tokens of a row that a head reads, filled up with 0;
        `"answers"` int32 (N, M): which of those R * K each of `places_NM` is.

    Raises:
        ValueError: a place is not in its text; in a packed row it would be in another.
    """
    mask_NS = np.asarray(x["padding_mask"], bool)
    if places_NM is None:
        places_NM = np.zeros((len(mask_NS), 1), "int32")
    is_read_NM = places_NM > 0
    is_read_NM[:, 0] = True
    lengths_N = np.maximum(mask_NS.sum(1), 1)  # what is read of an empty text is padding
    if (beyond := places_NM >= lengths_N[:, None]).any():
        text, column = np.argwhere(beyond)[0]
        raise ValueError(
            "The places that a head reads, masked positions among them, must be within their "
            f"text. Received: place {places_NM[text, column]} of a text of {lengths_N[text]} "
            f"tokens, row {text} of its batch"
        )
    length = max(limit, mask_NS.shape[1])
    taken_N3 = np.stack([lengths_N, is_read_NM.sum(1), np.ones_like(lengths_N)], 1)
    row_N, before_N3, filled_R3 = _first_fit(taken_N3, length)
    begin_N, slot_N, number_N = before_N3.T
    rows = _rounded_up(len(filled_R3), max(1, len(lengths_N) // 16))
    slots = _rounded_up(filled_R3[:, 1].max(), max(4, length // 16))

    text_T, place_T = np.nonzero(mask_NS)  # of all tokens
    target_T = (row_N * length + begin_N)[text_T] + place_T

    def spread(values_T, dtype, fill=0):
        found = np.full(rows * length, fill, dtype)
        found[target_T] = values_T
        return found.reshape(rows, length)

    padding = np.asarray(x["token_ids"])[~mask_NS]
    fill = {"token_ids": padding[0] if padding.size else 0}
    names = ("token_ids", "segment_ids", "padding_mask")
    packed = {name: spread(x[name][mask_NS], x[name].dtype, fill.get(name, 0)) for name in names}
    packed["text_ids"] = spread(number_N[text_T] + 1, "int32")
    packed["position_ids"] = spread(place_T, "int32")

    # What is filled up reads [CLS].
    nth_NM = np.where(is_read_NM, is_read_NM.cumsum(1) - 1, 0)
    answers_NM = (row_N * slots + slot_N)[:, None] + nth_NM
    packed["positions"] = np.zeros((rows, slots), "int32")
    packed["positions"].flat[answers_NM] = begin_N[:, None] + np.where(is_read_NM, places_NM, 0)
    packed["answers"] = answers_NM.astype("int32")
    return packed


def _first_fit(taken_N3, limit):
    """Where each text stands: its row (N,), what stands before it there (N, 3), and (R, 3) of rows.

    The three are tokens, of which a row has `limit`, places that are read, and texts.
    """
    row_N, before_N3, filled_R3 = np.zeros(len(taken_N3), "int64"), np.zeros_like(taken_N3), []
    room = []
    for text in np.argsort(-taken_N3[:, 0], kind="stable"):
        size = taken_N3[text, 0]
        row = next((row for row, left in enumerate(room) if left >= size), len(room))
        if row == len(room):
            room.append(limit)
            filled_R3.append(np.zeros(3, "int64"))
        row_N[text], before_N3[text] = row, filled_R3[row]
        filled_R3[row] += taken_N3[text]
        room[row] -= size
    return row_N, before_N3, np.stack(filled_R3)


def _rounded_up(count, step):
    return -(-int(count) // step) * step
