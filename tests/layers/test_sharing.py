"""Oracles: the paper's strategies (section 3.1, Table 4), Google's group formula, properties."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.layers import sharing_plan


def test_the_papers_strategies():
    assert sharing_plan("all", 3) == ((0, 0), (0, 0), (0, 0))
    assert sharing_plan("attention", 3) == ((0, 0), (0, 1), (0, 2))
    assert sharing_plan("ffn", 3) == ((0, 0), (1, 0), (2, 0))
    assert sharing_plan("none", 3) == ((0, 0), (1, 1), (2, 2))


def test_inner_repetitions_are_distinct_blocks_of_each_group():
    plan = sharing_plan("all", 4, num_groups=2, num_inner_repetitions=2)
    first, second = [(0, 0), (1, 1)], [(2, 2), (3, 3)]
    assert list(plan) == first * 2 + second * 2


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(1, 6), st.integers(1, 3))
def test_group_of_a_depth_is_googles(depth_per_group, num_groups, inner):
    num_layers = depth_per_group * num_groups
    plan = sharing_plan("all", num_layers, num_groups, inner)
    assert len(plan) == num_layers * inner
    for step, (attention, feed_forward) in enumerate(plan):
        group = int((step // inner) / num_layers * num_groups + 1e-9)
        assert attention == feed_forward == group * inner + step % inner


@settings(deadline=None)
@given(st.sampled_from(["all", "attention", "ffn", "none"]), st.integers(1, 24))
def test_indices_count_up_from_zero_in_order_of_first_use(sharing, num_layers):
    for column in zip(*sharing_plan(sharing, num_layers), strict=True):
        first_uses = list(dict.fromkeys(column))
        assert first_uses == list(range(len(first_uses)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("some", 4), "`sharing` must be one of"),
        (("all", 0), "`num_layers` of sharing_plan must be an integer"),
        (("all", 4, 3), "`num_groups` must divide"),
        (("all", 4, 1, 0), "`num_inner_repetitions` of sharing_plan must be"),
        (("none", 4, 2), "leave num_groups at 1"),
        (("all", True), "`num_layers` of sharing_plan must be an integer"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        sharing_plan(*arguments)
