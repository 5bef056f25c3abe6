import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.datasets import load_iris, make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.metrics import log_loss
from sklearn.model_selection import LeaveOneOut, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from vicinal._kernels.calibration._probabilities import fit_platt, fit_saturated_platt
from vicinal.local import LocalClassifier
from vicinal.surface import DecisionSurface, SurfaceCalibratedClassifier


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(240, noise=0.3, random_state=0)
    return X[:160], y[:160], X[160:], y[160:]


def test_linear_case_is_platt_on_cross_fitted_distances(moons):
    X, y, Q, _ = moons
    model = SurfaceCalibratedClassifier(LogisticRegression(), cv=4, random_state=0).fit(X, y)
    D = np.empty(len(X))
    for train, test in StratifiedKFold(4).split(X, y):
        part = LogisticRegression().fit(X[train], y[train])
        D[test] = part.decision_function(X[test]) / np.linalg.norm(part.coef_)
    scale = np.sort(np.abs(D))[(len(D) - 1) // 2]
    limit, A, B = fit_saturated_platt(D / scale, y == 1)
    whole = LogisticRegression().fit(X, y)
    distance = whole.decision_function(Q) / np.linalg.norm(whole.coef_)
    cut = np.clip(distance / scale, -limit, limit)
    assert_allclose(model.predict_proba(Q)[:, 1], expit(A * cut + B), atol=1e-5)
    assert model.scales_[0] == pytest.approx(scale, rel=1e-4)


def test_probabilities_do_not_depend_on_the_unit(moons):
    X, y, Q, _ = moons
    small = SurfaceCalibratedClassifier(KNeighborsClassifier(9), random_state=0).fit(X, y)
    large = SurfaceCalibratedClassifier(KNeighborsClassifier(9), random_state=0).fit(1024 * X, y)
    assert_allclose(small.predict_proba(Q), large.predict_proba(1024 * Q), atol=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        SVC(),
        Perceptron(random_state=0),
        RandomForestClassifier(10, max_depth=4, random_state=0),
        LocalClassifier(
            bandwidth=0.5, kernel="gaussian", alpha=1.0, metric="euclidean", calibration=None
        ),
    ],
    ids=lambda e: type(e).__name__,
)
def test_any_classifier_gets_useful_probabilities(moons, estimator):
    X, y, Q, target = moons
    model = SurfaceCalibratedClassifier(estimator, cv=2, random_state=0).fit(X, y)
    proba = model.predict_proba(Q)
    assert log_loss(target, proba) < 0.6
    assert_array_equal(model.predict(Q), model.classes_[proba.argmax(axis=1)])
    assert_array_equal(model.decision_function(Q) > 0, model.predict(Q) == 1)


def test_three_classes():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = SurfaceCalibratedClassifier(SVC(), cv=3, random_state=0)
    model.fit(X, names)
    assert len(model.surfaces_) == 3
    proba = model.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert model.score(X, names) > 0.94
    assert log_loss(names, proba) < 0.35
    assert_array_equal(model.decision_function(X).argmax(axis=1), proba.argmax(axis=1))


def test_first_order_distances_are_a_faster_choice(moons):
    X, y, Q, target = moons
    model = SurfaceCalibratedClassifier(SVC(), method="first_order", cv=3).fit(X, y)
    expected = model.surfaces_[0].distance(Q, method="first_order")
    cut = np.clip(expected / model.scales_[0], -model.limits_[0], model.limits_[0])
    logits = model.slopes_[0] * cut + model.intercepts_[0]
    assert_allclose(model.predict_proba(Q)[:, 1], expit(logits), atol=1e-9)
    assert log_loss(target, model.predict_proba(Q)) < 0.5


def test_leave_one_out_is_a_splitter():
    X, y = make_moons(16, noise=0.2, random_state=0)
    model = SurfaceCalibratedClassifier(LogisticRegression(), cv=LeaveOneOut()).fit(X, y)
    D = np.array(
        [
            DecisionSurface(LogisticRegression().fit(np.delete(X, i, 0), np.delete(y, i)))
            .fit(np.delete(X, i, 0))
            .distance(X[i : i + 1])[0]
            for i in range(16)
        ]
    )
    assert model.scales_[0] == pytest.approx(np.sort(np.abs(D))[7], rel=1e-4)


def test_calibration_is_not_done_on_rows_the_model_saw(moons):
    X, y, Q, target = moons
    # One neighbour knows every training row by heart.
    model = SurfaceCalibratedClassifier(KNeighborsClassifier(1), random_state=0).fit(X, y)
    assert log_loss(target, model.predict_proba(Q)) < 0.55
    seen = model.surfaces_[0].distance(X) / model.scales_[0]
    limit = model.limits_[0]
    hopeful, _ = fit_platt(np.clip(seen, -limit, limit), y == 1)
    assert hopeful > 1.3 * model.slopes_[0]


def test_weights_need_a_classifier_that_takes_them(moons):
    X, y, _, _ = moons
    weights = np.where(np.arange(len(X)) % 2, 1.0, 3.0)
    with pytest.raises(ValueError, match="KNeighborsClassifier.*does not accept it"):
        SurfaceCalibratedClassifier(KNeighborsClassifier()).fit(X, y, weights)
    weighted = SurfaceCalibratedClassifier(LogisticRegression()).fit(X, y, weights)
    assert not np.allclose(
        weighted.slopes_, SurfaceCalibratedClassifier(LogisticRegression()).fit(X, y).slopes_
    )
    pipeline = make_pipeline(FunctionTransformer(), LogisticRegression())
    behind = SurfaceCalibratedClassifier(pipeline).fit(X, y, weights)
    assert_allclose(behind.slopes_, weighted.slopes_)


def test_a_fold_with_one_predicted_class_does_no_harm():
    X = np.linspace(-1.0, 1.0, 30)[:, None]
    y = (np.arange(30) >= 27).astype(int)
    model = SurfaceCalibratedClassifier(SVC(C=1e-3), cv=3, random_state=0).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_outliers_are_not_more_certain_than_most_rows(moons):
    X, y, _, _ = moons
    model = SurfaceCalibratedClassifier(SVC(), cv=3, random_state=0).fit(X, y)
    far = model.predict_proba(X[:1] + np.array([[30.0, 30.0]]))
    assert far.max() <= model.predict_proba(X).max() + 1e-9


def test_fewer_rows_of_a_class_than_folds_are_named():
    with pytest.raises(ValueError, match="cv=5 folds need as many rows of a class"):
        SurfaceCalibratedClassifier(LogisticRegression()).fit([[0.0], [1.0], [2.0]], [0, 1, 1])
