"""Predictions of every candidate for rows that it did not see."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal._base import held_out
from vicinal.local import (
    AnchoredLocalRegressor,
    GradientMetric,
    LocalClassifier,
    LocalRegressor,
)


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:200], y[:200]


def folds_of(n, seed=0):
    return [fold for _, fold in KFold(3, shuffle=True, random_state=seed).split(np.arange(n))]


def test_predictions_are_those_of_fitted_candidates_left_out(wine, diabetes):
    X, y = wine
    found = LocalClassifier(metric="standardized", random_state=0).held_out(X, y)
    assert found.predictions.shape == (len(found.candidates), len(X), 3)
    for c in (0, len(found.candidates) // 2, len(found.candidates) - 1):
        model = clone(LocalClassifier(metric="standardized")).set_params(**found.candidates[c])
        np.testing.assert_allclose(
            found.predictions[c], model.fit(X, y).leave_one_out()[found.rows], atol=1e-4
        )
    X, y = diabetes
    found = LocalRegressor(metric="ranked").held_out(X, y, rows=np.array([3, 150, 7]))
    assert sorted(found.rows) == [3, 7, 150]
    model = LocalRegressor().set_params(**found.candidates[4]).fit(X, y)
    np.testing.assert_allclose(
        found.predictions[4][:, 0], model.leave_one_out()[found.rows], rtol=1e-5
    )


def test_candidates_name_what_was_left_open(diabetes):
    X, y = diabetes
    found = LocalRegressor(metric="euclidean", degree=1, alpha=0.1).held_out(X, y)
    assert [c["n_neighbors"] for c in found.candidates] == [10, 20, 40, 80, 160]
    assert {c["alpha"] for c in found.candidates} == {0.1}
    found = LocalRegressor(metric="euclidean", degree=1, alpha=0.1, bandwidth=0.2).held_out(X, y)
    assert found.candidates == [
        {"metric": "euclidean", "degree": 1, "alpha": 0.1, "bandwidth": 0.2}
    ]


def test_predictions_are_in_the_order_of_the_folds_and_repeat_with_them(wine):
    X, y = wine
    folds = folds_of(len(X)) + folds_of(len(X), seed=1)
    model = LocalClassifier(metric="standardized", n_neighbors=20, alpha=1.0)
    found = held_out(model, X, y, folds, method="predict_proba")
    np.testing.assert_array_equal(found.rows, np.concatenate(folds))
    once = model.held_out(X, y, rows=np.arange(len(X)), folds=[np.arange(len(X))])
    # Repetition changes the temperature a little, the order of the predictions not at all.
    np.testing.assert_allclose(found.predictions[0], once.predictions[0][found.rows], atol=1e-3)


def close_key(candidate):
    metric = candidate["metric"]
    return {**candidate, "metric": getattr(metric, "n_rounds", metric)}


@pytest.mark.parametrize("metric", ["standardized", "gradient"])
def test_further_folds_are_predicted_by_the_settings_near_the_best(diabetes, metric):
    X, y = diabetes
    folds = folds_of(len(X))
    model = make_pipeline(StandardScaler(), LocalRegressor(metric=metric, random_state=0))
    first = held_out(model, X, y, folds[:1])
    found = first.more(folds[1:])
    whole = held_out(model, X, y, folds)
    np.testing.assert_array_equal(found.rows, whole.rows)
    name = "localregressor__"
    keys = {
        part: [
            close_key({key.removeprefix(name): value for key, value in one.items()})
            for one in part_found.candidates
        ]
        for part, part_found in (("first", first), ("found", found), ("whole", whole))
    }
    assert len(keys["found"]) < len(keys["first"])
    losses = ((first.predictions[..., 0] - y[first.rows]) ** 2).mean(axis=1)
    assert keys["first"][losses.argmin()] in keys["found"]
    same = [keys["whole"].index(key) for key in keys["found"]]
    np.testing.assert_allclose(found.predictions, whole.predictions[same], rtol=1e-4)
    last = len(keys["found"]) - 1
    np.testing.assert_allclose(
        found.fitted(last).predict(X), whole.fitted(same[last]).predict(X), rtol=1e-6
    )


def test_probabilities_decide_which_settings_are_near(wine):
    X, y = wine
    folds = folds_of(len(X))
    model = LocalClassifier(metric="standardized")
    first = model.held_out(X, y, folds=folds[:1])
    own = first.predictions[:, np.arange(len(first.rows)), y[first.rows]]
    losses = -np.log(own)
    excess = losses - losses[losses.mean(axis=1).argmin()]
    near = excess.mean(axis=1) <= 1.5 * excess.std(axis=1) / np.sqrt(len(first.rows))
    found = first.more(folds[1:])
    kept = [candidate for candidate, is_near in zip(first.candidates, near, strict=True) if is_near]
    assert all(candidate in found.candidates for candidate in kept)
    sizes, alphas = ({one[key] for one in kept} for key in ("n_neighbors", "alpha"))
    assert all(c["n_neighbors"] in sizes and c["alpha"] in alphas for c in found.candidates)


def test_a_metric_that_learns_from_labels_never_saw_the_fold():
    # Labels of a coin, many columns: a metric that saw them finds directions that "explain" them.
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(120, 30)), rng.randint(2, size=120)
    found = LocalClassifier(metric="gradient", n_neighbors=20, alpha=1.0).held_out(X, y)
    assert [c["metric"].n_rounds for c in found.candidates] == [1, 2, 3]
    error = (found.predictions.argmax(axis=2) != y[found.rows]).mean(axis=1)
    assert np.all(error > 0.38)


def test_rounds_are_those_of_the_transformer(diabetes):
    X, y = diabetes
    folds = folds_of(len(X))
    found = LocalRegressor(metric="gradient", n_neighbors=40, alpha=0.1, degree=1).held_out(
        X, y, folds=folds
    )
    metric = found.candidates[1]["metric"]
    assert isinstance(metric, GradientMetric)
    assert metric.n_rounds == 2
    same = LocalRegressor(metric=metric, n_neighbors=40, alpha=0.1, degree=1)
    again = same.held_out(X, y, folds=folds)
    np.testing.assert_allclose(found.predictions[1], again.predictions[0], rtol=1e-5)


def test_forest_uses_trees_that_did_not_sample_the_row(wine):
    X, y = wine
    model = LocalClassifier(metric="forest", random_state=0)
    found = model.held_out(X, y)
    fitted = clone(model).set_params(**found.candidates[0]).fit(X, y)
    np.testing.assert_allclose(found.predictions[0], fitted.leave_one_out()[found.rows], atol=1e-4)


def test_groups_leave_together_and_class_weights_reach_the_predictions(wine):
    X, y = wine
    twice, labels = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    model = LocalClassifier(metric="standardized", n_neighbors=10, degree=0)
    alone = model.held_out(twice, labels).predictions[0]
    apart = model.held_out(twice, labels, groups=np.repeat(np.arange(len(X)), 2)).predictions[0]
    assert np.abs(alone - apart).max() > 0.05
    heavy = clone(model).set_params(class_weight={0: 10.0, 1: 1.0, 2: 1.0}).held_out(X, y)
    assert (heavy.predictions[0].argmax(1) == 0).sum() > (
        model.held_out(X, y).predictions[0].argmax(1) == 0
    ).sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_estimators_handed_in_are_held_out_by_folds(wine, weighted):
    X, y = wine
    weights = 1.0 + (np.arange(len(X)) % 3) if weighted else None
    model = LocalClassifier(GaussianNB(), n_neighbors=60)
    folds = [np.arange(start, len(X), 2) for start in (0, 1)]
    wanted = np.arange(0, len(X), 9)
    found = model.held_out(X, y, folds=folds, rows=wanted, sample_weight=weights)
    assert found.candidates == [{}]
    assert sorted(found.rows) == wanted.tolist()
    for fold in folds:
        train = np.setdiff1d(np.arange(len(X)), fold)
        some = None if weights is None else weights[train]
        of_fold = np.isin(found.rows, fold)
        expected = clone(model).fit(X[train], y[train], some).predict_proba(X[found.rows[of_fold]])
        np.testing.assert_allclose(found.predictions[0, of_fold], expected)
    assert model.held_out(X, y).predictions.shape == (1, len(X), 3)


def test_what_cannot_be_predicted_is_an_error(wine):
    X, y = wine
    weights = np.ones(len(X))
    weights[3] = 0.0
    with pytest.raises(ValueError, match="zero for 1 row,"):
        LocalClassifier(metric="euclidean").held_out(X, y, sample_weight=weights)


@pytest.mark.parametrize("metric", ["standardized", "forest", "gradient"])
@pytest.mark.parametrize("model", [LocalClassifier, LocalRegressor])
def test_a_candidate_is_fitted_from_what_was_learned(rng, model, metric):
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(float)
    estimator = model(metric=metric, degree=1, random_state=0)
    pipeline = make_pipeline(StandardScaler(), estimator)
    found = held_out(pipeline, X, y, [np.arange(30), np.arange(30, 60)])
    c = len(found.candidates) // 2
    shared = found.fitted(c)
    again = clone(pipeline).set_params(**found.candidates[c]).fit(X, y)
    method = "decision_function" if model is LocalClassifier else "predict"
    np.testing.assert_allclose(
        getattr(shared, method)(X[:9]), getattr(again, method)(X[:9]), atol=1e-12
    )
    assert shared[-1].get_params().keys() == again[-1].get_params().keys()
    assert shared[-1].n_features_in_ == 3
    if model is LocalClassifier:
        assert 0.5 < shared[-1].temperature_ / again[-1].temperature_ < 2.0


def test_models_that_store_anchors_are_fitted_again(rng):
    X = rng.normal(size=(60, 2))
    found = AnchoredLocalRegressor().held_out(X, X[:, 0])
    assert found.fitted is None
