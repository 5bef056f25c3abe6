"""Boosted symmetric trees against a slow reference, brute force and what must hold."""

from dataclasses import replace
from itertools import combinations
from math import factorial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_friedman1

from vicinal._base import random_seeds
from vicinal._kernels.ensemble import _boosting
from vicinal._kernels.ensemble import _oblivious as kernels
from vicinal.ensemble import ObliviousBoostingClassifier, ObliviousBoostingRegressor, _oblivious
from vicinal.ensemble._oblivious_rounds import Boosting, _odds
from vicinal.inspection import explain

LOSSES = {
    "squared": (kernels.SQUARED, _boosting.SquaredError(), 1),
    "logistic": (kernels.LOGISTIC, _boosting.Logistic(), 1),
    "multinomial": (kernels.MULTINOMIAL, _boosting.Multinomial(3), 3),
    "quantile": (kernels.QUANTILE, _boosting.Quantile(0.3), 1),
}


def targets_and_scores(name, n=40, seed=0):
    rng = np.random.RandomState(seed)
    n_scores = LOSSES[name][2]
    if name in ("squared", "quantile"):
        y = rng.normal(size=n)
    else:
        y = rng.randint(3 if name == "multinomial" else 2, size=n).astype(float)
    return y, rng.normal(size=(n, n_scores))


def problem_and_state(loss, y, score, weights=None, level=0.3):
    weights = np.ones(len(y)) if weights is None else weights
    return (loss, level, y, weights), (score, _odds(loss, score))


def slopes_at(problem, state):
    slopes = np.empty(state[0].shape), np.empty(state[0].shape)
    kernels.derivatives(problem, state, *slopes)
    return slopes


def fitted_leaves(problem, state, leaf, n_leaves, l2, n_steps):
    slopes = slopes_at(problem, state)
    return kernels.leaf_values(problem, state, slopes, leaf, n_leaves, l2, n_steps)


# --- losses ---


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_agree_with_differences_of_the_loss(name):
    loss, reference, n_scores = LOSSES[name]
    y, score = targets_and_scores(name)
    problem, state = problem_and_state(loss, y, score)
    gradient, curvature = slopes_at(problem, state)
    step = 1e-5

    codes = y.astype(int) if name == "multinomial" else y

    def losses(at):
        return reference.value(codes, at if n_scores > 1 else at[:, 0])

    for k in range(n_scores):
        shift = step * (np.arange(n_scores) == k)
        up, here, down = losses(score + shift), losses(score), losses(score - shift)
        assert_allclose(gradient[:, k], (up - down) / (2 * step), atol=1e-8)
        if name != "quantile":
            assert_allclose(curvature[:, k], (up - 2 * here + down) / step**2, atol=1e-4)
    flat = score if n_scores > 1 else score[:, 0]
    assert_allclose(gradient.reshape(flat.shape), reference.gradient(codes, flat), atol=1e-12)
    assert kernels.total_loss(problem, state) == pytest.approx(losses(score).sum())


@pytest.mark.parametrize("size", [1.0, 1e6])
@pytest.mark.parametrize("name", ["logistic", "multinomial"])
def test_odds_follow_the_scores_and_stay_finite(name, size):
    loss, _, n_scores = LOSSES[name]
    y, score = targets_and_scores(name)
    problem, state = problem_and_state(loss, y, score)
    rng = np.random.RandomState(1)
    for _ in range(20):
        values = size * rng.normal(size=(4, n_scores))
        kernels.add_to_state(loss, values, rng.randint(4, size=len(y)).astype(np.uint8), state)
        if size == 1.0:
            expected = slopes_at(*problem_and_state(loss, y, score))
            assert_allclose(slopes_at(problem, state), expected, atol=1e-12)
    assert np.isfinite(state[1]).all()
    assert np.isfinite(kernels.total_loss(problem, state))


