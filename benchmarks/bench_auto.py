"""AutoClassifier and AutoRegressor with 5,000 rows, on published splits, and their estimated score.

Random splits with at most 1,000 or 5,000 training rows and the published splits whole, compared
with defaults of other libraries and with ensembles without some families. CatBoost runs in the
Python named by VICINAL_PEERS. Cases are stored one by one (``--parts``, ``--sets``, ``--models``,
``--seeds``); the page shows a split when every model of its table has run it.
"""

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from _datasets import load_dataset
from _harness import ResultsPage, is_rebuilding, reset_peak_memory, resident_mb, stored
from vicinal._kernels.ensemble._weights import pool_weights
from vicinal.auto import AutoClassifier, AutoRegressor

OURS = "vicinal"
TREES = ("random forest", "extra trees", "hist. boosting", "LightGBM")
SLOW = ("EBM", "xRFM")  # one split, until the comparison has them
# Models of other environments, and the variables that name their Pythons.
PEERS = {
    "CatBoost": "VICINAL_PEERS",
    "XGBoost": "VICINAL_PEERS",
    "EBM": "VICINAL_PEERS_SLOW",
    "xRFM": "VICINAL_PEERS_SLOW",
}
KINDS = ("constant", "linear", "kernel", "local", "forest", "boosting", "gradient")
ABLATION = {f"without {kind}": [k for k in KINDS if k != kind] for kind in KINDS[1:]}
# Our members under the weights that suit the test rows best: what better weighing could gain.
HINDSIGHT = "weights in hindsight"
CLASSIFICATION = (
    "wine", "vertebral", "wdbc", "wbc_original", "banana", "spambase", "optdigits", "satimage",
    "pendigits", "letter", "shuttle", "adult", "covtype", "census_income", "isolet",
)  # fmt: skip
REGRESSION = (
    "diabetes", "laser", "mortgage", "airfoil", "friedman1", "friedman2", "friedman3", "puma32h",
    "grid_stability",
)  # fmt: skip
PUBLISHED = (
    "satimage", "pendigits", "letter", "optdigits", "shuttle", "isolet", "spambase", "adult",
)  # fmt: skip
_FRIEDMAN = {
    "friedman1": (make_friedman1, 1.0),
    "friedman2": (make_friedman2, 125.0),
    "friedman3": (make_friedman3, 0.1),
}
_MAX_TEST_ROWS = 4000
_PATIENCE = 300  # seconds after which a peer is stopped
STOPPED = f"stopped after {_PATIENCE} s"

ANSWERS = stored("auto")


# --- tables -------------------------------------------------------------------------------------


class Table(NamedTuple):
    """A data set: as people have it (a frame where there are words), as codes, as numbers."""

    given: object
    coded: np.ndarray
    is_category: np.ndarray
    y: np.ndarray
    n_published: int | None

    @property
    def numbers(self) -> np.ndarray:
        """The table with categories as indicator columns."""
        words = self.coded[:, self.is_category].astype(int)
        indicators = [np.eye(column.max() + 1)[column] for column in words.T]
        return np.hstack([*indicators, self.coded[:, ~self.is_category]])


def _varies(X: np.ndarray) -> np.ndarray:
    """Tell which columns take several values, or some that are missing."""
    return ~(X == X[0]).all(axis=0)


class Split(NamedTuple):
    """Training and test rows of one table."""

    table: Table
    train: np.ndarray
    test: np.ndarray

    def part(self, form: str) -> tuple:
        """Return training and test rows in one of the table's forms, varying columns alone."""
        X = getattr(self.table, form)
        if not isinstance(X, np.ndarray):
            return X.iloc[self.train], X.iloc[self.test]
        varies = _varies(X[self.train])
        return X[self.train][:, varies], X[self.test][:, varies]

    def varying(self) -> np.ndarray:
        """Tell which columns of the codes take more than one value in training rows."""
        return _varies(self.table.coded[self.train])


def load(name: str) -> Table:
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
    elif name in _FRIEDMAN:
        make, noise = _FRIEDMAN[name]
        X, y = make(n_samples=1500, noise=noise, random_state=0)
    else:
        data = load_dataset(name)
        if "X_train" in data:
            return _published(name, data)
        # One set marks missing grades; zero, their code in the original, stands for them.
        X, y = np.nan_to_num(np.asarray(data["X"], dtype=float)), np.asarray(data["y"])
    return Table(X, X, np.zeros(X.shape[1], dtype=bool), y, None)


