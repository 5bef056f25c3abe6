"""Neural neighbours on a CUDA device: recorded steps compute what the host computes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from vicinal._base import as_numpy, captured
from vicinal.metric import NeuralNeighborsClassifier, NeuralNeighborsRegressor

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device that torch finds", allow_module_level=True)


def waves(n, seed=0):
    X = np.random.RandomState(seed).uniform(-1, 1, (n, 5)).astype(np.float32)
    return X, (np.sin(6 * X[:, 0]) * X[:, 1]).astype(np.float32)


def test_a_recording_changes_nothing_until_it_is_played():
    x = torch.ones(3, device="cuda")

    def double():
        x.mul_(2.0)
        return x.sum()

    play = captured(double, [x])
    assert_allclose(as_numpy(x), 1.0)
    assert float(play()) == 6.0
    assert float(play()) == 12.0
    assert_allclose(as_numpy(x), 4.0)


@pytest.mark.parametrize("n", [700, 2000])
def test_the_first_epochs_have_the_losses_of_the_host(n):
    X, y = waves(n)
    settings = {"n_estimators": 4, "max_iter": 1, "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        host = NeuralNeighborsRegressor(**settings).fit(X, y)
    with pytest.warns(ConvergenceWarning):
        device = NeuralNeighborsRegressor(**settings).fit(
            torch.as_tensor(X, device="cuda"), torch.as_tensor(y, device="cuda")
        )
    for ours, theirs in zip(device.nets_, host.nets_, strict=True):
        assert ours["periodic"] == theirs["periodic"]
        assert_allclose(ours["loss_curve"], theirs["loss_curve"], rtol=2e-3)
    Q, _ = waves(300, seed=1)
    said = device.predict(torch.as_tensor(Q, device="cuda"))
    assert said.is_cuda
    assert_allclose(as_numpy(said), host.predict(Q), atol=0.03)


def test_labels_and_slopes_come_back_on_the_device():
    X, y = waves(1500)
    labels = np.where(y > 0, "up", "down")
    rows = torch.as_tensor(X, device="cuda")
    model = NeuralNeighborsClassifier(n_estimators=2, random_state=0).fit(rows, labels)
    Q, z = waves(500, seed=1)
    queries = torch.as_tensor(Q, device="cuda")
    assert np.mean(model.predict(queries) == np.where(z > 0, "up", "down")) > 0.9
    assert model.predict_proba(queries).is_cuda
    assert model.local_coef(queries).shape == (500, 2, 5)
    assert_allclose(model.neighbors(queries, 1500).sum(axis=1), 1.0, rtol=1e-4)


def test_a_recording_keeps_what_its_function_reads():
    def made():
        hidden = torch.full((1000,), 3.0, device="cuda")
        total = torch.zeros(1, device="cuda")

        def step():
            total[...] += hidden.sum()

        return captured(step, [total]), total

    play, total = made()
    torch.cuda.empty_cache()
    junk = [torch.full((1000,), 7.0, device="cuda") for _ in range(100)]
    play()
    assert float(total) == 3000.0
    del junk


def test_folds_trained_side_by_side_answer_as_one_by_one():
    X, y = waves(1500)
    rows, targets = (torch.as_tensor(a, device="cuda") for a in (X, y))
    folds = np.array_split(np.arange(1500), 3)
    model = NeuralNeighborsRegressor(n_estimators=2, random_state=0)
    together = model.held_out(rows, targets, folds=folds).predictions[0, :, 0]
    alone = np.concatenate(
        [model.held_out(rows, targets, folds=[fold]).predictions[0, :, 0] for fold in folds]
    )
    # Sums of a device have no fixed order, so trainings part a little.
    assert np.mean((together - y) ** 2) < 1.2 * np.mean((alone - y) ** 2) + 1e-3
    assert np.corrcoef(together, alone)[0, 1] > 0.98