@pytest.mark.parametrize("name", ["squared", "logistic", "multinomial"])
def test_leaf_values_are_where_the_penalised_loss_is_flat(name):
    loss, reference, n_scores = LOSSES[name]
    y, score = targets_and_scores(name)
    rng = np.random.RandomState(1)
    weights, leaf = rng.uniform(0.5, 2.0, len(y)), rng.randint(4, size=len(y)).astype(np.uint8)
    problem, state = problem_and_state(loss, y, score, weights)
    values = fitted_leaves(problem, state, leaf, 4, 2.0, 1 if name == "squared" else 50)

    def objective(own, change):
        rows = leaf == own
        at = score[rows] + values[own] + change
        codes = y[rows].astype(int) if name == "multinomial" else y[rows]
        value = weights[rows] @ reference.value(codes, at if n_scores > 1 else at[:, 0])
        return value + np.sum((values[own] + change) ** 2)

    for own in range(4):
        for direction in np.eye(n_scores):
            slope = objective(own, 1e-4 * direction) - objective(own, -1e-4 * direction)
            assert slope / 2e-4 == pytest.approx(0.0, abs=1e-3)


def test_newton_steps_of_a_rare_class_do_not_overshoot():
    """Plain Newton steps jump from -6 to far above 0 and back, for ever."""
    n = 200
    y, score = np.ones(n), np.full((n, 1), -6.0)
    leaf = np.zeros(n, dtype=np.uint8)
    problem, state = problem_and_state(kernels.LOGISTIC, y, score)
    found = [fitted_leaves(problem, state, leaf, 1, 3.0, k)[0, 0] for k in (2, 5, 50, 51)]
    assert_allclose(found[:2], [2.0, 5.0])
    assert found[2] == pytest.approx(found[3], abs=1e-9)
    value = found[-1]
    assert 3.0 * value == pytest.approx(n / (1.0 + np.exp(value - 6.0)), rel=1e-6)


def test_leaf_values_of_the_quantile_loss_are_shrunk_quantiles():
    y = np.arange(10.0)
    leaf = np.repeat([0, 1], 5).astype(np.uint8)
    problem, state = problem_and_state(kernels.QUANTILE, y, np.zeros((10, 1)), level=0.5)
    found = fitted_leaves(problem, state, leaf, 2, 5.0, 1)
    assert_allclose(found[:, 0], np.array([2.0, 7.0]) * 5 / (5 + 5))


# --- trees ---


def slow_tree(codes, stats, depth, l2, allowed=None):
    """The same splits by trying every column and every code."""
    leaf, splits = np.zeros(codes.shape[1], dtype=int), []

    def score_of(leaf):
        sums = np.stack([np.bincount(leaf, s, 2**depth) for s in stats.T])
        return np.sum(sums[:-1] ** 2 / (sums[-1] + l2))

    for level in range(depth):
        trials = {
            (j, b): score_of(leaf | (codes[j] > b) << level)
            for j in (range(len(codes)) if allowed is None else allowed[level])
            for b in range(codes[j].max())
        }
        j, b = max(trials, key=trials.get)
        splits.append((j, b, trials[j, b] - score_of(leaf)))
        leaf |= (codes[j] > b) << level
    return splits, leaf


