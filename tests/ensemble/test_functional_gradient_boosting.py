"""Both boosting estimators, with every loss and several learners."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification, make_friedman1
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import mean_squared_error
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from vicinal._kernels.ensemble._boosting import SquaredError
from vicinal.ensemble import (
    FunctionalGradientBoostingClassifier,
    FunctionalGradientBoostingRegressor,
)

SMALL_TREE = DecisionTreeRegressor(max_depth=2)


@pytest.fixture(scope="module")
def friedman():
    return make_friedman1(n_samples=300, noise=1.0, random_state=0)


def classes(n_classes, n_samples=300):
    return make_classification(
        n_samples, n_classes=n_classes, n_informative=6, flip_y=0.1, random_state=0
    )


# --- agreement with scikit-learn ------------------------------------------------------------------


def test_leaf_mode_equals_scikit_learn_for_regression(friedman):
    X, y = friedman
    ours = FunctionalGradientBoostingRegressor(
        coefficients="leaf", n_estimators=60, random_state=0
    ).fit(X, y)
    theirs = GradientBoostingRegressor(n_estimators=60, random_state=0).fit(X, y)
    assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-10)
    for mine, other in zip(ours.staged_predict(X), theirs.staged_predict(X), strict=True):
        assert_allclose(mine, other, atol=1e-10)


@pytest.mark.parametrize(
    ("n_classes", "loss"), [(2, "log_loss"), (2, "exponential"), (3, "log_loss")]
)
def test_leaf_mode_equals_scikit_learn_for_classes(n_classes, loss):
    X, y = classes(n_classes, n_samples=600)
    # Large leaves: in small ones several splits are equally good and the seeds would decide.
    tree = DecisionTreeRegressor(max_depth=3, min_samples_leaf=25)
    ours = FunctionalGradientBoostingClassifier(
        tree, loss=loss, coefficients="leaf", n_estimators=60, subsample=1.0, random_state=0
    ).fit(X, y)
    theirs = GradientBoostingClassifier(
        loss=loss, n_estimators=60, min_samples_leaf=25, random_state=0
    ).fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-10)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-10)


def test_weighted_leaf_mode_equals_scikit_learn():
    X, y = classes(2, n_samples=600)
    weight = np.random.RandomState(0).uniform(0.2, 3.0, len(y))
    ours = FunctionalGradientBoostingClassifier(
        DecisionTreeRegressor(max_depth=3, min_samples_leaf=25),
        coefficients="leaf",
        n_estimators=30,
        subsample=1.0,
        random_state=0,
    ).fit(X, y, sample_weight=weight)
    theirs = GradientBoostingClassifier(n_estimators=30, min_samples_leaf=25, random_state=0)
    theirs.fit(X, y, sample_weight=weight)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-10)


# --- coefficients ---------------------------------------------------------------------------------


def test_corrective_refit_is_least_squares_on_the_base_models(friedman):
    X, y = friedman
    model = FunctionalGradientBoostingRegressor(
        SMALL_TREE, coefficients="corrective", learning_rate=1.0, alpha=0.0, n_estimators=15
    ).fit(X, y)
    outputs = np.column_stack([estimator.predict(X) for estimator in model.estimators_])
    reference = LinearRegression().fit(outputs, y)
    assert_allclose(model.predict(X), reference.predict(outputs), atol=1e-8)


def test_corrective_stages_are_the_fits_of_fewer_rounds(friedman):
    X, y = friedman
    arguments = {"coefficients": "corrective", "learning_rate": 1.0, "random_state": 0}
    ten = FunctionalGradientBoostingRegressor(SMALL_TREE, n_estimators=10, **arguments).fit(X, y)
    six = FunctionalGradientBoostingRegressor(SMALL_TREE, n_estimators=6, **arguments).fit(X, y)
    assert_allclose(list(ten.staged_predict(X))[5], six.predict(X), atol=1e-9)
    assert_allclose(list(ten.staged_predict(X))[-1], ten.predict(X))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_corrective_lowers_the_training_loss_faster(n_classes):
    X, y = classes(n_classes)
    by = {
        kind: FunctionalGradientBoostingClassifier(
            SMALL_TREE, coefficients=kind, learning_rate=1.0, n_estimators=8, subsample=1.0
        )
        .fit(X, y)
        .train_score_
        for kind in ("line_search", "corrective")
    }
    assert by["corrective"][-1] < by["line_search"][-1]
    assert np.diff(by["corrective"]).max() <= 0


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "quantile", "poisson"])
@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_line_search_never_raises_the_training_loss(friedman, loss, rate):
    X, y = friedman
    model = FunctionalGradientBoostingRegressor(
        SMALL_TREE,
        loss=loss,
        alpha=0.7,
        coefficients="line_search",
        learning_rate=rate,
        n_estimators=25,
        random_state=0,
    ).fit(X, np.abs(y))
    assert len(model.train_score_) > 1
    assert np.diff(model.train_score_).max() <= 1e-12


@pytest.mark.parametrize(
    ("n_classes", "loss"), [(2, "log_loss"), (2, "exponential"), (3, "log_loss")]
)
def test_line_search_never_raises_the_loss_of_classes(n_classes, loss):
    X, y = classes(n_classes)
    model = FunctionalGradientBoostingClassifier(
        SMALL_TREE,
        loss=loss,
        coefficients="line_search",
        learning_rate=1.0,
        n_estimators=20,
        subsample=0.6,
        random_state=0,
    ).fit(X, y)
    assert np.diff(model.train_score_).max() <= 1e-12


def test_newton_with_trees_equals_newton_leaves():
    """A weighted least-squares leaf on r/h with weights h is sum r / sum h: the leaf mode's."""
    X, y = classes(2)
    arguments = {"newton": True, "n_estimators": 10, "random_state": 0}
    fixed = FunctionalGradientBoostingClassifier(SMALL_TREE, coefficients="fixed", **arguments)
    leaf = FunctionalGradientBoostingClassifier(SMALL_TREE, coefficients="leaf", **arguments)
    assert_allclose(
        fixed.fit(X, y).decision_function(X), leaf.fit(X, y).decision_function(X), atol=1e-8
    )


