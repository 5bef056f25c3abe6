"""The automatic choice over the whole ladder, and the stack it ends in."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_wine, make_friedman1
from sklearn.linear_model import Ridge

from vicinal._kernels.ensemble._score_stacking import score_stacking_weights
from vicinal._kernels.linear._ridge_path import ridge_path
from vicinal.local import LocalClassifier, LocalRegressor
from vicinal.local._coordinates import Coordinates, QuadraticCoordinates
from vicinal.local._forest import grow_forest
from vicinal.local._global_rung import BoostedModel, GlobalModel, boosted_model
from vicinal.local._stacking import ClassJudge, NumberJudge


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(300, noise=0.5, random_state=0)
    return X, y, LocalRegressor(random_state=0).fit(X[:200], y[:200])


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X, y, LocalClassifier(random_state=0).fit(X[::2], y[::2])


def test_weights_lie_on_the_simplex(friedman, wine):
    for _, _, model in (friedman, wine):
        assert model.rung_weights_.min() > 0.0
        assert_allclose(model.rung_weights_.sum(), 1.0)
        assert len(model.rungs_) == len(model.rung_weights_) <= 6
        assert_allclose(np.sort(model.selection_["weight"][model.selection_["weight"] > 0]),
                        np.sort(model.rung_weights_))  # fmt: skip


def test_prediction_is_the_weighted_mean_of_the_rungs(friedman):
    X, _, model = friedman
    Q = X[200:]
    total = sum(
        weight * (rung.predict(Q) if hasattr(rung, "predict") else rung.scores(Q)[:, 0])
        for weight, rung in zip(model.rung_weights_, model.rungs_, strict=True)
    )
    assert_allclose(model.predict(Q), total, rtol=1e-10)


@pytest.fixture(scope="module")
def smooth():
    """A smooth target, so that no rung is made of steps."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(220, 4))
    return X, X[:, 0] ** 2 + X[:, 1] * X[:, 2] + X[:, 3] + 0.05 * rng.normal(size=220)


def test_the_stack_of_smoothers_is_a_smoother(smooth):
    X, y = smooth
    model = LocalRegressor(random_state=0).fit(X[:200], y[:200])
    assert any(isinstance(rung, GlobalModel) for rung in model.rungs_)
    Q = X[200:220]
    kernel = model.equivalent_kernel(Q)
    assert_allclose(kernel @ y[:200], model.predict(Q), rtol=1e-8)
    assert_allclose(np.asarray(kernel.sum(axis=1)).ravel(), 1.0, atol=1e-8)


def test_slopes_of_the_stack_are_the_weighted_mean_of_slopes(friedman, wine):
    X, _, model = friedman
    Q = X[200:210]
    total = sum(
        weight * (rung.local_coef(Q) if hasattr(rung, "predict") else rung.slopes(Q)[:, 0])
        for weight, rung in zip(model.rung_weights_, model.rungs_, strict=True)
    )
    assert_allclose(model.local_coef(Q), total, rtol=1e-10)
    X, _, model = wine
    assert model.local_coef(X[:4]).shape == (4, 3, 13)


def test_voices_sum_to_one(friedman, wine):
    for X, _, model in (friedman, wine):
        voices = model.neighbors(X[-5:])
        assert_allclose(np.asarray(voices.sum(axis=1)).ravel(), 1.0)
        assert (model.effective_sample_size(X[-5:]) >= 1.0).all()


def test_intervals_cover_new_targets(friedman):
    X, y, model = friedman
    lower, upper = model.predict_interval(X[200:], level=0.9).T
    assert 0.8 <= np.mean((lower <= y[200:]) & (y[200:] <= upper)) <= 1.0


def test_probabilities_agree_with_labels(wine):
    X, y, model = wine
    proba = model.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert (model.classes_[proba.argmax(axis=1)] == model.predict(X)).all()
    assert (model.predict(X[1::2]) == y[1::2]).mean() > 0.93