@pytest.mark.parametrize("n_columns", [2, 5])
@pytest.mark.parametrize("seed", range(5))
def test_a_tree_has_the_splits_of_the_slow_reference(n_columns, seed):
    """Splits are chosen by some of the rows, and all rows fall into their leaves."""
    rng = np.random.RandomState(seed)
    codes = rng.randint(12, size=(5, 150)).astype(np.uint8)
    stats = np.column_stack([rng.normal(size=150), rng.uniform(0.1, 1.0, 150)])
    rows = np.flatnonzero(rng.uniform(size=150) < 0.7).astype(np.uint32)
    depth, leaf = 4, np.empty(150, dtype=np.uint8)
    allowed = np.stack([np.sort(rng.permutation(5)[:n_columns]) for _ in range(depth)])
    columns, splits = np.empty(depth, dtype=np.int32), np.empty(depth, dtype=np.uint8)
    gains, n_codes = np.empty(depth), np.full(5, 12)
    tree = columns, splits, gains
    kernels.grow_tree((codes, n_codes), allowed, rows, stats[rows], 2.0, tree, leaf)
    expected, expected_leaf = slow_tree(codes[:, rows], stats[rows], depth, 2.0, allowed)
    assert [(j, b) for j, b, _ in expected] == list(zip(columns, splits, strict=True))
    assert_allclose(gains, [gain for *_, gain in expected], rtol=1e-6)
    assert_array_equal(leaf[rows], expected_leaf)
    again = np.empty(150, dtype=np.uint8)
    kernels.leaf_codes(codes, columns, splits, again)
    assert_array_equal(leaf, again)


