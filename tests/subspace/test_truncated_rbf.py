import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification, make_moons
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import log_loss, recall_score
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from vicinal._kernels.calibration._probabilities import fit_slope
from vicinal._kernels.subspace._truncated_rbf import truncated_rbf_kernel
from vicinal.subspace import TruncatedRBFClassifier, TruncatedRBFFeatures, TruncatedRBFRegressor
from vicinal.subspace._truncated_rbf import best_threshold


@pytest.fixture(scope="module")
def rare():
    """Two classes, one of them six in a hundred."""
    return make_classification(
        4000, n_features=6, n_informative=4, weights=[0.94], class_sep=0.7, random_state=0
    )


def test_features_are_centred_and_scaled_by_default(rng):
    X = 100.0 + 5.0 * rng.normal(size=(50, 3))
    model = TruncatedRBFFeatures(2).fit(X)
    Z = X - X.mean(axis=0)
    assert_allclose(model.gamma_, 0.1 / (Z**2).sum(axis=1).mean())
    P = model.transform(X)
    assert P.shape == (50, model.n_output_features_) == (50, 10)
    assert_allclose(P @ P.T, truncated_rbf_kernel(Z, Z, model.gamma_, 2), atol=1e-12)


def test_width_of_equal_rows_is_one():
    model = TruncatedRBFFeatures().fit(np.full((5, 2), 3.0))
    assert model.gamma_ == 1.0
    assert np.isfinite(model.transform(np.ones((2, 2)))).all()


def test_absurd_expansions_are_refused_with_the_number(rng):
    X = rng.normal(size=(30, 200))
    with pytest.raises(ValueError, match=r"J = C\(203, 3\) = 1,373,701.*max_features=20,000"):
        TruncatedRBFFeatures(3).fit(X)
    with pytest.raises(ValueError, match="solver='dual'"):
        TruncatedRBFRegressor(3, solver="primal").fit(X, X[:, 0])
    TruncatedRBFRegressor(3).fit(X, X[:, 0])  # fewer rows than monomials: the dual


@pytest.mark.parametrize(
    "model", [TruncatedRBFFeatures(1, gamma=1.0), TruncatedRBFRegressor(gamma=2.0)]
)
def test_a_width_meant_for_the_full_kernel_warns(rng, model):
    X = rng.normal(size=(60, 3))
    with pytest.warns(UserWarning, match="median of 2.gamma.*Lower gamma"):
        model.fit(X, X[:, 0])


@pytest.mark.parametrize("order", [1, 2, 3])
def test_primal_equals_dual(rng, order):
    X, weights = rng.normal(size=(60, 4)), rng.uniform(0, 2, 60)
    Y, queries = rng.normal(size=(60, 2)), rng.normal(size=(20, 4))
    primal, dual = (
        TruncatedRBFRegressor(order, solver=solver).fit(X, Y, weights).predict(queries)
        for solver in ("primal", "dual")
    )
    assert_allclose(primal, dual, atol=1e-8)


def test_high_order_is_kernel_ridge_on_centred_targets(rng):
    X, y = 0.5 * rng.normal(size=(80, 2)), rng.normal(size=80)
    X -= X.mean(axis=0)
    model = TruncatedRBFRegressor(12, gamma=0.4, alpha=1e-6, solver="dual").fit(X, y)
    kernel = KernelRidge(kernel="rbf", gamma=0.4, alpha=1e-6).fit(X, y - y.mean())
    # The intercept is free here and fixed at the mean there; at so small a penalty both
    # interpolate to the same smooth function.
    assert np.corrcoef(model.predict(X), kernel.predict(X) + y.mean())[0, 1] > 0.999


def test_auto_takes_the_smaller_system(rng):
    X = rng.normal(size=(30, 5))
    assert TruncatedRBFRegressor(1).fit(X, X[:, 0]).solver_ == "primal"  # J = 6
    assert TruncatedRBFRegressor(3).fit(X, X[:, 0]).solver_ == "dual"  # J = 56


def test_several_targets_are_fitted_at_once(rng):
    X, Y = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    both = TruncatedRBFRegressor().fit(X, Y).predict(X)
    for t in (0, 1):
        assert_allclose(both[:, t], TruncatedRBFRegressor().fit(X, Y[:, t]).predict(X), atol=1e-10)


