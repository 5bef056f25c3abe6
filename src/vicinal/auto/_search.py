"""Try members one after another on rows they have not seen."""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold

from vicinal._base import (
    HeldOut,
    draw_seeds,
    fold_entries,
    held_out,
    held_out_by_folds,
    is_on_device,
    last_step,
    n_threads,
    seeded_clone,
    takes_weights,
)
from vicinal._kernels.ensemble._weights import few_weights, mean_and_error, nested_answers
from vicinal.auto._default_members import Spec
from vicinal.auto._scorers import Scorer

# Rows that members are tried on: what they choose there, they choose among millions too.
_MAX_TABLE, _LEAST_OF_A_CLASS = 30_000, 10
# Rows on which members are compared, within the memory that their candidates take.
_MAX_ROWS, _MIN_ROWS, _FLOPS = 3000, 1000, 8e9
# On tables below this the folds are drawn twice, because one draw is noise.
_MIDDLE = 1000
# A member below this weight is not worth asking, nor are more members than this.
_LEAST_WEIGHT, _MAX_MEMBERS = 0.02, 6
# Nor one whose loss is far from the least: this factor and this much more.
_BEHIND, _SLACK = 1.5, 0.05
# By so many standard errors the best member must beat the constant answer, or tell classes apart.
_CERTAIN, _TELLING = 2.0, 3.0
# What is left of the time for fitting the chosen members to all rows.
_SEARCH_SHARE = 0.8


def search_deadline(max_fit_time: float | None) -> float:
    """Return when trials must end, by the monotonic clock, in a fit that begins now."""
    return time.monotonic() + (np.inf if max_fit_time is None else _SEARCH_SHARE * max_fit_time)


class Rows(NamedTuple):
    """Training data as members see it.

    Attributes
    ----------
    forms : dict of str to array
        Rows, encoded for each kind of member.
    y : ndarray
        Class codes or targets.
    weight : ndarray or None
        Weights of the rows, class weights included.
    groups : ndarray or None
        Rows that are held out together.
    """

    forms: dict[str, Any]
    y: np.ndarray
    weight: np.ndarray | None
    groups: np.ndarray | None

    @property
    def n_columns(self) -> int:
        """Number of columns of the form for distances."""
        return self.forms["distance"].shape[1]

    def take(self, rows: np.ndarray) -> "Rows":
        """Return some rows, themselves where they are all."""
        if len(rows) == len(self.y):
            return self
        parts = {id(X): X[rows] for X in self.forms.values()}
        return Rows(
            {form: parts[id(X)] for form, X in self.forms.items()},
            self.y[rows],
            None if self.weight is None else self.weight[rows],
            None if self.groups is None else self.groups[rows],
        )


