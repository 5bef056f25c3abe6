"""Rounds of boosted symmetric trees: codes of columns, trees, and rounds by held-out rows."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import softmax

from vicinal._base import TrainingData, random_seeds, saved, thread_map
from vicinal._kernels.ensemble import _oblivious as kernels
from vicinal._kernels.ensemble._boosting import weighted_quantile

# Bins of equal width of a target statistic, random orders of the rows, rows a prior counts for.
_CATEGORY_BINS, _PERMUTATIONS, _PRIOR = 16, 4, 1.0
# In regression, columns of at most so many categories have indicators instead of a statistic: means
# of a few numbers are noisy. Classes gain hardly anything by them, at twice the time.
_MAX_INDICATORS = 32
# Settings whose loss on the first fold exceeds the least by this factor are not tried on others.
_NEAR = 1.01
# The search for rounds and depth learns faster by this factor, and takes fewer rounds.
_SPEED = 2
# Rounds between two looks at the held-out rows, and rounds whose random numbers are held at once.
_STEP = 10
# Newton steps of the leaf values under the logistic loss; other losses take one.
_LOGISTIC_STEPS = 5


# --- codes of columns ---


@saved(edges="*", tables="* *")
@dataclass(frozen=True)
class ColumnCodes:
    """How columns become codes: edges of numeric ones, a code per category of the others.

    Attributes
    ----------
    numeric, categorical : ndarray of int
        Columns of each kind.
    edges : list of ndarray
        Edges of the bins of each numeric column.
    tables : list of ndarray of uint8 of shape (n_statistics, n_categories + 1)
        Codes of the statistics, or of the indicators, of each category; last those of a missing or
        unknown one.
    sources : ndarray of int
        Column that each row of codes is made from.
    """

    numeric: np.ndarray
    categorical: np.ndarray
    edges: list
    tables: list
    sources: np.ndarray

    def numeric_codes(self, X: np.ndarray) -> np.ndarray:
        """Return the codes of the numeric columns."""
        codes = np.empty((len(self.numeric), len(X)), dtype=np.uint8)
        values = np.ascontiguousarray(X[:, self.numeric].T, dtype=np.float64)
        pairs = zip(self.numeric, self.edges, strict=True)  # a damaged file may lack columns
        starts = np.cumsum([0, *(len(edges) for _, edges in pairs)])
        kernels.bin_columns(values, np.concatenate([*self.edges, []]), starts, codes)
        return codes

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the codes of query rows, (n_columns_of_codes, n_samples)."""
        shapes = np.array([table.shape for table in self.tables], dtype=np.int64)
        n_rows, sizes = shapes.reshape(-1, 2).T
        values = X[:, self.categorical].T
        values = np.where(np.isnan(values), sizes[:, None] - 1, values).astype(np.int64)
        widths = np.repeat(sizes, n_rows)
        entries = np.repeat(values, n_rows, axis=0) + (np.cumsum(widths) - widths)[:, None]
        flat = np.concatenate([np.empty(0, np.uint8), *(table.ravel() for table in self.tables)])
        return np.concatenate([self.numeric_codes(X), flat[entries]])


def joined(parts: list[ColumnCodes]) -> tuple[ColumnCodes, np.ndarray]:
    """Return codes with the rows of all parts, and the row of each part's rows in them.

    The parts differ in the statistics of the categories alone; equal ones are stored once.
    """
    first, n_numeric = parts[0], len(parts[0].numeric)
    tables, rows, n_rows = [], [[np.arange(n_numeric)] for _ in parts], n_numeric
    for own in zip(*(part.tables for part in parts), strict=True):
        table, index = np.unique(np.concatenate(own), axis=0, return_inverse=True)
        for row, found in zip(rows, np.split(index, len(parts)), strict=True):
            row.append(n_rows + found.ravel())
        tables.append(table)
        n_rows += len(table)
    sources = np.repeat(first.categorical, [len(table) for table in tables])
    columns = replace(first, tables=tables, sources=np.concatenate([first.numeric, sources]))
    return columns, np.array([np.concatenate(row) for row in rows])