def test_two_classes_have_one_margin():
    X, y = load_wine(return_X_y=True)
    X, y = X[y < 2], y[y < 2]
    model = LocalClassifier(random_state=0).fit(X[::2], y[::2])
    margin = model.decision_function(X)
    assert margin.ndim == 1
    assert (model.predict(X) == (margin > 0)).all()


def test_best_keeps_one_local_model(friedman):
    X, y, _ = friedman
    model = LocalRegressor(combine="best", random_state=0).fit(X[:200], y[:200])
    assert not hasattr(model, "rungs_")
    assert np.count_nonzero(model.selection_["weight"]) == 1
    assert np.isfinite(model.predict(X[200:])).all()


def test_permuted_labels_report_chance():
    """The choice must not flatter itself: 200 rows, 50 columns, labels of a coin."""
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(200, 50)), np.arange(200) % 2
    model = LocalClassifier(random_state=0).fit(X, rng.permutation(y))
    assert abs(model.loo_score_ - 0.5) <= 2.0 * np.sqrt(0.25 / 200)


def test_irrelevant_columns_fade():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(600, 12))
    y = np.sin(3.0 * X[:, 0]) * X[:, 1]
    path = LocalRegressor(random_state=0).fit(X, y).selection_
    loss = dict(zip(path["metric"], path["loss"], strict=True))
    rounds = min(value for name, value in loss.items() if "gradient" in name)
    assert rounds < 0.3 * loss["standardized"]


def test_smooth_global_structure_ends_at_the_global_model():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(120, 10))
    y = X @ rng.normal(size=10) + rng.normal(size=120)
    path = LocalRegressor(random_state=0).fit(X, y).selection_
    linear = np.array(["ridge" in name for name in path["metric"]])
    assert path["loss"][linear].min() <= path["loss"][~linear].min() * 1.02


def test_time_limit_stops_the_climb():
    X, y = make_friedman1(400, random_state=0)
    path = LocalRegressor(max_fit_time=1e-6, random_state=0).fit(X, y).selection_
    assert len(path["metric"]) == 1


def test_fit_is_reproducible_and_independent_of_threads(wine):
    X, y, model = wine
    again = clone(model).set_params(n_jobs=1).fit(X[::2], y[::2])
    assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-7, atol=1e-12)


def test_further_rows_reach_every_rung(smooth):
    X, y = smooth
    model = LocalRegressor(random_state=0).fit(X[:150], y[:150])
    before = np.mean((model.predict(X[200:]) - y[200:]) ** 2)
    model.partial_fit(X[150:200], y[150:200])
    kernel = model.equivalent_kernel(X[200:])
    assert kernel.shape[1] == 200
    assert_allclose(kernel @ y[:200], model.predict(X[200:]), rtol=1e-8)
    assert np.mean((model.predict(X[200:]) - y[200:]) ** 2) < 1.1 * before


def test_further_rows_reach_the_trees(steps):
    X, y, _ = steps
    model = LocalRegressor(n_neighbors=40, alpha=1.0, random_state=0).fit(X[:500], y[:500])
    model.partial_fit(X[500:600], y[500:600])
    grown = next(rung for rung in model.rungs_ if isinstance(rung, BoostedModel))
    seed = grown.models[0].random_state
    fresh = boosted_model(X[:600], y[:600, None], None, None, seed)
    assert_allclose(grown.scores(X[600:]), fresh.scores(X[600:]))


def test_groups_stay_together():
    rng = np.random.RandomState(0)
    centres = rng.normal(size=(30, 4))
    groups = np.repeat(np.arange(30), 6)
    X = centres[groups] + 0.01 * rng.normal(size=(180, 4))
    y = rng.randint(0, 2, 30)[groups]
    model = LocalClassifier(random_state=0).fit(X, y, groups=groups)
    assert model.loo_score_ > 0.3
    assert not any("forest" in name for name in model.selection_["metric"])


