"""scikit-learn's own checks, over every public estimator."""

import os

import pytest
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.common.discovery import public_estimators
from tests.common.exceptions import _REASONS, expected_failures
from tests.common.instances import (
    DRAWS,
    OTHER_SETTINGS,
    QUICK,
    REQUIRED,
    all_instances,
    default,
    draws,
    make,
    other_settings,
)
from tests.versions import is_older_sklearn

# What a setting may change about the numbers; the other checks look at the class, and see its
# default alone.
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


def _applies(case):
    """Whether the check can pass here.

    That of array API input needs a variable set before scipy, those of weights a fit that does not
    sample from the rows: our contracts hold it to statistical equivalence instead.
    """
    estimator = getattr(case, "values", case)[0]
    name = _name(case)
    if name == "check_array_api_input":
        return "SCIPY_ARRAY_API" in os.environ
    if not name.startswith("check_sample_weight_equivalence"):
        return True
    if is_older_sklearn("1.7"):
        tags = get_tags(estimator)
        # It gave sparse rows to every model, and made two classes of three by the first row's
        # class, which differs between its weighted and its repeated rows.
        if name.endswith("sparse_data") and not tags.input_tags.sparse:
            return False
        if tags.classifier_tags is not None and not tags.classifier_tags.multi_class:
            return False
    return not draws(estimator)


def _is_repetition(case):
    """Whether the check repeats another with inputs that are read in the same way."""
    check = getattr(case, "values", case)[1]
    options = getattr(check, "keywords", {})
    is_plain_memmap = options.get("readonly_memmap") and "X_dtype" not in options
    return _name(case) == "check_estimator_sparse_matrix" or (
        is_plain_memmap and _name(case).endswith("_train")
    )


def _slow(case):
    """The case, marked to run with the long tests."""
    values, marks = getattr(case, "values", case), getattr(case, "marks", ())
    return pytest.param(*values, marks=[*marks, pytest.mark.statistical])


def _cases():
    classes = public_estimators()
    quick = _checks([make(cls) for cls in classes.values()])
    slow = _checks([default(classes[name]) for name in QUICK]).args[1]
    others = _checks([other for cls in classes.values() for other in other_settings(cls)]).args[1]
    cases = [
        *(_slow(c) if _is_repetition(c) else c for c in filter(_applies, quick.args[1])),
        *(case for case in filter(_applies, others) if _name(case) in _OF_NUMBERS),
        *map(_slow, filter(_applies, slow)),
    ]
    return pytest.mark.parametrize(quick.args[0], cases, **quick.kwargs)


# The tables of the checks are too small for some defaults, which say so and go on.
@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.SkipTestWarning",
    "ignore:The least populated class in y has only:UserWarning",
    r"ignore:\d+ neighbourhoods hold fewer rows:sklearn.exceptions.ConvergenceWarning",
    "ignore:A network still improved after max_iter:sklearn.exceptions.ConvergenceWarning",
)
@_cases()
def test_estimator_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def test_checks_of_numbers_exist():
    new = {"check_all_zero_sample_weights_error"} if is_older_sklearn("1.7") else set()
    assert {_name(case) for case in _checks(all_instances()).args[1]} > _OF_NUMBERS - new


def test_registries_name_existing_estimators_only():
    known = set(public_estimators())
    for registry in (REQUIRED, QUICK, OTHER_SETTINGS, DRAWS, _REASONS):
        assert set(registry) <= known


def test_every_exception_has_a_reason():
    for reasons in _REASONS.values():
        assert all(len(reason.split()) >= 4 for reason in reasons.values())
