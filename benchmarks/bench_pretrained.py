"""How accurate are pretrained neighbours on small tables, and what do they add to others?

Splits of the training rows of public sets that played no part in the development of the network:
seeds 101 to 105, at most 200 or 1,000 rows to fit and up to 1,000 others to judge, the same for all
models. No published test row is used. Compared with ExtraTrees (500 trees), CatBoost and
AutoClassifier or AutoRegressor, all with their defaults. Seeds 301 to 305 compare the ensemble of
``preset="best"`` without neural neighbours, with and without pretrained ones. ``--cost`` measures
time and memory. Finished cases are stored; run any of them (``--sets``, ``--sizes``, ``--models``,
``--seeds``) in any order.
"""

import argparse
import json
import subprocess
import sys
import time

import numpy as np
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from _datasets import load_dataset
from _harness import ResultsPage, is_rebuilding, stored
from _pages import RESULTS
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.auto._base_models import FAMILIES
from vicinal.pretrained import PretrainedNeighborsClassifier, PretrainedNeighborsRegressor

CLASSIFICATION = (
    "iris", "wine", "vertebral", "wdbc", "wbc_original", "banana", "spambase", "optdigits",
    "satimage", "pendigits", "shuttle", "adult", "covtype", "census_income", "letter",
)  # fmt: skip
REGRESSION = ("diabetes", "laser", "mortgage", "airfoil", "puma32h", "grid_stability")
SIZES, SEEDS, ENSEMBLE_SEEDS = (200, 1000), range(101, 106), range(301, 306)
OURS = "pretrained"
WITHOUT, WITH = "ensemble without", "ensemble with"
MODELS = (OURS, "extra trees", "CatBoost", "auto")
_MOST_JUDGED = 1000
CASES = stored("pretrained")


def training_rows(name):
    """Return the training rows of a set, their targets and which columns are codes."""
    if name in ("iris", "diabetes"):
        X, y = (load_iris if name == "iris" else load_diabetes)(return_X_y=True)
        data = {"X": X, "y": y}
    else:
        data = load_dataset(name)
    if "X_train" in data:
        X, y = data["X_train"], data["y_train"]
    else:  # seven tenths of a fixed permutation
        rows = np.random.RandomState(0).permutation(len(data["y"]))[: int(0.7 * len(data["y"]))]
        X, y = data["X"][rows], data["y"][rows]
    is_category = np.zeros(X.shape[1], dtype=bool)
    is_category |= np.asarray(data.get("categorical_features", is_category), dtype=bool)
    return np.asarray(X, dtype=float), np.asarray(y), is_category


def split(name, size, seed):
    """Return rows to fit and to judge; classes with one row to fit are left out."""
    X, y, is_category = training_rows(name)
    order = np.random.RandomState(seed).permutation(len(y))
    n = min(size, int(0.7 * len(y)))
    fit, judge = order[:n], order[n : n + _MOST_JUDGED]
    if name in CLASSIFICATION:
        labels, counts = np.unique(y[fit], return_counts=True)
        known = labels[counts > 1]
        fit, judge = fit[np.isin(y[fit], known)], judge[np.isin(y[judge], known)]
        y = np.searchsorted(known, y)
    varies = np.nanstd(X[fit], axis=0) > 0
    return X[fit][:, varies], y[fit], X[judge][:, varies], y[judge], is_category[varies]


def frame(X, is_category):
    """Return a frame whose codes are categories."""
    import pandas as pd

    columns = {f"x{j}": column for j, column in enumerate(X.T)}
    for j in np.flatnonzero(is_category):
        columns[f"x{j}"] = pd.Categorical([f"c{code:.0f}" for code in X[:, j]])
    return pd.DataFrame(columns)


def predictions(label, name, size, seed):
    """Return probabilities or values of the judged rows, and processor seconds."""
    X, y, queries, _, is_category = split(name, size, seed)
    is_regression = name in REGRESSION
    if label == OURS:
        kind = PretrainedNeighborsRegressor if is_regression else PretrainedNeighborsClassifier
        model = kind(categorical_features=is_category, random_state=0)
    elif label == "extra trees":
        kind = ExtraTreesRegressor if is_regression else ExtraTreesClassifier
        model = kind(500, random_state=0)
    else:
        if is_category.any():
            X, queries = frame(X, is_category), frame(queries, is_category)
        if label == "CatBoost":
            import catboost

            kind = catboost.CatBoostRegressor if is_regression else catboost.CatBoostClassifier
            categorical = [f"x{j}" for j in np.flatnonzero(is_category)]
            model = kind(
                verbose=False, allow_writing_files=False, thread_count=1, cat_features=categorical,
                random_seed=0,
            )  # fmt: skip
        else:
            kind = AutoRegressor if is_regression else AutoClassifier
            options = {}
            if label != "auto":
                skipped = ("neural",) if label == WITH else ("neural", "pretrained")
                families = [family for family in FAMILIES if family not in skipped]
                options = {"preset": "best", "families": families}
            model = kind(**options, n_jobs=1, random_state=0)
    started = time.process_time()
    model.fit(X, y)
    found = model.predict(queries) if is_regression else model.predict_proba(queries)
    return np.asarray(found), time.process_time() - started


