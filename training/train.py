"""Train the network on simulated tables, in pieces that can be resumed.

``python -m training.train --steps 20000 --seconds 570 --out FOLDER [--resume FOLDER]``. The seed
and the number of a step determine its tables, so a resumed run sees the tables that an
uninterrupted one would. FOLDER receives ``weights.npz`` (float16), the state for ``--resume`` and
the curves ``loss.csv`` and ``validation.csv``. On CUDA forward and backward pass of every shape are
recorded once as a CUDA graph, since the host cannot launch their kernels fast enough.
"""

import argparse
import copy
import csv
import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import training.network as network_module
from training.network import (
    COLUMN_SIZE,
    N_LABELS,
    UNIFORM_SHARE,
    Network,
    Size,
    describe_cells,
    describe_target,
    load_weights,
    log_density,
    save_weights,
    standardise_target,
)
from training.prior import MAX_CLASSES, Shape, fixed_shapes, sample_shape, simulate

FIELDS = ("step", "tables", "seconds", "learning_rate", "classification", "regression", "norm")
VALIDATION_FIELDS = ("step", "seconds", "classification", "regression")


# --- one batch ----------------------------------------------------------------------------------


def make_batch(shape: Shape, seed: int, device, dtype):
    """Return the inputs of the network, the targets and the number of classes of tables."""
    with torch.no_grad():
        tables = simulate(shape, seed, device)
        generator = torch.Generator(device).manual_seed(seed + 1)
        n_tables, n_train = shape.n_tables, shape.n_train
        cells = describe_cells(tables.X, tables.is_category, n_train).to(dtype)
        size = (n_tables, shape.n_columns, COLUMN_SIZE)
        columns = torch.randn(size, generator=generator, device=device).to(dtype)
        if shape.is_regression:
            y = standardise_target(tables.y, n_train)
            target = describe_target(y, n_train).to(dtype)
        else:
            y = tables.y
            noise = torch.rand(n_tables, N_LABELS, generator=generator, device=device)
            target = torch.gather(noise.argsort(1), 1, y[:, :n_train])
        n_classes = torch.full((), shape.n_classes, dtype=torch.float32, device=device)
    return cells, columns, target, y, n_classes


def loss_of(network, shape: Shape, batch) -> torch.Tensor:
    """Return the mean negative log likelihood of queries, in units of log K for K classes."""
    cells, columns, target, y, n_classes = batch
    n_train = shape.n_train
    logits, log_bandwidth = network(cells, columns, target, n_train)
    y_train, y_query = y[:, :n_train], y[:, n_train:]
    if shape.is_regression:
        return -log_density(logits, log_bandwidth, y_train, y_query).mean()
    classes = F.one_hot(y_train, MAX_CLASSES).float()
    votes = torch.gather(torch.softmax(logits, dim=-1) @ classes, 2, y_query[..., None])[..., 0]
    log_p = torch.log((1 - UNIFORM_SHARE) * votes + UNIFORM_SHARE / n_classes)
    # A class without training rows cannot be predicted.
    seen = torch.gather(classes.amax(1), 1, y_query)
    return -(log_p * seen).sum() / seen.sum().clamp(min=1) / torch.log(n_classes)


def gradient_of(network, shape: Shape, batch, gradients: list[torch.Tensor]) -> torch.Tensor:
    """Write the gradient of the loss to ``gradients`` and return the loss."""
    loss = loss_of(network, shape, batch)
    scaled = 0.5 * loss if shape.is_regression else loss
    found = torch.autograd.grad(scaled, list(network.parameters()), allow_unused=True)
    for to, gradient in zip(gradients, found, strict=True):
        if gradient is None:
            to.zero_()
    used = [(to, g) for to, g in zip(gradients, found, strict=True) if g is not None]
    torch._foreach_copy_(*map(list, zip(*used, strict=True)))
    return loss.detach()


class RecordedGradient:
    """``gradient_of`` for one shape of tables, recorded as a CUDA graph."""

    def __init__(self, network, shape: Shape, batch, gradients, pool):
        self.inputs = [tensor.clone() for tensor in batch]
        self.loss = torch.zeros((), device=batch[0].device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.loss.copy_(gradient_of(network, shape, self.inputs, gradients))

    def __call__(self, batch) -> torch.Tensor:
        """Return the loss and write the gradient."""
        torch._foreach_copy_(self.inputs, list(batch))
        self.graph.replay()
        return self.loss.clone()


# --- optimisation -------------------------------------------------------------------------------


def orthogonalise(matrices: torch.Tensor) -> torch.Tensor:
    """Return approximately orthogonal matrices with the same singular vectors (Newton-Schulz)."""
    wide = matrices.shape[1] <= matrices.shape[2]
    x = (matrices if wide else matrices.mT).to(torch.bfloat16)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)
        x = torch.baddbmm(x, polynomial, x, beta=3.4445)
    return (x if wide else x.mT).float()


