"""How large errors are around a place."""

import numpy as np
from scipy import sparse

from vicinal._base import row_blocks
from vicinal._rows._place import Place

_SIZES = (20, 40, 80, 160, 320, 640)
# Rows on which sizes are compared.
_MAX_ROWS = 2000
# Fewer rows than this cannot tell one place from another.
_MIN_ROWS = 50
_FLOOR_QUANTILE = 0.05
# Powers of the scale, and by how many standard errors the one in use may be worse than the best.
_POWERS, _SLACK = np.linspace(0.0, 1.0, 21), 0.5
# Lines are fitted on tables of at most so many columns, with this penalty relative to the scatter.
_MAX_COLUMNS = 20
_RIDGE = 0.01


class LocalScale:
    r"""Local mean or local line of absolute errors, :math:`s(x) \approx E(|r| \mid x)`.

    Weights are tricube in the distance to the first neighbour left out. Size and degree (0: mean,
    1: ridge line, on tables of few columns), or one scale for all places, are those of least
    :math:`\log s + |r| / s` (the likelihood of Laplace errors) on rows left out of their own fit;
    one scale stays unless a local one is better by more than a standard error. Scales below their
    own 5 % quantile are raised to it, so that a few rows that happen to be met exactly make no
    interval vanish. Estimates vary more than what they estimate, and intervals that vary less are
    narrower on average: the answer is :math:`u s(x)^\gamma`, with the least power that is worse
    than the best by no more than half a standard error, u such that the mean of
    :math:`|r| / s` is one.

    Parameters
    ----------
    place : Place
        Training rows in their coordinates.
    errors : ndarray of shape (n_samples, n_outputs)
        Absolute errors of held-out answers.
    weights : ndarray of shape (n_samples,), optional
        How often each row counts.
    groups : ndarray of int of shape (n_samples,), optional
        Rows of one number are left out together: their errors are alike, and a new row is of none
        of these groups.

    Attributes
    ----------
    size : int or None
        Number of neighbours; None for one scale everywhere.
    degree : {0, 1}
        Degree of the local fit.
    power : float
        Power that flattens the scale, between 0 and 1.
    held_out : ndarray of shape (n_samples, n_outputs)
        Scale at each training row without its own error.
    """

    def __init__(
        self,
        place: Place,
        errors: np.ndarray,
        weights: np.ndarray | None = None,
        groups: np.ndarray | None = None,
    ):
        self.place = place
        self.errors = errors
        self.weights = np.ones(len(errors)) if weights is None else weights
        self.groups = groups
        self.size, self.degree = self._chosen()
        self.level, self.held_out = self._constant()
        self.floor = np.zeros(errors.shape[1])
        if self.size is not None:
            everyone = np.arange(len(errors))
            self.held_out = self._left_out(everyone, self.size, self.degree)
            self.floor = np.quantile(self.held_out, _FLOOR_QUANTILE, axis=0)
        # Where every error is zero any positive scale will do.
        least = np.where(self.level > 0.0, 1e-6 * self.level, 1.0)
        self.floor = np.maximum(self.floor, least)
        self.held_out = np.maximum(self.held_out, self.floor)
        self.power, self.unit = 1.0, np.ones(errors.shape[1])
        if self.size is not None:
            self.power, self.unit = self._flattest()
            self.held_out = self.unit * self.held_out**self.power

    def __call__(self, X) -> np.ndarray:
        """Return the scale at queries, (n_queries, n_outputs)."""
        n = X.shape[0]
        if self.size is None:
            return np.maximum(np.tile(self.level, (n, 1)), self.floor)
        Z = self.place.coordinates(X)
        out = np.empty((n, self.errors.shape[1]))
        for block in self._blocks(n, self.size):
            found = self.place.neighbors_at(Z[block], self.size + 1)
            out[block] = self._fits(Z[block], *found, self.degree)
        return self.unit * np.maximum(out, self.floor) ** self.power

    def unseen(self, folds: np.ndarray) -> np.ndarray:
        """Return how much larger errors are around rows that nobody there had learned from.

        Most errors around a training row are by models that had seen it; those of its own fold
        are not, as the errors around a new row are not. The ratio of their means, of each output.
        Where a model copies single rows, large errors on both sides of a pair go together, and an
        error looks smaller beside those around it than a new one would: the ratio is taken around
        rows of large errors, too, and the lesser of both counts.
        """
        if self.size is None:
            return np.ones(self.errors.shape[1])
        middle = np.median(self.errors, axis=0)
        rows = self._some_rows()
        apart = everyone = np.zeros((2, self.errors.shape[1]))
        for block in self._blocks(len(rows), self.size):
            own = rows[block]
            distances, indices = self.place.neighbors_of_training(own, self.size + 1, self.groups)
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

    def _some_rows(self) -> np.ndarray:
        n = len(self.errors)
        if n <= _MAX_ROWS:
            return np.arange(n)
        return np.unique(np.linspace(0, n - 1, _MAX_ROWS).astype(np.int64))

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
        n, d = self.place.rows.shape
        n_others = n - (1 if self.groups is None else int(np.bincount(self.groups).max()))
        plans = [(size, 0) for size in _SIZES if size + 1 < min(n // 2, n_others)]
        if d <= _MAX_COLUMNS and not sparse.issparse(self.place.rows):
            plans += [(size, 1) for size, _ in plans if size >= 4 * (d + 1)]
        if n < _MIN_ROWS or not plans:
            return None, 0
        rows = self._some_rows()
        level, constant = self._constant()
        unit = np.where(level > 0.0, level, 1.0)
        share = self.weights[rows] / self.weights[rows].sum()
        losses = [self._losses(constant[rows], rows, unit)]
        losses += [self._losses(self._left_out(rows, *plan), rows, unit) for plan in plans]
        means = [share @ loss for loss in losses]
        best = int(np.argmin(means))
        gain = losses[0] - losses[best]
        spread = np.sqrt(share @ (gain - share @ gain) ** 2 / len(rows))
        return (None, 0) if best == 0 or share @ gain <= spread else plans[best - 1]

    def _flattest(self) -> tuple[float, np.ndarray]:
        """Return the least power that rows left out do not reject, and the unit it needs."""
        rows = self._some_rows()
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

    def _left_out(self, rows: np.ndarray, size: int, degree: int) -> np.ndarray:
        out = np.empty((len(rows), self.errors.shape[1]))
        for block in self._blocks(len(rows), size):
            own = rows[block]
            found = self.place.neighbors_of_training(own, size + 1, self.groups)
            out[block] = self._fits(self.place.rows[own], *found, degree)
        return out

    def _blocks(self, n: int, size: int):
        return row_blocks(n, 32 * (size + 1) * (self.place.rows.shape[1] + 1), max_rows=2048)

    def _fits(self, Z, distances: np.ndarray, indices: np.ndarray, degree: int) -> np.ndarray:
        indices = indices[:, :-1]
        weights = tricube(distances) * self.weights[indices]
        weights = weights / weights.sum(axis=1, keepdims=True)
        errors = self.errors[indices]
        means = np.einsum("qk,qko->qo", weights, errors)
        if degree == 0:
            return means
        lines = local_lines(self.place.rows[indices] - Z[:, None], errors, weights)
        # A line may fall below zero; the mean around it says what is small here.
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
    # Where all are equally far, all speak alike.
    ratio = np.where(reach > 0.0, distances[:, :-1] / np.where(reach > 0.0, reach, 1.0), 0.0)
    return np.maximum((1.0 - np.minimum(ratio, 1.0) ** 3) ** 3, 1e-12)
