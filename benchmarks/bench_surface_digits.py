"""Does the distance to the surface of local machines tell digits apart (Table I of the paper)?

An argument (``raw``, ``standardised`` or ``unit``) restricts the run to one scaling of the pixels
and leaves the orthogonal projections out; it is written to a page of its own.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import precision_recall_fscore_support
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from _harness import ResultsPage, timed
from vicinal._kernels.calibration._platt import fit_platt
from vicinal.local import LocalClassifier
from vicinal.surface import DecisionSurface

FACTORS = (20.0, 3.0, 1.5, 1.0)
PLATT_ROWS = 150


def scores(y, predicted):
    precision, recall, _, _ = precision_recall_fscore_support(y, predicted, average="macro")
    return float(np.mean(y == predicted)), float(precision), float(recall)


def bandwidth(X):
    """Mean distance to the nearest other row."""
    return NearestNeighbors(n_neighbors=2).fit(X).kneighbors(X)[0][:, 1].mean()


def machine(X, y, h):
    return LocalClassifier(
        LinearSVC(), bandwidth=h, kernel="gaussian", metric="euclidean", calibration=None, n_jobs=1
    ).fit(X, y)


def first_order(X, y, Q, h):
    """Argmax of F / |grad F| over one-vs-rest machines: one fit per row and class."""
    values, gradients = machine(X, y, h).decision_function_and_gradient(Q)
    size = np.linalg.norm(gradients, axis=2)
    return np.argmax(values / np.where(size > 0.0, size, np.inf), axis=1)


def choose(X, y):
    """Choose the bandwidth by 5-fold cross-validation, judged on 250 training rows."""
    rows = np.random.RandomState(0).permutation(len(X))[:250]
    error = np.zeros(len(FACTORS))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        test = np.intersect1d(test, rows)
        h = bandwidth(X[train])
        for k, factor in enumerate(FACTORS):
            error[k] += np.sum(first_order(X[train], y[train], X[test], factor * h) != y[test])
    return FACTORS[int(error.argmin())]


def orthogonal(X, y, Q, h):
    """Signed orthogonal distances (rows of Q, classes), Platt's sigmoids, fits per projection."""
    some = np.random.RandomState(0).permutation(len(X))[:PLATT_ROWS]
    distances, sigmoids, fits = [], [], []
    for c in range(10):
        target = (y == c).astype(int)
        model = machine(X, target, h)
        surface = DecisionSurface(
            model, n_starts=1, n_surface_points=60, tol=1e-4, random_state=0
        ).fit(X)
        found = surface.orthogonal_projection(Q)
        distances.append(found.distances)
        fits.append(found.n_evaluations.mean())
        seen = surface.distance(X[some])
        sigmoids.append(
            {
                0.01: fit_platt(seen, target[some] == 1, c=0.01),
                "scaled": fit_platt(seen / np.median(np.abs(seen)), target[some] == 1),
                "scale": np.median(np.abs(seen)),
            }
        )
    return np.column_stack(distances), sigmoids, float(np.mean(fits))


def calibrated(D, sigmoids, kind):
    columns = []
    for c, s in enumerate(sigmoids):
        A, B = s[kind]
        columns.append(A * D[:, c] / (s["scale"] if kind == "scaled" else 1.0) + B)
    return np.argmax(np.column_stack(columns), axis=1)


def fill(page):
    X, y = load_digits(return_X_y=True)
    train, test, a, q = train_test_split(X, y, test_size=0.3, random_state=0)
    scaler = StandardScaler().fit(train)
    scalings = {
        "raw": ("raw 0..16", train, test),
        "standardised": ("standardised", scaler.transform(train), scaler.transform(test)),
        "unit": ("[0, 1]", train / 16.0, test / 16.0),
    }
    rows = []
    for key, (name, A, Q) in scalings.items():
        h = bandwidth(A)
        linear = LinearSVC(random_state=0, max_iter=20_000).fit(A, a)
        rows.append([name, "linear, argmax F", *scores(q, linear.predict(Q))])
        scaled = linear.decision_function(Q) / np.linalg.norm(linear.coef_, axis=1)
        rows.append([name, "linear, argmax F / length of n", *scores(q, scaled.argmax(axis=1))])
        local = {factor: scores(q, first_order(A, a, Q, factor * h)) for factor in FACTORS}
        for factor, values in local.items():
            rows.append([name, f"local, h = {factor:g}, F / length of grad F", *values])
        best = choose(A, a)
        rows.append([name, f"local, h chosen on training rows ({best:g})", *local[best]])
        print(*rows[-7:], sep="\n", flush=True)
        if key == "raw":
            seconds, answer = timed(lambda d=(A, a, Q, 20.0 * h): orthogonal(*d))
            D, sigmoids, fits = answer
            rows.append([name, "local, h = 20, orthogonal", *scores(q, D.argmax(axis=1))])
            for kind, label in ((0.01, "c = 0.01, as the paper"), ("scaled", "scaled, c = 1")):
                predicted = calibrated(D, sigmoids, kind)
                rows.append([name, f"same, Platt ({label})", *scores(q, predicted)])
            page.text(
                f"Orthogonal projections on raw pixels: {fits:.1f} fits each, {seconds:.0f} s for "
                f"all; Platt on {PLATT_ROWS} training rows that the machines have seen, as in the "
                "paper."
            )
    page.table(["pixels", "classifier", "accuracy", "precision", "recall"], rows)
    page.text(
        "At h = 20 the weights are nearly flat: local machines, projected or not, and linear "
        "scores divided by the length of their normals lie within a point of one another, so that "
        "a gain of this size shows comparable scores rather than locality. Smaller bandwidths pay "
        "on standardised and [0, 1] pixels; on raw ones, where C = 1 hardly penalises, they do not."
    )


def main():
    page = ResultsPage(
        "surface_digits",
        "Digits by distance to local decision surfaces",
        "`load_digits`, 30 % test rows, one-vs-rest squared hinge with C = 1, Gaussian weights "
        "with h in units of the mean distance to the nearest neighbour (1-NN). The paper reports "
        "0.961 / 0.960 / 0.960 for local machines at h = 20 and 0.948 / 0.947 / 0.948 for the "
        "linear one, and does not state the scaling of the pixels. The machine was shared.",
    )
    page.section("page", fill)
    page.write()


if __name__ == "__main__":
    main()