def test_a_share_of_the_columns_is_sampled_for_each_level():
    """With one of ten columns a level, the levels of a tree still split different columns."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(200, 10))
    y = X.sum(axis=1) > 0
    one = ObliviousBoostingClassifier(30, max_features=0.1, cv=None, random_state=0).fit(X, y)
    per_tree = [len(set(columns)) for columns in one._split_columns]
    assert max(per_tree) > 2
    share = ObliviousBoostingClassifier(30, max_features=0.3, cv=None, random_state=0)
    auto, every = (clone(share).set_params(max_features=m).fit(X, y) for m in ("auto", 1.0))
    assert_array_equal(auto.predict_proba(X), share.fit(X, y).predict_proba(X))
    assert not np.array_equal(auto.predict_proba(X), every.predict_proba(X))
    # Fewer columns, or regression: all of them.
    few = [clone(share).set_params(max_features=m).fit(X[:, :9], y) for m in ("auto", 1.0)]
    assert_array_equal(*(model.predict_proba(X[:, :9]) for model in few))
    options = {"cv": None, "random_state": 0}
    both = [ObliviousBoostingRegressor(30, max_features=m, **options) for m in ("auto", 1.0)]
    assert_array_equal(*(model.fit(X, X[:, 0]).predict(X) for model in both))


def test_boosting_repeats_a_slow_reference():
    """Squared error without random weights: bins, splits, means and shrinkage in plain NumPy."""
    X, y = make_friedman1(120, n_features=5, noise=0.5, random_state=0)
    model = ObliviousBoostingRegressor(
        20, depth=3, learning_rate=0.2, l2_regularization=1.0, max_bins=16, bootstrap=False, cv=None
    ).fit(X, y)
    codes = np.empty((5, 120), dtype=np.uint8)
    for j in range(5):
        edges = np.quantile(X[:, j], np.arange(1, 16) / 16, method="inverted_cdf")
        codes[j] = (X[:, j][:, None] > edges).sum(axis=1)
    score = np.full(120, y.mean())
    for _ in range(20):
        _, leaf = slow_tree(codes, np.column_stack([score - y, np.ones(120)]), 3, 1.0)
        top = np.bincount(leaf, y - score, 8)
        score += 0.2 * (top / (np.bincount(leaf, minlength=8) + 1.0))[leaf]
    assert_allclose(model.predict(X), score, rtol=1e-5)


def test_a_level_without_a_useful_split_changes_nothing():
    X, y = np.repeat([[0.0], [1.0]], 20, axis=0), np.repeat([0.0, 1.0], 20)
    model = ObliviousBoostingRegressor(50, depth=3, cv=None, learning_rate=0.5).fit(X, y)
    assert_allclose(model.predict([[0.0], [1.0]]), [0.0, 1.0], atol=1e-3)
    assert_allclose(model.shapley_values([[1.0]]), [[0.5]], atol=1e-3)


# --- bins and categories ---


def test_edges_split_values_into_bins_of_equal_weight():
    values = np.arange(100.0)
    edges = kernels.quantile_edges(values, np.ones(100), 4)
    assert_allclose(edges, [24.5, 49.5, 74.5])
    twice = kernels.quantile_edges(np.repeat(values[:50], 2), np.ones(100), 4)
    assert_allclose(twice, kernels.quantile_edges(values[:50], np.full(50, 2.0), 4))
    assert len(kernels.quantile_edges(np.array([1.0, np.nan, 1.0]), np.ones(3), 4)) == 0


def test_missing_values_are_a_bin_of_their_own():
    X = np.array([[np.nan], [0.0], [1.0]] * 30)
    y = np.array([5.0, 1.0, 0.0] * 30)
    model = ObliviousBoostingRegressor(200, depth=2, cv=None, random_state=0).fit(X, y)
    assert_allclose(model.predict(X[:3]), y[:3], atol=0.05)


def test_ordered_statistics_see_earlier_rows_only():
    category = np.array([0, 1, 0, 0, 1])
    target = np.array([1.0, 0.0, 0.0, 1.0, 1.0])
    weights, order = np.array([1.0, 1.0, 2.0, 1.0, 1.0]), np.array([3, 0, 4, 2, 1])
    rows = category, target[:, None], weights, order
    found = kernels.ordered_statistics(*rows, 2, np.array([0.5]), 1.0)[:, 0]
    assert_allclose(found, [1.5 / 2, 1.5 / 2, 2.5 / 3, 0.5, 0.5])


def categorical_table(n=600, seed=0):
    rng = np.random.RandomState(seed)
    effect = rng.normal(size=20)
    category = rng.randint(20, size=n)
    x = rng.normal(size=n)
    return category, x, effect[category] + 0.3 * x + 0.1 * rng.normal(size=n)


def test_categories_are_read_from_frames_masks_indices_and_names():
    pd = pytest.importorskip("pandas")
    category, x, y = categorical_table()
    X = np.column_stack([category, x])
    frame = pd.DataFrame({"code": category, "x": x})
    strings = frame.assign(code=[f"c{c:02d}" for c in category])
    quick = {"n_estimators": 60, "cv": None, "depth": 4, "random_state": 0}
    expected = ObliviousBoostingRegressor(**quick, categorical_features=[0]).fit(X, y).predict(X)
    for table, features in (
        (X, [True, False]),
        (frame, ["code"]),
        (frame.astype({"code": "category"}), "from_dtype"),
        (strings, "from_dtype"),
    ):
        model = ObliviousBoostingRegressor(**quick, categorical_features=features).fit(table, y)
        assert model.is_categorical_.tolist() == [True, False]
        assert_allclose(model.predict(table), expected)
    numeric = ObliviousBoostingRegressor(**quick).fit(X, y)
    assert not numeric.is_categorical_.any()


def test_polars_frames_give_the_same_model():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    category, x, y = categorical_table(200)
    table = {"word": [f"c{c}" for c in category], "x": x}
    quick = {"n_estimators": 20, "cv": None, "random_state": 0}
    first = ObliviousBoostingRegressor(**quick).fit(pd.DataFrame(table), y)
    second = ObliviousBoostingRegressor(**quick).fit(pl.DataFrame(table), y)
    assert_allclose(first.predict(pd.DataFrame(table)), second.predict(pl.DataFrame(table)))


@pytest.mark.parametrize("missing", [False, True])
def test_categories_with_slopes_of_their_own_are_learned_as_from_indicators(missing):
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    category, x = rng.randint(8, size=900), rng.normal(size=900)
    y = rng.normal(size=8)[category] * x + 0.1 * rng.normal(size=900)
    strings = np.array([f"c{c}" for c in category], dtype=object)
    if missing:
        strings[category == 3] = None
    frame = pd.DataFrame({"group": strings, "x": x})
    array = np.column_stack([np.eye(8)[category], x])
    errors = []
    for X in (frame.iloc, array):
        model = ObliviousBoostingRegressor(300, learning_rate=0.1, cv=None, depth=4, random_state=0)
        predicted = model.fit(X[:600], y[:600]).predict(X[600:])
        errors.append(np.mean((predicted - y[600:]) ** 2))
    assert errors[0] < 1.3 * errors[1] < 0.3 * y.var()
    values = model.fit(frame, y).shapley_values(frame[:5])
    np.testing.assert_allclose(values.sum(axis=1) + model.baseline_, model.predict(frame[:5]), 1e-6)


def test_unknown_categories_are_missing_ones():
    pd = pytest.importorskip("pandas")
    category, x, y = categorical_table()
    strings = np.array([f"c{c:02d}" for c in category], dtype=object)
    strings[::10] = None
    frame = pd.DataFrame({"word": strings, "x": x})
    model = ObliviousBoostingRegressor(50, cv=None, random_state=0).fit(frame, y)
    rows = pd.DataFrame({"word": ["c99", None, np.nan], "x": [0.0, 0.0, 0.0]})
    assert np.ptp(model.predict(rows)) == 0.0
    assert np.ptp(model.predict(rows.assign(word=["c00", "c01", "c02"]))) > 0.0


def test_arrays_and_frames_of_the_same_categories_agree():
    pd = pytest.importorskip("pandas")
    category, x, y = categorical_table(200)
    X, frame = np.column_stack([category, x]), pd.DataFrame({"code": category, "x": x})
    model = ObliviousBoostingRegressor(20, cv=None, categorical_features=[0], random_state=0)
    expected = model.fit(X, y).predict(X)
    named = model.set_params(categorical_features=["code"]).fit(frame, y)
    assert_allclose(named.predict(frame), expected)
    with pytest.warns(UserWarning, match="feature names"):
        assert_allclose(named.predict(X), expected)


def test_rows_of_weight_zero_leave_no_category_behind():
    pd = pytest.importorskip("pandas")
    category, x, y = categorical_table(100)
    frame = pd.DataFrame({"word": [f"c{c}" for c in category], "x": x})
    weights = (category != 3).astype(float)
    kept = np.flatnonzero(weights)
    quick = {"n_estimators": 20, "cv": None, "random_state": 0}
    weighted = ObliviousBoostingRegressor(**quick).fit(frame, y, sample_weight=weights)
    removed = ObliviousBoostingRegressor(**quick).fit(frame.iloc[kept], y[kept])
    assert weighted.categories_[0].tolist() == removed.categories_[0].tolist()
    assert_allclose(weighted.predict(frame), removed.predict(frame))


def test_a_category_of_one_row_is_unknown_to_its_fold():
    rng = np.random.RandomState(0)
    X = np.column_stack([np.arange(40) % 4, rng.normal(size=40)])
    X[7, 0] = 9.0  # the last category, in one fold only
    model = ObliviousBoostingRegressor(20, categorical_features=[0], random_state=0)
    assert np.isfinite(model.fit(X, X[:, 1]).predict(X)).all()


def test_many_random_categories_do_not_overfit():
    """Each row's own target would give the table away; earlier rows do not."""
    rng = np.random.RandomState(0)
    X, y = rng.randint(200, size=(400, 1)), rng.randint(2, size=400)
    model = ObliviousBoostingClassifier(categorical_features=[0], random_state=0).fit(X, y)
    proba = model.predict_proba(X)[:, 1]
    assert -np.mean(np.log(np.where(y == 1, proba, 1 - proba))) > 0.55


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([True], "must name some of the 2 columns"),
        ([7], "must name some of the 2 columns"),
        (["nothing"], "names"),
    ],
)
def test_wrong_categorical_features_are_refused(features, message):
    X = np.random.RandomState(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match=message):
        ObliviousBoostingRegressor(categorical_features=features).fit(X, X[:, 0])