class _TrainingCodes:
    """Codes of the training rows, with ordered target statistics of the categorical columns."""

    def __init__(self, data: TrainingData, settings: "Settings", targets, rng) -> None:
        X, weights, mask = data.X, data.weights, settings.model.is_categorical_
        numeric, categorical = np.flatnonzero(~mask), np.flatnonzero(mask)
        max_bins = settings.model.max_bins
        edges = [kernels.quantile_edges(X[:, j], weights, max_bins) for j in numeric]
        orders = [rng.permutation(len(data)) for _ in range(_PERMUTATIONS if mask.any() else 0)]
        prior = np.average(targets, axis=0, weights=weights)
        n_codes = [len(bins) + 2 for bins in edges]
        tables: list[np.ndarray] = []
        ordered: list[list[np.ndarray]] = [[] for _ in orders]
        for j, known in zip(categorical, settings.model.categories_, strict=True):
            size = len(known)
            category = np.where(np.isnan(X[:, j]), size, X[:, j]).astype(np.int64)
            if settings.loss in (kernels.SQUARED, kernels.QUANTILE) and size <= _MAX_INDICATORS:
                tables.append(_indicators(category, size))
                n_codes += [3] * len(tables[-1])
                for codes in ordered:
                    codes.extend(tables[-1][:, category])
                continue
            sums = np.stack([np.bincount(category, weights * t, size + 1) for t in targets.T])
            mass = np.bincount(category, weights, size + 1)
            final = (sums + _PRIOR * prior[:, None]) / (mass + _PRIOR)
            final[:, mass == 0.0] = final[:, -1:]  # unknown to these rows
            rows = category, targets, weights
            moving = [
                kernels.ordered_statistics(*rows, order, size + 1, prior, _PRIOR)
                for order in orders
            ]
            table = np.empty(final.shape, dtype=np.uint8)
            for t, row in enumerate(final):
                pooled = np.concatenate([part[:, t] for part in moving])
                bins = np.linspace(pooled.min(), pooled.max(), _CATEGORY_BINS + 1)[1:-1]
                table[t] = np.searchsorted(bins, row) + 1
                n_codes.append(len(bins) + 2)
                for codes, part in zip(ordered, moving, strict=True):
                    codes.append(np.searchsorted(bins, part[:, t]) + 1)
            tables.append(table)
        sources = np.r_[numeric, np.repeat(categorical, [len(table) for table in tables])]
        self.columns = ColumnCodes(numeric, categorical, edges, tables, sources)
        self.n_codes = np.array(n_codes, dtype=np.int64)
        self.ordered = [np.array(part, dtype=np.uint8) for part in ordered]
        self.codes = self.columns(X)

    def ordered_by(self, order: int) -> np.ndarray:
        """Return the codes with the statistics of one of the random orders."""
        if self.ordered:
            self.codes[len(self.columns.numeric) :] = self.ordered[order]
        return self.codes


def _indicators(category: np.ndarray, size: int) -> np.ndarray:
    """Return a row of codes for each category found: 2 for itself, 1 for all others."""
    found = np.unique(category)
    found = found[:1] if len(found) == 2 else found  # of two categories one is enough
    table = np.ones((len(found), size + 1), dtype=np.uint8)
    table[np.arange(len(found)), found] = 2
    return table


# --- rounds ---


@dataclass(frozen=True)
class Settings:
    """What the parameters of a model, which knows its categories, mean for these rows."""

    model: Any
    loss: int
    level: float
    n_scores: int
    depth: int
    learning_rate: float
    max_features: float
    bootstrap: bool


