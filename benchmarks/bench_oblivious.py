"""Are boosted symmetric trees as accurate as CatBoost's, and what do they cost?

CatBoost runs in the Python that VICINAL_PEERS names, which needs numpy, pandas and catboost. With
``--model`` only the cases of one model are run, and no page is written; with ``--stored`` the page
is written from the sets whose cases are complete, as it is by ``rebuild.py``.
"""

import argparse
import os
import subprocess
import tempfile
import time
from functools import cache, partial
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import vicinal.io
from _datasets import list_datasets, load_dataset
from _harness import ResultsPage, is_rebuilding, stored
from vicinal.ensemble import ObliviousBoostingClassifier, ObliviousBoostingRegressor

CLASSIFICATION = (
    "adult", "census_income", "spambase", "banana", "satimage", "pendigits", "optdigits", "letter",
    "shuttle", "covtype", "wdbc", "vertebral",
)  # fmt: skip
REGRESSION = tuple(list_datasets(task="regression"))
LARGE = (
    "adult", "census_income", "pendigits", "letter", "shuttle", "covtype", "grid_stability",
    "puma32h",
)  # fmt: skip
MIXED = ("adult", "census_income")
# Splits by number of training rows; others were used to choose the defaults.
SEEDS = {1000: tuple(range(101, 111)), 5000: (101, 102)}
MOST_HELD_OUT, N_QUERIES = 5000, 10_000
OURS, ONE_RUN = "vicinal", "one run"
PEERS = ("CatBoost", "CatBoost, codes", "HGB", "HGB, slow", "LightGBM", ONE_RUN)
SLOW = {"learning_rate": 0.05, "max_leaf_nodes": 8}

CATBOOST = """
import sys, time
import numpy as np, pandas as pd
from catboost import CatBoostClassifier, CatBoostRegressor
data = np.load(sys.argv[1])
is_category = data["is_category"]
def frame(X):
    return pd.DataFrame(
        {f"c{j}": X[:, j].astype(int).astype(str) if is_category[j] else X[:, j]
         for j in range(X.shape[1])})
tables = [data[name] for name in ("X", "X_test", "X_many")]
if is_category.any():
    tables = [frame(table) for table in tables]
kind = CatBoostClassifier if data["classify"] else CatBoostRegressor
model = kind(verbose=False, allow_writing_files=False, thread_count=1, random_seed=0,
             cat_features=[f"c{j}" for j in np.flatnonzero(is_category)] or None)
predict = model.predict_proba if data["classify"] else model.predict
start = time.process_time()
model.fit(tables[0], data["y"])
fit = time.process_time() - start
predict(tables[2])
start = time.process_time()
predict(tables[2])
took = time.process_time() - start
model.save_model(sys.argv[2] + ".cbm")
np.savez(sys.argv[2], predicted=predict(tables[1]), fit=fit, took=took)
"""


@cache
def training_rows(name):
    data = load_dataset(name)
    X, y = (data.X_train, data.y_train) if "X_train" in data else (data.X, data.y)
    X = np.asarray(X, dtype=float)
    mask = np.asarray(data.get("categorical_features", np.zeros(X.shape[1])), dtype=bool)
    return X, np.asarray(y), mask


