"""Training of ensembles of embedding networks with early stopping."""

import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device as device_of
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from vicinal import _base
from vicinal._kernels.metric import _embedding_net as kernels

N_FREQUENCIES, N_PER_FEATURE = 8, 12
# Every network has periodic features from this number of rows, every second one below.
_PERIODIC_FROM = 1000
# Tables with fewer rows are not trained on: the network stays at its random start.
_MIN_ROWS = 4
# Largest number of rows and of voters in a held-out loss.
_HELD_OUT_ROWS, _HELD_OUT_VOTERS = 2048, 4096
# Steps that are copied and launched at once.
_STEPS_AT_ONCE = 32
# Least number of steps per epoch: small tables are used several times in an epoch.
_MIN_STEPS = 8
# How often a network without improvement returns to its best state, and the factor on its rate.
_N_CUTS, _CUT = 2, 0.3
# Standard deviation of the frequencies at the start.
_FREQUENCY_SCALE = 0.1


@dataclass(frozen=True)
class TrainingPlan:
    """Settings of the training, resolved for a table."""

    batch_size: int
    n_window: int
    max_iter: int
    n_iter_no_change: int
    tol: float
    n_held_out: int
    learning_rate: float
    weight_decay: float


class Voters(NamedTuple):
    """Normal scores of rows, their targets (n, n_outputs), and weights of mean one."""

    scores: Any
    values: Any
    weights: Any


def net_shape(model: Any, n_features: int, periodic: bool) -> kernels.NetShape:
    """Return the shape of a net with or without periodic features."""
    n_frequencies = N_FREQUENCIES if periodic else 0
    return kernels.NetShape(
        n_features, n_frequencies, N_PER_FEATURE, model.n_hidden, model.n_components
    )


def training_plan(model: Any, n: int) -> TrainingPlan:
    """Return the plan for n rows."""
    rates = {"learning_rate": model.learning_rate, "weight_decay": model.weight_decay}
    if n < _MIN_ROWS:
        return TrainingPlan(1, 1, 0, 1, model.tol, 1, **rates)
    n_held_out = min(max(1, round(model.validation_fraction * n)), n - 3)
    n_train = n - n_held_out
    batch = model.batch_size
    if batch == "auto":
        batch = 256 if n <= 20_000 else 1024
    batch = min(batch, n_train)
    voters = model.n_voters
    if voters == "auto":
        voters = int(np.clip(0.15 * n_train, 1024, 16_384))
    return TrainingPlan(
        batch_size=batch,
        n_window=min(batch + voters, n_train),
        max_iter=model.max_iter,
        n_iter_no_change=model.n_iter_no_change,
        tol=model.tol,
        n_held_out=n_held_out,
        **rates,
    )


class _Interrupted(Exception):
    """Raised in other threads when one of them fails."""


def train_models(
    model: Any, data: Voters, pools: list[np.ndarray], *, classes: bool, on_host: bool
) -> list[list[dict]]:
    """Train the nets of a model for each pool of rows.

    On a device the networks of one shape are trained at once, as memory allows.
    """
    n_nets, n_rows, n_features = model.n_estimators, min(map(len, pools)), data.scores.shape[1]
    plan, seeds = training_plan(model, n_rows), _base.random_seeds(model.random_state, n_nets)
    periodic = [
        n_rows >= _PERIODIC_FROM or e % 2 == 0 if model.periodic == "auto" else model.periodic
        for e in range(n_nets)
    ]
    shapes = [net_shape(model, n_features, own) for own in periodic]
    data = Voters(*(_base.namespace(data.scores).astype(part, data.scores.dtype) for part in data))
    nets = [(m, e) for m in range(len(pools)) for e in range(n_nets)]
    groups = [[net] for net in nets]
    if not on_host:
        groups = []
        for shape in dict.fromkeys(shapes):
            alike = [net for net in nets if shapes[net[1]] == shape]
            memory = _base.free_memory(data.scores)
            blocks = _base.row_blocks(
                len(alike), _bytes_per_net(shape, plan), working_memory=memory
            )
            groups += [alike[block] for block in blocks]
    found: dict[tuple[int, int], dict] = {}
    stop = threading.Event()
    label = type(model).__name__
    with _base.Progress(len(nets) * plan.max_iter, label, verbose=model.verbose) as progress:

        def train(group):
            def on_epoch(note):
                progress.advance(len(group), note)
                if stop.is_set():
                    raise _Interrupted

            own_seeds, own_pools = zip(*((seeds[e], pools[m]) for m, e in group), strict=True)
            shape = shapes[group[0][1]]
            trained = train_nets(
                data, shape, plan, own_seeds, own_pools, classes=classes, on_epoch=on_epoch
            )
            early = sum(plan.max_iter - len(net["loss_curve"]) for net in trained)
            progress.advance(early, "stopped early" if early else "")
            found.update(zip(group, trained, strict=True))

        # One BLAS thread each: results then do not depend on the number of threads.
        with threadpool_limits(1, user_api="blas"):
            _base.thread_map(train, groups, model.n_jobs if on_host else 1, stop=stop)
    for net in found.values():
        if not net.pop("converged") and plan.max_iter:
            warnings.warn(
                f"A network still improved after max_iter={plan.max_iter} epochs; raise max_iter "
                "or lower n_iter_no_change.",
                ConvergenceWarning,
                stacklevel=5,
            )
    return [[found[m, e] for e in range(n_nets)] for m in range(len(pools))]