def _published(name: str, data) -> Table:
    X = np.vstack([data["X_train"], data["X_test"]]).astype(float)
    y = np.r_[data["y_train"], data["y_test"]]
    if "categorical_features" not in data:
        return Table(X, X, np.zeros(X.shape[1], dtype=bool), y, len(data["y_train"]))
    import pandas as pd

    named = load_dataset(name, as_frame=True)
    frame = pd.concat([named.X_train, named.X_test], ignore_index=True)
    is_category = np.asarray(data["categorical_features"], dtype=bool)
    return Table(frame, X, is_category, y, len(data["y_train"]))


def split(name: str, part: str, seed: int) -> Split:
    """Return seven tenths (at most as many rows as the part has) and others, or the published."""
    table = load(name)
    n = len(table.y)
    if part == "published":
        return Split(table, np.arange(table.n_published), np.arange(table.n_published, n))
    order, cut = np.random.RandomState(seed).permutation(n), int(0.7 * n)
    return Split(table, order[: min(int(part), cut)], order[cut : cut + _MAX_TEST_ROWS])


def task_of(name: str) -> str:
    return "regression" if name in REGRESSION else "classification"


# --- models -------------------------------------------------------------------------------------


def ours(task: str, families="default"):
    model = AutoClassifier if task == "classification" else AutoRegressor
    return model(families, n_jobs=1, random_state=0)


@cache
def warm_up(kind) -> None:
    """Compile, or load from the cache, what a fit needs."""
    rng = np.random.RandomState(0)
    X = rng.randn(220, 4)
    y = X[:, 0] + 0.1 * rng.randn(220)
    kind(n_jobs=1, random_state=0).fit(X, y if kind is AutoRegressor else y > 0).predict(X)


def single(task: str, n_estimators: int) -> dict:
    """Return the defaults of the field, scale-sensitive ones standardised."""
    from lightgbm import LGBMClassifier, LGBMRegressor  # not needed to build the page again

    position = 0 if task == "classification" else 1
    settings = {"n_jobs": 1, "random_state": 0}
    forest, extra, boost, light, svm, near, linear, stack = (
        pair[position]
        for pair in (
            (RandomForestClassifier, RandomForestRegressor),
            (ExtraTreesClassifier, ExtraTreesRegressor),
            (HistGradientBoostingClassifier, HistGradientBoostingRegressor),
            (LGBMClassifier, LGBMRegressor),
            (SVC, SVR),
            (KNeighborsClassifier, KNeighborsRegressor),
            (lambda: LogisticRegression(max_iter=1000), RidgeCV),
            (StackingClassifier, StackingRegressor),
        )
    )
    found = {
        "random forest": forest(n_estimators, **settings),
        "extra trees": extra(n_estimators, **settings),
        "hist. boosting": boost(random_state=0),
        "LightGBM": light(verbose=-1, **settings),
        "SVM": make_pipeline(StandardScaler(), svm()),
        "k-NN": make_pipeline(StandardScaler(), near()),
        "linear": make_pipeline(StandardScaler(), linear()),
    }
    members = [(name, model) for name, model in found.items() if name != "LightGBM"]
    return found | {"stacking": stack(members, n_jobs=1)}


# --- one case -----------------------------------------------------------------------------------


def judge(name: str, part: str, label: str, seed: int) -> dict:
    """Return error in per cent, its standard error over test rows, seconds and memory."""
    rows, task = split(name, part, seed), task_of(name)
    y, y_test = rows.table.y[rows.train], rows.table.y[rows.test]
    if task == "regression":
        mean, scale = y.mean(), y.std()
        y, y_test = (y - mean) / scale, (y_test - mean) / scale
    if label in PEERS:
        answers, found = peer_predictions(label, task, rows, y)
        found.pop("probabilities", None)
    else:
        answers, found = ask_here(label, task, rows, y, 500 if part == "published" else 100)
    if answers is None:
        return found
    if task == "classification":
        losses = (answers.astype(y_test.dtype) != y_test).astype(float)
    else:
        losses = (answers - y_test) ** 2 / y_test.var()
    found["error"] = 100.0 * losses.mean()
    found["its error"] = 100.0 * losses.std() / np.sqrt(len(losses))
    # What the error is a share of, in units of what the score is a share of.
    found["unit"] = float(y_test.var()) if task == "regression" else 1.0
    return found


