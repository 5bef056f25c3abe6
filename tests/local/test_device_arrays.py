"""Device arrays give what NumPy arrays give."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special
from sklearn.linear_model import LogisticRegression

from vicinal._base import as_numpy
from vicinal._kernels.local._batched import (
    NewtonProblem,
    batched_newton,
    batched_ridge,
    batched_ridge_values,
    batched_slopes,
    gradient_outer_product,
    metric_step,
    one_class_scores,
)
from vicinal._kernels.local._classifiers import local_classifiers, one_class_score
from vicinal._kernels.local._workspace import LOGISTIC, SQUARED_HINGE, FitObjective, Fits, Queries
from vicinal.local import (
    AnchoredLocalRegressor,
    GradientMetric,
    LocalClassifier,
    LocalRegressor,
    NadarayaWatsonRegressor,
)


@pytest.fixture
def data(three_classes):
    X, y = three_classes
    return X[:110], y[:110], X[110:]


def both(model, to_array, X, y, Q, **fit):
    """Return the model fitted on NumPy arrays, on device arrays, and the device queries."""
    from sklearn.base import clone

    host = clone(model).fit(X, y, **fit)
    fit = {name: to_array(np.asarray(value, dtype=float)) for name, value in fit.items()}
    return host, clone(model).fit(to_array(X), to_array(y), **fit), to_array(Q)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "squared_hinge"])
@pytest.mark.parametrize("metric", ["euclidean", "standardized"])
def test_classifiers_agree(to_array, data, loss, metric):
    X, y, Q = data
    # Calibration is the same code for all solvers; left-out Newton fits would only take time.
    calibration = "temperature" if loss == "squared_error" else None
    model = LocalClassifier(
        loss=loss, n_neighbors=20, alpha=0.3, metric=metric, calibration=calibration
    )
    host, device, queries = both(model, to_array, X, y, Q)
    assert type(device.predict_proba(queries)) is type(queries)
    assert_allclose(
        as_numpy(device.decision_function(queries)), host.decision_function(Q), rtol=1e-6, atol=1e-7
    )
    assert_allclose(
        as_numpy(device.predict_proba(queries)), host.predict_proba(Q), rtol=1e-5, atol=1e-7
    )
    assert_array_equal(as_numpy(device.predict(queries)), host.predict(Q))
    assert_allclose(as_numpy(device.local_coef(queries)), host.local_coef(Q), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", ["tricube", "uniform", "gaussian", "cosine", "epanechnikov"])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("n_neighbors", [15, 0.3])
def test_regressors_agree(to_array, data, kernel, alpha, n_neighbors):
    X, _, Q = data
    y = np.sin(X[:, 0]) + X[:, 1]
    weights = np.random.RandomState(0).randint(0, 3, len(y))
    model = LocalRegressor(
        n_neighbors=n_neighbors, alpha=alpha, kernel=kernel, degree=1, metric="euclidean"
    )
    host, device, queries = both(model, to_array, X, y, Q, sample_weight=weights)
    assert_allclose(as_numpy(device.predict(queries)), host.predict(Q), rtol=1e-6, atol=1e-8)
    if alpha > 0:
        assert_allclose(
            as_numpy(device.local_coef(queries)), host.local_coef(Q), rtol=1e-6, atol=1e-8
        )


def test_more_columns_than_neighbours(to_array, rng):
    X, y, Q = rng.normal(size=(60, 30)), rng.normal(size=(60, 2)), rng.normal(size=(9, 30))
    model = LocalRegressor(n_neighbors=12, alpha=0.5, degree=1, metric="euclidean")
    host, device, queries = both(model, to_array, X, y, Q)
    assert_allclose(as_numpy(device.predict(queries)), host.predict(Q), rtol=1e-7)
    assert_allclose(as_numpy(device.local_coef(queries)), host.local_coef(Q), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_iterative_fits_with_more_columns_than_neighbours(to_array, rng, loss):
    y = rng.randint(0, 3, 80)
    X = rng.normal(size=(80, 30)) + y[:, None]
    X[1] = X[0]
    model = LocalClassifier(
        loss=loss, n_neighbors=12, alpha=0.3, metric="euclidean", calibration=None
    )
    host, device, queries = both(model, to_array, X, y, X[:10] + 0.1)
    assert_allclose(
        as_numpy(device.decision_function(queries)), host.decision_function(X[:10] + 0.1), atol=1e-6
    )
    assert_allclose(as_numpy(device.local_coef(queries)), host.local_coef(X[:10] + 0.1), atol=1e-6)


@pytest.mark.parametrize("metric", ["euclidean", "standardized"])
def test_choices_agree(to_array, data, metric):
    X, y, Q = data
    for model, target in (
        (LocalClassifier(random_state=0, metric=metric), y),
        (LocalRegressor(degree=1, metric=metric), X[:, 0] ** 2),
        (NadarayaWatsonRegressor(metric=metric), X[:, 0] ** 2),
    ):
        host, device, queries = both(model, to_array, X, target, Q)
        assert_allclose(device.selection_["loss"], host.selection_["loss"], rtol=1e-7, atol=1e-9)
        assert device.n_neighbors_ == host.n_neighbors_
        assert_allclose(as_numpy(device.predict(queries)), host.predict(Q), rtol=1e-6)


def test_gradient_metric_lets_irrelevant_columns_fade(to_array, rng):
    X = rng.normal(size=(260, 12))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    weights = rng.randint(0, 3, 200).astype(float)
    rows = (to_array(X[:200]), to_array(y[:200]))
    model = LocalRegressor(degree=1, random_state=0)
    plain = model.fit(*rows, sample_weight=to_array(weights)).loo_score_
    model.set_params(metric="gradient").fit(*rows, sample_weight=to_array(weights))
    assert set(model.selection_["metric"]) >= {"gradient 1", "gradient 2"}
    assert model.loo_score_ < 0.7 * plain
    queries = to_array(X[200:])
    error = np.mean((as_numpy(model.predict(queries)) - y[200:]) ** 2) / y.var()
    assert error < 2 * model.loo_score_
    slopes = np.abs(as_numpy(model.local_coef(queries))).mean(axis=0)
    assert slopes[:2].min() > 3 * slopes[2:].max()


def test_named_gradient_metric(to_array, data):
    X, y, Q = data
    model = LocalClassifier(n_neighbors=20, alpha=1.0, metric="gradient", random_state=0)
    proba = as_numpy(model.fit(to_array(X), to_array(y)).predict_proba(to_array(Q)))
    assert model.metric_.n_rounds in (1, 2, 3)
    assert_allclose(proba.sum(axis=1), 1.0)
    # The columns are scaled first, so that only shifts and scales leave the metric alone.
    moved = model.fit(to_array(3.0 * X + 1.0), to_array(y)).predict_proba(to_array(3.0 * Q + 1.0))
    assert_allclose(as_numpy(moved), proba, atol=1e-6)


@pytest.mark.parametrize("diagonal", [True, False])
def test_gradient_metrics_agree(to_array, data, diagonal):
    X, y, Q = data
    X, Q = (np.column_stack([a, np.ones(len(a))]) for a in (X, Q))
    weights = np.random.RandomState(0).randint(0, 3, len(y)).astype(float)
    for target in (y, X[:, 0] ** 2, X[:, :2] ** 2):
        model = GradientMetric(n_rounds=2, n_neighbors=25, diagonal=diagonal, random_state=0)
        host, device, queries = both(model, to_array, X, target, Q, sample_weight=weights)
        for name in ("components_", "outer_products_", "feature_importances_"):
            found = as_numpy(getattr(device, name))
            assert_allclose(found, getattr(host, name), rtol=1e-6, atol=1e-8)
        assert type(device.transform(queries)) is type(queries)
        assert_allclose(as_numpy(device.transform(queries)), host.transform(Q), atol=1e-7)
    with pytest.raises(TypeError, match="convert X"):
        device.transform(Q)


def test_left_out_labels_do_not_teach_the_metric(to_array, rng):
    """Labels without meaning: the error reported by the choice stays at chance."""
    X, y = rng.normal(size=(150, 20)), rng.randint(0, 2, 150)
    model = LocalClassifier(metric="gradient", random_state=0).fit(to_array(X), to_array(y))
    assert np.mean(model.selection_["loss"]) > 0.42


def test_ridge_twins_agree(to_array, rng):
    """Predictions of all penalties at once equal the equivalent kernels times the targets."""
    X, Y, Q = rng.normal(size=(80, 4)), rng.normal(size=(80, 3)), rng.normal(size=(6, 4))
    for k in (3, 25):
        indices = np.stack([rng.permutation(80)[:k] for _ in range(6)])
        weights = rng.uniform(0, 1, size=(6, k))
        shared = [to_array(a) for a in (Q, indices, weights)]
        alphas = [0.01, 1.0, 30.0]
        values = batched_ridge_values(to_array(X), to_array(Y), *shared, alphas, relative=True)
        kernels = batched_ridge(to_array(X), *shared, alphas, relative=True)
        for value, kernel in zip(values, kernels, strict=True):
            expected = np.einsum("qk,qkc->qc", as_numpy(kernel), Y[indices])
            assert_allclose(as_numpy(value), expected, rtol=1e-8, atol=1e-10)


def test_slopes_and_metric_step_by_hand(to_array):
    """Targets linear in two columns: the outer product is theirs, its fourth root the map."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 3))
    beta = np.array([[3.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    indices = np.tile(np.arange(60), (5, 1))
    slopes = batched_slopes(
        *map(to_array, (X, X @ beta.T, X[:5], indices, np.ones((5, 60)))), 1e-9, relative=True
    )
    assert_allclose(as_numpy(slopes), np.tile(beta, (5, 1, 1)), atol=1e-6)
    G = gradient_outer_product(slopes, to_array(np.full(5, 0.2)))
    assert_allclose(as_numpy(G), np.diag([9.0, 16.0, 0.0]), atol=1e-6)
    step = as_numpy(metric_step(to_array(np.diag([1.0, 16.0, 0.0])), floor=0.0))
    assert_allclose(step, np.diag([1.0, 2.0, 0.0]) * np.sqrt(3 / 5), atol=1e-12)
    still = metric_step(to_array(np.zeros((3, 3))), floor=1e-3)
    assert_allclose(as_numpy(still), np.eye(3))


def test_a_weight_common_to_all_rows_changes_nothing(to_array, data):
    X, y, Q = data
    model = LocalClassifier(n_neighbors=20, alpha=0.5)
    plain = model.fit(to_array(X), to_array(y)).predict_proba(to_array(Q))
    twice = model.fit(to_array(X), to_array(y), sample_weight=to_array(np.full(len(y), 2.0)))
    assert_allclose(as_numpy(twice.predict_proba(to_array(Q))), as_numpy(plain))


@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_rows_agree(to_array, data, weighted):
    X, y, Q = data
    weights = np.random.RandomState(0).randint(0, 3, len(y)) if weighted else None
    fit = {} if weights is None else {"sample_weight": weights}
    shared = {"n_neighbors": 20, "alpha": 0.5, "metric": "standardized"}
    for model, target in (
        (LocalClassifier(**shared), y),
        (LocalClassifier(loss="log_loss", calibration=None, **shared), y),
        (LocalRegressor(degree=1, **shared), X[:, 0] ** 2),
        (LocalRegressor(degree=1, **shared), X[:, :2] ** 2),
    ):
        host, device, _ = both(model, to_array, X, target, Q, **fit)
        assert_allclose(
            as_numpy(device.leave_one_out()), host.leave_one_out(), rtol=1e-5, atol=1e-7
        )


def test_duplicates_of_the_query(to_array):
    X = np.array([[1.0, 1.0]] * 6 + [[2.0, 2.0], [3.0, 1.0]])
    y = np.array([1.0, 2, 3, 4, 5, 6, 50, 60])
    model = LocalRegressor(n_neighbors=3, alpha=1.0, degree=1, metric="euclidean")
    host, device, queries = both(model, to_array, X, y, X)
    assert_allclose(as_numpy(device.predict(queries)), host.predict(X), rtol=1e-9)
    assert_allclose(as_numpy(device.predict(queries))[0], 3.5)


@pytest.mark.parametrize(
    ("loss", "code"), [("squared_hinge", SQUARED_HINGE), ("log_loss", LOGISTIC)]
)
def test_newton_twins_agree(to_array, rng, loss, code):
    offsets, weights = rng.normal(size=(4, 15, 3)), rng.uniform(0.1, 1, size=(4, 15))
    codes = rng.randint(0, 2, 60)
    codes[::15], codes[1::15] = 0, 1
    y = np.where(codes.reshape(4, 15) == 1, 1.0, -1.0)
    penalties = np.full(4, 0.3), np.full(4, 0.1)
    problem = NewtonProblem(*map(to_array, (offsets, y, 0.7 * weights, *penalties)))
    theta, converged = batched_newton(problem, loss, tol=1e-10, max_iter=60)
    assert bool(as_numpy(converged).all())
    scores, slopes = np.empty((4, 2)), np.zeros((4, 2, 3))
    rows, queries = offsets.reshape(60, 3), np.zeros((4, 3))
    local_classifiers(
        Queries(rows, queries, np.arange(5) * 15, np.arange(60), weights.ravel(), 1),
        codes.astype(np.int64),
        FitObjective(code, 0.3, False, 0.7, 0.1, 0.0, 1e-12, 100),
        Fits(scores, slopes, np.ones(4, dtype=bool)),
    )
    expected = np.column_stack([slopes[:, 1], scores[:, 1]])
    assert_allclose(as_numpy(theta), expected, rtol=1e-6, atol=1e-8)


def test_unsupported_settings_are_named(to_array, data):
    X, y, _ = data
    with pytest.raises(ValueError, match="takes dense NumPy arrays"):
        AnchoredLocalRegressor(5).fit(to_array(X), to_array(X[:, 0]))
    three = np.arange(len(X)) % 3
    with pytest.raises(ValueError, match="estimator cannot be used"):
        LocalClassifier(LogisticRegression()).fit(to_array(X), three)
    with pytest.raises(ValueError, match="bandwidth, degree cannot be used"):
        LocalClassifier(bandwidth=1.0, degree=2).fit(to_array(X), to_array(y))
    model = LocalClassifier(n_neighbors=9, alpha=1.0).fit(to_array(X), to_array(y))
    with pytest.raises(ValueError, match="NumPy arrays"):
        model.neighbors(to_array(X))
    with pytest.raises(TypeError, match="convert X"):
        model.predict(X)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "squared_hinge"])
def test_float32_tensors_give_the_float64_prediction(loss, rng):
    """Classes at the rim of a neighbourhood have tiny weights, which float32 sums would lose."""
    torch = pytest.importorskip("torch")
    centres = rng.normal(size=(12, 6))
    y = rng.randint(0, 12, 900)
    X = (centres[y] + rng.normal(size=(900, 6))).astype(np.float32)
    model = LocalClassifier(
        loss=loss, n_neighbors=30, alpha=0.1, metric="euclidean", calibration=None
    )
    expected = model.fit(X[:700].astype(np.float64), y[:700]).decision_function(X[700:])
    found = model.fit(torch.asarray(X[:700]), torch.asarray(y[:700])).decision_function(
        torch.asarray(X[700:])
    )
    assert found.dtype == torch.float32
    assert_allclose(found.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("loss", "code"), [("squared_hinge", SQUARED_HINGE), ("log_loss", LOGISTIC)]
)
@pytest.mark.parametrize("penalty", [1e-8, 1e-3, 1.0, 50.0, 0.0])
def test_one_class_scores_agree(to_array, loss, code, penalty):
    totals = np.array([1e-3, 1.0, 40.0])
    found = one_class_scores(to_array(totals), to_array(penalty * totals), C=0.7, loss=loss)
    expected = [one_class_score(s, 0.7, penalty * s, code) for s in totals]
    assert_allclose(as_numpy(found), expected, rtol=1e-10)


def test_newton_finds_the_minimum_in_float32(rng):
    """With weights over eight orders of magnitude a further step in float64 moves nothing."""
    torch = pytest.importorskip("torch")
    offsets = rng.normal(size=(50, 20, 3)).astype(np.float32)
    weights = (10.0 ** rng.uniform(-8, 0, size=(50, 20))).astype(np.float32)
    y = np.where(rng.uniform(size=(50, 20)) < 0.3, 1.0, -1.0).astype(np.float32)
    lam, rho = np.full(50, 0.01, np.float32), np.full(50, 1e-6, np.float32)
    problem = NewtonProblem(*map(torch.asarray, (offsets, y, weights, lam, rho)))
    theta, converged = batched_newton(problem, "log_loss", tol=1e-9, max_iter=100)
    assert bool(converged.all())
    for i, t in enumerate(theta.numpy().astype(np.float64)):
        A = np.column_stack([offsets[i], np.ones(20)]).astype(np.float64)
        penalties = np.array([lam[i]] * 3 + [rho[i]], dtype=np.float64)
        miss = special.expit(-y[i] * (A @ t))
        gradient = penalties * t - A.T @ (weights[i] * miss * y[i])
        hessian = (A.T * (weights[i] * miss * (1.0 - miss))) @ A + np.diag(penalties)
        assert_allclose(np.linalg.solve(hessian, gradient), 0.0, atol=1e-4)


def test_two_classes_mirror_each_other(to_array, data):
    X, y, Q = data
    model = LocalClassifier(
        loss="log_loss", n_neighbors=20, alpha=0.3, metric="euclidean", calibration=None
    )
    device = model.fit(to_array(X), to_array(np.minimum(y, 1)))
    slopes = as_numpy(device.local_coef(to_array(Q)))
    host = model.fit(X, np.minimum(y, 1)).local_coef(Q)
    assert_allclose(slopes, host, rtol=1e-5, atol=1e-6)
