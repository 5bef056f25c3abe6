"""How fast are local fits, alone and with the search, compared with a loop over scikit-learn?"""

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import LinearSVC

from _datasets import load_dataset
from _harness import ResultsPage
from _harness import processor_timed as timed
from vicinal.local import LocalClassifier

N_ROWS, N_FEATURES, N_QUERIES, K = 20_000, 16, 4_000, 200
# Queries of the slow loop.
SAMPLE = 400


def svm_problem():
    X, y = make_classification(
        N_ROWS + N_QUERIES, N_FEATURES, n_informative=10, n_redundant=2, n_clusters_per_class=8,
        class_sep=0.6, random_state=0,
    )  # fmt: skip
    return X[:N_ROWS], y[:N_ROWS], X[N_ROWS:]


def svm_loop(X, y, Q, distances, indices):
    """Fit one LinearSVC a query on given neighbourhoods; return the decisions."""
    model = LinearSVC(dual=False)
    out = np.empty(len(Q))
    h = distances[:, -1:]
    weights = np.clip(1 - (distances[:, :-1] / h) ** 3, 0, None) ** 3
    for i, q in enumerate(Q):
        rows = indices[i, :-1]
        if np.all(y[rows] == y[rows[0]]):
            out[i] = 2 * y[rows[0]] - 1
            continue
        model.fit(X[rows] - q, y[rows], sample_weight=weights[i])
        out[i] = model.intercept_[0]
    return out


def squared_hinge(page):
    X, y, Q = svm_problem()
    model = LocalClassifier(LinearSVC(), n_neighbors=K, metric="euclidean", calibration=None)
    model.fit(X, y)
    model.predict(Q[:50])
    sample = Q[:SAMPLE]
    search = NearestNeighbors(algorithm="brute").fit(X)
    theirs, (distances, indices) = timed(lambda: search.kneighbors(Q, K + 1), repeat=3)
    loop, expected = timed(lambda: svm_loop(X, y, sample, distances[:SAMPLE], indices[:SAMPLE]))
    loop *= N_QUERIES / SAMPLE
    whole, found = timed(lambda: model.decision_function(Q), repeat=5)
    fitted = model._model
    blocks = list(fitted.localized(Q))
    localize, _ = timed(lambda: list(fitted.localized(Q)), repeat=5)

    def fits():
        return [
            fitted.solver.path(fitted.data, design, around, [1.0])
            for _, design, around in blocks
        ]  # fmt: skip

    fit_time, _ = timed(fits, repeat=5)
    gap = np.abs(found[:SAMPLE] - expected).max()
    mixed = np.mean([np.ptp(y[rows[:-1]]) > 0 for rows in indices])
    page.text(
        f"## Binary squared hinge, {N_ROWS:,} x {N_FEATURES}, {N_QUERIES:,} queries, k = {K}\n\n"
        f"`LocalClassifier(LinearSVC())` against a loop of `LinearSVC(dual=False)` fits on the "
        f"same neighbourhoods ({SAMPLE} queries, times {N_QUERIES // SAMPLE}). "
        f"{100 * mixed:.0f} % of them hold both classes. "
        f"Largest difference of the decisions: {gap:.1e}."
    )
    page.table(
        ["", "scikit-learn, s", "ours, s", "ratio"],
        [
            ["search", f"{theirs:.2f}", f"{localize:.2f}", f"{theirs / localize:.1f}"],
            ["fits", f"{loop:.2f}", f"{fit_time:.3f}", f"{loop / fit_time:.1f}"],
            [
                "whole predict",
                f"{theirs + loop:.2f}",
                f"{whole:.2f}",
                f"{(theirs + loop) / whole:.1f}",
            ],
        ],
    )
    steps = 4.5
    flops = mixed * N_QUERIES * steps * (0.6 * K * (N_FEATURES + 1) * (N_FEATURES + 2) + 6 * K * 17)
    page.text(
        f"About {steps} Newton steps a query, each a Gram matrix over the active rows: "
        f"{flops / 1e9:.1f} Gflop in {fit_time:.3f} s, {flops / fit_time / 1e9:.1f} Gflop/s a "
        f"core. Gathering reads {N_QUERIES * K * N_FEATURES * 8 / 1e6:.0f} MB, "
        f"{N_QUERIES * K * N_FEATURES * 8 / fit_time / 1e9:.1f} GB/s: arithmetic bounds the fits. "
        f"The search takes {100 * localize / whole:.0f} % of `predict`, so it bounds the whole."
    )
    return [
        [
            "fits, squared hinge",
            ">= 20 x a loop",
            f"{loop / fit_time:.1f} x",
            loop / fit_time >= 20,
        ],
        [
            "whole predict, squared hinge",
            ">= 12 x a loop with scikit-learn's search",
            f"{(theirs + loop) / whole:.1f} x",
            (theirs + loop) / whole >= 12,
        ],
    ]


