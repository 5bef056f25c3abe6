"""Anchored prediction, as a mixin of the local estimators: place, choose, fit, blend."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import GroupKFold
from sklearn.utils import check_array, check_random_state

from vicinal._base import Progress, row_blocks
from vicinal.local._anchors import (
    Anchors,
    anchor_counts,
    blending_rule,
    place_centers,
    ridge_planes,
)
from vicinal.local._data import LocalData, Settings
from vicinal.local._fits import smooth
from vicinal.local._forest import FORESTS
from vicinal.local._metrics import sees_labels
from vicinal.local._neighborhood import (
    Localizer,
    NearestRule,
    Neighborhoods,
    RadiusRule,
    drop_zeros,
    take_queries,
)
from vicinal.local._selection import MAX_ROWS, draw_rows

# Numbers of anchors that "auto" compares, and of anchors blended for a query.
_ANCHOR_LADDER = (64, 256, 1024, 4096)
_BLEND_LADDER = (2, 4, 8, 16)
# Refits of the models to what their blend leaves over.
_MAX_REFITS = 3
# A model at an anchor answers for a whole region: it may need more rows, and then less shrinkage,
# than one fitted around a query.
_SIZE_FACTOR = 8
_MOST_NEIGHBORS = 1280
_ROWS_PER_REGION = 4
_N_SIZES = 3
_ALPHA_FACTORS = (1.0, 0.2, 0.04)
_RADIUS_FACTORS = (1.0, 1.5, 2.0)
# Share of the rows held out at once when candidates are compared.
_HELD_OUT = 1 / 3
# Tables on which metric="auto" also tries the metric of the slopes.
_MIN_ROWS_FOR_SLOPES = 200
_MAX_SLOPE_COLUMNS = 100
# Neighbours kept beyond the largest size, so that enough remain when a fold is left out.
_SPARE = 1.5


class Anchored:
    """Fit m local models once and blend them; the estimator supplies models and losses."""

    anchors: Any = None
    anchors_: Anchors | None = None
    _data: LocalData
    _settings: Settings
    _factor: np.ndarray | None
    _generic: Any
    metric: Any
    metric_: Any
    alpha: Any
    n_jobs: int | None
    random_state: Any
    verbose: int
    n_features_in_: int
    n_neighbors_: int | None
    bandwidth_: float | None
    _exact_alpha: float | None
    _views: Callable
    _place_data: Callable
    _criterion: Callable
    _split_columns: Callable
    _make_index: Callable
    _tangents: Callable
    _can_refit: Callable
    _target_columns: Callable
    _is_relative: Callable

    def _check_anchors(self, X) -> None:
        """Refuse what cannot be stored as planes, before any work."""
        if self.anchors is None:
            return
        if self._generic is not None:
            raise ValueError(
                f"anchors={_name(self.anchors)} stores linear models, but estimator="
                f"{self._generic!r} is a black box; use solver= or anchors=None."
            )
        if sparse.issparse(X):
            raise ValueError(
                f"anchors={_name(self.anchors)} needs a dense X, not a sparse one: models at "
                "anchors have a slope for every column. Use anchors=None, or reduce the columns."
            )
        if isinstance(self.metric, str) and self.metric in FORESTS:
            raise ValueError(
                f'metric="{self.metric}" knows leaves but no distances, by which anchors are '
                'blended; use "gradient" or another metric.'
            )
        if getattr(self, "clip", False):
            raise ValueError(
                "clip=True needs the targets of the neighbours, which an anchored model does not "
                "keep; set clip=False or anchors=None."
            )

    def _metric_candidates(self, X, codes, total_weight: float) -> list:
        """Add the metric that slopes give: anchors have no ladder of models to stack."""
        candidates = super()._metric_candidates(X, codes, total_weight)  # type: ignore[misc]
        if self.anchors is None or len(candidates) == 1 or total_weight < _MIN_ROWS_FOR_SLOPES:
            return candidates
        return [*candidates, "gradient"] if X.shape[1] <= _MAX_SLOPE_COLUMNS else candidates

    def _check_rows(self, what: str) -> None:
        if self.anchors_ is not None:
            raise ValueError(
                f"{what} needs the training rows, which an anchored model does not keep; fit with "
                "anchors=None."
            )

    def _drop_to_anchors(self, X, codes, targets, weights, groups, *, hold_out: bool):
        """Replace the rows by models at anchors; return held-out predictions and their rows."""
        arrays = (X, codes, targets, weights, groups)
        rows = draw_rows(self._data.n_samples, self.random_state, MAX_ROWS)
        views = self._fold_coordinates(rows, arrays)
        rule: Any = self._settings.rule
        if self._settings.is_global:
            centers = np.average(X, axis=0, weights=weights)[None].astype(np.float64)
            plan = Plan(rule, self._settings.alpha, 1)
        else:
            centers, plan = self._choose_anchors(views, arrays)
        held_out = self._held_out_predictions(centers, plan, views, arrays) if hold_out else None
        place = self._to_place(centers)
        found = _Search(self._data, place, [plan.rule], self._factor).found(plan.rule, None)
        self._keep_anchors(self._fit_plan(self._data, place, found, plan), plan)
        return held_out

    def _keep_anchors(self, anchors: Anchors, plan: "Plan") -> None:
        self.anchors_ = anchors
        self.n_refits_ = plan.n_refits
        self.alpha_ = float(plan.alpha)
        if isinstance(plan.rule, NearestRule):
            self.n_neighbors_ = int(plan.rule.count)
        else:
            self.bandwidth_ = float(plan.rule.bandwidth)
        # From here on the anchors are the rows: a prediction searches and blends them.
        index = self._make_index(anchors.centers, self.metric_)
        self._data = LocalData(anchors.origins, index, self._data.coordinates, None, None)
        self._settings = replace(self._settings, rule=anchors.rule, alpha=self.alpha_)
        self._factor = None

    # --- choice ---

    def _choose_anchors(self, views, arrays) -> tuple[np.ndarray, "Plan"]:
        """Return the centres and the plan of least held-out loss."""
        rows = np.concatenate([fold for _, folds in views for fold in folds])
        weights = arrays[3]
        total = float(len(rows) if weights is None else weights[rows].sum())
        lazy = self._lazy_losses(views, arrays) if _is_auto(self.anchors) else None
        table, best = [], None
        candidates = self._centers(arrays)
        limit = getattr(self, "max_fit_time", None)
        deadline = np.inf if limit is None else time.monotonic() + limit
        label = f"{type(self).__name__} anchors"
        with Progress(len(candidates), label, verbose=self.verbose) as progress:
            for place in candidates:
                if best is not None and time.monotonic() > deadline:
                    break
                centers = place()
                losses = self._anchor_losses(centers, views, arrays)
                for plan in _worth_refitting(losses):
                    losses |= self._refit_losses(centers, plan, views, arrays)
                plan = _preferred(losses)
                table += [(len(centers), p, v.sum() / total) for p, v in losses.items()]
                progress.advance(
                    note=f"{len(centers)} anchors, loss {losses[plan].sum() / total:.4g}"
                )
                if best is not None and _is_close(best[2], losses[plan]):
                    # More anchors are no better: enough, unless the lazy model still is.
                    if lazy is None or _is_close(best[2], lazy):
                        break
                if best is None or losses[plan].sum() < best[2].sum():
                    best = (centers, plan, losses[plan])
        assert best is not None
        self.anchor_selection_ = _table(table)
        return best[0], best[1]

    def _centers(self, arrays) -> list[Callable[[], np.ndarray]]:
        """Return one function per set of centres to compare."""
        X, codes, _, weights, _ = arrays
        if not isinstance(self.anchors, (str, int, np.integer)):
            return [self._given_centers]
        data: Any = self._data
        shared = (X, data.index, self._to_place, codes, weights, self.random_state)
        counts = anchor_counts(self.anchors, data.total_weight, _ANCHOR_LADDER)
        return [partial(place_centers, m, *shared) for m in counts]

    def _given_centers(self) -> np.ndarray:
        centers = check_array(self.anchors, dtype=np.float64, input_name="anchors")
        if centers.shape[1] != self.n_features_in_:
            raise ValueError(
                f"anchors has {centers.shape[1]} columns, but X has {self.n_features_in_}; give "
                "the centres in the columns of X."
            )
        return np.unique(centers, axis=0)

    def _to_place(self, X, data=None) -> np.ndarray:
        """Return where rows of X lie in the coordinates of the search."""
        return (data or self._data).coordinates(self._split_columns(X)[0])

    def _anchor_losses(self, centers, views, arrays) -> dict["Plan", np.ndarray]:
        """Return the weighted loss of each held-out row under every size, penalty and blend."""
        losses: dict = {}
        for data, place, neighborhoods, held in self._folds(centers, views, arrays):
            _, loss = self._criterion(data, [1.0], self._settings.degree)
            speakers = self._speakers(place, data.index.X[held])
            for rule, found in neighborhoods:
                models = self._models(data, place, found, self._anchor_alphas(), 1)
                for alpha, anchors in zip(self._anchor_alphas(), models, strict=True):
                    for n_blended, spoken in speakers.items():
                        values = anchors.predict(data.rows[held], spoken, self.n_jobs)
                        plan = Plan(rule, alpha, n_blended)
                        losses.setdefault(plan, []).append(loss(values, held))
        return {plan: np.concatenate(parts) for plan, parts in losses.items()}

    def _refit_losses(self, centers, plan, views, arrays) -> dict["Plan", np.ndarray]:
        """Return the same after one, two, ... refits to what the blend left over."""
        losses: dict = {}
        if not self._can_refit():
            return losses
        for data, place, neighborhoods, held in self._folds(centers, views, arrays, [plan.rule]):
            _, loss = self._criterion(data, [1.0], self._settings.degree)
            (_, found), *_ = neighborhoods
            first = self._models(data, place, found, [plan.alpha], 1)[0]
            speakers = self._speakers(place, data.index.X[held])
            for n_blended in {plan.n_blended, max(speakers)}:
                spoken = speakers[n_blended]
                anchors = replace(first, n_blended=n_blended)
                for i, refitted in enumerate(
                    self._refits(data, anchors, found, plan.alpha, _MAX_REFITS), start=1
                ):
                    values = refitted.predict(data.rows[held], spoken, self.n_jobs)
                    key = replace(plan, n_blended=n_blended, n_refits=i)
                    losses.setdefault(key, []).append(loss(values, held))
        return {plan: np.concatenate(parts) for plan, parts in losses.items()}

    def _speakers(self, place, queries) -> dict[int, Neighborhoods]:
        """Return which anchors speak for the queries, for every number to blend; one search."""
        ladder = [b for b in _BLEND_LADDER if b < max(3, len(place))]
        index = self._make_index(place, self.metric_)
        localizer = Localizer(index, blending_rule(ladder[-1]))
        found = localizer.candidates(queries, ladder[-1])
        return {b: localizer.from_candidates(found, b) for b in ladder}

    def _lazy_losses(self, views, arrays) -> np.ndarray:
        """Return the held-out losses of the model fitted around every query, on the same folds."""
        parts = []
        settings = self._settings
        for data, folds in self._split_views(views, arrays):
            evaluate, loss = self._criterion(data, [settings.alpha], settings.degree)
            localizer = data.localizer(settings.rule, self._factor)
            for held in folds:
                group = np.zeros(data.n_samples, dtype=bool)
                group[held] = True
                for block in row_blocks(len(held), 160 * localizer.expected_size(), max_rows=2048):
                    own = held[block]
                    found = localizer.neighborhoods(data.index.X[own], rows=own, groups=group)
                    parts.append(loss(evaluate(data.rows[own], found)[0], own))
        return np.concatenate(parts)

    def _fold_coordinates(self, rows, arrays) -> list[tuple]:
        """Return (coordinates, folds): a fold is left out of all that judges it, metric included.

        ``None`` stands for the coordinates in use, which need no learning again.
        """
        metric = self.metric if hasattr(self.metric, "transform") else self.metric_
        X, _, _, _, groups = arrays
        if not sees_labels(metric):
            return [(None, _split(rows, X.shape[0], groups, self.random_state))]
        views = self._views(metric, rows, arrays, fitted=self._data)
        return [(data.coordinates, [fold]) for data, fold in views]

    def _split_views(self, views, arrays) -> Iterator[tuple[LocalData, list[np.ndarray]]]:
        """Yield (data, folds)."""
        X, _, _, weights, groups = arrays
        for coordinates, folds in views:
            if coordinates is None:
                yield self._data, folds
            else:
                yield self._place_data(X, weights, groups, self.metric_, coordinates), folds

    def _folds(self, centers, views, arrays, rules=None) -> Iterator:
        """Yield (data, places, [(rule, neighbourhoods without the fold)], fold)."""
        for data, folds in self._split_views(views, arrays):
            compared = rules or self._anchor_rules(len(centers), data)
            place = self._to_place(centers, data)
            search = _Search(data, place, compared, self._factor)
            for held in folds:
                absent = np.zeros(data.n_samples, dtype=bool)
                absent[held] = True
                yield data, place, ((rule, search.found(rule, absent)) for rule in compared), held

    def _anchor_rules(self, n_anchors: int, data: LocalData) -> list:
        """Return the sizes of an anchor's neighbourhood to compare, from the lazy model's on."""
        rule: Any = self._settings.rule
        if isinstance(rule, RadiusRule):
            return [
                replace(rule, bandwidth=factor * rule.bandwidth, outside="nearest")
                for factor in _RADIUS_FACTORS
            ]
        region = _ROWS_PER_REGION * data.total_weight / n_anchors
        top = max(min(_SIZE_FACTOR * rule.count, _MOST_NEIGHBORS), region)
        top = max(rule.count, min(top, data.total_weight / 2.0))
        counts = np.unique(np.floor(np.geomspace(rule.count, top, _N_SIZES)))
        return [replace(rule, count=float(count)) for count in counts]

    def _anchor_alphas(self) -> list[float]:
        alpha = self._settings.alpha
        if alpha == 0.0 or self._exact_alpha is not None or self.alpha != "auto":
            return [alpha]
        return [factor * alpha for factor in _ALPHA_FACTORS]

    # --- models ---

    def _models(self, data, place, found: Neighborhoods, alphas, n_blended) -> list[Anchors]:
        """Return the models at the centres for each penalty."""
        if data.index.X is data.rows:
            origins = place
        else:
            # Other columns than those of the map: any origin will do, the mean is well scaled.
            owner = np.repeat(np.arange(found.n_queries), found.sizes())
            share = found.weights / np.bincount(owner, found.weights)[owner]
            origins = smooth(found, share, data.rows)
        return [
            Anchors(place, origins, values, slopes, n_blended)
            for values, slopes in self._tangents(data, origins, found, alphas)
        ]

    def _refits(self, data, anchors: Anchors, found, alpha, n_refits) -> Iterator[Anchors]:
        """Yield the anchors after each refit of their models to what the blend leaves over.

        The models are fitted one by one, but speak together: twicing lets them learn of each other.
        """
        near = np.flatnonzero(found.sizes() > 0)
        used, numbers = np.unique(found.indices, return_inverse=True)
        some = take_queries(found._replace(indices=numbers), near)
        rows, Y = data.rows[used], self._target_columns(used)
        index = self._make_index(anchors.centers, self.metric_)
        spoken = Localizer(index, anchors.rule).neighborhoods(data.index.X[used])
        for _ in range(n_refits):
            values, slopes = ridge_planes(
                rows,
                Y - anchors.predict(rows, spoken, self.n_jobs),
                anchors.origins[near],
                some,
                alpha,
                relative=self._is_relative(),
                degree=self._settings.degree,
                n_jobs=self.n_jobs,
            )
            anchors = replace(anchors, values=anchors.values.copy(), slopes=anchors.slopes.copy())
            anchors.values[near] += values
            anchors.slopes[near] += slopes
            yield anchors

    def _fit_plan(self, data, place, found, plan: "Plan") -> Anchors:
        """Return the anchors of a plan."""
        anchors = self._models(data, place, found, [plan.alpha], plan.n_blended)[0]
        for refitted in self._refits(data, anchors, found, plan.alpha, plan.n_refits):
            anchors = refitted
        return anchors

    def _held_out_predictions(self, centers, plan: "Plan", views, arrays):
        """Return predictions of rows by models that did not see them, and those rows."""
        values, used = [], []
        for data, place, neighborhoods, held in self._folds(centers, views, arrays, [plan.rule]):
            (_, found), *_ = neighborhoods
            anchors = self._fit_plan(data, place, found, plan)
            index = self._make_index(place, self.metric_)
            spoken = Localizer(index, anchors.rule).neighborhoods(data.index.X[held])
            values.append(anchors.predict(data.rows[held], spoken, self.n_jobs))
            used.append(held)
        return np.concatenate(values), np.concatenate(used)


@dataclass(frozen=True)
class Plan:
    """How models at anchors are fitted and blended."""

    rule: Any
    alpha: float
    n_blended: int
    n_refits: int = 0

    @property
    def size(self) -> float:
        """Number of neighbours of an anchor, or its bandwidth."""
        return self.rule.count if isinstance(self.rule, NearestRule) else self.rule.bandwidth


def keeps_rows(estimator) -> bool:
    """Tell whether rows can be added later; raise with the reason if not."""
    if estimator.anchors is not None:
        raise AttributeError(
            "partial_fit needs the earlier rows, which an anchored model does not keep; use "
            "anchors=None, or fit again on all rows."
        )
    return True


class _Search:
    """Neighbourhoods of the same centres under several rules, with rows left out; one search."""

    def __init__(self, data: LocalData, place, rules, factor):
        self._data, self._place, self._factor = data, place, factor
        self._localizer = data.localizer(rules[-1], factor)
        self._candidates = None
        if isinstance(rules[-1], NearestRule):
            largest = min(_SPARE * rules[-1].count, data.total_weight)
            self._candidates = self._localizer.candidates(place, largest)

    def found(self, rule, absent: np.ndarray | None) -> Neighborhoods:
        """Return the neighbourhoods under a rule without the rows that are ``absent``."""
        if self._candidates is None:
            found = self._data.localizer(rule, self._factor).neighborhoods(self._place)
            if absent is None:
                return found
            return drop_zeros(found._replace(weights=found.weights * ~absent[found.indices]))
        distances, indices, user = self._candidates
        if absent is not None:
            user = ~absent[indices] * (1.0 if user is None else user)
        found = self._localizer.from_candidates((distances, indices, user), rule.count)
        if self._factor is None:
            return found
        return drop_zeros(found._replace(weights=found.weights * self._factor[found.indices]))


def _split(rows, n_samples: int, groups, random_state) -> list[np.ndarray]:
    """Split rows so that no part holds more than a third of all rows; groups stay whole."""
    n_folds = max(1, int(np.ceil(len(rows) / (_HELD_OUT * n_samples) - 1e-9)))
    if groups is not None:
        n_folds = max(2, n_folds)
        splits = GroupKFold(min(n_folds, len(np.unique(groups)))).split(groups, groups=groups)
        folds = [np.intersect1d(test, rows) for _, test in splits]
        return [fold for fold in folds if fold.size]
    order = check_random_state(random_state).permutation(len(rows))
    return [np.sort(rows[part]) for part in np.array_split(order, n_folds)]


def _is_auto(anchors) -> bool:
    return isinstance(anchors, str)


def _is_close(losses: np.ndarray, reference: np.ndarray) -> bool:
    """Tell whether the excess over the reference is within one standard error, or one per cent."""
    excess = losses - reference
    return bool(excess.mean() <= max(excess.std() / np.sqrt(len(excess)), 0.01 * reference.mean()))


def _worth_refitting(losses: dict[Plan, np.ndarray]) -> list[Plan]:
    """Return the preferred plan, and the best one of the largest neighbourhoods.

    Wide neighbourhoods have most to gain: refits remove their bias, and they have little variance.
    """
    largest = max(plan.size for plan in losses)
    wide = min((p for p in losses if p.size == largest), key=lambda p: losses[p].sum())
    preferred = _preferred(losses)
    return [preferred] if preferred.size == largest else [preferred, wide]


def _preferred(losses: dict[Plan, np.ndarray]) -> Plan:
    """Return the smoothest and cheapest of the plans that are close to the best.

    Rows held out are often nearer to the rest than later queries are (overlapping windows, the
    same writer), which flatters fits that follow the data closely; one standard error is given to
    larger neighbourhoods, then fewer refits, then fewer anchors to blend.
    """
    best = min(losses.values(), key=np.sum)
    close = [plan for plan, value in losses.items() if _is_close(value, best)]
    return min(close, key=lambda p: (-p.size, p.n_refits, p.n_blended, losses[p].sum(), -p.alpha))


def _table(entries: list[tuple[int, Plan, float]]) -> dict[str, np.ndarray]:
    """Return the path of the choice as columns."""
    return {
        "n_anchors": np.array([m for m, _, _ in entries]),
        "size": np.array([plan.size for _, plan, _ in entries]),
        "alpha": np.array([plan.alpha for _, plan, _ in entries]),
        "n_blended": np.array([plan.n_blended for _, plan, _ in entries]),
        "n_refits": np.array([plan.n_refits for _, plan, _ in entries]),
        "loss": np.array([loss for _, _, loss in entries]),
    }


def _name(anchors) -> str:
    return repr(anchors) if np.ndim(anchors) == 0 else f"<array of {len(anchors)} centres>"