# --- weights, losses, selection ---


def test_weight_two_is_the_row_twice_without_random_weights():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:200], y[:200]
    times = np.where(np.arange(200) % 3 == 0, 2, 1)
    quick = {"n_estimators": 30, "cv": None, "bootstrap": False, "random_state": 0}
    weighted = ObliviousBoostingClassifier(**quick).fit(X, y, sample_weight=times)
    repeated = ObliviousBoostingClassifier(**quick).fit(
        np.repeat(X, times, axis=0), np.repeat(y, times)
    )
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-4)


def test_held_out_rows_of_long_tables_decide_on_the_bootstrap(monkeypatch):
    monkeypatch.setattr(_oblivious, "_MANY_ROWS", 200)
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:200], y[:200]
    model = ObliviousBoostingClassifier(40, cv=3, random_state=0)
    folds = [np.arange(k, 200, 3) for k in range(3)]
    found = model.held_out(X, y, folds=folds)
    ways = {(one["max_features"], one["bootstrap"]) for one in found.candidates}
    assert ways <= {(0.3, True), (1.0, False)}
    tried = model.fit(X, y).validation_score_.min()
    fixed = [
        clone(model).set_params(max_features=share, bootstrap=bootstrap).fit(X, y)
        for share, bootstrap in ((0.3, True), (1.0, False))
    ]
    losses = [one.validation_score_.min() for one in fixed]
    assert tried == min(losses)
    best = fixed[int(np.argmin(losses))]
    assert_array_equal(model.predict_proba(X), best.predict_proba(X))
    monkeypatch.setattr(_oblivious, "_MANY_ROWS", 201)
    assert_array_equal(clone(model).fit(X, y).predict_proba(X), fixed[0].predict_proba(X))


