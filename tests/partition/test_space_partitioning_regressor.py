import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from vicinal.partition import SpacePartitioningRegressor


@pytest.fixture
def roof(rng):
    """Two planes that meet along a ridge, with little noise."""
    X = rng.uniform(-1, 1, size=(300, 2))
    return X, np.abs(X[:, 0] + 0.3 * X[:, 1]) + 0.01 * rng.normal(size=300)


def test_one_region_is_the_scaled_regressor_bit_for_bit(roof):
    X, y = roof
    model = SpacePartitioningRegressor(n_regions=1).fit(X, y)
    assert_array_equal(
        model.predict(X), make_pipeline(StandardScaler(), Ridge()).fit(X, y).predict(X)
    )


def test_two_regions_find_the_ridge_of_a_roof(roof):
    X, y = roof
    model = SpacePartitioningRegressor(
        Ridge(alpha=1e-6), n_regions=2, combine="best", max_iter=50, random_state=0
    ).fit(X, y)
    assert model.train_error_ < 0.1 * np.mean((y - LinearRegression().fit(X, y).predict(X)) ** 2)
    assert model.score(X, y) > 0.95
    assert model.train_error_ == pytest.approx(np.mean((y - model.predict(X)) ** 2))


class PlainRidge(Ridge):
    """Not the exact class, hence cloned and fitted like any estimator."""


@pytest.mark.parametrize("weighted", [False, True])
def test_fast_path_equals_the_general_path(roof, weighted):
    X, y = roof
    weight = np.random.RandomState(1).uniform(0.5, 2, size=len(y)) if weighted else None
    fast, general = (
        SpacePartitioningRegressor(learner, n_regions=3, n_init=2, max_iter=4, random_state=0)
        .fit(X, y, sample_weight=weight)
        .predict(X)
        for learner in (Ridge(alpha=0.5), PlainRidge(alpha=0.5))
    )
    assert_allclose(fast, general, rtol=1e-8, atol=1e-10)


def test_result_does_not_depend_on_the_unit_of_the_target(roof):
    X, y = roof
    model = SpacePartitioningRegressor("ridge", "lda", n_regions=3, n_init=2, random_state=0)
    assert_allclose(model.fit(X, 1e4 * y).predict(X), 1e4 * model.fit(X, y).predict(X), rtol=1e-7)


def test_any_regressor_serves(roof):
    X, y = roof
    model = SpacePartitioningRegressor(
        DecisionTreeRegressor(max_depth=2), "logistic", n_regions=2, n_init=2, random_state=0
    ).fit(X, y)
    assert model.score(X, y) > 0.5


def test_gates_need_weights(roof):
    with pytest.raises(ValueError, match="gates of a regressor use weights"):
        SpacePartitioningRegressor("ridge", KNeighborsClassifier()).fit(*roof)


def test_a_gate_may_be_a_pipeline(roof):
    settings = {"n_regions": 2, "n_init": 1, "max_iter": 2, "random_state": 0}
    plain, behind = (
        SpacePartitioningRegressor("ridge", gate, **settings).fit(*roof).predict(roof[0])
        for gate in (
            LogisticRegression(C=0.5),
            make_pipeline(FunctionTransformer(), LogisticRegression(C=0.5)),
        )
    )
    assert_array_equal(behind, plain)


def test_auto_gains_by_regions_where_the_slope_changes(rng):
    X = rng.normal(size=(200, 3))
    model = SpacePartitioningRegressor(n_regions="auto", n_init=2, random_state=0)
    noise = 0.5 * rng.normal(size=200)
    gains = []
    for target in (X @ [1.0, 2, 3], np.abs(X[:, 0]) * 3):
        errors = model.fit(X, target + noise).n_regions_errors_
        gains.append(errors[1] / min(errors.values()))
    assert gains[0] < 1.2
    assert gains[1] > 3.0
    assert model.n_regions_ > 1


def test_auto_tries_many_regions_where_few_have_made_it_worse():
    """A product of curves looks like noise to few linear models, so all candidates are tried."""
    rng = np.random.RandomState(3)
    X = rng.normal(size=(200, 3))
    model = SpacePartitioningRegressor(n_init=2, random_state=0)
    errors = model.fit(X, rng.normal(size=200)).n_regions_errors_
    assert min(errors[2], errors[5]) > errors[1]
    assert 15 in errors


def test_report_describes_the_regions(roof):
    X, y = roof
    model = SpacePartitioningRegressor(n_regions=3, n_init=2, random_state=0).fit(X, y)
    report = model.region_report(X, y)
    assert report["n_samples"].sum() == 300
    assert_allclose((report["share"] * report["mean"]).sum(), y.mean())
    assert_allclose((report["share"] * report["error"]).sum(), model.train_error_)


def test_sparse_equals_dense_without_scaling(roof):
    X, y = roof
    # Solvers run to the minimum, where dense and sparse rows agree.
    model = SpacePartitioningRegressor(
        Ridge(solver="lsqr", tol=1e-12),
        LogisticRegression(tol=1e-9, max_iter=5000),
        n_regions=2,
        n_init=2,
        scale=False,
        random_state=0,
    )
    dense = model.fit(X, y).predict(X)
    found = model.fit(sparse.csr_array(X), y).predict(sparse.csr_array(X))
    assert_allclose(found, dense, atol=1e-5)


def test_queries_in_single_precision_to_a_model_of_numbers_beyond_it(rng):
    X = 1e140 * rng.normal(size=(40, 3))
    model = SpacePartitioningRegressor(n_regions=2, n_init=1, random_state=0).fit(
        X, X[:, 0] / 1e140
    )
    Q = rng.normal(size=(5, 3))
    np.testing.assert_allclose(model.predict(Q.astype(np.float32)), model.predict(Q))


def test_targets_whose_squares_overflow_are_refused(rng):
    X = rng.normal(size=(40, 3))
    with pytest.raises(ValueError, match="scale y first"):
        SpacePartitioningRegressor().fit(X, 1e300 * X[:, 0])
