"""The epochs of embedding nets: side by side as alone, and back to the best state."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from vicinal._kernels.metric._embedding_net import Nets, NetShape, initial_net
from vicinal.metric._training import TrainingPlan, Voters, _Best, _rates, train_nets

SHAPE = NetShape(3, 2, 2, 4, 3)
PLAN = TrainingPlan(
    batch_size=16,
    n_window=32,
    max_iter=3,
    n_iter_no_change=2,
    tol=1e-3,
    n_held_out=12,
    learning_rate=1e-2,
    weight_decay=1e-4,
)


def trained(seeds, notes=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    Y = np.eye(2)[(X[:, 0] > 0).astype(int)]
    note = (lambda text: None) if notes is None else notes.append
    pools = [np.arange(80)] * len(seeds)
    data = Voters(X, Y, np.ones(80))
    return train_nets(data, SHAPE, PLAN, seeds, pools, classes=True, on_epoch=note)


def test_nets_side_by_side_train_as_alone():
    together = trained([5, 6])
    for seed, net in zip([5, 6], together, strict=True):
        (alone,) = trained([seed])
        assert_allclose(net["parameters"], alone["parameters"], rtol=1e-10)
        assert_allclose(net["statistics"], alone["statistics"], rtol=1e-10)
        assert_allclose(net["loss_curve"], alone["loss_curve"], rtol=1e-10)
        assert_allclose(net["validation_loss_curve"], alone["validation_loss_curve"], rtol=1e-10)
    assert not np.allclose(together[0]["parameters"], together[1]["parameters"])


def test_a_net_sees_the_rows_of_its_pool_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    Y = np.eye(2)[(X[:, 0] > 0).astype(int)]
    pools = [np.arange(70), np.arange(9, 80)]
    data = Voters(X, Y, np.ones(80))
    found = train_nets(data, SHAPE, PLAN, [5, 5], pools, classes=True)
    for pool, net in zip(pools, found, strict=True):
        some = Voters(X[pool], Y[pool], np.ones(len(pool)))
        everyone = [np.arange(len(pool))]
        (alone,) = train_nets(some, SHAPE, PLAN, [5], everyone, classes=True)
        assert_allclose(net["loss_curve"], alone["loss_curve"], rtol=1e-10)
        assert_allclose(net["parameters"], alone["parameters"], rtol=1e-10)


def test_epochs_lower_the_loss_and_are_reported():
    notes = []
    (net,) = trained([0], notes)
    assert (
        len(notes) == len(net["loss_curve"]) == len(net["validation_loss_curve"]) == PLAN.max_iter
    )
    assert net["loss_curve"][-1] < net["loss_curve"][0]
    assert notes[-1] == f"held-out loss {min(net['validation_loss_curve']):.4g}"
    assert not net["converged"]


def test_a_net_that_stands_still_goes_back_to_its_best_state_and_stops_at_last():
    rng = np.random.default_rng(0)
    starts = [initial_net(SHAPE, 0.1, rng) for _ in range(2)]
    nets = Nets(SHAPE, *(np.concatenate(part) for part in zip(*starts, strict=True)))
    best = _Best(nets)
    nets.flat[:] = 1.0
    best.look(nets, np.array([0.5, 0.5]), PLAN)
    # The first net gets worse, the second ever better.
    for epoch in range(2):
        nets.flat[:] = 2.0 + epoch
        best.look(nets, np.array([0.9, 0.4 - 0.1 * epoch]), PLAN)
    assert_array_equal(best.n_cuts, [1, 0])
    assert_array_equal(nets.flat[0], 1.0)
    assert_array_equal(nets.flat[1], 3.0)
    for epoch in range(4):
        best.look(nets, np.array([0.9, 0.2 - 0.01 * epoch]), PLAN)
    assert_array_equal(best.stopped, [True, False])
    assert_allclose(best.losses, [0.5, 0.17])
    # A net that has stopped is not looked at again.
    best.look(nets, np.array([0.1, 0.3]), PLAN)
    assert_allclose(best.losses, [0.5, 0.17])


def test_rates_fall_with_cuts_and_correct_the_first_moments():
    rates = _rates(PLAN, np.array([0, 9]), np.array([0, 2]))
    assert rates.shape == (2, 2, 3)
    assert_allclose(rates[:, 0, 0], 1e-2)
    assert_allclose(rates[:, 1, 0], 1e-2 * 0.3**2)
    assert_allclose(rates[0, :, 1:], [[0.1, 0.001]] * 2)
    assert_allclose(rates[1, 0, 1:], [1 - 0.9**10, 1 - 0.999**10])
