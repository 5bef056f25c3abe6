"""Ten thousand odd inputs; ``VICINAL_FUZZ_FROM=4000`` goes on from a case."""

import os

import pytest
from tests.common.fuzz import outcome

CASES = 10_000
BLOCK = 250


@pytest.mark.statistical
@pytest.mark.parametrize("first", range(0, CASES, BLOCK))
def test_odd_inputs_give_right_answers_or_clear_errors(first):
    if first + BLOCK <= int(os.environ.get("VICINAL_FUZZ_FROM", "0")):
        pytest.skip("done before")
    wrong = [line for line in map(outcome, range(first, first + BLOCK)) if line]
    assert not wrong, "\n".join(wrong)
