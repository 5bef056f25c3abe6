"""How do neural neighbours stand compared with the nets and kernels of the field?

Four sets with at most 5,000 training rows, three seeds, everyone's defaults: pytabkit's RealMLP
and TabM, xRFM and TabR, where they are installed; ``--device`` says where all of them train.
Finished cases are kept; without ``--only`` the page is written.
"""

import argparse
import sys
import warnings
from functools import partial
from types import ModuleType, SimpleNamespace

import numpy as np

from _datasets import load_dataset
from _harness import ResultsPage, clocked, timed
from vicinal.metric import NeuralNeighborsClassifier, NeuralNeighborsRegressor

SETS = ("letter", "satimage", "spambase", "grid_stability")
SEEDS = range(3)
MAX_ROWS = 5_000
OURS = "neural neighbours"
# Label: name of the class in pytabkit before Classifier or Regressor.
PEERS = {"RealMLP": "RealMLP_TD", "TabM": "TabM_D", "xRFM": "XRFM_D", "TabR": "TabR_S_D"}


def split(name, seed, most=MAX_ROWS):
    """Return at most so many training rows and the test part: published, or three tenths."""
    data = load_dataset(name)
    rng = np.random.RandomState(seed)
    if "X_train" in data:
        train = rng.permutation(len(data.y_train))[:most]
        return data.X_train[train], data.y_train[train], data.X_test, data.y_test
    order = rng.permutation(len(data.y))
    cut = int(0.7 * len(order))
    train, test = order[: min(cut, most)], order[cut:]
    return data.X[train], data.y[train], data.X[test], data.y[test]


def ours(is_numbers, seed, device):
    model = NeuralNeighborsRegressor if is_numbers else NeuralNeighborsClassifier
    return model(random_state=seed)


class FlatIndex:
    """Exact neighbours by one product: what TabR asks of faiss, where faiss is not at hand."""

    def __init__(self, *arguments):
        self.rows = None

    def reset(self):
        """Forget the rows."""
        self.rows = None

    def add(self, rows):
        """Search among these rows from now on."""
        self.rows = rows

    def search(self, queries, n_neighbors):
        """Return squared distances and indices of the nearest rows, nearest first."""
        import torch

        return torch.topk(torch.cdist(queries, self.rows) ** 2, n_neighbors, largest=False)


def stand_in_for_faiss():
    """Let ``import faiss`` find flat indices alone, if there is no faiss."""
    try:
        import faiss  # noqa: F401
    except ImportError:
        names = ("faiss", "faiss.contrib", "faiss.contrib.torch_utils")
        modules = {name: ModuleType(name) for name in names}
        for name in ("IndexFlatL2", "GpuIndexFlatL2"):
            setattr(modules["faiss"], name, FlatIndex)
        for name in ("GpuIndexFlatConfig", "StandardGpuResources"):
            setattr(modules["faiss"], name, SimpleNamespace)
        modules["faiss"].contrib = modules["faiss.contrib"]
        modules["faiss.contrib"].torch_utils = modules["faiss.contrib.torch_utils"]
        sys.modules.update(modules)


def peer(name, is_numbers, seed, device):
    stand_in_for_faiss()
    import pytabkit

    model = getattr(pytabkit, f"{name}_{'Regressor' if is_numbers else 'Classifier'}")
    return model(random_state=seed, device=device)


def judge(name, label, seed, device):
    X, y, X_test, y_test = split(name, seed)
    X, X_test = (np.asarray(rows, dtype=np.float32) for rows in (X, X_test))
    is_numbers = y.dtype.kind == "f"
    if label == OURS:
        model = ours(is_numbers, seed, device)
        if device != "cpu":
            import torch

            X, X_test = (torch.as_tensor(rows, device=device) for rows in (X, X_test))
    else:
        model = peer(PEERS[label], is_numbers, seed, device)
        y = y.astype(np.float32) if is_numbers else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit, model = timed(lambda: model.fit(X, y))
        predict, said = timed(lambda: model.predict(X_test))
    said = said.cpu().numpy() if hasattr(said, "cpu") else np.asarray(said)
    if is_numbers:
        error = np.mean((said.ravel() - y_test) ** 2) / np.var(y_test)
    else:
        error = np.mean(said.ravel() != y_test)
    return {"error": 100.0 * float(error), "fit": fit, "predict": predict}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", nargs="*", help="labels of models to run")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    options = parser.parse_args()
    page = ResultsPage(
        "neural_peers",
        "Neural neighbours compared with other neural networks",
        "Defaults, at most 5,000 training rows, three seeds (rows and model). Wrong labels in per "
        "cent, for grid_stability the squared error in per cent of the variance. Seconds are of "
        f"the whole fit on `{options.device}` (one NVIDIA H200 and 16 cores; RealMLP and TabM ran "
        "at the same time). TabR (its smaller variant) searches by torch instead of faiss: the "
        "same exact neighbours.",
        packages=("torch", "pytabkit", "xrfm"),
    )
    rows = []
    for name in options.sets:
        for label in options.only or (OURS, *PEERS):
            found = [
                page.case(
                    (name, label, seed, options.device),
                    clocked(partial(judge, name, label, seed, options.device)),
                )
                for seed in SEEDS
            ]
            errors = [case["error"] for case in found]
            times = [np.median([case[k] for case in found]) for k in ("fit", "predict", "cpu")]
            rows.append((name, label, np.mean(errors), np.std(errors), *times))
    page.table(("set", "model", "error %", "spread", "fit s", "predict s", "processor s"), rows)
    if not options.only:
        page.write()


if __name__ == "__main__":
    main()
