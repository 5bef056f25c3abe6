"""Thousands of small ugly problems: no exception, no NaN without a status."""

import pytest

from tests.surface.fuzz import check_problem


@pytest.mark.parametrize("start", [0, pytest.param(10, marks=pytest.mark.statistical)])
def test_small_ugly_problems(start):
    for seed in range(start, start + 10):
        check_problem(seed)


@pytest.mark.parametrize("seed", [3587, 9400])
def test_surfaces_flat_beyond_rounding_overflow_nothing(seed):
    check_problem(seed)


@pytest.mark.statistical
def test_ten_thousand_ugly_problems():
    for seed in range(10_000):
        check_problem(seed)
