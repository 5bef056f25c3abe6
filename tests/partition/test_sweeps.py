"""The driver of sweeps, with an engine that only records its calls."""

from types import SimpleNamespace

import numpy as np
import pytest

from vicinal.partition._fit import Outcome, Run, run_sweeps
from vicinal.partition.stages import ConstantGate


def region(n_rows, model="model", refuses=False):
    def fit(previous):
        if refuses:
            raise ValueError("too few rows")
        return model

    return SimpleNamespace(n_rows=n_rows, fit=fit, fit_all=lambda: "model of all rows")


def gate(n_rows, n_passed, refuses=False):
    return SimpleNamespace(n_passed=n_passed, **vars(region(n_rows, "gate", refuses)))


class Scripted:
    """Hand out the same problems in every sweep, and errors from a list."""

    n_rows = 10

    def __init__(self, regions, gates, errors, converges_at=99):
        self.regions, self.gates, self.errors = regions, gates, errors
        self.converges_at, self.calls = converges_at, []

    def region_problems(self, runs):
        self.calls.append("regions")
        return [self.regions for _ in runs]

    def set_regions(self, run, models):
        run.models = models

    def gate_problems(self, runs, k):
        self.calls.append(f"gate {k}")
        return [self.gates[k] for _ in runs]

    def set_gate(self, run, k, gate):
        run.gates[k] = gate

    def reroute(self, runs):
        self.calls.append("reroute")
        sweep = runs[0].n_sweeps
        sizes = np.array([problem.n_rows for problem in self.regions])
        has_converged = sweep + 1 == self.converges_at
        return [Outcome(self.errors[sweep], sizes, has_converged, {}) for _ in runs]


def sweep(engine, max_iter=3, keep="best"):
    (cascade,) = run_sweeps(engine, [Run(3, None)], max_iter=max_iter, keep=keep)
    return cascade


REGIONS = [region(4), region(3), region(3)]
GATES = [gate(4, 2), gate(3, 1)]


def test_a_sweep_fits_regions_then_gates_from_the_last_then_routes():
    engine = Scripted(REGIONS, GATES, [0.3])
    cascade = sweep(engine, max_iter=1)
    assert engine.calls == ["regions", "gate 1", "gate 0", "reroute"]
    assert cascade.regions == ["model"] * 3
    assert cascade.gates == ["gate", "gate"]
    assert cascade.history["disagreement"].tolist() == [[0.4, 0.3]]


@pytest.mark.parametrize(("keep", "error"), [("best", 0.1), ("last", 0.2)])
def test_the_best_or_the_last_sweep_is_kept(keep, error):
    cascade = sweep(Scripted(REGIONS, GATES, [0.3, 0.1, 0.2]), keep=keep)
    assert cascade.train_error == error
    assert cascade.history["error"].tolist() == [0.3, 0.1, 0.2]
    assert (cascade.n_iter, cascade.converged) == (3, False)


def test_sweeps_end_when_nothing_moves():
    engine = Scripted(REGIONS, GATES, [0.3, 0.3, 0.3], converges_at=2)
    cascade = sweep(engine)
    assert (cascade.n_iter, cascade.converged) == (2, True)
    assert engine.calls.count("reroute") == 2


def test_an_empty_region_learns_from_all_rows_and_keeps_its_model_later():
    engine = Scripted([region(0), region(5), region(5)], GATES, [0.3, 0.3])
    run = Run(3, None)
    run_sweeps(engine, [run], max_iter=1, keep="last")
    assert run.models == ["model of all rows", "model", "model"]
    run.models[0] = "an earlier model"
    run_sweeps(engine, [run], max_iter=1, keep="last")
    assert run.models[0] == "an earlier model"


def test_a_region_that_its_learner_refuses_keeps_its_model_or_takes_all_rows():
    engine = Scripted([region(1, refuses=True), *REGIONS[1:]], GATES, [0.3])
    assert sweep(engine, max_iter=1).regions[0] == "model of all rows"


def test_gates_without_rows_stay_and_one_sided_gates_are_constant():
    cascade = sweep(Scripted(REGIONS, [gate(0, 0), gate(3, 3)], [0.3]), max_iter=1)
    assert isinstance(cascade.gates[0], ConstantGate)
    assert not cascade.gates[0].passes_on
    assert cascade.gates[1].passes_on


def test_a_learner_that_never_fits_a_gate_is_the_users_error():
    refusing = [gate(4, 2, refuses=True)] * 2
    with pytest.raises(ValueError, match="too few rows"):
        sweep(Scripted(REGIONS, refusing, [0.3]), max_iter=1)
    kept = sweep(Scripted(REGIONS, [GATES[0], refusing[1]], [0.3]), max_iter=1)
    assert kept.gates[0] == "gate"
    assert isinstance(kept.gates[1], ConstantGate)


def test_starts_that_have_converged_are_not_run_again():
    class Uneven(Scripted):
        def reroute(self, runs):
            self.calls.append(len(runs))
            sizes = np.array([4, 3, 3])
            return [Outcome(0.3, sizes, run.state == "quick", {}) for run in runs]

    engine = Uneven(REGIONS, GATES, [])
    runs = [Run(3, "quick"), Run(3, "slow")]
    cascades = run_sweeps(engine, runs, max_iter=3, keep="last")
    assert [cascade.n_iter for cascade in cascades] == [1, 3]
    assert [calls for calls in engine.calls if isinstance(calls, int)] == [2, 1, 1]
