"""Training of embedding nets whose rows vote for one another.

Rows of an epoch come in a drawn order; a step takes a window of it, whose first rows are the batch
and all of whose rows vote. The order is drawn on the host, so that every array library sees the
same numbers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from vicinal._base import namespace, take_rows
from vicinal._kernels.metric._distance_vote import (
    distances,
    loss_of_votes,
    shares,
    vote_gradient,
)
from vicinal._kernels.metric._embedding_net import (
    NetShape,
    adamw_step,
    backward,
    forward,
    views,
)


@dataclass
class Nets:
    """Parameters and statistics of several nets of one shape, a row each."""

    shape: NetShape
    flat: Any  # (n_nets, n_parameters)
    statistics: Any  # (n_nets, n_statistics)

    def __post_init__(self) -> None:
        self.P = views(self.flat, self.shape.parameters())
        self.S = views(self.statistics, self.shape.statistics())

    def embed(self, X: Any) -> Any:
        """Map rows X (n, d) by every net: (n_nets, n, n_components)."""
        xp = namespace(X)
        rows = xp.broadcast_to(X[None], (self.flat.shape[0], *X.shape))
        return forward(self.P, self.S, rows, training=False)[0]


@dataclass
class AdamMoments:
    """Gradient and both moments of AdamW, of the shape of the parameters."""

    gradient: Any
    first: Any
    second: Any


def zero_moments(nets: Nets) -> AdamMoments:
    """Return moments of zero beside the parameters."""
    xp = namespace(nets.flat)
    return AdamMoments(*(xp.zeros_like(nets.flat) for _ in range(3)))


def training_step(
    nets: Nets,
    moments: AdamMoments,
    X: Any,
    Y: Any,
    weights: Any,
    window: Any,
    rates: Any,
    *,
    batch_size: int,
    classes: bool,
    decay: float,
) -> Any:
    """Take one step of all nets and return the loss of each before it.

    X (n, d), Y (n, c) and weights (n,) are shared; each net has its own window of rows
    (n_nets, n_window), the first ``batch_size`` of which are answered.
    """
    xp = namespace(X)
    rows, values, w = take_rows(X, window), take_rows(Y, window), take_rows(weights, window)
    phi, cache = forward(nets.P, nets.S, rows, training=True)
    Q, targets = phi[:, :batch_size], values[:, :batch_size]
    D = distances(Q, phi)
    S = shares(D, xp.log(w), skip_own=True)
    p = xp.matmul(S, values)
    loss, d_p = loss_of_votes(p, targets, w[:, :batch_size], classes=classes)
    d_q, d_phi = vote_gradient(Q, phi, values, S, D, p, d_p)
    d_phi[:, :batch_size] += d_q
    G = views(moments.gradient, nets.shape.parameters())
    backward(nets.P, cache, d_phi, G, training=True)
    adamw_step(nets.flat, moments.gradient, moments.first, moments.second, rates, decay=decay)
    return loss


def held_out_loss(
    nets: Nets, X: Any, Y: Any, weights: Any, queries: Any, voters: Any, *, classes: bool
) -> Any:
    """Return the loss of each net at its held-out rows, by its voters: both (n_nets, some)."""
    xp = namespace(X)
    both = xp.concat([queries, voters], axis=1)
    phi, _ = forward(nets.P, nets.S, take_rows(X, both), training=False)
    k = queries.shape[1]
    D = distances(phi[:, :k], phi[:, k:])
    answers = xp.matmul(shares(D, xp.log(take_rows(weights, voters))), take_rows(Y, voters))
    targets, w = take_rows(Y, queries), take_rows(weights, queries)
    return loss_of_votes(answers, targets, w, classes=classes)[0]


def epoch_windows(
    rng: np.random.Generator, rows: np.ndarray, batch_size: int, n_window: int, n_steps: int
) -> np.ndarray:
    """Return rows of (n_steps, n_window): stretches of one random order, closed to a ring."""
    order = rng.permutation(rows)
    starts = batch_size * np.arange(n_steps)
    return order[(starts[:, None] + np.arange(n_window)) % len(order)]
