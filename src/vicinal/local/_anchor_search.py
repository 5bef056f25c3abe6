"""Local models fitted once at anchors: linear models, their centres, and how to choose them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.utils import check_array, check_random_state

from vicinal._base import Progress, TrainingData, group_folds, saved
from vicinal._base._tables import sampled_rows
from vicinal._kernels.local._smoothing import blend_values, smooth_classes, smooth_targets
from vicinal.local._data import MAX_ROWS
from vicinal.local._fits import LocalFit
from vicinal.local._neighborhoods import (
    Localizer,
    NearestRule,
    NeighborIndex,
    WeightedNeighborhoods,
    take_queries,
)
from vicinal.local._rows import is_forest, sees_labels
from vicinal.local._selection import loss_of, metric_views
from vicinal.local._settings import LocalSettings
from vicinal.local._solvers import over_queries

# Rows that k-means sees: enough for good centres, and bounded for large tables.
_ROWS_PER_ANCHOR = 20
_MIN_ROWS = 10_000
_LLOYD_ITERATIONS = 10
# Beyond this number of centres a spread-out start gains nothing over weighted sampling.
_MAX_SPREAD_START = 1024
# Neighbours by which class overlap around a row is measured, and the least weight of a row.
_MIXING_NEIGHBORS = 20
_PURE_SHARE = 0.1
# Numbers of anchors that "auto" compares, and of anchors blended for a query.
_ANCHOR_COUNTS = (64, 256, 1024, 4096)
_BLENDED = (2, 4, 8, 16)
# Refits of the models to the residuals of their blend.
_MAX_REFITS = 3
# A model at an anchor serves a whole region: it may need more rows, and then less shrinkage, than
# one fitted around a query.
_SIZE_FACTOR = 8
_MOST_NEIGHBORS = 1280
_ROWS_PER_REGION = 4
_N_SIZES = 3
_ALPHA_FACTORS = (1.0, 0.2, 0.04)
# Share of the rows held out at once when candidates are compared.
_HELD_OUT = 1 / 3
# Neighbours kept beyond the largest size, so that enough remain when a fold is left out.
_SPARE = 1.5


@saved(centers="m s", origins="m d", values="m o", slopes="m o d")
@dataclass(frozen=True)
class AnchorModels:
    r"""Local linear models at fixed centres, with all that a prediction needs.

    The prediction for a query with coordinates p (search) and z (design) is

    .. math:: \sum_j v_j (a_j + B_j (z - o_j)) \Big/ \sum_j v_j,
              \qquad v_j = (1 - (\|p - c_j\| / h)^3)^3_+,

    over its ``n_blended`` nearest anchors, where h is the distance of the next one
    (``n_blended + 1``). Where h is 0, only the anchors at distance 0 count.

    Attributes
    ----------
    centers : ndarray of shape (n_anchors, n_coordinates)
        Centres c in the coordinates of the search.
    origins : ndarray of shape (n_anchors, n_columns)
        Origins o of the models, in the columns of the design; the centres themselves unless
        ``location_columns`` separates the two.
    values : ndarray of shape (n_anchors, n_outputs)
        Values a at the origins.
    slopes : ndarray of shape (n_anchors, n_outputs, n_columns)
        Slopes B.
    n_blended : int
        Number of nearest anchors that are blended for a query.
    """

    centers: np.ndarray
    origins: np.ndarray
    values: np.ndarray
    slopes: np.ndarray
    n_blended: int

    @property
    def rule(self) -> NearestRule:
        """Which anchors are blended for a query, and with which weight."""
        return blending_rule(self.n_blended)

    def predict(
        self, design, found: WeightedNeighborhoods, n_jobs: int | None = None
    ) -> np.ndarray:
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

    def blended_slopes(self, found: WeightedNeighborhoods) -> np.ndarray:
        """Return the blended slopes, shape (n_queries, n_outputs, n_columns)."""
        flat = self.slopes.reshape(len(self.slopes), -1)
        sums = smooth_targets(found.indptr, found.indices, found.shares(), flat)
        return sums.reshape(-1, *self.slopes.shape[1:])


def blending_rule(n_blended: int) -> NearestRule:
    """Return the rule by which anchors are weighed: continuous in the query from two on."""
    return NearestRule(float(n_blended), "tricube")


@saved()
@dataclass(frozen=True)
class BlendSolver:
    """Weighted average of the models of nearby anchors."""

    anchors: AnchorModels
    link: str
    is_linear: bool
    name: str
    n_jobs: int | None = None

    is_compiled = True

    def path(self, data, design, found, alphas) -> np.ndarray:
        """Return the blended values, shape (1, n_queries, n_outputs)."""
        return self.anchors.predict(design, found, self.n_jobs)[None]

    def slopes(self, data, design, found, alpha) -> np.ndarray:
        """Return the blended slopes, shape (n_queries, n_outputs, n_columns)."""
        return self.anchors.blended_slopes(found)


def blended_fit(anchors: AnchorModels, alpha: float, like: LocalFit) -> LocalFit:
    """Return the model that blends the anchors: they are its rows, in the coordinates of another.

    Training rows are not stored.
    """
    data, solver = like.data, like.solver
    is_classes = data.n_classes is not None
    rows = replace(
        data,
        rows=anchors.origins,
        y=anchors.values.argmax(axis=1) if is_classes else anchors.values,
        index=data.index.over(anchors.centers),
        given=None,
        sample_weight=None,
        groups=None,
    )
    blend = BlendSolver(anchors, solver.link, solver.is_linear, solver.name, solver.n_jobs)
    return LocalFit(rows, anchors.rule, blend, alpha, like.outside)


@dataclass(frozen=True)
class Plan:
    """How models at anchors are fitted and blended."""

    rule: Any
    alpha: float
    n_blended: int
    n_refits: int = 0

    @property
    def size(self) -> float:
        """Number of neighbours of an anchor."""
        return self.rule.count


def check_anchored(estimator, data: TrainingData) -> None:
    """Refuse what cannot be stored as linear models, before any work."""
    needed = (
        f"X is a {type(data.X).__name__}, but {type(estimator).__name__} takes dense NumPy arrays; "
        "use a local model without anchors"
    )
    data.check_on_host(needed)
    if sparse.issparse(data.X):
        raise TypeError(f"{needed}, or convert the sparse X with X.toarray().")
    if is_forest(estimator.metric):
        raise ValueError(
            f'metric="{estimator.metric}" has no distances, which anchored models need; use '
            '"gradient" or another metric.'
        )


class AnchorSearch:
    """Selection of centres, sizes, penalties and blends by rows held out of every model.

    Parameters
    ----------
    anchors : int, "auto" or array-like
        Number of centres, or the centres.
    fit : LocalFit
        The model fitted around every query, whose rows, rule and penalty are the start.
    table : TrainingData
        Training data.
    settings : LocalSettings
        Resolved parameters; smaller penalties are tried too unless the user set one.
    metric : str, callable or transformer
        Metric selected; rows are held out under metrics that did not see their labels.
    """

    def __init__(
        self, anchors, fit: LocalFit, table: TrainingData, settings: LocalSettings, metric
    ):
        self.anchors = anchors
        self.fit = fit
        self.table = table
        self.settings = settings
        sample = sampled_rows(len(table), MAX_ROWS, settings.random_state)
        self.folds = [(fit.data, held_out_parts(sample, table, settings.random_state))]
        if sees_labels(metric):
            _, views = next(iter(metric_views(table, settings, metric, sample)))
            self.folds = [(rows, [own]) for rows, own in views]
        is_open = len(settings.alphas) > 1 and fit.alpha > 0.0
        self.alphas = [factor * fit.alpha for factor in (_ALPHA_FACTORS if is_open else (1.0,))]
        self.results: dict[str, np.ndarray] = {}
        self._loss, self._weights = loss_of(table), table.weights

    # --- choice ---

    def choose(self) -> tuple[np.ndarray, Plan]:
        """Return the centres and the plan of least held-out loss."""
        fit, weights = self.fit, self.table.sample_weight
        rows = np.concatenate([fold for _, folds in self.folds for fold in folds])
        total = float(len(rows) if weights is None else weights[rows].sum())
        lazy = self._lazy_losses() if isinstance(self.anchors, str) else None
        table, best = [], None
        candidates = self._centers()
        label = f"{self.settings.name} anchors"
        with Progress(len(candidates), label, verbose=self.settings.verbose) as progress:
            for choose in candidates:
                centers = choose()
                blends = [b for b in _BLENDED if b < max(3, len(centers))]
                losses = self._losses(centers, self._rules(len(centers)), self.alphas, blends)
                for plan in _plans_to_refit(losses) if fit.solver.is_linear else ():
                    some = sorted({plan.n_blended, blends[-1]})
                    shared = [plan.rule], [plan.alpha], some, _MAX_REFITS
                    losses |= self._losses(centers, *shared)
                plan = _preferred(losses)
                table += [
                    (len(centers), p.size, p.alpha, p.n_blended, p.n_refits, v.sum() / total)
                    for p, v in losses.items()
                ]
                progress.advance(
                    note=f"{len(centers)} anchors, loss {losses[plan].sum() / total:.4g}"
                )
                if best is not None and _is_close(best[2], losses[plan]):
                    # Stop when more anchors gain nothing, unless the lazy model is still better.
                    if lazy is None or _is_close(best[2], lazy):
                        break
                if best is None or losses[plan].sum() < best[2].sum():
                    best = (centers, plan, losses[plan])
        assert best is not None
        names = "n_anchors", "size", "alpha", "n_blended", "n_refits", "loss"
        self.results = dict(zip(names, map(np.array, zip(*table, strict=True)), strict=True))
        return best[0], best[1]

    def _centers(self) -> list[Callable[[], np.ndarray]]:
        """Return one function per set of centres to compare."""
        data, table = self.fit.data, self.table
        if isinstance(self.anchors, (str, int, np.integer)):
            codes = None if table.classes is None else table.y
            shared = (table.X, data.index, data.mapping.searched, codes, table.sample_weight)
            counts = _anchor_counts(self.anchors, data.total_weight)
            seed = self.settings.random_state
            return [partial(choose_centers, m, *shared, seed) for m in counts]
        centers = check_array(self.anchors, dtype=np.float64, input_name="anchors")
        if centers.shape[1] != table.n_features:
            raise ValueError(
                f"anchors has {centers.shape[1]} columns, but X has {table.n_features}; give the "
                "centres in the columns of X."
            )
        return [partial(np.unique, centers, axis=0)]

    def loss(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the weighted loss of predictions for rows."""
        return self._loss(values, rows) * self._weights[rows]

    def _losses(self, centers, rules, alphas, blends, n_refits=0) -> dict[Plan, np.ndarray]:
        """Return the weighted loss of each held-out row under all plans of these values.

        Those include no, one, two, ... refits to the residuals of the blend.
        """
        losses: dict = {}
        for data, coords, neighborhoods, held in self._held(centers, rules):
            localizer = Localizer(data.index.over(coords), blending_rule(blends[-1]))
            candidates = localizer.candidates(data.index.X[held], blends[-1])
            near = {b: localizer.of_size(candidates, b) for b in blends}
            for (rule, found), alpha in product(neighborhoods, alphas):
                first = fit_anchors(self.fit.solver, data, coords, found, alpha, 1)
                for b in blends:
                    anchors = replace(first, n_blended=b)
                    shared = self.fit.solver, data, anchors, found, alpha, n_refits
                    for i, one in enumerate([anchors, *refit_anchors(*shared)]):
                        values = one.predict(data.rows[held], near[b], self.fit.solver.n_jobs)
                        losses.setdefault(Plan(rule, alpha, b, i), []).append(
                            self.loss(values, held)
                        )
        return {plan: np.concatenate(parts) for plan, parts in losses.items()}

    def _lazy_losses(self) -> np.ndarray:
        """Return the held-out losses of the model fitted around every query, on the same folds."""
        parts, fit = [], self.fit
        for data, folds in self.folds:
            for held in folds:
                absent = self._absent(held)
                blocks = data.left_out([fit.rule], held, fit.factor, groups=absent)
                for _, own, _, design, found in blocks:
                    values = fit.solver.path(data, design, found, [fit.alpha])[0]
                    parts.append(self.loss(values, own))
        return np.concatenate(parts)

    def _held(self, centers, rules) -> Iterator:
        """Yield (data, coordinates, [(rule, neighbourhoods without the fold)], fold)."""
        for data, folds in self.folds:
            coords = data.mapping.searched(centers)
            without = _shared_search(data, coords, rules, self.fit.factor)
            for held in folds:
                absent = self._absent(held)
                yield data, coords, ((rule, without(rule, absent)) for rule in rules), held

    def _absent(self, held: np.ndarray) -> np.ndarray:
        """Return which rows are left out with those held out: themselves, and their groups."""
        groups = self.table.groups
        if groups is not None:
            return np.isin(groups, groups[held])
        absent = np.zeros(len(self.table), dtype=bool)
        absent[held] = True
        return absent

    def _rules(self, n_anchors: int) -> list:
        """Return the sizes of an anchor's neighbourhood to compare, from the lazy model's on."""
        rule, data = self.fit.rule, self.fit.data
        region = _ROWS_PER_REGION * data.total_weight / n_anchors
        top = max(min(_SIZE_FACTOR * rule.count, _MOST_NEIGHBORS), region)
        top = max(rule.count, min(top, data.total_weight / 2.0))
        counts = np.unique(np.floor(np.geomspace(rule.count, top, _N_SIZES)))
        return [replace(rule, count=float(count)) for count in counts]

    # --- models ---

    def fit_plan(self, centers, plan: Plan, data=None, found=None) -> AnchorModels:
        """Return the anchors of a plan."""
        data = data or self.fit.data
        coords = data.mapping.searched(centers)
        if found is None:
            found = _shared_search(data, coords, [plan.rule], self.fit.factor)(plan.rule, None)
        anchors = fit_anchors(self.fit.solver, data, coords, found, plan.alpha, plan.n_blended)
        shared = (anchors, found, plan.alpha, plan.n_refits)
        return [anchors, *refit_anchors(self.fit.solver, data, *shared)][-1]

    def held_out(self, centers, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions of rows by models that did not see them, and those rows."""
        values, used = [], []
        for data, coords, neighborhoods, held in self._held(centers, [plan.rule]):
            (_, found), *_ = neighborhoods
            anchors = self.fit_plan(centers, plan, data, found)
            localizer = Localizer(data.index.over(coords), anchors.rule)
            near = localizer.neighborhoods(data.index.X[held])
            values.append(anchors.predict(data.rows[held], near, self.fit.solver.n_jobs))
            used.append(held)
        return np.concatenate(values), np.concatenate(used)


def fit_anchors(
    solver, data, coords, found: WeightedNeighborhoods, alpha, n_blended
) -> AnchorModels:
    """Return the models at the centres; the prior where no row is near."""
    if data.index.X is data.rows:
        origins = coords
    else:
        # The design has other columns than the search: take the mean of the neighbours.
        origins = smooth_targets(found.indptr, found.indices, found.shares(), data.rows)
    prior = data.prior()
    values = np.tile(prior, (found.n_queries, 1))
    slopes = np.zeros((found.n_queries, len(prior), origins.shape[1]))
    near = np.flatnonzero(~found.is_empty())
    values[near], slopes[near] = solver.linear_models(
        data, origins[near], take_queries(found, near), alpha
    )
    return AnchorModels(coords, origins, values, slopes, n_blended)


def refit_anchors(
    solver, data, anchors: AnchorModels, found, alpha, n_refits
) -> Iterator[AnchorModels]:
    """Yield the anchors after each refit to the residuals of their blend (twicing)."""
    if n_refits == 0:
        return
    near = np.flatnonzero(~found.is_empty())
    used, numbers = np.unique(found.indices, return_inverse=True)
    some = take_queries(found._replace(indices=numbers), near)
    rows, Y = data.rows[used], replace(data, y=data.y[used]).columns
    localizer = Localizer(data.index.over(anchors.centers), anchors.rule)
    blended = localizer.neighborhoods(data.index.X[used])
    for _ in range(n_refits):
        left = Y - anchors.predict(rows, blended, solver.n_jobs)
        residuals = replace(data, rows=rows, y=left, n_classes=None)
        values, slopes = solver.linear_models(residuals, anchors.origins[near], some, alpha)
        anchors = replace(anchors, values=anchors.values.copy(), slopes=anchors.slopes.copy())
        anchors.values[near] += values
        anchors.slopes[near] += slopes
        yield anchors


def _shared_search(data, coords, rules, factor) -> Callable[[Any, Any], WeightedNeighborhoods]:
    """Return the map from a rule and absent rows to neighbourhoods of the centres; one search."""
    localizer = data.localizer(rules[-1], factor)
    candidates = localizer.candidates(coords, min(_SPARE * rules[-1].count, data.total_weight))
    return lambda rule, absent: localizer.of_size(candidates, rule.count, absent)


def _anchor_counts(anchors, total_weight: float) -> list[int]:
    """Return the numbers of anchors to compare: the one given, or the automatic list."""
    if anchors != "auto":
        if anchors > total_weight:
            raise ValueError(
                f"anchors={anchors} exceeds the {total_weight:g} samples given (counted by "
                "weight); lower it, or use a model fitted around every query."
            )
        return [int(anchors)]
    most = max(1, int(total_weight) // 3)
    return [m for m in _ANCHOR_COUNTS if m <= most] or [most]


def held_out_parts(rows, data: TrainingData, random_state) -> list[np.ndarray]:
    """Split rows so that no part holds more than a third of all rows; groups stay whole."""
    n_folds, groups = max(1, int(np.ceil(len(rows) / (_HELD_OUT * len(data)) - 1e-9))), data.groups
    if groups is not None:
        # Few rows may be of many groups, which are left out whole.
        folds = group_folds(groups, max(round(1 / _HELD_OUT), n_folds))
        parts = [np.intersect1d(fold, rows) for fold in folds]
        return [part for part in parts if part.size]
    order = check_random_state(random_state).permutation(len(rows))
    return [np.sort(rows[part]) for part in np.array_split(order, n_folds)]


def choose_centers(m: int, X, index: NeighborIndex, coordinates, codes, weights, random_state):
    """Return ``m`` centres (at most the different rows) as rows of X's columns, by k-means.

    k-means runs in the coordinates of the search. With class labels a row counts by the
    class overlap around it, because pure regions need few models. Where the coordinates are not
    linear in the columns, the rows nearest to the means are taken instead of the means.
    """
    rng = check_random_state(random_state)
    n, size = X.shape[0], max(_MIN_ROWS, _ROWS_PER_ANCHOR * m)
    some = sampled_rows(n, size, rng)
    rows, coords = np.asarray(X[some], dtype=np.float64), index.X[some]
    m = min(m, len(coords))
    share = np.ones(len(some)) if weights is None else weights[some]
    if codes is not None:
        share = share * (_PURE_SHARE + _mixing(coords, codes[some]))
    if m <= _MAX_SPREAD_START:
        start, _ = kmeans_plusplus(
            coords, m, sample_weight=share, random_state=rng, n_local_trials=1
        )
    else:
        start = coords[rng.choice(len(coords), m, replace=False, p=share / share.sum())]
    start = np.unique(start, axis=0)
    means = KMeans(len(start), init=start, n_init=1, max_iter=_LLOYD_ITERATIONS)
    labels = means.fit(coords, sample_weight=share).labels_
    raw, centers = _means(rows, labels, share), _means(coords, labels, share)
    if np.allclose(coordinates(raw), centers, rtol=1e-6, atol=1e-6 * np.ptp(coords)):
        return raw
    nearest = NeighborIndex(coords).nearest(centers, 1)[1][:, 0]
    return rows[np.unique(nearest)]


def _means(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted mean of each cluster that has a row."""
    total = np.bincount(labels, weights)
    sums = [np.bincount(labels, weights * column) for column in rows.T]
    occupied = total > 0.0
    return np.ascontiguousarray((np.stack(sums, axis=1)[occupied]) / total[occupied, None])


def _mixing(coords: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the Gini impurity of the labels around each row, 0 where one class is alone."""
    m = min(len(coords), _MIXING_NEIGHBORS + 1)
    near, n_classes = NeighborIndex(coords).nearest(coords, m)[1], int(codes.max()) + 1
    indptr, equal = np.arange(len(coords) + 1) * m, np.full(near.size, 1.0 / m)
    shares = smooth_classes(indptr, near.ravel(), equal, codes, n_classes)
    return 1.0 - (shares**2).sum(axis=1)


def _is_close(losses: np.ndarray, reference: np.ndarray) -> bool:
    """Return whether the excess over the reference is within one standard error or 1 %."""
    excess = losses - reference
    return bool(excess.mean() <= max(excess.std() / np.sqrt(len(excess)), 0.01 * reference.mean()))


def _plans_to_refit(losses: dict[Plan, np.ndarray]) -> list[Plan]:
    """Return the preferred plan, and the best one of the largest neighbourhoods.

    Wide neighbourhoods gain most: refits remove their bias, and they have little variance.
    """
    largest = max(plan.size for plan in losses)
    wide = min((p for p in losses if p.size == largest), key=lambda p: losses[p].sum())
    preferred = _preferred(losses)
    return [preferred] if preferred.size == largest else [preferred, wide]


def _preferred(losses: dict[Plan, np.ndarray]) -> Plan:
    """Return the smoothest and cheapest of the plans that are close to the best.

    Held-out rows are often nearer to the training rows than later queries are, which favours
    rough fits. So of the plans within one standard error the largest neighbourhoods are taken,
    then the fewest refits, then the fewest anchors to blend.
    """
    best = min(losses.values(), key=np.sum)
    close = [plan for plan, value in losses.items() if _is_close(value, best)]
    return min(close, key=lambda p: (-p.size, p.n_refits, p.n_blended, losses[p].sum(), -p.alpha))