@pytest.mark.parametrize("kind", [ObliviousBoostingClassifier, ObliviousBoostingRegressor])
def test_scores_are_the_means_of_those_of_the_runs(kind):
    rng = np.random.RandomState(0)
    # Every category is among the training rows, so that it is its own code.
    X = np.column_stack([rng.normal(size=(300, 3)), *2 * [np.arange(300) % 40]])
    X[::17, 3] = np.nan
    X[200:, 3:] = np.where(rng.rand(100, 2) < 0.1, np.nan, X[200:, 3:])
    y = (X[:, 0] + np.sin(X[:, 4]) + rng.normal(size=300) > 0).astype(int)
    model = kind(30, n_runs=3, cv=None, depth=3, categorical_features=[3, 4], random_state=0)
    data, (settings,) = clone(model)._prepare(X[:200], y[:200], None)
    held = replace(data, X=X[200:], y=y[200:], sample_weight=np.ones(100))
    runs = [Boosting(data, held, settings, seed).advance(30) for seed in random_seeds(0, 3)]
    scores = [run.held_scores(30) for run in runs]
    found, _ = model.fit(X[:200], y[:200])._raw_scores(held.X)
    assert_allclose(found, np.mean(scores, axis=0), atol=1e-6)
    assert np.ptp(scores, axis=0).max() > 1e-3
    assert (model.n_iter_, len(model._values)) == (30, 90)


def test_runs_are_one_where_nothing_is_random_and_few_where_leaves_are_many(monkeypatch):
    X, y = load_iris(return_X_y=True)

    def n_runs(n=150, **settings):
        model = ObliviousBoostingClassifier(10, cv=None, depth=2, random_state=0, **settings)
        return len(model.fit(X[:n], y[:n])._values) / 10

    assert n_runs(100, bootstrap=False) == 1  # two classes: no random directions
    assert n_runs() == n_runs(max_features=0.5, bootstrap=False) == 4
    assert n_runs(n_runs=2) == 2
    monkeypatch.setattr(_oblivious, "_MAX_LEAVES", 10 * 4 * 3 * 3 + 5)
    assert n_runs() == 3
    monkeypatch.setattr(_oblivious, "_MAX_LEAVES", 10)
    assert n_runs() == 1


