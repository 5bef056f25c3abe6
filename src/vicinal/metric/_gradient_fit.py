"""Fit of kernel ridge with a gradient metric: rounds of one block, and a tree of blocks."""

from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from vicinal._base import Progress, row_blocks
from vicinal._kernels.cascade._hard import quantile_row
from vicinal._kernels.local._batched import gradient_rows
from vicinal._kernels.metric import _kernel_ridge as kernels

# Scales tried, in units of the root of the mean squared distance between two rows.
_SCALES = 2.0 ** np.arange(-3, 4)
_ALPHAS = 10.0 ** np.arange(-6, 2)
# The second start is at this scale; after so many rounds the better start continues.
_NARROW, _FIRST_ROUNDS = np.array([0.35]), 3
# A full metric that would have to divide the error by more than e to this is not tried.
_MAX_CHARGE = 3.0
# Solving costs n^3, and the metric has few numbers, a diagonal one d. So many rows at most are
# looked at while all scales and penalties are tried, by the rounds of a diagonal metric of few
# columns, and by other rounds and by folds that share a start. From 350 rows the few columns that
# matter among 30 are not always found.
_FIRST_ROWS, _DIAGONAL_ROWS, _ROUND_ROWS = 200, 350, 500
_ROWS_PER_COLUMN = 20
# Queries predicted together: of more, distances would leave the cache of the processor.
_BLOCK_ROWS = 256
# Share of the rows on each side of a split that belong to both of its sides.
_OVERLAP = 0.1


@dataclass(frozen=True)
class GradientRows:
    """Standardised rows, outputs, weights, and number of copies of each row."""

    Z: np.ndarray
    Y: np.ndarray
    weights: np.ndarray
    copies: np.ndarray

    def __len__(self) -> int:
        return len(self.Z)

    def __getitem__(self, rows) -> "GradientRows":
        return GradientRows(self.Z[rows], self.Y[rows], self.weights[rows], self.copies[rows])

    def some(self, size: int, rng: np.random.RandomState) -> "GradientRows":
        """Return all rows, or a sample where there are more than ``size``."""
        return self if len(self) <= size else self[_sample(np.arange(len(self)), size, rng)]


# --- rounds ---------------------------------------------------------------------------------------


class _Candidates:
    """Ridges of a grid of scales and penalties, each solved at first use.

    The coordinates are scaled to a mean squared distance of one. A position of the grid is a pair
    of indices, of the scale and of the penalty.
    """

    def __init__(self, model: Any, data: GradientRows, components, grid):
        self._kernel, self._data = model.kernel, data
        self._scales, self._alphas = grid
        mapped = kernels.map_rows(data.Z, components)
        mean = data.weights @ mapped / data.weights.sum()
        spread = 2.0 * data.weights @ ((mapped - mean) ** 2).sum(axis=1) / data.weights.sum()
        self._components = components * (1.0 / np.sqrt(spread) if spread > 0.0 else 1.0)
        self._mapped = kernels.map_rows(data.Z, self._components)
        self._squares = kernels.squared_distances(self._mapped, self._mapped, model.kernel)
        self._values: tuple[int, np.ndarray] | None = None
        self._ridges: dict[tuple[int, int], kernels.KernelRidge] = {}

    def error(self, position) -> float:
        """Return the leave-one-out error of a scale and a penalty."""
        if position not in self._ridges:
            i, j = position
            if self._values is None or self._values[0] != i:
                values = kernels.kernel_values(self._squares, self._scales[i], self._kernel)
                self._values = i, values
            data = self._data
            self._ridges[position] = kernels.kernel_ridge(
                self._values[1], data.Y, data.weights, data.copies, self._alphas[j]
            )
        return self._ridges[position].error

    def lowest(self) -> tuple[int, int]:
        """Return the position of least error."""
        return min(np.ndindex(len(self._scales), len(self._alphas)), key=self.error)

    def downhill(self, start: dict) -> tuple[int, int]:
        """Return the local minimum of the error near the position of another round."""
        i = _nearest(self._scales, start["bandwidth"])
        j = _nearest(self._alphas, start["alpha"])
        n_scales, n_alphas = len(self._scales), len(self._alphas)
        # The same scale first, because it shares the kernel matrix. A wide kernel with a small
        # penalty resembles a narrow one with a large penalty, hence the diagonal steps.
        steps = [(0, 0), (0, -1), (0, 1), (-1, 1), (-1, 0), (1, 0), (1, -1)]
        while True:
            near = [(i + a, j + b) for a, b in steps]
            inside = [p for p in near if 0 <= p[0] < n_scales and 0 <= p[1] < n_alphas]
            lowest = min(inside, key=self.error)
            if lowest == (i, j):
                return i, j
            i, j = lowest

    def round(self, position) -> dict:
        """Return the ridge of a position and its gradients for the next round."""
        ridge, bandwidth = self._ridges[position], float(self._scales[position[0]])
        slopes = kernels.ridge_slopes(
            self._mapped, self._mapped, ridge.dual_coef, bandwidth, self._kernel
        )
        return {
            "components": self._components,
            "bandwidth": bandwidth,
            "alpha": float(self._alphas[position[1]]),
            "gradients": gradient_rows(
                kernels.map_slopes(slopes, self._components), self._data.weights
            ),
            "error": ridge.error,
            "ridge": ridge,
        }


