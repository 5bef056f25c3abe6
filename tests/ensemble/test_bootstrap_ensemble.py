"""Both bootstrap estimators."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_friedman1
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

from vicinal.ensemble import BootstrapEnsembleClassifier, BootstrapEnsembleRegressor


@pytest.fixture(scope="module")
def friedman():
    return make_friedman1(n_samples=400, noise=1.0, random_state=0)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_mean_and_deviation_are_those_of_the_base_models(friedman):
    X, y = friedman
    model = BootstrapEnsembleRegressor(n_estimators=12, random_state=0).fit(X[:200], y[:200])
    outputs = np.array([estimator.predict(X) for estimator in model.estimators_])
    mean, std = model.predict(X, return_std=True)
    assert_allclose(mean, outputs.mean(axis=0))
    assert_allclose(std, outputs.std(axis=0, ddof=1))


def test_spread_over_models_is_not_an_interval_but_residuals_are(friedman):
    X, y = friedman
    model = BootstrapEnsembleRegressor(LinearRegression(), random_state=0).fit(X[:250], y[:250])
    mean, std = model.predict(X[250:], return_std=True)
    by_spread = np.mean(np.abs(y[250:] - mean) <= 1.645 * std)
    low, high = model.predict_interval(X[250:], coverage=0.9).T
    by_residuals = np.mean((low <= y[250:]) & (y[250:] <= high))
    assert by_spread < 0.4
    assert 0.83 < by_residuals < 0.97


def test_intervals_hold_the_out_of_bag_targets_with_their_coverage(friedman):
    X, y = friedman
    model = BootstrapEnsembleRegressor(n_estimators=30, random_state=0).fit(X, y)
    half = 0.5 * np.diff(model.predict_interval(X, coverage=0.8)).ravel()
    assert abs(np.mean(np.abs(model.oob_residuals_) <= half) - 0.8) < 0.05


def test_wider_coverage_gives_wider_intervals(friedman):
    X, y = friedman
    model = BootstrapEnsembleRegressor(n_estimators=30, random_state=0).fit(X, y)
    narrow, wide = (np.diff(model.predict_interval(X[:1], c))[0, 0] for c in (0.5, 0.95))
    assert narrow < wide
    with pytest.raises(ValueError, match=r"coverage=90"):
        model.predict_interval(X, 90)


def test_out_of_bag_rows_are_those_outside_the_sample():
    """With a learner that memorises, an in-bag row would have residual zero."""
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(60, 1)), rng.normal(size=60)
    model = BootstrapEnsembleRegressor(DecisionTreeRegressor(), n_estimators=40, random_state=0)
    residuals = model.fit(X, y).oob_residuals_
    assert np.abs(residuals).min() > 0
    assert np.nanmean(residuals**2) > 0.9 * y.var()
    assert model.oob_score_ < 0.2


def test_bagging_helps_trees_and_leaves_lines_alone(friedman):
    X, y = friedman

    def errors(learner):
        bagged = BootstrapEnsembleRegressor(learner, n_estimators=40, random_state=0)
        return [
            np.mean((y[200:] - m.fit(X[:200], y[:200]).predict(X[200:])) ** 2)
            for m in (learner, bagged)
        ]

    tree, bagged_tree = errors(DecisionTreeRegressor(random_state=0))
    line, bagged_line = errors(LinearRegression())
    assert bagged_tree < 0.8 * tree
    assert abs(bagged_line / line - 1) < 0.03


def test_whole_weights_draw_as_many_rows_as_repetition():
    X, y = np.arange(6.0)[:, None], np.arange(6.0)
    times = np.array([1, 2, 3, 1, 2, 3])

    class Counting(LinearRegression):
        def fit(self, X, y):
            self.n_rows_ = len(y)
            return super().fit(X, y)

    model = BootstrapEnsembleRegressor(Counting(), n_estimators=20, random_state=0)
    assert {m.n_rows_ for m in model.fit(X, y, sample_weight=times).estimators_} == {12}
    assert {m.n_rows_ for m in model.fit(X, y, sample_weight=times / 7).estimators_} == {6}


def test_probabilities_and_spread_of_classes(iris):
    X, y = iris
    model = BootstrapEnsembleClassifier(
        KNeighborsClassifier(5), n_estimators=15, random_state=0
    ).fit(X, y)
    outputs = np.array([estimator.predict_proba(X) for estimator in model.estimators_])
    mean, std = model.predict_proba(X, return_std=True)
    assert_allclose(mean, outputs.mean(axis=0))
    assert_allclose(std, outputs.std(axis=0, ddof=1), atol=1e-12)
    assert 0.9 < model.oob_score_ <= 1.0


def test_learners_without_probabilities_vote(iris):
    X, y = iris
    model = BootstrapEnsembleClassifier(LinearSVC(), n_estimators=8, random_state=0).fit(X, y)
    votes = model.predict_proba(X) * 8
    assert_allclose(votes, np.rint(votes), atol=1e-9)
    assert model.score(X, y) > 0.9


def test_every_draw_holds_every_class():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(40, 2)), np.r_[np.zeros(39), 1.0]
    model = BootstrapEnsembleClassifier(
        KNeighborsClassifier(1), n_estimators=30, random_state=0
    ).fit(X, y)
    assert all(len(estimator.classes_) == 2 for estimator in model.estimators_)


def test_jobs_and_seeds_decide_nothing_and_everything(iris):
    X, y = iris

    def fit(**options):
        return BootstrapEnsembleClassifier(n_estimators=6, **options).fit(X, y).predict_proba(X)

    assert_array_equal(fit(random_state=1, n_jobs=1), fit(random_state=1, n_jobs=2))
    assert not np.array_equal(fit(random_state=1), fit(random_state=2))


def test_rows_always_sampled_have_no_out_of_bag_prediction():
    X, y = np.arange(8.0)[:, None], np.arange(8.0)
    weight = np.r_[1e6, np.ones(7)]
    model = BootstrapEnsembleRegressor(n_estimators=5, random_state=0)
    with pytest.raises(
        ValueError, match="left fewer than two rows out of bag|left fewer than two "
    ):
        model.fit(X[:2], y[:2], sample_weight=weight[:2] + 0.5)
    kept = model.fit(X, y, sample_weight=np.r_[30.5, np.ones(7)])
    assert np.isnan(kept.oob_prediction_[0])
    assert np.isfinite(kept.predict_interval(X, 0.5)).all()


def test_weights_that_would_draw_without_end_are_refused():
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    weights = np.where(y, 1.0, 1e12)
    with pytest.raises(ValueError, match=r"sums to 1e\+13.*divide the weights by their mean"):
        BootstrapEnsembleClassifier(n_estimators=2).fit(X, y, sample_weight=weights)
