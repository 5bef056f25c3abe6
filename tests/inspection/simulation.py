"""Comparisons on a simulated clock: folds take the seconds that a test sets, whatever the load."""

import math
from dataclasses import replace
from typing import Any

from sklearn.dummy import DummyClassifier

from vicinal._base import _clock
from vicinal.inspection.compare import _compare


class Planner(DummyClassifier):
    """A model that plans its time."""

    def __init__(self, max_fit_time=None):
        super().__init__()
        self.max_fit_time = max_fit_time


class Clock:
    """Time that passes only when a simulated worker is waited for."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class SimulatedWorkers:
    """Stands in for the worker pool of `compare` and moves the clock.

    ``costs`` has the seconds of one fold by name, or a function from the planned
    seconds to those that it takes. The first processes take ``start`` seconds to start, one after a
    fold was stopped ``restart``, and the rows of a fold take ``encoding`` seconds, which are not
    counted as the model's. ``turns`` collects when each fold was handed out, the fold, the seconds
    planned_seconds and the limit.
    """

    def __init__(
        self, monkeypatch: Any, costs: dict, *, start=0.0, restart=0.0, encoding=0.0
    ) -> None:
        self.costs, self.start, self.encoding = costs, start, encoding
        self.start_seconds = restart
        self.clock = Clock()
        self.turns: list = []
        monkeypatch.setattr(_clock, "now", self.clock)
        monkeypatch.setattr(_compare, "WorkerPool", self._pool)

    def _pool(self, runner, n_workers):
        self.runner = runner
        self.starting = [self.clock.seconds + self.start] * n_workers
        self.running: list = []
        self.n_ready = 0
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    @property
    def tasks(self):
        return [task for _, task, _, _ in self.running]

    def has_idle_worker(self):
        return self.n_ready > 0

    def submit(self, task, planned_seconds, limit):
        self.turns.append((self.clock.seconds, task, planned_seconds, limit))
        self.n_ready -= 1
        cost = self.costs[task[0]]
        needed = cost(planned_seconds) if callable(cost) else cost
        end = self.clock.seconds + self.encoding + min(needed, limit)
        self.running.append((end, task, needed, limit))

    def wait(self, timeout):
        end, task, needed, limit = min(self.running, default=(math.inf, None, None, None))
        first = min([end, *self.starting])
        if first > self.clock.seconds + timeout:
            self.clock.seconds += timeout
            return None
        self.clock.seconds = first
        if first in self.starting:
            self.starting.remove(first)
            self.n_ready += 1
            return None
        self.running.remove((end, task, needed, limit))
        if needed > limit:
            self.starting.append(first + self.start_seconds)
            return task, None, limit
        self.n_ready += 1
        return task, replace(self.runner.run(*task), fit_seconds=needed), limit
