import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

from vicinal.linear import AveragedPerceptron


@pytest.fixture(params=[2, 3])
def data(request, rng):
    y = rng.randint(request.param, size=150)
    X = rng.normal(size=(150, 6)) + 1.5 * rng.normal(size=(3, 6))[y]
    return X, np.array(["ape", "bee", "cat"])[y]


def test_dense_equals_csr(data):
    X, y = data
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = AveragedPerceptron(random_state=0).fit(X, y)
    csr = AveragedPerceptron(random_state=0).fit(sparse.csr_array(X), y)
    assert_allclose(csr.coef_, dense.coef_, atol=1e-10)
    assert_allclose(csr.predict_proba(sparse.csr_array(X)), dense.predict_proba(X), atol=1e-10)
    assert_allclose(csr.margin_scale_, dense.margin_scale_, rtol=1e-10)


def test_weight_zero_equals_removal(data, rng):
    X, y = data
    w = rng.randint(3, size=len(y))
    weighted = AveragedPerceptron(random_state=0).fit(X, y, sample_weight=w)
    removed = AveragedPerceptron(random_state=0).fit(X[w > 0], y[w > 0], sample_weight=w[w > 0])
    assert_array_equal(weighted.coef_, removed.coef_)


def test_weight_two_equals_twice_on_average(rng):
    """Mean over 40 seeds, within three standard errors of the mean over 40 others."""
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    w = 1 + (np.arange(60) % 2)
    again = np.repeat(np.arange(60), w)

    def directions(X, y, **params):
        fits = [AveragedPerceptron(20, random_state=s).fit(X, y, **params) for s in range(40)]
        return np.array([f.coef_[0] / np.linalg.norm(f.coef_) for f in fits])

    weighted, repeated = directions(X, y, sample_weight=w), directions(X[again], y[again])
    error = np.sqrt((weighted.var(axis=0) + repeated.var(axis=0)) / 40)
    assert np.all(np.abs(weighted.mean(axis=0) - repeated.mean(axis=0)) < 3 * error + 0.02)


def test_binary_is_the_two_class_rule(rng):
    """The one-vector path equals two of three classes of which the third never comes."""
    X = rng.randint(-3, 4, size=(80, 5)).astype(float)
    y = rng.randint(2, size=80)
    model = AveragedPerceptron(3, random_state=0).fit(X, y)
    assert model.coef_.shape == (1, 5)
    assert model.decision_function(X).shape == (80,)
    assert_array_equal(model.predict(X), (model.decision_function(X) > 0).astype(int))


def test_predict_is_the_argmax_of_probabilities(data):
    X, y = data
    model = AveragedPerceptron(random_state=0).fit(X, y)
    proba = model.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
    assert_allclose(np.exp(model.predict_log_proba(X)), proba)


def test_margin_scale_is_the_spread_of_training_margins(data):
    X, y = data
    model = AveragedPerceptron(random_state=0).fit(X, y)
    scores = model.decision_function(X)
    if scores.ndim == 1:
        margins = np.where(y == model.classes_[1], scores, -scores)
    else:
        own = model.classes_ == y[:, None]
        margins = scores[own] - np.where(own, -np.inf, scores).max(axis=1)
    assert_allclose(model.margin_scale_, margins.std(), rtol=1e-4)


def test_class_weight_multiplies_sample_weight(data):
    X, y = data
    weighted = AveragedPerceptron(class_weight={"ape": 3.0}, random_state=0).fit(X, y)
    expected = AveragedPerceptron(random_state=0).fit(X, y, sample_weight=1.0 + 2.0 * (y == "ape"))
    assert_array_equal(weighted.coef_, expected.coef_)
    both = AveragedPerceptron(class_weight={"ape": 3.0}, random_state=0)
    both.fit(X, y, sample_weight=np.full(len(y), 2.0))
    assert_allclose(both.coef_, 2.0 * expected.coef_, rtol=1e-5)


def test_balanced_classes_are_those_of_the_weights(data):
    """A row of weight two is the row twice, also where classes are counted."""
    X, y = data
    given = np.arange(len(y)) % 3 + 1.0
    classes, codes = np.unique(y, return_inverse=True)
    factors = given.sum() / (len(classes) * np.bincount(codes, given))
    balanced = AveragedPerceptron(class_weight="balanced", random_state=0)
    by_hand = AveragedPerceptron(random_state=0).fit(X, y, given * factors[codes])
    assert_allclose(balanced.fit(X, y, given).coef_, by_hand.coef_)


def test_no_worse_than_one_against_the_rest(data_folder):
    with np.load(data_folder / "letter.npz") as letter:
        X_train, y_train = letter["X_train"], letter["y_train"]
        X_test, y_test = letter["X_test"], letter["y_test"]
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    ours = AveragedPerceptron(random_state=0).fit(X_train, y_train)
    theirs = SGDClassifier(
        loss="perceptron", average=True, max_iter=10, tol=None, random_state=0
    ).fit(X_train, y_train)
    assert ours.score(X_test, y_test) > 0.75 > theirs.score(X_test, y_test)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_float32_stays_float32(data, make):
    X, y = data
    X = make(X.astype(np.float32))
    model = AveragedPerceptron(random_state=0).fit(X, y)
    assert model.coef_.dtype == np.float32
    assert model.predict_proba(X).dtype == np.float32


def test_pickle_round_trip(data):
    X, y = data
    model = AveragedPerceptron(random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_errors_come_before_work(data):
    X, y = data
    with pytest.raises(ValueError, match="one class only"):
        AveragedPerceptron().fit(X, np.full(len(y), "ape"))
    with pytest.raises(ValueError, match="'max_iter' parameter"):
        AveragedPerceptron(0).fit(X, y)
    with pytest.raises(ValueError, match="negative values"):
        AveragedPerceptron().fit(X, y, sample_weight=-np.ones(len(y)))
