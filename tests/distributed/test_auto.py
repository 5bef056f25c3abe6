"""Mixtures over blocks: as in memory where rows fit, chosen on a sample where they do not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.class_weight import compute_sample_weight

from tests.distributed.blocks import as_dask
from vicinal import distributed
from vicinal.auto import AutoClassifier, AutoRegressor, _fit
from vicinal.auto._linear import LinearClassifier, LinearRegressor
from vicinal.partition import SpacePartitioningClassifier

pytestmark = pytest.mark.usefixtures("one_thread")


def table(n_rows=500, n_classes=3):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n_rows, 3)) * [1.0, 3.0, 0.2] + [0.0, 5.0, 1.0]
    z = X[:, 0] + X[:, 1] / 3.0 + 0.5 * rng.normal(size=n_rows)
    edges = np.quantile(z, np.arange(1, n_classes) / n_classes)
    return X, z, np.array(["a", "b", "c"])[np.digitize(z, edges)]


def fitted(model, X, y, rows_per_block=150, weight=None):
    weight = None if weight is None else as_dask(weight, rows_per_block)
    rows, targets = as_dask(X, rows_per_block), as_dask(y, rows_per_block)
    return distributed.fit(model, rows, targets, sample_weight=weight)


def test_a_table_that_fits_is_fitted_as_in_memory():
    X, _, y = table(120)
    model = AutoClassifier(["local", "linear"], random_state=0)
    found, expected = fitted(model, X, y, 50), model.fit(X, y)
    assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    assert_array_equal(found.held_out_, expected.held_out_)
    assert {base.n_rows for base in found.estimators_} == {120}


@pytest.mark.parametrize("rows_per_block", [70, 500])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("solver", ["ridge", "logistic", "lda"])
def test_linear_estimators_of_blocks_are_those_of_memory(solver, n_classes, rows_per_block):
    X, _, y = table(n_classes=n_classes)
    weight = np.random.RandomState(1).uniform(0.5, 2.0, len(y))
    model = LinearClassifier(solver, alpha=0.5)
    found = fitted(model, X, y, rows_per_block, weight)
    expected = model.fit(X, y, weight)
    assert_allclose(found.coef_, expected.coef_, rtol=1e-7, atol=1e-9)
    assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-8)


def test_ridge_of_blocks_is_that_of_memory():
    X, z, _ = table()
    found, expected = fitted(LinearRegressor(), X, z), LinearRegressor().fit(X, z)
    assert_allclose(found.predict(X), expected.predict(X), rtol=1e-9)


@pytest.fixture
def small_sample(monkeypatch):
    monkeypatch.setattr(_fit, "SAMPLE_ROWS", 200)


@pytest.mark.parametrize("class_weight", [None, "balanced", {"a": 3.0}])
def test_estimators_with_a_block_form_know_all_rows(small_sample, class_weight):
    X, _, y = table()
    y[:6] = "r"
    tree = ("tree", DecisionTreeClassifier(max_depth=3, random_state=0))
    model = AutoClassifier(["linear", tree], class_weight=class_weight, random_state=0)
    found = fitted(model, X, y)
    assert found.classes_.tolist() == ["a", "b", "c", "r"]
    assert found.predict_proba(X).shape == (500, 4)
    sampled = np.isfinite(found.held_out_[:, 0]).sum()
    assert 150 < sampled < 260
    weight = compute_sample_weight(class_weight, y)
    names = []
    for member in found.estimators_:
        if member.name != "tree":
            names.append(member.name)
            assert member.n_rows == 500
            *steps, (_, last) = member.estimator.steps
            Z = X
            for _, step in steps:
                Z = step.transform(Z)
            expected = LinearClassifier(last.solver, last.alpha).fit(Z, y, weight)
            assert_allclose(last.predict_proba(Z), expected.predict_proba(Z), atol=1e-6)
        else:
            assert member.n_rows == sampled
    assert names
    other = fitted(model, X, y, 60)
    assert_allclose(other.predict_proba(X), found.predict_proba(X), atol=1e-9)


def test_estimators_given_are_fitted_by_their_own_blocks(small_sample):
    X, _, y = table()
    regions = SpacePartitioningClassifier("lda", n_regions=2, n_init=1, random_state=0)
    found = fitted(AutoClassifier([("regions", regions)], random_state=0), X, y)
    assert found.estimators_[0].n_rows == 500
    alone = fitted(regions, X, y)
    assert_allclose(found.estimators_[0].estimator.predict_proba(X), alone.predict_proba(X))


def test_numbers_of_many_rows(small_sample):
    X, z, _ = table()
    found = fitted(AutoRegressor(["linear", ("plain", Ridge())], random_state=0), X, z)
    assert found.score(X, z) > 0.8


def test_neighbours_keep_their_row_numbers(small_sample):
    X, z, _ = table()
    found = fitted(AutoRegressor(["local"], random_state=0), X, z)
    neighbors = {section.key: section for section in found.explain_row(X[:1])}["neighbors"]
    for row, target, _ in neighbors.rows:
        assert z[row] == target
