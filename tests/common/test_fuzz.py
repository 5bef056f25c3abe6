"""A few dozen of the odd inputs that `make test-statistical` tries by the thousand."""

import pytest
from sklearn.base import BaseEstimator

from tests.common import fuzz


@pytest.mark.parametrize("case", range(60))
def test_odd_inputs_give_right_answers_or_clear_errors(case):
    word, why = fuzz.outcome(case)
    assert word != "wrong", why


class Faulty(BaseEstimator):
    """Goes wrong in its own way."""

    def __init__(self, fault=None):
        self.fault = fault

    def fit(self, X, y=None):
        self.fitted_ = True
        if self.fault == "divides":
            return 1 // 0
        if self.fault == "half fitted":
            raise ValueError("a clear error, but it comes too late to be of use")
        return self

    def predict(self, X):
        return [float("nan")]


@pytest.mark.parametrize(
    ("fault", "match"),
    [("divides", "ZeroDivisionError"), ("half fitted", "after a failed fit"), (None, "not finite")],
)
def test_the_fuzz_finds_faults(fault, match, monkeypatch):
    monkeypatch.setattr(fuzz, "all_instances", lambda: [Faulty(fault)])
    word, why = fuzz.outcome(0)
    assert word == "wrong"
    assert match in why
