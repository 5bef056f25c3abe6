"""Choice of metric, degree, neighbourhood size and penalty by leaving rows out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import check_random_state

from vicinal._base import Progress, row_blocks, saved
from vicinal.local._forest import ForestRule
from vicinal.local._neighborhood import NearestRule, Neighborhoods, RadiusRule, drop_zeros

NEIGHBOR_LADDER = (10, 15, 20, 30, 40, 60, 80, 120, 160)
ALPHA_LADDER = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# 700 rows were far too few to choose by: letter 1.4 % estimated, 3.5 % true.
MAX_ROWS = 3000
# Bandwidths tried, as multiples of the median distance to the 40th neighbour.
BANDWIDTH_LADDER = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
# Candidates that differ by rounding are ties.
_TIE = 1e-12
_N_FOLDS = 5


@saved()
@dataclass(frozen=True)
class Candidate:
    """One combination, with its leave-one-out loss."""

    metric: object
    degree: int
    rule: NearestRule | RadiusRule | ForestRule
    alpha: float
    loss: float

    @property
    def size(self) -> float:
        """Number of neighbours, or bandwidth."""
        if isinstance(self.rule, ForestRule):
            return self.rule.max_size
        return self.rule.count if isinstance(self.rule, NearestRule) else self.rule.bandwidth


def draw_rows(n_samples: int, random_state, limit: int = MAX_ROWS) -> np.ndarray:
    """Return the rows on which candidates are compared: all, or ``limit`` drawn ones."""
    if n_samples <= limit:
        return np.arange(n_samples)
    rng = check_random_state(random_state)
    return np.sort(rng.choice(n_samples, limit, replace=False))


def neighbor_ladder(total_weight: float, ladder: Sequence[int] = NEIGHBOR_LADDER) -> list[int]:
    """Cut the ladder so that a row left out still has a neighbour beyond the last."""
    most = int(total_weight) - 2
    return [k for k in ladder if k <= most] or [max(1, most)]


def cross_fit_folds(rows: np.ndarray, n_samples: int, groups, random_state) -> list[np.ndarray]:
    """Split the compared rows into folds; a metric for a fold is learned without its labels."""
    n_folds = min(_N_FOLDS, n_samples)
    if groups is None:
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        splits = KFold(n_folds, shuffle=True, random_state=seed).split(np.arange(n_samples))
    else:
        splits = GroupKFold(min(n_folds, len(np.unique(groups)))).split(groups, groups=groups)
    return [np.intersect1d(test, rows) for _, test in splits]


def leave_one_out_losses(
    data,
    rules: Sequence[NearestRule | RadiusRule],
    rows: np.ndarray,
    n_alphas: int,
    evaluate: Callable[[np.ndarray, Neighborhoods], np.ndarray],
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Return the summed loss of each (rule, alpha), each row left out of its neighbourhood.

    Parameters
    ----------
    data : LocalData
        Training rows.
    rules : sequence of NearestRule or of RadiusRule
        Neighbourhood sizes in ascending order; one search serves a whole ladder of nearest rules.
    rows : ndarray
        Rows to leave out, one at a time.
    n_alphas : int
        Number of penalties that ``evaluate`` answers for.
    evaluate : callable
        (design rows of the queries, neighbourhoods) -> predictions (n_alphas, n_queries, ...).
    loss : callable
        (predictions of one alpha, rows) -> loss of each row, weighted.

    Returns
    -------
    ndarray of shape (n_rules, n_alphas)
    """
    total = np.zeros((len(rules), n_alphas))
    for block, j, predictions in leave_one_out_answers(data, rules, rows, evaluate):
        for c in range(n_alphas):
            total[j, c] += loss(predictions[c], rows[block]).sum()
    return total


def leave_one_out_answers(
    data, rules, rows, evaluate, *, factor=None, prior=None
) -> Iterator[tuple[slice, int, np.ndarray]]:
    """Yield (block of the rows, number of the rule, predictions of each alpha), rows left out.

    ``factor`` multiplies the weights of training rows; ``prior`` answers where nobody is near.
    """
    size = data.localizer(rules[-1]).expected_size()
    for block in row_blocks(len(rows), 8 * 20 * size, max_rows=2048):
        own = rows[block]
        for j, found in enumerate(_ladder(data, rules, own)):
            if factor is not None:
                found = drop_zeros(found._replace(weights=found.weights * factor[found.indices]))
            said = evaluate(data.rows[own], found)
            if prior is not None:
                said[:, found.sizes() == 0] = prior
            yield block, j, said


def _ladder(data, rules, own) -> Iterator[Neighborhoods]:
    """Yield the neighbourhoods of the rows under each rule."""
    places = data.index.X[own]
    if isinstance(rules[0], RadiusRule) or len(rules) == 1:
        for rule in rules:
            yield data.localizer(rule).neighborhoods(places, rows=own, groups=data.groups)
        return
    localizer = data.localizer(rules[-1])
    found = localizer.candidates(places, rules[-1].count, rows=own, groups=data.groups)
    for rule in rules:
        yield localizer.from_candidates(found, rule.count)


def best_candidate(candidates: list[Candidate]) -> Candidate:
    """Return the least loss; ties go to the earlier metric and degree, larger k, larger alpha."""
    least = min(candidate.loss for candidate in candidates)
    tied = [c for c in candidates if c.loss <= least + _TIE * max(1.0, abs(least))]
    first = [c for c in tied if c.metric is tied[0].metric and c.degree == tied[0].degree]
    return max(first, key=lambda c: (c.size, c.alpha))


def selection_table(candidates: list[Candidate]) -> dict[str, np.ndarray]:
    """Return the path of the choice as columns, one entry per candidate."""
    return {
        "metric": np.array([_metric_name(c.metric) for c in candidates], dtype=object),
        "degree": np.array([c.degree for c in candidates]),
        "size": np.array([c.size for c in candidates]),
        "alpha": np.array([c.alpha for c in candidates]),
        "loss": np.array([c.loss for c in candidates]),
    }


def _metric_name(metric) -> str:
    if isinstance(metric, str):
        return metric
    return getattr(metric, "__name__", type(metric).__name__)


def compare(plans: Sequence[tuple], run: Callable, label: str, verbose: int) -> list[Candidate]:
    """Run every (metric, degree) plan and gather its candidates, with progress."""
    candidates: list[Candidate] = []
    with Progress(len(plans), label, verbose=verbose) as progress:
        for plan in plans:
            candidates += run(*plan)
            best = min(candidates, key=lambda c: c.loss)
            progress.advance(note=f"least loss {best.loss:.4g}")
    return candidates