def ask_here(label: str, task: str, rows: Split, y, n_estimators: int):
    is_ours = label in (OURS, HINDSIGHT) or label in ABLATION
    # LightGBM and we take words as they are; the others get indicator columns.
    form = "given" if is_ours or label == "LightGBM" else "numbers"
    X, X_test = rows.part(form)
    if is_ours:
        model = ours(task, ABLATION.get(label, "default"))
    else:
        model = single(task, n_estimators)[label]
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # or a model would live in what the one before it gave back
    reset_peak_memory()
    before = resident_mb()
    started, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
        fitted, fitted_wall = time.process_time(), time.perf_counter()
        if label == HINDSIGHT:
            answers = in_hindsight(model, X_test, rows.table.y[rows.test])
        else:
            answers = model.predict(X_test)
    found = {
        "fit": fitted - started,
        "wall": fitted_wall - wall,
        "predict": time.process_time() - fitted,
        "memory": resident_mb("VmHWM") - before,
    }
    if is_ours:
        found["score"], found["score error"] = model.score_, model.score_error_
        found["members"] = [f"{m.name} {m.weight:.2f}" for m in model.estimators_]
    return np.asarray(answers), found


def in_hindsight(model, X, y):
    """Return labels by the weights of least log loss on these rows themselves."""
    answers = model.contributions(X) / model.weights_[model.weights_ > 0.0][:, None]
    known = np.flatnonzero(np.isin(y, model.classes_))
    own = answers[known, :, np.searchsorted(model.classes_, y[known])]
    weights = pool_weights(own, np.full(len(known), 1.0 / len(known)), ridge=0.0)
    return model.classes_[np.einsum("m,nmc->nc", weights, answers).argmax(axis=1)]


def peer_predictions(label: str, task: str, rows: Split, y):
    """Return predictions and costs of a peer in its own environment, None if it took too long."""
    X, X_test = rows.part("coded")
    is_category = rows.table.is_category[rows.varying()]
    classes, codes = np.unique(y, return_inverse=True)
    target = codes if task == "classification" else y
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.npz"
        np.savez(table, X=X, y=target, X_test=X_test, is_category=is_category)
        script = Path(__file__).with_name("_peers_auto.py")
        command = [os.environ[PEERS[label]], script, label, task, table]
        try:
            done = subprocess.run(
                [str(word) for word in command],
                env={**os.environ, "PYTHONPATH": ""},
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, {"error": None, "reason": STOPPED}
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1][:200]
            return None, {"error": None, "reason": reason}
        found = json.loads(done.stdout.strip().splitlines()[-1])
        answers = np.load(table.with_suffix(".answers.npy"))
        if table.with_suffix(".probabilities.npy").exists():
            found["probabilities"] = np.load(table.with_suffix(".probabilities.npy"))
    return (classes[answers.astype(int)] if task == "classification" else answers), found


# --- the page -----------------------------------------------------------------------------------


def answered(name: str, part: str, labels) -> list[list[dict]]:
    """Return the answers of the splits that every one of these models has answered."""
    found = []
    for seed in range(10):
        if all(ANSWERS.has(name, part, label, seed) for label in labels):
            found.append([ANSWERS.find(name, part, label, seed) for label in labels])
    return found


def is_answered(part: str, labels) -> bool:
    """Tell whether these models have all answered a split of some set."""
    return any(answered(name, part, labels) for name in (*CLASSIFICATION, *REGRESSION))


def errors_of(found) -> np.ndarray:
    """Return errors by split and model, infinite where a model gave no answer."""
    return np.array(
        [[np.inf if c["error"] is None else c["error"] for c in case] for case in found]
    )


