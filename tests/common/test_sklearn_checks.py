"""scikit-learn's own checks, over every public estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.common.discovery import public_estimators
from tests.common.exceptions import _REASONS, expected_failures
from tests.common.instances import DRAWS, PARAMETERS, all_instances


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(all_instances(), expected_failed_checks=expected_failures)
def test_estimator_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def test_registries_name_existing_estimators_only():
    known = set(public_estimators())
    for registry in (PARAMETERS, DRAWS, _REASONS):
        assert set(registry) <= known


def test_every_exception_has_a_reason():
    for reasons in _REASONS.values():
        assert all(len(reason.split()) >= 4 for reason in reasons.values())
