"""Which fold of a comparison runs next, and how long it may take. It looks at no clock."""

import math
from collections import Counter
from typing import Any, NamedTuple

_PLANNED_SHARE = 0.5  # of the time, kept for models that plan theirs
_LEAST_SHARE = 0.1  # of what is left: with less to spare, only models that plan go on
_QUICK_SHARE = 0.02  # of what is left: a model whose folds take less need not wait for others
_BRIEF = 0.5  # a model that plans can do with this share of the time that it took before


class Turn(NamedTuple):
    """A fold, the seconds its model is told to plan with, and those after which it is stopped."""

    task: tuple[str, int]
    told: float
    limit: float


class Schedule:
    """Hand out the folds that are left on a board.

    Every model gets its first fold before any gets its second, unless all its folds are a trifle;
    then quick models go first. A model that plans its time (parameter ``max_fit_time``) is never
    stopped before the end: half of the time is kept for such models, in equal turns, and each is
    told the length of its turn. They begin, and when no more is left than what is kept for them,
    only they go on. Any other model may take half of what is left besides; when all have had their
    turn, what remains goes to those that got too little.

    Parameters
    ----------
    board : Board
        Folds to do, results, and models that were stopped.
    planners : set of str
        Names of the models that plan their time.
    n_workers : int
        Folds at a time.
    seconds : float
        Time for everything.
    """

    def __init__(self, board: Any, planners: set[str], n_workers: int, seconds: float) -> None:
        self.board, self.planners, self.n_workers = board, planners, n_workers
        planned = self._planned()
        share = _PLANNED_SHARE if len(planned) < len(board.todo) else 1.0
        self.told: dict[str, float] = {}
        self.turn = min(share * n_workers * seconds / max(1, len(planned)), self._round(seconds))

    def next(self, left: float) -> Turn | None:
        """Take the next fold off the board; ``None`` if the model next in line has no time left."""
        task = self._next_task(left)
        name = task[0]
        known = self.board.seconds(name) * (_BRIEF if name in self.planners else 1.0)
        if known > left:
            self.board.give_up(name, left)
            return None
        told, limit = self._times(name, left)
        self.told[name] = max(told, self.told.get(name, 0.0))
        self.board.todo.remove(task)
        return Turn(task, told, limit)

    def use_what_is_left(self, left: float) -> None:
        """Put back the folds of the stopped model that most likely finishes one."""
        self.board.take_up(left)

    def _next_task(self, left: float) -> tuple[str, int]:
        board, waiting = self.board, Counter(name for name, _ in self.board.todo)

        def key(task: tuple[str, int]) -> tuple[int, float, int]:
            name, fold = task
            seconds = board.seconds(name)
            if board.results[name]:
                is_quick = seconds * waiting[name] < _QUICK_SHARE * left
                return 1 if is_quick else 3, seconds, fold
            if waiting[name] < board.n_folds:  # its first fold is running
                return 4, 0.0, fold
            return 0 if name in self.planners else 2, 0.0, fold

        first = min(board.todo, key=key)
        planned = self._planned()
        if first[0] in self.planners or not planned:
            return first
        spare = self._spare(left)
        is_enough = spare > max(_LEAST_SHARE * left, board.seconds(first[0]) / self.n_workers)
        return first if is_enough else min(planned, key=key)

    def _times(self, name: str, left: float) -> tuple[float, float]:
        if math.isinf(left):
            return math.inf, math.inf
        if name in self.planners:
            is_last = len(self._planned()) == len(self.board.todo)
            turn = self._round(left) if is_last else min(self.turn, self._round(left))
            return turn / self._overrun(name), left
        spare = self._spare(left)
        others = {other for other, _ in self.board.todo} - {name} - self.planners
        # Half is generous on purpose: what is stopped was computed in vain.
        limit = spare * max(0.5, min(1.0, self.n_workers / (1 + len(others))))
        if all(map(self.board.seconds, others)):
            known = sum(
                self.board.seconds(other) for other, _ in self.board.todo if other in others
            )
            limit = max(limit, spare - known / self.n_workers)
        return limit, limit

    def _round(self, seconds: float) -> float:
        """Return the length of equal turns of the models that plan, if they alone go on."""
        return seconds / max(1, math.ceil(len(self._planned()) / self.n_workers))

    def _planned(self) -> list[tuple[str, int]]:
        return [task for task in self.board.todo if task[0] in self.planners]

    def _overrun(self, name: str) -> float:
        """Return by what factor a model has exceeded what it was told, at least 1."""
        seconds = self.board.seconds(name)
        return max(1.0, seconds / self.told[name]) if seconds else 1.0

    def _spare(self, left: float) -> float:
        """Return what is left besides the time kept for folds to come of models that plan.

        Nothing is kept for one that could not finish all its folds.
        """
        if math.isinf(left):
            return left
        kept = 0.0
        for name, n_folds in Counter(name for name, _ in self._planned()).items():
            rounds = math.ceil(n_folds / self.n_workers)
            if rounds * _BRIEF * self.board.seconds(name) <= left:
                kept += n_folds * min(self.turn, self.board.seconds(name) or self.turn)
        return left - kept / self.n_workers
