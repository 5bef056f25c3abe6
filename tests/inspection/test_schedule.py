"""The order of folds and their limits, on a simulated clock: nothing here depends on the load."""

import math
from itertools import combinations

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from tests.inspection.simulation import Planner, SimulatedWorkers

from vicinal.inspection import compare

N_FOLDS = 5
Y = np.arange(20) % 2
FOLDS = [
    (np.flatnonzero(np.arange(20) % N_FOLDS != k), np.arange(k, 20, N_FOLDS))
    for k in range(N_FOLDS)
]


class Simulation:
    """A comparison of models with the costs ``costs``; a function makes a model that plans."""

    def __init__(self, monkeypatch, costs, budget, n_workers=2, cache=None, **seconds):
        models = {
            name: Planner() if callable(cost) else DummyClassifier(random_state=k)
            for k, (name, cost) in enumerate(costs.items())
        }
        with monkeypatch.context() as patch:
            workers = SimulatedWorkers(patch, costs, **seconds)
            self.board = compare(
                models, Y[:, None], Y, cv=FOLDS, time_budget=budget, n_jobs=n_workers, cache=cache
            )
        self.turns, self.ended = workers.turns, workers.clock.seconds
        self.order = [task for _, task, _, _ in self.turns]
        self.entries = {entry.name: entry for entry in self.board.entries}
        assert not any(entry.error for entry in self.board.entries)
        assert self.ended <= (budget or math.inf)
        assert self.entries.keys() == costs.keys()

    def n_folds(self, name):
        return len(self.entries[name].scores)

    def planned(self, name):
        return [planned for _, task, planned, _ in self.turns if task[0] == name]


@pytest.fixture
def simulate(monkeypatch):
    return lambda *args, **options: Simulation(monkeypatch, *args, **options)


def test_first_folds_measure_and_then_the_cheapest_model_goes_first(simulate):
    found = simulate({"slow": 9.0, "cheap": 6.0}, budget=100, n_workers=1)
    cheap = [("cheap", k) for k in range(1, 5)]
    slow = [("slow", k) for k in range(1, 5)]
    assert found.order == [("slow", 0), ("cheap", 0), *cheap, *slow]
    assert found.board.warning == ""


def test_a_model_that_needs_next_to_no_time_finishes_at_once(simulate):
    found = simulate({"guess": 0.01, "slow": 30.0, "slower": 50.0}, budget=60, n_workers=1)
    assert found.order[:5] == [("guess", k) for k in range(5)]
    assert found.n_folds("guess") == 5


@pytest.mark.parametrize("n_workers", [1, 2, 4])
@pytest.mark.parametrize(
    ("restart", "is_reversed"), [(0, False), (2, False), (20, False), (0, True)]
)
@pytest.mark.parametrize(
    "auto", [lambda planned: 0.9 * planned, lambda planned: 10 + planned], ids=["obedient", "slow"]
)
def test_cheap_models_have_all_folds_within_a_short_budget(
    simulate, n_workers, restart, auto, is_reversed
):
    """1,000 rows in 30 seconds: whatever the slow ones cost, and in whatever order they come."""
    costs = {"guess": 0.01, "k-NN": 0.02, "line": 0.05, "LightGBM": 0.1, "tree": 0.25}
    costs |= {"auto": auto, "local": 9.0, "partition": 5.0, "adaptive": 40.0, "svm": 2000.0}
    if is_reversed:
        costs = dict(reversed(costs.items()))
    found = simulate(costs, 30.0, n_workers, start=1.0, restart=restart)
    cheap = ("guess", "k-NN", "line", "LightGBM", "tree")
    assert [found.n_folds(name) for name in cheap] == [5] * 5
    unfinished = {entry.name for entry in found.board.unfinished}
    assert {"adaptive", "svm"} <= unfinished
    assert not unfinished & set(cheap)
    assert found.n_folds("auto") > 0
    assert all(f"{name} (" in found.board.warning for name in unfinished)


@pytest.mark.parametrize("n_workers", [1, 2, 4])
@pytest.mark.parametrize("cost", [0.1, 3.0, 20.0, 200.0])
def test_a_model_that_plans_gets_all_its_turns_whatever_the_others_cost(simulate, n_workers, cost):
    """It is planned its part of half of the time; all its folds end although others are slow."""
    others = {f"other {k}": cost for k in range(12)}
    found = simulate(
        {"guess": 0.01, **others, "flagship": lambda planned: 0.9 * planned}, 45.0, n_workers
    )
    assert found.n_folds("flagship") == 5
    assert found.n_folds("guess") == 5
    planned = found.planned("flagship")
    assert max(planned) >= 0.8 * min(0.5 * 45 * n_workers / 5, 45 / math.ceil(5 / n_workers))
    assert min(planned) > 0.4 * planned[0]


