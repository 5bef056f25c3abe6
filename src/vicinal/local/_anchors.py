"""Local models fitted once at anchors, as plain arrays, and where to put the anchors."""

from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.utils import check_random_state

from vicinal._base import saved
from vicinal._kernels.local._blend import blend_slopes, blend_values
from vicinal.local._fits import equivalent_kernels, local_slopes, over_queries, smooth
from vicinal.local._neighborhood import NearestRule, Neighborhoods
from vicinal.local._search import NeighborIndex

# Rows on which the centres are placed: enough for k-means, few enough to forget n.
_ROWS_PER_ANCHOR = 20
_MIN_ROWS = 10_000
_LLOYD_ITERATIONS = 10
# Beyond this number of centres a spread-out start gains nothing over a weighted draw.
_MAX_SPREAD_START = 1024
# Neighbours whose labels tell how far classes mix around a row, and the say of a pure row.
_MIXING_NEIGHBORS = 20
_PURE_SHARE = 0.1


@saved(centers="m s", origins="m d", values="m o", slopes="m o d")
@dataclass(frozen=True)
class Anchors:
    r"""Local linear models at fixed places, with all that a prediction needs.

    A query q whose coordinates are p (search) and z (design) is answered by

    .. math:: \sum_j v_j (a_j + B_j (z - o_j)) \Big/ \sum_j v_j,
              \qquad v_j = (1 - (\|p - c_j\| / h)^3)^3_+,

    over its ``n_blended`` nearest anchors, h being the distance of the next one
    (``n_blended + 1``); where h is 0, the anchors at distance 0 speak alone.

    Attributes
    ----------
    centers : ndarray of shape (n_anchors, n_coordinates)
        Places c in the coordinates of the search.
    origins : ndarray of shape (n_anchors, n_columns)
        Origins o of the models, in the columns of the design; the centres themselves unless
        ``location_columns`` separates the two.
    values : ndarray of shape (n_anchors, n_outputs)
        Values a at the origins.
    slopes : ndarray of shape (n_anchors, n_outputs, n_columns)
        Slopes B.
    n_blended : int
        Number of nearest anchors that speak for a query.
    """

    centers: np.ndarray
    origins: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    n_blended: int

    @property
    def rule(self) -> NearestRule:
        """Which anchors speak for a query, and with which weight."""
        return blending_rule(self.n_blended)

    def predict(self, design, found: Neighborhoods, n_jobs: int | None = None) -> np.ndarray:
        """Return the blended values, shape (n_queries, n_outputs)."""
        out = np.empty((found.n_queries, self.values.shape[1]))

        def run(queries):
            blend_values(
                found.indptr[queries.start : queries.stop + 1],
                found.indices,
                found.weights,
                design[queries],
                self.origins,
                self.values,
                self.slopes,
                out[queries],
            )

        over_queries(run, found.n_queries, n_jobs)
        return out

    def blended_slopes(self, found: Neighborhoods) -> np.ndarray:
        """Return the blended slopes, shape (n_queries, n_outputs, n_columns)."""
        out = np.empty((found.n_queries, *self.slopes.shape[1:]))
        blend_slopes(found.indptr, found.indices, found.weights, self.slopes, out)
        return out


def blending_rule(n_blended: int) -> NearestRule:
    """Return the rule by which anchors are weighed: continuous in the query from two on."""
    return NearestRule(float(n_blended), "tricube")


def anchor_counts(anchors, total_weight: float, ladder) -> list[int]:
    """Return the numbers of anchors to compare: the one given, or the automatic ladder."""
    if anchors != "auto":
        if anchors > total_weight:
            raise ValueError(
                f"anchors={anchors} exceeds the {total_weight:g} samples given (counted by "
                "weight); lower it, or use anchors=None to fit around every query."
            )
        return [int(anchors)]
    most = max(1, int(total_weight) // 3)
    return [m for m in ladder if m <= most] or [most]


def place_centers(m: int, X, index: NeighborIndex, coordinates, codes, weights, random_state):
    """Return ``m`` centres (fewer if rows repeat) as rows of X's columns, by weighted k-means.

    k-means runs in the coordinates of the search. With class labels a row counts by how far
    classes mix around it, because pure regions need few models. Where the coordinates are not
    linear in the columns, the rows nearest to the means are taken instead of the means.
    """
    rng = check_random_state(random_state)
    n, size = X.shape[0], max(_MIN_ROWS, _ROWS_PER_ANCHOR * m)
    some = np.arange(n) if n <= size else np.sort(rng.choice(n, size, replace=False))
    rows, place = np.asarray(X[some], dtype=np.float64), index.X[some]
    share = np.ones(len(some)) if weights is None else weights[some]
    if codes is not None:
        share = share * (_PURE_SHARE + _mixing(place, codes[some]))
    if m <= _MAX_SPREAD_START:
        start, _ = kmeans_plusplus(
            place, m, sample_weight=share, random_state=rng, n_local_trials=1
        )
    else:
        start = place[rng.choice(len(place), m, replace=False, p=share / share.sum())]
    start = np.unique(start, axis=0)
    means = KMeans(len(start), init=start, n_init=1, max_iter=_LLOYD_ITERATIONS)
    labels = means.fit(place, sample_weight=share).labels_
    raw, centers = _means(rows, labels, share), _means(place, labels, share)
    if np.allclose(coordinates(raw), centers, rtol=1e-6, atol=1e-6 * np.ptp(place)):
        return raw
    nearest = NeighborIndex(place).nearest(centers, 1)[1][:, 0]
    return rows[np.unique(nearest)]


def _means(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted mean of each cluster that has a row."""
    total = np.bincount(labels, weights)
    sums = [np.bincount(labels, weights * column) for column in rows.T]
    occupied = total > 0.0
    return np.ascontiguousarray((np.stack(sums, axis=1)[occupied]) / total[occupied, None])


def _mixing(place: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the Gini impurity of the labels around each row, 0 where one class is alone."""
    m = min(len(place), _MIXING_NEIGHBORS + 1)
    index, n_classes = NeighborIndex(place), int(codes.max()) + 1
    out = np.empty(len(place))
    for start in range(0, len(place), 4096):
        block = slice(start, start + 4096)
        labels = codes[index.nearest(place[block], m)[1]]
        square = np.zeros(len(labels))
        for c in range(n_classes):
            square += ((labels == c).mean(axis=1)) ** 2
        out[block] = 1.0 - square
    return out


def ridge_planes(
    rows, Y, Q, found: Neighborhoods, alpha: float, *, relative: bool, degree: int, n_jobs
) -> tuple[np.ndarray, np.ndarray]:
    """Return values (n, n_outputs) and slopes (n, n_outputs, d) of ridge fits at their centres.

    A polynomial of degree 2 is stored as its tangent plane.
    """
    settings: dict = {"relative": relative, "degree": degree, "n_jobs": n_jobs}
    slopes = local_slopes(rows, Y, Q, found, alpha, **settings)
    if degree == 1 and alpha > 0.0:
        # A fit with a free intercept passes through the weighted mean of its rows.
        owner = np.repeat(np.arange(found.n_queries), found.sizes())
        share = found.weights / np.bincount(owner, found.weights)[owner]
        offset = smooth(found, share, rows) - Q
        values = smooth(found, share, Y) - np.einsum("tp,tcp->tc", offset, slopes)
    else:
        flat = equivalent_kernels(rows, Q, found, [alpha], **settings)[0]
        values = smooth(found, flat, Y)
    return values, slopes
