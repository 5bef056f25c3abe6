"""Which settings of the partition classifier should be the default? Held-out rows decide."""

import argparse

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from _harness import Cases, ResultsPage, clocked, stored
from _partition import SETS, load_split
from vicinal.linear import WeightedLDA
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
    "1 region": {"n_regions": 1},
    "15 regions": {"n_regions": 15},
    "LDA": {"region_estimator": "lda"},
    "LDA, shrinkage 0.1": {"region_estimator": WeightedLDA(shrinkage=0.1)},
    "logistic, C=1": {"region_estimator": LogisticRegression(tol=1e-3)},
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
}
# The largest sets are cut down: defaults need many fits, not many rows.
MAX_ROWS, MAX_CELLS = 4_000, 10**6


def validation_split(name: str):
    X, y, _, _ = load_split(name)
    rows = np.random.RandomState(0).permutation(len(y))
    rows = np.sort(rows[: min(MAX_ROWS, MAX_CELLS // X.shape[1])])
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
        "Error in per cent on a quarter of the training data that was held out of the fit (sets "
        f"cut to {MAX_ROWS:,} rows and {MAX_CELLS:,} cells, isolet to 1,620 rows). No test data "
        "were used. Each line changes the first one as stated. The last columns give the mean "
        "ratio to the base line and the time.",
    )
    found = {
        label: [store.run((s, label), clocked(lambda c=(s, setting): case(*c))) for s in SETS]
        for label, setting in CANDIDATES.items()
    }
    base = next(iter(found.values()))
    rows = []
    for label, cells in found.items():
        # Half an error in a hundred rows is added on both sides, so that a set without errors
        # does not decide alone.
        ratios = [
            ((cell["error"] + 0.1) / (first["error"] + 0.1), cell["cpu"] / first["cpu"])
            for cell, first in zip(cells, base, strict=True)
        ]
        errors = (f"{cell['error']:.2f}" for cell in cells)
        rows.append([label, *errors, *(f"{r:.2f}" for r in np.exp(np.log(ratios).mean(axis=0)))])
    page.table(["setting", *SETS, "error ratio", "time ratio"], rows)
    page.text(
        "The error ratio is a geometric mean over the sets, with 0.1 added to both errors; the "
        "time ratio is one of processor time. Regions that validation chose: "
        + ", ".join(f"{s} {c['regions']}" for s, c in zip(SETS, cells, strict=True))
        + "."
    )
    page.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=[], help="sets to run before the page")
    store = stored("partition_defaults")
    for name in parser.parse_args().sets:
        for label, setting in CANDIDATES.items():
            store.run((name, label), clocked(lambda c=(name, setting): case(*c)))
    write_page(store)


if __name__ == "__main__":
    main()
