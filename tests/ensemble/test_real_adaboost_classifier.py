import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from vicinal.ensemble import RealAdaBoostClassifier

STUMP = DecisionTreeClassifier(max_depth=1, random_state=0)


def classes(n_classes, n_samples=400):
    return make_classification(
        n_samples, n_classes=n_classes, n_informative=6, flip_y=0.05, random_state=0
    )


def test_two_classes_follow_equation_six():
    """Rounds of Real AdaBoost written out with y = +-1."""
    X, y = classes(2)
    sign, weight, score = 2.0 * y - 1.0, np.full(len(y), 1 / len(y)), np.zeros(len(y))
    for _ in range(12):
        estimator = DecisionTreeClassifier(max_depth=1, random_state=0)
        p = estimator.fit(X, y, sample_weight=weight).predict_proba(X)[:, 1]
        p = np.clip(p, 1e-5, 1 - 1e-5)
        f = 0.5 * np.log(p / (1 - p))
        score += 0.5 * f
        weight *= np.exp(-0.5 * sign * f)
        weight /= weight.sum()
    model = RealAdaBoostClassifier(STUMP, n_estimators=12, learning_rate=0.5).fit(X, y)
    assert_allclose(model.decision_function(X), score, atol=1e-9)
    assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-2 * score)), atol=1e-9)


def test_three_classes_follow_equation_seven():
    X, y = classes(3)
    K, weight, score = 3, np.full(len(y), 1 / len(y)), np.zeros((len(y), 3))
    rows = np.arange(len(y))
    for _ in range(6):
        estimator = DecisionTreeClassifier(max_depth=1, random_state=0)
        p = estimator.fit(X, y, sample_weight=weight).predict_proba(X)
        log_p = np.log(np.clip(p, 1e-5, 1 - 1e-5))
        score += (K - 1) * (log_p - log_p.mean(axis=1, keepdims=True))
        own = log_p[rows, y]
        others = (log_p.sum(axis=1) - own) / (K - 1)
        weight *= np.exp(-(K - 1) / K * (own - others))
        weight /= weight.sum()
    model = RealAdaBoostClassifier(STUMP, n_estimators=6, learning_rate=1.0).fit(X, y)
    assert_allclose(model.decision_function(X), score, atol=1e-8)


def test_probabilities_beat_votes_of_the_same_stumps():
    X, y = classes(2, 1000)
    real = RealAdaBoostClassifier(STUMP, n_estimators=50, learning_rate=1.0).fit(X[:500], y[:500])
    discrete = AdaBoostClassifier(STUMP, n_estimators=50).fit(X[:500], y[:500])
    assert real.score(X[500:], y[500:]) >= discrete.score(X[500:], y[500:]) - 0.02


@pytest.mark.parametrize(
    "learner", [LinearDiscriminantAnalysis(), KNeighborsClassifier(15)], ids=["lda", "knn"]
)
def test_learners_without_weights_get_sampled_rows(learner):
    X, y = load_iris(return_X_y=True)
    model = RealAdaBoostClassifier(learner, n_estimators=8, random_state=0).fit(X[::2], y[::2])
    assert model.n_iter_ > 1
    assert model.score(X[1::2], y[1::2]) > 0.9
    again = RealAdaBoostClassifier(learner, n_estimators=8, random_state=0).fit(X[::2], y[::2])
    assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_a_perfect_model_is_kept_alone():
    X, y = classes(2)
    model = RealAdaBoostClassifier(DecisionTreeClassifier(random_state=0)).fit(X, y)
    assert model.n_iter_ == 1
    assert model.score(X, y) == 1.0
    assert_allclose(model.estimator_errors_, [0.0])


def test_clip_bounds_the_scores():
    X, y = classes(2)
    model = RealAdaBoostClassifier(
        DecisionTreeClassifier(), eps=0.1, learning_rate=1.0, n_estimators=3
    ).fit(X, y)
    bound = model.n_iter_ * 0.5 * np.log(0.9 / 0.1)
    assert np.abs(model.decision_function(X)).max() <= bound + 1e-9


def test_training_error_falls_over_the_stages():
    X, y = classes(2)
    model = RealAdaBoostClassifier(STUMP, n_estimators=60, learning_rate=1.0).fit(X, y)
    stages = [np.mean(p != y) for p in model.staged_predict(X)]
    assert stages[-1] < stages[0]
    assert_array_equal(list(model.staged_predict(X))[-1], model.predict(X))


def test_weights_equal_repetition_of_stumps():
    X, y = classes(2, 120)
    times = np.random.RandomState(0).randint(0, 3, len(y))
    model = RealAdaBoostClassifier(STUMP, n_estimators=5)
    weighted = model.fit(X, y, sample_weight=times).decision_function(X)
    repeated = model.fit(np.repeat(X, times, axis=0), np.repeat(y, times)).decision_function(X)
    assert_allclose(weighted, repeated, atol=1e-7)


def test_a_rare_class_is_never_missing_from_a_sample():
    rng = np.random.RandomState(0)
    X = np.vstack([rng.normal(size=(60, 2)), rng.normal(size=(2, 2)) + 8.0])
    y = np.r_[np.zeros(60), np.ones(2)]
    model = RealAdaBoostClassifier(KNeighborsClassifier(1), n_estimators=20, random_state=0).fit(
        X, y
    )
    assert all(len(estimator.classes_) == 2 for estimator in model.estimators_)
