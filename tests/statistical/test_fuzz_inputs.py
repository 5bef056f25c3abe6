"""Ten thousand odd inputs; ``VICINAL_FUZZ_FROM=4000`` goes on from a case."""

import os

import pytest
from tests.common.fuzz import outcome

CASES = 10_000
BLOCK = 250
FIRST = int(os.environ.get("VICINAL_FUZZ_FROM", "0"))


@pytest.mark.statistical
@pytest.mark.parametrize("first", range(FIRST // BLOCK * BLOCK, CASES, BLOCK))
def test_odd_inputs_give_right_answers_or_clear_errors(first):
    found = map(outcome, range(first, first + BLOCK))
    wrong = [why for word, why in found if word == "wrong"]
    assert not wrong, "\n".join(wrong)
