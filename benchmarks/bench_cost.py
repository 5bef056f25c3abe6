"""Prediction time and file size compared with CatBoost and LightGBM.

Seconds are processor seconds of one thread; every model is fitted to the same rows. CatBoost runs
in the Python named by VICINAL_PEERS. Cases are run for ``--sets``, ``--parts`` and ``--seeds``;
the page shows the splits that every model has, and fit times of the cases of bench_comparison.py.
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
from bench_auto import split, task_of, warm_up
from bench_comparison import ROWS, parts_at
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.io import save

PRESETS = ("fast", "default", "best")
PEERS = ("LightGBM", "CatBoost")
N_BATCH, N_SINGLE = 10_000, 20
FIT = ("vicinal", "vicinal (fast)", "CatBoost", "LightGBM", "random forest")
# The sets of the larger size: the others have hardly more rows, or fits of the same length.
LARGE_SETS = (
    "adult", "covtype", "pendigits", "satimage", "spambase", "grid_stability", "puma32h"
)  # fmt: skip
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
print(json.dumps({"fit": fit, "batch": batch_s, "row": row_s}))
"""


def measure(name: str, part: str, label: str, seed: int) -> dict:
    """Return the costs of one model on one split."""
    rows, task = split(name, part, seed), task_of(name)
    y = rows.table.y[rows.train]
    found = (catboost if label == "CatBoost" else here)(label, task, rows, y)
    return found | {"n": len(y)}


def here(label: str, task: str, rows, y) -> dict:
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
    return found


def catboost(label: str, task: str, rows, y) -> dict:
    """Fit CatBoost with its own categorical features, in its own environment."""
    X, X_test = rows.part("coded")
    is_category = rows.table.is_category[rows.varying()]
    codes = np.unique(y, return_inverse=True)[1]
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
    return found


def seconds(function) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def write(page: ResultsPage) -> None:
    """Add a table for each task and number of rows, with geometric means over sets."""
    has = stored("cost").has
    columns = {"batch": "10,000 rows, s", "row": "one row, ms", "file": "file, MB"}
    units = {"batch": 1.0, "row": 1e-3, "file": 1e6}
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
            n_sets = len({name for name, _ in whole})
            page.text(f"## {task.capitalize()}, at most {int(part):,} rows ({n_sets} sets)")
            found = {
                m: [page.case((name, part, m, seed), dict) for name, seed in whole] for m in labels
            }
            lines = [
                [label, *(geometric(c[name] / units[name] for c in own) for name in columns)]
                for label, own in found.items()
            ]
            page.table(["model", *columns.values()], lines)


def fit_rows() -> list[tuple]:
    """Return fit seconds by task, number of rows and library, from the comparison."""
    return [
        (f"{part['task']}, {part['rows']:,} rows, {len(part['names'])} sets",
         *(f"{part['summary'][m]['seconds']:.2f}" for m in FIT))
        for n_rows in ROWS for part in parts_at(n_rows)
    ]  # fmt: skip


def geometric(values) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="*", default=[], choices=("1000", "5000"))
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--models", nargs="*", default=[*PRESETS[:2], *PEERS])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1])
    options = parser.parse_args([] if is_rebuilding() else sys.argv[1:])
    warnings.simplefilter("ignore")
    page = ResultsPage(
        "cost",
        "Fit time, prediction time and file size",
        "Processor seconds of one thread and file sizes of AutoClassifier and AutoRegressor by "
        "preset, compared with other libraries by their defaults on the same rows. Numbers are "
        "geometric means over sets and splits. Fit times are those of the "
        "[comparison](comparison.md), where the losses are.",
        packages=("lightgbm",),
    )
    for seed in options.seeds:
        for part in options.parts:
            for name in options.sets or (SETS if part == "1000" else LARGE_SETS):
                for label in options.models:
                    key = (name, part, label, seed)
                    page.case(key, lambda k=key: measure(*k))
    page.text("## Fit")
    page.table(("task and size", *FIT), fit_rows())
    write(page)
    page.write()


if __name__ == "__main__":
    main()
