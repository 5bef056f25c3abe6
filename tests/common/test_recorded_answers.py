"""Answers of the older families, as the library gave them before its last reshaping.

They were recorded at commit 546ce26, with every parameter spelled out under the name it had there;
all but those of ``CHANGED``, and single precision beyond its rounding, are equal to 1e-10 on the
machine of the record. Processors and versions of numpy add in different orders: what a last digit
can turn is compared on those of the record alone (``TURNED_BY_ROUNDING``). Of the changed the
record holds newer ones:
``python -m tests.common.test_recorded_answers`` writes them anew, only when answers change for a
reason, which the changelog then tells. Local models have a record of their own in tests/local.
"""

import platform
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from tests.common.contracts import OUTPUTS, queries, training_data
from tests.common.discovery import public_estimators
from tests.common.instances import all_instances, make
from vicinal.neighbors import NeighborSearch
from vicinal.uncertainty import uncertainty_map

RECORD = Path(__file__).parent / "recorded_answers.npz"
RECORDED_ON = ("aarch64", "2.4")  # machine and version of numpy, which brings the sums
FAMILIES = ("linear", "partition", "surface", "subspace", "ensemble", "uncertainty")
METHODS = (*OUTPUTS, "distance", "normal")

MORE_SETTINGS = {
    # class name: settings beside those of the common checks
    "BayesianModelAveragingClassifier": [{"weighting": "pseudo_bma+"}],
    "BootstrapEnsembleRegressor": [{"estimator": Ridge(), "n_estimators": 10}],
    "FunctionalGradientBoostingClassifier": [
        {"newton": True},
        {"estimator": Ridge(), "coefficients": "line_search"},
    ],
    "FunctionalGradientBoostingRegressor": [
        {"loss": "huber"},
        {"loss": "quantile", "quantile": 0.7, "coefficients": "leaf"},
        {"loss": "absolute_error", "subsample": 0.7},
        {"coefficients": "corrective", "alpha": 0.1, "post_fit": "l1"},
    ],
    "PrunedTreeClassifier": [{"rule": "min", "cv": 3, "criterion": "entropy"}],
    "RealAdaBoostClassifier": [{"estimator": LogisticRegression(), "learning_rate": 1.0}],
    "SpacePartitioningClassifier": [
        {"n_regions": 3, "max_iter": 4, "keep": "best", "init": "random", "monotone": True},
        {"n_regions": 2, "selection": "validation", "class_weight": "balanced", "scale": False},
    ],
    "SubspaceFusionClassifier": [{"include_full": False, "refit": False}],
    "TruncatedRBFClassifier": [{"solver": "dual", "order": 3}],
    "TruncatedRBFRegressor": [{"solver": "primal", "center": False}],
    "DecisionSurface": [
        {"estimator": SVC(gamma=0.2), "algorithm": "fixed_point", "metric": "standardized"},
        {"estimator": LogisticRegression(), "oracle": "differences", "metric": "mahalanobis"},
    ],
    "SurfaceCalibratedClassifier": [{"method": "first_order", "estimator": SVC(gamma=0.2)}],
    "LocalDiscriminantTransformer": [{"placement": "density", "covariance_type": "full"}],
    "LocallyAdaptiveClassifier": [
        {"n_components": 2, "init": "whiten", "early_stopping": False, "max_iter": 10},
    ],
    "ResponsibilityMixture": [{"covariance_type": "full"}, {"covariance_type": "diag"}],
}

_HELD_OUT = "rows are held out by the rule that all families share, from rare classes, too"
_SMOOTHED = "calibration spreads two rows over all classes (it was one for each of the three)"
CHANGED = {
    # pattern of names: why these answers are no longer those of the library before
    "DivideConquerSVC 1 * predict_proba": _SMOOTHED,
    "SpacePartitioningClassifier 0 *": _HELD_OUT,
    "SpacePartitioningClassifier 6 *": f"{_HELD_OUT}; balanced classes count weights",
    "SpacePartitioningRegressor 0 *": _HELD_OUT,
    "SubspaceFusionClassifier [01] * predict_proba": _SMOOTHED,
    "TruncatedRBFClassifier [02] * predict_proba": _SMOOTHED,
    "TruncatedRBFClassifier 1 *": "another solver of the same problem: 3e-6, both within tolerance",
}

_SOLVER_STOPS = "its solver stops at a tolerance above rounding"
_STEPS_END = "its steps end before they converge, and grow what rounding began"
TURNED_BY_ROUNDING = {
    # pattern of names: why the last digit of a sum may show
    "DecisionSurface 1 *": "points of the surface thousands of scales away",
    "DivideConquerSVC *": _SOLVER_STOPS,
    "FunctionalGradientBoostingClassifier [01] *": "splits of equal gain",
    "LocallyAdaptiveClassifier *": _STEPS_END,
    "RealAdaBoostClassifier 1 single *": _SOLVER_STOPS,
    "SurfaceCalibratedClassifier 2 *": _SOLVER_STOPS,
}


