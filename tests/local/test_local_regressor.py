"""LocalRegressor: equalities with reference computations, and corner cases."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

from vicinal.local import LocalRegressor


class OtherRidge(Ridge):
    """Not Ridge by exact type: takes the general path."""


class OtherLinear(LinearRegression):
    """Not LinearRegression by exact type: takes the general path."""


@pytest.fixture
def data(rng):
    X = rng.normal(size=(80, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=80)
    return X, y, rng.normal(size=(25, 3))


def fixed(**parameters):
    defaults = {"n_neighbors": 20, "degree": 1, "alpha": 0.5, "metric": "euclidean"}
    return LocalRegressor(**{**defaults, **parameters})


def dense_ridge(X, y, w, q, lam):
    """Weighted ridge with a free intercept by the textbook system."""
    D = np.hstack([np.ones((len(X), 1)), X - q])
    penalty = lam * np.eye(D.shape[1])
    penalty[0, 0] = 0.0
    return np.linalg.solve(D.T @ (w[:, None] * D) + penalty, D.T @ (w * y))


def tricube_weights(X, q, k):
    distance = np.linalg.norm(X - q, axis=1)
    return np.clip(1 - (distance / np.sort(distance)[k]) ** 3, 0, None) ** 3


@pytest.mark.parametrize("alpha_scale", ["relative", "absolute"])
def test_equals_the_textbook_system(data, alpha_scale):
    X, y, Q = data
    model = fixed(alpha_scale=alpha_scale).fit(X, y)
    values, slopes = model.predict(Q), model.local_coef(Q)
    for q, value, slope in zip(Q, values, slopes, strict=True):
        w = tricube_weights(X, q, 20)
        mean = w @ (X - q) / w.sum()
        trace = w @ ((X - q - mean) ** 2).sum(axis=1)
        coefficients = dense_ridge(
            X, y, w, q, 0.5 * trace / 3 if alpha_scale == "relative" else 0.5
        )
        assert_allclose(value, coefficients[0], rtol=1e-9)
        assert_allclose(slope, coefficients[1:], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n_features", [2, 30])
@pytest.mark.parametrize("kernel", ["tricube", "uniform", "gaussian"])
def test_fast_path_equals_the_general_path(rng, n_features, kernel):
    X, y = rng.normal(size=(60, n_features)), rng.normal(size=60)
    Q = rng.normal(size=(10, n_features))
    fast = fixed(estimator=Ridge(alpha=0.7), alpha="auto", kernel=kernel).fit(X, y)
    slow = fixed(estimator=OtherRidge(alpha=0.7), alpha="auto", kernel=kernel).fit(X, y)
    assert fast.local_coef(Q).shape == Q.shape
    with pytest.raises(ValueError, match="built-in local model"):
        slow.local_coef(Q)
    assert_allclose(fast.predict(Q), slow.predict(Q), rtol=1e-8)


def test_linear_regression_path_equals_the_general_path(data):
    X, y, Q = data
    fast = fixed(estimator=LinearRegression()).fit(X, y)
    slow = fixed(estimator=OtherLinear()).fit(X, y)
    assert_allclose(fast.predict(Q), slow.predict(Q), rtol=1e-8)


def test_black_box_equals_a_loop(data):
    X, y, Q = data
    forest = RandomForestRegressor(5, random_state=0)
    model = fixed(estimator=forest).fit(X, y)
    for q, value in zip(Q[:3], model.predict(Q[:3]), strict=True):
        w = tricube_weights(X, q, 20)
        order = np.argsort(np.linalg.norm(X - q, axis=1))[:20]
        expected = forest.fit(X[order] - q, y[order], sample_weight=w[order]).predict(0 * q[None])
        assert_allclose(value, expected)
    with pytest.raises(ValueError, match="linear smoother"):
        model.predict(Q, return_std=True)


def test_estimator_without_weights_needs_the_uniform_kernel(data):
    X, y, Q = data
    with pytest.raises(ValueError, match='kernel="uniform"'):
        fixed(estimator=KNeighborsRegressor(3)).fit(X, y)
    model = fixed(estimator=KNeighborsRegressor(20), kernel="uniform").fit(X, y)
    assert_allclose(model.predict(Q), KNeighborsRegressor(20).fit(X, y).predict(Q))


def test_pipelines_get_the_weights_at_their_end(data):
    X, y, Q = data
    quadratic = make_pipeline(PolynomialFeatures(2, include_bias=False), LinearRegression())
    model = fixed(estimator=quadratic, n_neighbors=40).fit(X, y)
    built_in = fixed(degree=2, n_neighbors=40, alpha=0.0).fit(X, y)
    assert_allclose(model.predict(Q), built_in.predict(Q), rtol=1e-8)


def test_infinite_bandwidth_is_the_global_model(data):
    X, y, Q = data
    w = np.random.RandomState(1).uniform(0.5, 2, 80)
    model = fixed(n_neighbors="auto", bandwidth=np.inf, alpha=2.0, alpha_scale="absolute")
    expected = Ridge(alpha=2.0).fit(X, y, sample_weight=w).predict(Q)
    assert_allclose(model.fit(X, y, sample_weight=w).predict(Q), expected, rtol=1e-8)
    model.set_params(estimator=QuantileRegressor(solver="highs"))
    expected = QuantileRegressor(solver="highs").fit(X, y, sample_weight=w).predict(Q)
    assert_allclose(model.fit(X, y, sample_weight=w).predict(Q), expected, rtol=1e-5)


def test_limits_of_the_penalty(data):
    X, y, Q = data
    average = fixed(degree=0).fit(X, y).predict(Q)
    assert_allclose(fixed(alpha=1e12).fit(X, y).predict(Q), average, rtol=1e-6)
    linear = fixed(alpha=0.0).fit(X, y).predict(Q)
    assert_allclose(fixed(alpha=1e-11).fit(X, y).predict(Q), linear, rtol=1e-5)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("alpha", [0.0, 1e-9])
def test_polynomials_are_reproduced(rng, degree, alpha):
    X, Q = rng.normal(size=(200, 2)), 0.5 * rng.normal(size=(10, 2))

    def truth(Z):
        return 1.0 + Z @ [2.0, -1.0] + (degree == 2) * (Z[:, 0] * Z[:, 1] - 0.5 * Z[:, 1] ** 2)

    model = fixed(degree=degree, alpha=alpha, n_neighbors=60).fit(X, truth(X))
    assert_allclose(model.predict(Q), truth(Q), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("degree", [1, 2])
def test_slopes_are_derivatives_of_the_frozen_model(rng, degree):
    X = rng.normal(size=(150, 2))
    y = np.exp(0.5 * X[:, 0]) + X[:, 1]
    model = fixed(degree=degree, alpha=0.0, n_neighbors=80).fit(X, y)
    assert_allclose(
        model.local_coef([[0.2, 0.1]])[0], [0.5 * np.exp(0.1), 1.0], rtol=0.05, atol=0.02
    )


def test_leave_one_out_equals_refitting(data):
    X, y, _ = data
    for model in (fixed(), fixed(n_neighbors="auto", bandwidth=1.5, kernel="gaussian", alpha=0.3)):
        left_out = model.fit(X, y).leave_one_out()
        for i in (0, 7, 33):
            rest = np.arange(80) != i
            refit = model.fit(X[rest], y[rest]).predict(X[[i]])
            assert_allclose(left_out[i], refit[0], rtol=1e-10)


def test_leave_one_out_closed_form_for_a_fixed_bandwidth(data):
    X, y, _ = data
    model = fixed(n_neighbors="auto", bandwidth=2.0, kernel="gaussian", alpha_scale="absolute")
    model.fit(X, y)
    leverage = model.statistics().leverage
    closed = (model.predict(X) - leverage * y) / (1 - leverage)
    assert_allclose(model.leave_one_out(), closed, rtol=1e-10)


def test_leave_one_out_removes_the_row_not_its_duplicate(rng):
    X = np.repeat(rng.normal(size=(20, 2)), 2, axis=0)
    y = np.repeat(rng.normal(size=20), 2)
    model = fixed(n_neighbors=1, kernel="uniform", degree=0).fit(X, y)
    assert_allclose(model.leave_one_out(), y)


def test_groups_leave_out_together(rng):
    X = np.repeat(rng.normal(size=(20, 2)), 2, axis=0)
    y = np.arange(40.0)
    groups = np.array([f"g{i}" for i in np.repeat(np.arange(20), 2)])
    model = fixed(n_neighbors=1, kernel="uniform", degree=0)
    alone = model.fit(X, y).leave_one_out()
    together = model.fit(X, y, groups=groups).leave_one_out()
    assert np.all(alone // 2 == y // 2)
    assert np.all(together // 2 != y // 2)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("rule", [{"n_neighbors": 20}, {"n_neighbors": 0.4}, {"bandwidth": 3.5}])
@pytest.mark.parametrize("kernel", ["tricube", "uniform", "gaussian"])
def test_weights_equal_repetition(data, alpha, rule, kernel):
    X, y, Q = data
    weights = np.random.RandomState(0).randint(0, 4, 80)
    model = fixed(**{"n_neighbors": "auto", **rule}, alpha=alpha, kernel=kernel)
    weighted = model.fit(X, y, sample_weight=weights).predict(Q, return_std=True)
    repeated = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).predict(
        Q, return_std=True
    )
    assert_allclose(weighted, repeated, rtol=1e-9)


def test_weights_equal_repetition_in_the_choice(data):
    X, y, _ = data
    weights = np.random.RandomState(0).randint(0, 4, 80)
    model = LocalRegressor(metric="standardized")
    first = model.fit(X, y, sample_weight=weights).selection_["loss"]
    second = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).selection_["loss"]
    assert_allclose(first, second, rtol=1e-9)


def test_too_little_weight_is_an_error(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="n_neighbors=81 exceeds the 80 samples"):
        fixed(n_neighbors=81).fit(X, y)
    weights = np.full(80, 0.1)
    weights[0] = 0.2
    with pytest.raises(ValueError, match="n_neighbors=20 exceeds the 8.1 samples"):
        fixed().fit(X, y, sample_weight=weights)


def test_auto_never_selects_more_neighbours_than_rows(rng):
    for n in (2, 3, 5):
        model = LocalRegressor().fit(rng.normal(size=(n, 2)), np.arange(n, dtype=float))
        assert model.n_neighbors_ < n
        assert np.isfinite(model.predict(rng.normal(size=(4, 2)))).all()


def test_row_order_does_not_matter_with_ties(rng):
    X = rng.randint(0, 4, size=(60, 2)).astype(float)
    y = rng.normal(size=60)
    order = rng.permutation(60)
    Q = rng.randint(0, 4, size=(20, 2)).astype(float)
    for kernel in ("tricube", "uniform", "gaussian"):
        model = fixed(kernel=kernel, n_neighbors=7)
        first, second = model.fit(X, y).predict(Q), model.fit(X[order], y[order]).predict(Q)
        assert_allclose(first, second, rtol=1e-9)


def test_uniform_takes_all_ties(rng):
    X = np.array([[0.0], [1.0], [-1.0], [1.0], [5.0]])
    y = np.array([0.0, 1.0, 2.0, 3.0, 100.0])
    model = fixed(kernel="uniform", degree=0, n_neighbors=2).fit(X, y)
    assert_allclose(model.predict([[0.0]]), 1.5)


def test_duplicates_of_the_query_are_averaged_without_slopes():
    X = np.array([[1.0, 1.0]] * 6 + [[2.0, 2.0], [3.0, 1.0]])
    y = np.array([1.0, 2, 3, 4, 5, 6, 50, 60])
    model = fixed(n_neighbors=3).fit(X, y)
    assert_allclose(model.predict([[1.0, 1.0]]), 3.5)
    assert_array_equal(model.local_coef([[1.0, 1.0]]), 0.0)
    weighted = model.fit(X, y, sample_weight=[2, 1, 1, 1, 1, 1, 1, 1])
    assert_allclose(weighted.predict([[1.0, 1.0]]), 22 / 7)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_constant_columns_have_slope_zero(rng, alpha):
    X = np.column_stack([rng.normal(size=50), np.full(50, 3.0)])
    y = 2 * X[:, 0]
    model = fixed(alpha=alpha).fit(X, y)
    slopes = model.local_coef(X[:5])
    assert_allclose(slopes[:, 1], 0.0, atol=1e-9)
    assert np.isfinite(model.predict(X)).all()


def test_too_few_rows_give_the_minimum_norm_fit_and_a_warning(rng):
    X, y = rng.normal(size=(30, 6)), rng.normal(size=30)
    model = fixed(alpha=0.0, n_neighbors=4).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="fewer rows than the 7 coefficients"):
        values = model.predict(X[:2] + 0.1)
    for q, value in zip(X[:2] + 0.1, values, strict=True):
        w = tricube_weights(X, q, 4)
        slow = OtherLinear().fit(X - q, y, sample_weight=w).predict(0 * q[None])
        assert_allclose(value, slow[0], rtol=1e-6)


def test_outside_a_fixed_bandwidth(data):
    X, y, _ = data
    far = np.array([[50.0, 0.0, 0.0]])

    def predict(outside):
        model = fixed(n_neighbors="auto", bandwidth=1.0, outside=outside)
        return model.fit(X, y).predict(far)

    nearest = fixed(n_neighbors=4).fit(X, y).predict(far)
    assert_allclose(predict("nearest"), nearest)
    assert np.isnan(predict("nan"))
    assert_allclose(predict("prior"), y.mean())
    with pytest.raises(ValueError, match="1 of 1 queries have no sample within bandwidth=1.0"):
        predict("raise")


def test_standard_errors_where_no_row_is_near(data):
    """The mean of all rows has the error of a mean; a missing prediction has none."""
    X, y, _ = data
    far = np.array([[50.0, 0.0, 0.0]])
    rule = {"n_neighbors": "auto", "bandwidth": 1.0}
    model = fixed(outside="prior", **rule).fit(X, y)
    _, std = model.predict(far, return_std=True)
    assert_allclose(std, model.statistics().sigma / np.sqrt(len(y)))
    model = fixed(outside="nan", **rule).fit(X, y)
    assert np.isnan(model.predict(far, return_std=True)[1])
    assert model.extrapolates(far)


def test_far_gaussian_queries_do_not_underflow(data):
    X, y, _ = data
    model = fixed(n_neighbors="auto", bandwidth=0.1, kernel="gaussian", degree=0).fit(X, y)
    far = np.array([[1000.0, 0.0, 0.0]])
    nearest = np.linalg.norm(X - far, axis=1).argmin()
    assert_allclose(model.predict(far), y[nearest], rtol=1e-6)


def test_extrapolation_is_flagged(rng):
    X = rng.uniform(0, 1, size=(100, 1))
    y = 3 * X[:, 0]
    model = fixed(alpha=0.0).fit(X, y)
    assert model.extrapolates([[0.5], [5.0]]).tolist() == [False, True]
    assert_allclose(model.predict([[5.0]]), 15.0, rtol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_results_do_not_depend_on_batches_or_threads(data, alpha):
    X, y, Q = data
    model = fixed(alpha=alpha).fit(X, y)
    whole = model.predict(Q)
    assert_allclose(np.concatenate([model.predict(q[None]) for q in Q]), whole, rtol=1e-9)
    with config_context(working_memory=0.01):
        assert_allclose(model.predict(Q), whole, rtol=1e-9)
    assert_allclose(model.set_params(n_jobs=1).predict(Q), whole, rtol=1e-9)


def test_result_does_not_depend_on_the_origin(data):
    X, y, Q = data
    model = fixed(alpha_scale="absolute")
    shifted = model.fit(X + 3.0, y).predict(Q + 3.0)
    assert_allclose(shifted, model.fit(X, y).predict(Q), rtol=1e-9)


def test_relative_penalty_is_free_of_scale(data):
    X, y, Q = data
    model = fixed()
    assert_allclose(model.fit(9 * X, y).predict(9 * Q), model.fit(X, y).predict(Q), rtol=1e-9)


def test_float32_is_kept(data):
    X, y, Q = data
    values = fixed().fit(X.astype(np.float32), y).predict(Q.astype(np.float32))
    assert values.dtype == np.float32
    assert_allclose(values, fixed().fit(X, y).predict(Q), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_sparse_equals_dense(rng, alpha):
    X = rng.normal(size=(60, 12)) * (rng.uniform(size=(60, 12)) < 0.3)
    y = rng.normal(size=60)
    model = fixed(alpha=alpha, n_neighbors=25)
    dense = model.fit(X, y)
    expected = [dense.predict(X[:9]), dense.local_coef(X[:9])]
    made_sparse = model.fit(sparse.csr_matrix(X), y)
    assert_allclose(made_sparse.predict(sparse.csr_matrix(X[:9])), expected[0], rtol=1e-6)
    assert_allclose(
        made_sparse.local_coef(sparse.csr_matrix(X[:9])), expected[1], rtol=1e-6, atol=1e-8
    )


def test_several_outputs_are_fitted_alike(data):
    X, y, Q = data
    Y = np.column_stack([y, y**2])
    model = fixed()
    both = model.fit(X, Y)
    values, slopes = both.predict(Q), both.local_coef(Q)
    assert values.shape == (25, 2)
    assert slopes.shape == (25, 2, 3)
    assert both.predict_interval(Q).shape == (25, 2, 2)
    for c in range(2):
        single = model.fit(X, Y[:, c])
        assert_allclose(values[:, c], single.predict(Q), rtol=1e-12)
        assert_allclose(slopes[:, c], single.local_coef(Q), rtol=1e-9)


# --- metrics ---


def test_standardized_metric_equals_scaled_columns(data):
    X, y, Q = data
    X, Q = X * [1, 100, 0.01], Q * [1, 100, 0.01]
    scaler = StandardScaler().fit(X)
    model = fixed(metric="standardized").fit(X, y)
    scaled = fixed().fit(scaler.transform(X), y)
    assert_allclose(model.predict(Q), scaled.predict(scaler.transform(Q)), rtol=1e-9)
    slopes = scaled.local_coef(scaler.transform(Q)) / scaler.scale_
    assert_allclose(model.local_coef(Q), slopes, rtol=1e-7, atol=1e-9)
    by_transformer = fixed(metric=StandardScaler()).fit(X, y)
    assert_allclose(by_transformer.predict(Q), model.predict(Q), rtol=1e-9)
    assert_allclose(by_transformer.local_coef(Q), slopes, rtol=1e-6, atol=1e-8)


def test_transformer_gives_the_coordinates(data):
    X, y, Q = data
    pca = PCA(2, random_state=0).fit(X)
    model = fixed(metric=PCA(2, random_state=0)).fit(X, y)
    expected = fixed().fit(pca.transform(X), y).predict(pca.transform(Q))
    assert_allclose(model.predict(Q), expected, rtol=1e-8)


def test_slopes_of_a_nonlinear_metric_are_refused(data):
    X, y, Q = data
    model = fixed(metric=FunctionTransformer(np.tanh)).fit(X, y)
    assert np.isfinite(model.predict(Q)).all()
    with pytest.raises(ValueError, match="not a linear map"):
        model.local_coef(Q)


@pytest.mark.parametrize("metric", ["manhattan", "cosine", "chebyshev"])
def test_metrics_of_scikit_learn(data, metric):
    X, y, Q = data
    model = fixed(metric=metric, kernel="uniform", degree=0).fit(X, y)
    expected = KNeighborsRegressor(20, metric=metric).fit(X, y).predict(Q)
    assert_allclose(model.predict(Q), expected, rtol=1e-9)


def test_geographically_weighted_regression_equals_a_dense_reference(rng):
    location = rng.uniform(0, 1, size=(150, 2))
    Z = rng.normal(size=(150, 2))
    y = (
        1
        + location[:, 0] * Z[:, 0]
        + np.sin(3 * location[:, 1]) * Z[:, 1]
        + 0.1 * rng.normal(size=150)
    )
    X = np.column_stack([location, Z])
    model = LocalRegressor(
        location_columns=[0, 1],
        bandwidth=0.3,
        kernel="gaussian",
        metric="euclidean",
        alpha=0.0,
        degree=1,
    ).fit(X, y)
    values, slopes = model.predict(X[:10]), model.local_coef(X[:10])
    assert_array_equal(slopes[:, :2], 0.0)
    for i in range(10):
        w = np.exp(-0.5 * ((location - location[i]) ** 2).sum(axis=1) / 0.09)
        D = np.column_stack([np.ones(150), Z])
        b = np.linalg.solve(D.T @ (w[:, None] * D), D.T @ (w * y))
        assert_allclose(values[i], b @ np.append(1, Z[i]), rtol=1e-6)
        assert_allclose(slopes[i, 2:], b[1:], rtol=1e-6)


def test_location_columns_by_name_and_their_errors(data):
    pd = pytest.importorskip("pandas")
    X, y, _ = data
    frame = pd.DataFrame(X, columns=["u", "v", "z"])
    named = fixed(location_columns=["u", "v"]).fit(frame, y).predict(frame)
    assert_allclose(named, fixed(location_columns=[0, 1]).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="names"):
        fixed(location_columns=["w"]).fit(frame, y)
    with pytest.raises(ValueError, match=r"names \['u'\], but the columns have no names"):
        fixed(location_columns=["u"]).fit(X, y)
    with pytest.raises(ValueError, match="at least one and not all of the 3 columns"):
        fixed(location_columns=[0, 1, 2]).fit(X, y)


# --- choice ---


def test_choice_is_within_one_standard_error_of_the_least_loss(data):
    X, y, _ = data
    model = LocalRegressor(metric="euclidean", degree=1).fit(X, y)
    table = model.selection_
    best = table["loss"].argmin()
    least = fixed(n_neighbors=int(table["size"][best]), alpha=table["alpha"][best]).fit(X, y)
    chosen = fixed(n_neighbors=model.n_neighbors_, alpha=model.alpha_).fit(X, y)
    excess = ((chosen.leave_one_out() - y) ** 2 - (least.leave_one_out() - y) ** 2) / np.var(y)
    assert 0.0 <= excess.mean() <= excess.std() / np.sqrt(len(y))
    assert model.alpha_ >= table["alpha"][best]
    refit = fixed(n_neighbors=model.n_neighbors_, alpha=model.alpha_).fit(X, y)
    loss = np.mean((refit.leave_one_out() - y) ** 2) / np.var(y)
    assert_allclose(model.loo_score_, loss, rtol=1e-9)


def test_the_default_metric_has_the_right_scale(rng):
    X = rng.normal(size=(200, 2)) * [1.0, 1000.0]
    y = np.sin(3 * X[:, 0])
    default = LocalRegressor(degree=1).fit(X, y).loo_score_
    assert default < 0.2 * LocalRegressor(degree=1, metric="euclidean").fit(X, y).loo_score_


def test_bandwidth_can_be_chosen(data):
    X, y, Q = data
    model = fixed(n_neighbors="auto", bandwidth="auto").fit(X, y)
    assert model.n_neighbors_ is None
    assert model.bandwidth_ in model.selection_["size"]
    assert np.isfinite(model.predict(Q)).all()


def test_both_sizes_are_an_error(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="both given"):
        fixed(bandwidth=1.0).fit(X, y)


# --- what a user sees ---


def test_equivalent_kernel_explains_the_prediction(data):
    X, y, Q = data
    for alpha in (0.0, 0.5):
        model = fixed(alpha=alpha).fit(X, y)
        L = model.equivalent_kernel(Q)
        assert_allclose(L @ y, model.predict(Q), rtol=1e-10)
        assert_allclose(L @ np.ones(80), 1.0, rtol=1e-10)


def test_neighbors_and_effective_sample_size(data):
    X, y, Q = data
    model = fixed().fit(X, y)
    W = model.neighbors(Q)
    expected = np.vstack([tricube_weights(X, q, 20) for q in Q])
    assert_allclose(W.toarray(), expected, atol=1e-12)
    size = expected.sum(axis=1) ** 2 / (expected**2).sum(axis=1)
    assert_allclose(model.effective_sample_size(Q), size, rtol=1e-10)


def test_statistics_equal_the_dense_smoother(data):
    X, y, Q = data
    model = fixed().fit(X, y)
    L = model.equivalent_kernel(X).toarray()
    R = (np.eye(80) - L).T @ (np.eye(80) - L)
    found = model.statistics("exact")
    assert_allclose(found.one_delta, np.trace(R), rtol=1e-9)
    assert_allclose(found.two_delta, np.trace(R @ R), rtol=1e-9)
    assert_allclose(found.trace, np.trace(L), rtol=1e-9)
    rss = ((y - L @ y) ** 2).sum()
    assert_allclose(found.sigma, np.sqrt(rss / np.trace(R)), rtol=1e-9)
    assert_allclose(found.gcv, 80 * rss / (80 - np.trace(L)) ** 2, rtol=1e-9)
    n, t = 80, np.trace(L)
    assert_allclose(found.aicc, np.log(rss / n) + 1 + 2 * (t + 1) / (n - t - 2), rtol=1e-9)
    _, std = model.predict(Q, return_std=True)
    norms = np.sqrt(model.equivalent_kernel(Q).power(2).sum(axis=1)).ravel()
    assert_allclose(std, found.sigma * np.asarray(norms).ravel(), rtol=1e-9)
    assert_allclose(model.statistics("approximate").two_delta, found.two_delta, rtol=0.1)
    with pytest.raises(ValueError, match='dof=3 must be "auto", "exact" or "approximate"'):
        model.statistics(3)
    assert fixed().fit(X, np.zeros(80)).statistics().aicc == -np.inf


def test_intervals_are_ordered_and_checked(data):
    X, y, Q = data
    model = fixed().fit(X, y)
    confidence = model.predict_interval(Q, 0.9, method="normal", kind="confidence")
    prediction = model.predict_interval(Q, 0.9, method="normal")
    assert np.all(prediction[:, 0] < confidence[:, 0])
    assert np.all(confidence[:, 1] < prediction[:, 1])
    for method in ("normal", "conformal"):
        with pytest.raises(ValueError, match="coverage=1"):
            model.predict_interval(Q, 1, method=method)
    with pytest.raises(ValueError, match="method='bayes'"):
        model.predict_interval(Q, method="bayes")
    with pytest.raises(ValueError, match="needs method"):
        model.predict_interval(Q, kind="confidence")
    with pytest.raises(ValueError, match="kind"):
        model.predict_interval(Q, kind="credible")


def test_robust_iterations_resist_outliers(rng):
    x = np.linspace(0, 1, 120)[:, None]
    y = 2 * x.ravel() + 0.05 * rng.normal(size=120)
    y[::10] += 10.0
    plain = fixed(n_neighbors=40, alpha=0.0).fit(x, y).predict(x)
    robust = fixed(n_neighbors=40, alpha=0.0, robust_iterations=3).fit(x, y).predict(x)
    assert np.abs(robust - 2 * x.ravel()).max() < 0.1 < np.abs(plain - 2 * x.ravel()).max()


def test_empty_batch_is_refused_with_its_shape(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="0 sample"):
        fixed().fit(X, y).predict(np.empty((0, 3)))


def test_degree_belongs_to_the_built_in_model(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="PolynomialFeatures"):
        fixed(estimator=Ridge(), degree=2).fit(X, y)


def test_nothing_is_warned_in_ordinary_use(data):
    X, y, Q = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LocalRegressor().fit(X, y).predict(Q)
