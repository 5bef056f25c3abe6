"""Do 90 % intervals of a bootstrap ensemble hold 90 % of new targets?"""

import time

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from _datasets import load_dataset
from _harness import ResultsPage
from vicinal.ensemble import BootstrapEnsembleRegressor

N_SEEDS, N_TRAIN, N_TEST, N_MEMBERS = 20, 500, 500, 100


def friedman(seed):
    X, y = make_friedman1(N_TRAIN + N_TEST, noise=1.0, random_state=seed)
    return X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]


def drawn(data):
    X, y = np.asarray(data.X, dtype=float), np.asarray(data.y, dtype=float)

    def draw(seed):
        rows = np.random.RandomState(seed).permutation(len(y))[: N_TRAIN + N_TEST]
        train, test = rows[:N_TRAIN], rows[N_TRAIN:]
        return X[train], y[train], X[test], y[test]

    return draw


def fill(page):
    problems = {
        "Friedman 1": friedman,
        "airfoil": drawn(load_dataset("airfoil")),
        "puma32h": drawn(load_dataset("puma32h")),
    }
    rows = []
    for name, draw in problems.items():
        for label, learner in (
            ("trees", DecisionTreeRegressor()),
            ("least squares", LinearRegression()),
        ):
            held, spread, width, single, bagged = [], [], [], [], []
            started = time.process_time()
            for seed in range(N_SEEDS):
                X, y, X_test, y_test = draw(seed)
                model = BootstrapEnsembleRegressor(
                    learner, n_estimators=N_MEMBERS, random_state=seed
                ).fit(X, y)
                mean, std = model.predict(X_test, return_std=True)
                low, high = model.predict_interval(X_test, coverage=0.9).T
                held.append(np.mean((low <= y_test) & (y_test <= high)))
                spread.append(np.mean(np.abs(y_test - mean) <= 1.645 * std))
                width.append(np.mean(high - low) / y.std())
                bagged.append(np.mean((y_test - mean) ** 2))
                single.append(np.mean((y_test - learner.fit(X, y).predict(X_test)) ** 2))
            rows.append(
                (
                    name,
                    label,
                    f"{100 * np.mean(held):.1f} ± {100 * np.std(held):.1f}",
                    f"{100 * np.mean(spread):.1f}",
                    float(np.mean(width)),
                    f"{np.mean(single):.4g} → {np.mean(bagged):.4g}",
                    time.process_time() - started,
                )
            )
            print(rows[-1], flush=True)
    page.table(
        (
            "problem",
            "learner",
            "out-of-bag interval covers %",
            "spread covers %",
            "width over deviation of y",
            "squared error, one learner → bagged",
            "CPU s",
        ),
        rows,
    )


def main():
    page = ResultsPage(
        "ensemble_intervals",
        "Prediction intervals of bootstrap ensembles",
        f"Coverage of nominal 90 % intervals, {N_MEMBERS} base models, {N_TRAIN} training and "
        f"{N_TEST} test rows, mean over {N_SEEDS} seeds. `predict_interval` uses residuals of "
        "out-of-bag rows; the spread of the base models (mean ± 1.645 deviations) is the "
        "model's variance alone.",
    )
    page.section("page", fill)
    page.write()


if __name__ == "__main__":
    main()
