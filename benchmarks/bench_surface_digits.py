"""Does the distance to the surface of local machines tell digits apart (Table I of the paper)?"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import precision_recall_fscore_support
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from _harness import ResultsPage, clocked
from vicinal._kernels.calibration._probabilities import fit_platt
from vicinal.local import LocalClassifier
from vicinal.surface import DecisionSurface

FACTORS = (20.0, 3.0, 1.0)
PLATT_ROWS, CHOICE_ROWS = 100, 100  # training rows of Platt's sigmoids and of a choice
SPLITS = range(5)


def split(scaling, seed):
    """Return 70 % of the digits and the rest, pixels scaled by the first."""
    X, y = load_digits(return_X_y=True)
    train, test, a, q = train_test_split(X, y, test_size=0.3, random_state=seed)
    if scaling == "standardised":
        scaler = StandardScaler().fit(train)
        train, test = scaler.transform(train), scaler.transform(test)
    elif scaling == "[0, 1]":
        train, test = train / 16.0, test / 16.0
    return train, a, test, q


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
    """Choose the bandwidth by 5-fold cross-validation, judged on some training rows."""
    rows = np.random.RandomState(0).permutation(len(X))[:CHOICE_ROWS]
    error = np.zeros(len(FACTORS))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        test = np.intersect1d(test, rows)
        h = bandwidth(X[train])
        for k, factor in enumerate(FACTORS):
            error[k] += np.sum(first_order(X[train], y[train], X[test], factor * h) != y[test])
    return FACTORS[int(error.argmin())]


def orthogonal(X, y, Q, h):
    """Signed orthogonal distances (rows of Q, classes), Platt's sigmoids, fits per projection.

    Rows of Platt's sigmoid weigh as many as they stand for, so that a penalty counts as on all.
    """
    some = np.random.RandomState(0).permutation(len(X))[:PLATT_ROWS]
    weights = np.full(PLATT_ROWS, len(X) / PLATT_ROWS)
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
                0.01: fit_platt(seen, target[some] == 1, weights, c=0.01),
                "scaled": fit_platt(seen / np.median(np.abs(seen)), target[some] == 1, weights),
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


def linear_case(scaling, seed):
    X, y, Q, target = split(scaling, seed)
    model = LinearSVC(random_state=0, max_iter=20_000).fit(X, y)
    scaled = model.decision_function(Q) / np.linalg.norm(model.coef_, axis=1)
    return {
        "linear, argmax F": scores(target, model.predict(Q)),
        "linear, argmax F / length of n": scores(target, scaled.argmax(axis=1)),
    }


def local_case(scaling, seed, factor):
    X, y, Q, target = split(scaling, seed)
    return scores(target, first_order(X, y, Q, factor * bandwidth(X)))


def orthogonal_case(scaling, seed):
    X, y, Q, target = split(scaling, seed)
    D, sigmoids, fits = orthogonal(X, y, Q, 20.0 * bandwidth(X))
    return {
        "rows": {
            "local, h = 20, orthogonal": scores(target, D.argmax(axis=1)),
            "same, Platt (c = 0.01, as the paper)": scores(target, calibrated(D, sigmoids, 0.01)),
            "same, Platt (scaled, c = 1)": scores(target, calibrated(D, sigmoids, "scaled")),
        },
        "fits": fits,
    }


def shown(found):
    """Return the cells of a row: means over splits, the deviation of the accuracy, their number."""
    values = np.array(found)
    mean = [f"{value:.3f}" for value in values.mean(axis=0)]
    if len(values) > 1:
        mean[0] += f" ± {values[:, 0].std(ddof=1):.3f}"
    return [*mean, len(values)]


def rows_of(page, scaling, factors, n_splits):
    """Return the linear and the local rows of one scaling; the paper's bandwidth on all splits."""
    rows = []
    every = [page.case(("linear", scaling, s), lambda s=s: linear_case(scaling, s)) for s in SPLITS]
    for label in every[0]:
        rows.append([scaling, label, *shown([found[label] for found in every])])
    for factor in factors:
        found = [
            page.case(
                ("local, all rows", scaling, s, factor),
                lambda s=s, f=factor: local_case(scaling, s, f),
            )
            for s in SPLITS[: n_splits if factor == 20.0 else 1]
        ]
        rows.append([scaling, f"local, h = {factor:g}, F / length of grad F", *shown(found)])
    return rows


def chosen_row(page, scaling):
    best = page.case(("chosen", scaling, 0), lambda: choose(*split(scaling, 0)[:2]))
    found = [page.case(("local, all rows", scaling, 0, best), lambda: local_case(scaling, 0, best))]
    return [scaling, f"local, h chosen on training rows ({best:g})", *shown(found)]


def main():
    page = ResultsPage(
        "surface_digits",
        "Digits by distance to local decision surfaces",
        "`load_digits`, 30 % test rows, one-vs-rest squared hinge with C = 1, Gaussian weights "
        "with h in units of the mean distance to the nearest neighbour (1-NN). The paper reports "
        "0.961 / 0.960 / 0.960 for local SVMs at h = 20 and 0.948 / 0.947 / 0.948 for the "
        "linear one, and does not state the scaling of the pixels. Means over splits, with the "
        "standard deviation of the accuracy between them; all 540 test rows of a split.",
    )
    stated = "standardised"
    rows = [
        row
        for scaling in ("raw 0..16", "[0, 1]")
        for row in rows_of(page, scaling, (20.0, 1.0), len(SPLITS))
    ]
    rows += [*rows_of(page, stated, FACTORS, len(SPLITS)), chosen_row(page, stated)]
    projected = [
        page.case(
            ("projected, all rows", stated, s), clocked(lambda s=s: orthogonal_case(stated, s))
        )
        for s in SPLITS
    ]
    for label in projected[0]["rows"]:
        rows.append([stated, label, *shown([found["rows"][label] for found in projected])])
    page.table(["pixels", "classifier", "accuracy", "precision", "recall", "splits"], rows)
    page.text(
        f"Orthogonal projections: {np.mean([found['fits'] for found in projected]):.1f} fits each, "
        f"{np.mean([found['cpu'] for found in projected]):.0f} processor seconds for "
        f"540 test rows and ten SVMs. Platt's sigmoids are fitted to distances of "
        f"{PLATT_ROWS} training rows, to which the SVMs were fitted, as in the paper, and which "
        "weigh as many rows as they stand for."
    )
    page.text(
        "At h = 20 the weights are nearly flat: local SVMs, projected or not, and linear "
        "scores divided by the length of their normals lie within a point of one another, so that "
        "a gain of this size shows comparable scores rather than locality. Smaller bandwidths pay."
    )
    page.write()


if __name__ == "__main__":
    main()
