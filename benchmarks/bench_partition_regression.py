"""Piecewise linear regression against a line, a forest and boosting, by five-fold cross-validation.

Usage: python benchmarks/bench_partition_regression.py [--page]
"""

import argparse

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _harness import ResultsPage, stored
from vicinal import datasets
from vicinal.partition import SpacePartitioningRegressor

SETS = ("airfoil", "laser", "mortgage", "grid_stability", "puma32h")
MAX_ROWS = 2000
MODELS = {
    "ridge": make_pipeline(StandardScaler(), Ridge()),
    "partition, default": SpacePartitioningRegressor(random_state=0),
    "partition, LDA gates": SpacePartitioningRegressor(reject_estimator="lda", random_state=0),
    "partition, perceptron gates": SpacePartitioningRegressor(
        reject_estimator="perceptron", random_state=0
    ),
    "partition, 2 regions": SpacePartitioningRegressor(n_regions=2, random_state=0),
    "partition, 5 regions": SpacePartitioningRegressor(n_regions=5, random_state=0),
    "partition, last sweep": SpacePartitioningRegressor(keep="last", random_state=0),
    "partition, best start": SpacePartitioningRegressor(combine="best", random_state=0),
    "random forest": RandomForestRegressor(random_state=0),
    "histogram boosting": HistGradientBoostingRegressor(random_state=0),
}


def case(name: str, model) -> dict:
    data = datasets.load_dataset(name)
    rows = np.random.RandomState(0).permutation(len(data.y))[:MAX_ROWS]
    folds = KFold(5, shuffle=True, random_state=0)
    return {"r2": float(np.mean(cross_val_score(model, data.X[rows], data.y[rows], cv=folds)))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the page from what was run")
    arguments = parser.parse_args()
    store = stored("partition_regression")
    if not arguments.page:
        for label, model in MODELS.items():
            for name in SETS:
                store.run((name, label), lambda n=name, m=model: case(n, m))
    page = ResultsPage(
        "partition_regression",
        "Piecewise linear regression",
        "Share of variance explained (R2) in five-fold cross-validation on at most "
        f"{MAX_ROWS} rows. One number of regions is chosen inside each training fold.",
    )
    rows = []
    for label in MODELS:
        found = [store.find(name, label) for name in SETS]
        rows.append([label, *(f"{cell['r2']:.3f}" if cell else "-" for cell in found)])
    page.table(["model", *SETS], rows)
    page.write()


if __name__ == "__main__":
    main()
