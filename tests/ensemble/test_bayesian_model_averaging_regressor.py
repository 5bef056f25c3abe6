import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from vicinal.ensemble import BayesianModelAveragingRegressor


def columns(*indices, model):
    """A model that sees some columns only."""
    return make_pipeline(ColumnTransformer([("keep", "passthrough", list(indices))]), model)


@pytest.fixture(scope="module")
def friedman():
    return make_friedman1(n_samples=200, noise=1.0, random_state=0)


@pytest.fixture(scope="module")
def linear():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(40, 3))
    return X, X[:, 0] + 0.3 * X[:, 1] + rng.normal(size=40)


def test_evidence_gives_the_analytic_posterior_odds(linear):
    """Two nested linear models, known noise, Gaussian prior: odds of multivariate normals."""
    X, y = linear
    variance, alpha = 1.3, 2.0
    small = columns(0, model=Ridge(alpha, fit_intercept=False))
    large = columns(0, 1, 2, model=Ridge(alpha, fit_intercept=False))
    model = BayesianModelAveragingRegressor(
        [("small", small), ("large", large)], weighting="evidence", noise_variance=variance
    ).fit(X, y)
    logs = [
        multivariate_normal(
            np.zeros(40), variance * (np.eye(40) + X[:, :k] @ X[:, :k].T / alpha)
        ).logpdf(y)
        for k in (1, 3)
    ]
    odds = 1.0 / (1.0 + np.exp(logs[1] - logs[0]))
    assert_allclose(model.weights_, [odds, 1 - odds], atol=1e-6)


def test_bayesian_ridge_models_use_their_own_precisions(linear):
    X, y = linear
    estimators = [
        ("two", columns(0, 1, model=BayesianRidge())),
        ("one", columns(2, model=BayesianRidge())),
    ]
    model = BayesianModelAveragingRegressor(estimators, weighting="evidence").fit(X, y)
    assert model.weights_[0] > 0.9


def test_leave_one_out_is_exact_for_linear_models(linear):
    X, y = linear
    estimators = [
        ("ridge", Ridge(2.0)),
        ("poly", make_pipeline(PolynomialFeatures(2, include_bias=False), LinearRegression())),
        ("odd", make_pipeline(FunctionTransformer(np.cbrt), Ridge())),
        ("scaled", make_pipeline(StandardScaler(), Ridge())),
    ]
    model = BayesianModelAveragingRegressor(estimators, cv="loo").fit(X, y)
    for m, (_, estimator) in enumerate(estimators):
        residual = y - cross_val_predict(estimator, X, y, cv=LeaveOneOut())
        variance = np.mean(residual**2)
        assert_allclose(model.variances_[m], variance, rtol=1e-8)
        expected = norm(0, np.sqrt(variance)).logpdf(residual)
        assert_allclose(model.log_densities_[:, m], expected, rtol=1e-7)
        assert_allclose(model.elpd_[m], expected.sum(), rtol=1e-7)
        assert_allclose(model.elpd_se_[m], np.sqrt(40) * expected.std(), rtol=1e-6)


def test_weights_equal_repetition_under_exact_leave_one_out(linear):
    X, y = linear
    times = np.random.RandomState(1).randint(0, 4, 40)
    model = BayesianModelAveragingRegressor(
        [("weak", Ridge(100.0)), ("plain", LinearRegression())], cv="loo"
    )
    weighted = model.fit(X, y, sample_weight=times)
    numbers = weighted.elpd_, weighted.variances_, weighted.predict(X)
    repeated = model.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    for one, other in zip(
        numbers, (repeated.elpd_, repeated.variances_, repeated.predict(X)), strict=True
    ):
        assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    "weighting", ["stacking", "stacking_mean", "pseudo_bma+", "pseudo_bma", "bic"]
)
def test_good_models_outweigh_bad_ones(friedman, weighting):
    X, y = friedman
    estimators = [("good", LinearRegression()), ("bad", columns(7, 8, model=LinearRegression()))]
    model = BayesianModelAveragingRegressor(estimators, weighting=weighting, random_state=0).fit(
        X, y
    )
    assert model.weights_[0] > 0.95
    assert_allclose(model.weights_.sum(), 1.0)
    assert 1.0 <= model.n_effective_ < 1.3


def test_bic_by_hand(linear):
    X, y = linear
    estimators = [("one", columns(0, model=LinearRegression())), ("all", LinearRegression())]
    model = BayesianModelAveragingRegressor(estimators, weighting="bic").fit(X, y)
    bic = []
    for k, Z in ((1, X[:, :1]), (3, X)):
        rss = np.sum((y - LinearRegression().fit(Z, y).predict(Z)) ** 2)
        bic.append(40 * (np.log(2 * np.pi * rss / 40) + 1) + (k + 2) * np.log(40))
    odds = np.exp(-0.5 * (np.array(bic) - min(bic)))
    assert_allclose(model.weights_, odds / odds.sum(), atol=1e-9)