def rank_table(page: ResultsPage, task: str, part: str, labels, caption: str) -> None:
    """Add mean errors per set, mean ranks, ratios to ours, processor seconds and memory."""
    names = REGRESSION if task == "regression" else CLASSIFICATION
    rows, ranks, ratios, costs = [], [], [], []
    for name in names:
        found = answered(name, part, labels)
        if not found:
            continue
        errors = errors_of(found)
        mean = errors.mean(axis=0)
        # Splits of one set overlap: a set counts once, with its mean rank.
        ranks.append(np.mean([_ranks(row) for row in errors], axis=0))
        ratios.append(_ratio(mean, mean[0], task))
        costs.append(_costs(found))
        rows.append([f"{name} ({len(found)})", *_marked(mean)])
    if not rows:
        return
    ranks, costs = np.array(ranks), np.array(costs)
    rows.append(["mean rank", *(f"{r:.2f}" for r in ranks.mean(axis=0))])
    if len(ranks) > 1:
        spread = ranks.std(axis=0, ddof=1) / np.sqrt(len(ranks))
        rows.append(["its standard error, over sets", *(f"{r:.2f}" for r in spread)])
    rows.append(["geometric mean of ratios to ours", *_geometric(ratios)])
    for label, cost in zip(_COSTS.values(), np.nanmean(costs, axis=0), strict=True):
        rows.append([label, *(f"{c:.2f}" if c < 100 else f"{c:.0f}" for c in cost)])
    page.table(["set (splits)", *labels], rows, caption=caption)


_COSTS = {
    "fit": "fit, processor seconds",
    "predict": "predict, processor seconds",
    "memory": "peak memory, MB",
}


def _costs(found) -> np.ndarray:
    """Return mean costs, a row per cost, a column per model."""
    costs = [[[c.get(k, np.nan) for c in case] for k in _COSTS] for case in found]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a peer without any answer has no cost
        return np.nanmean(costs, axis=0)


def _marked(errors: np.ndarray) -> list[str]:
    """Return errors as cells, the least in bold, a dash where there is none."""
    return [
        "-" if not np.isfinite(e) else f"**{e:.2f}**" if e <= errors.min() * 1.0001 else f"{e:.2f}"
        for e in errors
    ]


def _ratio(error, to, task: str):
    """Return a ratio of errors; half a point more of wrong labels in both, or 0 would decide."""
    more = 0.5 if task == "classification" else 0.0
    return (error + more) / (to + more)


def _geometric(ratios) -> list[str]:
    """Return geometric means over the sets that a model has answered."""
    usable = np.where(np.isfinite(ratios), ratios, np.nan)
    return [f"{g:.3f}" for g in np.exp(np.nanmean(np.log(usable), axis=0))]


def _ranks(errors: np.ndarray) -> np.ndarray:
    """Return ranks, ties shared; models without an answer share the last places."""
    below = (errors[None, :] < errors[:, None] - 1e-12).sum(axis=1)
    same = np.isclose(errors[None, :], errors[:, None], rtol=0.0, atol=1e-12).sum(axis=1)
    return below + (same + 1) / 2.0


def published_table(page: ResultsPage) -> None:
    """Add the published splits: ours, others, seconds per forest."""
    labels = (OURS, *TREES)
    rows, mixed, on_device = [], [], stored("auto_cuda")
    for name in PUBLISHED:
        found = answered(name, "published", labels)
        if not found:
            continue
        mine, forest = found[0][0], found[0][1]
        nets = on_device.find(name, "all", "with nets")
        rows.append(
            [
                name,
                f"{mine['error']:.2f}",
                f"{nets['error']:.2f}" if nets else "-",
                f"{100 * (1 - mine['score']):.2f} ± {100 * mine['score error']:.2f}",
                *(f"{case['error']:.2f}" for case in found[0][1:]),
                f"{mine['fit']:.0f}",
                f"{mine['fit'] / forest['fit']:.1f}",
                f"{mine['predict']:.1f}",
            ]
        )
        mixed.append(f"- {name}: {', '.join(mine['members'])}")
    if not rows:
        return
    header = ["set", "ours", "ours on a GPU", "estimated", *TREES]
    header += ["our fit, CPU s", "/ forest's", "our predict, CPU s"]
    page.text(
        "## Published splits\n\nTest error in %, all training rows; forests of 500 trees. On a "
        "GPU (section AutoClassifier on a GPU) neural networks are used and trees are not. "
        "LightGBM and histogram boosting put no penalty on leaves by default, and fail "
        "on shuttle, one of whose classes has six training rows."
    )
    page.table(header, rows)
    page.text("\n".join(mixed))


