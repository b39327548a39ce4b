"""Windows over a context that is too long for one input, and which of them sees a token best.

Both rules are those of BERT's and ALBERT's `run_squad`.
"""

import numpy as np

from keras_albert.arguments import check_integers, check_positive_integers


def split_windows(length: int, capacity: int, stride: int) -> list[tuple[int, int]]:
    """Cover a context of `length` tokens with windows of at most `capacity`.

    Args:
        length: tokens of the context; 0 gives one empty window, so that every question has one.
        capacity: tokens that fit beside the question.
        stride: tokens from the start of one window to that of the next; where it is more than
            `capacity`, no token is passed over all the same.

    Returns:
        A list of `(begin, end)`. The last window ends with the context.

    Raises:
        ValueError: a number is out of range.

    Example:
    >>> split_windows(10, capacity=6, stride=3)
    [(0, 6), (3, 9), (6, 10)]
    """
    check_integers("split_windows", 0, length=length)
    check_positive_integers("split_windows", capacity=capacity, stride=stride)
    step = min(stride, capacity)
    begins = range(0, max(length - capacity, 0) + step, step)
    return [(begin, min(begin + capacity, length)) for begin in begins]


def maximum_context(windows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Give each token of a context to the window in which it has most context.

    That is the window with the greatest `min(tokens to its left, tokens to its right) + 0.01 *
    window length`, and the first of several. Answers start only where their window is that one, so
    that no answer is counted twice.

    Args:
        windows: `(begin, end)` of each, as `split_windows` gives them.

    Returns:
        For each window the `(begin, end)` of its tokens, in tokens of the context; together they
        are all tokens, each once.

    Example:
    >>> maximum_context([(0, 6), (3, 9), (6, 10)])
    [(0, 5), (5, 7), (7, 10)]
    """
    if len(windows) == 1:
        return list(windows)
    begin_W, end_W = np.array(windows).T[:, :, None]
    token_T = np.arange(end_W[-1, 0])
    context_WT = np.minimum(token_T - begin_W, end_W - 1 - token_T)
    score_WT = np.where(context_WT >= 0, context_WT + 0.01 * (end_W - begin_W), -1)
    best_T = score_WT.argmax(0)
    # Of two windows the later one has less to the left and more to the right of every token: what
    # a window keeps is one range.
    bounds = np.searchsorted(best_T, np.arange(len(windows) + 1)).tolist()
    return list(zip(bounds[:-1], bounds[1:], strict=True))