def test_wide_tables_are_reduced():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(40, 110))
    y = (X[:, 0] > 0).astype(int)
    X[:, 1:60] += 2.0 * X[:, :1]
    model = LocalClassifier(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.local_coef(X[:2]).shape == (2, 110)


def test_multi_output_targets_share_the_ladder():
    X, y = make_friedman1(120, random_state=0)
    Y = np.column_stack([y, X[:, 0]])
    model = LocalRegressor(random_state=0).fit(X, Y)
    assert model.predict(X[:3]).shape == (3, 2)


@pytest.mark.parametrize("metric", ["ranked", "gradient", "forest", "extra_forest"])
def test_every_rung_can_be_named(metric):
    X, y = load_wine(return_X_y=True)
    model = LocalClassifier(metric=metric, random_state=0).fit(X[::2], y[::2])
    assert (model.predict(X[1::2]) == y[1::2]).mean() > 0.9
    voices = model.neighbors(X[:3])
    assert voices.shape == (3, 89)
    if metric != "ranked":
        assert model.local_coef(X[:3]).shape == (3, 3, 13)


def test_normal_scores_do_not_care_about_monotone_bends(rng):
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + np.sin(X[:, 1])
    model = LocalRegressor(metric="ranked", n_neighbors=30, alpha=0.1, degree=1)
    plain = model.fit(X, y).predict(X)
    bent = model.fit(np.exp(3 * X), y).predict(np.exp(3 * X))
    assert_allclose(bent, plain, rtol=1e-6)


def test_slopes_through_normal_scores_match_differences(rng):
    X = rng.normal(size=(200, 3))
    y = X[:, 0] ** 2 + X[:, 1]
    # A uniform kernel wide enough for everybody: the prediction is then linear in the scores.
    model = LocalRegressor(metric="ranked", bandwidth=np.inf, alpha=0.1, degree=1).fit(X, y)
    Q, step = X[:20] + 1e-3, 1e-6
    slopes = model.local_coef(Q)
    for j in range(3):
        shift = np.zeros(3)
        shift[j] = step
        difference = (model.predict(Q + shift) - model.predict(Q - shift)) / (2 * step)
        assert_allclose(slopes[:, j], difference, rtol=1e-4, atol=1e-6)


def test_stacking_weights_meet_the_optimality_conditions(rng):
    codes = rng.randint(0, 3, 80)
    good = np.eye(3)[codes] + 0.8 * rng.normal(size=(80, 3))
    scores = np.stack([good, good + 0.5 * rng.normal(size=(80, 3)), rng.normal(size=(80, 3))])
    share = np.full(80, 1 / 80)

    def objective(a):
        logits = np.tensordot(a, scores, 1)
        log_proba = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return -np.mean(log_proba[np.arange(80), codes]) + 0.5 * 0.01 * (a @ a)

    weights = score_stacking_weights(scores, codes, share, ridge=0.01)
    assert weights.min() >= 0.0
    step = 1e-6
    for m in range(3):
        shift = np.zeros(3)
        shift[m] = step
        slope = (objective(weights + shift) - objective(weights - shift)) / (2 * step)
        if weights[m] > 0.0:
            assert abs(slope) < 1e-6
        else:
            assert slope > -1e-6
    assert weights[2] < weights[:2].max()


def test_global_ridge_matches_scikit_learn(rng):
    Z, Y = rng.normal(size=(60, 4)) @ rng.normal(size=(4, 4)), rng.normal(size=(60, 2))
    weights = rng.randint(1, 4, 60).astype(float)
    path = ridge_path(Z, Y, weights, [0.1, 1.0])
    centred = (Z - np.average(Z, axis=0, weights=weights)) * np.sqrt(weights)[:, None]
    unit = (centred**2).sum() / 4
    for alpha, predicted in zip([0.1, 1.0], path.predict(Z), strict=True):
        ridge = Ridge(alpha=alpha * unit).fit(Z, Y, sample_weight=weights)
        assert_allclose(predicted, ridge.predict(Z), rtol=1e-8)


def test_forest_weights_reproduce_the_forest():
    X, y = make_friedman1(150, random_state=0)
    index = grow_forest("forest", X, y, None, classify=False, random_state=0, n_jobs=1)
    found = index.neighborhoods(index.leaves_of(X), None, 150)
    rows = np.repeat(np.arange(150), found.sizes())
    means = np.bincount(rows, found.weights * y[found.indices], minlength=150)
    assert_allclose(means, index.forest.predict(X), rtol=1e-10)


def test_rows_left_out_ask_trees_grown_without_them():
    X, y = make_friedman1(120, random_state=0)
    index = grow_forest("forest", X, y, None, classify=False, random_state=0, n_jobs=1)
    found = index.neighborhoods(index.leaves, index.out_of_bag, 120)
    rows = np.repeat(np.arange(120), found.sizes())
    assert not (found.indices == rows).any()
    trees = [tree.predict(X) for tree in index.forest.estimators_]
    expected = [
        np.mean([trees[t][i] for t in np.flatnonzero(index.out_of_bag[i])]) for i in range(120)
    ]
    means = np.bincount(rows, found.weights * y[found.indices], minlength=120)
    assert_allclose(means, expected, rtol=1e-10)


def test_boosted_trees_join_where_steps_matter():
    rng = np.random.RandomState(0)
    X = rng.exponential(size=(1200, 8)) ** 3
    y = ((np.floor(np.cbrt(X)) % 2).sum(axis=1) > 3).astype(int)
    model = LocalClassifier(random_state=0, n_neighbors=40, alpha=1.0).fit(X[:1000], y[:1000])
    path = model.selection_
    assert path["weight"][path["metric"] == "boosted trees"] > 0.1
    assert (model.predict(X[1000:]) == y[1000:]).mean() > 0.8
    boosted = next(rung for rung in model.rungs_ if isinstance(rung, BoostedModel))
    assert_allclose(boosted.scores(X[:3]).sum(axis=1), 0.0, atol=1e-12)
    assert not boosted.slopes(X[:3]).any()
    assert model.local_coef(X[:3]).shape == (3, 8)
    with pytest.raises(ValueError, match="another kind"):
        model.equivalent_kernel(X[:3])


@pytest.mark.parametrize(("pays", "n_fits"), [(0.0, 1), (np.inf, 5)])
def test_boosting_ends_with_the_fold_after_which_it_is_behind(monkeypatch, pays, n_fits):
    fits = []

    def counted(*args):
        fits.append(args)
        return boosted_model(*args)

    monkeypatch.setattr("vicinal.local._ladder.boosted_model", counted)
    monkeypatch.setattr("vicinal.local._ladder._BOOSTING_PAYS", pays)
    rng = np.random.RandomState(0)
    X = rng.exponential(size=(1000, 4)) ** 3
    y = ((np.floor(np.cbrt(X)) % 2).sum(axis=1) > 1).astype(int)
    model = LocalClassifier(random_state=0, n_neighbors=40, alpha=1.0).fit(X, y)
    is_boosted = model.selection_["metric"] == "boosted trees"
    assert is_boosted.any() == (n_fits == 5)
    assert len(fits) == n_fits + int((model.selection_["weight"][is_boosted] > 0).sum())


def test_losses_of_some_rows_are_those_of_a_judge_of_these_rows(rng):
    codes, weights = rng.randint(3, size=40), rng.uniform(size=40)
    predictions, some = rng.normal(size=(40, 3)), np.arange(5, 30)
    judged = ClassJudge(codes, weights).loss(predictions, some)
    assert_allclose(judged, ClassJudge(codes[some], weights[some]).loss(predictions[some]))
    Y, scale = rng.normal(size=(40, 3)), np.ones(3)
    judged = NumberJudge(Y, weights, scale).loss(predictions, some)
    assert_allclose(judged, NumberJudge(Y[some], weights[some], scale).loss(predictions[some]))


def test_boosted_scores_of_unseen_classes_stay_last(rng):
    X, codes = rng.normal(size=(200, 3)), rng.randint(0, 2, 200)
    scores = boosted_model(X, np.zeros((200, 3)), 2 * codes, None, 0).scores(X)
    assert (scores.argmax(axis=1) != 1).all()


@pytest.fixture(scope="module")
def steps():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(900, 6))
    y = 3.0 * (X[:, 0] > 0.5) * (X[:, 1] > 0.3) + np.floor(4 * X[:, 2]) + 0.2 * rng.normal(size=900)
    return X, y, LocalRegressor(n_neighbors=40, alpha=1.0, random_state=0).fit(X[:600], y[:600])