@dataclass(frozen=True)
class Table:
    """Rows that members are tried on.

    Attributes
    ----------
    forms, y, weight, groups
        As in :class:`Rows`.
    folds : list of ndarray
        Rows of each fold, one draw after another.
    n_draws : int
        How often the folds were drawn.
    rows : ndarray of int
        Rows that members answer.
    growth : float
        How many times as many rows the chosen members are fitted to.
    """

    forms: dict[str, Any]
    y: np.ndarray
    weight: np.ndarray | None
    groups: np.ndarray | None
    folds: list[np.ndarray]
    n_draws: int
    rows: np.ndarray
    growth: float = 1.0

    @cached_property
    def entries(self) -> np.ndarray:
        """Row of every answer: the rows drawn, fold after fold."""
        return np.concatenate(fold_entries(self.folds, self.rows))

    @property
    def entry_folds(self) -> np.ndarray:
        """Fold of every answer in the first draw, so that a row is in one fold only."""
        first = self.folds[: len(self.folds) // self.n_draws]
        owner = np.zeros(len(self.y), dtype=np.int64)
        for f, fold in enumerate(first):
            owner[fold] = f
        return owner[self.entries]

    @property
    def units(self) -> np.ndarray:
        """What every row is one of: its group, or itself."""
        return np.arange(len(self.y)) if self.groups is None else self.groups

    @property
    def n_units_learned(self) -> float:
        """Number of units that a model learns from while a fold is held out."""
        n_folds = len(self.folds) // self.n_draws
        n_units = len(self.y) if self.groups is None else len(np.unique(self.groups))
        return n_units * (1.0 - 1.0 / n_folds)


@dataclass
class Trial:
    """A member that was tried, or the reason why it was not.

    Attributes
    ----------
    spec : Spec
        The member.
    candidates : list of dict
        Its settings.
    answers : ndarray of shape (n_candidates, n_entries, n_outputs)
        What each said of every entry.
    losses : ndarray of shape (n_candidates, n_entries)
        Their losses.
    seconds : float
        Time of the trial.
    reason : str
        Why it was left out, empty if it was not.
    fitted : callable or None
        What makes the model of a candidate, where the trial has learned most of it, as in
        :class:`~vicinal._base.HeldOut`.
    """

    spec: Spec
    candidates: list[dict] = field(default_factory=list)
    answers: np.ndarray = field(default_factory=lambda: np.empty(0))
    losses: np.ndarray = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0
    reason: str = ""
    fitted: Callable[..., Any] | None = None

    def mean_losses(self, share: np.ndarray) -> np.ndarray:
        """Return the mean loss of every candidate."""
        return self.losses @ share


class LeftOut(Exception):
    """A member is not worth its time; the message says why."""


class Search:
    """Try members, each within its time, and keep what they said.

    Parameters
    ----------
    table : Table
        Training data.
    scorer : Scorer
        Judge of answers.
    method : {"predict", "predict_proba"}
        What members answer with.
    deadline : float
        When trials must end, of :func:`search_deadline`.
    n_jobs : int or None
        Threads.
    random_state
        Seeds of the members.
    """

    def __init__(self, table: Table, scorer: Scorer, method, deadline, n_jobs, random_state):
        self.table = table
        self.scorer = scorer
        self.method = method
        self.n_jobs = n_jobs
        self.seed = draw_seeds(random_state, 1)[0]
        self.trials: list[Trial] = []
        self.tried: dict[str, float] = {}
        self._deadline = deadline

    def run(self, specs: Iterator[Spec], *, cuts: bool) -> None:
        """Try members in turn; with ``cuts`` those that lose their first fold end there."""
        for spec in specs:
            trial = self._try(spec, cuts)
            self.trials.append(trial)
            if not trial.reason:
                self.tried[spec.name] = float(trial.mean_losses(self.scorer.share).min())

    def leave_out(self, name: str, reason: str) -> None:
        """Remember a member that was not tried."""
        self.trials.append(Trial(Spec(name, None), reason=reason))

    def kept(self) -> list[Trial]:
        """Return the members that have answered."""
        return [trial for trial in self.trials if not trial.reason]

    def _try(self, spec: Spec, cuts: bool) -> Trial:
        spec = replace(spec, estimator=seeded_clone(spec.estimator, self.seed))
        start = time.monotonic()
        if self.kept() and start > self._deadline:
            return Trial(spec, reason="no time was left")
        if self.table.weight is not None and not takes_weights(spec.estimator):
            return Trial(spec, reason=f"{last_step(spec.estimator)!r} takes no sample_weight")
        try:
            found = self._answers(spec, start, cuts)
        except LeftOut as reason:
            return Trial(spec, reason=str(reason))
        except Exception as error:
            return Trial(spec, reason=f"{type(error).__name__}: {error}")
        if not np.isfinite(found.answers).all():
            return Trial(spec, reason="it answered with NaN or infinity")
        losses = self.scorer.losses(found.answers)
        seconds = time.monotonic() - start
        fitted = found.fitted
        return Trial(spec, found.candidates, found.answers, losses, seconds, fitted=fitted)

    def _answers(self, spec: Spec, start: float, cuts: bool) -> HeldOut:
        """Return the answers of every candidate to every entry."""
        table = self.table
        folds = table.folds[: len(table.folds) // table.n_draws] if spec.once else table.folds
        if self._answers_at_once(spec):
            found = self._ask(spec, folds)
        else:
            first = self._ask(spec, folds[:1])
            seconds = (time.monotonic() - start) * (len(folds) + table.growth)
            if self.kept() and start + seconds > self._deadline:
                raise LeftOut(f"about {seconds:.1f} s would not fit the time")
            if cuts:
                self._check_lead(first, spec.lead)
            found = _joined([first, self._ask(spec, folds[1:])])
        # Answers of one draw of the folds stand for the others.
        place = np.zeros(len(table.y), dtype=np.int64)
        place[found.rows] = np.arange(len(found.rows))
        if spec.once:
            answers = found.answers[:, place[table.entries]]
            return HeldOut(found.candidates, table.entries, answers, found.fitted)
        return found

    def _answers_at_once(self, spec: Spec) -> bool:
        """Tell whether to ask for all folds together; else a loser ends with its first one."""
        model = last_step(spec.estimator)
        if spec.by_folds:
            return False
        if getattr(model, "fits_each_fold", False):
            return is_on_device(self.table.forms[spec.form])
        return hasattr(model, "held_out")

    def _ask(self, spec: Spec, folds) -> HeldOut:
        table = self.table
        options: dict[str, Any] = {
            "sample_weight": table.weight,
            "method": self.method,
            "rows": table.rows,
            "n_jobs": n_threads(self.n_jobs),
        }
        answer: Callable[..., HeldOut] = held_out_by_folds
        if not spec.by_folds:
            answer, options["groups"] = held_out, table.groups
        parts = [
            answer(
                clone(spec.estimator).set_params(**setting),
                table.forms[spec.form],
                table.y,
                folds,
                **options,
            )
            for setting in spec.grid
        ]
        if len(parts) == 1 and not spec.grid[0]:
            return parts[0]
        answers = np.concatenate([part.answers for part in parts])
        return HeldOut(list(spec.grid), parts[0].rows, answers)

    def _check_lead(self, first: HeldOut, lead: float) -> None:
        """Leave a member out whose first fold is behind the best so far by more than a factor."""
        if not self.tried or first.answers.shape[1] == 0:
            return
        same = np.arange(len(first.rows))
        scorer = self.scorer.part(same)
        best = min(self.kept(), key=lambda trial: trial.mean_losses(self.scorer.share).min())
        c = best.mean_losses(self.scorer.share).argmin()
        # Both calibrated on these rows: the fewer they are, the more timid the probabilities.
        least = (scorer.losses(best.answers[[c]][:, same]) @ scorer.share).min()
        loss = (scorer.losses(first.answers) @ scorer.share).min()
        if loss > lead * least:
            raise LeftOut(f"its first fold lost ({loss:.3g} against {least:.3g})")


def _joined(parts: list[HeldOut]) -> HeldOut:
    """Put answers of several folds one below another."""
    return HeldOut(
        parts[0].candidates,
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.answers for part in parts], axis=1),
    )