class Boosting:
    """Trees and scores while the rounds go on; with held-out rows, their loss after each round."""

    def __init__(
        self, data: TrainingData, held: TrainingData | None, settings: Settings, seed: int
    ) -> None:
        self.settings, self.rng = settings, np.random.RandomState(seed)
        self.y, self.weights = data.y.astype(np.float64), data.weights
        targets = self.y[:, None]
        if settings.loss == kernels.MULTINOMIAL:
            targets = np.eye(settings.n_scores)[data.y]
        self.codes = _TrainingCodes(data, settings, targets, self.rng)
        self.intercept = self._first_score(targets)
        score = np.tile(self.intercept, (len(data), 1))
        self.state = score, np.empty(score.shape)
        self.problem = settings.loss, settings.level, self.y, self.weights
        self.splits: list[tuple] = []
        self.values: list[np.ndarray] = []
        self.losses: list[float] = []
        self.held: Any = held
        if held is not None:
            self.held_codes = self.codes.columns(held.X)
            score = np.tile(self.intercept, (len(held), 1))
            self.held_state = score, np.empty(score.shape)
            targets = held.y.astype(np.float64), held.weights
            self.held_problem = settings.loss, settings.level, *targets

    def _first_score(self, targets: np.ndarray) -> np.ndarray:
        """Return the best constant in regression, and zero for classes."""
        if self.settings.loss == kernels.QUANTILE:
            return np.atleast_1d(weighted_quantile(self.y, self.settings.level, self.weights))
        if self.settings.loss == kernels.SQUARED:
            return np.average(targets, axis=0, weights=self.weights)
        return np.zeros(targets.shape[1])

    def advance(self, n_rounds: int) -> "Boosting":
        """Fit further rounds, of which few at a time get their random numbers and exact odds."""
        for done in range(0, n_rounds, _STEP):
            self._advance(min(_STEP, n_rounds - done))
        return self

    def _advance(self, n_rounds: int) -> None:
        s, shape = self.settings, (n_rounds, self.settings.depth)
        n_steps = _LOGISTIC_STEPS if s.loss == kernels.LOGISTIC else 1
        penalty = float(s.model.l2_regularization), n_steps, s.learning_rate
        trees = np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.uint8), np.empty(shape)
        for score, odds in (self.state, *([] if self.held is None else [self.held_state])):
            odds[:] = _odds(s.loss, score)
        rounds = zip(*trees, *self._random(*shape), strict=True)
        for *splits, order, columns, bits, direction in rounds:
            tree, chance = tuple(splits), (columns, bits, direction)
            table = self.codes.ordered_by(order), self.codes.n_codes
            values = kernels.boost(self.problem, self.state, table, chance, penalty, tree)
            self.splits.append(tree)
            self.values.append(values)
            if self.held is not None:
                held = self.held_problem, self.held_state, self.held_codes
                self.losses.append(kernels.follow(*held, tree, values))

    def _random(self, n_rounds: int, depth: int) -> tuple:
        """Return orders, columns to consider, bits of the rows and directions of some rounds."""
        s, rng, n_columns = self.settings, self.rng, len(self.codes.codes)
        orders = rng.randint(_PERMUTATIONS, size=n_rounds)
        columns = np.tile(np.arange(n_columns), (n_rounds, depth, 1))
        if s.max_features < 1.0:
            size = int(np.ceil(s.max_features * n_columns))
            columns = np.sort(rng.uniform(size=columns.shape).argsort(axis=2)[..., :size], axis=2)
        n_bytes = (len(self.y) + 7) // 8 if s.bootstrap else 0
        bits = np.array(bytearray(rng.bytes(n_rounds * n_bytes)), dtype=np.uint8)
        directions = np.ones((n_rounds, s.n_scores))
        if s.n_scores > 1:  # gradients sum to zero over the scores
            directions = rng.normal(size=directions.shape)
            directions -= directions.mean(axis=1, keepdims=True)
            lengths = np.linalg.norm(directions, axis=1, keepdims=True)
            directions *= np.sqrt(s.n_scores - 1.0) / lengths
        return orders, columns, bits.reshape(n_rounds, n_bytes), directions

    def held_scores(self, n_rounds: int) -> np.ndarray:
        """Return the scores of the held-out rows after some rounds."""
        score = np.tile(self.intercept, (len(self.held), 1))
        columns, codes, _ = zip(*self.splits[:n_rounds], strict=True)
        trees = np.stack(columns), np.stack(codes), np.stack(self.values[:n_rounds])
        kernels.add_trees(self.held_codes, *trees, score)
        return score