def ridge_against_forest(page):
    data = load_dataset("letter")
    X, Q = data.X_train.astype(np.float64), data.X_test.astype(np.float64)

    def ours():
        model = LocalClassifier(n_neighbors=40, alpha=1.0, metric="euclidean", random_state=0)
        return model.fit(X, data.y_train).predict(Q)

    def forest():
        model = RandomForestClassifier(500, n_jobs=-1, random_state=0)
        return model.fit(X, data.y_train).predict(Q)

    ours()
    our_time, labels = timed(ours, repeat=3)
    their_time, their_labels = timed(forest)
    errors = [100 * np.mean(p != data.y_test) for p in (labels, their_labels)]
    page.text("## Ridge on letter, k = 40, alpha = 1, fit (with calibration) and predict")
    page.table(
        ["model", "s", "test error, %"],
        [
            ["local ridge", f"{our_time:.2f}", f"{errors[0]:.2f}"],
            ["random forest, 500 trees", f"{their_time:.2f}", f"{errors[1]:.2f}"],
        ],
    )
    model = LocalClassifier(n_neighbors=40, alpha=1.0, metric="euclidean", calibration=None)
    model.fit(X, data.y_train)
    fitted = model._model
    blocks = list(fitted.localized(Q))
    localize, _ = timed(lambda: list(fitted.localized(Q)), repeat=3)
    fit_time, _ = timed(
        lambda: [
            fitted.solver.path(fitted.data, design, found, [1.0]) for _, design, found in blocks
        ],
        repeat=5,
    )
    page.text(
        f"Of a prediction the search takes {1e6 * localize / 4000:.0f} us a query, the fit "
        f"{1e6 * fit_time / 4000:.1f} us: a Gram matrix of 40 x 16, a Cholesky factor "
        f"and one pair of triangular solves, some 17 kflop, "
        f"{17e3 * 4000 / fit_time / 1e9:.1f} Gflop/s. The limit is the search: 16,000 distances of "
        f"16 columns are 0.5 Mflop a query, thirty times the fit."
    )
    return [
        [
            "ridge on letter, fit + predict",
            "<= a third of the forest, at a lower error",
            f"{our_time / their_time:.2f}, {errors[0]:.2f} against {errors[1]:.2f} %",
            our_time <= their_time / 3 and errors[0] < errors[1],
        ]
    ]


def kernels(page):
    rng = np.random.RandomState(0)
    rows = []
    for d, k in ((16, 40), (16, 200), (64, 40), (64, 200)):
        X, y = rng.normal(size=(5000, d)), rng.randint(0, 5, 5000)
        times = []
        for loss in ("squared_error", "squared_hinge", "log_loss"):
            model = LocalClassifier(
                loss=loss, n_neighbors=k, alpha=1.0, metric="euclidean", calibration=None,
                n_jobs=1,
            ).fit(X, y)  # fmt: skip
            n = 1000 if loss == "squared_error" else 100
            fitted = model._model
            blocks = list(fitted.localized(rng.normal(size=(n, d))))
            best, _ = timed(
                lambda fitted=fitted, blocks=blocks: [
                    fitted.solver.path(fitted.data, design, found, [1.0])
                    for _, design, found in blocks
                ],
                repeat=3,
            )
            times.append(f"{1e6 * best / n:.0f}")
        rows.append([d, k, *times])
    page.text("## Microseconds a fit on one core, five classes, search not counted")
    page.table(["columns", "neighbours", "ridge", "squared hinge", "logistic"], rows)


def fill(page):
    bars = squared_hinge(page) + ridge_against_forest(page)
    kernels(page)
    page.text("## Targets")
    page.table(
        ["question", "target", "ours", "reached"], [[*b[:3], "yes" if b[3] else "no"] for b in bars]
    )


def main():
    page = ResultsPage(
        "local_speed",
        "Speed of local fits",
        "Compiled local models against a loop over scikit-learn's estimators, in one run. Seconds "
        "are processor time, of all threads together: what a core does, not what two do.",
    )
    page.section("page", fill)
    page.write()


if __name__ == "__main__":
    main()
