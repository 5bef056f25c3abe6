"""Fit time, prediction time and file size compared with CatBoost and LightGBM.

Seconds are processor seconds of one thread; every model is fitted to the same rows. CatBoost runs
in the environment whose Python is named in VICINAL_PEERS; without it there is no CatBoost. Cases
are run for ``--sets``, ``--parts`` and ``--seeds``; the page shows those that every model has.
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from _harness import ResultsPage, is_rebuilding, stored
from bench_auto import split, task_of
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.io import save

PRESETS = ("fast", "default", "best")
PEERS = ("LightGBM", "CatBoost")
N_BATCH, N_SINGLE = 10_000, 20
SETS = (
    "airfoil", "friedman1", "friedman2", "grid_stability", "laser", "mortgage", "puma32h",
    "adult", "banana", "census_income", "covtype", "letter", "optdigits", "pendigits", "satimage",
    "spambase", "vertebral", "wdbc",
)  # fmt: skip
CATBOOST = """
import json, sys, time
import numpy as np, pandas as pd
from catboost import CatBoostClassifier, CatBoostRegressor
rows = np.load(sys.argv[1], allow_pickle=True)
names = [f"c{j}" for j in np.flatnonzero(rows["is_category"])]
def frame(X):
    columns = {f"c{j}": X[:, j] for j in range(X.shape[1])}
    return pd.DataFrame(columns).astype({name: int for name in names})
