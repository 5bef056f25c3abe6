"""How well does kernel ridge in the gradient metric predict at 1,000 and at 5,000 rows?

Ten random splits each with 1,000 rows to learn from, three with 5,000; up to 2,000 others judge:
the squared error in per cent of the variance, at 1,000 rows beside the anchor, xRFM with its
defaults. Finished cases are kept.
"""

import argparse
from functools import partial

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _datasets import load_dataset
from _harness import ResultsPage, clocked
from vicinal.metric import GradientKernelRegressor

# Errors of xRFM's defaults at 1,000 rows.
ANCHORS = {"grid_stability": 5.45, "puma32h": 7.30, "friedman1": 5.64}
SPLITS = range(10)
LARGE, N_LARGE = ("grid_stability", "puma32h"), 5_000


def table(name):
    if name == "friedman1":
        return make_friedman1(4_000, 10, noise=1.0, random_state=0)
    data = load_dataset(name)
    return data.X, data.y


def plain_ridge():
    """Kernel ridge in standardised columns, scale and penalty by folds."""
    grid = {
        "kernelridge__kernel": [RBF(scale) for scale in (1.0, 2.0, 4.0, 8.0)],
        "kernelridge__alpha": [1e-3, 1e-2, 1e-1],
    }
    return GridSearchCV(make_pipeline(StandardScaler(), KernelRidge()), grid, cv=3)


MODELS = {"gradient kernel": GradientKernelRegressor, "kernel ridge": plain_ridge}


def case(name, split, make, n_rows=1_000):
    X, y = table(name)
    order = np.random.RandomState(split).permutation(len(y))
    train, test = order[:n_rows], order[n_rows : n_rows + 2_000]
    model = make()
    # Kernel ridge has no intercept.
    mean = y[train].mean()
    said = model.fit(X[train], y[train] - mean).predict(X[test]) + mean
    found = {"error": 100.0 * float(np.mean((said - y[test]) ** 2) / np.var(y[test]))}
    if hasattr(model, "loo_prediction_"):
        left_out = model.loo_prediction_ + mean - y[train]
        found["told"] = 100.0 * float(np.mean(left_out**2) / np.var(y[train]))
    return found


def small_table(page, names, splits):
    rows = []
    for name in names:
        for label, make in MODELS.items():
            found = [
                page.case((name, label, s), clocked(partial(case, name, s, make))) for s in splits
            ]
            rows.append((name, label, *summary(found)[:3], ANCHORS[name], summary(found)[3]))
    head = ("set", "model", "error %", "spread", "leave-one-out %", "xRFM %", "CPU s")
    page.table(head, rows, "1,000 rows, ten splits.")


def large_table(page):
    rows = []
    for name in LARGE:
        found = [
            page.case(
                (name, "gradient kernel", s, N_LARGE),
                clocked(partial(case, name, s, GradientKernelRegressor, N_LARGE)),
            )
            for s in SPLITS[:3]
        ]
        rows.append((name, *summary(found)))
    head = ("set", "error %", "spread", "leave-one-out %", "CPU s")
    page.table(head, rows, "5,000 rows, three splits, the gradient kernel alone.")


def summary(found):
    """Return mean error, its spread, mean leave-one-out error and median seconds."""
    errors = [one["error"] for one in found]
    told = np.mean([one["told"] for one in found]) if "told" in found[0] else ""
    return np.mean(errors), np.std(errors), told, np.median([one["cpu"] for one in found])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=len(SPLITS))
    parser.add_argument("--only", nargs="*", default=list(ANCHORS))
    options = parser.parse_args()
    page = ResultsPage(
        "gradient_kernel", "Kernel ridge in the gradient metric", __doc__.partition("\n")[0]
    )
    small_table(page, options.only, SPLITS[: options.splits])
    if options.splits == len(SPLITS) and set(options.only) == set(ANCHORS):
        large_table(page)
        page.write()


if __name__ == "__main__":
    main()
