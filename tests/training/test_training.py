"""The training code runs on a CPU: simulated tables, network, steps and checkpoints."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from training.network import (  # noqa: E402
    COLUMN_SIZE,
    Network,
    Size,
    describe_cells,
    load_weights,
    log_density,
    predict,
    save_weights,
    vote,
)
from training.prior import (  # noqa: E402
    MAX_CATEGORIES,
    Random,
    Shape,
    _hide,
    _shares,
    fixed_shapes,
    sample_shape,
    simulate,
)
from training.train import Trainer, learning_rate, loss_of, make_batch  # noqa: E402

ROOT = Path(__file__).parents[2]
SMALL = Size(
    cell_width=16, cell_blocks=1, n_summaries=4, pool_heads=2, row_width=32, row_blocks=1,
    row_heads=2,
)  # fmt: skip


def tables(n_classes, seed=0, n_columns=12):
    return simulate(Shape(48, 96, 64, n_columns, n_classes), seed)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    network = Network(SMALL)
    with torch.no_grad():  # residual branches start at zero
        for p in network.parameters():
            p.add_(0.1 * torch.randn(p.shape))
    return network


@pytest.mark.parametrize("n_classes", [0, 2, 5])
def test_tables_are_finite_and_repeatable(n_classes):
    for seed in range(4):
        batch = tables(n_classes, seed)
        assert not torch.isinf(batch.X).any()
        assert torch.isfinite(batch.y).all()
        again = tables(n_classes, seed)
        torch.testing.assert_close(batch.X, again.X, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(batch.y, again.y)
    if n_classes:
        assert set(batch.y.unique().tolist()) == set(range(n_classes))


def test_tables_have_the_promised_properties():
    batches = [tables(4, seed) for seed in range(6)]
    missing = torch.cat([b.X.isnan().any(2).any(1) for b in batches]).float().mean()
    assert 0.05 < missing < 0.4
    for b in batches:  # categorical columns hold codes
        codes = b.X.transpose(1, 2)[b.is_category].nan_to_num()
        assert torch.equal(codes, codes.round())
        assert 0 <= codes.min()
        assert codes.max() < MAX_CATEGORIES
    assert 0.02 < torch.cat([b.is_category.flatten() for b in batches]).float().mean() < 0.5
    shares = torch.cat([torch.stack([(b.y == k).float().mean(1) for k in range(4)], 1)
                        for b in batches])  # fmt: skip
    assert (shares.amin(1) < 0.05).any()  # imbalance
    assert (shares.amin(1) > 0.15).any()  # balance
    repeated = [len(torch.unique(x, dim=0)) < 0.9 * len(x) for b in batches for x in
                b.X.nan_to_num()]  # fmt: skip
    assert 0 < np.mean(repeated) < 0.5
    collinear = 0
    for b in batches:
        correlation = torch.stack([torch.corrcoef(x.T) for x in b.X.nan_to_num()]).nan_to_num()
        collinear += (correlation.triu(1).abs() > 0.98).any(2).any(1).float().mean()
    assert 0.05 < collinear / len(batches) < 0.9


def test_missing_values_may_depend_on_the_value():
    r = Random(0, torch.device("cpu"))
    X = r.normal(400, 200, 10)
    hidden = _hide(r, X).isnan()
    assert 0.15 < hidden.any(2).any(1).float().mean() < 0.3
    above = torch.where(hidden, X > 0, torch.nan).nanmean(1)
    assert above[above.isfinite()].std() > 0.1


def test_shares_reach_one_per_cent():
    shares = _shares(Random(0, torch.device("cpu")), 2000, 3)
    torch.testing.assert_close(shares.sum(1), torch.ones(2000))
    assert 0.005 < shares.min() < 0.02


@pytest.mark.parametrize("n_classes", [0, 3])
def test_weights_sum_to_one_and_ignore_the_order_of_training_rows(network, n_classes):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(40, 5)), rng.normal(size=(7, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(n_classes, size=40) if n_classes else rng.normal(size=40)
    is_category = np.zeros(5, dtype=bool)
    found, weights = predict(network, X, y, Q, is_category, n_classes)
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    order = rng.permutation(40)
    again, moved = predict(network, X[order], y[order], Q, is_category, n_classes)
    np.testing.assert_allclose(moved, weights[:, order], atol=1e-5)
    np.testing.assert_allclose(again, found, atol=1e-5)
    alone, _ = predict(network, X, y, Q[2:3], is_category, n_classes)
    np.testing.assert_allclose(alone, found[2:3], atol=1e-5)
    votes = np.stack([weights[:, y == k].sum(1) for k in range(3)], axis=1) if n_classes else None
    expected = weights @ y if votes is None else 0.995 * votes + 0.005 / 3
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert weights.std(axis=1).min() > 0


def test_cells_are_described_by_training_rows_alone():
    X = torch.randn(2, 30, 4)
    is_category = torch.zeros(2, 4, dtype=torch.bool)
    cells = describe_cells(X, is_category, 20)
    X[:, 25:] = 100.0
    torch.testing.assert_close(describe_cells(X, is_category, 20)[:, :25], cells[:, :25])
    # An increasing transform moves the standardised value only.
    moved = describe_cells(torch.exp(X[:, :25]), is_category, 20)
    torch.testing.assert_close(moved[..., 1:], cells[:, :25, :, 1:])
    assert not torch.allclose(moved[..., 0], cells[:, :25, :, 0])


def test_densities_integrate_to_one():
    torch.manual_seed(0)
    grid = torch.linspace(-400, 400, 80_001)[None]
    logits, bandwidth = torch.randn(1, 1, 9), torch.tensor([[-1.0]])
    density = log_density(
        logits.expand(1, grid.shape[1], 9), bandwidth.expand_as(grid), torch.randn(1, 9), grid
    ).exp()
    assert float(density.sum() * 0.01) == pytest.approx(1, abs=1e-3)
    p = vote(logits, torch.arange(9)[None] % 3, 3)
    assert float(p.sum()) == pytest.approx(1)


@pytest.mark.parametrize("n_classes", [0, 3])
def test_loss_falls(n_classes):
    trainer = Trainer(SMALL, "cpu", seed=0, lr=3e-3, n_cells=1)
    shape = Shape(16, 64, 48, 3, n_classes)
    trainer.next_batch = lambda: (shape, make_batch(shape, 3, "cpu", torch.float32))
    trainer.step = 200  # after the warm-up
    found = [float(trainer.train_step(10_000)[1]) for _ in range(25)]
    assert found[-1] < found[0] - 0.1


def test_training_continues_from_a_checkpoint(tmp_path):
    def make():
        return Trainer(SMALL, "cpu", seed=1, lr=1e-3, n_cells=4000)

    first = make()
    first.run(n_steps=4, seconds=np.inf, every=2, validate_every=100)
    first.save(tmp_path)
    second = make()
    second.resume(tmp_path)
    assert (second.step, second.tables, len(second.history)) == (4, first.tables, 2)
    assert len((tmp_path / "loss.csv").read_text().splitlines()) == 3
    for _ in range(2):
        shape, loss, _ = first.train_step(10)
        same_shape, same, _ = second.train_step(10)
        assert shape == same_shape
        torch.testing.assert_close(loss, same)
    third = make()
    third.resume(tmp_path / "weights.npz")
    assert third.step == 0
    before = load_weights(tmp_path / "weights.npz").state_dict()
    torch.testing.assert_close(third.network.state_dict(), before)


def test_weights_survive_a_file(network, tmp_path):
    digest = save_weights(network, tmp_path / "w.npz", "a test")
    assert digest == hashlib.sha256((tmp_path / "w.npz").read_bytes()).hexdigest()
    shape = Shape(4, 40, 30, 3, 2)
    batch = make_batch(shape, 0, "cpu", torch.float32)
    assert batch[1].shape == (4, 3, COLUMN_SIZE)
    with torch.no_grad():
        stored = loss_of(load_weights(tmp_path / "w.npz"), shape, batch)
        torch.testing.assert_close(stored, loss_of(network, shape, batch), atol=5e-3, rtol=0)


def test_stored_weights_predict():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)  # no column alone is informative
    path = ROOT / "src" / "vicinal" / "pretrained" / "weights.npz"
    network, is_category = load_weights(path), np.zeros(4, dtype=bool)
    p, _ = predict(network, X[:150], y[:150], X[150:], is_category, 2, n_passes=2)
    assert (p.argmax(1) == y[150:]).mean() > 0.85
    found, _ = predict(network, X[:150], X[:150, 0], X[150:], is_category, n_passes=2)
    assert np.corrcoef(found, X[150:, 0])[0, 1] > 0.9


def test_shapes_cover_small_and_large_tables():
    shapes = fixed_shapes(3_000_000)
    assert len(set(shapes)) == len(shapes)
    for values in ([s.n_rows for s in shapes], [s.n_columns for s in shapes]):
        assert max(values) > 8 * min(values)
    assert sum(s.is_regression for s in shapes) == len(shapes) // 4
    assert max(s.n_tables * s.n_rows * s.n_columns for s in shapes) < 3_000_000
    sampled = [sample_shape(np.random.default_rng(k), shapes).n_classes for k in range(300)]
    assert {0, 2, 3} < set(sampled)
    assert 11 <= max(sampled) <= 26
    assert 1 not in sampled


def test_the_learning_rate_rises_and_falls_between_two_steps():
    rates = [learning_rate(step, 1000, 3000, 1.0) for step in range(1000, 3001)]
    assert rates[0] == pytest.approx(1 / 200)
    assert max(rates) == pytest.approx(1, abs=0.03)
    assert rates[-1] == pytest.approx(0)