def losses(found, y):
    """Return the log loss of each row, or its squared error."""
    if found.ndim == 1:
        return (found - y) ** 2
    p = np.clip(found, 1e-7, 1)
    return -np.log(p[np.arange(len(y)), y] / p.sum(axis=1))


def case(label, name, size, seed):
    """Return the loss, the error in % and the processor seconds of a model."""
    y = split(name, size, seed)[3]
    found, seconds = predictions(label, name, size, seed)
    value = {"loss": losses(found, y).mean(), "cpu": seconds}
    if found.ndim == 2:
        value["error"] = 100 * np.mean(found.argmax(axis=1) != y)
    return value


COST = """
import json, resource, sys, time
import numpy as np
from vicinal import pretrained

X = np.random.RandomState(0).normal(size=(2000, 20))
y, kind = X[:, 0] * X[:, 1] + X[:, 2], sys.argv[1]
y = y if kind.endswith("Regressor") else y > 0
model, seconds = getattr(pretrained, kind)(random_state=0), []
model.fit(X[:20], y[:20]).predict(X[:20])  # reads the weights
megabytes = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]
for _ in range(5):
    started = time.process_time()
    model.fit(X[:1000], y[:1000]).predict(X[1000:])
    seconds.append(time.process_time() - started)
megabytes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(json.dumps({"seconds": seconds, "megabytes": megabytes}))
"""
KINDS = ("PretrainedNeighborsClassifier", "PretrainedNeighborsRegressor")


def cost(kind):
    """Return processor seconds of five fits with predictions, and peak memory before and after."""
    command = [sys.executable, "-W", "ignore", "-c", COST, kind]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def cost_table(page):
    """Add time and memory, if they are stored."""
    found = [(kind, CASES.find("cost", kind)) for kind in KINDS if CASES.has("cost", kind)]
    rows = [
        (f"`{kind}`", float(np.median(one["seconds"])), *(float(m) for m in one["megabytes"]))
        for kind, one in found
    ]
    if rows:
        page.text("## Time and memory")
        page.table(
            ("model", "processor seconds", "peak MB before", "peak MB after"), rows,
            "Fit to 1,000 rows of 20 columns and 1,000 predictions, two passes, one core: median "
            "of five, and peak memory of the process with the weights read and after all.",
        )  # fmt: skip


