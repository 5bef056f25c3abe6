"""Which settings of the partition classifier should be the default? Held-out training data decide.

Usage: python benchmarks/bench_partition_defaults.py [--sets letter,...] [--page]
"""

import argparse

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from _harness import Cases, ResultsPage, clocked, stored
from _partition import SETS, load_split
from vicinal.linear import AveragedPerceptron, WeightedLDA
from vicinal.partition import SpacePartitioningClassifier

# Every line differs from the first one in what it names.
BASE = {
    "region_estimator": "perceptron",
    "n_regions": 5,
    "n_init": 10,
    "max_iter": 15,
    "keep": "last",
    "combine": "average",
}
CANDIDATES = {
    "base: perceptron, 5 regions, 10 starts, 15 sweeps, average, last sweep": {},
    "sweep of least training error": {"keep": "best"},
    "5 sweeps": {"max_iter": 5},
    "8 sweeps": {"max_iter": 8},
    "30 sweeps": {"max_iter": 30},
    "1 region": {"n_regions": 1},
    "2 regions": {"n_regions": 2},
    "10 regions": {"n_regions": 10},
    "15 regions": {"n_regions": 15},
    "regions by validation": {"n_regions": "auto"},
    "5 starts": {"n_init": 5},
    "20 starts": {"n_init": 20},
    "random starts": {"init": "random"},
    "hyperplane starts": {"init": "hyperplane"},
    "class starts": {"init": "classes"},
    "best start by training error": {"combine": "best", "keep": "best"},
    "best start by validation": {"combine": "best", "keep": "best", "selection": "validation"},
    "monotone sweeps": {"monotone": True, "max_iter": 50},
    "3 epochs": {"region_estimator": AveragedPerceptron(max_iter=3)},
    "30 epochs": {"region_estimator": AveragedPerceptron(max_iter=30)},
    "LDA": {"region_estimator": "lda"},
    "LDA, sweep of least training error": {"region_estimator": "lda", "keep": "best"},
    "LDA, shrinkage 0.1": {"region_estimator": WeightedLDA(shrinkage=0.1)},
    "logistic, C=1": {"region_estimator": LogisticRegression()},
    "logistic, C=100": {"region_estimator": LogisticRegression(C=100.0)},
    "logistic, C=10": {"region_estimator": LogisticRegression(C=10.0, tol=1e-3)},
    "logistic, C=10, 8 sweeps": {
        "region_estimator": LogisticRegression(C=10.0, tol=1e-3),
        "max_iter": 8,
    },
    "logistic, C=10, 15 regions, 8 sweeps": {
        "region_estimator": LogisticRegression(C=10.0, tol=1e-3),
        "n_regions": 15,
        "max_iter": 8,
    },
    "logistic, C=10, 8 sweeps, regions by validation (the default)": {
        "region_estimator": LogisticRegression(C=10.0, tol=1e-3),
        "n_regions": "auto",
        "max_iter": 8,
    },
    "soft gates, 3 starts, 200 iterations": {"gating": "soft", "n_init": 3, "max_iter": 200},
}
# The largest sets are cut down: defaults need many fits, not many rows.
MAX_ROWS = 6000


def validation_split(name: str):
    X, y, _, _ = load_split(name)
    if len(y) > MAX_ROWS:
        rng = np.random.RandomState(0)
        rows = rng.permutation(len(y))[:MAX_ROWS]
        X, y = X[rows], y[rows]
    # Shuttle has classes of a few rows, which cannot be stratified.
    strata = y if np.unique(y, return_counts=True)[1].min() > 1 else None
    return train_test_split(X, y, test_size=0.25, stratify=strata, random_state=0)


def case(name: str, settings: dict) -> dict:
    X, X_held, y, y_held = validation_split(name)
    model = SpacePartitioningClassifier(**{**BASE, **settings}, random_state=0).fit(X, y)
    return {"error": 100 * (1 - model.score(X_held, y_held)), "regions": model.n_regions_}


def write_page(store: Cases) -> None:
    page = ResultsPage(
        "partition_defaults",
        "Defaults of the partition classifier",
        "Error in per cent on a quarter of the training data that was held out of the fit (largest "
        f"sets cut to {MAX_ROWS} rows). No test data were used. Each line changes the first one as "
        "it says. The last columns give the mean ratio to the base line and the time.",
    )
    base = {s: store.find(s, next(iter(CANDIDATES))) for s in SETS}
    rows = []
    for label in CANDIDATES:
        found = {s: store.find(s, label) for s in SETS}
        # Half an error in a hundred rows is added on both sides, so that a set without errors
        # does not decide alone.
        ratios = [(found[s]["error"] + 0.1) / (base[s]["error"] + 0.1) for s in SETS if found[s]]
        times = [found[s]["cpu"] / base[s]["cpu"] for s in SETS if found[s]]
        cells = [f"{found[s]['error']:.2f}" if found[s] else "-" for s in SETS]
        if not ratios:
            continue
        mean = f"{np.exp(np.mean(np.log(ratios))):.2f}"
        rows.append([label, *cells, mean, f"{np.exp(np.mean(np.log(times))):.2f}"])
    page.table(["setting", *SETS, "error ratio", "time ratio"], rows)
    page.text(
        "The error ratio is a geometric mean over the sets, with 0.1 added to both errors; the "
        "time ratio is one of processor time."
    )
    page.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--only", default="", help="part of the names of the candidates to run")
    parser.add_argument("--page", action="store_true", help="write the page from what was run")
    arguments = parser.parse_args()
    store = stored("partition_defaults")
    if not arguments.page:
        for name in arguments.sets.split(","):
            for label, settings in CANDIDATES.items():
                if arguments.only in label:
                    store.run((name, label), clocked(lambda s=settings, n=name: case(n, s)))
    write_page(store)


if __name__ == "__main__":
    main()