def test_boosted_trees_join_where_targets_jump(steps):
    X, y, model = steps
    path = model.selection_
    assert path["weight"][path["metric"] == "boosted trees"] > 0.1
    assert np.mean((model.predict(X[600:]) - y[600:]) ** 2) < 0.1 * y.var()
    boosted = next(rung for rung in model.rungs_ if isinstance(rung, BoostedModel))
    assert boosted.scores(X[:3]).shape == (3, 1)
    with pytest.raises(ValueError, match="another kind"):
        model.equivalent_kernel(X[:3])


def test_intervals_of_a_stack_with_trees_cover_new_targets(steps):
    X, y, model = steps
    lower, upper = model.predict_interval(X[600:], level=0.9).T
    assert 0.85 <= np.mean((lower <= y[600:]) & (y[600:] <= upper)) <= 0.96
    mean, std = model.predict(X[600:], return_std=True)
    assert_allclose(mean, model.predict(X[600:]))
    assert (std > 0.0).all()
    low, high = model.predict_interval(X[600:], kind="confidence").T
    assert (high - low < upper - lower).all()


def test_noise_counts_rows_by_their_weight():
    model = LocalRegressor()
    model._targets = np.array([[0.0], [0.0], [0.0]])
    model._note_held_out(np.arange(3), np.array([[1.0], [1.0], [3.0]]), np.array([0.5, 0.25, 0.25]))
    assert_allclose(model._held_out_sigma, np.sqrt([0.75 + 9.0 / 4.0]))


