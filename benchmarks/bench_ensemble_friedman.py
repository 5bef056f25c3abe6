"""What do refits, shrinkage, subsampling, L1 and smooth learners do on Friedman's first problem?"""

import time

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from _harness import ResultsPage
from vicinal.ensemble import FunctionalGradientBoostingRegressor, PrunedTreeRegressor

N_TRAIN, N_TEST = 800, 2000
SHOWN = (10, 20, 40, 70, 120)


def draws():
    X, y = make_friedman1(N_TRAIN + N_TEST, noise=1.0, random_state=0)
    return X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]


def error(y, predicted):
    return float(np.mean((y - predicted) ** 2))


def choose_rounds(make, X, y, n_rounds):
    """Find the rounds of least error over three folds of the training rows."""
    curves = []
    for train, test in KFold(3, shuffle=True, random_state=0).split(X):
        model = make(n_rounds).fit(X[train], y[train])
        curve = [error(y[test], p) for p in model.staged_predict(X[test])]
        curves.append(curve + [curve[-1]] * (n_rounds - len(curve)))
    return int(np.mean(curves, axis=0).argmin()) + 1


def kernel_choice():
    """Choose width and penalty of kernel ridge on training rows, as a model by itself."""
    X, y, X_test, y_test = draws()
    search = GridSearchCV(
        KernelRidge(kernel="rbf"),
        {"gamma": [0.25, 0.5, 1.0, 2.0], "alpha": [0.1, 1.0, 10.0]},
        scoring="neg_mean_squared_error",
        cv=5,
    ).fit(X, y - y.mean())
    return {**search.best_params_, "error": error(y_test, search.predict(X_test) + y.mean())}


def boosted(learner, options):
    """Return the error by rounds, at the chosen one and it, and processor seconds."""
    X, y, X_test, y_test = draws()

    def make(rounds):
        return FunctionalGradientBoostingRegressor(
            learner, n_estimators=rounds, random_state=0, **options
        )

    started = time.process_time()
    model = make(max(SHOWN)).fit(X, y)
    seconds = time.process_time() - started
    curve = [error(y_test, p) for p in model.staged_predict(X_test)]
    chosen = choose_rounds(make, X, y, max(SHOWN))
    shown = [curve[min(r, len(curve)) - 1] for r in SHOWN]
    return [*shown, f"{curve[min(chosen, len(curve)) - 1]:.3g} at {chosen}", seconds]


def sparse(learner):
    """Return errors without and with an L1 path over the members, those kept, and seconds."""
    X, y, X_test, y_test = draws()
    arguments = {"n_estimators": 200, "subsample": 0.5, "random_state": 0}
    plain = FunctionalGradientBoostingRegressor(learner, **arguments).fit(X, y)
    started = time.process_time()
    model = FunctionalGradientBoostingRegressor(learner, post_fit="l1", **arguments).fit(X, y)
    seconds = time.process_time() - started
    errors = [error(y_test, m.predict(X_test)) for m in (plain, model)]
    return [*errors, model.n_iter_, seconds]


def alone(model):
    X, y, X_test, y_test = draws()
    return error(y_test, model.fit(X, y).predict(X_test))


def fill(page):
    best = page.case(("kernel",), kernel_choice)
    # A weak learner boosts better than one that is right alone: ten times its best penalty.
    kernel = KernelRidge(kernel="rbf", gamma=best["gamma"], alpha=10.0 * best["alpha"])
    tree, stump = DecisionTreeRegressor(max_depth=3), DecisionTreeRegressor(max_depth=1)
    full = {"coefficients": "corrective", "learning_rate": 1.0}
    cases = {
        "tree of depth 3": (tree, {}),
        "stump": (stump, {}),
        "kernel ridge (RBF)": (kernel, {}),
        "10 nearest neighbours": (KNeighborsRegressor(10), {}),
        "tree, half the rows a round": (tree, {"subsample": 0.5}),
        "tree, full refit, penalty 1e-6": (tree, {**full, "alpha": 1e-6}),
        "tree, full refit, penalty 1e-2": (tree, {**full, "alpha": 1e-2}),
        "stump, full refit, penalty 1e-6": (stump, {**full, "alpha": 1e-6}),
        "kernel ridge, full refit, penalty 1e-6": (kernel, {**full, "alpha": 1e-6}),
    }
    page.table(
        (
            "learner, rate 0.1 unless refitted",
            *(f"{r} rounds" for r in SHOWN),
            "validated",
            "CPU s",
        ),
        [
            (label, *page.case(("boosted", label), lambda s=setting: boosted(*s)))
            for label, setting in cases.items()
        ],
    )
    page.table(
        ("200 rounds on half the rows", "plain", "then L1", "base models kept", "CPU s"),
        [
            (label, *page.case(("sparse", label), lambda m=learner: sparse(m)))
            for label, learner in (("tree of depth 3", tree), ("stump", stump))
        ],
        caption="An L1 path over all base models after the last round, its penalty by five folds.",
    )
    peers = {
        "gradient boosting, depth 3, 300 rounds (scikit-learn)": GradientBoostingRegressor(
            n_estimators=300, random_state=0
        ),
        "histogram boosting, 300 rounds (scikit-learn)": HistGradientBoostingRegressor(
            max_iter=300, random_state=0
        ),
        "`PrunedTreeRegressor()`": PrunedTreeRegressor(random_state=0),
        "`FunctionalGradientBoostingRegressor()`": FunctionalGradientBoostingRegressor(
            random_state=0
        ),
    }
    rows = [
        (label, page.case(("alone", label), lambda m=model: alone(m)))
        for label, model in peers.items()
    ]
    label = f"kernel ridge alone, gamma {best['gamma']:g}, penalty {best['alpha']:g}"
    page.table(("for comparison", "test error"), [*rows, (label, best["error"])])


def main():
    page = ResultsPage(
        "ensemble_friedman",
        "Friedman's first problem: coefficients, learners and rounds",
        f"Test mean squared error on {N_TEST} rows after training on {N_TRAIN} (noise variance 1, "
        "so 1.0 is the floor). The curves by rounds show a shape; the last column has the rounds "
        "chosen by three folds of the training rows.",
    )
    fill(page)
    page.write()


if __name__ == "__main__":
    main()