def split(name, n_rows, seed):
    """Return training and held-out rows, both from the training rows of a set."""
    X, y, is_category = training_rows(name)
    order = np.random.RandomState(seed).permutation(len(y))
    n_rows = min(n_rows, 2 * len(y) // 3)
    train, test = order[:n_rows], order[n_rows : n_rows + MOST_HELD_OUT]
    if name in CLASSIFICATION:
        classes = np.unique(y[train])
        test = test[np.isin(y[test], classes)]
        y = np.searchsorted(classes, y)
    else:
        y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[test], y[test], is_category


def built(label, classify, is_category):
    if label in (OURS, ONE_RUN):
        kind = ObliviousBoostingClassifier if classify else ObliviousBoostingRegressor
        options = {"n_runs": 1} if label == ONE_RUN else {}
        return kind(categorical_features=is_category, random_state=0, **options)
    if label == "LightGBM":
        from lightgbm import LGBMClassifier, LGBMRegressor

        return (LGBMClassifier if classify else LGBMRegressor)(n_jobs=1, random_state=0, verbose=-1)
    kind = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
    options = SLOW if label == "HGB, slow" else {}
    return kind(categorical_features=is_category, random_state=0, **options)


def measured(label, name, n_rows, seed):
    """Return the held-out loss and error, seconds of fit and of predictions, size of the file."""
    X, y, X_test, y_test, is_category = split(name, n_rows, seed)
    classify = name in CLASSIFICATION
    X_many = X_test[np.arange(N_QUERIES) % len(X_test)]
    if label.startswith("CatBoost"):
        is_category = is_category & (label == "CatBoost")
        found = in_catboost(X, y, X_test, X_many, is_category, classify)
    else:
        model = built(label, classify, is_category)
        if label in (OURS, ONE_RUN):  # compiles
            model.set_params(n_estimators=2).fit(X, y)
            model = built(label, classify, is_category)
        start = time.process_time()
        model.fit(X, y)
        fit = time.process_time() - start
        predict = model.predict_proba if classify else model.predict
        predict(X_many)
        start = time.process_time()
        predict(X_many)
        took = time.process_time() - start
        found = {"predicted": predict(X_test), "fit": fit, "predict": took, "bytes": None}
        if label == OURS:
            with tempfile.TemporaryDirectory() as folder:
                path = vicinal.io.save(model, Path(folder) / "model.vicinal")
                found["bytes"] = Path(path).stat().st_size
            found["rounds"], found["depth"] = model.n_iter_, model.depth_
    predicted = found.pop("predicted")
    if classify:
        own = predicted[np.arange(len(y_test)), y_test]
        found["loss"] = float(-np.log(np.clip(own, 1e-15, 1.0)).mean())
        found["error"] = float((predicted.argmax(axis=1) != y_test).mean())
    else:
        found["loss"] = float(np.mean((predicted - y_test) ** 2))
    return found


def in_catboost(X, y, X_test, X_many, is_category, classify):
    with tempfile.TemporaryDirectory() as folder:
        table, output = Path(folder) / "table.npz", Path(folder) / "out.npz"
        arrays = {"X": X, "y": y, "X_test": X_test, "X_many": X_many}
        np.savez(table, is_category=is_category, classify=classify, **arrays)
        command = [os.environ["VICINAL_PEERS"], "-c", CATBOOST, str(table), str(output)]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": ""}, check=True)
        with np.load(output) as out:
            return {
                "predicted": out["predicted"],
                "fit": float(out["fit"]),
                "predict": float(out["took"]),
                "bytes": Path(f"{output}.cbm").stat().st_size,
            }


def sets_of(n_rows, label=OURS):
    """Return the sets that a model is fitted to."""
    sets = (*CLASSIFICATION, *REGRESSION) if n_rows == 1000 else LARGE
    return MIXED if label == "CatBoost, codes" else sets


def complete(n_rows):
    """Return the sets of which the cases of all models are stored."""
    return [
        name
        for name in sets_of(n_rows)
        if all(
            stored("oblivious").has(label, name, n_rows, seed)
            for label in (OURS, *PEERS)
            if name in sets_of(n_rows, label)
            for seed in SEEDS[n_rows]
        )
    ]


def cases(page, label, n_rows, sets):
    """Return the cases of a model: a list of splits for each set."""
    return {
        name: [
            page.case((label, name, n_rows, seed), partial(measured, label, name, n_rows, seed))
            for seed in SEEDS[n_rows]
        ]
        for name in sets_of(n_rows, label)
        if name in sets
    }


def log_ratios(ours, peer, value="loss"):
    """Return the mean log ratio of ours to the peer's for each set."""
    return {
        name: np.mean([np.log(a[value] / b[value]) for a, b in zip(ours[name], own, strict=True)])
        for name, own in peer.items()
    }


def with_interval(logs):
    """Return the geometric mean over sets, its 95 % interval, and wins and losses."""
    logs = np.array(list(logs))
    if len(logs) < 2:
        return f"{np.exp(logs[0]):.3f}"
    error = 1.96 * logs.std(ddof=1) / np.sqrt(len(logs))
    low, middle, high = np.exp(logs.mean() + error * np.array([-1, 0, 1]))
    return f"{middle:.3f} ({low:.3f} to {high:.3f}; {(logs < 0).sum()}-{(logs > 0).sum()})"


def finding(page, found):
    """Write what the tables show, in a few sentences."""
    models, regression = (
        {
            label: {n: own for n, own in sets.items() if n in some}
            for label, sets in found[1000].items()
        }
        for some in (CLASSIFICATION, REGRESSION)
    )
    ours, catboost, light = models[OURS], models["CatBoost"], models["LightGBM"]

    def middle(peer, value):
        return np.exp(np.mean(list(log_ratios(ours, peer, value).values())))

    sizes = [np.mean([case["bytes"] for case in own]) / 1e6 for own in ours.values()]
    slow = with_interval(log_ratios(ours, models["HGB, slow"]).values())
    page.text(
        f"With 1,000 training rows, on {len(ours)} classification sets with {len(SEEDS[1000])} "
        f"splits each, the log loss of boosted symmetric trees is "
        f"{with_interval(log_ratios(ours, catboost).values())} of CatBoost's and {slow} of that of "
        "slow histogram boosting (geometric mean, 95 % interval, sets won and lost). The fit "
        f"takes {middle(catboost, 'fit'):.2f} of CatBoost's processor time, 10,000 predictions "
        f"take {middle(light, 'predict'):.2f} of LightGBM's, and the largest model file has "
        f"{max(sizes):.1f} MB. Of the loss of one run, the average of all runs has "
        f"{with_interval(log_ratios(ours, models[ONE_RUN]).values())}, in regression "
        f"{with_interval(log_ratios(regression[OURS], regression[ONE_RUN]).values())}."
    )


def summary(page, found):
    """Write ratios to every peer, by task and number of training rows."""
    rows = []
    for n_rows, models in found.items():
        for task, sets in (("classification", CLASSIFICATION), ("regression", REGRESSION)):
            for peer in PEERS:
                chosen = {s: c for s, c in models[peer].items() if s in sets}
                if not chosen:
                    continue
                cells = [
                    with_interval(log_ratios(models[OURS], chosen).values()),
                    *(
                        f"{np.exp(np.mean(list(log_ratios(models[OURS], chosen, v).values()))):.2f}"
                        for v in ("fit", "predict")
                    ),
                ]
                rows.append([n_rows, task, peer, len(chosen), *cells])
    header = ("rows", "task", "compared with", "sets", "loss", "fit time", "prediction time")
    caption = (
        "Geometric means over sets of the ratio of `ObliviousBoosting` to each model (below 1 is "
        "better): held-out log loss or squared error with its 95 % interval over sets and wins and "
        "losses, processor time of the fit and of 10,000 predictions."
    )
    page.table(header, rows, caption=caption)


def table(page, n_rows, found):
    """Write the mean of all splits for each set."""
    header = ("set", OURS, *PEERS, "ratio to CatBoost", "fit s", "CatBoost fit s", "predict ms",
              "LightGBM predict ms", "file KB", "CatBoost file KB", "rounds", "depths")  # fmt: skip

    def mean(label, name, value, factor=1.0):
        if name not in found[label]:
            return "-"
        return f"{factor * np.mean([case[value] for case in found[label][name]]):.3g}"

    ratios = log_ratios(found[OURS], found["CatBoost"])
    rows = [
        [
            name,
            *(mean(label, name, "loss") for label in (OURS, *PEERS)),
            f"{np.exp(ratios[name]):.3f}",
            mean(OURS, name, "fit"),
            mean("CatBoost", name, "fit"),
            mean(OURS, name, "predict", 1e3),
            mean("LightGBM", name, "predict", 1e3),
            mean(OURS, name, "bytes", 1e-3),
            mean("CatBoost", name, "bytes", 1e-3),
            mean(OURS, name, "rounds"),
            ", ".join(str(case["depth"]) for case in own),
        ]
        for name, own in found[OURS].items()
    ]
    caption = (
        f"{n_rows} training rows (two thirds of sets with fewer), means of {len(SEEDS[n_rows])} "
        "splits: log loss, or squared error over the variance of the target; processor time of the "
        "fit and of 10,000 predictions; size of the model file; rounds and depths selected."
    )
    page.table(header, rows, caption=caption)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=(OURS, *PEERS), help="run one model, write no page")
    parser.add_argument("--sets", nargs="+", help="with --model, sets to run")
    parser.add_argument("--rows", nargs="+", type=int, default=[1000], help="with --sets, sizes")
    parser.add_argument("--stored", action="store_true", help="use complete sets only")
    arguments = parser.parse_args()
    only = arguments.model
    page = ResultsPage(
        "oblivious",
        "Boosted symmetric trees compared with CatBoost and histogram boosting",
        "`ObliviousBoostingClassifier` and `ObliviousBoostingRegressor` with their defaults, "
        "CatBoost 1.2 with its categorical features (and with category codes as numbers), "
        "scikit-learn's histogram boosting with its defaults and with a slow setting (rate 0.05, 8 "
        "leaves), LightGBM, and one run instead of several. The defaults were chosen on other "
        "splits of the same sets. All rows are training rows of their sets, at most 5,000 of them "
        "held out; one thread.",
        packages=("lightgbm",),
    )
    labels = [label for label in (OURS, *PEERS) if only in (None, label)]
    sets = {n: complete(n) if arguments.stored or is_rebuilding() else sets_of(n) for n in SEEDS}
    if arguments.sets:
        sets = dict.fromkeys(arguments.rows, arguments.sets)
    found = {
        n: {label: cases(page, label, n, sets[n]) for label in labels} for n in sets if sets[n]
    }
    if only:
        return
    finding(page, found)
    summary(page, found)
    for n_rows, models in found.items():
        table(page, n_rows, models)
    page.write()


if __name__ == "__main__":
    main()
