import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning

from vicinal.partition import SurrogatePartitionClassifier


def xor(seed, n=25):
    rng = np.random.RandomState(seed)
    corners = np.array([[-1, 1], [1, 1], [1, -1], [-1, -1]], dtype=float)
    X = np.repeat(corners, n, axis=0) + 0.1 * rng.normal(size=(4 * n, 2))
    return X, np.repeat(["no", "yes", "no", "yes"], n)


@pytest.mark.parametrize("data", [load_breast_cancer(return_X_y=True), xor(0)])
def test_no_block_step_of_any_start_raises_the_objective(data):
    model = SurrogatePartitionClassifier(n_init=8, max_iter=500, tol=1e-5, random_state=0)
    model.fit(*data)
    assert len(model.objectives_) == 8
    for objective in model.objectives_:
        assert np.max(np.diff(objective) / objective[:-1]) <= 1e-10


def test_every_start_solves_xor():
    for seed in range(10):
        X, y = xor(seed)
        model = SurrogatePartitionClassifier(n_init=1, alpha=0.1, max_iter=500, random_state=seed)
        assert model.fit(X, y).score(X, y) == 1.0


def test_region_and_score_follow_the_gate():
    X, y = xor(1)
    model = SurrogatePartitionClassifier(n_init=3, alpha=0.1, random_state=0).fit(X, y)
    scaled = model.scaler_.transform(X)
    gate = scaled @ model.gate_coef_ + model.gate_intercept_
    assert_allclose(model.decision_path(X)[:, 0], gate)
    region = model.apply(X)
    own = np.einsum("nd,nd->n", scaled, model.coef_[region]) + model.intercept_[region]
    assert_allclose(model.decision_function(X), own)
    assert sorted(np.unique(region)) == [0, 1]


def test_three_classes_are_refused():
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        SurrogatePartitionClassifier().fit(*load_iris(return_X_y=True))


def test_stopping_early_warns():
    with pytest.warns(ConvergenceWarning, match="max_iter=1 sweeps"):
        SurrogatePartitionClassifier(max_iter=1, n_init=1, random_state=0).fit(*xor(0))


def test_rows_of_single_precision_meet_scales_of_double(rng):
    X = 1e140 * rng.normal(size=(60, 2))
    model = SurrogatePartitionClassifier(random_state=0).fit(X, X[:, 0] > 0)
    calls = rng.normal(size=(5, 2)).astype(np.float32)
    assert_allclose(model.predict_proba(calls), model.predict_proba(calls.astype(float)))