def _fit_round(data: GradientRows, model: Any, components, grid, start: dict | None) -> dict:
    """Fit the ridge in given coordinates.

    Scale and penalty are those of least leave-one-out error in a grid: downhill from those of
    another round, or among all.
    """
    fit = _Candidates(model, data, components, grid)
    return fit.round(fit.lowest() if start is None else fit.downhill(start))


def learn_metric(data: GradientRows, model: Any, rng, n_rounds: int) -> dict:
    """Alternate ridge and metric; return the round of least leave-one-out error.

    A wide kernel is close to a polynomial of low degree and cannot see columns of higher-order
    effect, so the rounds also start at a narrow scale.
    """
    metrics = _metrics(data, model)
    n_first = min(_FIRST_ROUNDS, max(n_rounds - 1, 0))
    starts = [_SCALES, _NARROW] if n_first else [_SCALES]
    n_fits = len(starts) + len(metrics) * ((len(starts) - 1) * n_first + n_rounds)
    tried: list[tuple[float, dict]] = []
    few = data.some(_FIRST_ROWS, rng)
    with Progress(n_fits, type(model).__name__, verbose=model.verbose) as progress:

        def fit(components, scales, start=None, charge=0.0):
            grid = scales, _ALPHAS
            start = start or _fit_round(few, model, components, grid, None)
            found = _fit_round(data, model, components, grid, start)
            tried.append((found["error"] * np.exp(charge), found))
            progress.advance(note=f"leave-one-out error {found['error']:.4g}")
            return found

        def more_rounds(found, n, metric, scales):
            for _ in range(n):
                components = kernels.gradient_map(found["gradients"], diagonal=metric == "diagonal")
                found = fit(components, scales, found, metrics[metric])
            return found

        firsts = [(fit(np.ones(data.Z.shape[1]), scales), scales) for scales in starts]
        for metric in metrics:
            ends = [more_rounds(found, n_first, metric, scales) for found, scales in firsts]
            more_rounds(min(ends, key=itemgetter("error")), n_rounds - n_first, metric, _SCALES)
    return min(tried, key=lambda pair: pair[0])[1]


def _metrics(data: GradientRows, model: Any) -> dict[str, float]:
    """Return the metrics to try, with the logarithm of the gain that each needs."""
    if model.metric != "auto":
        return {model.metric: 0.0}
    d = data.Z.shape[1]
    charge = d * (d - 1) / data.copies.sum()
    return {"diagonal": 0.0} | ({"full": charge} if charge <= _MAX_CHARGE else {})


def learn_start(data: GradientRows, model: Any, rng) -> dict:
    """Return metric, scale and penalty: learned from few rows, and chosen by more."""
    n_rows = _ROUND_ROWS
    if model.metric == "diagonal":
        n_rows = int(np.clip(_ROWS_PER_COLUMN * data.Z.shape[1], _DIAGONAL_ROWS, _ROUND_ROWS))
    found = learn_metric(data.some(n_rows, rng), model, rng, model.n_rounds)
    if len(data) <= n_rows:
        return found
    return _finish(data.some(model._last_rows, rng), found, model, (_SCALES, _ALPHAS))