kind = CatBoostClassifier if sys.argv[2] == "classification" else CatBoostRegressor
quiet = {"verbose": False, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}
model = kind(cat_features=names, **quiet)
X, X_test, batch = (frame(rows[name]) for name in ("X", "X_test", "batch"))
clock = time.process_time
start = clock(); model.fit(X, rows["y"]); fit = clock() - start
start = clock(); model.predict(batch); batch_s = clock() - start
start = clock()
for i in range(20): model.predict(X_test[i:i + 1])
row_s = (clock() - start) / 20
model.save_model(sys.argv[1] + ".cbm")
np.save(sys.argv[1] + ".npy", np.ravel(model.predict(X_test)))
print(json.dumps({"fit": fit, "batch": batch_s, "row": row_s}))
"""


def measure(name: str, part: str, label: str, seed: int) -> dict:
    """Return the costs and the test error of one model on one split."""
    rows, task = split(name, part, seed), task_of(name)
    y, y_test = rows.table.y[rows.train], rows.table.y[rows.test]
    run = catboost if label == "CatBoost" else here
    predictions, found = run(label, task, rows, y)
    if task == "classification":
        found["error"] = float(np.mean(predictions != y_test))
    else:
        found["error"] = float(np.mean((predictions - y_test) ** 2) / np.var(y_test))
    return found | {"n": len(y)}


def here(label: str, task: str, rows, y) -> tuple[np.ndarray, dict]:
    """Fit one of our presets, or LightGBM."""
    is_class = task == "classification"
    if label == "LightGBM":
        from lightgbm import LGBMClassifier, LGBMRegressor

        kind = LGBMClassifier if is_class else LGBMRegressor
        model = kind(n_jobs=1, verbose=-1, random_state=0)
        X, X_test = rows.part("numbers")
    else:
        kind = AutoClassifier if is_class else AutoRegressor
        model = kind(preset=label, n_jobs=1, random_state=0)
        X, X_test = rows.part("given")
        warm_up(kind)
    take = (lambda X, at: X.iloc[at]) if hasattr(X_test, "iloc") else (lambda X, at: X[at])
    n_test = len(rows.test)
    batch = take(X_test, np.arange(N_BATCH) % n_test)
    fit = seconds(lambda: model.fit(X, y))
    found = {"fit": fit, "batch": seconds(lambda: model.predict(batch))}
    single = [take(X_test, slice(i, i + 1)) for i in range(N_SINGLE)]
    found["row"] = seconds(lambda: [model.predict(row) for row in single]) / N_SINGLE
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.vicinal"
        if label == "LightGBM":
            path.write_bytes(pickle.dumps(model))
        else:
            save(model, path)
            found["models"] = [f"{base.name} {base.weight:.2f}" for base in model.estimators_]
            found["score"], found["score_error"] = model.score_, model.score_error_
        found["file"] = path.stat().st_size
    return model.predict(X_test), found


def catboost(label: str, task: str, rows, y) -> tuple[np.ndarray, dict]:
    """Fit CatBoost with its own categorical features, in its own environment."""
    X, X_test = rows.part("coded")
    is_category = rows.table.is_category[rows.varying()]
    classes, codes = np.unique(y, return_inverse=True)
    batch = X_test[np.arange(N_BATCH) % len(X_test)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        target = codes if task == "classification" else y
        np.savez(path, X=X, y=target, X_test=X_test, batch=batch, is_category=is_category)
        command = [os.environ["VICINAL_PEERS"], "-c", CATBOOST, str(path), task]
        environment = {**os.environ, "PYTHONPATH": ""}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.strip().splitlines()[-1])
        found["file"] = Path(f"{path}.cbm").stat().st_size
        predictions = np.load(f"{path}.npy", allow_pickle=True)
    if task == "classification":
        predictions = classes[predictions.astype(int)]
    return predictions, found


def seconds(function) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def warm_up(kind) -> None:
    """Compile, or load from the cache, what a fit needs."""
    rng = np.random.RandomState(0)
    X = rng.randn(220, 4)
    y = X[:, 0] + 0.1 * rng.randn(220)
    kind(n_jobs=1, random_state=0).fit(X, y if kind is AutoRegressor else y > 0).predict(X)


def write(page: ResultsPage) -> None:
    """Add a table for each task and number of rows, with geometric means over sets."""
    has = stored("cost").has
    columns = {"fit": "fit, s", "batch": "10,000 rows, s", "row": "one row, ms", "file": "file, MB"}
    units = {"fit": 1.0, "batch": 1.0, "row": 1e-3, "file": 1e6}
    for task in ("classification", "regression"):
        for part in ("1000", "5000"):
            splits = [(name, s) for name in SETS if task_of(name) == task for s in range(5)]
            models = [*PRESETS, *PEERS]
            labels = [m for m in models if any(has(name, part, m, s) for name, s in splits)]
            whole = [
                (n, s) for n, s in splits if labels and all(has(n, part, m, s) for m in labels)
            ]
            if not whole:
                continue
            page.text(f"## {task.capitalize()}, at most {part} rows ({len(whole)} splits)")
            found = {
                m: [page.case((name, part, m, seed), dict) for name, seed in whole] for m in labels
            }
            reference = found["CatBoost" if "CatBoost" in found else labels[-1]]
            lines = []
            for label, own in found.items():
                ratios = [
                    (a["error"] + 1e-3) / (b["error"] + 1e-3)
                    for a, b in zip(own, reference, strict=True)
                ]
                line = [geometric(c[name] / units[name] for c in own) for name in columns]
                lines.append([label, *line, geometric(ratios)])
            page.table(["model", *columns.values(), "error / CatBoost's"], lines)


def geometric(values) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="*", default=[], choices=("1000", "5000"))
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--models", nargs="*", default=[*PRESETS[:2], *PEERS])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1])
    options = parser.parse_args([] if is_rebuilding() else sys.argv[1:])
    warnings.simplefilter("ignore")
    page = ResultsPage(
        "cost",
        "Fit time, prediction time and file size",
        "Processor seconds of one thread and file sizes of AutoClassifier and AutoRegressor by "
        "preset, compared with LightGBM and CatBoost by their defaults on the same rows. Numbers "
        "are geometric means over splits. Errors are wrong labels or squared errors in units of "
        "the variance, plus 0.001, in ratio to CatBoost's.",
        packages=("lightgbm",),
    )
    for seed in options.seeds:
        for part in options.parts:
            for name in options.sets:
                for label in options.models:
                    key = (name, part, label, seed)
                    page.case(key, lambda k=key: measure(*k))
    write(page)
    page.write()


if __name__ == "__main__":
    main()