def score_table(page: ResultsPage) -> None:
    """Add how often the estimated score was right on test rows."""
    page.text(
        "## Estimated scores compared with test scores\n\nHow often the error that `score_` "
        "estimated was within two standard errors of the error on test rows: its own "
        "(`score_error_`), and that of the difference, because test rows are a sample, too. For a "
        "normal variable it is 95 %. The mean is of the difference, estimate less found, in its "
        "standard errors."
    )
    rows = []
    for task, names in (("classification", CLASSIFICATION), ("regression", REGRESSION)):
        own, both = [], []
        for name in names:
            for part in ("1000", "5000", "published"):
                for (case,) in answered(name, part, [OURS]):
                    if "unit" not in case:
                        continue
                    told, its = 100 * (1 - case["score"]), 100 * case["score error"]
                    found, error = (case[key] * case["unit"] for key in ("error", "its error"))
                    own.append(abs(told - found) <= 2 * its)
                    both.append([told - found, np.hypot(its, error)])
        if own:
            off, errors = np.array(both).T
            held = np.abs(off) <= 2 * errors
            # Where neither saw an error there is nothing to measure by.
            mean = np.mean(off[errors > 0] / errors[errors > 0])
            rows.append(
                [task, len(own), f"{np.mean(own):.1%}", f"{held.mean():.1%}", f"{mean:+.2f}"]
            )
    page.table(["task", "fits", "own", "of the difference", "mean"], rows)


def ablation(page: ResultsPage) -> None:
    """Add ensembles without kernel ridge and gradient metrics on more rows."""
    smooth = (OURS, "without gradient", "without kernel")
    if is_answered("5000", smooth):
        page.text(
            "## Without gradient metrics and kernel ridge, at most 5,000 rows\n\nAt most 1,000 "
            "rows: [What each model family adds](#what-each-model-family-adds). In "
            "classification kernel ridge is tried on at most 2,000 rows."
        )
        rank_table(page, "regression", "5000", smooth, "**Regression**")


def write(page: ResultsPage) -> None:
    labels = (OURS, *TREES, "CatBoost")
    if is_answered("5000", labels):
        page.text(
            "## At most 5,000 rows\n\nTwo classes of shuttle have two rows each. Histogram "
            "boosting, which has no penalty on leaves by default, fails on them."
        )
    for task in ("classification", "regression"):
        rank_table(page, task, "5000", labels, f"**{task.capitalize()}**")
    ablation(page)
    published_table(page)
    score_table(page)
    if is_answered("1000", (OURS, HINDSIGHT)):
        page.text(
            "## What better weights could gain\n\nThe base models with weight again, averaged by "
            "the weights of least log loss on the test rows themselves: no method that selects "
            "weights can be expected to do better. At most 1,000 training rows, only sets with "
            "1,000 test rows or more, because weights overfit fewer. What neural networks could "
            "add is on [the page of the GPU](auto_cuda.md)."
        )
    rank_table(page, "classification", "1000", (OURS, HINDSIGHT), "**Classification**")
    if any(is_answered("1000", (OURS, peer)) for peer in SLOW):
        page.text(
            "## Compared with EBM and xRFM, one split of at most 1,000 rows\n\nNo result after "
            f"{_PATIENCE} s is a dash, ranked last and left out of the ratios."
        )
    for peer in SLOW:
        for task in ("classification", "regression"):
            rank_table(page, task, "1000", (OURS, peer), f"**{peer}, {task}**")
    page.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="*", default=[], choices=("1000", "5000", "published"))
    parser.add_argument("--sets", nargs="*", default=[*CLASSIFICATION, *REGRESSION])
    parser.add_argument("--models", nargs="*", default=[OURS, *TREES, "CatBoost"])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    options = parser.parse_args([] if is_rebuilding() else sys.argv[1:])
    page = ResultsPage(
        "auto",
        "More rows, published splits and the estimated score",
        "`AutoClassifier()` and `AutoRegressor()` compared with the defaults of other libraries on "
        "splits with seeds from 0. They are not blind: the model families were selected after test "
        "errors of one split of most sets had been seen. All models see the same rows; strings are "
        "given as they are to vicinal, LightGBM and CatBoost and as indicator columns to the "
        "others. Errors are wrong labels, or squared errors in units of the variance, in %. Ratios "
        "of wrong labels are of (error + half a point), means over sets are geometric.",
        packages=("lightgbm",),
    )
    models = list(ABLATION) if options.models == ["ablation"] else options.models
    for seed in options.seeds:
        for part in options.parts:
            for name in options.sets:
                if part == "published" and (seed or name not in PUBLISHED):
                    continue
                for label in models:
                    key = (name, part, label, seed)
                    page.case(key, lambda k=key: judge(*k))
    write(page)


if __name__ == "__main__":
    main()
