"""The weighted average of base models: weights, scores, intervals and prediction sets."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer, load_diabetes, make_blobs
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import recall_score, roc_auc_score
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from tests.auto.tables import QUICK, blobs, fitted, tried
from threadpoolctl import threadpool_limits

from vicinal._base._compat import threadpool_controller
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.auto import _fit as auto_fit
from vicinal.auto import _search as auto_search
from vicinal.auto._base_models import Spec
from vicinal.auto._scorers import ClassScorer, RegressionScorer
from vicinal.auto._search import Trial, TrialData, choose_pool, split_folds, widened


def test_contributions_add_up_to_the_probabilities():
    model, X, _ = fitted(families="default")
    parts = model.contributions(X)
    assert parts.shape == (len(X), (model.weights_ > 0).sum(), 3)
    np.testing.assert_allclose(parts.sum(axis=1), model.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(
        parts.sum(axis=2), np.tile(model.weights_[model.weights_ > 0], (len(X), 1))
    )


def test_contributions_add_up_to_the_prediction():
    X, y = load_diabetes(return_X_y=True)
    model = AutoRegressor(QUICK, random_state=0).fit(X[:150], y[:150])
    np.testing.assert_allclose(
        model.contributions(X[150:])[..., 0].sum(axis=1), model.predict(X[150:]), rtol=1e-12
    )


@pytest.mark.parametrize(("n_rows", "n_threads"), [(1, 1), (1000, 1), (1001, 2)])
def test_few_rows_are_predicted_in_one_thread(monkeypatch, n_rows, n_threads):
    X, y = blobs(150)
    model = AutoClassifier([("boosting", HistGradientBoostingClassifier(max_iter=2))]).fit(X, y)
    (base,) = model.estimators_
    predict, found = base.predict, []

    def observed(*arguments):
        libraries = [one for one in threadpool_controller().info() if one["user_api"] == "openmp"]
        found.append(max(one["num_threads"] for one in libraries))
        return predict(*arguments)

    monkeypatch.setattr(base, "predict", observed)
    with threadpool_limits(2, user_api="openmp"):
        model.predict_proba(np.resize(X, (n_rows, X.shape[1])))
    assert found == [n_threads]


@pytest.mark.parametrize(("limit", "expected"), [(100, 1), (10, 2)])
def test_fits_to_small_tables_multiply_matrices_in_one_thread(monkeypatch, limit, expected):
    def threads():
        libraries = [one for one in threadpool_controller().info() if one["user_api"] == "blas"]
        return {one["num_threads"] for one in libraries}

    seen = []

    class Recorder(DummyClassifier):
        def fit(self, X, y, sample_weight=None):
            seen.append(threads())
            return super().fit(X, y, sample_weight)

    monkeypatch.setattr(auto_fit, "_SMALL_TABLE", limit)
    X, y = np.random.RandomState(0).normal(size=(40, 2)), np.arange(40) % 2
    with threadpool_limits(2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("the library of matrix products has one thread")
        AutoClassifier([("recorder", Recorder())], random_state=0).fit(X, y)
        assert threads() == {2}
    assert seen[0] == {expected}


def test_weights_are_sparse_sorted_and_sum_to_one():
    model, _, _ = fitted(families="default")
    weights = model.weights_
    assert weights.sum() == pytest.approx(1.0)
    assert (np.diff(weights) <= 0).all()
    assert 1 <= (weights > 0).sum() <= 6
    assert weights[weights > 0].min() >= 0.02


def test_an_informative_base_model_takes_all_the_weight():
    X, y = make_blobs(120, centers=3, random_state=0)
    families = [("blind", DummyClassifier()), ("wise", LogisticRegression())]
    model = AutoClassifier(families, random_state=0).fit(X, y)
    assert model.estimators_[0].name == "wise"
    assert model.weights_[0] == 1.0


def test_class_frequencies_are_predicted_where_nothing_is_learned():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(90, 4)), rng.permutation(np.repeat([0, 1, 2], 30))
    model = AutoClassifier(QUICK, random_state=0).fit(X, y)
    assert model.estimators_[0].name == "constant"
    assert model.weights_[0] == 1.0
    np.testing.assert_allclose(model.predict_proba(X), 1 / 3, atol=1e-6)


def test_held_out_predictions_come_from_models_fitted_without_the_row():
    # A tree grown to the end knows every row it has seen; of coin labels it knows no other.
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(200, 4)), rng.randint(2, size=200)
    model = AutoClassifier([("tree", DecisionTreeClassifier())], random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert abs(model.score_ - 0.5) < 4 * model.score_error_
    own = model.held_out_[np.arange(200), y]
    assert own.mean() < 0.6


def test_the_score_agrees_with_that_of_new_rows():
    X, y = load_breast_cancer(return_X_y=True)
    model = AutoClassifier(QUICK, random_state=0).fit(X[:350], y[:350])
    error = np.hypot(model.score_error_, np.sqrt(0.04 * 0.96 / 219))
    assert abs(model.score_ - model.score(X[350:], y[350:])) < 2.5 * error


def test_a_perfect_score_has_a_standard_error():
    X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 40, axis=0) + np.arange(80.0)[:, None] / 100
    model = AutoClassifier(["linear"], random_state=0).fit(X, np.repeat(["a", "b"], 40))
    assert model.score_ == pytest.approx(1.0)
    assert model.score_error_ == pytest.approx(1.5 / 80)


def test_repeated_rows_of_a_group_do_not_shrink_the_standard_error():
    X, y = blobs(60)
    groups = np.repeat(np.arange(60), 4)
    once = AutoClassifier(["linear"], random_state=0).fit(X, y, groups=np.arange(60))
    X, y = np.repeat(X, 4, axis=0), np.repeat(y, 4)
    four = AutoClassifier(["linear"], random_state=0).fit(X, y, groups=groups)
    assert four.score_error_ == pytest.approx(once.score_error_, rel=0.3)


def test_class_weight_reaches_base_models_and_ensemble():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + rng.normal(size=400) > 2.0).astype(int)
    plain = AutoClassifier(QUICK, random_state=0).fit(X, y)
    even = AutoClassifier(QUICK, class_weight="balanced", random_state=0).fit(X, y)
    assert recall_score(y, even.predict(X)) > recall_score(y, plain.predict(X)) + 0.2
    for base in even.estimators_:
        assert recall_score(y, base.estimator.predict(X)) > 0.6, base.name


def test_a_class_of_weight_zero_and_object_labels_are_accepted():
    X, y = blobs(60)
    weights = {label: float(label > 0) for label in np.unique(y)}
    model = AutoClassifier(["linear"], class_weight=weights, random_state=0)
    model.fit(X, y.astype(object))
    assert model.classes_.dtype.kind == "i"
    assert 0.0 < model.score_ <= 1.0
    assert 0.0 < model.score_error_ < 0.2


def test_weight_zero_is_the_row_removed_and_keeps_its_index():
    X, y = blobs()
    weight = np.ones(120)
    weight[::7] = 0.0
    model = AutoClassifier(QUICK, random_state=0).fit(X, y, sample_weight=weight)
    fewer = AutoClassifier(QUICK, random_state=0).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(model.predict_proba(X), fewer.predict_proba(X))
    assert np.isnan(model.held_out_[::7]).all()
    assert np.isfinite(model.held_out_[1]).all()


@pytest.mark.filterwarnings("ignore:too few rows of a class")
@pytest.mark.parametrize("n_rows", [2, 3, 5, 12, 30])
def test_few_rows_are_enough_to_predict(n_rows):
    rng = np.random.RandomState(n_rows)
    X, y = rng.normal(size=(n_rows, 3)), np.arange(n_rows) % 2
    model = AutoClassifier(random_state=0).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    model = AutoRegressor(random_state=0).fit(X, X[:, 0] + y)
    assert np.isfinite(model.predict(X)).all()


def test_one_row_is_one_clear_error():
    with pytest.raises(
        ValueError, match="n_samples=1, but models are judged on samples they have not seen"
    ):
        AutoRegressor().fit([[1.0, 2.0]], [1.0])


@pytest.mark.filterwarnings("ignore:too few rows of a class")
def test_a_class_of_one_row_has_a_probability():
    X, y = blobs(n_rows=60)
    y = np.where(np.arange(60) == 7, 9, y)
    model = AutoClassifier(random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (60, 4)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.filterwarnings("ignore:too few rows of a class")
def test_a_class_of_one_percent_keeps_a_small_probability():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 4))
    y = (np.arange(300) % 100 == 0).astype(int)
    model = AutoClassifier(QUICK, random_state=0).fit(X, y)
    assert 0.0 < model.predict_proba(X)[:, 1].mean() < 0.1


def test_more_columns_than_rows_are_accepted():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 300))
    y = np.repeat([0, 1], 30)
    X[y == 1, :5] += 2.0
    model = AutoClassifier(["constant", "local", "forest", "linear"], random_state=0).fit(X, y)
    assert model.score_ > 0.8
    assert {base.name: base for base in tried(model)}["random forest neighbours"].loss < np.log(2)


def test_base_models_that_are_always_right_are_not_sharpened_without_limit():
    codes = np.tile([0, 1, 2], 20)
    right = np.eye(3)[codes] * 0.9 + 0.1 / 3
    scorer = ClassScorer(codes, np.ones(len(codes)), len(codes))
    slope = scorer.slopes(right[None])[0]
    losses = [
        scorer.pool_loss(scorer.calibrated(right, slope * b)[None], np.ones(1))
        for b in scorer.sharpness
    ]
    assert np.argmin(losses) < len(losses) - 1


def test_several_targets_are_predicted():
    X, y = load_diabetes(return_X_y=True)
    Y = np.column_stack([y, 1000.0 * X[:, 0]])[:120]
    model = AutoRegressor([*QUICK, ("tree", DecisionTreeRegressor(max_depth=3))], random_state=0)
    model.fit(X[:120], Y)
    assert model.predict(X).shape == (len(X), 2)
    assert model.held_out_.shape == (120, 2)


@pytest.fixture(scope="module")
def noisy_line():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(900, 1))
    y = 2.0 * X[:, 0] + (0.1 + X[:, 0]) * rng.normal(size=900)
    return AutoRegressor(["local", "linear"], random_state=0).fit(X[:500], y[:500]), X, y


def test_intervals_cover_and_follow_the_noise(noisy_line):
    model, X, y = noisy_line
    low, high = model.predict_interval(X[500:], coverage=0.8).T
    inside = (low <= y[500:]) & (y[500:] <= high)
    assert abs(inside.mean() - 0.8) < 4 * np.sqrt(0.16 / 400)
    quiet, noisy = np.diff(model.predict_interval([[0.05], [0.95]])).ravel()
    assert noisy > 3 * quiet


def test_support_is_small_far_from_training_rows_only(noisy_line):
    model, X, _ = noisy_line
    assert model.typicality([[9.0]])[0] < 0.01
    assert 0.4 < model.typicality(X[500:]).mean() < 0.6


def test_the_scale_of_errors_is_that_of_the_intervals(noisy_line):
    model, X, _ = noisy_line
    scale = model.held_out_scale()
    assert scale.shape == (500,)
    assert np.corrcoef(scale, X[:500, 0])[0, 1] > 0.9


def test_prediction_sets_cover():
    X, y = blobs(600)
    model = AutoClassifier(QUICK, random_state=0).fit(X[:300], y[:300])
    sets = model.predict_set(X[300:], coverage=0.9, method="threshold")
    covered = sets[np.arange(300), y[300:]].mean()
    assert abs(covered - 0.9) < 4 * np.sqrt(0.09 / 300)


def test_class_weights_do_not_count_as_rows_in_prediction_sets():
    X, y = blobs(300)
    plain, weighted = (
        AutoClassifier([("line", LogisticRegression())], class_weight=factors, random_state=0)
        .fit(X, y)
        .predict_set(X, 0.9)
        for factors in (None, {0: 1e-6, 1: 1e-6, 2: 1e-6})
    )
    np.testing.assert_array_equal(plain, weighted)


def test_rows_without_a_held_out_prediction_are_not_used_for_calibration():
    X, y = load_diabetes(return_X_y=True)
    weight = np.ones(len(y))
    weight[::4] = 0.0
    model = AutoRegressor([("line", Ridge())], random_state=0).fit(X, y, sample_weight=weight)
    assert np.isfinite(model.predict_interval(X)).all()
    assert np.isnan(model.held_out_scale()[::4]).all()
    # Shares instead of counts: the new row does not outweigh all others.
    shares = AutoRegressor([("line", Ridge())], random_state=0)
    shares.fit(X, y, sample_weight=np.full(len(y), 1e-3))
    assert np.isfinite(shares.predict_interval(X)).all()


def test_a_rare_class_is_ranked_above_chance():
    """Log losses of 20 rows are uncertain where the order of the predictions is not."""
    rng = np.random.RandomState(1)
    X = rng.normal(size=(600, 4))
    y = rng.rand(600) < 1 / (1 + np.exp(4.2 - 1.2 * X[:, 0]))
    model = AutoClassifier(["constant", "linear"], random_state=0).fit(X, y)
    assert roc_auc_score(y, model.predict_proba(X)[:, 1]) > 0.7
    shuffled = AutoClassifier(["constant", "linear"], random_state=0).fit(X, rng.permutation(y))
    assert shuffled.estimators_[0].name == "constant"


def test_evidence_is_the_slope_of_the_likelihood():
    rng = np.random.RandomState(0)
    codes = rng.randint(3, size=80)
    predictions = rng.dirichlet(np.ones(3), size=80)
    scorer = ClassScorer(codes, rng.rand(80), 80)
    shares = np.bincount(codes, scorer.share)

    def likelihood(w):
        mixed = (1 - w) * shares + w * predictions
        return scorer.share @ np.log(mixed[np.arange(80), codes])

    slope = (likelihood(1e-6) - likelihood(-1e-6)) / 2e-6
    error = np.sqrt(scorer.share**2 @ ((predictions / shares - 1) ** 2 @ shares))
    assert scorer.evidence(predictions, np.arange(80)) == pytest.approx(slope / error, rel=1e-5)
    # A row that was predicted twice is one row.
    twice = ClassScorer(np.tile(codes, 2), np.tile(scorer.share, 2), 80)
    again = twice.evidence(np.tile(predictions, (2, 1)), np.tile(np.arange(80), 2))
    assert again == pytest.approx(scorer.evidence(predictions, np.arange(80)))


def test_few_targets_far_from_the_others_hide_no_signal():
    """Their squared errors are uncertain where the order of the predictions is not."""
    rng = np.random.RandomState(3)
    X = rng.normal(size=(140, 4))
    y = np.exp(2.5 * X[:, 0] + 0.5 * rng.normal(size=140))
    model = AutoRegressor(["constant", "linear"], random_state=0).fit(X, y)
    assert spearmanr(y, model.predict(X))[0] > 0.5
    shuffled = AutoRegressor(["constant", "linear"], random_state=0).fit(X, rng.permutation(y))
    assert shuffled.estimators_[0].name == "constant"


@pytest.mark.parametrize("is_forward", [False, True])
def test_order_is_no_evidence_where_folds_go_forward_in_time(is_forward):
    rng = np.random.RandomState(0)
    y = rng.normal(size=(200, 1))
    y[0] = 300.0
    scorer, trials = RegressionScorer(y, np.ones(200), y.std(axis=0)), []
    for estimator, predictions in ((DummyRegressor(), 0.0 * y), (Ridge(), np.minimum(y, 3.0))):
        trial = Trial(Spec("model", estimator), [{}], predictions[None])
        trial.losses = scorer.losses(trial.predictions)
        trials.append(trial)
    rows = np.arange(200)
    pool = choose_pool(trials, scorer, rows, rows, is_forward=is_forward)
    assert list(pool.weights > 0.0) == ([True, False] if is_forward else [False, True])


@pytest.mark.parametrize(
    ("cv", "is_forward"), [("time", True), (TimeSeriesSplit(4), True), (KFold(4), False)]
)
def test_folds_that_learn_from_earlier_rows_alone_are_known(monkeypatch, cv, is_forward):
    found = []
    original = auto_search.choose_pool

    def spied(*arguments, is_forward=False, **options):
        found.append(is_forward)
        return original(*arguments, is_forward=is_forward, **options)

    monkeypatch.setattr(auto_search, "choose_pool", spied)
    X, y = load_diabetes(return_X_y=True)
    AutoRegressor(["constant", ("ridge", Ridge())], cv=cv).fit(X, y)
    assert any(found) == is_forward


def test_evidence_of_regression_is_a_rank_correlation():
    rng = np.random.RandomState(0)
    y, predictions = rng.normal(size=(2, 60, 1))
    predictions += y
    scorer = RegressionScorer(y, np.ones(60), np.ones(1))
    expected = spearmanr(y[:, 0], predictions[:, 0])[0] * np.sqrt(60)
    assert scorer.evidence(predictions, np.arange(60)) == pytest.approx(expected)
    assert scorer.evidence(np.exp(predictions), np.arange(60)) == pytest.approx(expected)
    twice = RegressionScorer(np.tile(y, (2, 1)), np.ones(120), np.ones(1))
    again = twice.evidence(np.tile(predictions, (2, 1)), np.tile(np.arange(60), 2))
    assert again == pytest.approx(expected)
    assert scorer.evidence(np.zeros((60, 1)), np.arange(60)) == pytest.approx(0.0)
    # The best of several outputs counts.
    both = RegressionScorer(np.hstack([rng.permutation(y), y]), np.ones(60), np.ones(2))
    stacked = np.hstack([predictions, predictions])
    assert both.evidence(stacked, np.arange(60)) == pytest.approx(expected)


def test_predictions_of_rows_out_of_proportion_stay_near_the_targets():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.normal(size=300)
    model = AutoRegressor(["linear"], random_state=0).fit(X, y)
    query = np.array([[40.0, -40.0, 0.0], [-60.0, 90.0, 10.0]])
    low, high = y.min() - np.ptp(y), y.max() + np.ptp(y)
    assert ((model.predict(query) > low) & (model.predict(query) < high)).all()
    parts = model.contributions(query)
    np.testing.assert_allclose(parts.sum(axis=1)[:, 0], model.predict(query))


def test_predictions_follow_a_line_beyond_the_targets():
    """Where a held-out row was far beyond the others, and predicted well."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 1))
    X[0] = 3.0 * X.max()
    y = 3.0 * X[:, 0] + 0.1 * rng.normal(size=300)
    model = AutoRegressor(["linear"], random_state=0).fit(X, y)
    query = [[1.4 * X.max()]]
    np.testing.assert_allclose(model.predict(query), 4.2 * X.max(), rtol=0.01)


@pytest.mark.parametrize("n_rows", [60, 1200])
def test_held_out_predictions_stay_near_the_targets_learned(n_rows):
    rng = np.random.RandomState(1)
    X = rng.normal(size=(n_rows, 2))
    y = np.exp(X[:, 0]) + rng.normal(size=n_rows)
    folds, n_repeats = split_folds(n_rows, None, None, 4, 0)
    judged = np.arange(0, n_rows, 2)
    data = TrialData({}, y, None, folds=folds, n_repeats=n_repeats, judged=judged)
    expected = []
    for fold in folds:
        learned = np.delete(y, fold)
        expected += [(learned.min(), learned.max())] * np.isin(fold, judged).sum()
    np.testing.assert_array_equal(data.ranges[..., 0].T, expected)
    wide = widened(data.ranges, 0.5)
    np.testing.assert_allclose(wide[1] - wide[0], 2.0 * (data.ranges[1] - data.ranges[0]))