def test_auto_is_leaf_for_trees_and_line_search_for_others(friedman):
    X, y = friedman
    for learner, kind in ((SMALL_TREE, "leaf"), (KNeighborsRegressor(10), "line_search")):
        auto, named = (
            FunctionalGradientBoostingRegressor(
                learner, coefficients=c, loss="absolute_error", n_estimators=4, random_state=0
            ).fit(X, y)
            for c in ("auto", kind)
        )
        assert_array_equal(auto.predict(X), named.predict(X))


def test_fixed_coefficients_are_the_learning_rate(friedman):
    model = FunctionalGradientBoostingRegressor(
        SMALL_TREE, coefficients="fixed", learning_rate=0.3, n_estimators=4
    ).fit(*friedman)
    assert_allclose(model.coef_, 0.3)


def test_l1_drops_base_models_and_keeps_the_quality(friedman):
    X, y = friedman
    stump = DecisionTreeRegressor(max_depth=1)
    arguments = {"subsample": 0.5, "n_estimators": 80, "learning_rate": 0.3, "random_state": 0}
    plain = FunctionalGradientBoostingRegressor(stump, **arguments).fit(X[:200], y[:200])
    sparse = FunctionalGradientBoostingRegressor(stump, post_fit="l1", **arguments)
    sparse.fit(X[:200], y[:200])
    assert sparse.n_iter_ < plain.n_iter_
    assert len(sparse.estimators_) == len(sparse.coef_) == sparse.n_iter_
    assert (sparse.coef_ != 0).all()
    assert sparse.score(X[200:], y[200:]) > 0.7
    assert_allclose(list(sparse.staged_predict(X))[-1], sparse.predict(X))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_l1_after_boosting_of_classes(n_classes):
    X, y = classes(n_classes)
    model = FunctionalGradientBoostingClassifier(
        SMALL_TREE, post_fit="l1", subsample=0.5, n_estimators=20, random_state=0
    ).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.5
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