def test_rising_maps_of_a_column_change_nothing():
    X, y = make_friedman1(200, random_state=0)
    quick = {"n_estimators": 30, "cv": None, "random_state": 0}
    first = ObliviousBoostingRegressor(**quick).fit(X, y).predict(X)
    second = ObliviousBoostingRegressor(**quick).fit(np.exp(X), y).predict(np.exp(X))
    assert_allclose(first, second)
    scaled = ObliviousBoostingRegressor(**quick).fit(X, 10.0 * y + 3.0).predict(X)
    assert_allclose(scaled, 10.0 * first + 3.0, rtol=1e-5)


def test_quantile_loss_predicts_quantiles():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(2000, 1))
    y = rng.normal(size=2000) * (0.5 + X[:, 0])
    for level in (0.1, 0.5, 0.9):
        model = ObliviousBoostingRegressor(100, loss="quantile", quantile=level, random_state=0)
        assert np.mean(y <= model.fit(X, y).predict(X)) == pytest.approx(level, abs=0.04)
    median = ObliviousBoostingRegressor(100, loss="absolute_error", random_state=0).fit(X, y)
    half = ObliviousBoostingRegressor(100, loss="quantile", random_state=0).fit(X, y)
    assert_allclose(median.predict(X), half.predict(X))


def test_folds_select_rounds_and_depth():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 5))
    additive = X[:, 0] + X[:, 1] + 3.0 * rng.normal(size=300)
    noisy = ObliviousBoostingRegressor(random_state=0).fit(X, additive)
    assert noisy.n_iter_ == round(2 * (noisy.validation_score_.argmin() + 1) * 5 / 4)
    assert noisy.n_iter_ < 300
    fixed = ObliviousBoostingRegressor(40, cv=None, depth=2, random_state=0).fit(X, additive)
    assert (fixed.n_iter_, fixed.depth_, fixed.validation_score_) == (40, 2, None)
    mse = np.average((additive - additive.mean()) ** 2)
    assert 2.0 * noisy.validation_score_.min() < mse


