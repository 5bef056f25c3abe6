"""The contracts of this library, over every public estimator; and that each of them can fail."""

import threading
import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import pairwise_distances
from sklearn.utils.validation import check_is_fitted, validate_data

from tests.common import contracts
from tests.common.discovery import public_estimators
from tests.common.exceptions import contract_exceptions
from tests.common.instances import QUICK, default, make, other_settings
from vicinal._base import atomic_fit, check_weights, encode_labels

TOGETHER = threading.Barrier(4)  # as many threads as the contract asks at once


# The contract that slow defaults keep in every run; the others with the long tests.
_OF_SLOW_DEFAULTS = contracts.saved_models_predict_and_learn_on_as_before


def _cases():
    for name, cls in public_estimators().items():
        slow = [default(cls)] if name in QUICK else []
        for estimator in [make(cls), *other_settings(cls), *slow]:
            for contract in contracts.contracts_of(estimator):
                if contract.__name__ in contract_exceptions(estimator):
                    continue
                is_long = estimator in slow and contract is not _OF_SLOW_DEFAULTS
                marks = [pytest.mark.statistical] if is_long else []
                case = f"{name}-{contract.__name__}"
                yield pytest.param(estimator, contract, id=case, marks=marks)


@pytest.mark.parametrize(("estimator", "contract"), list(_cases()))
def test_estimator_keeps_the_contract(estimator, contract):
    contract(clone(estimator))


def _exceptions():
    for name, cls in public_estimators().items():
        for contract in contract_exceptions(make(cls)):
            yield pytest.param(cls, getattr(contracts, contract), id=f"{name}-{contract}")


@pytest.mark.parametrize(("cls", "contract"), list(_exceptions()))
def test_exceptions_are_still_needed(cls, contract):
    # pytest's own failures ("did not raise") derive from BaseException.
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        _ = [contract(estimator) for estimator in (make(cls), *other_settings(cls))]


class NearestMean(ClassifierMixin, BaseEstimator):
    """The simplest honest classifier, with a fault on request."""

    _parameter_constraints: dict = {}

    def __init__(self, fault=None, n_jobs=None):
        self.fault = fault
        self.n_jobs = n_jobs

    def _has(self, fault):
        return self.fault == fault

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(
            self, X, y, dtype=[np.float64, np.float32], ensure_all_finite=not self._has("eats NaN")
        )
        if self._has("ignores weights"):
            sample_weight = None
        if self._has("takes negative weights"):
            weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
        else:
            weights = check_weights(sample_weight, X, dtype=X.dtype)
        if self._has("looks at the first row"):
            X = X.copy()
            X[0] *= 50.0
        if self._has("prefers floats of eight bytes"):
            X = X.astype(np.float64)
        self.classes_, codes = encode_labels(y)
        if self._has("keeps the order of appearance"):
            self.classes_ = np.array(list(dict.fromkeys(y)))
        present = [weights[codes == k].sum() > 0 for k in range(len(self.classes_))]
        self.classes_ = self.classes_[present]
        kept = np.flatnonzero(present)
        self.means_ = np.array(
            [np.average(X[codes == k], axis=0, weights=weights[codes == k]) for k in kept]
        ).astype(X.dtype)
        self._salt = time.perf_counter() if self._has("draws without a seed") else 0.0
        self._jobs = 1.0 if self.n_jobs == 2 and self._has("depends on jobs") else 0.0
        return self

    def predict_proba(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        if self._has("keeps the batch"):
            self._batch = X
            if threading.current_thread() is not threading.main_thread():
                TOGETHER.wait(300)
            X = self._batch
        if self._has("depends on the batch"):
            X = X - X[:1]
        scores = -(pairwise_distances(X, self.means_) ** 2) - self._salt - self._jobs * X[:, :1]
        scores[:, 0] += self._salt % 1.0 + self._jobs
        p = np.exp((scores - scores.max(axis=1, keepdims=True)).astype(self.means_.dtype))
        if not self._has("does not normalise"):
            p /= p.sum(axis=1, keepdims=True)
        if self._has("shifts columns"):
            p = np.roll(p, 1, axis=1)
        return p

    def predict(self, X):
        p = self.predict_proba(X)
        choice = p.argmin(axis=1) if self._has("disagrees with itself") else p.argmax(axis=1)
        return self.classes_[choice]


class InPlaceFit(NearestMean):
    """Leaves what it learned before an interruption, as a fit without rollback does."""

    def fit(self, X, y, sample_weight=None):
        self.means_ = np.zeros((1, 1))
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(
    "contract", contracts.contracts_of(NearestMean()), ids=lambda contract: contract.__name__
)
def test_an_honest_estimator_keeps_every_contract(contract):
    contract(NearestMean())


def test_all_but_the_sparse_contract_apply_to_a_dense_classifier():
    left = set(contracts.CONTRACTS) - set(contracts.contracts_of(NearestMean()))
    assert left == {contracts.sparse_equals_dense}


@pytest.mark.parametrize(
    ("fault", "contract"),
    [
        ("ignores weights", contracts.weight_two_is_the_row_twice),
        ("ignores weights", contracts.weight_zero_is_the_row_removed),
        ("looks at the first row", contracts.order_of_training_rows_does_not_matter),
        ("depends on the batch", contracts.a_query_alone_gets_the_same_prediction),
        ("keeps the order of appearance", contracts.labels_may_be_strings_in_any_order),
        ("prefers floats of eight bytes", contracts.float32_stays_float32),
        ("draws without a seed", contracts.same_seed_gives_the_same_model),
        ("depends on jobs", contracts.number_of_jobs_does_not_matter),
        ("keeps the batch", contracts.threads_get_the_same_predictions_as_one_thread),
        ("does not normalise", contracts.probabilities_sum_to_one_and_agree_with_predict),
        ("disagrees with itself", contracts.probabilities_sum_to_one_and_agree_with_predict),
        ("shifts columns", contracts.a_class_missing_nearby_never_shifts_columns),
        ("eats NaN", contracts.bad_input_is_refused_and_leaves_it_unfitted),
        ("takes negative weights", contracts.negative_weights_name_the_value),
    ],
)
def test_a_faulty_estimator_breaks_its_contract(fault, contract):
    # pytest's own failures ("did not raise") derive from BaseException.
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        contract(NearestMean(fault=fault))


def test_a_fit_without_rollback_breaks_the_interruption_contract():
    with pytest.raises(pytest.fail.Exception):
        contracts.interrupted_fit_leaves_it_unfitted(InPlaceFit())
