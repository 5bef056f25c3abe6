"""Which defaults do the boosting estimators deserve, by cross-validation on training rows alone?"""

import time

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from _harness import ResultsPage
from vicinal.datasets import load_dataset
from vicinal.ensemble import (
    FunctionalGradientBoostingClassifier,
    FunctionalGradientBoostingRegressor,
    RealAdaBoostClassifier,
)

ROUNDS = 100
ROWS = 500


def sample(X, y, seed=0):
    rows = np.random.RandomState(seed).permutation(len(y))[:ROWS]
    return np.asarray(X, dtype=float)[rows], np.asarray(y)[rows]


def training_rows(name):
    data = load_dataset(name)
    return sample(data.X_train, data.y_train) if "X_train" in data else sample(data.X, data.y)


def classification_sets():
    return {name: training_rows(name) for name in ("spambase", "banana", "wdbc")}


def regression_sets():
    sets = {name: training_rows(name) for name in ("airfoil", "puma32h")}
    sets["friedman 1"] = make_friedman1(n_samples=800, noise=1.0, random_state=0)
    return {name: (X, (y - y.mean()) / y.std()) for name, (X, y) in sets.items()}


def cross_validated(make, X, y, *, classes):
    """Mean error after the last round and the best round's, over five folds."""
    folds = StratifiedKFold if classes else KFold
    curves = []
    for train, test in folds(5, shuffle=True, random_state=0).split(X, y):
        model = make().fit(X[train], y[train])
        stages = list(model.staged_predict(X[test]))
        stages += [stages[-1]] * (ROUNDS - len(stages))
        wrong = [(p != y[test]) if classes else (p - y[test]) ** 2 for p in stages]
        curves.append([w.mean() for w in wrong])
    curve = np.mean(curves, axis=0)
    return curve[-1], curve.min(), int(curve.argmin()) + 1


def table(page, makers, sets, caption, *, classes):
    rows, scale = [], 100.0 if classes else 1.0
    for label, make in makers.items():
        cells, started = [], time.process_time()
        for X, y in sets.values():
            last, best, at = cross_validated(make, X, y, classes=classes)
            cells.append(
                f"{scale * last:.2f} ({scale * best:.2f} at {at})"
                if classes
                else f"{last:.4f} ({best:.4f} at {at})"
            )
        rows.append((label, *cells, time.process_time() - started))
    page.table(("model", *sets, "CPU s"), rows, caption=caption)


def fill(page):
    tree = DecisionTreeRegressor(max_depth=3)

    def boosting(cls, **options):
        return lambda: cls(tree, n_estimators=ROUNDS, random_state=0, **options)

    kinds = {
        "leaf values, rate 0.1 (default for trees)": {},
        "line search, rate 0.1": {"coefficients": "line_search"},
        "Newton, rate 0.1": {"newton": True, "coefficients": "fixed"},
        "leaf values, rate 0.3": {"learning_rate": 0.3},
        "leaf values, rate 0.1, half the rows": {"subsample": 0.5},
        "corrective, full refit": {"coefficients": "corrective", "learning_rate": 1.0},
        "corrective, rate 0.1": {"coefficients": "corrective"},
    }
    table(
        page,
        {k: boosting(FunctionalGradientBoostingClassifier, **v) for k, v in kinds.items()},
        classification_sets(),
        "`FunctionalGradientBoostingClassifier`, trees of depth 3, misclassification in %.",
        classes=True,
    )
    table(
        page,
        {
            k: boosting(FunctionalGradientBoostingRegressor, **v)
            for k, v in kinds.items()
            if "Newton" not in k and "line search" not in k
        },
        regression_sets(),
        "`FunctionalGradientBoostingRegressor`, trees of depth 3, squared error over the "
        "variance of the target (here leaf values, line search and Newton steps coincide).",
        classes=False,
    )

    def ada(leaves, rate):
        learner = DecisionTreeClassifier(max_leaf_nodes=leaves)
        return lambda: RealAdaBoostClassifier(
            learner, learning_rate=rate, n_estimators=ROUNDS, random_state=0
        )

    table(
        page,
        {
            f"{leaves} leaves, rate {rate}": ada(leaves, rate)
            for leaves, rate in ((2, 1.0), (2, 0.3), (5, 1.0), (5, 0.3), (5, 0.1), (9, 0.3))
        },
        classification_sets(),
        "`RealAdaBoostClassifier`, misclassification in %. Default: 5 leaves, rate 0.3.",
        classes=True,
    )
    page.text(
        "Full refits are best at few rounds and lose afterwards: the members were fitted to the "
        "same rows. They are offered, and never the default."
    )


def main():
    page = ResultsPage(
        "ensemble_defaults",
        "Defaults of the boosting estimators",
        f"Five-fold cross-validation on training rows only (at most {ROWS} of each set), "
        f"{ROUNDS} rounds. Each cell: error after the last round, in brackets the best round's.",
    )
    page.section("page", fill)
    page.write()


if __name__ == "__main__":
    main()
