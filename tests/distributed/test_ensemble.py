"""Bootstrap members as tasks: the same ensemble in any blocks, and in memory where rows fit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier

from tests.distributed.blocks import as_dask
from vicinal import distributed
from vicinal.ensemble import (
    BootstrapEnsembleClassifier,
    BootstrapEnsembleRegressor,
    _bootstrap_blocks,
)
from vicinal.ensemble._bootstrap_blocks import poisson_counts

BLOCKS = (70, 150, 1000)


@pytest.fixture(scope="module")
def table():
    X, z = make_friedman1(600, n_features=5, noise=0.5, random_state=0)
    return X, z, np.array(["low", "middle", "high"])[np.digitize(z, [11.0, 17.0])]


def fitted(model, X, y, rows_per_block, weight=None):
    weight = None if weight is None else as_dask(weight, rows_per_block)
    rows, targets = as_dask(X, rows_per_block), as_dask(y, rows_per_block)
    return distributed.fit(model, rows, targets, sample_weight=weight)


@pytest.mark.parametrize("rows_per_block", BLOCKS)
def test_a_table_that_fits_gives_the_ensemble_in_memory(table, rows_per_block):
    X, _, y = table
    model = BootstrapEnsembleClassifier(n_estimators=5, random_state=0)
    found, wanted = fitted(model, X, y, rows_per_block), model.fit(X, y)
    assert_array_equal(found.predict_proba(X), wanted.predict_proba(X))
    assert found.oob_score_ == wanted.oob_score_


def test_members_are_fitted_on_the_workers(table, client):
    X, z, _ = table
    model = BootstrapEnsembleRegressor(LinearRegression(), n_estimators=4, random_state=0)
    found, wanted = fitted(model, X, z, 200), model.fit(X, z)
    assert_allclose(found.predict(X), wanted.predict(X), atol=1e-12)
    done = client.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))
    assert any("_fit_member" in prefix for prefix in done)


def test_counts_are_quantiles_of_poisson(rng):
    uniforms, rates = rng.uniform(size=5000), rng.uniform(0.0, 4.0, size=5000)
    assert_array_equal(poisson_counts(uniforms, rates), stats.poisson.ppf(uniforms, rates))
    assert_array_equal(poisson_counts(np.array([0.0, 1 - 2.0**-53]), np.array([0.0, 0.0])), 0)
    assert poisson_counts(np.array([1 - 2.0**-53]), np.array([1.0]))[0] < 30


@pytest.mark.parametrize("weighted", [False, True])
def test_draws_do_not_depend_on_the_blocks(table, monkeypatch, weighted):
    X, _, y = table
    monkeypatch.setattr(_bootstrap_blocks, "MEMBER_ROWS", 200)
    weight = np.random.RandomState(0).randint(0, 3, size=len(y)).astype(float) if weighted else None
    model = BootstrapEnsembleClassifier(
        DecisionTreeClassifier(max_depth=4), n_estimators=10, random_state=0
    )
    first, *others = (fitted(model, X, y, size, weight) for size in BLOCKS)
    for other in others:
        assert_array_equal(other.predict_proba(X), first.predict_proba(X))
        assert_array_equal(other.oob_decision_function_, first.oob_decision_function_)
    sizes = [member.tree_.n_node_samples[0] for member in first.estimators_]
    assert abs(np.mean(sizes) - 200) < 4 * np.sqrt(200 / len(sizes))
    assert abs(first.oob_score_ - np.mean(first.predict(X) == y)) < 0.15


def test_batches_of_members_do_not_matter(table, monkeypatch):
    X, z, _ = table
    monkeypatch.setattr(_bootstrap_blocks, "MEMBER_ROWS", 200)
    model = BootstrapEnsembleRegressor(n_estimators=5, random_state=0)
    whole = fitted(model, X, z, 300)
    monkeypatch.setattr(_bootstrap_blocks, "_BATCH_BYTES", 8 * 200 * 5 * 2)
    assert_array_equal(fitted(model, X, z, 300).predict(X), whole.predict(X))


def test_intervals_of_a_drawn_ensemble_cover(table, monkeypatch):
    X, z, _ = table
    monkeypatch.setattr(_bootstrap_blocks, "MEMBER_ROWS", 250)
    model = BootstrapEnsembleRegressor(LinearRegression(), n_estimators=20, random_state=0)
    found = fitted(model, X[:400], z[:400], 90)
    assert 150 < len(found.oob_residuals_) < 350
    low, high = found.predict_interval(X[400:], coverage=0.9).T
    assert 0.82 < np.mean((low <= z[400:]) & (z[400:] <= high)) < 0.97
    assert abs(found.oob_score_ - model.fit(X, z).oob_score_) < 0.1


def test_rows_of_weight_zero_are_never_drawn(table, monkeypatch):
    X, z, _ = table
    monkeypatch.setattr(_bootstrap_blocks, "MEMBER_ROWS", 100)
    broken = z.copy()
    broken[::2] = 1e6
    weight = np.ones(len(z))
    weight[::2] = 0.0
    model = BootstrapEnsembleRegressor(n_estimators=3, random_state=0)
    assert fitted(model, X, broken, 150, weight).predict(X).max() < 100
