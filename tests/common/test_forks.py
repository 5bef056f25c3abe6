"""Fitted models may be asked in forked children."""

import os

import pytest

from tests.common.discovery import public_estimators
from tests.common.forks import PARAMETERS, outcomes

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="needs os.fork, which Windows lacks"
)


@pytest.mark.parametrize(
    "names",
    [
        [*PARAMETERS, "DivideConquerSVC", "LocalDiscriminantTransformer"],
        pytest.param(list(public_estimators()), marks=pytest.mark.statistical),
    ],
    ids=["some", "every"],
)
def test_a_forked_child_answers_as_its_parent_and_does_not_hang(names):
    assert outcomes(names) == dict.fromkeys(names, "the same")
