"""Bootstrap ensembles of a table larger than memory: members are tasks with rows of their own."""

from contextlib import nullcontext
from copy import deepcopy

import joblib
import numpy as np
from dask import delayed
from sklearn.base import is_classifier
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import check_random_state

from vicinal._base import draw_seeds
from vicinal.distributed._blocks import Block, Blocks
from vicinal.distributed._compute import compute, connected_client
from vicinal.distributed._draws import row_uniforms
from vicinal.distributed._fit import fits
from vicinal.distributed._sample import sample_rows
from vicinal.distributed._survey import Survey, survey
from vicinal.ensemble import BootstrapEnsembleClassifier, BootstrapEnsembleRegressor
from vicinal.ensemble._bootstrap_ensemble_regressor import _output as member_predictions
from vicinal.ensemble._learners import fresh_learner

# Rows that a member is fitted to, at most; and those whose out-of-bag predictions are kept.
MEMBER_ROWS = 100_000
# Rows of members that are drawn in one pass, in bytes.
_BATCH_BYTES = 2**29


@fits(BootstrapEnsembleClassifier, BootstrapEnsembleRegressor)
def fit_bootstrap(model, blocks: Blocks, verbose: int) -> None:
    """Draw every member's rows and fit it in one task.

    A table of no more than ``MEMBER_ROWS`` rows is gathered, and members are fitted as in memory,
    on the workers: the ensemble is the same. Of a larger one each member sees about
    ``MEMBER_ROWS`` rows: row i is drawn Poisson(``MEMBER_ROWS`` w_i / sum of w) times, by a number
    that belongs to member and row, so that the blocks do not matter. This is a bootstrap of fewer
    rows than there are, whose members differ more than those of a full one; a member may miss a
    rare class, whose probability it then puts at zero. Out-of-bag values are those of a sample of
    ``MEMBER_ROWS`` rows.
    """
    blocks, found = survey(blocks, has_classes=is_classifier(model), verbose=verbose)
    if found.n_rows <= MEMBER_ROWS:
        _fit_gathered(model, blocks, found, verbose)
    else:
        _fit_drawn(model, blocks, found, verbose)


def _fit_gathered(model, blocks: Blocks, found: Survey, verbose: int) -> None:
    X, y, weight = sample_rows(blocks, found, MEMBER_ROWS, 0, verbose=verbose)
    on_workers = connected_client() is not None
    with joblib.parallel_config(backend="dask") if on_workers else nullcontext():
        model.fit(X, y, sample_weight=weight)


def _fit_drawn(model, blocks: Blocks, found: Survey, verbose: int) -> None:
    random_state = 0 if model.random_state is None else deepcopy(model.random_state)
    seeds = draw_seeds(random_state, model.n_estimators)
    rate = MEMBER_ROWS / found.weight
    learner = model.estimator
    if is_classifier(model):
        model.classes_ = found.classes
        learner = DecisionTreeClassifier() if learner is None else learner
    else:
        learner = DecisionTreeRegressor() if learner is None else learner
    size = max(1, _BATCH_BYTES // (8 * MEMBER_ROWS * blocks.n_features))
    model.estimators_ = []
    for start in range(0, len(seeds), size):
        batch = seeds[start : start + size]
        model.estimators_ += _fit_members(learner, blocks, found.classes, batch, rate, verbose)
    _judge(model, blocks, found, seeds, rate, verbose)


def _fit_members(learner, blocks: Blocks, classes, seeds: list[int], rate: float, verbose: int):
    """Fit some members; one pass over the rows draws those of all."""
    draw = delayed(_draw, pure=True, nout=len(seeds))
    classes = delayed(classes)
    drawn = [list(draw(part, classes, seeds, rate)) for part in blocks.parts]
    member = delayed(_member, pure=True)
    lazy = [
        member(delayed(learner, pure=True), [parts[m] for parts in drawn], seed)
        for m, seed in enumerate(seeds)
    ]
    return compute(lazy, verbose=verbose)


def _draw(block: Block, classes, seeds: list[int], rate: float) -> list[tuple]:
    """Return the rows and targets of each member in one block."""
    y = block.y if classes is None else np.searchsorted(classes, block.y)
    answers = []
    for seed in seeds:
        rows = np.repeat(np.arange(len(block)), _copies(block, seed, rate))
        answers.append((block.X[rows], y[rows]))
    return answers


def _copies(block: Block, seed: int, rate: float) -> np.ndarray:
    uniforms = row_uniforms(seed, block.start, len(block))
    return poisson_counts(uniforms, rate * block.sample_weight)


def poisson_counts(uniforms: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Return Poisson counts by inversion: the number of k with P(count <= k) <= u."""
    counts = np.zeros(len(uniforms), dtype=np.int64)
    share = np.exp(-rates)
    below = share.copy()
    pending = np.flatnonzero(uniforms >= below)
    while pending.size:
        counts[pending] += 1
        share[pending] *= rates[pending] / counts[pending]
        below[pending] += share[pending]
        # Shares too small to change the sum end the search in the far tail.
        more = (uniforms[pending] >= below[pending]) & (share[pending] > 0.0)
        pending = pending[more]
    return counts


def _member(learner, parts: list[tuple], seed: int):
    """Fit one member to the rows drawn for it in all blocks."""
    X, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return fresh_learner(learner, check_random_state(seed)).fit(X, y)


# --- out of bag ---


def _judge(model, blocks: Blocks, found: Survey, seeds, rate: float, verbose: int) -> None:
    """Predict sampled rows by the members that did not see them."""
    share = MEMBER_ROWS / found.n_rows
    output = model._output() if is_classifier(model) else member_predictions
    shared = model.estimators_, output, seeds, rate, share, _sample_seed(seeds)
    parts = [part for part in blocks.gather(_out_of_bag, *shared, verbose=verbose) if part]
    mean, y, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    is_known = ~np.isnan(mean.reshape(len(mean), -1)[:, 0])
    if is_classifier(model):
        codes = np.searchsorted(found.classes, y)
        model.oob_decision_function_ = mean
        is_right = mean[is_known].argmax(axis=1) == codes[is_known]
        model.oob_score_ = float(np.average(is_right, weights=weight[is_known]))
    else:
        model.oob_prediction_, model.oob_residuals_ = mean, y - mean
        model._residual_weight = weight[is_known]
        model.oob_score_ = float(
            r2_score(y[is_known], mean[is_known], sample_weight=weight[is_known])
        )


def _sample_seed(seeds: list[int]) -> int:
    """Return a seed that no member draws by."""
    return max(seeds) + 1


def _out_of_bag(block: Block, members, output, seeds, rate, share, sample_seed) -> tuple | None:
    """Return mean out-of-bag outputs of the sampled rows, NaN where all members saw a row."""
    rows = np.flatnonzero(row_uniforms(sample_seed, block.start, len(block)) < share)
    if len(rows) == 0:
        return None
    values = np.stack([output(member, block.X[rows]) for member in members])
    unseen = np.stack([_copies(block, seed, rate)[rows] == 0 for seed in seeds])
    unseen = unseen.reshape(unseen.shape + (1,) * (values.ndim - 2)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        mean = (unseen * values).sum(axis=0) / unseen.sum(axis=0)
    return mean, block.y[rows], block.sample_weight[rows]