def _finish(data: GradientRows, found: dict, model: Any, grid=None) -> dict:
    """Choose scale and penalty by more rows, or keep them, and let the metric follow once."""
    grid = grid or (np.array([found["bandwidth"]]), np.array([found["alpha"]]))
    rounds = [_fit_round(data, model, found["components"], grid, found)]
    if model.n_rounds:  # without rounds the columns stay as they are
        own = kernels.gradient_map(rounds[0]["gradients"], diagonal=found["components"].ndim == 1)
        rounds.append(_fit_round(data, model, own, grid, rounds[0]))
    return min(rounds, key=itemgetter("error"))


def _ridge(
    data: GradientRows, found: dict, kernel: str, n_left_out: int | None = None
) -> kernels.KernelRidge:
    """Solve the ridge of a metric, scale and penalty that were found."""
    mapped = kernels.map_rows(data.Z, found["components"])
    K = _kernel(mapped, mapped, found, kernel)
    return kernels.kernel_ridge(K, data.Y, data.weights, data.copies, found["alpha"], n_left_out)


def _kernel(Q: np.ndarray, Z: np.ndarray, found: dict, kernel: str) -> np.ndarray:
    """Return the kernel of mapped rows at the scale that was found."""
    squares = kernels.squared_distances(Q, Z, kernel)
    return kernels.kernel_values(squares, found["bandwidth"], kernel)


def predict_fold(data: GradientRows, Z: np.ndarray, model: Any, rng, start: dict) -> np.ndarray:
    """Return the outputs at other rows ``Z`` of a ridge of ``data``, from a given start."""
    some = data.some(_ROUND_ROWS, rng)
    found = _finish(some, start, model)
    ridge = found["ridge"]
    if len(some) < len(data):
        ridge = _ridge(data, found, model.kernel, n_left_out=1)
    mapped = kernels.map_rows(data.Z, found["components"])
    K = _kernel(kernels.map_rows(Z, found["components"]), mapped, found, model.kernel)
    return K @ ridge.dual_coef + ridge.intercept


# --- the tree of blocks ---------------------------------------------------------------------------


class Tree(NamedTuple):
    """Blocks of rows with a model each, and the splits between them."""

    kernel: str
    root: int  # index of a split, or -1 - index of a block
    splits: list[dict]
    blocks: list[dict]

    def shares(self, Z: np.ndarray) -> np.ndarray:
        """Return the share of each block in each prediction: (n_queries, n_blocks), rows sum 1."""
        shares = np.zeros((len(Z), len(self.blocks)))
        pending = [(self.root, np.ones(len(Z)))]
        while pending:
            node, share = pending.pop()
            if node < 0:
                shares[:, -1 - node] = share
                continue
            split = self.splits[node]
            right = _right_share(Z @ split["direction"], split)
            pending += zip(split["children"], (share * (1.0 - right), share * right), strict=True)
        return shares

    def predict(self, Z: np.ndarray) -> np.ndarray:
        """Return the outputs at standardised rows: (n_queries, n_outputs)."""
        out = np.zeros((len(Z), self.blocks[0]["dual_coef"].shape[1]))
        for share, block in zip(self.shares(Z).T, self.blocks, strict=True):
            self._add(out, Z, np.flatnonzero(share), share, block)
        return out

    def _add(self, out, Z, rows, share, block) -> None:
        """Add the predictions of a block for some rows, by its share."""
        for part in row_blocks(len(rows), 24 * len(block["rows"]), max_rows=_BLOCK_ROWS):
            some = rows[part]
            queries = kernels.map_rows(Z[some], block["components"])
            K = _kernel(queries, block["mapped"], block, self.kernel)
            out[some] += share[some, None] * (K @ block["dual_coef"] + block["intercept"])

    def slopes(self, Z: np.ndarray) -> np.ndarray:
        """Return the slopes of the outputs in standardised columns, within blocks."""
        out = np.zeros((len(Z), self.blocks[0]["dual_coef"].shape[1], Z.shape[1]))
        for share, block in zip(self.shares(Z).T, self.blocks, strict=True):
            queries = np.flatnonzero(share)
            for part in row_blocks(len(queries), 8 * len(block["rows"]) * (3 + Z.shape[1])):
                some = queries[part]
                slopes = kernels.ridge_slopes(
                    kernels.map_rows(Z[some], block["components"]),
                    block["mapped"],
                    block["dual_coef"],
                    block["bandwidth"],
                    self.kernel,
                )
                out[some] += share[some, None, None] * kernels.map_slopes(
                    slopes, block["components"]
                )
        return out

    def left_out(self, Z: np.ndarray) -> np.ndarray:
        """Return the leave-one-out outputs of every training row, averaged over blocks."""
        out = np.zeros((len(Z), self.blocks[0]["dual_coef"].shape[1]))
        for share, block in zip(self.shares(Z).T, self.blocks, strict=True):
            rows = block["rows"]
            out[rows] += share[rows, None] * block["left_out"]
            # A block with too many ties was sampled and has not seen its other rows.
            unseen = np.setdiff1d(np.flatnonzero(share), rows)
            self._add(out, Z, unseen, share, block)
        return out


