"""LocalClassifier: equalities with estimators, and corner cases."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import softmax
from sklearn import config_context
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from vicinal._kernels.calibration._probabilities import fit_temperature
from vicinal.local import LocalClassifier, LocalRegressor
from vicinal.local._solvers import probabilities

LOSSES = ["squared_error", "log_loss", "squared_hinge"]


class OtherRidge(RidgeClassifier):
    """Takes the general path."""


class OtherLogistic(LogisticRegression):
    """Takes the general path."""


class OtherSVC(LinearSVC):
    """Takes the general path."""


def fixed(**parameters):
    defaults = {"n_neighbors": 25, "alpha": 0.3, "metric": "euclidean", "calibration": None}
    return LocalClassifier(**{**defaults, **parameters})


@pytest.fixture
def two_classes():
    X, y = make_moons(120, noise=0.3, random_state=0)
    return X, y, make_moons(30, noise=0.3, random_state=1)[0]


@pytest.fixture
def data(three_classes):
    X, y = three_classes
    return X[:120], y[:120], X[120:]


def test_ridge_is_regression_on_indicators(data):
    X, y, Q = data
    model = fixed().fit(X, y)
    indicators = np.eye(3)[y]
    regressor = LocalRegressor(n_neighbors=25, alpha=0.3, metric="euclidean", degree=1)
    scores = regressor.fit(X, indicators).predict(Q)
    assert_allclose(model.decision_function(Q), 2 * scores - 1, atol=1e-10)
    assert_allclose(model.local_coef(Q), regressor.local_coef(Q), atol=1e-10)
    clipped = np.maximum(scores, 0)
    expected = clipped / clipped.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(Q), expected, atol=1e-9)


@pytest.mark.parametrize("n_features", [2, 40])
@pytest.mark.parametrize(
    ("exact", "general"),
    [
        (RidgeClassifier(alpha=0.5), OtherRidge(alpha=0.5)),
        (LinearSVC(C=0.7, dual=False), OtherSVC(C=0.7, dual=False, tol=1e-10, max_iter=100_000)),
        (LogisticRegression(C=0.7), OtherLogistic(C=0.7, tol=1e-10, max_iter=10_000)),
    ],
    ids=["ridge", "squared_hinge", "logistic"],
)
def test_fast_path_equals_the_general_path(rng, n_features, exact, general):
    X = rng.normal(size=(60, n_features))
    y = (X[:, 0] + 0.7 * rng.normal(size=60) > 0).astype(int)
    Q = rng.normal(size=(6, n_features))
    fast = fixed(estimator=exact).fit(X, y)
    slow = fixed(estimator=general).fit(X, y)
    assert fast.local_coef(Q).shape[0] == len(Q)
    with pytest.raises(ValueError, match="built-in local model"):
        slow.local_coef(Q)
    assert_allclose(fast.decision_function(Q), slow.decision_function(Q), rtol=1e-6, atol=1e-6)
    if isinstance(exact, LogisticRegression):
        assert_allclose(fast.predict_proba(Q), slow.predict_proba(Q), rtol=1e-6)


@pytest.mark.parametrize(
    ("exact", "general"),
    [
        (RidgeClassifier(), OtherRidge()),
        (LinearSVC(C=0.7, dual=False), OtherSVC(C=0.7, dual=False, tol=1e-10, max_iter=100_000)),
    ],
)
def test_fast_path_of_several_classes_equals_the_general_path(data, exact, general):
    X, y, Q = data
    fast = fixed(estimator=exact).fit(X, y).decision_function(Q)
    slow = fixed(estimator=general).fit(X, y).decision_function(Q)
    present = np.isfinite(slow) & (np.isfinite(slow).sum(axis=1) == 3)[:, None]
    assert present.sum() > 20
    assert_allclose(fast[present], slow[present], rtol=1e-6, atol=1e-6)


def test_multinomial_model_gives_absent_classes_no_chance():
    X = np.array([[0.0], [0.1], [0.2], [0.3], [5.0], [5.1]])
    y = np.array([0, 1, 0, 1, 2, 2])
    model = fixed(estimator=LogisticRegression(), n_neighbors=3).fit(X, y)
    proba = model.predict_proba([[0.15], [5.05]])
    assert proba[0, 2] == 0.0
    assert_allclose(proba.sum(axis=1), 1.0)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "squared_hinge"])
def test_infinite_bandwidth_is_one_model_for_all(data, loss):
    X, y, Q = data
    model = fixed(n_neighbors="auto", bandwidth=np.inf, loss=loss).fit(X, y)
    # A radius that holds every row with all but the same weight is no global model to the code.
    wide = fixed(n_neighbors="auto", bandwidth=1e6, loss=loss).fit(X, y)
    expected = wide.decision_function(Q)
    assert_allclose(model.decision_function(Q), expected, rtol=1e-6, atol=1e-6)


def test_infinite_bandwidth_is_logistic_regression(two_classes):
    X, y, Q = two_classes
    model = LocalClassifier(
        loss="log_loss", bandwidth=np.inf, alpha=2.0, alpha_scale="absolute", metric="euclidean",
        calibration=None,
    ).fit(X, y)  # fmt: skip
    reference = LogisticRegression(C=0.5, tol=1e-10, max_iter=1000).fit(X, y)
    assert_allclose(model.decision_function(Q), reference.decision_function(Q), rtol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_class_neighbourhoods_need_no_fit(rng, loss):
    X = np.concatenate([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 50])
    y = np.repeat(["a", "b"], 30)
    model = fixed(loss=loss, n_neighbors=10).fit(X, y)
    assert_array_equal(model.predict([[0.0, 0.0], [50.0, 50.0]]), ["a", "b"])
    assert np.isfinite(model.decision_function(X)).all()
    assert_allclose(model.local_coef(X), 0.0, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_absent_classes_keep_their_columns(rng, loss):
    centres = np.array([[0.0, 0.0], [1.5, 0.0], [100.0, 100.0]])
    y = np.repeat([2, 0, 1], 25)
    X = np.repeat(centres, 25, axis=0) + rng.normal(size=(75, 2))
    model = fixed(loss=loss, n_neighbors=20, calibration="temperature").fit(X, y)
    proba = model.predict_proba([[0.0, 0.0], [100.0, 100.0]])
    assert_allclose(proba.sum(axis=1), 1.0)
    assert proba[0, 1] == proba[0].min() < 0.12
    assert proba[1].argmax() == 1


@pytest.mark.parametrize("estimator", [GaussianNB(), DecisionTreeClassifier(random_state=0)])
def test_black_boxes_write_their_columns_through_their_classes(rng, estimator):
    centres = np.array([[0.0, 0.0], [1.5, 0.0], [100.0, 100.0]])
    y = np.repeat(["b", "a", "c"], 25)
    X = np.repeat(centres, 25, axis=0) + rng.normal(size=(75, 2))
    model = fixed(estimator=estimator, n_neighbors=20).fit(X, y)
    proba = model.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert_array_equal(proba[:50, 2], 0.0)
    assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    assert np.mean(model.predict(X) == y) > 0.8


def test_methods_of_a_black_box_are_its_own(two_classes):
    X, y, Q = two_classes
    model = fixed(estimator=KNeighborsClassifier(25), kernel="uniform").fit(X, y)
    assert hasattr(model, "predict_proba")
    assert not hasattr(model, "decision_function")
    expected = KNeighborsClassifier(25).fit(X, y).predict_proba(Q)
    assert_allclose(model.predict_proba(Q), expected)
    with pytest.raises(ValueError, match='kernel="uniform"'):
        fixed(estimator=KNeighborsClassifier()).fit(X, y)
    with pytest.raises(ValueError, match="built-in local model"):
        model.local_coef(Q)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("calibration", [None, "temperature"])
def test_predict_is_the_most_probable_class(data, loss, calibration):
    X, y, Q = data
    names = np.array(["z", "a", "m"])[y]
    model = fixed(loss=loss, calibration=calibration).fit(X, names)
    proba = model.predict_proba(Q)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert_array_equal(model.predict(Q), model.classes_[proba.argmax(axis=1)])
    assert model.score(X, names) > 0.6


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_equal_repetition(data, loss):
    X, y, Q = data
    weights = np.random.RandomState(0).randint(0, 3, len(y))
    model = fixed(loss=loss, calibration="temperature")
    weighted = model.fit(X, y, sample_weight=weights).predict_proba(Q)
    repeated = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).predict_proba(Q)
    assert_allclose(weighted, repeated, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_results_do_not_depend_on_batches_or_threads(data, loss):
    X, y, Q = data
    model = fixed(loss=loss).fit(X, y)
    whole = model.decision_function(Q)
    alone = np.concatenate([model.decision_function(q[None]) for q in Q])
    assert_allclose(alone, whole, rtol=1e-9)
    with config_context(working_memory=0.01):
        assert_allclose(model.set_params(n_jobs=1).decision_function(Q), whole, rtol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_sparse_equals_dense(rng, loss):
    X = rng.normal(size=(60, 12)) * (rng.uniform(size=(60, 12)) < 0.4)
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    model = fixed(loss=loss)
    dense = model.fit(X, y)
    expected = dense.decision_function(X[:9]), dense.local_coef(X[:9])
    other = model.fit(sparse.csr_matrix(X), y)
    Q = sparse.csr_matrix(X[:9])
    assert_allclose(other.decision_function(Q), expected[0], rtol=1e-6, atol=1e-8)
    assert_allclose(other.local_coef(Q), expected[1], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_slopes_are_those_of_the_local_model(two_classes, loss):
    """A model frozen at q, moved a little, changes by slope times step."""
    X, y, Q = two_classes
    model = fixed(loss=loss, bandwidth=1e6, n_neighbors="auto", kernel="uniform").fit(X, y)
    slopes = model.local_coef(Q[:3])
    step = 1e-3
    moved = model.decision_function(Q[:3] + np.array([step, 0.0])) - model.decision_function(Q[:3])
    assert_allclose(moved / step, slopes[:, 0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("degree", [0, 2])
def test_degrees(two_classes, loss, degree):
    X, y, Q = two_classes
    model = fixed(loss=loss, degree=degree, n_neighbors=60).fit(X, y)
    assert np.isfinite(model.decision_function(Q)).all()
    if degree == 0:
        assert_array_equal(model.local_coef(Q), 0.0)
    else:
        assert model.score(X, y) > 0.85


def test_degree_zero_ridge_is_a_weighted_vote(two_classes):
    X, y, Q = two_classes
    model = fixed(degree=0, kernel="uniform", n_neighbors=9).fit(X, y)
    expected = KNeighborsClassifier(9).fit(X, y).predict_proba(Q)
    assert_allclose(model.predict_proba(Q), expected, atol=1e-12)


def test_class_weight_multiplies_rows_without_changing_sizes(two_classes):
    X, y, Q = two_classes
    balanced = fixed(class_weight="balanced").fit(X[20:], y[20:])
    counts = np.bincount(y[20:])
    by_hand = fixed(class_weight=dict(enumerate(100 / (2 * counts)))).fit(X[20:], y[20:])
    assert_allclose(balanced.predict_proba(Q), by_hand.predict_proba(Q))
    heavy = fixed(class_weight={1: 50.0}).fit(X, y)
    assert_array_equal(heavy.neighbors(Q).getnnz(axis=1), fixed().fit(X, y).neighbors(Q).getnnz(1))
    assert heavy.predict(Q).mean() > fixed().fit(X, y).predict(Q).mean()


def test_outside_a_fixed_bandwidth(two_classes):
    X, y, _ = two_classes
    far = [[100.0, 0.0]]
    rule = {"n_neighbors": "auto", "bandwidth": 0.5}
    shares = np.bincount(y) / len(y)
    model = fixed(outside="prior", **rule).fit(X, y)
    assert_allclose(model.predict_proba(far), shares[None])
    assert np.isfinite(fixed(**rule).fit(X, y).predict_proba(far)).all()
    with pytest.raises(ValueError, match="no sample within"):
        fixed(outside="raise", **rule).fit(X, y).predict(far)


# --- probabilities and choice ---


def test_temperature_minimises_the_log_loss(rng):
    scores, codes = rng.normal(size=(200, 3)), rng.randint(0, 3, 200)
    scores[np.arange(200), codes] += 1.0
    best = fit_temperature(scores, codes)
    at_best, hotter, colder = (
        log_loss(codes, softmax(scores / (best * factor), axis=1))
        for factor in (1.0, 1.01, 1 / 1.01)
    )
    assert at_best <= min(hotter, colder)


def test_temperature_comes_from_leave_one_out_scores(data):
    X, y, Q = data
    model = fixed(calibration="temperature").fit(X, y)
    scores = model._model.left_out()
    assert_allclose(model.temperature_, fit_temperature(scores, y), rtol=1e-6)
    softened = softmax((model.decision_function(Q) + 1) / 2 / model.temperature_, axis=1)
    assert_allclose(model.predict_proba(Q), softened, rtol=1e-6)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_leave_one_out_equals_refitting(data, loss):
    X, y, _ = data
    model = fixed(loss=loss).fit(X, y)
    left_out = model.leave_one_out()
    for i in (0, 5, 50):
        rest = np.arange(len(y)) != i
        refit = fixed(loss=loss).fit(X[rest], y[rest])
        assert_allclose(left_out[i], refit.predict_proba(X[[i]])[0], rtol=1e-6, atol=1e-9)


def test_choice_counts_left_out_errors(data):
    X, y, _ = data
    model = LocalClassifier(metric="euclidean", random_state=0).fit(X, y)
    wrong = model.classes_[model.leave_one_out().argmax(axis=1)] != y
    assert_allclose(model.loo_score_, wrong.mean())
    table = model.selection_
    chosen = (table["size"] == model.n_neighbors_) & (table["alpha"] == model.alpha_)
    assert_allclose(table["loss"][chosen], model.loo_score_)
    # Not the least loss, but one within its standard error.
    least = table["loss"].min()
    assert least <= model.loo_score_ <= least + np.sqrt(least / len(y))


def test_the_default_sees_through_useless_scales(rng):
    X = rng.normal(size=(250, 3)) * [1.0, 1.0, 1000.0]
    y = (np.sin(2 * X[:, 0]) > X[:, 1]).astype(int)
    default = LocalClassifier(random_state=0).fit(X, y).loo_score_
    assert default < 0.8 * LocalClassifier(metric="euclidean").fit(X, y).loo_score_


def test_metrics_that_see_labels_are_cross_fitted(rng):
    """With random labels no choice may report an error far below chance."""
    X, y = rng.normal(size=(200, 15)), np.arange(200) % 2
    model = LocalClassifier(metric="within_class", random_state=0).fit(X, y)
    assert model.loo_score_ > 0.35


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_selection_for_iterative_losses(data, loss):
    X, y, Q = data
    model = LocalClassifier(loss=loss, metric="euclidean", random_state=0).fit(X, y)
    assert set(model.selection_["alpha"]) == {0.01, 0.03, 0.1, 0.3, 1.0}
    assert model.predict(Q).shape == (30,)


def test_groups_change_calibration(rng):
    X = np.repeat(rng.normal(size=(60, 2)), 2, axis=0)
    y = np.repeat(rng.randint(0, 2, 60), 2)
    groups = np.repeat(np.arange(60), 2)
    model = fixed(n_neighbors=5, calibration="temperature")
    alone = model.fit(X, y).temperature_
    assert model.fit(X, y, groups=groups).temperature_ > 2 * alone


def test_equivalent_kernel_explains_the_scores(data):
    X, y, Q = data
    model = fixed().fit(X, y)
    scores = model.equivalent_kernel(Q) @ np.eye(3)[y]
    assert_allclose(model.decision_function(Q), 2 * scores - 1, atol=1e-10)
    with pytest.raises(ValueError, match="squared_error"):
        fixed(loss="log_loss").fit(X, y).equivalent_kernel(Q)


def test_within_class_metric_whitens(data):
    X, y, Q = data
    model = fixed(metric="within_class").fit(X, y)
    Z = model.coordinates_(X)
    pooled = sum(np.cov(Z[y == c].T, bias=True) * np.mean(y == c) for c in range(3))
    # Ten per cent of the mean eigenvalue was added before whitening.
    assert np.linalg.eigvalsh(pooled).max() < 1.12
    mapped = fixed().fit(Z, y).predict_proba(model.coordinates_(Q))
    assert_allclose(model.predict_proba(Q), mapped, rtol=1e-9)


def test_float32_is_kept(data):
    X, y, Q = data
    proba = fixed().fit(X.astype(np.float32), y).predict_proba(Q.astype(np.float32))
    assert proba.dtype == np.float32


def test_one_class_is_an_error(data):
    X, _, _ = data
    with pytest.raises(ValueError, match="one class only"):
        fixed().fit(X, np.zeros(len(X)))


@pytest.mark.parametrize("link", ["sigmoid", "margin"])
def test_scores_however_far_out_become_probabilities(link):
    scores = np.array([[-1000.0, 1000.0], [2.0, -2.0], [-900.0, -950.0]])
    proba = probabilities(scores, link, None)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert_allclose(proba[0], [0.0, 1.0])
    second = 1.0 / (1.0 + np.exp(2.0))
    assert_allclose(proba[1], [1.0 - second, second])