def draw_folds(n_rows: int, codes, groups, cv: int, seed: int) -> tuple[list[np.ndarray], int]:
    """Return folds of all rows, drawn twice on small tables, and the number of draws.

    Folds hold the classes in proportion (``codes``, ``None`` for numbers) and groups whole.
    """
    n_units = n_rows if groups is None else len(np.unique(groups))
    if n_units < 2:
        raise ValueError(
            f"{'n_samples' if groups is None else 'n_groups'}={n_units} cannot be both learned "
            "from and held out; members are judged on rows they have not seen, so 2 are needed."
        )
    n_folds = min(cv, n_units)
    n_draws = 2 if n_rows < _MIDDLE else 1
    folds: list[np.ndarray] = []
    for draw in draw_seeds(seed, n_draws):
        folds += _one_draw(n_rows, codes, groups, n_folds, draw)
    return folds, n_draws


def _one_draw(n_rows, codes, groups, n_folds, seed) -> list[np.ndarray]:
    settings = {"n_splits": n_folds, "shuffle": True, "random_state": seed}
    rows = np.arange(n_rows)
    if codes is None:
        splitter: Any = KFold(**settings) if groups is None else GroupKFold(**settings)
        return [test for _, test in splitter.split(rows, groups=groups)]
    if groups is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a class rarer than the folds
            splitter = StratifiedGroupKFold(**settings)
            return [test for _, test in splitter.split(rows, codes, groups) if len(test)]
    # In proportion to the classes, however rare: shuffled rows, sorted by class, dealt in turn.
    order = np.random.RandomState(seed).permutation(n_rows)
    order = order[np.argsort(codes[order], kind="stable")]
    return [np.sort(order[f::n_folds]) for f in range(n_folds)]


