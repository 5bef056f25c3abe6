"""Small ugly problems for decision surfaces, generated from a seed."""

import warnings

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from vicinal.local import LocalClassifier
from vicinal.surface import DecisionSurface
from vicinal.surface._search import SurfaceStatus


def draw_data(rng):
    """Rows with duplicates, constant columns, lattices, huge or tiny units; labels of 2-3 kinds."""
    n, d = rng.randint(6, 31), rng.randint(1, 5)
    X = rng.normal(size=(n, d))
    kind = rng.randint(6)
    if kind == 0:
        X = np.round(X)
    elif kind == 1:
        X[rng.randint(n, size=n // 2)] = X[0]
    elif kind == 2:
        X[:, rng.randint(d)] = 1.0
    elif kind == 3:
        X *= 10.0 ** rng.randint(-6, 7)
    elif kind == 4:
        X += 10.0 ** rng.randint(0, 5)
    n_classes = rng.randint(2, 4)
    y = rng.randint(n_classes, size=n)
    if rng.uniform() < 0.3:
        y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    if rng.uniform() < 0.2:
        # One row alone against all others.
        y = (np.arange(n) == 0).astype(int)
    y[:2] = [0, 1]
    return X, y


def draw_model(rng):
    k = rng.randint(10)
    if k < 3:
        loss = ("squared_error", "log_loss", "squared_hinge")[k]
        size = [{"n_neighbors": 4}, {"bandwidth": 1.0}, {"bandwidth": 0.1}][rng.randint(3)]
        kernel = ("tricube", "gaussian", "uniform")[rng.randint(3)]
        return LocalClassifier(
            loss=loss, alpha=0.1, metric="euclidean", kernel=kernel, calibration=None,
            n_jobs=1, **size
        )  # fmt: skip
    return [
        LocalClassifier(LinearSVC(), bandwidth=0.5, kernel="gaussian", metric="euclidean",
                        calibration=None, n_jobs=1),
        RidgeClassifier(),
        # Bounded: on rows in huge units libsvm's polynomial machine never comes to an end.
        SVC(kernel=("rbf", "poly", "sigmoid")[rng.randint(3)], max_iter=10_000),
        GaussianNB(),
        RandomForestClassifier(3, random_state=0, n_jobs=1),
        KNeighborsClassifier(min(3, 1 + rng.randint(3))),
        DecisionTreeClassifier(max_depth=3, random_state=0),
    ][k - 3]  # fmt: skip


def check_problem(seed):
    """Run everything on one problem; return the statuses seen."""
    rng = np.random.RandomState(seed)
    X, y = draw_data(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=".* predicts .* for every row given to fit")
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="sklearn")
        model = draw_model(rng).fit(X, y)
        surface = DecisionSurface(model, n_starts=2, n_surface_points=20, random_state=0).fit(X)
        far = X[:2] + 1e3 * (1.0 + np.ptp(X))
        Q = np.vstack([X[:4], X[:2] + 0.3 * X.std(axis=0) * rng.normal(size=X[:2].shape), far])
        seen = []
        for found in (
            surface.project(Q),
            surface.orthogonal_projection(Q),
            surface.along(Q, rng.normal(size=X.shape[1]) + 1e-3),
        ):
            assert np.isfinite(found.points).all()
            assert np.isfinite(found.normals).all()
            assert not np.isnan(found.distances).any()
            lost = np.isin(found.status, (SurfaceStatus.NO_CROSSING, SurfaceStatus.NO_SURFACE))
            assert np.array_equal(np.isinf(found.distances), lost)
            seen.append(found.status)
        changed = surface.counterfactual(Q, sparsity=float(rng.choice([0.0, 0.5, np.inf])))
        assert np.isfinite(changed.points).all()
        assert np.array_equal(np.isfinite(changed.distances), changed.found)
        before, after = model.predict(Q), model.predict(changed.points)
        assert np.array_equal(after != before, changed.found)
        assert np.array_equal(after, changed.labels)
        seen.append(changed.status)
    return np.concatenate(seen)
