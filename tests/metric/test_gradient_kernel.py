"""Kernel ridge in the metric of its own gradients."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_friedman1, make_moons
from sklearn.metrics import log_loss
from sklearn.svm import SVC

from vicinal.metric import (
    GradientKernelClassifier,
    GradientKernelRegressor,
    _gradient_fit,
)


@pytest.fixture(scope="module")
def friedman():
    return make_friedman1(400, 12, noise=0.5, random_state=0)


@pytest.fixture(scope="module")
def moons():
    return make_moons(600, noise=0.3, random_state=0)


def unexplained(model, X, y):
    return np.mean((model.predict(X) - y) ** 2) / np.var(y)


def test_rounds_find_the_columns_that_act_and_halve_the_error(friedman):
    X, y = friedman
    plain = GradientKernelRegressor(n_rounds=0).fit(X[:200], y[:200])
    model = GradientKernelRegressor().fit(X[:200], y[:200])
    assert unexplained(model, X[200:], y[200:]) < 0.5 * unexplained(plain, X[200:], y[200:])
    assert model.feature_importances_[5:].max() < 0.02
    assert_allclose(model.feature_importances_.sum(), 1.0)


def test_leave_one_out_estimates_the_error(friedman):
    X, y = friedman
    model = GradientKernelRegressor(metric="diagonal").fit(X[:200], y[:200])
    estimated = np.mean((model.loo_prediction_ - y[:200]) ** 2) / np.var(y[:200])
    assert 0.6 < estimated / unexplained(model, X[200:], y[200:]) < 1.4


def test_turned_columns_need_the_full_metric():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 8))
    y = np.sin(2 * (X @ np.ones(8)) / np.sqrt(8))
    errors = {
        metric: unexplained(
            GradientKernelRegressor(metric=metric).fit(X[:150], y[:150]), X[150:], y[150:]
        )
        for metric in ("diagonal", "full", "auto")
    }
    assert errors["full"] < 0.5 * errors["diagonal"]
    assert errors["auto"] == errors["full"]


@pytest.mark.parametrize("seed", [5, 7])
def test_a_column_that_only_modulates_another_is_found(seed):
    # A wide kernel, nearly a polynomial of low degree, does best at first and is blind to it.
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1, 1, (200, 20))
    y = X[:, 0] * (0.3 + np.cos(2.6 * X[:, 1])) + 0.05 * rng.normal(size=200)
    model = GradientKernelRegressor(metric="diagonal", n_rounds=3).fit(X, y)
    assert model.feature_importances_[1] > 0.6
    assert np.mean((model.loo_prediction_ - y) ** 2) < 0.05 * np.var(y)


def test_a_full_metric_has_to_pay_for_its_numbers():
    # Nothing is turned here; leave-one-out alone prefers the metric that has seen more of the rows.
    X, y = make_friedman1(100, 8, noise=1.0, random_state=0)
    models = {m: GradientKernelRegressor(metric=m).fit(X, y) for m in ("diagonal", "full", "auto")}
    estimated = {m: np.mean((model.loo_prediction_ - y) ** 2) for m, model in models.items()}
    assert estimated["full"] < estimated["diagonal"] == estimated["auto"]


def test_slopes_are_differences_of_the_predictions(friedman):
    X, y = friedman
    model = GradientKernelRegressor(n_rounds=2).fit(X[:150], np.stack([y, y**2], axis=1)[:150])
    Q, slopes = X[200:203], model.local_coef(X[200:203])
    assert slopes.shape == (3, 2, 12)
    step = 1e-5 * np.eye(12)
    for k in range(12):
        change = (model.predict(Q + step[k]) - model.predict(Q - step[k])) / 2e-5
        assert_allclose(slopes[:, :, k], change, rtol=1e-4, atol=1e-4 * np.abs(slopes).max())


def test_slopes_of_log_probabilities_are_differences():
    X, y = load_iris(return_X_y=True)
    model = GradientKernelClassifier(n_rounds=1).fit(X, y)
    Q, slopes = X[::40], model.local_coef(X[::40])
    step = 1e-5 * np.eye(4)
    for k in range(4):
        up, down = (np.log(model.predict_proba(Q + s)) for s in (step[k], -step[k]))
        assert_allclose(slopes[:, :, k], (up - down) / 2e-5, rtol=1e-4, atol=1e-5)


def test_classes_are_separated_like_by_a_support_vector_machine():
    X, y = load_iris(return_X_y=True)
    model = GradientKernelClassifier().fit(X[::2], y[::2])
    machine = SVC(C=10.0).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) >= machine.score(X[1::2], y[1::2]) - 0.02
    assert model.loo_proba_.shape == (75, 3)
    assert np.mean(model.loo_proba_.argmax(axis=1) == y[::2]) > 0.9


def test_balanced_classes_favour_the_rare_one():
    rng = np.random.RandomState(0)
    X = np.r_[rng.normal(size=(200, 2)), rng.normal(size=(20, 2)) + 1.0]
    y = np.r_[np.zeros(200, int), np.ones(20, int)]
    plain = GradientKernelClassifier(n_rounds=1).fit(X, y)
    balanced = GradientKernelClassifier(n_rounds=1, class_weight="balanced").fit(X, y)
    assert balanced.predict(X[200:]).mean() > plain.predict(X[200:]).mean() + 0.3


def test_blocks_are_blended_without_a_jump(friedman):
    X, y = friedman
    model = GradientKernelRegressor(max_block_size=120, n_rounds=2, random_state=0)
    model.fit(X[:300], y[:300])
    assert len(model.blocks_) >= 3
    assert max(len(block["rows"]) for block in model.blocks_) <= 120
    whole = GradientKernelRegressor(n_rounds=2).fit(X[:300], y[:300])
    assert unexplained(model, X[300:], y[300:]) < 2.0 * unexplained(whole, X[300:], y[300:]) + 0.05
    estimated = np.mean((model.loo_prediction_ - y[:300]) ** 2) / np.var(y[:300])
    assert estimated < 0.3
    line = X[0] + np.linspace(0, 1, 2000)[:, None] * (X[7] - X[0])
    jumps = np.abs(np.diff(model.predict(line)))
    assert jumps.max() < 0.02 * np.ptp(y)


def test_rows_that_cannot_be_split_are_sampled():
    X = np.zeros((60, 2))
    y = np.arange(60.0)
    model = GradientKernelRegressor(max_block_size=20, random_state=0).fit(X, y)
    assert len(model.blocks_) == 1
    assert_allclose(model.predict(X[:2]), y[model.blocks_[0]["rows"]].mean())
    # The other rows are predicted by a model that has not seen them.
    unseen = np.setdiff1d(np.arange(60), model.blocks_[0]["rows"])
    assert_allclose(model.loo_prediction_[unseen], model.predict(X[unseen]))


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_two_rows_constant_columns_and_more_columns_than_rows(kernel):
    rng = np.random.RandomState(0)
    for X in (rng.normal(size=(2, 3)), np.ones((5, 3)), rng.normal(size=(8, 30))):
        y = np.arange(len(X), dtype=float)
        model = GradientKernelRegressor(kernel).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        assert np.isfinite(model.local_coef(X)).all()


def test_a_constant_target_is_predicted_exactly(friedman):
    X, _ = friedman
    model = GradientKernelRegressor().fit(X[:30], np.full(30, 7.0))
    assert_allclose(model.predict(X[30:]), 7.0)


def test_held_out_rows_are_unknown_to_metric_and_ridge():
    X, y = make_friedman1(300, 8, noise=1.0, random_state=0)
    folds = np.array_split(np.random.RandomState(1).permutation(300), 5)
    model = GradientKernelRegressor(metric="diagonal", random_state=0)
    estimated = model.held_out(X, y, folds=folds)
    assert_array_equal(estimated.rows, np.concatenate(folds))
    fresh, truth = make_friedman1(2000, 8, noise=1.0, random_state=1)
    error = np.mean((model.fit(X, y).predict(fresh) - truth) ** 2)
    assert np.mean((estimated.predictions[0, :, 0] - y[estimated.rows]) ** 2) == pytest.approx(
        error, rel=0.25
    )
    # A target of the first fold changes predictions of the fold by mean and scale of targets alone.
    y[folds[0][0]] += 1e-3
    moved = abs(model.held_out(X, y, folds=folds).predictions - estimated.predictions)[0, :, 0]
    assert moved[: len(folds[0])].max() < 2e-5 < moved.max()


@pytest.mark.statistical
def test_noise_is_not_learned_by_folds_that_share_a_start():
    rng = np.random.RandomState(0)
    errors = []
    for _ in range(5):
        X, y = rng.normal(size=(200, 10)), rng.normal(size=200)
        folds = np.array_split(np.arange(200), 5)
        estimated = GradientKernelRegressor(random_state=0).held_out(X, y, folds=folds)
        errors.append(np.mean((estimated.predictions[0, :, 0] - y) ** 2) / y.var())
    assert np.mean(errors) > 0.99


def test_folds_after_the_first_and_the_fit_solve_few_ridges(friedman, monkeypatch):
    X, y = friedman
    folds = np.array_split(np.arange(200), 5)
    model = GradientKernelRegressor(metric="diagonal", random_state=0)
    first = model.held_out(X[:200], y[:200], folds=folds[:1])
    solve, solved = _gradient_fit.kernels.kernel_ridge, []

    def counted(*args):
        solved.append(args[4])  # the penalty
        return solve(*args)

    monkeypatch.setattr(_gradient_fit.kernels, "kernel_ridge", counted)
    first.more(folds[1:])
    block = first.fitted(0).blocks_[0]
    assert solved == [block["alpha"]] * 10  # two for each of four folds and the fit


@pytest.mark.statistical
def test_a_model_fitted_from_held_out_folds_predicts_as_well(friedman):
    X, y = friedman
    folds = np.array_split(np.arange(300), 5)
    model = GradientKernelRegressor(metric="diagonal", n_rounds=3, random_state=0)
    first = model.held_out(X[:300], y[:300], folds=folds[:1])
    rest = first.more(folds[1:])
    assert_array_equal(rest.rows, np.concatenate(folds[1:]))
    whole = model.held_out(X[:300], y[:300], folds=folds)
    assert_allclose(first.predictions, whole.predictions[:, : len(folds[0])])
    alone = clone(model).fit(X[:300], y[:300])
    errors = [unexplained(one, X[300:], y[300:]) for one in (first.fitted(0), alone)]
    assert errors[0] < 1.1 * errors[1]


def test_classes_of_a_fold_are_not_seen_by_the_ridge_that_predicts_it(moons):
    X, y = moons
    folds = np.array_split(np.arange(200), 5)
    model = GradientKernelClassifier(metric="diagonal", n_rounds=1, random_state=0)
    estimated = model.held_out(X[:200], y[:200], folds=folds)
    assert_array_equal(estimated.rows, np.arange(200))
    assert_allclose(estimated.predictions[0].sum(axis=1), 1.0)
    # The start is learned outside the first fold, so its labels change the temperature alone.
    changed = y[:200].copy()
    changed[folds[0]] = changed[folds[0]][::-1]
    moved = model.held_out(X[:200], changed, folds=folds).predictions[0]
    before = estimated.predictions[0]
    scores = [np.diff(np.log(p[: len(folds[0])]), axis=1)[:, 0] for p in (before, moved)]
    assert_allclose(scores[0] / scores[1], scores[0][0] / scores[1][0], rtol=1e-6)


def test_held_out_probabilities_estimate_those_of_new_rows(moons):
    X, y = moons
    folds = np.array_split(np.arange(300), 5)
    model = GradientKernelClassifier(metric="diagonal", n_rounds=1, random_state=0)
    estimated = model.held_out(X[:300], y[:300], folds=folds)
    fitted = estimated.fitted(0)
    loss = log_loss(y[300:], fitted.predict_proba(X[300:]))
    assert log_loss(y[:300], estimated.predictions[0]) == pytest.approx(loss, rel=0.3)
    alone = clone(model).fit(X[:300], y[:300])
    assert loss < 1.1 * log_loss(y[300:], alone.predict_proba(X[300:]))


def test_held_out_probabilities_of_many_rows_leave_one_out(moons):
    X, y = moons
    rows = np.arange(0, 200, 7)
    folds = [rows, np.setdiff1d(np.arange(200), rows)]
    settings = {"metric": "diagonal", "n_rounds": 1, "random_state": 0}
    model = GradientKernelClassifier(max_block_size=400, **settings)
    estimated = model.held_out(X[:200], y[:200], folds=folds, rows=rows)
    fitted = clone(model).fit(X[:200], y[:200])
    assert_array_equal(estimated.rows, rows)
    assert_allclose(estimated.predictions[0], fitted.loo_proba_[rows])
    assert_allclose(
        estimated.fitted(0, X[:150], y[:150], None).predict_proba(X),
        clone(model).fit(X[:150], y[:150]).predict_proba(X),
    )


def test_weight_two_is_the_row_twice_in_folds(moons):
    X, y = moons
    X, y = X[:60], y[:60]
    model = GradientKernelClassifier(metric="diagonal", n_rounds=0, random_state=0)
    folds = np.array_split(np.arange(60), 3)
    weighted = model.held_out(X, y, folds=folds, sample_weight=np.full(60, 2.0))
    twice = [np.concatenate([fold, fold + 60]) for fold in folds]
    repeated = model.held_out(np.vstack([X, X]), np.r_[y, y], folds=twice)
    order = np.argsort(repeated.rows, kind="stable")[:60]
    assert_allclose(repeated.predictions[0][order], weighted.predictions[0], rtol=1e-5)


@pytest.mark.parametrize("reason", ["groups", "zero weights", "blocks"])
def test_folds_are_independent_where_no_start_is_shared(reason):
    X, y = make_friedman1(60, 5, random_state=0)
    folds = np.array_split(np.arange(60), 3)
    model = GradientKernelRegressor(n_rounds=1, max_block_size=50 if reason == "blocks" else 5000)
    weights = np.ones(60)
    if reason == "zero weights":
        weights[3] = 0.0
    groups = np.arange(60) // 2 if reason == "groups" else None
    model.set_params(random_state=0)
    estimated = model.held_out(
        X, y, folds=folds, sample_weight=weights, groups=groups, rows=folds[1]
    )
    outside = np.concatenate([folds[0], folds[2]])
    expected = clone(model).fit(X[outside], y[outside], weights[outside]).predict(X[folds[1]])
    assert_allclose(estimated.predictions[0, :, 0], expected)


def test_more_rows_than_the_metric_looks_at(friedman, monkeypatch):
    X, y = friedman
    whole = GradientKernelRegressor(metric="diagonal", random_state=0).fit(X[:300], y[:300])
    monkeypatch.setattr(_gradient_fit, "_DIAGONAL_ROWS", 100)
    monkeypatch.setattr(GradientKernelRegressor, "_last_rows", 200)
    model = clone(whole).fit(X[:300], y[:300])
    (block,) = model.blocks_
    assert block["mapped"].shape == (300, 12)
    assert unexplained(model, X[300:], y[300:]) < 1.5 * unexplained(whole, X[300:], y[300:])
    assert np.mean((model.loo_prediction_ - y[:300]) ** 2) < 1.0  # noise has 0.25


def test_few_columns_of_many_are_found():
    """From 350 rows they are not: the error is three times as large."""
    X, y = make_friedman1(1500, 30, noise=1.0, random_state=1)
    model = GradientKernelRegressor(metric="diagonal", n_rounds=3, random_state=0)
    assert unexplained(model.fit(X[:1000], y[:1000]), X[1000:], y[1000:]) < 0.07


def test_without_rounds_more_rows_leave_the_columns_as_they_are(friedman, monkeypatch):
    X, y = friedman
    monkeypatch.setattr(_gradient_fit, "_ROUND_ROWS", 100)
    monkeypatch.setattr(GradientKernelRegressor, "_last_rows", 200)
    model = GradientKernelRegressor(n_rounds=0, random_state=0).fit(X, y)
    components = model.blocks_[0]["components"]
    assert_allclose(components, np.full(12, components[0]))


@pytest.mark.parametrize("metric", ["auto", "full"])
def test_wide_tables_form_no_matrix_of_the_columns(metric):
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(20, 1000)), np.arange(20) % 2
    X[:, :5] += 3 * y[:, None]
    GradientKernelClassifier(n_rounds=0).fit(X[:, :3], y)  # imports allocate, too
    tracemalloc.start()
    try:
        model = GradientKernelClassifier(metric=metric, random_state=0).fit(X, y)
        model.predict_proba(X), model.local_coef(X[:2])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 1000**2
    assert model.feature_importances_.argmax() < 5
    assert_allclose(np.diag(model.outer_product_).argmax(), model.feature_importances_.argmax())


@pytest.mark.parametrize("max_block_size", [5000, 60])
def test_stored_gradients_make_the_outer_product(friedman, max_block_size):
    X, y = friedman
    model = GradientKernelRegressor(max_block_size=max_block_size, random_state=0)
    model.fit(X[:150], y[:150])
    assert all(len(block["gradients"]) <= 12 for block in model.blocks_)
    share = np.diag(model.outer_product_) / np.trace(model.outer_product_)
    assert_allclose(share, model.feature_importances_)
    # The mean outer product of the slopes that the model reports, where there is one block.
    if len(model.blocks_) == 1:
        slopes = model.local_coef(X[:150]) * model.scale_ / model.target_scale_
        assert_allclose(slopes.T @ slopes / 150, model.outer_product_, rtol=1e-6, atol=1e-9)
