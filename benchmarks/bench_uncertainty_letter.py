"""Do several metrics beat one on letter, and how high do the three solvers climb on satimage?

What has been measured is kept, so that an interrupted run goes on where it was.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _datasets import load_dataset
from _harness import ResultsPage, stored, timed
from vicinal.uncertainty import LocallyAdaptiveClassifier, uncertainty_map

SEEDS = (0, 1, 2)
NEAREST = "1-NN, standardised"
MODELS = {
    "K = 1": {"n_regions": 1},
    "K = 4": {"n_regions": 4},
    "K = 4, one split": {"n_regions": 4, "n_splits": 1},
    "K = 4, objective of the source": {"n_regions": 4, "objective": "accuracy"},
    "K = 4, components by density": {"n_regions": 4, "region_method": "density"},
}


def measured(model):
    """Error and seconds of a model on letter."""
    data = load_dataset("letter")
    X, y = np.asarray(data.X_train[:3000], float), data.y_train[:3000]
    X_test, y_test = np.asarray(data.X_test[:2000], float), data.y_test[:2000]
    seconds, _ = timed(lambda: model.fit(X, y))
    return 100 * (1 - model.score(X_test, y_test)), seconds


def letter(kept):
    """Error and time by model and seed."""
    nearest = make_pipeline(StandardScaler(), KNeighborsClassifier(1))
    found = {NEAREST: [kept.run((NEAREST, 0), lambda: measured(nearest))]}
    for name, options in MODELS.items():
        models = [LocallyAdaptiveClassifier(random_state=s, **options) for s in SEEDS]
        found[name] = [
            kept.run((name, s), lambda m=model: measured(m))
            for s, model in zip(SEEDS, models, strict=True)
        ]
    return found


def start(Z, k=7):
    """``I / sigma``; sigma is the root mean square of distances to the k-th neighbour."""
    distances = KNeighborsClassifier(k + 1).fit(Z, np.zeros(len(Z))).kneighbors(Z)[0]
    return np.eye(Z.shape[1]) / np.sqrt(np.mean(distances[:, k] ** 2))


def expected_at(Z, y, A):
    """G / N by its relation to the map of uncertainty, with all rows as neighbours."""
    return 1.0 - float(np.mean(uncertainty_map(Z @ A.T, y, n_neighbors=None, bandwidth=1.0)))


def draws(n_draws=20):
    """G / N at possible starts: of 1,500 rows drawn at random, and of the first 1,500."""
    data = load_dataset("satimage")
    X = StandardScaler().fit_transform(np.asarray(data.X_train, float))
    found = {"random rows, A = I / sigma": [], "random rows, A = I": []}
    for seed in range(n_draws):
        rows = np.random.RandomState(seed).permutation(len(X))[:1500]
        Z, y = X[rows], data.y_train[rows]
        found["random rows, A = I / sigma"].append(expected_at(Z, y, start(Z)))
        found["random rows, A = I"].append(expected_at(Z, y, np.eye(36)))
    Z, y = X[:1500], data.y_train[:1500]
    found["first rows, A = I / sigma"] = [expected_at(Z, y, start(Z))]
    found["first rows, A = I"] = [expected_at(Z, y, np.eye(36))]
    return found


def solvers():
    data = load_dataset("satimage")
    X = StandardScaler().fit_transform(np.asarray(data.X_train, float))
    chosen = np.random.RandomState(0).permutation(len(X))[:1500]
    X, y = X[chosen], data.y_train[chosen]
    rows = []
    for name, options in {
        "annealing, added noise": {"solver": "anneal", "max_iter": 50},
        "L-BFGS": {"solver": "lbfgs", "max_iter": 30},
    }.items():
        model = LocallyAdaptiveClassifier(
            1,
            objective="accuracy",
            init=start(X),
            early_stopping=False,
            random_state=0,
            **options,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            spent, _ = timed(lambda model=model: model.fit(X, y))
        path = model.objective_paths_[0]
        rows.append((name, float(path[0]), float(model.objective_), len(path) - 1, spent))
        print(rows[-1], flush=True)
    return rows


def write(parts):
    page = ResultsPage(
        "uncertainty_letter",
        "One metric or several on letter, and two solvers",
        "Do four local metrics classify letters better than one (neighbourhood components "
        "analysis)? First 3,000 training rows, first 2,000 test rows, three seeds, defaults "
        "otherwise: early stopping on a tenth of the training rows.",
    )
    rows = [
        (name, [error for error, _ in runs], min(seconds for _, seconds in runs))
        for name, runs in parts["letter"].items()
    ]
    page.table(
        ["model", "error %, seeds 0, 1, 2", "mean", "fit, s"],
        [
            (
                name,
                ", ".join(f"{error:.2f}" for error in errors),
                f"{np.mean(errors):.2f}",
                f"{seconds:.1f}" if seconds else "",
            )
            for name, errors, seconds in rows
        ],
    )
    ascents = parts["solvers"]
    page.table(
        ["solver", "G/N at the start", "G/N reached", "iterations", "s"],
        [
            (name, f"{first:.3f}", f"{last:.3f}", n_iter, f"{seconds:.1f}")
            for name, first, last, n_iter, seconds in ascents
        ],
        "Satimage, 1,500 training random rows (seed 0), standardised, one metric from "
        "A = I / sigma, free scale, no rows held out.",
    )
    page.table(
        ["start", "draws", "mean G/N", "least", "greatest"],
        [
            (name, len(values), *(f"{f(values):.3f}" for f in (np.mean, min, max)))
            for name, values in parts["draws"].items()
        ],
        "G/N before learning depends on the rows and on the start. The first 1,500 rows hold the "
        "classes in other proportions than random rows:",
    )
    page.text(
        "A higher G is not a better classifier: it is the accuracy expected on the rows that were "
        "learned from. Rows held out decide in practice."
    )
    page.write()


def main():
    kept = stored("uncertainty_letter")
    write(
        {
            "solvers": kept.run(("solvers",), solvers),
            "draws": kept.run(("draws",), draws),
            "letter": letter(kept),
        }
    )


if __name__ == "__main__":
    main()