def draw_table(n_rows: int, codes, seed: int) -> np.ndarray:
    """Draw the rows that members are tried on, some of every class; all of them if few."""
    if n_rows <= _MAX_TABLE:
        return np.arange(n_rows)
    order = np.random.RandomState(seed).permutation(n_rows)
    drawn = order[:_MAX_TABLE]
    if codes is None:
        return np.sort(drawn)
    some = [order[codes[order] == code][:_LEAST_OF_A_CLASS] for code in np.unique(codes)]
    return np.unique(np.concatenate([drawn, *some]))


def draw_rows(n_rows: int, n_columns: int, seed: int) -> np.ndarray:
    """Draw the rows that members answer: fewer where local models of many columns are dear."""
    d = min(n_columns, 100)
    limit = min(_MAX_ROWS, max(_MIN_ROWS, int(_FLOPS / (1300.0 * d * min(d, 40)))))
    if n_rows <= limit:
        return np.arange(n_rows)
    return np.sort(np.random.RandomState(seed).choice(n_rows, limit, replace=False))


@dataclass(frozen=True)
class Pool:
    """Members that were chosen.

    Attributes
    ----------
    candidates : list of int
        Setting of every member that was tried.
    slopes : ndarray
        What calibrates it.
    weights : ndarray
        Its weight in the pool; most are zero.
    """

    candidates: list[int]
    slopes: np.ndarray
    weights: np.ndarray

    def mix(self, trials: list[Trial], scorer: Scorer, entries: np.ndarray) -> np.ndarray:
        """Return the pooled answers to some entries."""
        return sum(
            weight * scorer.calibrated(trial.answers[c][entries], slope)
            for trial, c, slope, weight in zip(
                trials, self.candidates, self.slopes, self.weights, strict=True
            )
            if weight > 0.0
        )


def choose_pool(
    trials: list[Trial], scorer: Scorer, entries: np.ndarray, units: np.ndarray
) -> Pool:
    """Choose settings, calibration, members and weights on some entries.

    ``units`` are the rows of all entries. Where no member is better than the constant answer by two
    standard errors, nor tells rows of different classes apart beyond chance, the constant answers:
    what chance prefers among many members is not signal.
    """
    part = scorer.part(entries)
    tables = [trial.losses[:, entries] @ part.share for trial in trials]
    chosen = [int(table.argmin()) for table in tables]
    said = np.stack([trial.answers[c][entries] for trial, c in zip(trials, chosen, strict=True)])
    slopes = part.slopes(said)
    losses = np.array([table.min() for table in tables])
    near = np.flatnonzero(losses <= _BEHIND * losses.min() + _SLACK)
    floor = _constant(trials)
    best = int(losses.argmin())
    if floor is not None and best != floor:
        gain = trials[floor].losses[0] - trials[best].losses[chosen[best]]
        mean, error = mean_and_error(gain[entries], part.share, units[entries])
        found = part.calibrated(said[best], slopes[best])
        if mean <= _CERTAIN * error and part.evidence(found, units[entries]) <= _TELLING:
            near = np.array([floor])
    pools = []
    for sharpness in part.sharpness:
        own = sharpness * slopes
        stack = np.stack([part.calibrated(said[m], own[m]) for m in near])
        found = _few_weights_of(part, stack)
        weights = np.zeros(len(trials))
        weights[near] = found
        pools.append((part.pool_loss(stack, found), Pool(chosen, own, weights)))
    return min(pools, key=lambda pair: pair[0])[1]


def _constant(trials: list[Trial]) -> int | None:
    """Return which trial looked at no column."""
    for m, trial in enumerate(trials):
        if isinstance(trial.spec.estimator, (DummyClassifier, DummyRegressor)):
            return m
    return None


def _few_weights_of(scorer: Scorer, stack: np.ndarray) -> np.ndarray:
    def solve(kept: np.ndarray) -> np.ndarray:
        return scorer.weights(stack[kept])

    return few_weights(solve, len(stack), least=_LEAST_WEIGHT, most=_MAX_MEMBERS)


def nested_pool(trials: list[Trial], scorer: Scorer, table: Table) -> np.ndarray:
    """Return the answers to all entries of pools that did not choose on the rows they answer.

    For each fold, settings, calibration, members and weights are chosen on the answers to the
    other folds.
    """

    def choose(outside):
        pool = choose_pool(trials, scorer, outside, table.entries)
        return lambda inside: pool.mix(trials, scorer, inside)

    return nested_answers(choose, table.entry_folds)
