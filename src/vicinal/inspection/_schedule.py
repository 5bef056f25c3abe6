"""Which fold of a comparison runs next, and how long it may take. It looks at no clock."""

import math
from collections import Counter
from typing import Any, NamedTuple

_PLANNED_SHARE = 0.5  # of the time, reserved for models that plan theirs
_LEAST_SHARE = 0.1  # of what is left: with less to spare, only models that plan go on
_QUICK_SHARE = 0.1  # of what is left: a model that needs less for all its folds goes first
_BRIEF = 0.5  # a model that plans can do with this share of the time that it took before


class Turn(NamedTuple):
    """A fold, the seconds its model is told to plan with, and those after which it is stopped."""

    task: tuple[str, int]
    told: float
    limit: float


class Schedule:
    """Hand out the folds that are left on a board, cheapest model first.

    The first fold of a model measures its cost. A model that needs next to no time finishes all its
    folds at once; then every other model gets a first fold, which may take an equal share of the
    time; then models are finished in the order of what their other folds cost. Models that plan
    their time (parameter ``max_fit_time``) cost what they are told: half of the time is reserved
    for them in equal turns, and when no more than that is left, only they go on. They are not
    stopped before the end. When all have had their turn, the rest goes to models that were stopped.

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
        self.restart = 0.0  # seconds until there is another process after a fold was stopped
        planned = self._planned()
        share = _PLANNED_SHARE if len(planned) < len(board.todo) else 1.0
        # The folds that were handed out: seconds told, and those that were left then.
        self.handed: dict[tuple[str, int], tuple[float, float]] = {}
        self.turn = min(share * n_workers * seconds / max(1, len(planned)), self._round(seconds))

    def next(self, left: float) -> Turn | None:
        """Take the next fold off the board; ``None`` if the model next in line has no time left."""
        task = self._next_task(left)
        name = task[0]
        known = self.board.seconds(name) * (_BRIEF if name in self.planners else 1.0)
        if known > left:
            self.board.give_up(name, left)
            return None
        turn = Turn(task, *self._times(name, left))
        self.handed[task] = turn.told, left
        self.board.todo.remove(task)
        return turn

    def use_what_is_left(self, left: float) -> None:
        """Put back the folds of the stopped model that most likely finishes one."""
        self.board.take_up(left)

    def _next_task(self, left: float) -> tuple[str, int]:
        board, waiting = self.board, Counter(name for name, _ in self.board.todo)

        def key(task: tuple[str, int]) -> tuple[int, float, int]:
            name, fold = task
            needed = waiting[name] * board.seconds(name)  # until the model is finished
            if board.results[name]:
                is_quick = needed < _QUICK_SHARE * left * self.n_workers
                return 0 if is_quick and name not in self.planners else 2, needed, fold
            is_running = waiting[name] < board.n_folds
            return 3 if is_running else 1, 0.0, fold

        first = min(board.todo, key=key)
        planned = self._planned()
        if first[0] in self.planners or not planned or key(first)[0] == 0:
            return first
        seconds = board.seconds(first[0]) / self.n_workers
        is_enough = self._spare(left) > max(_LEAST_SHARE * left, seconds)
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
        limit = spare * min(1.0, self.n_workers / (1 + len(others)))
        limit = min(spare, max(limit, self.restart))  # to stop it earlier would cost more
        if self.board.results[name]:  # what is stopped was computed in vain
            limit = min(left, max(limit, 0.5 * spare, 2.0 * self.board.seconds(name)))
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
        results = self.board.results[name]
        told = {fold: told for (other, fold), (told, _) in self.handed.items() if other == name}
        return max([1.0, *(results[fold].seconds / told[fold] for fold in told if fold in results)])

    def _spare(self, left: float) -> float:
        """Return what is left besides the time reserved for unfinished folds of models that plan.

        Nothing is reserved for one that could not finish all its folds.
        """
        if math.isinf(left):
            return left
        reserved = 0.0
        for name, n_folds in Counter(name for name, _ in self._planned()).items():
            rounds = math.ceil(n_folds / self.n_workers)
            if rounds * _BRIEF * self.board.seconds(name) <= left:
                reserved += n_folds * min(self.turn, self.board.seconds(name) or self.turn)
        for (name, fold), (told, before) in self.handed.items():
            if name in self.planners and fold not in self.board.results[name]:  # it is running
                reserved += max(0.0, told - (before - left))
        return left - reserved / self.n_workers
