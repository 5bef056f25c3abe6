"""Answers of local models on all kinds of input, as they were before the last reshaping.

They were recorded at commit 546ce26, where anchored models were local models with ``anchors=``; all
but those of ``CHANGED`` are equal to 1e-10 on the machine of the record. Of these the record holds
newer ones: ``python tests/local/test_recorded_answers.py`` writes them anew, only when answers
change for a reason, which the changelog then tells.
"""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from vicinal.local import (
    AnchoredLocalClassifier,
    AnchoredLocalRegressor,
    GradientMetric,
    LocalClassifier,
    LocalRegressor,
    LoessRegressor,
    NadarayaWatsonRegressor,
    PrincipalSurface,
)

RECORD = Path(__file__).parent / "recorded_answers.npz"
KERNELS = ("uniform", "epanechnikov", "tricube", "gaussian", "bisquare", "triangular", "cosine")


def table():
    """Rows, labels of three classes, targets, and queries."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(110, 4)) * [1.0, 2.0, 0.5, 1.0]
    X[:30, 3] = np.round(X[:30, 3])
    score = X[:, 0] + 0.5 * X[:, 1] * X[:, 2]
    y = np.digitize(score + 0.3 * rng.normal(size=110), [-0.5, 0.5])
    target = np.sin(X[:, 0]) + X[:, 2] ** 2 + 0.1 * rng.normal(size=110)
    Q = np.vstack([X[:3], 0.8 * rng.normal(size=(6, 4)), [[4.0, 4.0, 4.0, 4.0]]])
    return X, y, target, Q


CLASSIFIERS = {
    "ridge": {},
    "logistic": {"solver": "logistic"},
    "squared_hinge": {"solver": "squared_hinge"},
    "vote": {"degree": 0},
    "quadratic": {"degree": 2},
    "logistic quadratic": {"solver": "logistic", "degree": 2},
    "absolute": {"penalty": "absolute"},
    "share of rows": {"n_neighbors": 0.3},
    "radius": {"n_neighbors": "auto", "bandwidth": 2.0},
    "radius prior": {"n_neighbors": "auto", "bandwidth": 0.9, "outside": "prior"},
    "gaussian radius": {"n_neighbors": "auto", "bandwidth": 0.7, "kernel": "gaussian"},
    "global": {"n_neighbors": "auto", "bandwidth": np.inf},
    "global logistic": {"n_neighbors": "auto", "bandwidth": np.inf, "solver": "logistic"},
    "clipped": {"calibration": None},
    "balanced": {"class_weight": "balanced"},
    "standardized": {"metric": "standardized"},
    "ranked": {"metric": "ranked"},
    "within_class": {"metric": "within_class"},
    "slopes": {"metric": GradientMetric(3, task="classification", random_state=0)},
    "forest": {"metric": "forest", "n_neighbors": "auto"},
    "extra_forest": {"metric": "extra_forest", "n_neighbors": "auto"},
    "manhattan": {"metric": "manhattan"},
    "minkowski": {"metric": "minkowski", "metric_params": {"p": 3}},
    "axes": {"metric": PCA(2, random_state=0)},
    "places": {"location_columns": [0, 1]},
    "places logistic": {"location_columns": [0, 1], "solver": "logistic"},
    **{f"kernel {name}": {"kernel": name} for name in KERNELS},
}
OWN_MODELS = {
    "RidgeClassifier": RidgeClassifier(),
    "LogisticRegression": LogisticRegression(C=2.0),
    "LinearSVC": LinearSVC(C=2.0),
    "tree": DecisionTreeClassifier(max_depth=2, random_state=0),
}
REGRESSORS = {
    "ridge": {},
    "mean": {"degree": 0},
    "quadratic": {"degree": 2},
    "plain": {"alpha": 0.0},
    "plain quadratic": {"alpha": 0.0, "degree": 2, "n_neighbors": 40},
    "absolute": {"penalty": "absolute"},
    "share of rows": {"n_neighbors": 0.3},
    "radius": {"n_neighbors": "auto", "bandwidth": 2.0},
    "radius nan": {"n_neighbors": "auto", "bandwidth": 0.9, "outside": "nan"},
    "radius prior": {"n_neighbors": "auto", "bandwidth": 0.9, "outside": "prior"},
    "gaussian radius": {"n_neighbors": "auto", "bandwidth": 0.7, "kernel": "gaussian"},
    "global": {"n_neighbors": "auto", "bandwidth": np.inf},
    "robust": {"robust_iterations": 2},
    "clip": {"clip": True},
    "standardized": {"metric": "standardized"},
    "ranked": {"metric": "ranked"},
    "slopes": {"metric": GradientMetric(3, task="regression", random_state=0)},
    "forest": {"metric": "forest", "n_neighbors": "auto"},
    "extra_forest": {"metric": "extra_forest", "n_neighbors": "auto"},
    "manhattan": {"metric": "manhattan"},
    "axes": {"metric": PCA(2, random_state=0)},
    "places": {"location_columns": [0, 1]},
    **{f"kernel {name}": {"kernel": name} for name in KERNELS},
}


def classes(name, model, X, y, Q, **fit):
    model.fit(X, y, **fit)
    yield f"{name} predict", model.predict(Q)
    if hasattr(model, "decision_function"):
        yield f"{name} decision", model.decision_function(Q)
    yield f"{name} proba", model.predict_proba(Q) if hasattr(model, "predict_proba") else np.ones(1)


def explanation(name, model, Q):
    yield f"{name} slopes", model.local_coef(Q)
    yield f"{name} weights", model.neighbors(Q).toarray().sum(axis=0)
    yield f"{name} size", model.effective_sample_size(Q)
    yield f"{name} left out", model.leave_one_out()[::10]


def classifier_answers():
    X, y, _, Q = table()
    fixed = {"n_neighbors": 20, "alpha": 0.5, "metric": "euclidean", "random_state": 0}
    for name, changes in CLASSIFIERS.items():
        model = LocalClassifier(**{**fixed, **changes})
        yield from classes(f"classes {name}", model, X, y, Q)
        yield from explanation(f"classes {name}", model, Q)
    for name in ("ridge", "logistic", "squared_hinge", "standardized", "radius", "places"):
        model = LocalClassifier(**{**fixed, **CLASSIFIERS[name]}).fit(X, y)
        for part, value in zip("vg", model.decision_function_and_gradient(Q), strict=True):
            yield f"gradient {name} {part}", value
    for name, estimator in OWN_MODELS.items():
        model = LocalClassifier(estimator, n_neighbors=20, metric="euclidean")
        yield from classes(f"own {name}", model, X, y, Q)
        yield from classes(f"own two {name}", model, X, y > 0, Q)
    weights = np.random.RandomState(1).randint(1, 4, size=len(X)).astype(float)
    model = LocalClassifier(**fixed)
    yield from classes("counts", model, X, y, Q, sample_weight=weights)
    yield from classes("fractions", model, X, y, Q, sample_weight=0.5 * weights)
    yield from classes("groups", model, X, y, Q, groups=np.arange(len(X)) // 4)
    yield from classes("single", model, X.astype(np.float32), y, Q.astype(np.float32))
    for solver in ("ridge", "logistic"):
        model = LocalClassifier(**fixed, solver=solver)
        rows = sparse.csr_matrix(np.where(np.abs(X) < 0.5, 0.0, X))
        yield from classes(f"sparse {solver}", model, rows, y, sparse.csr_matrix(Q))
        yield f"sparse {solver} slopes", model.local_coef(sparse.csr_matrix(Q))
    model = LocalClassifier(**fixed).partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    yield "partial", model.decision_function(Q)


def inference(name, model, Q):
    yield f"{name} std", np.stack(model.predict(Q, return_std=True))
    yield f"{name} interval", model.predict_interval(Q, 0.95, method="normal")
    yield f"{name} outside", model.extrapolates(Q)
    yield f"{name} sigma", model.statistics().sigma
    yield f"{name} kernel", model.equivalent_kernel(Q).toarray().sum(axis=0)


def regressor_answers():
    X, _, y, Q = table()
    fixed = {"n_neighbors": 25, "degree": 1, "alpha": 0.1, "metric": "euclidean", "random_state": 0}
    for name, changes in REGRESSORS.items():
        model = LocalRegressor(**{**fixed, **changes}).fit(X, y)
        yield f"numbers {name}", model.predict(Q)
        yield from explanation(f"numbers {name}", model, Q)
    for name in ("ridge", "plain", "quadratic", "share of rows", "robust"):
        model = LocalRegressor(**{**fixed, **REGRESSORS[name]}).fit(X, y)
        yield from inference(f"numbers {name}", model, Q)
    for estimator in (Ridge(0.3), LinearRegression(), DecisionTreeRegressor(random_state=0)):
        model = LocalRegressor(estimator, n_neighbors=25, metric="euclidean").fit(X, y)
        yield f"own {type(estimator).__name__}", model.predict(Q)
    both = np.column_stack([y, X[:, 1] - y])
    weights = np.random.RandomState(1).randint(1, 4, size=len(X)).astype(float)
    model = LocalRegressor(**fixed)
    yield "two targets", model.fit(X, both).predict(Q)
    yield "two targets slopes", model.local_coef(Q)
    yield "counts", model.fit(X, y, sample_weight=weights).predict(Q)
    yield from inference("counts", model, Q)
    yield "fractions", model.fit(X, y, sample_weight=0.5 * weights).predict(Q)
    rows = sparse.csr_matrix(np.where(np.abs(X) < 0.5, 0.0, X))
    yield "sparse", model.fit(rows, y).predict(sparse.csr_matrix(Q))
    yield "partial", model.fit(X[:60], y[:60]).partial_fit(X[60:], y[60:]).predict(Q)


def preset_answers():
    X, _, y, Q = table()
    for degree in (0, 1, 2):
        for columns in (slice(0, 1), slice(0, 2)):
            for options in ({}, {"surface": "interpolate"}, {"robust_iterations": 2}):
                model = LoessRegressor(0.5, degree=degree, **options).fit(X[:, columns], y)
                label = f"loess {degree} {columns.stop} {sorted(options)}"
                yield label, model.predict(Q[:, columns])
                yield f"{label} std", model.predict(Q[:, columns], return_std=True)[1]
    yield "loess wide", LoessRegressor(1.3, degree=1).fit(X[:, :2], y).predict(Q[:, :2])
    for options in ({"bandwidth": 1.5}, {"n_neighbors": 12}, {"bandwidth": np.inf}):
        model = NadarayaWatsonRegressor(metric="euclidean", **options).fit(X, y)
        yield f"averages {sorted(options)} {min(options.values())}", model.predict(Q)
    yield "slopes map", GradientMetric(2, random_state=0).fit(X, y).components_
    yield "diagonal map", GradientMetric(2, diagonal=True, random_state=0).fit(X, y).components_
    yield "surface", PrincipalSurface(bandwidth=0.6).fit(X[:, :2]).transform(Q[:, :2])


def anchored_answers():
    X, y, target, Q = table()
    fixed = {"n_neighbors": 20, "alpha": 0.5, "metric": "standardized", "random_state": 0}
    for anchors in (6, X[::20]):
        label = f"anchored {np.ndim(anchors)}"
        for solver in ("ridge", "logistic"):
            model = AnchoredLocalClassifier(anchors, solver=solver, **fixed)
            yield from classes(f"{label} {solver}", model, X, y, Q)
            yield f"{label} {solver} slopes", model.local_coef(Q)
        model = AnchoredLocalRegressor(anchors, degree=1, **fixed).fit(X, target)
        yield f"{label} numbers", model.predict(Q)
        yield f"{label} weights", model.neighbors(Q).toarray()
    model = AnchoredLocalRegressor(6, degree=1, location_columns=[0, 1], **fixed)
    yield "anchored places", model.fit(X, target).predict(Q)


def tensor_answers():
    torch = pytest.importorskip("torch")
    X, y, target, Q = table()
    X, y, target, Q = (torch.as_tensor(array) for array in (X, y, target, Q))
    shared = {"n_neighbors": 20, "alpha": 0.5, "random_state": 0}
    for metric in ("euclidean", "standardized"):
        for solver in ("ridge", "logistic", "squared_hinge"):
            model = LocalClassifier(solver=solver, metric=metric, **shared).fit(X, y)
            yield f"tensors {metric} {solver} proba", model.predict_proba(Q)
            yield f"tensors {metric} {solver} slopes", model.local_coef(Q)
            yield f"tensors {metric} {solver} left out", model.leave_one_out()[::10]
        for degree in (0, 1):
            model = LocalRegressor(degree=degree, metric=metric, **shared).fit(X, target)
            yield f"tensors {metric} {degree}", model.predict(Q)
            yield f"tensors {metric} {degree} slopes", model.local_coef(Q)
        model = LocalRegressor(degree=1, metric=metric, n_neighbors=20, alpha=0.0)
        yield f"tensors {metric} plain", model.fit(X, target).predict(Q)
    yield "tensors map", GradientMetric(2, random_state=0).fit(X, target).components_


CHANGED = {
    # name of the answers: why they are no longer those of the library before
    "classes global logistic slopes": "one fit for all queries: 1e-7, a tolerance of Newton steps",
    "numbers radius nan left out": "a row alone within its radius is left out as outside= says",
    "numbers radius prior left out": "a row alone within its radius is left out as outside= says",
    "own DecisionTreeRegressor": "the last digit of weights decides between equal splits of a tree",
}
FAMILIES = {
    "classifiers": classifier_answers,
    "regressors": regressor_answers,
    "presets": preset_answers,
    "anchored": anchored_answers,
    "tensors": tensor_answers,
}


def recorded_answers(family):
    """Return the recorded numbers of a family by name, flat."""
    record = np.load(RECORD)
    ends = np.cumsum(record[f"{family} sizes"])
    parts = np.split(record[f"{family} values"], ends[:-1])
    return dict(zip(record[f"{family} names"].tolist(), parts, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_those_recorded(family):
    recorded = recorded_answers(family)
    names = []
    for name, answer in FAMILIES[family]():
        names.append(name)
        found = np.asarray(answer, dtype=np.float64).ravel()
        assert_allclose(found, recorded[name], rtol=1e-8, atol=1e-8, err_msg=name)
    assert names == list(recorded)


def write():
    """Record anew what has changed or is new."""
    record = {}
    for family, answers in FAMILIES.items():
        found = {name: np.asarray(a, dtype=np.float64).ravel() for name, a in answers()}
        kept = {k: v for k, v in recorded_answers(family).items() if k not in CHANGED}
        found = {name: kept.get(name, values) for name, values in found.items()}
        record[f"{family} names"] = np.array(list(found))
        record[f"{family} sizes"] = np.array([len(values) for values in found.values()])
        record[f"{family} values"] = np.concatenate(list(found.values()))
    np.savez_compressed(RECORD, **record)


if __name__ == "__main__":
    write()