def _odds(loss: int, score: np.ndarray) -> np.ndarray:
    """Return what the derivatives need: rounds multiply it instead of computing exponentials."""
    if loss == kernels.LOGISTIC:
        return np.exp(-np.clip(score, -500.0, 500.0))
    return softmax(score, axis=1)


def _folds(data: TrainingData, n_folds: int, rng) -> list[np.ndarray]:
    """Return the held-out rows of each fold, in proportion to the classes."""
    keys = data.y if data.classes is not None else np.zeros(len(data))
    order = np.lexsort((rng.permutation(len(data)), keys))
    return [np.sort(order[k::n_folds]) for k in range(n_folds)]


class Path:
    """Rounds of one setting with each fold held out, and their pooled held-out loss.

    The best number of rounds grows in proportion to the number of rows and to the inverse of the
    learning rate. The search takes ``_SPEED`` times the rate, so that a round of it stands for as
    many, and the fit to all rows takes more rounds than the folds by the ratio of rows.
    """

    def __init__(self, data: TrainingData, settings: Settings) -> None:
        self.data, self.settings, self.model = data, settings, settings.model
        self.speed = min(_SPEED, 1.0 / self.model.learning_rate)
        self.faster = replace(settings, learning_rate=self.speed * settings.learning_rate)
        self.folds: list[np.ndarray] = []
        self.fits: list[Boosting] = []
        self.losses = np.empty(0)

    def add(self, folds: list[np.ndarray], seeds: list[int]) -> "Path":
        """Follow further folds, and go on until the loss has not fallen for some rounds."""
        model, data = self.model, self.data

        def begin(task) -> Boosting:
            fold, seed = task
            fit = Boosting(data.outside(fold), data.take(fold), self.faster, seed)
            return fit.advance(len(self.losses))

        new = thread_map(begin, list(zip(folds, seeds, strict=True)), model.n_jobs)
        self.folds, self.fits = [*self.folds, *folds], [*self.fits, *new]
        most = int(np.ceil(model.n_estimators / self.speed))
        while True:
            total = sum(fit.held.weights.sum() for fit in self.fits)
            self.losses = np.sum([fit.losses for fit in self.fits], axis=0) / total
            n_done = len(self.losses)
            is_over = n_done > 0 and (
                self.speed * (n_done - self.n_best) >= model.n_iter_no_change or n_done >= most
            )
            if is_over:
                return self
            step = min(_STEP, most - n_done)
            thread_map(lambda fit, step=step: fit.advance(step), self.fits, model.n_jobs)

    @property
    def n_best(self) -> int:
        """Number of rounds of the search of least loss."""
        return int(self.losses.argmin()) + 1

    @property
    def n_rounds(self) -> int:
        """Number of rounds of a fit to all rows."""
        n, held = len(self.data), np.mean([len(fold) for fold in self.folds])
        return min(self.model.n_estimators, round(self.speed * self.n_best * n / (n - held)))

    def scores(self) -> list[np.ndarray]:
        """Return the scores of the held-out rows of each fold after the best number of rounds."""
        return [fit.held_scores(self.n_best) for fit in self.fits]


def select_rounds(data: TrainingData, candidates: list[Settings], rng) -> Path:
    """Return the path of the setting of least held-out loss."""
    folds = _folds(data, candidates[0].model.cv, rng)
    seeds = random_seeds(rng, len(folds))
    paths = near([Path(data, settings).add(folds[:1], seeds[:1]) for settings in candidates])
    return min((path.add(folds[1:], seeds[1:]) for path in paths), key=lambda p: p.losses.min())


def near(paths: list[Path]) -> list[Path]:
    """Return the paths whose loss does not clearly exceed the least."""
    limit = _NEAR * min(path.losses.min() for path in paths)
    return [path for path in paths if path.losses.min() <= limit]