def test_left_out_answers_of_trees_are_honest(steps):
    X, y, model = steps
    inside = np.mean((model.predict(X[:600]) - y[:600]) ** 2)
    held_out = np.mean((model.leave_one_out() - y[:600]) ** 2)
    fresh = np.mean((model.predict(X[600:]) - y[600:]) ** 2)
    assert inside < 0.8 * held_out
    assert 0.7 * fresh < held_out < 1.4 * fresh


def test_trees_of_several_targets_answer_each(rng):
    X, Y = rng.uniform(size=(200, 3)), rng.normal(size=(200, 2))
    model = boosted_model(X, Y, None, None, 0)
    one = boosted_model(X, Y[:, 1:], None, None, 0)
    assert_allclose(model.scores(X)[:, 1:], one.scores(X))


def test_the_global_model_of_degree_two_finds_a_sphere():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(900, 8))
    y = ((X**2).sum(axis=1) > 7.5).astype(int)
    model = LocalClassifier(n_neighbors=40, alpha=1.0, random_state=0).fit(X[:600], y[:600])
    path = model.selection_
    quadratic = np.array(["quadratic" in name for name in path["metric"]])
    assert path["weight"][quadratic].sum() > 0.2
    assert (path["degree"][quadratic] == 2).all()
    assert (model.predict(X[600:]) == y[600:]).mean() > 0.93


def test_slopes_of_squares_and_products_are_differences(rng):
    X = rng.normal(size=(5, 3))
    first = Coordinates(rng.normal(size=(3, 2)), rng.normal(size=3))
    both = QuadraticCoordinates(first, 2)
    coef = rng.normal(size=(5, 4, 5))
    step = 1e-6
    expected = np.stack(
        [
            np.einsum("qcp,qp->qc", coef, both(X + step * e) - both(X - step * e)) / (2 * step)
            for e in np.eye(3)
        ],
        axis=2,
    )
    assert_allclose(both.pull_back(coef, X), expected, rtol=1e-7, atol=1e-7)


def test_squares_and_products_are_each_there_once(rng):
    X = rng.normal(size=(4, 2))
    a, b = X.T
    expected = np.column_stack([a, b, a * a, a * b, b * b])
    assert_allclose(QuadraticCoordinates(Coordinates(), 2)(X), expected)
