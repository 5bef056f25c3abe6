"""Held-out predictions."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal._base import HeldOut, cross_fit, fit_weighted, fold_entries, held_out, seeded_clone


def folds_of(n_rows, n_folds=3, seed=0):
    splitter = KFold(n_folds, shuffle=True, random_state=seed)
    return [test for _, test in splitter.split(np.arange(n_rows))]


def table(n_rows=40, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n_rows, 3))
    return X, X @ [1.0, -2.0, 0.5] + rng.normal(size=n_rows)


def test_predictions_are_those_of_scikit_learn():
    X, y = table()
    found = held_out(LinearRegression(), X, y, folds_of(40))
    splitter = KFold(3, shuffle=True, random_state=0)
    expected = cross_val_predict(LinearRegression(), X, y, cv=splitter)
    assert found.candidates == [{}]
    np.testing.assert_allclose(found.predictions[0, :, 0], expected[found.rows], rtol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_only_the_given_rows_are_predicted(kind):
    X, y = table()
    folds, rows = folds_of(40), np.array([3, 5, 30])
    every = held_out(LinearRegression(), kind(X), y, folds)
    some = held_out(LinearRegression(), kind(X), y, folds, rows=rows)
    assert sorted(some.rows) == [3, 5, 30]
    for row, prediction in zip(some.rows, some.predictions[0], strict=True):
        assert prediction == every.predictions[0, every.rows == row][0]


def test_folds_without_a_row_to_predict_are_not_fitted():
    X, y = table()
    fits = []

    def fit(X, y, weight):
        fits.append(len(y))
        return LinearRegression().fit(X, y)

    folds = folds_of(40)
    cross_fit(fit, lambda model, X: model.predict(X), X, y, folds, rows=folds[1][:2])
    assert len(fits) == 1


def test_repeated_folds_predict_a_row_as_often():
    X, y = table()
    folds = folds_of(40) + folds_of(40, seed=1)
    found = held_out(LinearRegression(), X, y, folds, rows=np.array([7]))
    assert list(found.rows) == [7, 7]
    assert found.predictions[0, 0] != found.predictions[0, 1]


def test_a_class_missing_in_training_has_probability_zero():
    X = np.zeros((5, 1))
    y = np.array(["a", "a", "b", "b", "c"])
    folds = [np.array([4]), np.array([0, 2]), np.array([1, 3])]
    found = held_out(DummyClassifier(), X, y, folds, method="predict_proba")
    np.testing.assert_allclose(found.predictions[0, 0], [0.5, 0.5, 0.0])
    np.testing.assert_allclose(found.predictions[0, 1], [1 / 3, 1 / 3, 1 / 3])


def test_weights_reach_the_end_of_a_pipeline():
    y = np.array([0.0, 1.0, 5.0])
    found = held_out(
        make_pipeline(StandardScaler(), DummyRegressor()),
        np.zeros((3, 1)),
        y,
        [np.array([2]), np.array([0, 1])],
        sample_weight=np.array([3.0, 1.0, 1.0]),
    )
    np.testing.assert_allclose(found.predictions[0, :, 0], [0.25, 5.0, 5.0])


def test_an_estimator_with_held_out_is_used():
    class Own(LinearRegression):
        def held_out(self, X, y, *, folds, rows, sample_weight, groups):
            return HeldOut([{"alpha": 1.0}], np.arange(len(y)), np.zeros((1, len(y), 1)))

    X, y = table()
    assert held_out(Own(), X, y, folds_of(40)).candidates == [{"alpha": 1.0}]


def test_entries_keep_the_order_of_the_folds():
    folds = [np.array([4, 1]), np.array([0, 2, 3])]
    assert [list(part) for part in fold_entries(folds, np.array([1, 3, 4]))] == [[4, 1], [3]]


def test_seeds_fill_what_was_left_open_only():
    model = make_pipeline(RandomForestClassifier(random_state=3), LogisticRegression())
    params = seeded_clone(model, 0).get_params()
    assert params["randomforestclassifier__random_state"] == 3
    assert isinstance(params["logisticregression__random_state"], int)


def test_fit_without_weights_passes_none():
    assert fit_weighted(DummyRegressor(), [[0.0], [0.0]], [0.0, 2.0], None).constant_[0, 0] == 1.0