def _bytes_per_net(shape: kernels.NetShape, plan: TrainingPlan) -> int:
    """Return the memory of the arrays of one step of a net."""
    width = shape.n_features * (2 * N_FREQUENCIES + 1 + 2 * N_PER_FEATURE)
    width += 4 * (shape.n_hidden + shape.n_components)
    return 4 * plan.n_window * (2 * width + 6 * plan.batch_size)


def train_nets(
    data: Voters,
    shape: kernels.NetShape,
    plan: TrainingPlan,
    seeds: Sequence[int],
    pools: Sequence[np.ndarray],
    *,
    classes: bool,
    on_epoch: Callable[[str], None] = lambda note: None,
) -> list[dict]:
    """Train nets of one shape side by side, each stopped at its own best epoch.

    The arrays of ``data`` have one floating type, in any array library. ``pools`` are the rows that
    each net learns from and is stopped by. The nets are returned as in ``nets_``, with
    ``converged``.
    """
    training = _Training(data, shape, plan, seeds, pools, classes=classes)
    best = _Best(training.nets)
    losses, held_losses = [], []
    for epoch in range(plan.max_iter):
        losses.append(training.epoch(epoch, best.n_cuts))
        held_losses.append(np.array(_base.as_numpy(training.held_out_loss())))
        best.look(training.nets, held_losses[-1], plan)
        on_epoch(f"held-out loss {best.losses.mean():.4g}")
        if best.stopped.all():
            break
    parameters, statistics = _base.as_numpy(best.parameters), _base.as_numpy(best.statistics)
    return [
        {
            "periodic": shape.n_frequencies > 0,
            "parameters": parameters[e].copy(),
            "statistics": statistics[e].copy(),
            "loss_curve": np.array([float(row[e]) for row in losses]),
            "validation_loss_curve": np.array([float(row[e]) for row in held_losses]),
            "converged": bool(best.stopped[e]),
        }
        for e in range(len(seeds))
    ]


