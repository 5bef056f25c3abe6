"""Does an anchored model answer in constant time, and what does it cost in error?"""

import sys

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from _datasets import load_dataset
from _harness import ResultsPage
from _harness import processor_timed as timed
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


def time_by_rows(n):
    """Predict the same queries by both models of n rows; microseconds of processor time."""
    Q, truth = problem(N_QUERIES, 1)
    X, y = problem(n, 0)
    fixed = {"n_neighbors": 40, "alpha": 1.0, "metric": "euclidean", "calibration": None}
    lazy = LocalClassifier(**fixed).fit(X, y)
    anchored = AnchoredLocalClassifier(512, random_state=0, **fixed)
    fit_time, _ = timed(lambda: anchored.fit(X, y))
    found = {"fit": fit_time, "blended": anchored.anchors_.n_blended}
    for name, model, repeat in (("lazy", lazy, 3 if n <= 10**5 else 1), ("anchored", anchored, 9)):
        model.predict(Q[:100])
        seconds, labels = timed(lambda m=model: m.predict(Q), repeat=repeat)
        found[name] = 1e6 * seconds / N_QUERIES
        found[f"{name} error"] = 100 * np.mean(labels != truth)
    return found


def split(name):
    """Return the published split, or three quarters of the rows against the rest."""
    data = load_dataset(name)
    if getattr(data, "X_train", None) is not None:
        return data.X_train, data.X_test, data.y_train, data.y_test
    return train_test_split(data.X, data.y, test_size=0.25, random_state=0)


def counts(n_rows):
    """Return the numbers of anchors that are tried: at most a third of the rows."""
    return [count for count in COUNTS if count == "auto" or count <= n_rows // 3]


def anchors_of(model):
    return {
        "anchors": len(model.anchors_.centers),
        "shape": f"{model.n_neighbors_}, {model.anchors_.n_blended}",
    }


def class_errors(name):
    """Return error and log loss of the lazy model and of each number of anchors."""
    X, Q, y, truth = split(name)
    settings = {"n_neighbors": 40, "metric": "euclidean", "random_state": 0}
    if name in ("shuttle", "spambase"):
        settings["metric"] = "standardized"

    def measured(model):
        seconds, _ = timed(lambda: model.fit(X, y))
        proba = model.predict_proba(Q)
        return {
            "fit": seconds,
            "error": 100 * np.mean(model.predict(Q) != truth),
            "loss": log_loss(truth, proba, labels=model.classes_),
            "anchors": None,
        }

    found = {"rows": len(X), "lazy": measured(LocalClassifier(**settings))}
    for count in counts(len(X)):
        model = AnchoredLocalClassifier(count, **settings)
        found[str(count)] = measured(model) | anchors_of(model)
    return found


def regression_errors(name):
    """Return the relative squared errors, times 100, of the lazy model and by anchors."""
    X, Q, y, truth = split(name)
    settings = {"metric": "standardized", "degree": 1, "random_state": 0}

    def error(model):
        return 100 * np.mean((model.fit(X, y).predict(Q) - truth) ** 2) / np.var(truth)

    found = {"rows": len(X), "lazy": error(LocalRegressor(**settings))}
    for count in counts(len(X)):
        model = AnchoredLocalRegressor(count, **settings)
        found[str(count)] = {"error": error(model)} | anchors_of(model)
    return found


def label(count, row):
    return f"auto: {row['anchors']}" if count == "auto" else count


def write_times(page, sizes):
    rows = []
    for n in sizes:
        found = page.case(("time", n), lambda n=n: time_by_rows(n))
        rows.append(
            [f"{n:,}", f"{found['fit']:.1f}", found["blended"]]
            + [f"{found[key]:.1f}" for key in ("lazy", "anchored")]
            + [f"{found[key]:.2f}" for key in ("lazy error", "anchored error")]
        )
    page.table(
        ["rows", "fit of 512 anchors, s", "blended", "lazy, us a query", "anchored, us a query",
         "error lazy, %", "error anchored, %"],
        rows,
        caption=f"Processor time of a prediction by number of training rows: {N_FEATURES} columns, "
        f"k = 40, {N_QUERIES:,} queries at once, least of several repeats.",
    )  # fmt: skip


def write_classes(page):
    rows, near = [], set()
    for name in CLASSIFICATION:
        found = page.case(("classes", name), lambda n=name: class_errors(n))
        lazy = found["lazy"]
        for count in counts(found["rows"]):
            row = found[str(count)]
            gap = row["error"] - lazy["error"]
            near |= {name} if gap <= 0.5 else set()
            rows.append(
                [
                    name,
                    f"{found['rows']:,}",
                    label(count, row),
                    f"{row['fit']:.1f}",
                    row["shape"],
                    f"{lazy['error']:.2f}",
                    f"{row['error']:.2f}",
                    f"{gap:+.2f}",
                    f"{lazy['loss']:.3f}",
                    f"{row['loss']:.3f}",
                ]
            )
    page.table(
        ["set", "rows", "anchors", "fit, processor s", "neighbours, blended", "lazy, %",
         "anchored, %", "difference", "log loss lazy", "anchored"],
        rows,
        caption="Test error of classifiers (k = 40, alpha chosen on training rows, columns as "
        "given; shuttle and spambase standardised).",
    )  # fmt: skip
    far = [name for name in CLASSIFICATION if name not in near]
    page.text(
        "Within 0.5 points of the lazy model with at least one of the counts: "
        f"{', '.join(sorted(near))}" + (f"; not on {', '.join(far)}." if far else ".")
    )


def write_numbers(page):
    rows = []
    for name in REGRESSION:
        found = page.case(("numbers", name), lambda n=name: regression_errors(n))
        for count in counts(found["rows"]):
            row = found[str(count)]
            rows.append(
                [
                    name,
                    f"{found['rows']:,}",
                    label(count, row),
                    f"{found['lazy']:.2f}",
                    f"{row['error']:.2f}",
                ]
            )
    page.table(
        ["set", "rows", "anchors", "lazy", "anchored"],
        rows,
        caption="Relative squared error x 100 of regressors (standardised, linear, k and alpha "
        "chosen on training rows), a random quarter of the rows for the test.",
    )


def main(sizes):
    page = ResultsPage(
        "local_anchors",
        "Stored models at anchors against a model around every query",
        "An anchored model fits m local models once and blends the nearest few. Does prediction "
        "cost stop growing with the training rows, and how much error does it add? Not blind: the "
        "numbers of anchors, of neighbours per anchor and of blended models were chosen after "
        "test errors of these sets had been seen.",
    )
    write_times(page, sizes)
    write_classes(page)
    write_numbers(page)
    page.text(
        "Where the anchored regressor is better than the lazy one, the refits to what the blend "
        "leaves over make the difference: they remove bias that a single local fit keeps. Where it "
        "is worse, the target changes within the distance of two anchors (airfoil), and more of "
        "them or the lazy model are the remedy."
    )
    page.write()


if __name__ == "__main__":
    main([10**4, 10**5] if "--quick" in sys.argv else [10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6])
