"""Models in learned coordinates as graphs and as files."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vicinal.io import load, save, to_onnx
from vicinal.metric import (
    GradientKernelClassifier,
    GradientKernelRegressor,
    NeuralNeighborsClassifier,
    NeuralNeighborsRegressor,
)

NETS = {"n_estimators": 2, "n_components": 8, "n_hidden": 16, "random_state": 0}
MODELS = {
    "nets": NeuralNeighborsRegressor(**NETS),
    "nets of classes": NeuralNeighborsClassifier(**NETS),
    "kernel": GradientKernelRegressor(n_rounds=1),
    "blocks": GradientKernelRegressor("laplace", n_rounds=1, max_block_size=60, random_state=0),
    "kernel of classes": GradientKernelClassifier(n_rounds=1),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    X = np.random.RandomState(0).uniform(-1, 1, (150, 4))
    X[:, 3] = np.round(2 * X[:, 3])
    y = np.sin(3 * X[:, 0]) * X[:, 1]
    if "classes" in request.param:
        y = np.array(["low", "middle", "top"])[np.digitize(y, [-0.2, 0.2])]
    return MODELS[request.param].fit(X, y), X


def test_the_graph_agrees_far_outside_the_rows_too(fitted):
    model, X = fitted
    to_onnx(model, np.r_[X, 3.0 * X])


def test_a_file_gives_the_model_back(fitted, tmp_path):
    model, X = fitted
    save(model, tmp_path / "model.vicinal")
    again = load(tmp_path / "model.vicinal")
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(again.local_coef(X), model.local_coef(X))
