"""scikit-learn's own checks, over every public estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.common.discovery import public_estimators
from tests.common.exceptions import _REASONS, expected_failures
from tests.common.instances import DRAWS, PARAMETERS, all_instances, instances_of

# What a setting may change about the numbers; the other checks look at the class, and go through
# its first instance alone. Our contracts see all instances.
_OF_NUMBERS = {
    "check_all_zero_sample_weights_error",
    "check_class_weight_classifiers",
    "check_classifiers_classes",
    "check_classifiers_one_label",
    "check_classifiers_one_label_sample_weights",
    "check_classifiers_train",
    "check_decision_proba_consistency",
    "check_estimators_dtypes",
    "check_estimators_nan_inf",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_non_transformer_estimators_n_iter",
    "check_regressors_int",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_transformer_general",
}


def _checks(estimators):
    return parametrize_with_checks(estimators, expected_failed_checks=expected_failures)


def _name(case):
    """The name of the check in a pair of estimator and check, marked or not."""
    check = getattr(case, "values", case)[1]
    while hasattr(check, "func"):
        check = check.func
    return check.__name__


def _cases():
    classes = public_estimators().values()
    first = _checks([instances_of(cls)[0] for cls in classes])
    others = _checks([other for cls in classes for other in instances_of(cls)[1:]])
    of_numbers = [case for case in others.args[1] if _name(case) in _OF_NUMBERS]
    return pytest.mark.parametrize(first.args[0], [*first.args[1], *of_numbers], **first.kwargs)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@_cases()
def test_estimator_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def test_checks_of_numbers_exist():
    assert {_name(case) for case in _checks(all_instances()).args[1]} > _OF_NUMBERS


def test_registries_name_existing_estimators_only():
    known = set(public_estimators())
    for registry in (PARAMETERS, DRAWS, _REASONS):
        assert set(registry) <= known


def test_every_exception_has_a_reason():
    for reasons in _REASONS.values():
        assert all(len(reason.split()) >= 4 for reason in reasons.values())
