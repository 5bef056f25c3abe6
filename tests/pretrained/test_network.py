"""The NumPy network equals the training code's; its weights file is the one that was trained."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal.pretrained import _network
from vicinal.pretrained._cells import ColumnScale, TableScale, cell_features, target_features

WEIGHTS = Path(_network.__file__).parent / "weights.npz"
ROOT = Path(__file__).parents[2]
RNG = np.random.RandomState(0)


def table(n=120, n_queries=50, p=6, seed=0):
    rng = np.random.RandomState(seed)
    X, queries = (rng.normal(size=(m, p)).astype(np.float32).astype(float) for m in (n, n_queries))
    for rows in (X, queries):
        rows[:, 2] = np.round(2 * rows[:, 2])
        rows[rng.uniform(size=rows.shape) < 0.1] = np.nan
    value = np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2])
    return X, queries, value, np.arange(p) == 2


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_numpy_equals_the_training_code(task):
    torch = pytest.importorskip("torch")
    from training import network as trained

    X, queries, value, is_category = table()
    scale = TableScale(X, np.ones(len(X)), is_category, RNG)
    cells, asked = scale.features(X), scale.features(queries)
    both = torch.tensor(np.concatenate([X, queries]), dtype=torch.float32)[None]
    described = trained.describe_cells(both, torch.tensor(is_category)[None], len(X))[0].numpy()
    assert_allclose(cells.transpose(1, 0, 2), described[: len(X)], atol=2e-5)
    assert_allclose(asked.transpose(1, 0, 2), described[len(X) :], atol=2e-5)
    columns = np.random.RandomState(1).normal(size=(X.shape[1], 16)).astype(np.float32)
    if task == "classification":
        target = np.digitize(value, [-0.5, 0.5])
        given = torch.tensor(target)[None]
    else:
        target = target_features((value - value.mean()) / value.std(), np.ones(len(X)))
        given = torch.tensor(target)[None]
    network = trained.load_weights(WEIGHTS)
    with torch.no_grad():
        logits, bandwidth = network(
            torch.tensor(described)[None], torch.tensor(columns)[None], given, len(X)
        )
    context = _network.load_network().read(cells, columns, target, None)
    weights, found = _network.load_network().weigh(asked, context, regression=task == "regression")
    assert_allclose(weights, torch.softmax(logits, -1)[0].numpy(), atol=1e-5)
    assert_allclose(found, bandwidth[0].numpy(), atol=1e-4)


def test_weights_are_those_that_were_trained():
    content = WEIGHTS.read_bytes()
    assert hashlib.sha256(content).hexdigest() == _network.SHA256
    assert _network.SHA256 in (ROOT / "training" / "README.md").read_text()
    assert len(content) < 8e6


def test_a_changed_file_is_refused(monkeypatch):
    monkeypatch.setattr(_network, "SHA256", "0" * 64)
    with pytest.raises(OSError, match=r"weights\.npz .* install the package again"):
        _network.load_network.__wrapped__()


def test_column_features_count_weights_as_repetitions():
    rng = np.random.RandomState(0)
    values = np.round(rng.normal(size=40), 1)
    values[::7] = np.nan
    counts = rng.randint(1, 4, size=40)
    weighted = ColumnScale(values, counts.astype(float))
    repeated = ColumnScale(np.repeat(values, counts), np.ones(counts.sum()))
    weighted, repeated = (cell_features([scale], values[None]) for scale in (weighted, repeated))
    assert_allclose(weighted, repeated, atol=1e-6)


def test_features_know_training_rows_alone():
    X, queries, *_ = table()
    scale = TableScale(X, np.ones(len(X)), np.zeros(6, dtype=bool), RNG)
    together = scale.features(queries)
    alone = scale.features(queries[3:4])
    assert_allclose(together[:, 3:4], alone)


def test_constant_columns_are_dropped():
    X = np.ones((9, 3))
    X[:, 1] = np.arange(9)
    X[0, 2] = np.nan
    assert TableScale(X, np.ones(9), np.zeros(3, dtype=bool), RNG).columns.tolist() == [1, 2]
    constant = TableScale(np.ones((9, 2)), np.ones(9), np.zeros(2, dtype=bool), RNG)
    assert constant.columns.tolist() == [0]


def test_very_many_columns_are_sampled():
    X = np.random.RandomState(0).normal(size=(9, 300))
    scale = TableScale(X, np.ones(9), np.zeros(300, dtype=bool), RNG)
    assert len(np.unique(scale.columns)) == 128
    assert scale.features(X).shape == (128, 9, 16)
