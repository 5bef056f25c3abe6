"""The pretrained network on a CUDA device: the weights of the host, and nothing left there."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification

from vicinal.pretrained import PretrainedNeighborsClassifier, PretrainedNeighborsRegressor

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device that torch finds", allow_module_level=True)


@pytest.mark.parametrize("n_columns", [3, 20, 150])
def test_predictions_agree_with_those_of_the_host(n_columns):
    X, y = make_classification(
        900, n_columns, n_informative=3, n_redundant=0, n_classes=4, n_clusters_per_class=1,
        random_state=0,
    )  # fmt: skip
    X = X.astype(np.float32)
    X[::11, 1] = np.nan
    rows, labels, queries = (torch.tensor(part, device="cuda") for part in (X[:600], y[:600], X))
    model = PretrainedNeighborsClassifier(random_state=0).fit(rows, labels)
    host = PretrainedNeighborsClassifier(random_state=0).fit(X[:600], y[:600])
    found = model.predict_proba(queries)
    assert found.is_cuda
    assert model.predict(queries).is_cuda
    assert_allclose(found.cpu().numpy(), host.predict_proba(X), atol=1e-4)
    values = X[:600, 0] + X[:600, 2]
    model = PretrainedNeighborsRegressor(random_state=0)
    model.fit(rows, torch.tensor(values, device="cuda"))
    host = PretrainedNeighborsRegressor(random_state=0).fit(X[:600], values)
    assert_allclose(model.predict(queries).cpu().numpy(), host.predict(X), atol=1e-4)


def test_a_prediction_does_not_depend_on_the_other_queries():
    X = np.random.RandomState(0).normal(size=(700, 6)).astype(np.float32)
    rows = torch.tensor(X, device="cuda")
    model = PretrainedNeighborsRegressor(random_state=0).fit(rows[:300], rows[:300, 0])
    assert torch.equal(model.predict(rows)[650:651], model.predict(rows[650:651]))