class _Training:
    """Nets side by side, with the arrays that their steps read and write.

    Steps and held-out loss are recorded once and replayed: an epoch writes windows, rates and loss
    into the same arrays.
    """

    def __init__(
        self, data: Voters, shape: kernels.NetShape, plan: TrainingPlan, seeds, pools, *, classes
    ):
        self._X, self._plan = data.scores, plan
        dtype = data.scores.dtype
        self._rngs = [np.random.default_rng(seed) for seed in seeds]
        orders = [rng.permutation(pool) for rng, pool in zip(self._rngs, pools, strict=True)]
        starts = [kernels.initial_net(shape, _FREQUENCY_SCALE, rng) for rng in self._rngs]
        self._rows = [order[plan.n_held_out :] for order in orders]
        n_rows = min(map(len, self._rows))
        n_steps = max(_MIN_STEPS, round(n_rows / plan.batch_size))
        self._at_once = at_once = min(n_steps, _STEPS_AT_ONCE)
        self._n_parts = -(-n_steps // at_once)
        parts = (self._put(np.concatenate(part), dtype) for part in zip(*starts, strict=True))
        self.nets = nets = kernels.Nets(shape, *parts)
        xp = _base.namespace(nets.flat)
        # Gradient, and both moments of AdamW.
        moments = xp.zeros_like(nets.flat), xp.zeros_like(nets.flat), xp.zeros_like(nets.flat)
        queries = self._put(np.stack([o[: plan.n_held_out][:_HELD_OUT_ROWS] for o in orders]))
        n_voters = min(n_rows, _HELD_OUT_VOTERS)
        voters = self._put(np.stack([rows[:n_voters] for rows in self._rows]))
        self._windows = windows = self._put(self._next_windows(at_once))
        start = _rates(plan, np.arange(at_once), np.zeros(len(seeds)))
        self._rates = rates = self._put(start, dtype)
        self._loss = loss = self._put(np.zeros(len(seeds)), dtype)
        sizes = {"batch_size": plan.batch_size, "decay": plan.weight_decay}

        # These functions do not reference self: a reference cycle would leave recordings to the
        # garbage collector, which must not free them while another one is recorded.
        def steps():
            for t in range(at_once):
                loss[...] += kernels.training_step(
                    nets, moments, data, windows[t, ...], rates[t, ...], classes=classes, **sizes
                )

        def check():
            return kernels.held_out_loss(nets, data, queries, voters, classes=classes)

        state = [nets.flat, nets.statistics, *moments, loss]
        self._steps, self.held_out_loss = _base.captured(steps, state), _base.captured(check, state)

    def _put(self, array: np.ndarray, dtype: Any = None) -> Any:
        xp, device = _base.namespace(self._X), device_of(self._X)
        return xp.asarray(np.ascontiguousarray(array), dtype=dtype, device=device)

    def _next_windows(self, n_steps: int) -> np.ndarray:
        """Windows of the next steps of all nets: (n_steps, n_nets, n_window)."""
        size = self._plan.batch_size, self._plan.n_window, n_steps
        pairs = zip(self._rngs, self._rows, strict=True)
        return np.stack([kernels.epoch_windows(rng, rows, *size) for rng, rows in pairs], axis=1)

    def epoch(self, epoch: int, n_cuts: np.ndarray) -> np.ndarray:
        """Run one epoch; return the mean loss of every network."""
        n_steps = self._n_parts * self._at_once
        order = self._next_windows(n_steps)
        self._loss[...] = 0.0
        for start in range(0, n_steps, self._at_once):
            steps = np.arange(start, start + self._at_once)
            self._windows[...] = self._put(order[steps])
            rates = _rates(self._plan, epoch * n_steps + steps, n_cuts)
            self._rates[...] = self._put(rates, self._X.dtype)
            self._steps()
        return _base.as_numpy(self._loss) / n_steps


class _Best:
    """Best state of every network, and early stopping with restarts at a lower rate."""

    def __init__(self, nets: kernels.Nets) -> None:
        xp, n_nets = _base.namespace(nets.flat), nets.flat.shape[0]
        self.parameters = xp.asarray(nets.flat, copy=True)
        self.statistics = xp.asarray(nets.statistics, copy=True)
        self.losses = np.full(n_nets, np.inf)
        self.marks = np.full(n_nets, np.inf)
        self.since = np.zeros(n_nets, dtype=int)
        self.n_cuts = np.zeros(n_nets, dtype=int)
        self.stopped = np.zeros(n_nets, dtype=bool)

    def look(self, nets: kernels.Nets, losses: np.ndarray, plan: TrainingPlan) -> None:
        """Compare the state after an epoch with the best one."""
        better = ~self.stopped & (losses < self.losses)
        self.losses[better] = losses[better]
        moved = self.losses < self.marks - plan.tol
        self.marks[moved] = self.losses[moved]
        self.since = np.where(moved, 0, self.since + 1)
        still = ~self.stopped & (self.since >= plan.n_iter_no_change)
        self.n_cuts[still] += 1
        self.since[still] = 0
        self.stopped |= self.n_cuts > _N_CUTS
        for e in map(int, np.flatnonzero(better)):
            self.parameters[e, ...] = nets.flat[e, ...]
            self.statistics[e, ...] = nets.statistics[e, ...]
        for e in map(int, np.flatnonzero(still & ~self.stopped)):
            nets.flat[e, ...] = self.parameters[e, ...]
            nets.statistics[e, ...] = self.statistics[e, ...]


def _rates(plan: TrainingPlan, steps: np.ndarray, n_cuts: np.ndarray) -> np.ndarray:
    """Return rate and bias corrections of AdamW: (n_steps, n_nets, 3), steps counted from zero."""
    t = (steps + 1.0)[:, None, None]
    rate = plan.learning_rate * _CUT ** n_cuts[None, :, None] + 0.0 * t
    ones = np.ones_like(rate)
    return np.concatenate([rate, (1.0 - 0.9**t) * ones, (1.0 - 0.999**t) * ones], axis=2)
