"""Parameter sharing as data: which sublayers each depth of the encoder uses.

Nothing here knows of Keras. A plan is a tuple of `(attention index, feed-forward index)`, one
pair per application of a block, in order; equal indices mean the same instance.
"""

from keras_albert.arguments import check_positive_integers

STRATEGIES = ("all", "attention", "ffn", "none")


def sharing_plan(
    sharing: str, num_layers: int, num_groups: int = 1, num_inner_repetitions: int = 1
) -> tuple[tuple[int, int], ...]:
    """The sublayers that each depth uses.

    Args:
        sharing: `"all"` shares whole blocks (ALBERT), `"attention"` and `"ffn"` share that sublayer
            alone, `"none"` shares nothing (BERT).
        num_layers: depth L.
        num_groups: depths are divided into this many consecutive groups; sharing stays within a
            group. Depth i is in group `i * num_groups // num_layers`.
        num_inner_repetitions: blocks that are applied one after another at every depth, each with
            its own weights (`inner_group_num` of Google's code). 1 in every released model.

    Returns:
        `num_layers * num_inner_repetitions` pairs of indices, each counted from 0 in the order of
        first use.

    Raises:
        ValueError: an unknown strategy, a number below 1, groups that do not divide the depth.

    Source: Lan et al. (2020), section 3.1 and Table 4; `num_hidden_groups` of Google's code.

    Example:
    ```python
    sharing_plan("all", 3)        # ((0, 0), (0, 0), (0, 0))
    sharing_plan("attention", 3)  # ((0, 0), (0, 1), (0, 2))
    sharing_plan("all", 4, num_groups=2)  # ((0, 0), (0, 0), (1, 1), (1, 1))
    ```
    """
    if sharing not in STRATEGIES:
        raise ValueError(f"`sharing` must be one of {STRATEGIES}. Received: sharing={sharing!r}")
    check_positive_integers(
        "sharing_plan",
        num_layers=num_layers,
        num_groups=num_groups,
        num_inner_repetitions=num_inner_repetitions,
    )
    if num_layers % num_groups:
        raise ValueError(
            "`num_groups` must divide `num_layers`, so that groups are equally deep. "
            f"Received: num_groups={num_groups}, num_layers={num_layers}"
        )
    if sharing == "none" and num_groups != 1:
        raise ValueError(
            "`num_groups` divides depths that share weights, and sharing='none' shares none: leave "
            f"num_groups at 1. Received: num_groups={num_groups}"
        )
    plan = []
    for depth in range(num_layers):
        group = depth * num_groups // num_layers
        for inner in range(num_inner_repetitions):
            shared = group * num_inner_repetitions + inner
            own = depth * num_inner_repetitions + inner
            attention = shared if sharing in ("all", "attention") else own
            feed_forward = shared if sharing in ("all", "ffn") else own
            plan.append((attention, feed_forward))
    return tuple(plan)
