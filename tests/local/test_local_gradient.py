"""The exact gradient of local classifiers, against central differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_moons
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from vicinal.local import LocalClassifier


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(200, noise=0.06, random_state=0)
    return StandardScaler().fit_transform(X), y


def differences(model, Q, step=1e-5):
    """Central differences of the decision function, last axis over columns."""
    columns = np.eye(Q.shape[1]) * step
    return np.stack(
        [
            (model.decision_function(Q + e) - model.decision_function(Q - e)) / (2 * step)
            for e in columns
        ],
        axis=-1,
    )


def relative_errors(model, Q):
    values, gradients = model.decision_function_and_gradient(Q)
    assert_allclose(values, model.decision_function(Q), rtol=1e-9, atol=1e-9)
    reference = differences(model, Q)
    size = np.maximum(np.linalg.norm(reference, axis=-1), 1e-3)
    return np.linalg.norm(gradients - reference, axis=-1) / size


def local(**options):
    return LocalClassifier(**{"metric": "euclidean", "calibration": None, "n_jobs": 1, **options})


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_gradient_of_the_papers_machine_is_exact(moons, shift):
    X, y = moons
    Q = np.random.RandomState(1).uniform(-1.8, 1.8, size=(30, 2))
    model = local(estimator=LinearSVC(), bandwidth=0.6, kernel="gaussian").fit(X + shift, y)
    errors = relative_errors(model, Q + shift)
    assert np.median(errors) < 1e-8
    assert np.quantile(errors, 0.9) < 1e-6


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "squared_error", "alpha": 0.1, "bandwidth": 0.6, "kernel": "gaussian"},
        {"loss": "squared_error", "alpha": 1.0, "n_neighbors": 60},
        {"loss": "squared_error", "alpha": 1.0, "bandwidth": 1.6, "degree": 0},
        {"loss": "squared_error", "alpha": 1.0, "bandwidth": np.inf},
        {"loss": "squared_hinge", "alpha": 0.1, "bandwidth": 0.6, "kernel": "gaussian"},
        {"loss": "squared_hinge", "alpha": 1.0, "n_neighbors": 0.3, "kernel": "triangular"},
        {"loss": "squared_hinge", "alpha": 1.0, "bandwidth": 0.5, "kernel": "bisquare"},
        {"loss": "log_loss", "alpha": 1.0, "n_neighbors": 60, "kernel": "cosine"},
        {"loss": "log_loss", "alpha": 1.0, "bandwidth": 0.9, "class_weight": {0: 1, 1: 3}},
        {"loss": "log_loss", "alpha": 1.0, "n_neighbors": 60, "metric": "within_class"},
        {"loss": "squared_error", "alpha": 1.0, "n_neighbors": 60, "metric": "standardized"},
        {"estimator": LogisticRegression(), "bandwidth": 4.0, "kernel": "epanechnikov"},
        {"kernel": lambda u: np.exp(-u), "alpha": 1.0, "bandwidth": 1.0},
    ],
)
def test_gradient_equals_central_differences(moons, options):
    X, y = moons
    Q = np.random.RandomState(1).uniform(-1.8, 1.8, size=(30, 2))
    errors = relative_errors(local(**options).fit(X, y), Q)
    # The worst tenth may straddle a change of neighbours or of the active set.
    assert np.median(errors) < 1e-7
    assert np.quantile(errors, 0.85) < 1e-5


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "squared_hinge"])
def test_every_class_of_many_has_its_gradient(loss):
    X, y = load_iris(return_X_y=True)
    model = local(loss=loss, alpha=1.0, n_neighbors=60).fit(X, y)
    errors = relative_errors(model, X[::7] + 0.01)
    assert errors.shape == (22, 3)
    assert np.quantile(errors, 0.8) < 1e-5


def test_more_columns_than_neighbours():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(40, 30)), np.arange(40) % 2
    for loss in ("squared_error", "squared_hinge"):
        model = local(loss=loss, alpha=1.0, n_neighbors=15).fit(X, y)
        assert np.median(relative_errors(model, X[:6] * 0.5)) < 1e-7


def test_location_columns_move_the_weights_and_the_others_the_model(moons):
    X, y = moons
    X = np.column_stack([X, X[:, 0] * X[:, 1]])
    model = local(location_columns=[0, 1], alpha=1.0, bandwidth=1.0).fit(X, y)
    assert np.median(relative_errors(model, X[::10] + 0.05)) < 1e-7


def test_weights_held_fixed_give_the_slopes_of_the_local_model(moons):
    X, y = moons
    model = local(loss="squared_hinge", alpha=0.1, n_neighbors=50).fit(X, y)
    _, slopes = model.decision_function_and_gradient(X[:9], weights_move=False)
    assert_allclose(slopes, model.local_coef(X[:9]), atol=1e-5)


def test_gradient_is_zero_where_one_class_is_near(moons):
    X, y = moons
    model = local(alpha=1.0, n_neighbors=5).fit(X, y)
    values, gradients = model.decision_function_and_gradient(X[:1])
    assert_array_equal(gradients, 0.0)
    assert abs(values[0]) == pytest.approx(1.0)


def test_gradient_is_offered_only_where_it_is_known(moons):
    X, y = moons
    known = local(alpha=1.0, n_neighbors=20)
    assert not hasattr(known, "decision_function_and_gradient")
    assert hasattr(known.fit(X, y), "decision_function_and_gradient")
    for unknown in (
        local(alpha=1.0, n_neighbors=20, degree=2),
        local(alpha=1.0, n_neighbors=20, metric="manhattan"),
        local(alpha=1.0, n_neighbors=20, metric=PCA(2)),
        local(estimator=LogisticRegression(fit_intercept=False), n_neighbors=20),
    ):
        assert not hasattr(unknown.fit(X, y), "decision_function_and_gradient")