def test_a_model_that_overruns_its_turn_is_not_stopped_before_the_end(simulate):
    """A busy machine: the planned time is exceeded threefold, and the first fold is kept."""
    costs = {"flagship": lambda planned: 3 * planned, **{f"other {k}": 4.0 for k in range(12)}}
    found = simulate(costs, 45.0, 1)
    assert found.n_folds("flagship") >= 1
    limits = [(now, limit) for now, task, _, limit in found.turns if task[0] == "flagship"]
    assert all(now + limit == pytest.approx(45.0) for now, limit in limits)


def test_a_model_that_cannot_finish_its_folds_does_not_keep_the_others_waiting(simulate):
    """And what it takes more than it was planned is taken off what it is planned next."""
    costs = {"flagship": lambda planned: 12 + planned, **{f"other {k}": 1.0 for k in range(4)}}
    found = simulate(costs, 30.0, 1)
    assert found.n_folds("flagship") <= 1
    assert sum(found.n_folds(f"other {k}") for k in range(4)) >= 14
    costs = {"flagship": lambda planned: 1.5 * planned, **{f"other {k}": 4.0 for k in range(4)}}
    shorter = simulate(costs, 60.0, 1)
    planned = shorter.planned("flagship")
    assert planned[1] <= planned[0] / 1.5
    assert shorter.n_folds("flagship") == 5


def test_time_that_others_leave_goes_to_a_model_that_plans(simulate):
    found = simulate({"guess": 0.01, "flagship": lambda planned: planned}, 50.0, 1)
    planned = found.planned("flagship")
    assert planned[-1] > 8.0  # half of the time was kept for the guess, which needs none
    assert found.n_folds("flagship") == 5
    assert 40.0 < found.ended <= 50.0


def test_alone_it_gets_everything(simulate):
    found = simulate({"flagship": lambda planned: 0.99 * planned}, 50.0, 2)
    assert found.n_folds("flagship") == 5
    assert found.planned("flagship")[0] == pytest.approx(50 / 3)


def test_a_model_may_take_all_that_the_others_are_known_not_to_need(simulate):
    found = simulate({**{f"other {k}": 0.5 for k in range(4)}, "patient": 60.0}, 100.0, 1)
    assert found.n_folds("patient") == 1
    assert all(found.n_folds(f"other {k}") == 5 for k in range(4))


def test_time_that_is_left_goes_to_a_model_that_was_stopped(simulate):
    """Time was kept for a model that needed none of it: who was stopped meanwhile begins again."""
    costs = {
        "flagship": lambda planned: 0.5,
        "patient": 35.0,
        "guess": 0.1,
        "mean": 0.1,
        "one": 0.1,
    }
    found = simulate(costs, 100.0, 2)
    first, second = (limit for _, task, _, limit in found.turns if task == ("patient", 0))
    assert first < 35.0 < second
    assert found.n_folds("patient") >= 1
    endless = simulate({**costs, "patient": 10**6}, 100.0, 2)
    assert endless.entries["patient"].note == "unfinished: 0 of 5 folds"
    assert endless.n_folds("guess") == endless.n_folds("flagship") == 5


def test_without_a_budget_nothing_is_limited(simulate):
    found = simulate({"slow": 10.0**6, "flagship": lambda planned: 5.0}, None)
    assert found.n_folds("slow") == found.n_folds("flagship") == 5
    assert all(planned == limit == math.inf for _, _, planned, limit in found.turns)


def test_the_budget_holds_with_starts_of_processes_and_encoding(simulate):
    costs = {"slow": 10.0**6, "bayes": 0.1, "flagship": lambda planned: 2 * planned}
    found = simulate(costs, 15.0, 2, start=3.0, restart=3.0, encoding=1.0)
    assert found.n_folds("bayes") == 5
    assert found.ended <= 15.0
    late = simulate(costs, 15.0, 2, start=20.0)
    assert late.ended == 15.0
    assert {entry.note for entry in late.board.entries} == {"unfinished: 0 of 5 folds"}
    assert "a longer time budget" in str(late.board)


BUDGETS = [1.0, 12.0, 30.0, 45.0, 90.0, 3000.0, None]


@pytest.mark.parametrize(("short", "longer"), combinations(BUDGETS, 2))
@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_comparison_goes_on_from_every_budget_to_every_longer_one(
    simulate, tmp_path, short, longer, n_workers
):
    costs = {"guess": 0.01, "forest": 0.7, "local": 5.0, "slow": 60.0}
    costs |= {"auto": lambda planned: 4.0 + 0.9 * min(planned, 20.0)}
    first = simulate(costs, short, n_workers, cache=tmp_path)
    finished = {(name, fold) for name, entry in first.entries.items() for fold in entry.folds}
    second = simulate(costs, longer, n_workers, cache=tmp_path)
    assert not finished & set(second.order)
    for name, entry in second.entries.items():
        assert set(first.entries[name].folds) <= set(entry.folds)
    if longer in (None, 3000.0):
        assert second.board.warning == ""
        assert {len(entry.scores) for entry in second.board.entries} == {N_FOLDS}
