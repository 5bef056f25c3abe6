"""Embedding nets and votes by distance: gradients by differences, one meaning in every library."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.metric._embedding_net import (
    NetShape,
    adamw_step,
    backward,
    distances,
    epoch_windows,
    forward,
    initial_net,
    loss_of_votes,
    shares,
    views,
    vote_gradient,
)

N, BATCH = 20, 8


def problem(n_frequencies, classes, seed=0):
    rng = np.random.default_rng(seed)
    shape = NetShape(4, n_frequencies, 3, 7, 6)
    starts = [initial_net(shape, 0.3, rng) for _ in range(2)]
    flat, statistics = (np.concatenate(part) for part in zip(*starts, strict=True))
    flat += 0.1 * rng.normal(size=flat.shape)
    X = rng.normal(size=(2, N, 4))
    Y = np.eye(3)[rng.integers(0, 3, (2, N))] if classes else rng.normal(size=(2, N, 2))
    return shape, flat, statistics, X, Y, rng.uniform(0.5, 2.0, (2, N))


def loss_and_gradient(shape, flat, statistics, X, Y, weights, classes, xp=np):
    P, S = views(flat, shape.parameters()), views(statistics, shape.statistics())
    phi, cache = forward(P, S, X, training=True)
    Q = phi[:, :BATCH]
    D = distances(Q, phi)
    shared = shares(D, xp.log(weights), skip_own=True)
    p = xp.matmul(shared, Y)
    loss, d_p = loss_of_votes(p, Y[:, :BATCH], weights[:, :BATCH], classes=classes)
    d_q, d_phi = vote_gradient(Q, phi, Y, shared, D, p, d_p)
    d_phi[:, :BATCH] += d_q
    gradient = xp.zeros_like(flat)
    backward(P, cache, d_phi, views(gradient, shape.parameters()), training=True)
    return loss, gradient


@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("n_frequencies", [0, 5])
def test_the_gradient_is_the_difference_of_the_loss(n_frequencies, classes):
    shape, flat, statistics, *data = problem(n_frequencies, classes)

    def loss(at):
        return loss_and_gradient(shape, at, statistics.copy(), *data, classes)

    _, gradient = loss(flat)
    assert np.abs(gradient).max() > 0.1
    for k in range(flat.shape[1]):
        step = np.zeros_like(flat)
        step[:, k] = 1e-6
        change = (loss(flat + step)[0] - loss(flat - step)[0]) / 2e-6
        assert_allclose(gradient[:, k], change, atol=1e-7)


@pytest.mark.parametrize("n_frequencies", [0, 5])
def test_slopes_of_the_coordinates_are_differences(n_frequencies):
    shape, flat, statistics, X, *_ = problem(n_frequencies, True)
    P, S = views(flat, shape.parameters()), views(statistics, shape.statistics())
    direction = np.random.default_rng(1).normal(size=(2, N, 6))
    _, cache = forward(P, S, X, training=False)
    slopes = backward(P, cache, direction, None, training=False)
    for k in range(4):
        step = 1e-6 * np.eye(4)[k]
        up, down = (forward(P, S, X + s, training=False)[0] for s in (step, -step))
        assert_allclose(slopes[..., k], ((up - down) * direction).sum(axis=2) / 2e-6, atol=1e-7)


@pytest.mark.parametrize("n_frequencies", [0, 5])
def test_torch_computes_the_same(n_frequencies):
    torch = pytest.importorskip("torch")
    shape, flat, statistics, *data = problem(n_frequencies, True)
    loss, gradient = loss_and_gradient(shape, flat, statistics.copy(), *data, True)
    tensors = [torch.asarray(part) for part in (flat, statistics, *data)]
    import array_api_compat.torch as xp

    found = loss_and_gradient(shape, *tensors, True, xp=xp)
    assert_allclose(found[0].numpy(), loss, rtol=1e-12)
    assert_allclose(found[1].numpy(), gradient, atol=1e-12)


def test_each_net_of_a_batch_computes_as_if_alone():
    shape, flat, statistics, *data = problem(5, True)
    loss, gradient = loss_and_gradient(shape, flat, statistics.copy(), *data, True)
    for e in range(2):
        alone = [part[e : e + 1] for part in data]
        found = loss_and_gradient(
            shape, flat[e : e + 1], statistics[e : e + 1].copy(), *alone, True
        )
        assert_allclose(found[0], loss[e], rtol=1e-12)
        assert_allclose(found[1][0], gradient[e], atol=1e-14)


def test_rows_at_distance_zero_pull_nowhere():
    Q = np.zeros((1, 1, 3))
    V = np.concatenate([np.zeros((1, 2, 3)), np.ones((1, 1, 3))], axis=1)
    Y = np.array([[[1.0], [1.0], [0.0]]])
    D = distances(Q, V)
    assert_allclose(D[0, 0], [0.0, 0.0, np.sqrt(3)])
    S = shares(D, np.zeros((1, 3)))
    p = S @ Y
    d_q, d_v = vote_gradient(Q, V, Y, S, D, p, np.ones_like(p))
    assert np.isfinite(d_q).all()
    assert_allclose(d_v[0, :2], 0.0)
    # Moving the query away from the far row of value 0 raises the answer.
    assert (d_q < 0).all()


def test_a_voter_of_weight_two_is_the_voter_twice():
    rng = np.random.default_rng(0)
    Q, V, Y = rng.normal(size=(1, 3, 4)), rng.normal(size=(1, 5, 4)), rng.normal(size=(1, 5, 1))
    D = distances(Q, V)
    weighted = shares(D, np.log([[2.0, 1, 1, 1, 1]])) @ Y
    again = [0, 0, 1, 2, 3, 4]
    D = distances(Q, V[:, again])
    assert_allclose(shares(D, np.zeros((1, 6))) @ Y[:, again], weighted)


def test_adamw_is_that_of_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(1, 5))
    parameter = torch.nn.Parameter(torch.tensor(flat))
    optimizer = torch.optim.AdamW([parameter], lr=0.01, weight_decay=0.1)
    first, second = np.zeros_like(flat), np.zeros_like(flat)
    for t in range(1, 6):
        gradient = rng.normal(size=flat.shape)
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
        rates = np.array([[0.01, 1.0 - 0.9**t, 1.0 - 0.999**t]])
        adamw_step(flat, gradient, first, second, rates, decay=0.1)
    assert_allclose(flat, parameter.detach().numpy(), rtol=1e-10)


def test_windows_hold_every_row_once_and_no_row_twice():
    rows = np.arange(100, 160)
    windows = epoch_windows(np.random.default_rng(0), rows, 20, 50, 3)
    assert sorted(windows[:, :20].ravel()) == rows.tolist()
    assert all(len(set(window)) == 50 for window in windows)
