"""Several texts in one row, so that a batch of short texts carries little padding.

A row holds texts one after the other, each from [CLS] to its last [SEP]; tokens attend to their own
text alone, and positions begin anew with each.
"""

import numpy as np

ROW = 128  # tokens of a row: attention costs little beside the rest, and few tokens are left over


def pack_texts(x, limit=ROW):
    """Put the rows of a batch together.

    Rows are filled longest text first, each into the first row that it fits into. Numbers of rows
    and of texts in a row are rounded up, as JAX and XLA compile a model anew for each shape; so is
    S, by whoever made the batch.

    Args:
        x: a dict of `"token_ids"`, `"segment_ids"` and `"padding_mask"`, (N, S) each, N texts.
        limit: tokens of a row L, where S is not more.

    Returns:
        A dict of the same three, (R, L), and
        `"text_ids"` int32 (R, L): which text of its row a token is of, from 1; 0 for padding;
        `"position_ids"` int32 (R, L): the place of a token in its text;
        `"first_positions"` int32 (R, Q): where the texts of a row begin, 0 for places left over;
        `"answers"` int32 (N,): which of the R * Q beginnings is that of each text of `x`.
    """
    lengths = np.asarray(x["padding_mask"]).sum(axis=1)
    length = max(limit, x["token_ids"].shape[1])
    rows, room = [], []
    for text in np.argsort(-lengths, kind="stable"):
        place = next((i for i, left in enumerate(room) if left >= lengths[text]), len(rows))
        if place == len(rows):
            rows.append([])
            room.append(length)
        rows[place].append(int(text))
        room[place] -= lengths[text]
    count = _rounded_up(len(rows), max(1, len(lengths) // 16))
    slots = _rounded_up(max(map(len, rows)), 4)
    names = ("token_ids", "segment_ids", "padding_mask")
    packed = {name: np.zeros((count, length), x[name].dtype) for name in names}
    packed["text_ids"] = np.zeros((count, length), "int32")
    packed["position_ids"] = np.zeros((count, length), "int32")
    packed["first_positions"] = np.zeros((count, slots), "int32")
    packed["answers"] = np.zeros(len(lengths), "int32")
    pad = x["token_ids"][~np.asarray(x["padding_mask"], bool)]
    packed["token_ids"][:] = pad[0] if len(pad) else 0
    for row, texts in enumerate(rows):
        begin = 0
        for slot, text in enumerate(texts):
            end = begin + lengths[text]
            for name in names:
                packed[name][row, begin:end] = x[name][text, : lengths[text]]
            packed["text_ids"][row, begin:end] = slot + 1
            packed["position_ids"][row, begin:end] = np.arange(lengths[text])
            packed["first_positions"][row, slot] = begin
            packed["answers"][text] = row * slots + slot
            begin = end
    return packed


def _rounded_up(count, step):
    return -(-count // step) * step
