"""What the gradient kernels for numbers and for classes share."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import Progress, row_blocks
from vicinal._base._compat import Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin
from vicinal._conformal import HeldOutRows, some_rows
from vicinal._kernels.linear._covariance import standard_scale
from vicinal._kernels.local._batched import gradient_rows
from vicinal._kernels.metric._kernel_ridge import (
    KernelRidge,
    gradient_directions,
    gradient_map,
    kernel_ridge,
    kernel_values,
    map_rows,
    map_slopes,
    ridge_slopes,
)
from vicinal.metric._explain import slope_sections

# Scales tried, in units of the root of the mean squared distance between two rows.
_SCALES = 2.0 ** np.arange(-3, 4)
_ALPHAS = 10.0 ** np.arange(-6, 2)
# Rounds start twice, the second time at this scale; after so many the better ones go on.
_NARROW, _FIRST_ROUNDS = np.array([0.35]), 3
# The second walk of the last choice begins at this share of the penalty found before.
_LOWER = 1e-4
# A full metric that would have to divide the error by more than e to this is not tried.
_MAX_CHARGE = 3.0
# Solving costs n^3, and the metric has few numbers. So many rows at most are looked at while all
# scales and penalties are tried, by the rounds, and by the last choice of scale and penalty.
_FIRST_ROWS, _ROUND_ROWS, _LAST_ROWS = 500, 1000, 2000
# Share of the rows on each side of a split that both of its sides learn and answer.
_OVERLAP = 0.1


@dataclass(frozen=True)
class _Rows:
    """Standardised rows, outputs, what each counts, and how many equal rows it stands for."""

    Z: np.ndarray
    Y: np.ndarray
    weights: np.ndarray
    copies: np.ndarray

    def __getitem__(self, rows) -> "_Rows":
        return _Rows(self.Z[rows], self.Y[rows], self.weights[rows], self.copies[rows])


class _Candidates:
    """Ridges of a grid of scales and penalties, each solved when it is first asked for.

    The coordinates are scaled to a mean squared distance of one.
    """

    def __init__(self, kernel, data, components, alphas, scales):
        self._kernel, self._data, self._alphas, self._scales = kernel, data, alphas, scales
        self._components = components * _unit_distance(map_rows(data.Z, components), data.weights)
        self._mapped = map_rows(data.Z, self._components)
        self._distances = cdist(self._mapped, self._mapped)
        self._values: tuple[int, np.ndarray] | None = None
        self._ridges: dict[tuple[int, int], KernelRidge] = {}

    def error(self, place) -> float:
        """Return the leave-one-out error of a scale and a penalty."""
        if place not in self._ridges:
            i, j = place
            if self._values is None or self._values[0] != i:
                self._values = i, kernel_values(self._distances, self._scales[i], self._kernel)
            data = self._data
            self._ridges[place] = kernel_ridge(
                self._values[1], data.Y, data.weights, data.copies, self._alphas[j]
            )
        return self._ridges[place].error

    def lowest(self) -> tuple[int, int]:
        """Return the place of least error."""
        return min(np.ndindex(len(self._scales), len(self._alphas)), key=self.error)

    def downhill(self, start) -> tuple[int, int]:
        """Return the end of the walk from another round's place to its lowest neighbours."""
        i = _nearest(self._scales, start["bandwidth"])
        j = _nearest(self._alphas, start["alpha"])
        while True:
            # Those of the same scale first: they share its kernel. A wide kernel of a small penalty
            # is much like a narrow one of a large penalty, so that valleys lie across.
            steps = [(0, 0), (0, -1), (0, 1), (-1, 1), (-1, 0), (1, 0), (1, -1)]
            near = [(i + a, j + b) for a, b in steps]
            n_scales, n_alphas = len(self._scales), len(self._alphas)
            inside = [p for p in near if 0 <= p[0] < n_scales and 0 <= p[1] < n_alphas]
            lowest = min(inside, key=self.error)
            if lowest == (i, j):
                return i, j
            i, j = lowest

    def round(self, place) -> dict:
        """Return the ridge of a place and what the next round needs."""
        ridge, bandwidth = self._ridges[place], float(self._scales[place[0]])
        slopes = ridge_slopes(self._mapped, self._mapped, ridge.dual_coef, bandwidth, self._kernel)
        gradients = gradient_rows(map_slopes(slopes, self._components), self._data.weights)
        return {
            "components": self._components,
            "bandwidth": bandwidth,
            "alpha": float(self._alphas[place[1]]),
            "gradients": gradients,
            "error": ridge.error,
            "ridge": ridge,
        }