def test_stacking_splits_where_one_model_cannot_do_it_alone(friedman):
    X, y = friedman
    estimators = [("lines", LinearRegression()), ("neighbours", KNeighborsRegressor(10))]
    model = BayesianModelAveragingRegressor(estimators, random_state=0).fit(X, y)
    assert model.weights_.min() > 0.05
    # On the rows it was learned from the mixture is at least as good as the better model.
    mixture = np.log(np.exp(model.log_densities_) @ model.weights_).sum()
    assert mixture >= model.elpd_.max() - 1e-6


def test_prediction_is_the_mean_and_deviation_of_the_mixture(friedman):
    X, y = friedman
    estimators = [("lines", LinearRegression()), ("neighbours", KNeighborsRegressor(10))]
    model = BayesianModelAveragingRegressor(estimators, random_state=0).fit(X, y)
    means = np.column_stack([estimator.predict(X) for estimator in model.estimators_])
    mean, std = model.predict(X, return_std=True)
    assert_allclose(mean, means @ model.weights_)
    second = (model.variances_ + means**2) @ model.weights_
    assert_allclose(std, np.sqrt(second - mean**2))
    density = norm(means, np.sqrt(model.variances_)).pdf(y[:, None]) @ model.weights_
    assert_allclose(model.log_density(X, y), np.log(density))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.log_density(X, y[:-1])


def test_own_deviations_of_models_are_used_and_calibrated():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, size=(60, 1))
    y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=60)
    process = GaussianProcessRegressor(alpha=0.04, optimizer=None)
    model = BayesianModelAveragingRegressor(
        [("process", process), ("line", LinearRegression())], random_state=0
    ).fit(X, y)
    assert model.weights_[0] > 0.9
    _, near = model.predict(np.array([[0.0]]), return_std=True)
    _, far = model.predict(np.array([[30.0]]), return_std=True)
    assert far[0] > 2 * near[0]


class Fragile(LinearRegression):
    def fit(self, X, y, sample_weight=None):
        if len(y) < 200:
            raise RuntimeError("too few rows for me")
        return super().fit(X, y, sample_weight)


def test_a_model_that_fails_in_a_fold_has_weight_zero(friedman):
    X, y = friedman
    model = BayesianModelAveragingRegressor([("fine", Ridge()), ("fragile", Fragile())])
    with pytest.warns(
        UserWarning, match="failed in a fold and gets weight 0: RuntimeError: too few"
    ):
        model.fit(X, y)
    assert_array_equal(model.weights_, [1.0, 0.0])
    assert model.elpd_[1] == -np.inf
    assert_allclose(model.predict(X), Ridge().fit(X, y).predict(X))


@pytest.mark.filterwarnings("ignore:Estimator 0")
def test_failure_of_every_model_is_an_error(friedman):
    X, y = friedman
    with pytest.raises(ValueError, match="Every estimator"):
        BayesianModelAveragingRegressor([("fragile", Fragile())]).fit(X, y)


def test_one_model_alone_has_weight_one(linear):
    model = BayesianModelAveragingRegressor([("only", Ridge())]).fit(*linear)
    assert_allclose(model.weights_, [1.0])


def test_dropped_models_are_not_used(linear):
    X, y = linear
    model = BayesianModelAveragingRegressor([("ridge", Ridge()), ("tree", DecisionTreeRegressor())])
    model.set_params(tree="drop", ridge__alpha=5.0).fit(X, y)
    assert model.named_estimators_.keys() == {"ridge"}
    assert model.estimators_[0].alpha == 5.0


@pytest.mark.parametrize(
    ("estimators", "options", "message"),
    [
        ([], {}, "holds no estimator"),
        ([Ridge()], {}, "list of \\(name, estimator\\) tuples"),
        ([("a", StandardScaler())], {}, "is not a regressor"),
        ([("a__b", Ridge())], {}, "must not contain __"),
        ([("tree", DecisionTreeRegressor())], {"weighting": "bic"}, "has no coef_"),
        (
            [("line", LinearRegression())],
            {"weighting": "evidence"},
            "needs Ridge with",
        ),
    ],
)
def test_models_that_cannot_serve_are_named(linear, estimators, options, message):
    with pytest.raises(ValueError, match=message):
        BayesianModelAveragingRegressor(estimators, **options).fit(*linear)


def test_weights_need_models_that_accept_them(linear):
    X, y = linear
    with pytest.raises(ValueError, match=r"estimators\['knn'\]=KNeighborsRegressor"):
        BayesianModelAveragingRegressor([("knn", KNeighborsRegressor())]).fit(
            X, y, sample_weight=np.arange(1.0, 41.0)
        )


class Certain(LinearRegression):
    """Is certain where the first column is zero."""

    def predict(self, X, return_std=False):
        mean = super().predict(X)
        return (mean, np.abs(X[:, 0])) if return_std else mean


def test_predictions_do_not_depend_on_other_rows():
    """A deviation of zero is raised to a share of those of the training rows."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(40, 2))
    model = BayesianModelAveragingRegressor([("certain", Certain())], cv=4).fit(X, X[:, 1])
    queries = np.array([[0.0, 1.0], [1e6, 1.0]])
    deviation = model.predict(queries, return_std=True)[1]
    assert 0.0 < model.predict(queries[:1], return_std=True)[1][0] == deviation[0]
