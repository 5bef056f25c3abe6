import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from vicinal.ensemble import BayesianModelAveragingClassifier, BayesianModelAveragingRegressor
from vicinal.inspection import explain
from vicinal.table import TableEncoder

LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression())


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.mark.parametrize("weighting", ["stacking", "pseudo_bma+", "pseudo_bma"])
def test_probabilities_are_the_weighted_mean(wine, weighting):
    X, y = wine
    estimators = [("bayes", GaussianNB()), ("tree", DecisionTreeClassifier(max_depth=2))]
    model = BayesianModelAveragingClassifier(estimators, weighting=weighting, random_state=0).fit(
        X, y
    )
    expected = sum(
        w * estimator.predict_proba(X)
        for w, estimator in zip(model.weights_, model.estimators_, strict=True)
    )
    assert_allclose(model.predict_proba(X), expected, atol=1e-12)
    assert_allclose(model.weights_.sum(), 1.0)


def test_held_out_densities_punish_a_model_that_memorises(wine):
    X, y = wine
    shuffled = np.random.RandomState(0).permutation(y)
    estimators = [
        ("frequencies", DummyClassifier(strategy="prior")),
        ("memory", KNeighborsClassifier(1)),
    ]
    model = BayesianModelAveragingClassifier(estimators, random_state=0).fit(X, shuffled)
    assert model.named_estimators_["memory"].score(X, shuffled) == 1.0
    assert model.weights_[0] > 0.85


def test_densities_are_clipped(wine):
    X, y = wine
    model = BayesianModelAveragingClassifier(
        [("one", KNeighborsClassifier(1)), ("bayes", GaussianNB())], random_state=0
    ).fit(X, y)
    assert_allclose(model.log_densities_[:, 0].min(), np.log(1e-15))


def test_bic_prefers_the_smaller_of_equal_models(wine):
    X, y = wine
    X = np.column_stack([X, np.random.RandomState(0).normal(size=(len(y), 5))])
    keep = ColumnTransformer([("keep", "passthrough", list(range(13)))])
    model = BayesianModelAveragingClassifier(
        [("small", make_pipeline(keep, LOGISTIC)), ("large", LOGISTIC)], weighting="bic"
    ).fit(X, y)
    assert model.weights_[0] > 0.99
    with pytest.raises(ValueError, match="has no coef_"):
        model.set_params(small=GaussianNB()).fit(X, y)


def test_a_class_missing_in_a_fold_does_not_shift_columns(wine):
    X, y = wine
    labels = np.array(["x", "y", "z"], dtype=object)[y]
    keep = np.r_[np.flatnonzero(y != 1), np.flatnonzero(y == 1)[:1]]
    model = BayesianModelAveragingClassifier([("knn", KNeighborsClassifier(3))], cv="loo")
    model.fit(X[keep], labels[keep])
    assert model.classes_.tolist() == ["x", "y", "z"]
    assert_allclose(model.log_densities_[-1, 0], np.log(1e-15))
    assert np.median(model.log_densities_[:-1, 0]) > np.log(0.5)


def test_string_labels_equal_codes(wine):
    X, y = wine
    estimators = [("bayes", GaussianNB()), ("logistic", LOGISTIC)]
    codes = BayesianModelAveragingClassifier(estimators, random_state=0).fit(X, y)
    names = np.array(["a", "b", "c"])
    text = BayesianModelAveragingClassifier(estimators, random_state=0).fit(X, names[y])
    assert_array_equal(text.predict(X), names[codes.predict(X)])
    assert_allclose(text.weights_, codes.weights_)


def test_models_without_probabilities_are_refused(wine):
    with pytest.raises(ValueError, match="has no predict_proba"):
        BayesianModelAveragingClassifier([("svm", LinearSVC())]).fit(*wine)


def test_rows_that_models_cannot_predict_are_refused(wine):
    X, y = wine
    model = BayesianModelAveragingClassifier([("bayes", GaussianNB())], random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"X holds 1e\+300"):
        model.predict_proba(np.full((1, X.shape[1]), 1e300))


def test_pipelines_with_an_encoder_read_frames():
    pd = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    town, x = rng.choice(["Rome", "Oslo", "Bern"], 90), rng.normal(size=90)
    frame = pd.DataFrame({"town": town, "x": x})
    z = x + 2.0 * (town == "Oslo")
    y = np.where(z > 0.7, "yes", "no")
    naive, nearest = GaussianNB(), KNeighborsClassifier()
    estimators = [("a", make_pipeline(TableEncoder(), naive))]
    estimators += [("b", make_pipeline(TableEncoder(), nearest))]
    model = BayesianModelAveragingClassifier(estimators, random_state=0).fit(frame, y)
    encoded = TableEncoder().fit_transform(frame)
    same = BayesianModelAveragingClassifier([("a", naive), ("b", nearest)], random_state=0)
    assert_allclose(model.predict_proba(frame), same.fit(encoded, y).predict_proba(encoded))
    found = explain(model, frame[:1])["base_models"]
    assert sum(row[4] for row in found.rows) == pytest.approx(model.predict_proba(frame[:1]).max())
    estimators = [("a", make_pipeline(TableEncoder(), Ridge()))]
    regressor = BayesianModelAveragingRegressor(estimators, random_state=0).fit(frame, z)
    mean, std = regressor.predict(frame, return_std=True)
    assert_allclose(mean, Ridge().fit(encoded, z).predict(encoded))
    assert (std > 0.0).all()
    assert np.isfinite(regressor.log_density(frame, z)).all()
    estimators += [("b", Ridge())]  # which reads no strings
    with pytest.raises(ValueError, match="could not convert string to float"):
        BayesianModelAveragingRegressor(estimators).fit(frame, z)