# --- learners and losses --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner",
    [
        KernelRidge(kernel="rbf", gamma=0.5),
        KNeighborsRegressor(10),
        SVR(),
        make_pipeline(StandardScaler(), KernelRidge(kernel="rbf", alpha=5.0)),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_any_regressor_boosts(friedman, learner):
    X, y = friedman
    model = FunctionalGradientBoostingRegressor(learner, n_estimators=8, learning_rate=0.7)
    boosted = model.fit(X[:200], y[:200]).score(X[200:], y[200:])
    assert boosted > clone(learner).fit(X[:200], y[:200] - y[:200].mean()).score(
        X[200:], y[200:] - y[:200].mean()
    )


def test_weights_reach_the_end_of_a_pipeline(friedman):
    X, y = friedman
    times = np.random.RandomState(0).randint(0, 3, len(y))
    model = FunctionalGradientBoostingRegressor(
        make_pipeline(StandardScaler(with_mean=False, with_std=False), KernelRidge(kernel="rbf")),
        n_estimators=5,
    )
    weighted = model.fit(X, y, sample_weight=times).predict(X)
    repeated = model.fit(np.repeat(X, times, axis=0), np.repeat(y, times)).predict(X)
    assert_allclose(weighted, repeated, rtol=1e-6)


def test_a_linear_learner_tends_to_least_squares_and_warns(friedman):
    X, y = friedman
    model = FunctionalGradientBoostingRegressor(Ridge(300.0), learning_rate=1.0, n_estimators=300)
    with pytest.warns(UserWarning, match="boosts a linear learner"):
        model.fit(X, y)
    assert_allclose(model.predict(X), LinearRegression().fit(X, y).predict(X), atol=1e-4)


class LogCosh:
    """A loss that the library does not know."""

    def value(self, y, score):
        return np.logaddexp(score - y, y - score) - np.log(2.0)

    def gradient(self, y, score):
        return np.tanh(score - y)

    def hessian(self, y, score):
        return 1.0 / np.cosh(score - y) ** 2


@pytest.mark.parametrize("kind", ["line_search", "leaf", "corrective"])
def test_a_loss_of_ones_own_works(friedman, kind):
    X, y = friedman
    model = FunctionalGradientBoostingRegressor(
        SMALL_TREE, loss=LogCosh(), coefficients=kind, n_estimators=20, random_state=0
    ).fit(X, y)
    assert model.train_score_[-1] < 0.8 * model.train_score_[0]
    assert model.score(X, y) > 0.4


@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_leaf_values_never_raise_the_loss_where_it_is_nearly_straight(friedman, rate):
    """Residuals of ten deviations have curvature 1e-9: an undamped Newton step would leave."""
    X, y = friedman
    model = FunctionalGradientBoostingRegressor(
        loss=LogCosh(), coefficients="leaf", learning_rate=rate, n_estimators=15, random_state=0
    ).fit(X, 5.0 * y)
    assert np.diff(model.train_score_).max() <= 1e-9
    assert np.isfinite(model.predict(X)).all()


def test_an_object_equals_its_name(friedman):
    X, y = friedman
    by_name = FunctionalGradientBoostingRegressor(n_estimators=5, random_state=0).fit(X, y)
    by_object = FunctionalGradientBoostingRegressor(
        loss=SquaredError(), n_estimators=5, random_state=0
    ).fit(X, y)
    assert_array_equal(by_name.predict(X), by_object.predict(X))


def test_quantile_loss_splits_the_targets(friedman):
    X, y = friedman
    for alpha in (0.1, 0.9):
        model = FunctionalGradientBoostingRegressor(
            loss="quantile", quantile=alpha, coefficients="leaf", n_estimators=50, random_state=0
        ).fit(X, y)
        assert abs(np.mean(y <= model.predict(X)) - alpha) < 0.06


def test_huber_ignores_an_outlier(friedman):
    X, y = friedman
    spoiled = y.copy()
    spoiled[::30] += 1000.0
    huber, squared = (
        FunctionalGradientBoostingRegressor(
            loss=loss, quantile=0.9, n_estimators=100, random_state=0
        )
        .fit(X, spoiled)
        .predict(X)
        for loss in ("huber", "squared_error")
    )
    clean = np.arange(len(y)) % 30 != 0
    assert mean_squared_error(y[clean], huber[clean]) < 0.5 * mean_squared_error(
        y[clean], squared[clean]
    )


def test_poisson_predicts_positive_means(friedman):
    X, y = friedman
    counts = np.random.RandomState(0).poisson(np.exp(y / 10))
    model = FunctionalGradientBoostingRegressor(loss="poisson", random_state=0).fit(X, counts)
    assert model.predict(X).min() > 0
    with pytest.raises(ValueError, match="loss='poisson' needs y >= 0"):
        model.fit(X, -counts)


# --- stopping -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["line_search", "corrective"])
def test_early_stopping_returns_to_the_best_round(friedman, kind):
    X, y = friedman
    model = FunctionalGradientBoostingRegressor(
        coefficients=kind,
        learning_rate=1.0,
        n_iter_no_change=4,
        n_estimators=200,
        tol=0.0,
        random_state=0,
    ).fit(X, y)
    assert model.n_iter_ == np.argmin(model.validation_score_) + 1
    assert len(model.validation_score_) == model.n_iter_ + 4
    assert_allclose(list(model.staged_predict(X))[-1], model.predict(X))


def test_the_unit_of_weights_does_not_matter():
    X, y = load_iris(return_X_y=True)
    weights = np.arange(150) % 3 + 1.0
    model = FunctionalGradientBoostingClassifier(n_estimators=5, random_state=0)
    assert_allclose(
        model.fit(X, y, sample_weight=2.0**-66 * weights).predict_proba(X),
        model.fit(X, y, sample_weight=weights).predict_proba(X),
    )


def test_l1_needs_no_more_rows_than_folds():
    X, y = np.arange(4.0)[:, None], np.array([0.0, 1.0, 4.0, 9.0])
    model = FunctionalGradientBoostingRegressor(n_estimators=5, post_fit="l1", random_state=0)
    assert model.fit(X, y).score(X, y) > 0.0


def test_constant_targets_need_no_rounds():
    X = np.arange(10.0)[:, None]
    model = FunctionalGradientBoostingRegressor().fit(X, np.full(10, 3.0))
    assert model.n_iter_ == 0
    assert_array_equal(model.predict(X), np.full(10, 3.0))
    assert list(model.staged_predict(X)) == []


def test_a_learner_that_cannot_descend_ends_the_fit():
    X, y = np.zeros((20, 1)), np.arange(20.0)
    model = FunctionalGradientBoostingRegressor(KNeighborsRegressor(20), n_estimators=50).fit(X, y)
    assert model.n_iter_ <= 1


def test_diverging_scores_are_an_error():
    X, y = classes(2)
    model = FunctionalGradientBoostingRegressor(
        SMALL_TREE, loss="poisson", coefficients="fixed", learning_rate=1e4
    )
    with pytest.raises(ValueError, match="overflowed in round"):
        model.fit(X, y)


# --- errors before work ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"estimator": Ridge(), "coefficients": "leaf"},
            "coefficients='leaf' sets the leaf values",
        ),
        ({"loss": "absolute_error", "newton": True}, "newton=True needs a loss with a second"),
        ({"loss": "huber", "coefficients": "corrective"}, "coefficients='corrective' needs a loss"),
        ({"loss": "quantile", "post_fit": "l1"}, "post_fit='l1' needs a loss"),
        ({"estimator": KNeighborsRegressor(), "newton": True}, "does not accept sample_weight"),
    ],
)
def test_impossible_combinations_are_refused(friedman, arguments, message):
    with pytest.raises(ValueError, match=message):
        FunctionalGradientBoostingRegressor(**arguments).fit(*friedman)


