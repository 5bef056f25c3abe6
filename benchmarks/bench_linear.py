"""How fast are the shared linear learners, and do they reach scikit-learn's objectives?

One thread each (BLAS and OpenMP alike) and processor time instead of wall time, so that the ratios
do not depend on what else the machine is doing. Objectives are evaluated by one function for both
sides.
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from vicinal._kernels.linear._logistic import (
    fit_logistic,
    logistic_loss,
    multinomial_blocks,
    multinomial_value_gradient,
)
from vicinal._kernels.linear._objective import margin_value_gradient
from vicinal._kernels.linear._perceptron import fit_perceptron
from vicinal._kernels.linear._squared_hinge import fit_squared_hinge, squared_hinge_loss
from vicinal.datasets import load_dataset
from vicinal.linear import AveragedPerceptron, WeightedLDA

sys.path.insert(0, str(Path(__file__).parent))
from _harness import ResultsPage

# The penalties that the partition family uses on these sets.
C_OF = {"letter": 1.0, "pendigits": 1.0, "satimage": 1.0, "shuttle": 100.0}
# A warm start comes from the solution for weights of which one in twenty differed, as when a few
# rows of a region move between two sweeps of a cascade.
MOVED = 20


def cpu_time(function, *, budget=2.0):
    """Return the least processor time of up to five calls, and the last result."""
    best, spent, result = float("inf"), 0.0, None
    for _ in range(5):
        started = time.process_time()
        result = function()
        taken = time.process_time() - started
        best, spent = min(best, taken), spent + taken
        if spent > budget:
            break
    return best, result


def scaled(name):
    data = load_dataset(name)
    scaler = StandardScaler().fit(data.X_train)
    return (
        scaler.transform(data.X_train).astype(np.float64),
        data.y_train,
        scaler.transform(data.X_test).astype(np.float64),
        data.y_test,
    )


def objective(kind, coef, intercept, X, codes, n_classes, alpha):
    weights = np.ones(len(X))
    if kind == "logistic" and n_classes > 2:
        table = np.vstack([coef.T, intercept]).ravel()
        blocks = multinomial_blocks(X, codes, weights, n_classes)
        return multinomial_value_gradient(table, blocks, n_classes, alpha)[0]
    loss = logistic_loss if kind == "logistic" else squared_hinge_loss
    positives = [1] if n_classes == 2 else range(n_classes)
    return sum(
        margin_value_gradient(
            np.append(coef[row], intercept[row]),
            X,
            np.where(codes == positive, 1.0, -1.0),
            weights,
            loss,
            alpha,
        )[0]
        for row, positive in enumerate(positives)
    )


def best_known(kind, X, codes, n_classes, alpha, found):
    """Return the optimum to ten digits or so, from where a solver stopped."""
    fit = fit_logistic if kind == "logistic" else fit_squared_hinge
    options = {} if kind == "logistic" else {"fit_intercept": False}
    return fit(
        X, codes, None, n_classes, alpha=alpha, start=found, tol=1e-8, max_iter=1500, **options
    ).value


def solver_rows(kind, name, X, y, n_classes):
    codes = np.searchsorted(np.unique(y), y)
    if n_classes == 2:
        codes = (codes < len(np.unique(y)) // 2).astype(int)
    alpha = 1.0 / C_OF[name]
    other = np.ones(len(X))
    other[::MOVED] = 0.0
    if kind == "logistic":
        peers = {
            f"scikit-learn {solver}": LogisticRegression(
                C=1 / alpha, solver=solver, max_iter=2000, warm_start=True
            )
            for solver in ("lbfgs", "newton-cholesky")
        }
        fit, options = fit_logistic, {}
    else:
        peers = {
            "scikit-learn LinearSVC (liblinear)": LinearSVC(
                C=1 / alpha, fit_intercept=False, dual=False, max_iter=5000
            )
        }
        fit, options = fit_squared_hinge, {"fit_intercept": False}

    def ours(weights=None, start=None):
        return fit(X, codes, weights, n_classes, alpha=alpha, start=start, **options)

    near = ours(other)
    cold_time, cold = cpu_time(ours)
    warm_time, warm = cpu_time(lambda: ours(start=near[:2]))
    optimum = best_known(kind, X, codes, n_classes, alpha, cold[:2])

    def excess(coef, intercept):
        value = objective(kind, coef, intercept, X, codes, n_classes, alpha)
        return f"{(value - optimum) / optimum:.1e}"

    label = f"{name}, {n_classes} classes"
    rows = [
        [label, "ours", cold_time, excess(*cold[:2]), warm_time, excess(*warm[:2]), ""],
    ]
    for peer, model in peers.items():

        def fit_cold(model=model):
            if hasattr(model, "coef_"):
                del model.coef_
            return model.fit(X, codes)

        peer_time, _ = cpu_time(fit_cold)
        n_coef = 1 if n_classes == 2 else n_classes
        intercept = np.broadcast_to(model.intercept_, n_coef)
        row = [label, peer, peer_time, excess(model.coef_, intercept)]
        if kind == "logistic":
            model.fit(X, codes, sample_weight=other)
            near_coef, near_intercept = model.coef_, model.intercept_

            def fit_warm(model=model, start=(near_coef, near_intercept)):
                model.coef_, model.intercept_ = start
                return model.fit(X, codes)

            warm_peer, _ = cpu_time(fit_warm)
            row += [warm_peer, excess(model.coef_, model.intercept_)]
        else:
            row += ["no warm start", ""]
        rows.append([*row, f"{peer_time / cold_time:.1f}x"])
    return rows


def collect(rows, ratios, warm_ratios):
    """Add the times of peers over ours, cold and warm, of the rows of a table."""
    for row in rows:
        if row[1] == "ours":
            ours = row
            continue
        ratios.append(row[2] / ours[2])
        if isinstance(row[4], float):
            warm_ratios.append(row[4] / ours[4])


def perceptron(page):
    X, y, X_test, y_test = scaled("letter")
    codes = np.searchsorted(np.unique(y), y)
    single = X.astype(np.float32)
    fit_perceptron(single[:50], codes[:50], None, 26, seed=0, n_epochs=1)
    kernel_time, _ = cpu_time(lambda: fit_perceptron(single, codes, None, 26, seed=0, n_epochs=10))
    ours_time, ours = cpu_time(lambda: AveragedPerceptron(10, random_state=0).fit(X, y))
    peer = SGDClassifier(loss="perceptron", average=True, max_iter=10, tol=None, random_state=0)
    peer_time, peer = cpu_time(lambda: peer.fit(X, y))
    page.text("## Averaged perceptron, letter (16,000 x 16, 26 classes), 10 epochs")
    page.table(
        ["", "ms per epoch", "test error %", "peer / ours"],
        [
            [
                "vicinal AveragedPerceptron.fit, one multi-class machine",
                100 * ours_time,
                100 * (1 - ours.score(X_test, y_test)),
                f"{peer_time / ours_time:.1f}x",
            ],
            [
                "its kernel alone, float32 rows",
                100 * kernel_time,
                "",
                f"{peer_time / kernel_time:.1f}x",
            ],
            [
                'SGDClassifier(loss="perceptron", average=True), 26 machines, one against the rest',
                100 * peer_time,
                100 * (1 - peer.score(X_test, y_test)),
                "",
            ],
        ],
    )


def discriminant(page):
    rows = []
    for name in ("letter", "satimage", "isolet"):
        X, y, _, _ = scaled(name)
        ours_time, ours = cpu_time(lambda X=X, y=y: WeightedLDA(0.1).fit(X, y))
        model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
        peer_time, peer = cpu_time(lambda X=X, y=y, model=model: model.fit(X, y))
        gap = np.abs(ours.predict_proba(X) - peer.predict_proba(X)).max()
        rows.append(
            [
                f"{name} {X.shape[0]} x {X.shape[1]}",
                ours_time,
                peer_time,
                peer_time / ours_time,
                f"{gap:.0e}",
            ]
        )
    page.text("## Linear discriminant analysis, shrinkage 0.1")
    page.table(
        [
            "set",
            "WeightedLDA s",
            "scikit-learn lsqr s",
            "peer / ours",
            "largest gap in probability",
        ],
        rows,
    )


def fill(page):
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        perceptron(page)
        discriminant(page)
        ratios, warm_ratios = [], []
        header = ["problem", "solver", "cold s", "excess", "warm s", "excess", "peer / ours, cold"]
        rows = []
        for name in C_OF:
            X, y, _, _ = scaled(name)
            rows += solver_rows("logistic", name, X, y, len(np.unique(y)))
        X, y, _, _ = scaled("letter")
        rows += solver_rows("logistic", "letter", X, y, 2)
        page.text("## Logistic regression, C = 1 (shuttle 100), tol 1e-4 on the mean gradient")
        page.table(header, rows)
        collect(rows, ratios, warm_ratios)
        rows = []
        for name in ("letter", "pendigits", "satimage"):
            X, y, _, _ = scaled(name)
            rows += solver_rows("squared hinge", name, X, y, len(np.unique(y)))
        X, y, _, _ = scaled("letter")
        rows += solver_rows("squared hinge", "letter", X, y, 2)
        page.text(
            "## L2-loss support vector machine, C = 1, one against the rest\n\n"
            "Without intercepts, because liblinear penalises them and we do not."
        )
        page.table(header, rows)
        collect(rows, ratios, warm_ratios)
    page.text(
        "**Which was taken.** `fit_logistic` and `fit_squared_hinge` of `vicinal._kernels` are our "
        "own: Newton steps for two classes and few columns, else L-BFGS in the metric of the Gram "
        f"matrix. From zero the peers took {min(ratios):.1f} to {max(ratios):.1f} times as long "
        f"for the solutions above; from a warm start, where a peer has one, {min(warm_ratios):.1f} "
        f"to {max(warm_ratios):.1f} times. They are functions for the families to call; one global "
        "model is served by scikit-learn's estimators."
    )


def main():
    page = ResultsPage(
        "linear",
        "The shared linear learners",
        "Time and objective of each solver beside scikit-learn's, from zero (cold) and from the "
        "solution without one row in twenty (warm). Processor time of one thread, "
        "least of several runs. "
        "Excess is the objective reached over the optimum, relative.",
    )
    page.section("page", fill)
    page.write()


if __name__ == "__main__":
    main()
