"""Do intervals and label sets cover in every group of the rows?"""

import argparse

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split

from _datasets import load_dataset
from _harness import ResultsPage
from vicinal.uncertainty import ConformalClassifier, ConformalRegressor

COVERAGE = 0.9
MAX_ROWS = 1000
# Sets with the column that makes the groups: its values, or its quintiles.
REGRESSION = {
    "diabetes": 1,
    "laser": 0,
    "mortgage": 0,
    "airfoil": 0,
    "puma32h": 0,
    "grid_stability": 0,
}
CLASSIFICATION = {
    "adult": 9,  # sex
    "banana": 0,
    "spambase": 56,
    "satimage": 0,
    "pendigits": 0,
    "letter": 0,
}
SIMULATED = ("noise", "tails", "skew", "sizes")


def simulated(kind, task, rng, n=6000):
    """Return rows of groups (column 0) whose errors differ in size, tails, direction or number."""
    share = [0.6, 0.3, 0.1] if kind == "sizes" else [1 / 3, 1 / 3, 1 / 3]
    group, X = rng.choice(3, n, p=share), rng.normal(size=(n, 4))
    noise = {
        "noise": rng.normal(size=n) * (0.3 + group),
        "tails": np.where(group == 0, rng.standard_t(2, size=n), rng.normal(size=n)),
        "skew": np.where(group == 0, rng.exponential(size=n), rng.normal(size=n)),
        "sizes": rng.normal(size=n) * (1 + 2 * (group == 2)),
    }[kind]
    y = X[:, 0] + X[:, 1] * X[:, 2] + noise
    return np.column_stack([group, X]), y if task == "regression" else np.digitize(y, [-1, 1])


def table(name, task, rng):
    if name in SIMULATED:
        return *simulated(name, task, rng), 0
    if name == "diabetes":
        return *load_diabetes(return_X_y=True), REGRESSION[name]
    data = load_dataset(name)
    if "X_train" in data:
        X, y = np.vstack([data.X_train, data.X_test]), np.r_[data.y_train, data.y_test]
    else:
        X, y = data.X, data.y
    return np.asarray(X, dtype=float), np.asarray(y), (REGRESSION | CLASSIFICATION)[name]


def groups_of(train, values):
    """Return the group of each value as ``by`` makes them."""
    if len(np.unique(train)) > 20:
        return np.searchsorted(np.quantile(train, [0.2, 0.4, 0.6, 0.8]), values)
    return np.searchsorted(np.unique(train), values)


def case(name, task, seed):
    """Return for each group the number of test rows and the covered share, by group and pooled."""
    X, y, column = table(name, task, np.random.RandomState(seed))
    stratify = y if task == "classification" else None
    A, B, a, b = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=stratify)
    A, a, B, b = A[:MAX_ROWS], a[:MAX_ROWS], B[:5000], b[:5000]
    make = RandomForestRegressor if task == "regression" else RandomForestClassifier
    wrap = ConformalRegressor if task == "regression" else ConformalClassifier
    model = wrap(make(30, min_samples_leaf=3, random_state=0), random_state=seed).fit(A, a)
    found = []
    for by in (column, None):
        if task == "regression":
            ends = model.predict_interval(B, COVERAGE, by=by)
            found.append((ends[:, 0] <= b) & (b <= ends[:, 1]))
        else:
            sets = model.predict_set(B, COVERAGE, method="threshold", by=by)
            found.append(sets[np.arange(len(b)), np.searchsorted(model.classes_, b)])
    groups = groups_of(A[:, column], B[:, column])
    return {
        str(group): [int(rows.sum()), *(float(part[rows].mean()) for part in found)]
        for group in np.unique(groups)
        if (rows := groups == group).sum() >= 30
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    splits = parser.parse_args().splits
    page = ResultsPage(
        "groups",
        "Coverage by group on twenty tables",
        "Do intervals and label sets have their nominal coverage of 0.9 within each group of the "
        "rows, and how far off are they without `by`?",
    )
    tasks = [("regression", name) for name in (*REGRESSION, *SIMULATED)]
    tasks += [("classification", name) for name in (*CLASSIFICATION, *SIMULATED)]
    lines, signed, worst = [], [], []
    for task, name in tasks:
        cases = [
            page.case((task, name, seed), lambda t=task, n=name, s=seed: case(n, t, s))
            for seed in range(splits)
        ]
        groups = [g for g in cases[0] if all(g in found for found in cases)]
        # (splits, groups, by group or pooled), in points
        covered = 100 * (np.array([[f[g][1:] for g in groups] for f in cases]) - COVERAGE)
        difference = covered.mean(axis=0)
        error = covered.std(axis=0, ddof=1) / np.sqrt(splits)
        ratio = difference / error
        at = np.abs(difference).argmax(axis=0)
        signed.append(ratio)
        worst.append(np.abs(difference).max(axis=0))
        shown = [f"{difference[at[k], k]:+.1f} ± {error[at[k], k]:.1f}" for k in (0, 1)]
        within = [f"{int((np.abs(ratio[:, k]) <= 2).sum())} of {len(groups)}" for k in (0, 1)]
        lines.append([task, name, *within, *shown])
    ratio, worst = np.vstack(signed), np.array(worst)
    page.table(
        ["task", "table", "within 2 SE", "the same, pooled", "worst group", "the same, pooled"],
        lines,
        f"Groups whose coverage is within two standard errors (SE, over {splits} splits) of 0.9, "
        "and the points by which the worst group differs; a forest of 30 trees, at most "
        f"{MAX_ROWS} training rows. Groups are the values of one column, or its quintiles. "
        "*Pooled* is without `by`.",
    )
    below, above = (ratio < -2).sum(axis=0), (ratio > 2).sum(axis=0)
    page.text(
        f"By group, the coverage of {below[0]} of {len(ratio)} groups is below 0.9 by more than "
        f"two standard errors ({0.025 * len(ratio):.0f} would be by chance), and that of "
        f"{above[0]} above it: the guarantee is one-sided, and a model of all rows is a little "
        "better than the held-out models whose errors calibrate it. Without `by`, "
        f"{below[1]} are below and {above[1]} above. The worst "
        f"group of a table differs by {np.median(worst[:, 0]):.1f} points (median of tables; "
        f"largest {worst[:, 0].max():.1f}), pooled by {np.median(worst[:, 1]):.1f} "
        f"({worst[:, 1].max():.1f})."
    )
    page.write()


if __name__ == "__main__":
    main()
