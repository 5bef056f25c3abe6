"""Intervals and label sets from held-out predictions."""

import warnings
from typing import Any

import numpy as np
from scipy import sparse

from vicinal._base import row_blocks
from vicinal._base._tables import spread_rows
from vicinal._conformal._typicality import StandardizedRows
from vicinal._kernels.calibration import _conformal

_SIZES = (20, 40, 80, 160, 320, 640)
# Quantiles of more rows are hardly better, and models larger.
MAX_HELD_OUT = 5000
# Rows on which sizes are compared.
_MAX_ROWS = 2000
# With fewer rows the scale is constant.
_MIN_ROWS = 50
_FLOOR_QUANTILE = 0.05
# Powers of the scale, and by how many standard errors the one in use may be worse than the best.
_POWERS, _SLACK = np.linspace(0.0, 1.0, 21), 0.5
# No learning curve is taken to be steeper than this power.
_STEEPEST_CURVE = 1.0
# Lines are fitted on tables of at most so many columns, with this penalty relative to the scatter.
_MAX_COLUMNS = 20
_RIDGE = 0.01
# Numbers with more different values are grouped by their quintiles.
_MAX_GROUPS = 20


class LocalScale:
    r"""Local mean or local line of absolute errors, :math:`s(x) \approx E(|r| \mid x)`.

    Weights are tricube in the distance to the next neighbour. Size and degree (0: mean, 1: ridge
    line, for few columns) minimise :math:`\log s + |r| / s`, the negative likelihood of Laplace
    errors, in leave-one-out. The scale is constant unless a local one is better by more than a
    standard error. Scales below their own 5 % quantile are raised to it, so that a few exact
    predictions do not give an interval of length zero. The estimates vary more than the true
    scale, and intervals that vary less are narrower on average. The scale is therefore
    :math:`u s(x)^\gamma`, with the smallest power that is worse than the best by at most half a
    standard error, and u such that the mean of :math:`|r| / s` is one.

    Parameters
    ----------
    rows : StandardizedRows
        Training rows.
    errors : ndarray of shape (n_samples, n_outputs)
        Absolute errors of held-out predictions.
    weights : ndarray of shape (n_samples,), optional
        Weights of the rows.
    groups : ndarray of int of shape (n_samples,), optional
        Number of the group of each row; rows of a group are held out together.

    Attributes
    ----------
    size : int or None
        Number of neighbours; None for a constant scale.
    degree : {0, 1}
        Degree of the local fit.
    power : float
        Power that flattens the scale, between 0 and 1.
    held_out : ndarray of shape (n_samples, n_outputs)
        Scale at each training row without its own error.
    """

    def __init__(
        self,
        rows: StandardizedRows,
        errors: np.ndarray,
        weights: np.ndarray | None = None,
        groups: np.ndarray | None = None,
    ):
        self.rows = rows
        self.errors = errors
        self.weights = np.ones(len(errors)) if weights is None else weights
        self.groups = groups
        self.size, self.degree = self._chosen()
        self.level, self.held_out = self._constant()
        self.floor = np.zeros(errors.shape[1])
        if self.size is not None:
            everyone = np.arange(len(errors))
            self.held_out = self._fits(rows.Z, self.size, self.degree, everyone)
            self.floor = np.quantile(self.held_out, _FLOOR_QUANTILE, axis=0)
        # If every error is zero, any positive scale is valid.
        least = np.where(self.level > 0.0, 1e-6 * self.level, 1.0)
        self.floor = np.maximum(self.floor, least)
        self.held_out = np.maximum(self.held_out, self.floor)
        self.power, self.unit = 1.0, np.ones(errors.shape[1])
        if self.size is not None:
            self.power, self.unit = self._flattest()
            self.held_out = self.unit * self.held_out**self.power

    def __call__(self, X) -> np.ndarray:
        """Return the scale at queries, (n_queries, n_outputs)."""
        if self.size is None:
            return np.maximum(np.tile(self.level, (X.shape[0], 1)), self.floor)
        out = self._fits(self.rows.coordinates(X), self.size, self.degree)
        return self.unit * np.maximum(out, self.floor) ** self.power

    def unseen(self, folds: np.ndarray) -> np.ndarray:
        """Return the ratio of the errors around a row not used in training to those around others.

        Most errors around a training row are of models that were fitted to it; those of its own
        fold are not, like the errors around a new row. The ratio of their means is computed for
        each output, around all rows and around rows of large errors, and the smaller one is
        returned: a model that copies single rows has large errors in pairs.
        """
        if self.size is None:
            return np.ones(self.errors.shape[1])
        middle = np.median(self.errors, axis=0)
        rows = spread_rows(len(self.errors), _MAX_ROWS)
        apart = everyone = np.zeros((2, self.errors.shape[1]))
        for block in self._blocks(len(rows), self.size):
            own = rows[block]
            distances, indices = self.rows.neighbors_of_training(own, self.size + 1, self.groups)
            indices = indices[:, :-1]
            weights = tricube(distances) * self.weights[indices]
            together = weights * (folds[indices] == folds[own][:, None])
            share = together.sum(axis=1) / weights.sum(axis=1)
            errors = self.errors[indices]
            counted = np.stack([np.ones_like(self.errors[own]), self.errors[own] > middle])
            counted *= self.weights[own][:, None]
            apart = apart + np.einsum("cqo,qk,qko->co", counted, together, errors)
            usual = share[:, None] * weights
            everyone = everyone + np.einsum("cqo,qk,qko->co", counted, usual, errors)
        known = (apart > 0.0) & (everyone > 0.0)
        ratio = np.where(known, apart, 1.0) / np.where(known, everyone, 1.0)
        return ratio.min(axis=0) ** self.power

    def _constant(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean error, and the same without each row and its group."""
        total = self.weights @ self.errors
        mass = self.weights.sum()
        own = self.weights[:, None]
        sums = own * self.errors
        if self.groups is not None:
            own, sums = (_group_sums(part, self.groups) for part in (own, sums))
        rest = np.maximum(mass - own, 1e-300)
        left = np.where(mass - own > 1e-12 * mass, (total - sums) / rest, 0.0)
        return total / mass, np.maximum(left, 0.0)

    def _chosen(self) -> tuple[int | None, int]:
        n, d = self.rows.Z.shape
        n_others = n - (1 if self.groups is None else int(np.bincount(self.groups).max()))
        plans = [(size, 0) for size in _SIZES if size + 1 < min(n // 2, n_others)]
        if d <= _MAX_COLUMNS and not sparse.issparse(self.rows.Z):
            plans += [(size, 1) for size, _ in plans if size >= 4 * (d + 1)]
        if n < _MIN_ROWS or not plans:
            return None, 0
        rows = spread_rows(len(self.errors), _MAX_ROWS)
        level, constant = self._constant()
        unit = np.where(level > 0.0, level, 1.0)
        share = self.weights[rows] / self.weights[rows].sum()
        losses = [self._losses(constant[rows], rows, unit)]
        fits = (self._fits(self.rows.Z[rows], *plan, rows) for plan in plans)
        losses += [self._losses(fit, rows, unit) for fit in fits]
        means = [share @ loss for loss in losses]
        best = int(np.argmin(means))
        gain = losses[0] - losses[best]
        spread = np.sqrt(share @ (gain - share @ gain) ** 2 / len(rows))
        return (None, 0) if best == 0 or share @ gain <= spread else plans[best - 1]

    def _flattest(self) -> tuple[float, np.ndarray]:
        """Return the smallest power that the likelihood does not reject, and its unit."""
        rows = spread_rows(len(self.errors), _MAX_ROWS)
        share = self.weights[rows] / self.weights[rows].sum()
        level = np.where(self.level > 0.0, self.level, 1.0)
        flat = [self.held_out[rows] ** power for power in _POWERS]
        units = [share @ (self.errors[rows] / scale) for scale in flat]
        units = [np.where(unit > 0.0, unit, 1.0) for unit in units]
        losses = np.array(
            [self._losses(u * scale, rows, level) for u, scale in zip(units, flat, strict=True)]
        )
        excess = losses - losses[(losses @ share).argmin()]
        means = excess @ share
        spread = np.sqrt((excess - means[:, None]) ** 2 @ share / len(rows))
        first = int(np.argmax(means <= _SLACK * spread))
        return float(_POWERS[first]), units[first]

    def _losses(self, scale: np.ndarray, rows: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Return log s + |r| / s of each row, in units of the mean error."""
        scale = np.maximum(scale / unit, 1e-3)
        return (np.log(scale) + self.errors[rows] / unit / scale).mean(axis=1)

    def _blocks(self, n: int, size: int):
        return row_blocks(n, 32 * (size + 1) * (self.rows.Z.shape[1] + 1), max_rows=2048)

    def _fits(self, Z, size: int, degree: int, own: np.ndarray | None = None) -> np.ndarray:
        """Return local fits at coordinates, of training rows ``own`` without their groups."""
        out = np.empty((Z.shape[0], self.errors.shape[1]))
        for block in self._blocks(Z.shape[0], size):
            if own is None:
                distances, indices = self.rows.search.kneighbors(Z[block], size + 1)
            else:
                rows = own[block]
                distances, indices = self.rows.neighbors_of_training(rows, size + 1, self.groups)
            out[block] = self._fit(Z[block], distances, indices, degree)
        return out

    def _fit(self, Z, distances: np.ndarray, indices: np.ndarray, degree: int) -> np.ndarray:
        indices = indices[:, :-1]
        weights = tricube(distances) * self.weights[indices]
        weights = weights / weights.sum(axis=1, keepdims=True)
        errors = self.errors[indices]
        means = np.einsum("qk,qko->qo", weights, errors)
        if degree == 0:
            return means
        lines = local_lines(self.rows.Z[indices] - Z[:, None], errors, weights)
        # A line may fall below zero; it is bounded by a share of the local mean.
        return np.clip(lines, 0.2 * means, 5.0 * means)


def _group_sums(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return for each row the sum over the rows of its group."""
    sums = np.zeros((int(groups.max()) + 1, values.shape[1]))
    np.add.at(sums, groups, values)
    return sums[groups]


def local_lines(A: np.ndarray, errors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the intercepts at A = 0 of weighted ridge lines, (n_queries, n_outputs).

    ``A`` holds differences to the query (n_queries, n_neighbors, n_columns); weights sum to one.
    """
    centre = np.einsum("qk,qkd->qd", weights, A)
    A = A - centre[:, None]
    scatter = np.einsum("qk,qkd,qke->qde", weights, A, A, optimize=True)
    d = A.shape[2]
    ridge = _RIDGE * np.trace(scatter, axis1=1, axis2=2) / d
    scatter += (ridge + 1e-300)[:, None, None] * np.eye(d)
    means = np.einsum("qk,qko->qo", weights, errors)
    moment = np.einsum("qk,qkd,qko->qdo", weights, A, errors, optimize=True)
    slopes = np.linalg.solve(scatter, moment)
    return means - np.einsum("qd,qdo->qo", centre, slopes)


def tricube(distances: np.ndarray) -> np.ndarray:
    """Return weights of all neighbours but the last, whose distance is the bandwidth."""
    reach = distances[:, -1:]
    # Rows at equal distances have equal weights.
    ratio = np.where(reach > 0.0, distances[:, :-1] / np.where(reach > 0.0, reach, 1.0), 0.0)
    return np.maximum((1.0 - np.minimum(ratio, 1.0) ** 3) ** 3, 1e-12)


class ResidualIntervals:
    r"""Intervals :math:`f(x) \mp q\, s(x)` with a local scale s and a conformal quantile q.

    The quantile is that of :math:`|r_i| / s_{-i}(x_i)` over the training rows, including a new
    row's own weight. If these ratios are skewed, each end has its own quantile.

    Rows held out by folds differ from new rows in two ways. Most models of the rows around a
    held-out row were fitted to it, so its scale is too small, by :meth:`LocalScale.unseen`. Its own
    prediction is by a model of fewer rows, so its error is too large, by :func:`learning_factor`.

    Parameters
    ----------
    rows : StandardizedRows
        Training rows.
    residuals : ndarray of shape (n_samples, n_outputs)
        Residuals of held-out predictions.
    weights : ndarray of shape (n_samples,), optional
        Weights of the rows.
    folds : ndarray of int of shape (n_samples,), optional
        Number of the fold of each row; ``None`` for leave-one-out.
    coarse : ndarray of shape (n_samples, n_outputs), optional
        Residuals of models fitted to about half of the rows.
    groups : ndarray of int of shape (n_samples,), optional
        Number of the group of each row; rows of a group are held out together.
    """

    def __init__(
        self,
        rows: StandardizedRows,
        residuals: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        folds: np.ndarray | None = None,
        coarse: np.ndarray | None = None,
        groups: np.ndarray | None = None,
    ):
        self.rows = rows
        self.weights = weights
        self.scale = LocalScale(rows, np.abs(residuals), weights, groups)
        scale = self.scale.held_out
        if folds is not None:
            scale = scale * self.scale.unseen(folds)
        self.ratios = residuals / scale
        if folds is not None and coarse is not None:
            errors = np.abs(coarse / scale), np.abs(self.ratios)
            self.ratios *= learning_factor(*errors, folds, weights)

    def around(self, values: np.ndarray, X, coverage: float, near: Any = None) -> np.ndarray:
        """Return the ends of intervals around predictions, (n_queries, n_outputs, 2).

        ``near``, a ``NearRows`` or ``GroupRows``, takes the quantile over some rows for each query;
        it is infinite, with a warning, where these are too few for the coverage.
        """
        check_coverage(coverage)
        scale = self.scale(X)
        ends = np.empty((*values.shape, 2))
        for output in range(values.shape[1]):
            low, high = self._reach(self.ratios[:, output], coverage, near)
            ends[:, output, 0] = values[:, output] - low * scale[:, output]
            ends[:, output, 1] = values[:, output] + high * scale[:, output]
        is_infinite = np.asarray(np.isinf(ends).any(axis=(1, 2)))
        if is_infinite.any():
            warnings.warn(
                f"{int(is_infinite.sum())} of {len(is_infinite)} intervals are unbounded, because "
                f"too few held-out rows are near for a coverage of {coverage:g}. Lower the "
                "coverage or add rows.",
                UserWarning,
                stacklevel=3,
            )
        return ends

    def _reach(self, ratios: np.ndarray, coverage: float, near: Any):
        """Return the lengths of an interval below and above its centre, in scales."""

        def quantile(scores, chance):
            if near is None:
                return _conformal.conformal_quantile(scores, chance, self.weights)
            return near.quantiles(scores, chance)

        if _conformal.is_skewed(ratios):
            one_sided = 0.5 * (1.0 + coverage)
            return quantile(-ratios, one_sided), quantile(ratios, one_sided)
        reach = quantile(np.abs(ratios), coverage)
        return reach, reach


class NearRows:
    """Rows around queries, weighted by distance, and each query's own weight."""

    def __init__(self, rows: StandardizedRows, X, weights: np.ndarray | None, coverage: float):
        # About twenty neighbours beyond the quantile.
        size = int(min(max(100, np.ceil(20.0 / (1.0 - coverage))), rows.n_samples - 1))
        distances, self.indices = rows.neighbors(X, size + 1)
        self.indices = self.indices[:, :-1]
        self.weights = tricube(distances)
        if weights is not None:
            self.weights = self.weights * weights[self.indices]
        self.own = np.full(len(distances), _conformal.own_weight(weights))

    def quantiles(self, scores: np.ndarray, coverage: float) -> np.ndarray:
        """Return the conformal quantile around each query."""
        return _conformal.local_quantiles(scores[self.indices], self.weights, self.own, coverage)


class GroupRows:
    """Held-out rows of the group of each query (Mondrian conformal prediction).

    Parameters
    ----------
    rows, queries : ndarray of shape (n_samples, n_columns) and (n_queries, n_columns)
        Columns whose values make the groups, of held-out rows and of queries. A column of more than
        20 different numbers is split at its quintiles.
    weights : ndarray of shape (n_samples,), optional
        Weights of the rows.

    Attributes
    ----------
    is_pooled : ndarray of bool of shape (n_queries,)
        Queries whose groups have too few rows, and which get the quantile of all rows.
    """

    def __init__(self, rows: np.ndarray, queries: np.ndarray, weights: np.ndarray | None):
        pairs = zip(rows.T, queries.T, strict=True)
        codes = np.column_stack([_joint_codes(*pair) for pair in pairs])
        codes = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)
        self.codes, self.queries = codes[: len(rows)], codes[len(rows) :]
        self.weights = weights
        self.is_pooled = np.zeros(len(queries), dtype=bool)

    def quantiles(self, scores: np.ndarray, coverage: float) -> np.ndarray:
        """Return the conformal quantile of the group of each query."""
        found = np.full(
            len(self.queries), _conformal.conformal_quantile(scores, coverage, self.weights)
        )
        for code in np.unique(self.queries):
            rows, queries = self.codes == code, self.queries == code
            weights = None if self.weights is None else self.weights[rows]
            own = _conformal.conformal_quantile(scores[rows], coverage, weights)
            self.is_pooled |= queries & np.isinf(own)
            found = np.where(queries & np.isfinite(own), own, found)
        return found


def _joint_codes(known: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return a code for the value of each known and new row."""
    both = np.concatenate([known, new])
    if len(np.unique(known)) > _MAX_GROUPS:
        edges = np.nanquantile(known, [0.2, 0.4, 0.6, 0.8])
        both = np.where(np.isnan(both), np.nan, np.searchsorted(edges, both))
    return np.unique(both, return_inverse=True)[1]


def check_coverage(coverage) -> None:
    """Raise unless ``coverage`` is a probability."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(
            f"coverage={coverage!r} must lie between 0 and 1, for example 0.9 for 90 %."
        )


LABEL_SCORES = {"threshold": _conformal.threshold_scores, "adaptive": _conformal.adaptive_scores}


def label_sets(
    held_out: Any, proba: np.ndarray, coverage: float, *, method: str, by_class: bool, near: Any
) -> np.ndarray:
    r"""Return the sets :math:`\{c : e_c(x) \le q\}` of labels, boolean (n_queries, n_classes).

    ``q`` is the conformal quantile of the scores of true labels among ``held_out``, a
    ``HeldOutRows``; ``proba`` are the probabilities of the queries. ``near`` as for intervals.
    """
    check_coverage(coverage)
    if method not in LABEL_SCORES:
        raise ValueError(f"method={method!r} must be one of {sorted(LABEL_SCORES)}.")
    scores, weights = LABEL_SCORES[method](held_out.predictions), held_out.weights
    true = scores[np.arange(len(scores)), held_out.targets]
    limit: Any
    if near is not None:
        limit = near.quantiles(true, coverage)[:, None]
    elif by_class:
        own = [held_out.targets == label for label in range(scores.shape[1])]
        parts = [(true[rows], None if weights is None else weights[rows]) for rows in own]
        limit = np.array([_conformal.conformal_quantile(part, coverage, w) for part, w in parts])
    else:
        limit = _conformal.conformal_quantile(true, coverage, weights)
    return LABEL_SCORES[method](proba) <= limit


def learning_factor(
    coarse: np.ndarray, errors: np.ndarray, folds: np.ndarray, weights: np.ndarray | None
) -> float:
    """Return the error of a model of all rows relative to those of the folds.

    Errors fall as a power of the number of rows, which is estimated from ``coarse``, the errors of
    models fitted to half of the rows, and ``errors``, those of models fitted to all but one fold.
    ``folds`` are the numbers of the folds of the rows.
    """
    few, most = (np.average(part.mean(axis=1), weights=weights) for part in (coarse, errors))
    if not 0.0 < most < few < np.inf:
        return 1.0
    share = log_share(folds)
    power = np.log(few / most) / (share - log_share(folds % 2))
    return float(np.exp(min(power, _STEEPEST_CURVE) * share))


def log_share(folds: np.ndarray) -> float:
    """Return the mean, over rows, of the log share of rows that their model was fitted to."""
    shares = np.bincount(folds) / len(folds)
    return float(shares @ np.log1p(-np.minimum(shares, 1.0 - 1e-9)))