class BaseGradientKernel(ExplainRowMixin, BaseEstimator):
    """Kernel ridge in the metric of its own gradients, in blocks of a tree.

    Parameters
    ----------
    kernel : {"gaussian", "laplace"}, default="gaussian"
        :math:`e^{-d^2/2h^2}` or :math:`e^{-d/h}` of the Euclidean distance in the metric.
    metric : {"auto", "diagonal", "full"}, default="auto"
        Scale the d columns, or also turn them; ``"auto"`` tries both, and turns them if that lowers
        the leave-one-out error of n rows by more than the factor :math:`e^{d(d-1)/n}`, as Akaike's
        criterion asks for the additional numbers of the metric.
    n_rounds : int, default=5
        How often the metric is taken from the gradients; 0 is plain kernel ridge.
    alphas : array-like of shape (n_alphas,), default=None
        Penalties to choose from; ``None`` stands for powers of ten from 1e-6 to 10.
    max_block_size : int, default=5000
        More rows are cut at medians along the direction in which the answer changes most, until
        no block has more; a tenth of the rows on either side of a cut belong to both blocks, whose
        answers are blended there.
    random_state : int, RandomState instance or None, default=None
        Draws the rows of a larger block from which the metric (1,000), scale and penalty (2,000)
        are learned.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (n_features,)
        Columns are centred and scaled first; constant ones keep scale one.
    outer_product_ : ndarray of shape (n_features, n_features)
        Mean outer product of the gradients in the scaled columns, over blocks. Formed when asked
        for.
    feature_importances_ : ndarray of shape (n_features,)
        Its diagonal, as shares.
    blocks_ : list of dict
        Per block its ``rows``, map ``components`` (of shape (n_features,) where it scales columns
        alone), ``bandwidth``, ``alpha``, ``dual_coef``, ``intercept`` and ``gradients`` (their
        transpose times them is the mean outer product).
    splits_ : list of dict
        Cuts of the tree above the blocks: ``direction``, ``threshold``, ``width``, ``children``.
    """

    _parameter_constraints: dict = {
        "kernel": [StrOptions({"gaussian", "laplace"})],
        "metric": [StrOptions({"auto", "diagonal", "full"})],
        "n_rounds": [Interval(Integral, 0, None, closed="left")],
        "alphas": ["array-like", None],
        "max_block_size": [Interval(Integral, 10, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def _place(self, X, Y, sample_weight, class_factor=1.0) -> _Rows:
        """Standardise the columns; Y has one column per output."""
        X = np.asarray(X, dtype=np.float64)
        self.mean_, self.scale_ = standard_scale(X, sample_weight)
        Z = (X - self.mean_) / self.scale_
        return _Rows(Z, Y, sample_weight * class_factor, np.maximum(sample_weight, 1.0))

    def _fit_rows(self, data: _Rows) -> np.ndarray:
        """Learn the tree and the model of every block; return the answers to rows left out."""
        alphas, rng = self._check_alphas(), check_random_state(self.random_state)
        self.splits_: list[dict] = []
        self.blocks_: list[dict] = []
        self._root = self._grow(data, np.arange(len(data.Z)), alphas, rng)
        importances = sum(len(b["rows"]) * (b["gradients"] ** 2).sum(axis=0) for b in self.blocks_)
        self.feature_importances_ = importances / max(importances.sum(), np.finfo(float).tiny)
        return self._join_left_out(data.Z, data.Y.shape[1])

    @property
    def outer_product_(self):
        """Mean outer product of the gradients in the scaled columns, over blocks."""
        check_is_fitted(self)
        product = sum(len(b["rows"]) * b["gradients"].T @ b["gradients"] for b in self.blocks_)
        return product / sum(len(b["rows"]) for b in self.blocks_)

    def _keep_answers(self, X, answers, targets, weights) -> None:
        """Keep some rows with their leave-one-out answers."""
        rows = some_rows(len(X))
        Z = (X[rows] - self.mean_) / self.scale_
        self._answered = HeldOutRows(Z, answers[rows], targets[rows], weights[rows])

    def _held_out_rows(self) -> HeldOutRows:
        return self._answered

    def _row_numbers(self, X):
        return self._validated(X)[0]

    def _check_alphas(self) -> np.ndarray:
        alphas = _ALPHAS if self.alphas is None else np.asarray(self.alphas, dtype=np.float64)
        if alphas.ndim != 1 or not len(alphas) or not np.all(alphas > 0.0):
            raise ValueError(
                f"alphas={self.alphas!r} must be a list of positive penalties; give at least one."
            )
        return np.sort(alphas)  # walks go from one to the next

    # --- the tree -----------------------------------------------------------------------------

    def _grow(self, data, rows, alphas, rng) -> int:
        """Return the node of these rows: a split (its index) or a block (-1 - its index)."""
        fits = len(rows) <= self.max_block_size
        sides = None if fits else self._split(data[rows], rows, alphas, rng)
        if sides is None:
            block = self._fit_block(data, _draw(rows, self.max_block_size, rng), alphas, rng)
            self.blocks_.append(block)
            return -len(self.blocks_)
        split, left, right = sides
        index = len(self.splits_)
        self.splits_.append(split)
        split["children"] = [self._grow(data, side, alphas, rng) for side in (left, right)]
        return index

    def _split(self, data, rows, alphas, rng):
        """Cut at the median along the direction in which the answer changes most."""
        some = data[_draw(np.arange(len(rows)), _ROUND_ROWS, rng)]
        gradients = self._learn_metric(some, alphas, rng, n_rounds=1)["gradients"]
        direction = gradient_directions(gradients)[1][:, -1]
        places = data.Z @ direction
        threshold = _weighted_quantile(places, data.weights, 0.5)
        width = _weighted_quantile(np.abs(places - threshold), data.weights, 2 * _OVERLAP)
        split = {"direction": direction, "threshold": threshold, "width": width}
        share = _right_share(places, split)
        left, right = rows[share < 1.0], rows[share > 0.0]
        if max(len(left), len(right)) > 0.9 * len(rows):
            return None  # ties along the direction: nothing to cut
        return split, left, right

    def _shares(self, Z) -> np.ndarray:
        """Return how much each block answers for each row: (n_queries, n_blocks), rows sum 1."""
        shares = np.zeros((len(Z), len(self.blocks_)))
        pending = [(self._root, np.ones(len(Z)))]
        while pending:
            node, share = pending.pop()
            if node < 0:
                shares[:, -1 - node] = share
                continue
            split = self.splits_[node]
            right = _right_share(Z @ split["direction"], split)
            pending.append((split["children"][0], share * (1.0 - right)))
            pending.append((split["children"][1], share * right))
        return shares

    # --- one block ----------------------------------------------------------------------------

    def _fit_block(self, data, rows, alphas, rng) -> dict:
        """Learn the metric on some of the rows and the ridge on all of them."""
        block = data[rows]
        found, n_seen = self._choose(block, alphas, rng)
        ridge, gradients = found.pop("ridge"), found.pop("gradients")
        if len(gradients) > gradients.shape[1]:
            gradients = np.linalg.qr(gradients, mode="r")  # fewer rows of the same product
        if n_seen < len(rows):
            ridge = self._ridge(block, found)
        return {
            **found,
            "rows": rows,
            "gradients": gradients,
            "mapped": map_rows(block.Z, found["components"]),
            "dual_coef": ridge.dual_coef,
            "intercept": ridge.intercept,
            "left_out": ridge.left_out,
        }

    def _choose(self, data, alphas, rng) -> tuple[dict, int]:
        """Choose metric, scale and penalty; tell how many rows were looked at in the end."""
        rows = np.arange(len(data.Z))
        some = _draw(rows, _ROUND_ROWS, rng)
        found = self._learn_metric(data[some], alphas, rng, n_rounds=self.n_rounds)
        if len(some) < len(rows):
            some = _draw(rows, _LAST_ROWS, rng)
            found = self._finish(data[some], found, alphas)
        return found, len(some)

    def _ridge(self, data, found, n_left_out: int | None = None) -> KernelRidge:
        """Solve the ridge of a metric, scale and penalty that were found."""
        mapped = map_rows(data.Z, found["components"])
        K = kernel_values(cdist(mapped, mapped), found["bandwidth"], self.kernel)
        return kernel_ridge(K, data.Y, data.weights, data.copies, found["alpha"], n_left_out)

    def _answer_halves(self, data) -> np.ndarray:
        """Return answers to every row, by metric, scale and penalty of the half it is not in."""
        alphas, rng = self._check_alphas(), check_random_state(self.random_state)
        halves = np.array_split(rng.permutation(len(data.Z)), 2)
        answers = np.empty_like(data.Y)
        for asked, seen in (halves, halves[::-1]):
            found, _ = self._choose(data[seen], alphas, rng)
            answers[asked] = self._ridge(data[np.r_[seen, asked]], found, len(asked)).left_out
        return answers

    def _finish(self, data, found, alphas) -> dict:
        """Choose scale and penalty by more rows, and let the metric follow once.

        More rows bear a smaller penalty, under which columns of small effect come to light. There
        may be a second valley of the error, which is deeper only in the metric of its own slopes:
        another walk begins far below, and the metric follows both where they end apart.
        """
        components = found["components"]
        fit = _Candidates(self.kernel, data, components, alphas, _SCALES)
        lower = found | {"alpha": _LOWER * found["alpha"]}
        rounds = []
        for place in dict.fromkeys([fit.downhill(found), fit.downhill(lower)]):
            walk = fit.round(place)
            rounds.append(walk)
            if self.n_rounds:  # without rounds the columns stay as they are
                own = gradient_map(walk["gradients"], diagonal=components.ndim == 1)
                rounds.append(self._fit_round(data, own, alphas, _SCALES, walk))
        return min(rounds, key=_error)

    def _learn_metric(self, data, alphas, rng, n_rounds) -> dict:
        """Alternate ridge and metric; return the round of least leave-one-out error.

        A wide kernel is close to a polynomial of low degree. Where that does better than a narrow
        one, rounds at the best scale never see columns that act through higher orders alone, so
        other rounds begin at a narrow scale.
        """
        kinds = self._kinds(data)
        n_first = min(_FIRST_ROUNDS, max(n_rounds - 1, 0))
        starts = [_SCALES, _NARROW] if n_first else [_SCALES]
        n_fits = len(starts) + len(kinds) * ((len(starts) - 1) * n_first + n_rounds)
        best: dict = {}
        least = np.inf
        few = _draw(np.arange(len(data.Z)), _FIRST_ROWS, rng)
        with Progress(n_fits, type(self).__name__, verbose=self.verbose) as progress:

            def fit(components, scales, start=None, charge=0.0):
                nonlocal best, least
                start = start or self._fit_round(data[few], components, alphas, scales, None)
                found = self._fit_round(data, components, alphas, scales, start)
                charged = found["error"] * np.exp(charge)
                if not best or charged < least:
                    best, least = found, charged
                progress.advance(note=f"leave-one-out error {found['error']:.4g}")
                return found

            def go_on(found, n, kind, scales):
                for _ in range(n):
                    components = gradient_map(found["gradients"], diagonal=kind == "diagonal")
                    found = fit(components, scales, found, kinds[kind])
                return found

            unit = np.ones(data.Z.shape[1])
            firsts = [(fit(unit, scales), scales) for scales in starts]
            for kind in kinds:
                tried = [go_on(found, n_first, kind, scales) for found, scales in firsts]
                better = min(tried, key=_error)
                go_on(better, n_rounds - n_first, kind, _SCALES)
        return best

    def _kinds(self, data) -> dict[str, float]:
        """Return the kinds of metric to try, with the logarithm of what each has to gain."""
        if self.metric != "auto":
            return {self.metric: 0.0}
        d = data.Z.shape[1]
        charge = d * (d - 1) / data.copies.sum()
        return {"diagonal": 0.0} | ({"full": charge} if charge <= _MAX_CHARGE else {})

    def _fit_round(self, data, components, alphas, scales, start) -> dict:
        """Fit the ridge in given coordinates.

        Scale and penalty are those of least leave-one-out error: downhill from those of another
        round, or among all.
        """
        fit = _Candidates(self.kernel, data, components, alphas, scales)
        return fit.round(fit.lowest() if start is None else fit.downhill(start))

    # --- answers ------------------------------------------------------------------------------

    def _validated(self, X) -> tuple[np.ndarray, np.dtype]:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return (np.asarray(X, dtype=np.float64) - self.mean_) / self.scale_, X.dtype

    def _sections(self, X, columns):
        return slope_sections(self, X, columns)

    def _answers(self, Z) -> np.ndarray:
        """Return the outputs at standardised rows: (n_queries, n_outputs)."""
        shares = self._shares(Z)
        out = np.zeros((len(Z), self.blocks_[0]["dual_coef"].shape[1]))
        for share, block in zip(shares.T, self.blocks_, strict=True):
            self._add_answers(out, Z, np.flatnonzero(share), share, block)
        return out

    def _add_answers(self, out, Z, rows, share, block) -> None:
        """Add what a block says of some rows, by its share in their answers."""
        for part in row_blocks(len(rows), 24 * len(block["rows"])):
            some = rows[part]
            distances = cdist(map_rows(Z[some], block["components"]), block["mapped"])
            K = kernel_values(distances, block["bandwidth"], self.kernel)
            out[some] += share[some, None] * (K @ block["dual_coef"] + block["intercept"])

    def _slopes(self, Z) -> np.ndarray:
        """Return the slopes of the outputs in standardised columns, within blocks."""
        shares = self._shares(Z)
        n_outputs = self.blocks_[0]["dual_coef"].shape[1]
        out = np.zeros((len(Z), n_outputs, Z.shape[1]))
        for share, block in zip(shares.T, self.blocks_, strict=True):
            asked = np.flatnonzero(share)
            for part in row_blocks(len(asked), 8 * len(block["rows"]) * (3 + Z.shape[1])):
                some = asked[part]
                slopes = ridge_slopes(
                    map_rows(Z[some], block["components"]),
                    block["mapped"],
                    block["dual_coef"],
                    block["bandwidth"],
                    self.kernel,
                )
                out[some] += share[some, None, None] * map_slopes(slopes, block["components"])
        return out

    def _join_left_out(self, Z, n_outputs) -> np.ndarray:
        """Return the blended answer to every training row by blocks that leave it out."""
        shares = self._shares(Z)
        out = np.zeros((len(Z), n_outputs))
        for share, block in zip(shares.T, self.blocks_, strict=True):
            rows = block["rows"]
            out[rows] += share[rows, None] * block["left_out"]
            # Rows that ties kept together are drawn from: a block has not seen the others.
            unseen = np.setdiff1d(np.flatnonzero(share), rows)
            self._add_answers(out, Z, unseen, share, block)
        return out


def _error(found) -> float:
    return found["error"]


def _nearest(values, value) -> int:
    return int(np.argmin(np.abs(np.log(values / value))))


def _draw(rows, size, rng) -> np.ndarray:
    return rows if len(rows) <= size else rng.choice(rows, size, replace=False)


def _unit_distance(Z, weights) -> float:
    """Return the factor that brings the mean squared distance between two rows to one."""
    centred = Z - weights @ Z / weights.sum()
    spread = 2.0 * weights @ (centred**2).sum(axis=1) / weights.sum()
    return 1.0 / np.sqrt(spread) if spread > 0.0 else 1.0


def _weighted_quantile(values, weights, level) -> float:
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(mass, level * mass[-1])])


def _right_share(places, split) -> np.ndarray:
    """Return the share of the right side: 0 to 1 across the overlap, smooth at its ends."""
    width = split["width"]
    if width <= 0.0:
        return (places > split["threshold"]).astype(np.float64)
    ramp = np.clip(0.5 + 0.5 * (places - split["threshold"]) / width, 0.0, 1.0)
    return ramp * ramp * (3.0 - 2.0 * ramp)