def test_curved_boundary_needs_the_order(rng):
    X, y = make_moons(400, noise=0.1, random_state=0)
    errors = [
        1 - TruncatedRBFClassifier(order, gamma=0.2, alpha=1e-4).fit(X, y).score(X, y)
        for order in (1, 3, 6)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.02


def test_two_classes_as_three_give_the_same_decisions(three_classes):
    X, y = three_classes
    model = TruncatedRBFClassifier().fit(X, y)
    assert model.decision_function(X).shape == (150, 3)
    regressor = TruncatedRBFRegressor().fit(X, 2.0 * (y[:, None] == np.arange(3)) - 1.0)
    assert_allclose(model.decision_function(X), regressor.predict(X), atol=1e-10)


def test_probabilities_are_calibrated_enough_to_beat_the_prior(rare):
    X, y = rare
    p = TruncatedRBFClassifier().fit(X[:3000], y[:3000]).predict_proba(X[3000:])
    prior = np.full(1000, y[:3000].mean())
    assert log_loss(y[3000:], p[:, 1]) < 0.9 * log_loss(y[3000:], prior)


def test_balanced_weights_with_a_tuned_threshold_repair_the_squared_loss(rare):
    X, y = rare
    plain = TruncatedRBFClassifier().fit(X, y)
    balanced = TruncatedRBFClassifier(class_weight="balanced").fit(X, y)
    tuned = TruncatedRBFClassifier(class_weight="balanced", threshold="tuned").fit(X, y)
    assert balanced.score(X, y) < plain.score(X, y) - 0.02
    assert tuned.score(X, y) >= plain.score(X, y)
    assert recall_score(y, tuned.predict(X)) > recall_score(y, plain.predict(X))
    assert tuned.threshold_ > 0.0
    # The threshold lies at one half.
    p = tuned.predict_proba(X)[:, 1]
    assert_array_equal(p > 0.5, tuned.decision_function(X) > 0)


@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_tuned_threshold_counts_weights_as_repetitions(rare, solver):
    X, y = rare[0][:300], rare[1][:300]
    weights = np.where(np.arange(300) % 3 == 0, 2, 1)
    model = TruncatedRBFClassifier(class_weight="balanced", threshold="tuned", solver=solver)
    weighted = model.fit(X, y, weights).threshold_, model.slope_
    model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert_allclose((model.threshold_, model.slope_), weighted, rtol=1e-7)


def test_dictionary_of_class_weights(rare):
    X, y = rare
    by_name = TruncatedRBFClassifier(class_weight={0: 1.0, 1: 5.0}).fit(X, y)
    by_row = TruncatedRBFRegressor(gamma=by_name.gamma_, center=False)
    by_row.fit(X - X.mean(axis=0), 2.0 * y - 1.0, np.where(y == 1, 5.0, 1.0))
    assert_allclose(by_name.decision_function(X), by_row.predict(X - X.mean(axis=0)), atol=1e-8)


def test_a_tuned_threshold_needs_two_classes(three_classes):
    with pytest.raises(ValueError, match="y holds 3"):
        TruncatedRBFClassifier(threshold="tuned").fit(*three_classes)


@pytest.mark.parametrize(("n_classes", "threshold"), [(2, "zero"), (2, "tuned"), (3, "zero")])
def test_slope_is_that_of_leave_one_out_scores_less_the_threshold(rng, n_classes, threshold):
    X = rng.normal(size=(40, 2))
    y = np.digitize(X[:, 0] + 0.7 * rng.normal(size=40), [0.8, -0.8][: n_classes - 1])
    options = {"gamma": 0.02, "center": False, "solver": "primal"}
    model = TruncatedRBFClassifier(threshold=threshold, **options).fit(X, y)
    targets = 2.0 * (y[:, None] == np.arange(n_classes)) - 1.0
    left_out = cross_val_predict(TruncatedRBFRegressor(**options), X, targets, cv=LeaveOneOut())
    if n_classes == 2:
        margin = left_out[:, 1] - model.threshold_
        left_out = np.column_stack([-margin, margin]) / 2
    assert (model.threshold_ != 0.0) == (threshold == "tuned")
    assert_allclose(model.slope_, fit_slope(left_out, y, np.ones(40)), rtol=1e-6)


def test_thresholds_by_hand():
    scores, weights = np.array([0.0, 5.0, 7.0]), np.ones(3)
    assert best_threshold(scores, np.array([1, 1, 1]), weights) == -1.0
    assert best_threshold(scores, np.array([0, 0, 0]), weights) == 8.0
    assert best_threshold(scores, np.array([0, 0, 1]), weights) == 6.0


def test_large_scores_do_not_overflow(three_classes):
    X, y = three_classes
    model = TruncatedRBFClassifier().fit(X, y)
    model.slope_ = 1e6
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
