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


def fill(page):
    X, y, X_test, y_test = draws()
    # Width and penalty of the kernel learner are chosen on training rows, as a model by itself.
    search = GridSearchCV(
        KernelRidge(kernel="rbf"),
        {"gamma": [0.25, 0.5, 1.0, 2.0], "alpha": [0.1, 1.0, 10.0]},
        scoring="neg_mean_squared_error",
        cv=5,
    ).fit(X, y - y.mean())
    gamma = search.best_params_["gamma"]
    # A weak learner boosts better than one that is right alone: ten times its best penalty.
    kernel = KernelRidge(kernel="rbf", gamma=gamma, alpha=10.0 * search.best_params_["alpha"])
    alone = error(y_test, search.predict(X_test) + y.mean())
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
    rows = []
    for label, (learner, options) in cases.items():

        def make(rounds, learner=learner, options=options):
            return FunctionalGradientBoostingRegressor(
                learner, n_estimators=rounds, random_state=0, **options
            )

        started = time.process_time()
        model = make(max(SHOWN)).fit(X, y)
        seconds = time.process_time() - started
        curve = [error(y_test, p) for p in model.staged_predict(X_test)]
        chosen = choose_rounds(make, X, y, max(SHOWN))
        shown = [curve[min(r, len(curve)) - 1] for r in SHOWN]
        at_choice = curve[min(chosen, len(curve)) - 1]
        rows.append((label, *shown, f"{at_choice:.3g} at {chosen}", seconds))
        print(rows[-1], flush=True)
    page.table(
        (
            "learner, rate 0.1 unless refitted",
            *(f"{r} rounds" for r in SHOWN),
            "validated",
            "CPU s",
        ),
        rows,
    )
    arguments = {"n_estimators": 200, "subsample": 0.5, "random_state": 0}
    rows = []
    for label, learner in (("tree of depth 3", tree), ("stump", stump)):
        plain = FunctionalGradientBoostingRegressor(learner, **arguments).fit(X, y)
        started = time.process_time()
        sparse = FunctionalGradientBoostingRegressor(learner, post_fit="l1", **arguments).fit(X, y)
        seconds = time.process_time() - started
        rows.append(
            (
                label,
                error(y_test, plain.predict(X_test)),
                error(y_test, sparse.predict(X_test)),
                sparse.n_iter_,
                seconds,
            )
        )
    page.table(
        ("200 rounds on half the rows", "plain", "then L1", "members kept", "CPU s"),
        rows,
        caption="An L1 path over all members after the last round, its penalty by five folds.",
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
    rows = [(label, error(y_test, m.fit(X, y).predict(X_test))) for label, m in peers.items()]
    rows.append((f"kernel ridge alone, {search.best_params_}", alone))
    page.table(("beside them", "test error"), rows)


def main():
    page = ResultsPage(
        "ensemble_friedman",
        "Friedman's first problem: coefficients, learners and rounds",
        f"Test mean squared error on {N_TEST} rows after training on {N_TRAIN} (noise variance 1, "
        "so 1.0 is the floor). The curves by rounds show a shape; the last column has the rounds "
        "chosen by three folds of the training rows.",
    )
    page.section("page", fill)
    page.write()


if __name__ == "__main__":
    main()
