"""The order of folds and their limits, on a clock of our own: nothing here depends on the load."""

import heapq
import math

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from vicinal._base import Progress
from vicinal.inspection._compare import _Board
from vicinal.inspection._folds import FoldResult, FoldRunner
from vicinal.inspection._schedule import Schedule

N_FOLDS = 5
Y = np.arange(20) % 2
FOLDS = [(np.arange(20), np.arange(k, 20, N_FOLDS)) for k in range(N_FOLDS)]


class Simulation:
    """Workers and a clock that are numbers.

    ``costs`` has the seconds of one fold by name, or a function from the seconds that the model is
    told to those that it takes, which makes it a model that plans.
    """

    def __init__(self, costs, budget, n_workers=2):
        runner = FoldRunner({name: DummyClassifier() for name in costs}, Y[:, None], Y, FOLDS, None)
        self.costs, self.budget, self.n_workers = costs, budget, n_workers
        self.turns = []
        with Progress(1, "test") as progress:
            self.board = _Board(runner, "accuracy", None, progress, None)
            self._run()
        self.entries = {entry.name: entry for entry in self.board.comparison().entries}
        self.order = [turn.task for _, turn in self.turns]

    def _run(self):
        board, now, running = self.board, 0.0, []
        planners = {name for name, cost in self.costs.items() if callable(cost)}
        schedule = Schedule(board, planners, self.n_workers, self.budget)
        while board.todo or running:
            left = self.budget - now
            assert left >= 0
            if board.todo and len(running) < self.n_workers:
                if turn := schedule.next(left):
                    assert turn.limit <= left
                    self.turns.append((now, turn))
                    cost = self.costs[turn.task[0]]
                    needed = cost(turn.told) if callable(cost) else cost
                    heapq.heappush(running, (now + min(needed, turn.limit), turn, needed))
            else:
                now, turn, needed = heapq.heappop(running)
                if needed > turn.limit:
                    board.give_up(turn.task[0], turn.limit)
                else:
                    answer = Y[FOLDS[turn.task[1]][1]]
                    result = FoldResult(answer, np.array([0, 1]), None, None, needed, 0.0)
                    board.finish(turn.task, result)
            if not board.todo and not running:
                schedule.use_what_is_left(self.budget - now)
        self.ended = now

    def n_folds(self, name):
        return len(self.board.scores[name])


def test_first_folds_come_first_and_then_the_quickest_model():
    found = Simulation({"slow": 9.0, "quick": 1.0}, budget=100, n_workers=1)
    quick = [("quick", k) for k in range(1, 5)]
    slow = [("slow", k) for k in range(1, 5)]
    assert found.order == [("slow", 0), ("quick", 0), *quick, *slow]


def test_folds_that_are_a_trifle_do_not_wait_for_slow_models():
    found = Simulation({"guess": 0.01, "slow": 30.0, "slower": 50.0}, budget=60, n_workers=1)
    assert found.order[:5] == [("guess", k) for k in range(5)]
    assert found.n_folds("guess") == 5


@pytest.mark.parametrize("n_workers", [1, 2, 4])
@pytest.mark.parametrize("cost", [0.1, 3.0, 20.0, 200.0])
def test_a_model_that_plans_gets_all_its_turns_whatever_the_others_cost(n_workers, cost):
    """It is told its part of half of the time; all its folds end although others are slow."""
    others = {f"other {k}": cost for k in range(12)}
    found = Simulation(
        {"guess": 0.01, **others, "flagship": lambda told: 0.9 * told}, 45.0, n_workers
    )
    assert found.n_folds("flagship") == 5
    assert found.n_folds("guess") == 5
    assert found.order[0] == ("flagship", 0)
    told = [turn.told for _, turn in found.turns if turn.task[0] == "flagship"]
    assert told[0] == pytest.approx(min(0.5 * 45 * n_workers / 5, 45 / math.ceil(5 / n_workers)))
    assert min(told) > 0.4 * told[0]
    assert found.ended <= 45


def test_a_model_that_overruns_its_turn_is_not_stopped_before_the_end():
    """A busy machine: what was told is exceeded threefold. The first fold is kept all the same."""
    costs = {"flagship": lambda told: 3 * told, **{f"other {k}": 4.0 for k in range(12)}}
    found = Simulation(costs, 45.0, 1)
    assert found.n_folds("flagship") >= 1
    assert found.board.errors == {}
    limits = [(now, turn.limit) for now, turn in found.turns if turn.task[0] == "flagship"]
    assert all(now + limit == pytest.approx(45.0) for now, limit in limits)


def test_a_model_that_cannot_finish_its_folds_does_not_keep_the_others_waiting():
    """And what it takes more than it was told is taken off what it is told next."""
    costs = {"flagship": lambda told: 12 + told, **{f"other {k}": 1.0 for k in range(4)}}
    found = Simulation(costs, 30.0, 1)
    assert found.n_folds("flagship") == 1
    assert sum(found.n_folds(f"other {k}") for k in range(4)) >= 14
    costs = {"flagship": lambda told: 1.5 * told, **{f"other {k}": 4.0 for k in range(4)}}
    shorter = Simulation(costs, 60.0, 1)
    told = [turn.told for _, turn in shorter.turns if turn.task[0] == "flagship"]
    assert told[1] == pytest.approx(told[0] / 1.5)
    assert shorter.n_folds("flagship") == 5


def test_time_that_others_leave_goes_to_a_model_that_plans():
    found = Simulation({"guess": 0.01, "flagship": lambda told: told}, 50.0, 1)
    told = [turn.told for _, turn in found.turns if turn.task[0] == "flagship"]
    assert told[0] == pytest.approx(5.0)
    assert told[-1] > 8.0  # half of the time was kept for the guess, which needs none
    assert found.n_folds("flagship") == 5
    assert 40.0 < found.ended <= 50.0


def test_alone_it_gets_everything():
    found = Simulation({"flagship": lambda told: 0.99 * told}, 50.0, 2)
    assert found.n_folds("flagship") == 5
    assert found.turns[0][1].told == pytest.approx(50 / 3)


def test_a_model_may_take_all_that_the_others_are_known_not_to_need():
    found = Simulation({**{f"other {k}": 0.5 for k in range(4)}, "patient": 60.0}, 100.0, 1)
    assert found.n_folds("patient") == 1
    assert all(found.n_folds(f"other {k}") == 5 for k in range(4))


def test_time_that_is_left_goes_to_a_model_that_was_stopped():
    """Time was kept for a model that needed none of it: who was stopped meanwhile begins again."""
    costs = {"flagship": lambda told: 0.5, "patient": 35.0, "guess": 0.1, "mean": 0.1, "one": 0.1}
    found = Simulation(costs, 100.0, 2)
    first, second = (turn for _, turn in found.turns if turn.task == ("patient", 0))
    assert first.limit < 35.0 < second.limit
    assert found.n_folds("patient") >= 1
    endless = Simulation({**costs, "patient": 10**6}, 100.0, 2)
    assert endless.entries["patient"].note == "over budget: 0 of 5 folds"
    assert endless.n_folds("guess") == endless.n_folds("flagship") == 5


def test_without_a_budget_nothing_is_limited():
    found = Simulation({"slow": 10.0**6, "flagship": lambda told: 5.0}, math.inf)
    assert found.n_folds("slow") == found.n_folds("flagship") == 5
    assert all(turn.told == turn.limit == math.inf for _, turn in found.turns)