def models():
    """Instances by name, numbered where a class has several; conformal models are all folds."""
    classes = public_estimators()
    more = [make(classes[name], **kw) for name, many in MORE_SETTINGS.items() for kw in many]
    found = {}
    for model in (*all_instances(), *more):
        name, room = type(model).__name__, type(model).__module__.split(".")[1]
        if room in FAMILIES and not name.startswith("Conformal"):
            found[f"{name} {sum(key.split()[0] == name for key in found)}"] = model
    return found


def real_table(model):
    """Every second row of wine or diabetes to learn from, and a few of the others."""
    X, y = (load_diabetes if is_regressor(model) else load_wine)(return_X_y=True)
    if get_tags(model).classifier_tags and not get_tags(model).classifier_tags.multi_class:
        y = np.minimum(y, 1)
    X = StandardScaler().fit_transform(X[:180])
    return X[::2], y[:180:2], X[1::12]


def inputs(model):
    """Training rows, their targets, options of ``fit`` and queries, by kind."""
    X, y = training_data(model)
    Q = queries(model)[:15]
    yield "dense", X, y, {}, Q
    yield "single", X.astype(np.float32), y, {}, Q.astype(np.float32)
    if has_fit_parameter(model, "sample_weight"):
        yield "counts", X, y, {"sample_weight": 1.0 + np.arange(len(X)) % 3}, Q
    if get_tags(model).input_tags.sparse:
        gaps = np.where(np.abs(X) < 0.5, 0.0, X)
        yield "sparse", sparse.csr_array(gaps), y, {}, sparse.csr_array(Q)
    X, y, Q = real_table(model)
    yield "real", X, y, {}, Q


def model_answers(name, model):
    """Numbers that a model gives, by kind of input and method."""
    for kind, X, y, options, Q in inputs(model):
        fitted = clone(model).fit(X, y, **options)
        for method in METHODS:
            if hasattr(fitted, method):
                answer = getattr(fitted, method)(Q)
                answer = answer.toarray() if sparse.issparse(answer) else np.asarray(answer)
                yield f"{name} {kind} {method}", answer


def neighbor_answers():
    """Neighbours by every exact algorithm, and the uncertainty of training rows."""
    X, y = load_wine(return_X_y=True)
    X, Q = X[::2], X[1::12]
    for algorithm in ("brute", "tree"):
        search = NeighborSearch(7, algorithm=algorithm, metric="manhattan").fit(X)
        for part, answer in zip(("distances", "rows"), search.kneighbors(Q), strict=True):
            yield f"neighbors {algorithm} {part}", answer
        own = search.kneighbors(groups=np.arange(len(X)) // 2)[1]
        yield f"neighbors {algorithm} groups", own
        yield f"neighbors {algorithm} radius", search.radius_neighbors(Q, 60.0).indices
        yield f"neighbors {algorithm} mass", search.mass_neighbors(Q).radii
    for count, width in (("class", "auto"), (9, 1.5), (None, "auto")):
        values = uncertainty_map(X, y[::2], n_neighbors=count, bandwidth=width)
        yield f"neighbors uncertainty {count} {width}", values
    counts = 1.0 + np.arange(len(X)) % 3
    yield "neighbors uncertainty counts", uncertainty_map(X, y[::2], sample_weight=counts)


def answers(name):
    """All numbers under one name."""
    found = model_answers(name, models()[name]) if name in models() else neighbor_answers()
    return dict(found)


def is_changed(key):
    return any(fnmatch(key, pattern) for pattern in CHANGED)


def is_comparable(key):
    turned = any(fnmatch(key, pattern) for pattern in TURNED_BY_ROUNDING)
    here = platform.machine(), np.__version__.rpartition(".")[0]
    return here == RECORDED_ON or not turned


# Some settings stop early, to be quick.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [*models(), "neighbors"])
def test_answers_are_those_recorded(name):
    with np.load(RECORD) as record:
        recorded = {key: record[key] for key in record.files if key.startswith(f"{name} ")}
    found = answers(name)
    assert found.keys() == recorded.keys()
    assert found
    for key, value in found.items():
        assert value.shape == recorded[key].shape
        if not is_comparable(key):
            continue
        tolerance = 1e-3 if " single " in key else 1e-7
        assert_allclose(value, recorded[key], rtol=tolerance, atol=tolerance, err_msg=key)


def write():
    """Record anew what has changed or is new."""
    with np.load(RECORD) as record:
        before = {key: record[key] for key in record.files}
    found = {k: v for name in (*models(), "neighbors") for k, v in answers(name).items()}
    kept = {k: v if is_changed(k) or k not in before else before[k] for k, v in found.items()}
    np.savez_compressed(RECORD, **kept)


if __name__ == "__main__":
    write()
