"""How much smoother than the least leave-one-out loss should a local model be?"""

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import KFold

from _datasets import load_dataset
from _harness import ResultsPage, clocked
from vicinal.local import LocalClassifier, LocalRegressor, _selection

ROWS = 600
REGRESSION = (
    "diabetes", "laser", "mortgage", "airfoil", "puma32h", "grid_stability", "friedman 1"
)  # fmt: skip
CLASSIFICATION = (
    "wine", "vertebral", "wdbc", "banana", "spambase", "satimage", "letter", "pendigits"
)  # fmt: skip
# Standard errors of the excess within which a smoother setting counts as good as the best.
RULES = (0.5, 0.0, 0.25, 1.0)


def training_rows(name):
    if name == "friedman 1":
        X, y = make_friedman1(n_samples=ROWS, noise=1.0, random_state=0)
    elif name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
    else:
        data = load_dataset(name)
        X, y = (data.X_train, data.y_train) if "X_train" in data else (data.X, data.y)
    rows = np.random.RandomState(0).permutation(len(y))[:ROWS]
    return np.asarray(X, dtype=float)[rows], np.asarray(y)[rows]


def case(name, rule):
    """Return the error of five folds, in %, and what was chosen in each."""
    X, y = training_rows(name)
    losses, chosen = np.empty(len(y)), []
    usual, _selection._STANDARD_ERRORS = _selection._STANDARD_ERRORS, rule
    try:
        for train, test in KFold(5, shuffle=True, random_state=0).split(X):
            kind = LocalRegressor if name in REGRESSION else LocalClassifier
            model = kind(metric="standardized", random_state=0).fit(X[train], y[train])
            answers = model.predict(X[test])
            if name in REGRESSION:
                losses[test] = (answers - y[test]) ** 2 / y.var()
            else:
                losses[test] = answers != y[test]
            chosen.append([model.n_neighbors_, model.alpha_])
    finally:
        _selection._STANDARD_ERRORS = usual
    worst = np.sort(losses)[::-1]
    return {
        "error": 100 * losses.mean(),
        "two rows": worst[:2].sum() / max(worst.sum(), 1e-300),
        "chosen": chosen,
    }


def main():
    page = ResultsPage(
        "local_choice",
        "Smoothness of a chosen local model",
        "Leave-one-out flatters settings that follow the rows closely, and a few rows can carry a "
        "difference; so the library takes the smoothest setting whose excess over the best is "
        "within half its standard error. Is half right? Five folds of training rows (at most "
        f"{ROWS} of a set), `LocalRegressor` and `LocalClassifier` in standardised columns, "
        "everything else by default.",
    )
    for sets, unit in ((REGRESSION, "squared error in % of the variance"), (CLASSIFICATION, "%")):
        found = {
            rule: [
                page.case((name, rule), clocked(lambda n=name, r=rule: case(n, r))) for name in sets
            ]
            for rule in RULES
        }
        rows = []
        for rule, cells in found.items():
            pairs = zip(cells, found[RULES[0]], strict=True)
            ratios = np.log([(c["error"] + 0.01) / (b["error"] + 0.01) for c, b in pairs])
            spread = ratios.std(ddof=1) / np.sqrt(len(sets))
            rows.append(
                [
                    "least loss" if rule == 0.0 else f"within {rule:g} standard errors",
                    *(f"{c['error']:.2f}" for c in cells),
                    "1" if rule == RULES[0] else f"{np.exp(ratios.mean()):.3f} ± {spread:.3f}",
                    f"{np.exp(ratios.max()):.2f}",
                ]
            )
        page.table(
            ["smoothest", *sets, "ratio", "worst ratio"],
            rows,
            f"Error ({unit}); the ratio to the first line is a geometric mean over the sets, with "
            "its standard error over them.",
        )
    laser = page.case(("laser", RULES[0]), dict)
    page.text(
        f"On laser the two worst rows hold {100 * laser['two rows']:.0f} % of the loss: k and "
        f"alpha of the folds are {', '.join(f'{k}, {a:g}' for k, a in laser['chosen'])}."
    )
    page.write()


if __name__ == "__main__":
    main()
