"""What the estimators of this family share: rows of any array library, mixtures of rows."""

import warnings
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import validate_data

from vicinal._base import as_numpy, check_magnitude, draw_seeds, is_array_api, validate_array_api
from vicinal._kernels.metric._mixture import (
    Components,
    expectation_maximisation,
    moments,
    precision_roots,
    scatter,
    start_from_labels,
)

# A start needs the shape of the data, not every row of it.
_START_ROWS = 20_000


def validate_rows(estimator: Any, X: Any, *, reset: bool, **options: Any) -> Any:
    """Validate ``X`` in its own library and keep its floating type."""
    if is_array_api(X):
        return validate_array_api(estimator, X, reset=reset)
    X = validate_data(
        estimator, X, reset=reset, dtype=[np.float64, np.float32], order="C", **options
    )
    check_magnitude("X", X)
    return X


def validate_labels(y: Any, X: Any) -> np.ndarray:
    """Return one finite label per row of ``X``, on the host."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    y = check_array(as_numpy(y), ensure_2d=False, dtype=None, input_name="y")
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    return y


def merge_copies(
    X: Any, codes: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Merge equal rows of the same class into one that has their weight.

    Returns the position of one row of each kind, in an order that does not depend on the order of
    ``X``; the kind of each row; and the weight of each kind. So a row of weight two *is* the row
    twice, and no row is its own neighbour through a copy. Rows of a device array are copied to the
    host to be compared.
    """
    table = np.column_stack([as_numpy(X), codes.astype(as_numpy(X).dtype)]) + 0.0
    _, first, kind = np.unique(_bytes(table), return_index=True, return_inverse=True)
    # By the bytes of single precision, so that both precisions draw the same rows.
    order = np.argsort(_bytes(table[first].astype(np.float32)), kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return first[order], place[kind], np.bincount(place[kind], weights=weights)


def _bytes(table: np.ndarray) -> np.ndarray:
    """Return each row as one value that can be compared."""
    width = table.itemsize * table.shape[1]
    return np.ascontiguousarray(table).view(np.dtype((np.void, width)))[:, 0]


# Starts that end with objectives this near, by their size, came to the same place: the first is
# kept, or rounding would choose the order of the components.
_SAME_END = 1e-9


class FittedMixture(NamedTuple):
    """The best of several starts of EM."""

    components: Components
    path: list[float]
    converged: bool


def fit_mixture(
    X: Any,
    weights: Any,
    n_components: int,
    covariance_type: str,
    *,
    reg_covar: float,
    n_init: int,
    tol: float,
    max_iter: int,
    means_init: Any = None,
    random_state: Any = None,
) -> FittedMixture:
    """Fit a mixture to rows of positive weight, from several weighted k-means starts."""
    xp = compat.array_namespace(X)
    total = xp.sum(weights)
    center = xp.sum(X * weights[:, None], axis=0) / total
    rows = X - center[None, :]
    variance = float(xp.mean(xp.sum(rows * rows * weights[:, None], axis=0) / total))
    # Proportional to the weights, so that a row of weight two is a row seen twice.
    ridge = reg_covar * (variance or 1.0) * float(total) / n_components
    total_scatter = scatter(rows, weights)
    starts = [
        start_from_labels(rows, weights, labels, n_components, ridge, covariance_type)
        for labels in _starts(rows, weights, n_components, n_init, means_init, center, random_state)
    ]
    ends = expectation_maximisation(
        lambda asked: [moments(rows, weights, each, covariance_type) for each in asked],
        starts,
        total_scatter,
        ridge,
        covariance_type,
        tol=tol,
        max_iter=max_iter,
    )
    return best_mixture(ends, center)


def best_mixture(ends: list[tuple[Components, list[float], bool]], center: Any) -> FittedMixture:
    """Return the end of highest objective, the first of equals, moved back to ``center``."""
    fitted = [FittedMixture(*end) for end in ends]
    bound = max(end.path[-1] for end in fitted)
    slack = _SAME_END * max(1.0, abs(bound))
    best = next(end for end in fitted if end.path[-1] >= bound - slack)
    moved = best.components._replace(means=best.components.means + center[None, :])
    return best._replace(components=moved)


def _starts(rows, weights, n_components, n_init, means_init, center, random_state):
    """Yield an assignment of rows to components per start."""
    xp = compat.array_namespace(rows)
    if means_init is not None:
        means = xp.asarray(means_init, dtype=rows.dtype, device=compat.device(rows))
        yield nearest_center(rows, means - center[None, :])
        return
    if n_components == 1:
        yield xp.zeros(rows.shape[0], dtype=xp.int64, device=compat.device(rows))
        return
    for seed in draw_seeds(random_state, n_init):
        centers = weighted_centers(rows, weights, n_components, seed)
        yield nearest_center(rows, centers)


def weighted_centers(X: Any, weights: Any, n_clusters: int, seed: int, n_init: int = 1) -> Any:
    """Centres of weighted k-means with a k-means++ start: (n_clusters, n_features).

    scikit-learn does this in host memory, so at most 20,000 rows of a device array are copied.
    """
    xp = compat.array_namespace(X)
    if is_array_api(X) and X.shape[0] > _START_ROWS:
        chosen = np.random.RandomState(seed).choice(X.shape[0], _START_ROWS, replace=False)
        chosen = xp.asarray(np.sort(chosen), device=compat.device(X))
        X_host, weights = xp.take(X, chosen, axis=0), xp.take(weights, chosen)
    else:
        X_host = X
    search = KMeans(n_clusters, n_init=n_init, random_state=seed)
    with warnings.catch_warnings():
        # Fewer distinct rows than components: the spare ones coincide, which EM can live with.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(as_numpy(X_host), sample_weight=as_numpy(weights))
    return xp.asarray(search.cluster_centers_, dtype=X.dtype, device=compat.device(X))


def nearest_center(X: Any, centers: Any) -> Any:
    """Index of the nearest centre of each row."""
    xp = compat.array_namespace(X)
    return xp.argmin(xp.sum(centers * centers, axis=1)[None, :] - 2 * (X @ centers.T), axis=1)


def as_components(estimator: Any, xp: Any) -> Components:
    """Return the parameters of a fitted ``ResponsibilityMixture``."""
    return Components(
        estimator.weights_,
        estimator.means_,
        estimator.covariances_,
        precision_roots(estimator.covariances_, estimator.covariance_type, xp),
    )
