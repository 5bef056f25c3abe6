"""Judge the network on folds of training rows of public tables, compared with other models.

``python -m training.evaluate folds FOLDER`` writes one file per table: rows, folds and the
out-of-fold predictions of scikit-learn's ExtraTrees and histogram boosting and of AutoClassifier
or AutoRegressor. ``python -m training.evaluate score FOLDER WEIGHTS`` adds the network's.

No published test row is used. Where a table has no published split, the training rows are the
first seven tenths of the permutation by ``RandomState(0)``. At most 1,000 rows of each table.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

CLASSIFICATION = (
    "iris", "wine", "vertebral", "wdbc", "wbc_original", "banana", "spambase", "optdigits",
    "satimage", "pendigits", "shuttle", "adult", "covtype", "census_income", "letter",
)  # fmt: skip
REGRESSION = ("diabetes", "laser", "mortgage", "airfoil", "puma32h", "grid_stability")
N_ROWS = 1000
N_FOLDS = 3
PEERS = ("extra_trees", "boosting", "auto")


def training_rows(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return at most 1,000 training rows of a table, their target and which columns are codes."""
    import sklearn.datasets

    from vicinal.datasets import load_dataset

    rng = np.random.RandomState(0)
    if name in ("iris", "diabetes"):
        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
        data = {"X": X, "y": y}
    else:
        data = load_dataset(name)
    if "X_train" in data:
        X, y = np.asarray(data["X_train"], dtype=float), np.asarray(data["y_train"])
        rows = rng.permutation(len(y))[:N_ROWS]
    else:
        X, y = np.asarray(data["X"], dtype=float), np.asarray(data["y"])
        rows = rng.permutation(len(y))[: int(0.7 * len(y))][:N_ROWS]
    is_category = np.zeros(X.shape[1], dtype=bool)
    if "categorical_features" in data:
        is_category |= np.asarray(data["categorical_features"], dtype=bool)
    X, y = X[rows], y[rows]
    varies = np.nanstd(X, axis=0) > 0
    return X[:, varies], y, is_category[varies]


