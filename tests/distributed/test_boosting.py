"""Boosting over blocks: in memory where rows fit, over fresh draws where they do not."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from vicinal import distributed
from vicinal.ensemble import (
    FunctionalGradientBoostingClassifier,
    FunctionalGradientBoostingRegressor,
    _boosting_blocks,
)

BLOCKS = (150, 400, 5000)


@pytest.fixture(scope="module")
def table():
    X, z = make_friedman1(1200, n_features=5, noise=0.5, random_state=0)
    return X, z, np.array(["low", "middle", "high"])[np.digitize(z, [11.0, 17.0])]


def fitted(model, X, y, rows_per_block, weight=None):
    rows = da.from_array(X, chunks=(rows_per_block, X.shape[1]))
    targets = da.from_array(y, chunks=rows_per_block)
    weight = None if weight is None else da.from_array(weight, chunks=rows_per_block)
    return distributed.fit(model, rows, targets, sample_weight=weight)


def test_a_table_that_fits_is_boosted_as_in_memory(table):
    X, _, y = table
    model = FunctionalGradientBoostingClassifier(n_estimators=5, random_state=0)
    assert_array_equal(fitted(model, X, y, 500).predict_proba(X), model.fit(X, y).predict_proba(X))


@pytest.mark.parametrize("classify", [True, False])
def test_draws_do_not_depend_on_blocks_or_batches(table, monkeypatch, classify):
    X, z, y = table
    monkeypatch.setattr(_boosting_blocks, "ROUND_ROWS", 400)
    kind = FunctionalGradientBoostingClassifier if classify else FunctionalGradientBoostingRegressor
    model, target = kind(n_estimators=12, random_state=0), y if classify else z
    first, *others = (fitted(model, X, target, size) for size in BLOCKS)
    monkeypatch.setattr(_boosting_blocks, "_BATCH_BYTES", 8 * 400 * 5 * 5)
    for other in (*others, fitted(model, X, target, 400)):
        assert_array_equal(other.predict(X), first.predict(X))
        assert_array_equal(other.train_score_, first.train_score_)


def test_fresh_draws_learn_what_one_memory_learns(table, monkeypatch):
    X, z, _ = table
    monkeypatch.setattr(_boosting_blocks, "ROUND_ROWS", 300)
    model = FunctionalGradientBoostingRegressor(n_estimators=60, random_state=0)
    found = fitted(model, X[:900], z[:900], 200)
    assert (
        found.score(X[900:], z[900:]) > model.fit(X[:900], z[:900]).score(X[900:], z[900:]) - 0.05
    )
    # The loss of a round is measured on rows that most earlier rounds did not see.
    residual = np.mean((found.predict(X[900:]) - z[900:]) ** 2)
    unit = found.train_score_[0] / np.mean((z - z.mean()) ** 2)
    assert 0.4 < found.train_score_[-1] / (unit * residual) < 1.5


def test_rows_held_out_stop_the_rounds(table, monkeypatch):
    X, z, _ = table
    monkeypatch.setattr(_boosting_blocks, "ROUND_ROWS", 300)
    model = FunctionalGradientBoostingRegressor(
        DecisionTreeRegressor(max_depth=2),
        n_estimators=400,
        learning_rate=0.5,
        n_iter_no_change=5,
        validation_fraction=0.3,
        random_state=0,
    )
    found = fitted(model, X, z, 300)
    assert found.n_iter_ < 400
    assert len(found.validation_score_) == found.n_iter_ + 5


def test_rows_of_weight_zero_are_never_seen(table, monkeypatch):
    X, z, _ = table
    monkeypatch.setattr(_boosting_blocks, "ROUND_ROWS", 300)
    broken, weight = z.copy(), np.ones(len(z))
    broken[::2], weight[::2] = 1e6, 0.0
    model = FunctionalGradientBoostingRegressor(n_estimators=5, random_state=0)
    assert fitted(model, X, broken, 300, weight).predict(X).max() < 100


def test_what_needs_all_members_on_the_same_rows_is_refused(table, monkeypatch):
    X, z, _ = table
    monkeypatch.setattr(_boosting_blocks, "ROUND_ROWS", 300)
    for options in ({"coefficients": "corrective"}, {"post_fit": "l1"}):
        model = FunctionalGradientBoostingRegressor(LinearRegression(), **options)
        with pytest.raises(ValueError, match="1200 rows are more than the 300"):
            fitted(model, X, z, 300)