def test_weights_need_a_learner_that_takes_them(friedman):
    X, y = friedman
    model = FunctionalGradientBoostingRegressor(KNeighborsRegressor(), n_estimators=2)
    with pytest.raises(ValueError, match="does not accept it"):
        model.fit(X, y, sample_weight=np.arange(1.0, len(y) + 1))
    model.fit(X, y, sample_weight=np.full(len(y), 2.0))


def test_exponential_loss_is_for_two_classes():
    with pytest.raises(ValueError, match="is for two classes, and y holds 3"):
        FunctionalGradientBoostingClassifier(loss="exponential").fit(*classes(3))


# --- life of the object ---------------------------------------------------------------------------


def test_leaf_values_survive_pickle_and_are_lost_by_clone():
    X, y = classes(2)
    model = FunctionalGradientBoostingClassifier(
        coefficients="leaf", n_estimators=5, random_state=0
    ).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert not hasattr(clone(model.estimators_[0]), "tree_")


def test_a_loss_of_ones_own_serves_two_classes():
    class Squares:
        def value(self, y, score):
            return (y - score) ** 2

        def gradient(self, y, score):
            return 2 * (score - y)

        def hessian(self, y, score):
            return np.full_like(score, 2.0)

        def probability(self, score):
            return np.clip(score, 0.0, 1.0)

    X, y = classes(2)
    model = FunctionalGradientBoostingClassifier(SMALL_TREE, loss=Squares(), n_estimators=20)
    assert model.fit(X, y).score(X, y) > 0.8


def test_staged_predictions_end_at_the_prediction():
    X, y = classes(3)
    model = FunctionalGradientBoostingClassifier(SMALL_TREE, n_estimators=6, random_state=0)
    stages = list(model.fit(X, y).staged_predict(X))
    assert len(stages) == 6
    assert_array_equal(stages[-1], model.predict(X))