def split_folds(y: np.ndarray, task: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows to keep, codes or values of the target, and the fold of each row."""
    from sklearn.model_selection import KFold, StratifiedKFold

    if task == "regression":
        keep, splitter = np.arange(len(y)), KFold(N_FOLDS, shuffle=True, random_state=0)
    else:
        # A class needs one row in every fold; rarer ones are not judged.
        _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        keep = np.flatnonzero(counts[codes] >= N_FOLDS)
        y = np.unique(y[keep], return_inverse=True)[1]
        splitter = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    fold = np.empty(len(keep), dtype=np.int8)
    for k, (_, held_out) in enumerate(splitter.split(keep, y)):
        fold[held_out] = k
    return keep, y, fold


def peer(label: str, task: str, is_category: np.ndarray):
    """Return one of the models that the network is compared with."""
    from sklearn import ensemble

    from vicinal.auto import AutoClassifier, AutoRegressor

    position = 0 if task == "classification" else 1
    if label == "extra_trees":
        model = (ensemble.ExtraTreesClassifier, ensemble.ExtraTreesRegressor)[position]
        return model(500, random_state=0)
    if label == "boosting":
        model = (
            ensemble.HistGradientBoostingClassifier,
            ensemble.HistGradientBoostingRegressor,
        )[position]
        return model(categorical_features=is_category, random_state=0)
    return (AutoClassifier, AutoRegressor)[position](n_jobs=1, random_state=0)


def as_frame(X: np.ndarray, is_category: np.ndarray):
    """Return a frame whose codes are categories."""
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    for j in np.flatnonzero(is_category):
        frame[f"x{j}"] = frame[f"x{j}"].map("c{:.0f}".format).astype("category")
    return frame


def make_folds(folder: Path, names: list[str]) -> None:
    """Write rows, folds and the peers' out-of-fold predictions of each table."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / f"{name}.npz"
        if path.exists():
            continue
        task = "regression" if name in REGRESSION else "classification"
        X, y, is_category = training_rows(name)
        keep, y, fold = split_folds(y, task)
        X = X[keep]
        found, seconds = {}, {}
        for label in PEERS:
            start = time.perf_counter()
            table = as_frame(X, is_category) if label == "auto" and is_category.any() else X
            shape = (len(y), y.max() + 1) if task == "classification" else (len(y),)
            found[label] = np.empty(shape, dtype=np.float32)
            for k in range(N_FOLDS):
                train, held_out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
                rows = [table.iloc[r] if table is not X else X[r] for r in (train, held_out)]
                model = peer(label, task, is_category).fit(rows[0], y[train])
                method = model.predict_proba if task == "classification" else model.predict
                found[label][held_out] = method(rows[1])
            seconds[label] = round(time.perf_counter() - start, 1)
        print(name, X.shape, seconds, flush=True)
        np.savez_compressed(
            path, X=X.astype(np.float32), y=y, fold=fold, is_category=is_category, **found
        )


def network_predictions(stored, weights: Path, n_passes: int) -> np.ndarray:
    """Return the network's out-of-fold predictions of one table."""
    import torch

    from training.network import load_weights, predict

    network = load_weights(weights).to("cuda" if torch.cuda.is_available() else "cpu")
    X, y, fold, is_category = (stored[k] for k in ("X", "y", "fold", "is_category"))
    n_classes = stored["auto"].shape[1] if stored["auto"].ndim == 2 else 0
    found = np.empty(stored["auto"].shape)
    for k in range(N_FOLDS):
        train, held_out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        rows = X[train], y[train], X[held_out]
        found[held_out] = predict(network, *rows, is_category, n_classes, n_passes)[0]
    return found


def losses(found: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the log loss of each row, or its squared error."""
    if found.ndim == 1:
        return (found.astype(float) - y) ** 2
    # ExtraTrees predicts zeros; clipped as scikit-learn's log_loss does in float32.
    p = np.clip(found.astype(float), 1e-7, 1)
    return -np.log(p[np.arange(len(y)), y] / p.sum(1))


def average_with(first: np.ndarray, second: np.ndarray, y: np.ndarray, fold: np.ndarray):
    """Return the weighted average of two predictions, and the mean weight of the second.

    The weight on each fold is the one that is best on the other folds.
    """
    weights = np.linspace(0, 1, 21)
    by_weight = np.array([losses((1 - w) * first + w * second, y) for w in weights])
    best = [int(by_weight[:, fold != k].mean(1).argmin()) for k in range(N_FOLDS)]
    return by_weight[np.array(best)[fold], np.arange(len(y))].mean(), weights[best].mean()


def judge(path: Path, weights: Path, n_passes: int) -> dict:
    """Return the losses of all models on one table."""
    with np.load(path) as stored:
        stored = dict(stored)
    y, fold = stored["y"], stored["fold"]
    start = time.perf_counter()
    ours = network_predictions(stored, weights, n_passes)
    case = {"table": path.stem, "n_rows": len(y), "n_columns": stored["X"].shape[1]}
    case["seconds"] = round(time.perf_counter() - start, 1)
    models = {"network": ours, **{label: stored[label] for label in PEERS}}
    case |= {label: losses(found, y).mean() for label, found in models.items()}
    for label in PEERS:
        mean, weight = average_with(stored[label], ours, y, fold)
        case |= {f"{label}+network": mean, f"weight in {label}": weight}
    mean, weight = average_with(stored["auto"], stored["extra_trees"], y, fold)
    case["auto+extra_trees"] = mean
    if ours.ndim == 2:
        case["n_classes"] = ours.shape[1]
        case |= {f"errors {m}": (found.argmax(1) != y).mean() for m, found in models.items()}
    return case


def report(cases: list[dict], regression: bool) -> str:
    """Return a table of losses and the geometric means of their ratios."""
    columns = ("network", *PEERS, "auto+network", "weight in auto", "extra_trees+network")
    errors = () if regression else tuple(f"errors {m}" for m in ("network", *PEERS))
    lines = ["| table | rows | " + " | ".join((*columns, *errors)) + " |"]
    lines.append("|---" * (2 + len(columns) + len(errors)) + "|")
    for case in cases:
        values = (f"{case[c]:.4g}" for c in (*columns, *errors))
        lines.append(f"| {case['table']} | {case['n_rows']} | " + " | ".join(values) + " |")

    def ratio(first: str, second: str) -> str:
        logs = np.log([case[first] / case[second] for case in cases])
        wins = sum(log < 0 for log in logs)
        return f"{first} / {second}: {np.exp(logs.mean()):.4f}, lower on {wins} of {len(logs)}"

    pairs = [("network", m) for m in PEERS] + [(f"{m}+network", m) for m in PEERS]
    return "\n".join([*lines, "", *(ratio(*p) for p in (*pairs, ("auto+extra_trees", "auto")))])


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["folds", "score"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("weights", type=Path, nargs="?")
    parser.add_argument("--names", nargs="*", default=[*CLASSIFICATION, *REGRESSION])
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--json", type=Path, help="write one line per table here")
    arguments = parser.parse_args()
    if arguments.action == "folds":
        make_folds(arguments.folder, arguments.names)
        return
    paths = [arguments.folder / f"{name}.npz" for name in arguments.names]
    cases = [judge(path, arguments.weights, arguments.passes) for path in paths]
    for regression in (False, True):
        part = [c for c in cases if (c["table"] in REGRESSION) == regression]
        if part:
            print(report(part, regression), "\n")
    if arguments.json:
        arguments.json.write_text("".join(json.dumps(case) + "\n" for case in cases))


if __name__ == "__main__":
    main()