def ratio_line(pairs, what, floor=1e-9):
    """Return geometric mean, its 95 % interval over sets, and how often the first is lower."""
    logs = np.array(
        [np.mean(np.log(np.maximum(a, floor) / np.maximum(b, floor))) for a, b in pairs]
    )
    spread = 1.96 * logs.std(ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
    low, mean, high = np.exp([logs.mean() - spread, logs.mean(), logs.mean() + spread])
    return (what, len(logs), float(mean), f"{low:.3f} to {high:.3f}", int((logs < 0).sum()))


def compare(page, names, size, unit, models, seeds):
    """Add the table of one size and task, of the splits that are stored."""
    found = {
        m: {
            name: {s: CASES.find(m, name, size, s) for s in seeds if CASES.has(m, name, size, s)}
            for name in names
        }
        for m in models
    }
    rows = []
    for name in names:
        row = [name, "/".join(str(len(found[m][name])) for m in models)]
        for key, of in [("loss", m) for m in models] + [("cpu", m) for m in models]:
            values = [value[key] for value in found[of][name].values()]
            row.append(float(np.mean(values)) if values else "")
        rows.append(row)
    head = ("set", "splits", *models, *(f"{m} s" for m in models))
    page.table(head, rows, f"{unit.capitalize()} and processor seconds, means over splits.")

    def ratio(first, second, what):
        common = {n: sorted(found[first][n].keys() & found[second][n].keys()) for n in names}
        pairs = [
            [[found[m][n][s][what] for s in seeds] for m in (first, second)]
            for n, seeds in common.items()
            if seeds
        ]
        floor = 0.1 if what == "error" else 1e-9
        shown = "" if what == "loss" else f", {what}"
        return ratio_line(pairs, f"{first} / {second}{shown}", floor)

    lines = [ratio(models[0], other, "loss") for other in models[1:]]
    if models[0] == WITH and unit == "log loss":
        lines.append(ratio(*models, "error"))
    head = ("ratio", "sets", "geometric mean", "95 % interval over sets", "sets where lower")
    page.table(head, lines, "Ratios on common splits.")


def pairs_of(models, names, sizes, seeds, what):
    """Return, for every set, the values of two models on the splits that both have."""
    found = {}
    for name in names:
        keys = [(name, size, seed) for size in sizes for seed in seeds]
        keys = [key for key in keys if all(CASES.has(m, *key) for m in models)]
        if keys:
            found[name] = [[CASES.find(m, *key)[what] for key in keys] for m in models]
    return found


def findings(page):
    """Add what the page finds: the network alone and in the ensemble, over both sizes."""
    lines = []
    for models, seeds in (((OURS, "CatBoost"), SEEDS), ((WITH, WITHOUT), ENSEMBLE_SEEDS)):
        for names, what, floor, shown in (
            (CLASSIFICATION, "loss", 1e-9, "log loss"),
            (CLASSIFICATION, "error", 0.1, "error"),
            (REGRESSION, "loss", 1e-9, "squared error"),
        ):
            pairs = pairs_of(models, names, SIZES, seeds, what).values()
            lines.append(ratio_line(pairs, f"{models[0]} / {models[1]}, {shown}", floor))
    head = ("ratio", "sets", "geometric mean", "95 % interval over sets", "sets where lower")
    page.text(
        f"Alone, the network has {lines[0][2]:.2f} times the log loss of CatBoost on "
        f"{lines[0][1]} sets and {lines[2][2]:.2f} times its squared error on {lines[2][1]}. "
        f"Added to the ensemble, it lowers log loss to {lines[3][2]:.3f}, errors to "
        f"{lines[4][2]:.3f} and squared error to {lines[5][2]:.3f} of what they are without it."
    )
    page.text("![loss by data set](figures/pretrained_sets.png)")
    page.table(head, lines, "200 and 1,000 training rows together.")


def draw_sets():
    """Plot the loss of the network by set, relative to CatBoost."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10.4, 4.8))
    tasks = (
        ("classification (log loss)", CLASSIFICATION),
        ("regression (squared error)", REGRESSION),
    )
    for axis, (title, names) in zip(axes, tasks, strict=True):
        for size, mark in zip(SIZES, ("o", "s"), strict=True):
            pairs = pairs_of((OURS, "CatBoost"), names, (size,), SEEDS, "loss")
            logs = [np.log(np.divide(*pairs[name])) for name in names]
            mean = np.exp([one.mean() for one in logs])
            bars = np.exp([one.std(ddof=1) / np.sqrt(len(one)) for one in logs])
            at = np.arange(len(names)) + (0.15 if size == SIZES[0] else -0.15)
            reach = [mean - mean / bars, mean * bars - mean]
            axis.errorbar(mean, at, xerr=reach, fmt=mark, ms=5, label=f"{size:,} rows")
        axis.set_yticks(np.arange(len(names)), names)
        axis.axvline(1.0, color="0.7", zorder=0)
        axis.set(xscale="log", title=title, xlabel="loss / loss of CatBoost (left: better)")
        low, high = axis.get_xlim()
        ticks = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50)
        axis.set_xticks([t for t in ticks if low < t < high])
        axis.get_xaxis().set_major_formatter("{x:g}")
        axis.minorticks_off()
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / "figures" / "pretrained_sets.png", dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=[*CLASSIFICATION, *REGRESSION])
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--models", nargs="*", default=(*MODELS, WITH, WITHOUT))
    parser.add_argument("--seeds", nargs="*", type=int, help="other splits than those of the page")
    parser.add_argument("--page", action="store_true", help="write the page of what is stored")
    parser.add_argument("--cost", action="store_true", help="measure time and memory alone")
    options = parser.parse_args()
    page = ResultsPage(
        "pretrained", "Pretrained neighbours on small tables",
        "Accuracy of a network that was trained on simulated tables only, with two passes, "
        "compared with the defaults of other models (ExtraTrees has 500 trees). Splits of training "
        "rows with seeds from 101 on, which played no part in its development; no published test "
        "row. The column of splits counts those of each model. \"auto\" is AutoClassifier or "
        "AutoRegressor. Below, the ensemble of ``preset=\"best\"`` (without neural neighbours) "
        "with and without pretrained neighbours, on splits from seed 301 on. An NVIDIA "
        "H200 computed the network there. Errors below 0.1 % count as 0.1 %.",
        packages=("catboost",),
    )  # fmt: skip
    if options.cost:
        for kind in KINDS:
            page.case(("cost", kind), lambda kind=kind: cost(kind))
        return
    if not (options.page or is_rebuilding()):
        for label in options.models:
            own = ENSEMBLE_SEEDS if label in (WITH, WITHOUT) else SEEDS
            for seed in options.seeds or own:
                for size in options.sizes:
                    for name in options.sets:
                        key = (label, name, size, seed)
                        page.case(key, lambda key=key: case(*key))
        return
    findings(page)
    if not is_rebuilding():
        draw_sets()
    for size in SIZES:
        page.text(f"## At most {size} training rows")
        for models, seeds in ((MODELS, SEEDS), ((WITH, WITHOUT), ENSEMBLE_SEEDS)):
            compare(page, CLASSIFICATION, size, "log loss", models, seeds)
            compare(page, REGRESSION, size, "mean squared error", models, seeds)
    cost_table(page)
    page.write()


if __name__ == "__main__":
    main()