class Muon(torch.optim.Optimizer):
    """Momentum with orthogonalised steps, for matrices; equal sizes are treated together."""

    def __init__(self, params, lr: float, momentum: float = 0.95, weight_decay: float = 0.03):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self._by_size: dict[tuple, list] = {}
        for group in self.param_groups:
            for p in group["params"]:
                self._by_size.setdefault(tuple(p.shape[-2:]), []).append(p)

    @torch.no_grad()
    def step(self):
        """Make one step."""
        group = self.param_groups[0]
        for (rows, columns), params in self._by_size.items():
            buffers = []
            for p in params:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                buffers.append(state["momentum"])
            gradients = [p.grad for p in params]
            torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
            ahead = torch._foreach_lerp(gradients, buffers, group["momentum"])
            stacked = torch.cat([u.reshape(-1, rows, columns) for u in ahead])
            # The step of every element is as large as with Adam.
            scale = -0.2 * math.sqrt(max(rows, columns)) * group["lr"]
            steps = orthogonalise(stacked).mul_(scale)
            pieces = steps.split([p.numel() // (rows * columns) for p in params])
            torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(
                params, [s.view(p.shape) for s, p in zip(pieces, params, strict=True)]
            )


def make_optimisers(network: Network, lr: float) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices of blocks and AdamW for the rest."""
    matrices, others = [], []
    for name, p in network.named_parameters():
        inside = name.startswith(("cells.", "rows.", "query_key", "pool.value", "cell_mix"))
        (matrices if inside and p.ndim > 1 and "summaries" not in name else others).append(p)
    adam = torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.99), weight_decay=0.0, foreach=True)
    return [Muon(matrices, lr=lr), adam]


def learning_rate(step: int, first: int, last: int, peak: float, warm_up: int = 200) -> float:
    """Return a linear rise and a cosine to zero between two steps."""
    rise = min(1.0, (step - first + 1) / warm_up)
    done = min(1.0, (step - first) / max(last - first, 1))
    return peak * rise * 0.5 * (1 + math.cos(math.pi * done))


class Trainer:
    """Weights in float32, a copy in the precision of the device, optimisers and history."""

    def __init__(self, size: Size, device: str, seed: int, lr: float, n_cells: int):
        torch.manual_seed(seed)
        self.device, self.seed, self.lr, self.n_cells = torch.device(device), seed, lr, n_cells
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        self.network = Network(size).to(self.device)
        self.fast = copy.deepcopy(self.network).to(self.dtype)
        self.optimisers = make_optimisers(self.network, lr)
        self.gradients = [torch.zeros_like(p) for p in self.network.parameters()]
        self.shapes = fixed_shapes(n_cells)
        self.recorded: dict[Shape, RecordedGradient] = {}
        self.step, self.tables, self.seconds = 0, 0, 0.0
        self.first = 0  # step at which the schedule of the learning rate starts
        self.history: list[dict] = []
        self.validation: list[dict] = []
        # Simulating the next tables in a second thread hides the time to launch its many kernels.
        self.simulators, self.prepared = ThreadPoolExecutor(1), None
        self.stream = torch.cuda.Stream() if self.device.type == "cuda" else None

    def shape_of(self, step: int) -> Shape:
        """Return the shape of the tables of one step."""
        return sample_shape(np.random.default_rng([self.seed, step]), self.shapes)

    def record(self) -> None:
        """Record the passes of every shape; each shape runs once before that."""
        stream = torch.cuda.Stream()
        batches = {}
        with torch.cuda.stream(stream):
            for shape in self.shapes:
                batches[shape] = make_batch(shape, 1, self.device, self.dtype)
                gradient_of(self.fast, shape, batches[shape], self.gradients)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        pool = torch.cuda.graph_pool_handle()
        for shape, batch in batches.items():
            self.recorded[shape] = RecordedGradient(self.fast, shape, batch, self.gradients, pool)

    def prepare(self, step: int):
        """Simulate the tables of one step on a stream of its own."""
        shape, seed = self.shape_of(step), self.seed * 10**9 + 2 * step
        if self.device.type != "cuda":
            return shape, make_batch(shape, seed, self.device, self.dtype), None
        with torch.cuda.stream(self.stream):
            batch = make_batch(shape, seed, self.device, self.dtype)
            return shape, batch, self.stream.record_event()

    def next_batch(self):
        """Return the tables of this step, and start to simulate those of the next."""
        step, prepared = self.prepared or (None, None)
        shape, batch, ready = prepared.result() if step == self.step else self.prepare(self.step)
        if ready is not None:
            self.prepared = self.step + 1, self.simulators.submit(self.prepare, self.step + 1)
            ready.wait()
            for tensor in batch:
                tensor.record_stream(torch.cuda.current_stream())
        return shape, batch

    def train_step(self, n_steps: int) -> tuple[Shape, torch.Tensor, torch.Tensor]:
        """Make one step and return its shape, its loss and the norm of the gradient."""
        shape, batch = self.next_batch()
        if self.recorded:
            kind = shape if shape.is_regression else replace(shape, n_classes=2)
            loss = self.recorded[kind](batch)
        else:
            loss = gradient_of(self.fast, shape, batch, self.gradients)
        params = list(self.network.parameters())
        for p, gradient in zip(params, self.gradients, strict=True):
            p.grad = gradient
        norm = torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
        for optimiser in self.optimisers:
            rate = learning_rate(self.step, self.first, n_steps, self.lr)
            optimiser.param_groups[0]["lr"] = rate
            optimiser.step()
        self.copy_weights()
        self.step += 1
        self.tables += shape.n_tables
        return shape, loss, norm

    @torch.no_grad()
    def copy_weights(self) -> None:
        """Copy the weights to the network that computes."""
        torch._foreach_copy_(list(self.fast.parameters()), list(self.network.parameters()))

    @torch.no_grad()
    def validate(self, n_batches: int = 32) -> tuple[float, float]:
        """Return the mean losses on tables that no step sees: classification, regression."""
        found: tuple[list, list] = ([], [])
        shapes = fixed_shapes(self.n_cells // 4)
        for k in range(n_batches):
            shape = sample_shape(np.random.default_rng([10**6, k]), shapes)
            batch = make_batch(shape, 10**15 + 2 * k, self.device, self.dtype)
            found[int(shape.is_regression)].append(loss_of(self.fast, shape, batch))
        return tuple(float(torch.stack(losses).mean()) if losses else math.nan for losses in found)

    def run(self, n_steps: int, seconds: float, every: int = 100, validate_every: int = 1000):
        """Train until the step or the time is reached."""
        start, before = time.perf_counter(), self.seconds
        sums = torch.zeros(2, 2, device=self.device)
        norms = torch.zeros((), device=self.device)
        while self.step < n_steps and time.perf_counter() - start < seconds:
            shape, loss, norm = self.train_step(n_steps)
            sums[int(shape.is_regression)] += torch.stack([loss, torch.ones_like(loss)])
            norms += norm
            if self.step % every == 0:
                means = (sums[:, 0] / sums[:, 1]).tolist()
                self.seconds = before + time.perf_counter() - start
                rate = learning_rate(self.step, self.first, n_steps, self.lr)
                values = (self.step, self.tables, self.seconds, rate, *means, float(norms) / every)
                self.history.append(dict(zip(FIELDS, values, strict=True)))
                if self.step % (5 * every) == 0:
                    print(*(f"{v:.5g}" for v in values), flush=True)
                sums.zero_()
                norms.zero_()
            if self.step % validate_every == 0 or self.step == n_steps:
                values = (self.step, round(self.seconds, 1), *self.validate())
                self.validation.append(dict(zip(VALIDATION_FIELDS, values, strict=True)))
                print("validation", *(f"{v:.5g}" for v in values), flush=True)
        self.seconds = before + time.perf_counter() - start

    def save(self, folder: Path) -> None:
        """Write weights, the state of training and the loss curve."""
        folder.mkdir(parents=True, exist_ok=True)
        about = f"seed {self.seed}, {self.step} steps, {self.tables} tables, {self.seconds:.0f} s"
        print(about, "sha256", save_weights(self.network, folder / "weights.npz", about))
        names = ("step", "first", "tables", "seconds", "history", "validation")
        counters = {k: getattr(self, k) for k in names}
        torch.save({"network": self.network.state_dict(), **counters}, folder / "state.pt")
        for k, optimiser in enumerate(self.optimisers):
            torch.save(optimiser.state_dict(), folder / f"optimiser{k}.pt")
        for name, rows in (("loss", self.history), ("validation", self.validation)):
            with (folder / f"{name}.csv").open("w", newline="") as file:
                fields = FIELDS if name == "loss" else VALIDATION_FIELDS
                writer = csv.DictWriter(file, fields)
                writer.writeheader()
                writer.writerows(
                    {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()}
                    for row in rows
                )

    def resume(self, source: Path) -> None:
        """Continue from a folder that ``save`` wrote, or from float16 weights alone."""
        if source.is_file():
            self.network.load_state_dict(load_weights(source).state_dict())
        else:
            state = torch.load(source / "state.pt", map_location=self.device)
            self.network.load_state_dict(state.pop("network"))
            for name, value in state.items():
                setattr(self, name, value)
            for k, optimiser in enumerate(self.optimisers):
                path = source / f"optimiser{k}.pt"
                optimiser.load_state_dict(torch.load(path, map_location=self.device))
        self.copy_weights()


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True, help="of the whole schedule")
    parser.add_argument("--seconds", type=float, default=math.inf, help="of this piece")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--restart", action="store_true", help="the learning rate")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--cells", type=int, default=3_000_000, help="per step")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.enable_cudnn_sdp(False)  # fails in the backward pass of odd shapes
    torch.set_float32_matmul_precision("high")
    sys.setswitchinterval(1e-4)  # the two threads that launch kernels hand over often
    if device == "cuda":
        network_module.layer_norm = torch.compile(network_module.layer_norm, dynamic=True)
    trainer = Trainer(Size(), device, arguments.seed, arguments.lr, arguments.cells)
    if arguments.resume:
        trainer.resume(arguments.resume)
    if arguments.restart:
        trainer.first = trainer.step
    if device == "cuda":
        trainer.record()
    trainer.run(arguments.steps, arguments.seconds)
    trainer.save(arguments.out)


if __name__ == "__main__":
    main()
