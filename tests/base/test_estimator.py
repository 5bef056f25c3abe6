from numbers import Real

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import atomic_fit
from vicinal._base._compat import Interval


class _Mean(BaseEstimator):
    _parameter_constraints = {"scale": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, scale=1.0, interrupt=False):
        self.scale = scale
        self.interrupt = interrupt

    @atomic_fit
    def fit(self, X, y=None, sample_weight=None):
        X = validate_data(self, X)
        self.half_way_ = True
        if self.interrupt:
            raise KeyboardInterrupt
        self.mean_ = self.scale * X.mean(axis=0)
        return self

    @atomic_fit
    def partial_fit(self, X):
        self.mean_ = self.mean_ + X.mean(axis=0)
        if self.interrupt:
            raise KeyboardInterrupt
        return self


X = np.arange(6.0).reshape(3, 2)


def test_interrupted_fit_leaves_nothing_behind():
    model = _Mean(interrupt=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert set(vars(model)) == {"scale", "interrupt"}
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


def test_ctrl_c_inside_compiled_code_is_a_keyboard_interrupt():
    class _Interrupted(BaseEstimator):
        _parameter_constraints = {}

        @atomic_fit
        def fit(self, X, y=None):
            try:
                raise SystemError("unpickling failed") from KeyboardInterrupt()
            except SystemError as error:
                raise SystemError("returned a result with an exception set") from error

    with pytest.raises(KeyboardInterrupt):
        _Interrupted().fit(X)


def test_failed_refit_keeps_the_earlier_fit():
    model = _Mean().fit(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.array([[np.nan, 0.0]]))
    np.testing.assert_array_equal(model.mean_, X.mean(axis=0))
    assert model.n_features_in_ == 2


def test_refit_forgets_what_the_first_fit_learned():
    model = _Mean().fit(X)
    model.stale_ = 1
    assert not hasattr(model.fit(X), "stale_")


def test_partial_fit_builds_on_what_is_there_and_rolls_back():
    model = _Mean().fit(X)
    model.partial_fit(X)
    expected = model.mean_.copy()
    model.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X)
    np.testing.assert_array_equal(model.mean_, expected)


def test_parameters_are_validated_before_work():
    with pytest.raises(ValueError, match="scale"):
        _Mean(scale=-1.0).fit(X)


def test_a_wrong_parameter_is_named_before_strings_in_x():
    with pytest.raises(ValueError, match="'scale' parameter of _Mean must be"):
        _Mean(scale=-1.0).fit(np.array([["a"], ["b"]], dtype=object))


def test_signature_and_routing_survive_the_decorator():
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True):
        model = _Mean().set_fit_request(sample_weight=True)
        model.fit(X)
        assert model.get_metadata_routing().fit.requests["sample_weight"] is True


def test_fits_inside_a_pipeline():
    """scikit-learn 1.9 sets an attribute before ``fit`` and takes it away afterwards."""
    from sklearn.pipeline import make_pipeline

    assert make_pipeline(_Mean()).fit(X)[-1].n_features_in_ == 2


def test_numbers_that_overflow_are_refused_by_position_and_by_name():
    for fit in (lambda: _Mean().fit(1e200 * X), lambda: _Mean().fit(X=1e200 * X)):
        with pytest.raises(ValueError, match="scale X first"):
            fit()
    with pytest.raises(ValueError, match="scale y first"):
        _Mean().fit(X, y=np.array([1e200, 0.0, 0.0]))


def test_strings_raise_an_error_with_the_argument_and_the_remedy():
    strings = X.astype(object)
    strings[1, 0] = "red"
    with pytest.raises(ValueError, match=r"'red'\. X must be numeric: put .*TableEncoder"):
        _Mean().fit(strings)


class _Wrapper(_Mean):
    """Hands its rows to a model inside."""

    @atomic_fit
    def fit(self, X, y=None, sample_weight=None):
        self.inside_ = _Mean().fit(X)
        return self


@pytest.mark.parametrize("value", ["red", np.nan])
def test_the_remedy_for_strings_and_missing_values_appears_once(value):
    table = X.astype(object)
    table[1, 0] = value
    with pytest.raises(ValueError, match="TableEncoder") as caught:
        _Wrapper().fit(table)
    assert str(caught.value).count("TableEncoder") == 1
    assert "_Mean" in str(caught.value)


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("Input y contains NaN.", "from X and y"),
        ("Input contains NaN.", "from X and y"),
        ("Unknown label type: continuous. Maybe not.", "Use a regressor"),
    ],
)
def test_known_errors_about_targets_get_a_remedy(message, remedy):
    class Picky(_Mean):
        @atomic_fit
        def fit(self, X, y=None, sample_weight=None):
            raise ValueError(message)

    with pytest.raises(ValueError, match=f"{message} .*{remedy}"):
        Picky().fit(X)


class _SparseMean(_Mean):
    @atomic_fit
    def fit(self, X, y=None, sample_weight=None):
        np.asarray(sample_weight, dtype=np.float64)
        return self


def test_words_as_weights_of_sparse_rows_raise_the_error_of_weights():
    with pytest.raises(ValueError, match="sample_weight must be numeric: give one number"):
        _SparseMean().fit(sp.csr_array(X), np.zeros(len(X)), ["red"] * len(X))