def fit_tree(data: GradientRows, model: Any, rng, start: dict | None = None) -> Tree:
    """Cut the rows into blocks, and fit the model of every block, from a start if given."""
    splits: list[dict] = []
    blocks: list[dict] = []

    def grow(rows) -> int:
        fits = len(rows) <= model.max_block_size
        sides = None if fits else _split(data[rows], rows, model, rng)
        if sides is None:
            rows = _sample(rows, model.max_block_size, rng)
            blocks.append(_fit_block(data[rows], rows, model, rng, start))
            return -len(blocks)
        split, left, right = sides
        index = len(splits)
        splits.append(split)
        split["children"] = [grow(side) for side in (left, right)]
        return index

    root = grow(np.arange(len(data)))
    return Tree(model.kernel, root, splits, blocks)


def _fit_block(data: GradientRows, rows: np.ndarray, model: Any, rng, start: dict | None) -> dict:
    """Learn the metric on some of the rows and the ridge on all of them."""
    if start is None:
        found = learn_start(data, model, rng)
    else:
        found = _finish(data.some(model._last_rows, rng), start, model)
    ridge, gradients = found.pop("ridge"), found.pop("gradients")
    if len(gradients) > gradients.shape[1]:
        gradients = np.linalg.qr(gradients, mode="r")  # fewer rows of the same product
    if len(ridge.dual_coef) < len(rows):
        ridge = _ridge(data, found, model.kernel)
    return {
        **found,
        "rows": rows,
        "gradients": gradients,
        "mapped": kernels.map_rows(data.Z, found["components"]),
        "dual_coef": ridge.dual_coef,
        "intercept": ridge.intercept,
        "left_out": ridge.left_out,
    }


def _split(data: GradientRows, rows: np.ndarray, model: Any, rng) -> tuple | None:
    """Split at the median along the direction in which the prediction changes most."""
    gradients = learn_metric(data.some(_ROUND_ROWS, rng), model, rng, 1)["gradients"]
    direction = kernels.gradient_directions(gradients)[1][:, -1]
    along = data.Z @ direction
    threshold = float(along[quantile_row(along, data.weights, 0.5)])
    apart = np.abs(along - threshold)
    width = float(apart[quantile_row(apart, data.weights, 2 * _OVERLAP)])
    split = {"direction": direction, "threshold": threshold, "width": width}
    share = _right_share(along, split)
    left, right = rows[share < 1.0], rows[share > 0.0]
    if max(len(left), len(right)) > 0.9 * len(rows):
        return None  # too many ties along the direction
    return split, left, right


def _nearest(values, value) -> int:
    return int(np.argmin(np.abs(np.log(values / value))))


def _sample(rows, size, rng) -> np.ndarray:
    return rows if len(rows) <= size else rng.choice(rows, size, replace=False)


def _right_share(along, split) -> np.ndarray:
    """Return the share of the right side: 0 to 1 across the overlap, smooth at its ends."""
    width = split["width"]
    if width <= 0.0:
        return (along > split["threshold"]).astype(np.float64)
    ramp = np.clip(0.5 + 0.5 * (along - split["threshold"]) / width, 0.0, 1.0)
    return ramp * ramp * (3.0 - 2.0 * ramp)