def test_a_class_of_one_row_is_kept():
    X, y = load_iris(return_X_y=True)
    X, y = X[:101], y[:101]
    model = ObliviousBoostingClassifier(50, random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (101, 3)
    assert np.isfinite(model.predict_proba(X)).all()


# --- explanation ---


def brute_force(model, X, row, score_of):
    """Shapley values of all subsets of all columns, with all training rows as background."""
    p = X.shape[1]

    def mean(subset):
        mixed = X.copy()
        mixed[:, subset] = row[subset]
        return score_of(mixed).mean(axis=0)

    values = {s: mean(list(s)) for k in range(p + 1) for s in combinations(range(p), k)}
    found = []
    for j in range(p):
        total = 0.0
        for s, value in values.items():
            if j not in s:
                weight = factorial(len(s)) * factorial(p - len(s) - 1) / factorial(p)
                total = total + weight * (values[tuple(sorted((*s, j)))] - value)
        found.append(total)
    return np.array(found), values[()]


def test_shapley_values_equal_brute_force():
    X, y = make_friedman1(80, n_features=5, random_state=0)
    X[::7, 2] = np.nan
    model = ObliviousBoostingRegressor(15, depth=6, cv=None, random_state=0).fit(X, y)
    for row in X[:3]:
        expected, base = brute_force(model, X, row, model.predict)
        assert_allclose(model.shapley_values(row[None])[0], expected, atol=1e-5)
        assert_allclose(model.baseline_[0], base, rtol=1e-6)


def test_shapley_values_of_several_classes_and_categories_equal_brute_force():
    X, y = load_iris(return_X_y=True)
    X[:, 0] = np.round(X[:, 0])
    model = ObliviousBoostingClassifier(
        10, depth=4, cv=None, categorical_features=[0], random_state=0
    ).fit(X, y)
    found = model.shapley_values(X[60:62])
    assert found.shape == (2, 4, 3)
    for i, row in enumerate(X[60:62]):
        expected, base = brute_force(model, X, row, model.decision_function)
        assert_allclose(found[i], expected, atol=1e-5)
        assert_allclose(model.baseline_, base, atol=1e-5)
    assert_allclose(
        found.sum(axis=1) + model.baseline_, model.decision_function(X[60:62]), atol=1e-5
    )


@pytest.mark.parametrize("kind", ["regression", "two classes", "three classes"])
def test_explanations_add_up(kind):
    X, y = load_iris(return_X_y=True)
    if kind == "regression":
        model = ObliviousBoostingRegressor(20, cv=None, random_state=0).fit(X, y)
        expected = model.predict(X[:1])[0]
    elif kind == "two classes":
        model = ObliviousBoostingClassifier(20, cv=None, random_state=0).fit(X[:100], y[:100])
        expected = -model.decision_function(X[:1])[0]
    else:
        model = ObliviousBoostingClassifier(20, cv=None, random_state=0).fit(X, y)
        scores = np.sort(model.decision_function(X[:1])[0])
        expected = scores[-1] - scores[-2]
    section = explain(model, X[0])["contributions"]
    total = section.values["baseline"] + sum(row[-1] for row in section.rows)
    assert total == pytest.approx(expected, abs=1e-5)
    assert section.values["score"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("is_classifier", [True, False])
def test_held_out_predictions_are_those_of_trees_fitted_without_the_rows(is_classifier):
    X, y = make_friedman1(n_samples=120, random_state=0)
    kind, method = ObliviousBoostingRegressor, "predict"
    if is_classifier:
        kind, method, y = ObliviousBoostingClassifier, "predict_proba", np.digitize(y, [14.0])
    folds = np.array_split(np.random.RandomState(0).permutation(120), 4)
    # A search that does not learn faster than the model has the trees of the model.
    options = {"learning_rate": 1.0, "depth": 3, "bootstrap": False, "max_features": 1.0}
    model = kind(60, random_state=0, **options)
    judged = np.arange(0, 120, 2)
    whole = model.held_out(X, y, folds=folds, rows=judged)
    (setting,) = whole.candidates
    assert setting["cv"] is None
    n_rounds = round(setting["n_estimators"] * 0.75)
    expected = np.empty((120, whole.predictions.shape[2]))
    for fold in folds:
        rest = np.setdiff1d(np.arange(120), fold)
        own = kind(n_rounds, cv=None, **options)
        predicted = getattr(own.fit(X[rest], y[rest]), method)(X[fold])
        expected[fold] = predicted.reshape(len(fold), -1)
    assert_allclose(whole.predictions[0], expected[whole.rows], rtol=1e-5, atol=1e-6)
    assert_array_equal(np.sort(whole.rows), judged)


def test_folds_given_later_change_the_rounds_of_all():
    X, y = make_friedman1(n_samples=150, noise=1.0, random_state=0)
    folds = np.array_split(np.random.RandomState(0).permutation(150), 3)
    model = ObliviousBoostingRegressor(200, random_state=0)
    first = model.held_out(X, y, folds=folds[:1])
    assert [setting["depth"] for setting in first.candidates] in ([6, 4], [6], [4])
    rest = first.more(folds[1:])
    assert_array_equal(rest.rows, np.concatenate(folds))
    assert len(rest.candidates) <= len(first.candidates)
    errors = (rest.predictions[:, :, 0] - y[rest.rows]) ** 2
    assert errors.mean() < 0.5 * y.var()


def test_rows_without_weight_are_held_out_too():
    X, y = make_friedman1(n_samples=60, random_state=0)
    weights = np.r_[np.zeros(10), np.ones(50)]
    folds = np.array_split(np.arange(60), 3)
    found = ObliviousBoostingRegressor(20, cv=None).held_out(
        X, y, folds=folds, sample_weight=weights
    )
    assert_array_equal(found.rows, np.arange(60))
    assert np.isfinite(found.predictions).all()
