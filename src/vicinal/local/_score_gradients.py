"""Decision scores of a local classifier and their exact gradients."""

import numpy as np

from vicinal._kernels.local._classifiers import local_classifiers
from vicinal._kernels.local._smoothing import kernel_slopes, nearest_bandwidth, nearest_scale
from vicinal._kernels.local._workspace import Fits, Motion
from vicinal.local._fits import GlobalFit, LocalFit
from vicinal.local._neighborhoods import NearestRule, Neighborhoods, take_queries
from vicinal.local._solvers import NewtonSolver, Objective, RidgeSolver, bundled, over_queries


def has_gradient(fit: LocalFit) -> bool:
    """Tell whether the fit is one whose gradient is known in closed form."""
    data, solver = fit.data, fit.solver
    return (
        data.is_host
        and isinstance(solver, (RidgeSolver, NewtonSolver))
        and solver.name != "multinomial"
        and solver.degree < 2
        and data.index.is_euclidean
        and data.placement.coordinates.transformer is None
    )


def scores_and_gradients(fit: LocalFit, X, weights_move: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return class scores (n_queries, n_classes) and gradients (n_queries, n_classes, n_features).

    With ``weights_move`` False the weights are held fixed: the gradients are the slopes of the
    local models.
    """
    if isinstance(fit, GlobalFit):
        return fit.answers(X), fit.slopes(X)
    data = fit.data
    scores = np.empty((X.shape[0], data.targets.n_outputs))
    gradients = np.zeros((*scores.shape, X.shape[1]))
    localizer = data.localizer(fit.rule, fit.factor)
    place, design = data.locate(X)
    for block in data.blocks(X.shape[0], fit.rule):
        found = localizer.neighborhoods(place[block])
        empty = found.nobody()
        scores[block][empty] = fit.outside
        some = np.flatnonzero(~empty)
        if not some.size:
            continue
        found, rows = take_queries(found, some), block.start + some
        move = weight_slopes(localizer, place[rows], found) if weights_move else _still(found)
        values, slopes, pulls = _block(fit, design[rows], place[rows], found, move)
        scores[rows] = values
        gradients[rows] = _join(data.placement, slopes, pulls, X[rows])
    return scores, gradients


def _block(fit: LocalFit, design, place, found, move):
    """Fit the local models of a block; return scores, slopes and pulls through the weights."""
    data, solver = fit.data, fit.solver
    loss = getattr(solver, "objective", Objective("ridge"))
    objective = loss.compiled(fit.alpha, solver.relative)
    n_classes, n_queries = data.targets.n_outputs, found.n_queries
    scores = np.empty((n_queries, n_classes))
    slopes = np.zeros((n_queries, n_classes, data.n_columns))
    pulls = np.zeros((n_queries, n_classes, data.index.X.shape[1]))
    converged = np.ones(n_queries, dtype=bool)
    radial, common, extra = move

    def solve(part):
        queries = bundled(data.rows, design, found, part, solver.degree)
        out = Fits(scores[part], slopes[part], converged[part])
        motion = Motion(data.index.X, place[part], radial, common, extra[part], pulls[part])
        local_classifiers(queries, data.targets.codes, objective, out, motion)

    over_queries(solve, n_queries, solver.n_jobs)
    return scores, slopes, pulls


def _join(placement, slopes, pulls, X) -> np.ndarray:
    """Put both parts of the gradient into the columns of X."""
    mask = placement.located
    if mask is None:
        return placement.coordinates.pull_back(slopes + pulls, X)
    full = np.zeros((*slopes.shape[:2], X.shape[1]))
    full[:, :, ~mask] = slopes
    full[:, :, mask] = placement.coordinates.pull_back(pulls, X[:, mask])
    return full


# --- how weights move with the query ---


def _still(found: Neighborhoods):
    none = np.zeros(len(found.indices))
    return none, none, np.zeros((found.n_queries, 1))


def weight_slopes(localizer, place, found: Neighborhoods):
    """Return (radial, common, extra): grad w_i = radial_i (x_i - q) + common_i extra(q)."""
    rule = localizer.rule
    user = np.ones(len(found.indices))
    if localizer.sample_weight is not None:
        user *= localizer.sample_weight[found.indices]
    if localizer.factor is not None:
        user *= localizer.factor[found.indices]
    extra = np.zeros(place.shape)
    if isinstance(rule, NearestRule):
        _set_bandwidth_slopes(localizer, rule, place, np.arange(len(place)), extra)
        return *_nearest_slopes(rule, found, user), extra
    if np.isinf(rule.bandwidth):
        return *_still(found)[:2], extra
    if rule.kernel == "gaussian":
        # Weights are relative to the nearest row's, which moves too.
        nearest = localizer.index.nearest(place, 1)[1][:, 0]
        extra = localizer.index.X[nearest] - place
        radial = found.weights / rule.bandwidth**2
        return radial, -radial, extra
    h, r = rule.bandwidth, found.distances
    slope = user * kernel_slopes(r / h, rule.kernel)
    radial, common = -slope / (h * np.where(r > 0.0, r, 1.0)), np.zeros_like(slope)
    enlarged = np.flatnonzero(found.bandwidths != h)
    if enlarged.size:
        # Nobody was near: these reached to the nearest rows.
        some = NearestRule(min(place.shape[1] + 1, localizer.n_samples - 1), rule.kernel)
        _set_bandwidth_slopes(localizer, some, place, enlarged, extra)
        other = np.isin(np.repeat(np.arange(len(place)), found.sizes()), enlarged)
        wide = _nearest_slopes(some, found, user)
        radial[other], common[other] = wide[0][other], wide[1][other]
    return radial, common, extra


def _nearest_slopes(rule: NearestRule, found: Neighborhoods, user):
    """Weights K(r / h(q)) move with the distance and with the bandwidth."""
    h = np.repeat(found.bandwidths, found.sizes())
    r = found.distances
    safe = np.where(h > 0.0, h, 1.0)
    factor = nearest_scale(rule.kernel)
    slope = factor * user * kernel_slopes(factor * r / safe, rule.kernel) * (h > 0.0)
    radial = -slope / (safe * np.where(r > 0.0, r, 1.0))
    return radial, -slope * r / (safe * safe)


def _set_bandwidth_slopes(localizer, rule: NearestRule, place, queries, extra) -> None:
    """Write grad h(q) = stretch (q - x_k) / |q - x_k| for the row that sets the bandwidth."""
    finder = type(localizer)(localizer.index, rule, sample_weight=localizer.sample_weight)
    distances, indices, user = finder.candidates(place[queries], rule.count)
    h = nearest_bandwidth(distances, user, rule.count, exceed=rule.exceed)
    short = ~np.isfinite(h)
    # All rows together were too few: the farthest one decides, with the same stretch as there.
    h = np.where(short, distances[:, -1], h)
    stretch = np.where(short, 1.0 + 1.0 / max(1.0, rule.count), 1.0) * rule.stretch
    column = (distances >= h[:, None]).argmax(axis=1)
    row = indices[np.arange(len(queries)), column]
    away = place[queries] - localizer.index.X[row]
    extra[queries] = away * (stretch / np.where(h > 0.0, h, 1.0))[:, None]
