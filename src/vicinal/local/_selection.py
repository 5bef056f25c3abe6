"""Choice of size, penalty and degree by leaving rows out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state

from vicinal._base import as_numpy, group_folds
from vicinal.local._forest import ForestRule
from vicinal.local._neighborhoods import NearestRule, RadiusRule

NEIGHBORS = (10, 20, 40, 80, 160, 320, 640)
ALPHAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# 700 rows were far too few to choose by: letter 1.4 % estimated, 3.5 % true.
MAX_ROWS = 3000
# Bandwidths tried, as multiples of the median distance to the 40th neighbour.
BANDWIDTHS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
# Rounds of the gradient metric: most of them, half on small tables, and how many without gain end
# the search.
MAX_ROUNDS, SMALL, _PATIENCE = 6, 300, 2
_N_FOLDS = 5
# Settings whose losses differ by less than this many standard errors are as good as one another.
_STANDARD_ERRORS = 0.5


class Patience:
    """End a search once so many attempts in a row have gained nothing."""

    def __init__(self):
        self._least, self._waited = np.inf, 0

    def ends_with(self, loss: float) -> bool:
        """Take in the loss of one more attempt; tell whether it was the last."""
        self._waited = 0 if loss < self._least else self._waited + 1
        self._least = min(loss, self._least)
        return self._waited >= _PATIENCE


@dataclass(frozen=True)
class Candidate:
    """One setting, with the loss of every row that was left out."""

    metric: Any
    degree: int
    rule: NearestRule | RadiusRule | ForestRule
    alpha: float
    losses: np.ndarray
    weights: np.ndarray  # how often each row counts

    @property
    def loss(self) -> float:
        """Mean loss."""
        return float(np.average(self.losses, weights=self.weights))

    def is_close_to(self, best: "Candidate") -> bool:
        """Tell whether the excess over the best is within half its standard error.

        Excesses are those of the same rows. Where two rows carry a difference, its standard error
        is about as large as the difference itself.
        """
        excess = self.losses - best.losses
        mean = np.average(excess, weights=self.weights)
        variance = np.average((excess - mean) ** 2, weights=self.weights)
        return bool(mean <= _STANDARD_ERRORS * np.sqrt(variance / self.weights.sum()))

    def is_smoother_than(self, other: "Candidate") -> bool:
        """Tell whether penalty and size are at least those of another setting of its kind."""
        same = self.metric is other.metric and self.degree == other.degree
        return same and self.alpha >= other.alpha and self.rule.size >= other.rule.size


def best_candidate(candidates: list[Candidate]) -> Candidate:
    """Return the smoothest setting that the rows can hardly tell from the one of least loss.

    Leave-one-out flatters fits that follow the rows closely, and a few rows can carry a difference.
    Of the settings at least as smooth as the best and close to it, the one of largest penalty, then
    of largest size, is taken.
    """
    best = min(candidates, key=lambda c: c.loss)
    close = [c for c in candidates if c.is_smoother_than(best) and c.is_close_to(best)]
    return max(close, key=lambda c: (c.alpha, c.rule.size))


def selection_table(candidates: list[Candidate]) -> dict[str, np.ndarray]:
    """Return the path of the choice as columns, one entry per candidate."""
    return {
        "metric": np.array([metric_name(c.metric) for c in candidates], dtype=object),
        "degree": np.array([c.degree for c in candidates]),
        "size": np.array([c.rule.size for c in candidates]),
        "alpha": np.array([c.alpha for c in candidates]),
        "loss": np.array([c.loss for c in candidates]),
    }


def metric_name(metric) -> str:
    """Return how a metric is called in a table."""
    if isinstance(metric, str):
        return metric
    name = getattr(metric, "__name__", type(metric).__name__)
    rounds = getattr(metric, "n_rounds", None)
    return name if rounds is None else f"gradient {rounds}"


def draw_rows(n_samples: int, random_state, limit: int = MAX_ROWS) -> np.ndarray:
    """Return the rows on which candidates are compared: all, or ``limit`` drawn ones."""
    if n_samples <= limit:
        return np.arange(n_samples)
    rng = check_random_state(random_state)
    return np.sort(rng.choice(n_samples, limit, replace=False))


def affordable_sizes(sizes: Sequence[int], total_weight: float, n_columns: int) -> list[int]:
    """Cut the sizes by what the rows allow and by what a prediction may cost.

    A row left out still has a neighbour beyond the last.
    """
    most = int(min(total_weight, 2**31)) - 2
    dear = max(160, int(2e6 / n_columns**2))
    return [k for k in sizes if k <= min(most, dear)] or [max(1, min(most, sizes[0]))]


def label_folds(n_samples: int, groups, random_state) -> list[np.ndarray]:
    """Return folds; a metric for a fold is learned without its labels."""
    n_folds = min(_N_FOLDS, n_samples)
    if groups is None:
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        splits = KFold(n_folds, shuffle=True, random_state=seed).split(np.arange(n_samples))
        return [test for _, test in splits]
    return group_folds(groups, n_folds)


@dataclass(frozen=True)
class View:
    """Training rows under one metric, and those of them that it did not see.

    ``places`` says where the answers to ``rows`` belong among all answers.
    """

    data: Any
    rows: np.ndarray
    places: np.ndarray


def left_out_paths(views, rules, solver, alphas, factor=None) -> Iterator[tuple]:
    """Yield (view, block of its rows, number of the rule, answers for each penalty).

    The one leave-one-out loop: one neighbour search serves all sizes, one factor all penalties
    where the solver can. Rows are left out of their own neighbourhoods, with their groups; where
    nobody is near, the prior answers.
    """
    for view in views:
        data = view.data
        prior = data.targets.prior(data.sample_weight)
        for block, j, design, found in data.left_out(rules, view.rows, factor):
            answers = solver.path(data, design, found, alphas)
            empty = found.nobody()
            if empty.any():
                answers[:, empty] = prior
            yield view, block, j, answers


def compare(metric, views, rules_of, solver, alphas, factor, sample_weight) -> list[Candidate]:
    """Return a candidate for every size and penalty under one metric."""
    views = list(views)
    rules = rules_of(views[0].data)
    n_rows = sum(len(view.rows) for view in views)
    order = np.empty(n_rows, dtype=np.int64)
    for view in views:
        order[view.places] = view.rows
    losses = np.empty((len(rules), len(alphas), n_rows))
    loss_of = {id(v): v.data.targets.losses(v.data.sample_weight) for v in views}
    for view, block, j, answers in left_out_paths(views, rules, solver, alphas, factor):
        own = view.data.numbers(view.rows[block])
        for c in range(len(alphas)):
            losses[j, c, view.places[block]] = as_numpy(loss_of[id(view)](answers[c], own))
    weights = np.ones(n_rows) if sample_weight is None else as_numpy(sample_weight)[order]
    return [
        Candidate(metric, solver.degree, rule, float(alpha), losses[j, c], weights)
        for j, rule in enumerate(rules)
        for c, alpha in enumerate(alphas)
    ]


def candidate_answers(views, rules_of, solver, alphas, factor) -> tuple[list, np.ndarray]:
    """Return (rules, answers of every size and penalty), in the places that the views name."""
    views = list(views)
    rules = rules_of(views[0].data)
    n_answers = sum(len(view.rows) for view in views)
    shape = (len(rules), len(alphas), n_answers, views[0].data.targets.n_outputs)
    out = np.empty(shape, dtype=np.float32)
    for view, block, j, answers in left_out_paths(views, rules, solver, alphas, factor):
        for c in range(len(alphas)):
            out[j, c, view.places[block]] = as_numpy(answers[c])
    return rules, out.reshape(-1, *shape[2:])


def least_loss(answers: np.ndarray, rows: np.ndarray, table) -> float:
    """Return the least mean loss of candidates' answers (n_candidates, n_rows, n_outputs)."""
    if table.targets.are_labels:
        losses = answers.argmax(axis=2) != as_numpy(table.targets.codes)[rows]
    else:
        columns = as_numpy(table.targets.columns)
        scale = columns.std(axis=0)
        losses = (((answers - columns[rows]) / np.where(scale > 0.0, scale, 1.0)) ** 2).mean(axis=2)
    weights = None if table.sample_weight is None else as_numpy(table.sample_weight)[rows]
    return float(np.average(losses, axis=1, weights=weights).min())
