"""A linear metric from the slopes of local models."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from vicinal._kernels.local._batched import gradient_outer_product, metric_step
from vicinal.local import GradientMetric, LocalRegressor
from vicinal.local import _gradient_metric as module


def test_outer_product_is_the_weighted_mean(rng):
    slopes = rng.normal(size=(7, 2, 3))
    weights = rng.randint(1, 4, 7).astype(float)
    by_hand = sum(w * B.T @ B for w, B in zip(weights, slopes, strict=True)) / weights.sum()
    assert_allclose(gradient_outer_product(slopes, weights), by_hand)
    repeated = np.repeat(slopes, weights.astype(int), axis=0)
    assert_allclose(gradient_outer_product(repeated), by_hand)


def test_step_takes_fourth_roots_and_keeps_a_floor():
    step = metric_step(np.diag([16.0, 1.0, 0.0]), floor=0.1, diagonal=False)
    expected = np.array([2.2, 1.2, 0.2])
    expected *= np.sqrt(3) / np.linalg.norm(expected)
    assert_allclose(np.diag(step), expected)
    assert_allclose(metric_step(np.zeros((2, 2)), floor=0.1, diagonal=False), np.eye(2))


def test_slopes_of_a_linear_function_give_its_direction(rng):
    X = rng.normal(size=(400, 4))
    direction = np.array([3.0, 0.0, -4.0, 0.0]) / 5.0
    model = GradientMetric(n_rounds=1, alpha=1e-6, random_state=0).fit(X, X @ direction)
    values, vectors = np.linalg.eigh(model.outer_products_[0])
    scaled = direction * model.scale_
    assert_allclose(abs(vectors[:, -1] @ scaled) / np.linalg.norm(scaled), 1.0, atol=1e-8)
    assert values[-2] < 1e-8 * values[-1]


def test_irrelevant_columns_fade_over_rounds(rng):
    X = rng.uniform(-1, 1, size=(800, 10))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    share = [
        GradientMetric(n_rounds=r, random_state=0).fit(X, y).feature_importances_[2:].sum()
        for r in (1, 3, 5)
    ]
    assert share[0] > share[1] > share[2]
    assert share[2] < 0.1


def test_diagonal_keeps_the_axes(rng):
    X = rng.normal(size=(200, 3))
    model = GradientMetric(diagonal=True, random_state=0).fit(X, X[:, 0] + X[:, 1])
    assert_allclose(model.components_, np.diag(np.diag(model.components_)))


def test_without_standardizing_columns_keep_their_unit(rng):
    X = rng.normal(size=(150, 3)) * [1.0, 3.0, 0.2]
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    model = GradientMetric(standardize=False, random_state=0).fit(X, y)
    assert_allclose(model.scale_, 1.0)
    assert_allclose(model.transform(X), (X - X.mean(axis=0)) @ model.components_.T)
    # A local model hands the arguments of the metric on, and chooses the rounds.
    local = LocalRegressor(metric="gradient", metric_params={"standardize": False}).fit(X, y)
    assert not local.metric_.standardize
    assert_allclose(local.metric_.scale_, 1.0)


def test_result_does_not_depend_on_shift_and_scale(rng):
    X = rng.normal(size=(150, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    first = GradientMetric(random_state=0).fit(X, y).transform(X)
    Z = 5.0 + X * [1.0, 100.0, 0.01]
    assert_allclose(GradientMetric(random_state=0).fit(Z, y).transform(Z), first, rtol=1e-7,
                    atol=1e-9)  # fmt: skip


def test_weights_equal_repetition(rng):
    X, weights = rng.normal(size=(80, 3)), rng.randint(0, 3, 80)
    y = X[:, 0] ** 2 + X[:, 1]
    weighted = GradientMetric(n_neighbors=30).fit(X, y, sample_weight=weights)
    repeated = GradientMetric(n_neighbors=30).fit(np.repeat(X, weights, 0), np.repeat(y, weights))
    assert_allclose(weighted.components_, repeated.components_, rtol=1e-8, atol=1e-10)


def test_helps_nearest_neighbours_before_noise_columns(rng):
    X, y = load_wine(return_X_y=True)
    X = np.column_stack([X, rng.normal(size=(len(X), 20))])
    plain = make_pipeline(GradientMetric(n_rounds=1, random_state=0), KNeighborsClassifier())
    learned = make_pipeline(GradientMetric(n_rounds=4, random_state=0), KNeighborsClassifier())
    fit = slice(None, None, 2)
    scores = [m.fit(X[fit], y[fit]).score(X[1::2], y[1::2]) for m in (plain, learned)]
    assert scores[1] >= 0.9


def test_serves_as_a_metric(rng):
    X = rng.uniform(-1, 1, size=(300, 8))
    y = np.sin(4 * X[:, 0])
    settings = {"n_neighbors": 30, "alpha": 0.1, "degree": 1}
    plain = LocalRegressor(metric="standardized", **settings).fit(X[:200], y[:200])
    learned = LocalRegressor(metric=GradientMetric(random_state=0), **settings)
    learned.fit(X[:200], y[:200])
    errors = [np.mean((m.predict(X[200:]) - y[200:]) ** 2) for m in (plain, learned)]
    assert errors[1] < 0.5 * errors[0]
    assert learned.local_coef(X[200:205]).shape == (5, 8)


def test_constant_columns_count_for_nothing(rng):
    X = np.column_stack([rng.normal(size=(100, 2)), np.ones(100)])
    model = GradientMetric(random_state=0).fit(X, X[:, 0])
    assert model.feature_importances_[2] == 0.0


def test_of_many_rows_some_are_learned_from(rng, monkeypatch):
    X = rng.normal(size=(300, 4))
    y = np.sin(X[:, 0])
    sampled = np.sort(np.random.RandomState(0).choice(300, 120, replace=False))
    expected = GradientMetric(random_state=0).fit(X[sampled], y[sampled])
    monkeypatch.setattr(module, "_MAX_ROWS", 120)
    found = GradientMetric(random_state=0).fit(X, y)
    assert_allclose(found.components_, expected.components_)


def test_too_many_neighbours_is_an_error(rng):
    with pytest.raises(ValueError, match="n_neighbors=50 must be below the 40 samples"):
        GradientMetric(n_neighbors=50).fit(rng.normal(size=(40, 2)), np.arange(40.0))


def test_rows_too_large_to_be_mapped_are_refused(rng):
    X = rng.normal(size=(40, 2)) * [1e-12, 1.0]
    model = GradientMetric(random_state=0).fit(X, X[:, 1])
    with pytest.raises(ValueError, match=r"X holds 1e\+300, but squares"):
        model.transform([[1e300, 0.0]])
