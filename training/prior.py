"""Simulated tables: batches of small learning problems, made on the device that trains.

All tables of a batch share their shape; everything else differs from table to table. Latent causes
pass through random layers (dense, or sums of oblivious trees); columns are nodes of any layer, the
target is one more layer on top, cut into classes or taken as it is. One table in five has
classes that are clouds, some of them passed through a layer. Columns are then disturbed as those of
real tables are.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch

MAX_CATEGORIES = 50
MAX_CLASSES = 26


@dataclass(frozen=True)
class Shape:
    """What the tables of one batch have in common; no classes stands for regression."""

    n_tables: int
    n_rows: int
    n_train: int
    n_columns: int
    n_classes: int

    @property
    def is_regression(self) -> bool:
        """Whether the target is a number."""
        return self.n_classes == 0


@dataclass(frozen=True)
class Tables:
    """A batch: X (tables, rows, columns) with NaN where missing, y (tables, rows), flags."""

    X: torch.Tensor
    y: torch.Tensor
    is_category: torch.Tensor
    shape: Shape


def fixed_shapes(n_cells: int, n_shapes: int = 64, max_rows: int = 2048) -> list[Shape]:
    """Return shapes of batches of about ``n_cells`` cells, spread evenly (a Kronecker sequence).

    One shape in four is for regression; the others stand for two classes. Few shapes are enough
    for training and let it record every shape once as a CUDA graph.
    """

    def log_scale(u: float, low: int, high: int) -> int:
        return round(low * (high / low) ** u)

    shapes = []
    for k in range(n_shapes):
        rows, columns, share = (0.5 + k * np.array([0.8192, 0.6711, 0.5497])) % 1
        n_rows, n_columns = log_scale(rows, 128, max_rows), log_scale(columns, 2, 64)
        n_tables = min(n_cells // (n_rows * (n_columns + 3)), 300_000 // n_rows, 768)
        n_train = int(n_rows * (0.3 + 0.6 * share))
        shapes.append(Shape(max(n_tables, 2), n_rows, n_train, n_columns, 2 * (k % 4 != 3)))
    return shapes


def sample_shape(rng: np.random.Generator, shapes: list[Shape]) -> Shape:
    """Sample one of the shapes and a number of classes."""
    shape = shapes[rng.integers(len(shapes))]
    if shape.is_regression:
        return shape
    ranges = ((2, 2), (3, 3), (4, 10), (11, MAX_CLASSES))
    low, high = ranges[rng.choice(4, p=[0.4, 0.15, 0.36, 0.09])]
    return replace(shape, n_classes=int(rng.integers(low, high + 1)))


class Random:
    """Random tensors of one generator."""

    def __init__(self, seed: int, device: torch.device):
        self.device = device
        self.generator = torch.Generator(device).manual_seed(seed)
        self.host = np.random.default_rng(seed)

    def normal(self, *size: int) -> torch.Tensor:
        """Return standard normal numbers."""
        return torch.randn(size, generator=self.generator, device=self.device)

    def uniform(self, *size: int, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
        """Return uniform numbers."""
        values = torch.rand(size, generator=self.generator, device=self.device)
        return low + (high - low) * values

    def log_uniform(self, low: float, high: float, *size: int) -> torch.Tensor:
        """Return numbers whose logarithm is uniform."""
        return torch.exp(self.uniform(*size, low=math.log(low), high=math.log(high)))

    def integers(self, high: int, *size: int) -> torch.Tensor:
        """Return integers below ``high``."""
        return torch.randint(high, size, generator=self.generator, device=self.device)

    def chance(self, probability, *size: int) -> torch.Tensor:
        """Return True with the given probability."""
        return self.uniform(*size) < probability


def simulate(shape: Shape, seed: int, device: str | torch.device = "cpu") -> Tables:
    """Simulate a batch of tables; the same seed and device give the same batch."""
    r = Random(seed, torch.device(device))
    nodes, observed, is_code, layer = _network_of_nodes(r, shape)
    X, is_category = _observe(r, shape, observed, is_code, layer)
    if shape.is_regression:
        y = _values(r, nodes)
    else:
        y = _classes(r, shape, nodes)
        cloud, labels = _clouds(r, shape)
        chosen = r.chance(0.2, shape.n_tables)
        X = torch.where(chosen[:, None, None], cloud, X)
        y = torch.where(chosen[:, None], labels, y)
        is_category &= ~chosen[:, None]
    X, is_category = _disturb_columns(r, X, is_category)
    X, y = _disturb_rows(r, X, y)
    if not shape.is_regression:
        y = _label_noise(r, y)
    return Tables(_hide(r, X), y, is_category, shape)


# --- causes and layers --------------------------------------------------------------------------


def _standardise(x: torch.Tensor) -> torch.Tensor:
    x = torch.nan_to_num(x, posinf=1e4, neginf=-1e4).clamp(-1e4, 1e4)
    deviation, mean = torch.std_mean(x, dim=1, keepdim=True)
    return (x - mean) / (deviation + 1e-4)


def _take(x: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Take columns, (tables, k), of x, (tables, rows, columns)."""
    return torch.gather(x, 2, columns[:, None].expand(-1, x.shape[1], -1))


def _take_rows(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Take rows, (tables, rows), of x, (tables, rows, columns)."""
    return torch.gather(x, 1, rows[:, :, None].expand(-1, -1, x.shape[2]))


def _causes(r: Random, n_tables: int, n_rows: int, n_causes: int):
    """Return effects of the causes, what is seen of them, and which are categories."""
    size = (n_tables, n_rows, n_causes)
    normal = r.normal(*size)
    centres = 2 * r.normal(n_tables, 6, n_causes)
    n_clusters = r.integers(5, n_tables, 1) + 2
    cluster = (r.uniform(n_tables, n_rows) * n_clusters).long()
    clustered = _take_rows(centres, cluster) + r.log_uniform(0.1, 1, n_tables, 1, 1) * normal
    # Half of the tables have causes of one type, the others of all.
    kind = r.integers(5, n_tables, 1, n_causes)
    kind = torch.where(r.chance(0.5, n_tables, 1, 1), kind[:, :, :1], kind)
    effect = torch.where(kind == 1, torch.erf(normal / math.sqrt(2)), normal)
    effect = torch.where(kind == 2, clustered, effect)
    effect = torch.where(kind == 3, torch.sinh(1.3 * normal), effect)
    effect = torch.where(kind == 4, torch.round(normal * r.uniform(n_tables, 1, 1, high=2)), effect)
    # Correlated causes in a third of the tables.
    mixing = r.normal(n_tables, n_causes, n_causes) / math.sqrt(n_causes)
    mixing *= r.chance(0.33, n_tables, 1, 1) * r.uniform(n_tables, 1, 1, high=2)
    effect = _standardise(effect + effect @ mixing)

    share = r.uniform(n_tables, 1, high=1.2) * r.chance(0.4, n_tables, 1)
    is_code = r.chance(share, n_tables, n_causes)
    n_categories = r.log_uniform(2, MAX_CATEGORIES, n_tables, 1, n_causes)
    skew = r.uniform(n_tables, 1, n_causes, low=1, high=3)
    code = (n_categories * r.uniform(*size) ** skew).long().clamp(max=MAX_CATEGORIES - 1)
    # Interactions: the effect of a category depends on that of another cause.
    other = torch.roll(code, 1, dims=2) * r.chance(0.3, n_tables, 1, n_causes)
    effects = r.normal(n_tables, 64, n_causes)
    by_category = torch.gather(effects, 1, (code + 7 * other) % 64)
    effect = torch.where(is_code[:, None], by_category, effect)
    seen = torch.where(is_code[:, None], code.float(), effect)
    return effect, seen, is_code


def _activate(x: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
    functions = (
        torch.tanh, torch.relu, torch.sin, torch.abs, torch.sign,
        lambda v: torch.exp(-v * v), torch.square, lambda v: torch.log(v.abs() + 0.1),
        torch.round, lambda v: v.clamp(0, 1),
    )  # fmt: skip
    out = x
    for k, function in enumerate(functions):
        out = torch.where(kind == k, function(x), out)
    return out


def _dense(r: Random, x: torch.Tensor, width: int) -> torch.Tensor:
    n_tables, n_inputs = x.shape[0], x.shape[2]
    fan_in = r.log_uniform(0.5, 6, n_tables, 1, 1) / n_inputs
    weights = r.normal(n_tables, n_inputs, width)
    kept = r.chance(fan_in, n_tables, n_inputs, width)
    kept.scatter_(1, r.integers(n_inputs, n_tables, 1, width), True)
    x = _standardise(x @ (weights * kept))
    x = x * r.log_uniform(0.3, 2, n_tables, 1, width) + 0.7 * r.normal(n_tables, 1, width)
    # Half of all activations are the identity.
    kind = r.integers(20, n_tables, 1, width)
    return _activate(x, torch.where(r.chance(0.5, n_tables, 1, 1), kind[:, :, :1], kind))


def _trees(r: Random, x: torch.Tensor, width: int, max_depth: int = 5) -> torch.Tensor:
    n_tables, n_rows, n_inputs = x.shape
    n_trees = 1 + int(r.host.integers(3))
    # The trees of a node look at few inputs, so that its sum has structure.
    pool = r.integers(n_inputs, n_tables, width, 3)
    choice = r.integers(3, n_tables, width, n_trees * max_depth)
    inputs = torch.gather(pool, 2, choice).view(n_tables, -1)
    values = _take(x, inputs)
    row = r.integers(n_rows, n_tables, 1, values.shape[2])
    bits = values > torch.gather(values, 1, row)
    bits = bits.view(n_tables, n_rows, width * n_trees, max_depth)
    depth = 1 + max_depth * r.uniform(n_tables, 1, width * n_trees, 1) ** 1.5
    level = torch.arange(max_depth, device=r.device)
    leaf = (bits * (2**level) * (level < depth)).sum(-1)
    leaves = r.normal(n_tables, 2**max_depth, width * n_trees)
    return torch.gather(leaves, 1, leaf).view(n_tables, n_rows, width, n_trees).sum(-1)


def _layer(r: Random, x: torch.Tensor, width: int, tree_share: torch.Tensor) -> torch.Tensor:
    is_tree = r.chance(tree_share, x.shape[0], 1, 1)
    return _standardise(torch.where(is_tree, _trees(r, x, width), _dense(r, x, width)))


def _network_of_nodes(r: Random, shape: Shape):
    """Return the target's nodes, all nodes as seen, which are codes, and the layer of each."""
    n_tables, n_rows, n_columns = shape.n_tables, shape.n_rows, shape.n_columns
    n_layers = int(r.host.choice(5, p=[0.25, 0.3, 0.25, 0.12, 0.08]))
    n_causes = int(r.host.integers(2, 9))
    if n_layers == 0 or r.host.random() < 0.3:
        n_causes = n_columns
    elif r.host.random() < 0.7:  # few hidden causes: columns can explain the target
        n_causes = min(n_causes, n_columns)
    needed = math.ceil(max(n_columns - n_causes, 0) / max(n_layers, 1))
    width = max(needed, int(r.host.integers(3, 17)))
    tree_share = r.uniform(n_tables, 1, 1, low=-0.7, high=1.4)
    noise = r.log_uniform(0.01, 0.6, n_tables, 1, 1) * r.chance(0.6, n_tables, 1, 1)
    x, seen, is_code = _causes(r, n_tables, n_rows, n_causes)
    observed, layer = [seen], [0] * n_causes
    for k in range(n_layers):
        x = _layer(r, x, width, tree_share)
        level = noise * r.log_uniform(0.2, 2, n_tables, 1, width)
        x = x + level * r.normal(*x.shape)
        observed.append(x)
        layer += [k + 1] * width
    target = _layer(r, x, max(shape.n_classes, 2), tree_share)
    observed = torch.cat(observed, dim=2)
    never = torch.zeros(n_tables, observed.shape[2] - n_causes, dtype=torch.bool, device=r.device)
    return target, observed, torch.cat([is_code, never], dim=1), layer


def _observe(r: Random, shape: Shape, observed, is_code, layer):
    """Select the nodes that are columns; most tables prefer early or late ones."""
    layer = torch.tensor(layer, device=r.device, dtype=torch.float32)
    preference = r.uniform(shape.n_tables, len(layer))
    which = r.uniform(shape.n_tables, 1)
    slope = torch.where(which < 0.5, -0.7, torch.where(which < 0.75, 0.7, 0.0))
    preference = preference + layer * slope
    columns = preference.topk(shape.n_columns, dim=1).indices
    return _take(observed, columns), torch.gather(is_code, 1, columns)


# --- targets ------------------------------------------------------------------------------------


def _shares(r: Random, n_tables: int, n_pieces: int) -> torch.Tensor:
    """Return shares of pieces, from balanced to 1 %."""
    spread = r.uniform(n_tables, 1, high=1.5) + 2 * r.chance(0.1, n_tables, 1)
    shares = torch.softmax(spread * r.normal(n_tables, n_pieces), dim=1)
    shares = shares.clamp(min=0.01 if n_pieces < 30 else 0.0)
    return shares / shares.sum(1, keepdim=True)


def _classes(r: Random, shape: Shape, nodes: torch.Tensor) -> torch.Tensor:
    n_tables, n_rows, n_classes = shape.n_tables, shape.n_rows, shape.n_classes
    # One node cut at quantiles, sometimes into more pieces than there are classes.
    n_pieces = n_classes * int(r.host.choice([1, 1, 1, 1, 1, 2, 3]))
    rank = nodes[:, :, 0].argsort(1).argsort(1).float() / n_rows
    bounds = _shares(r, n_tables, n_pieces).cumsum(1)[:, :-1].contiguous()
    piece = torch.searchsorted(bounds, rank)
    label = r.integers(n_classes, n_tables, n_pieces)
    label[:, :n_classes] = torch.arange(n_classes, device=r.device)
    label = torch.gather(label, 1, r.uniform(n_tables, n_pieces).argsort(1))
    cut = torch.gather(label, 1, piece)
    # Or the largest of one node per class.
    scores = nodes[:, :, :n_classes] + torch.log(_shares(r, n_tables, n_classes))[:, None] * 0.5
    temperature = r.log_uniform(0.03, 0.5, n_tables, 1, 1) * r.chance(0.25, n_tables, 1, 1)
    gumbel = -torch.log(-torch.log(r.uniform(*scores.shape).clamp(1e-6, 1 - 1e-6)))
    largest = (scores + temperature * gumbel).argmax(2)
    return torch.where(r.chance(0.5, n_tables, 1), cut, largest)


def _clouds(r: Random, shape: Shape):
    """Return columns and labels of classes of one to three Gaussian components."""
    n_tables, n_rows, n_columns = shape.n_tables, shape.n_rows, shape.n_columns
    shares = _shares(r, n_tables, shape.n_classes).cumsum(1)[:, :-1].contiguous()
    y = torch.searchsorted(shares, r.uniform(n_tables, n_rows))
    component = (r.uniform(n_tables, n_rows) * (r.integers(3, n_tables, 1) + 1)).long()
    distance = r.log_uniform(1.5, 10, n_tables, 1, 1) / math.sqrt(n_columns)
    means = distance * r.normal(n_tables, 3 * shape.n_classes, n_columns)
    scales = torch.exp(r.uniform(n_tables, 1, 1) * r.normal(n_tables, shape.n_classes, n_columns))
    X = _take_rows(means, 3 * y + component) + _take_rows(scales, y) * r.normal(
        n_tables, n_rows, n_columns
    )
    rotation = r.normal(n_tables, n_columns, n_columns) / math.sqrt(n_columns)
    identity = torch.eye(n_columns, device=r.device)
    X = _standardise(X @ torch.where(r.chance(0.5, n_tables, 1, 1), rotation, identity))
    curved = _standardise(_dense(r, X, n_columns))
    return torch.where(r.chance(0.4, n_tables, 1, 1), curved, X), y


def _values(r: Random, nodes: torch.Tensor) -> torch.Tensor:
    """Return a number per row: a node, transformed, with noise of several types."""
    n_tables, n_rows = nodes.shape[:2]
    y = nodes[:, :, 0] + nodes[:, :, 1] * r.chance(0.3, n_tables, 1)
    level = r.log_uniform(0.02, 1, n_tables, 1) * r.chance(0.75, n_tables, 1)
    noise = r.normal(n_tables, n_rows)
    kind = r.integers(4, n_tables, 1)
    noise = torch.where(kind == 0, torch.sinh(1.2 * noise), noise)
    noise = torch.where(kind == 1, noise * torch.exp(0.7 * nodes[:, :, 1]), noise)
    y = y + level * noise
    kind = r.integers(8, n_tables, 1)
    y = torch.where(kind == 0, torch.exp(y.clamp(max=6)), y)
    y = torch.where(kind == 1, y**3, y)
    y = torch.where(kind == 2, torch.nn.functional.softplus(3 * y), y)
    y = torch.where(kind == 3, torch.round(2 * y), y)
    return _standardise(y)


def _label_noise(r: Random, y: torch.Tensor) -> torch.Tensor:
    """Replace labels of some tables by those of other rows."""
    n_tables, n_rows = y.shape
    share = 0.4 * r.uniform(n_tables, 1) ** 3 * r.chance(0.4, n_tables, 1)
    others = torch.gather(y, 1, r.integers(n_rows, n_tables, n_rows))
    return torch.where(r.chance(share, n_tables, n_rows), others, y)


# --- what real tables do ------------------------------------------------------------------------


def _disturb_columns(r: Random, X: torch.Tensor, is_category: torch.Tensor):
    n_tables, n_rows, n_columns = X.shape
    columns = (n_tables, 1, n_columns)
    # Irrelevant columns: rows shifted against the others.
    share = r.uniform(n_tables, 1, 1, high=0.8) * r.chance(0.25, n_tables, 1, 1)
    shift = r.integers(n_rows, *columns) * r.chance(share, *columns)
    row = torch.arange(n_rows, device=r.device)[None, :, None]
    X = torch.gather(X, 1, (row + shift) % n_rows)
    # Groups of nearly collinear columns.
    share = r.uniform(n_tables, 1, high=0.6) * r.chance(0.2, n_tables, 1)
    own = torch.arange(n_columns, device=r.device).expand(n_tables, -1)
    source = torch.where(
        r.chance(share, n_tables, n_columns), r.integers(n_columns, *own.shape), own
    )
    is_copy = (source != own) & ~torch.gather(is_category, 1, source)
    source = torch.where(is_copy, source, own)
    level = r.log_uniform(0.01, 0.5, *columns)
    copied = _take(_standardise(X), source) + level * r.normal(*X.shape)
    X = torch.where(is_copy[:, None], copied, X)
    is_category = is_category & ~is_copy
    number = ~is_category[:, None]
    # Skewed, heavy-tailed and rounded columns.
    z = _standardise(X)
    share = r.uniform(n_tables, 1, 1) * r.chance(0.5, n_tables, 1, 1)
    kind = torch.where(r.chance(share, *columns) & number, r.integers(6, *columns), 6)
    X = torch.where(kind == 0, torch.exp(z.clamp(max=5)), X)
    X = torch.where(kind == 1, z.square(), X)
    X = torch.where(kind == 2, z**3, X)
    X = torch.where(kind == 3, torch.log(torch.nn.functional.softplus(2 * z) + 0.01), X)
    X = torch.where(kind == 4, torch.round(z * r.log_uniform(0.5, 8, *columns)), X)
    X = torch.where(kind == 5, z.clamp(min=0) * (z > 0.3), X)
    # Numbers cut into codes, ordered or not.
    share = r.uniform(n_tables, 1, 1) * r.chance(0.3, n_tables, 1, 1)
    cut = r.chance(share, *columns) & number & (kind == 6)
    n_codes = r.log_uniform(2, MAX_CATEGORIES, *columns)
    code = (0.5 * (1 + torch.erf(z / 1.5)) * n_codes).long().clamp(0, MAX_CATEGORIES - 1)
    shuffled = torch.gather(r.uniform(n_tables, MAX_CATEGORIES, n_columns).argsort(1), 1, code)
    is_shuffled = r.chance(0.5, *columns)
    X = torch.where(cut, torch.where(is_shuffled, shuffled, code).float(), X)
    is_category = is_category | (cut & is_shuffled)[:, 0]
    # Not every user names which columns are categorical.
    return X, is_category & r.chance(0.75, n_tables, 1)


def _disturb_rows(r: Random, X: torch.Tensor, y: torch.Tensor):
    """Repeat rows in one table of ten; order one of twenty by time, so that queries come last."""
    n_tables, n_rows, n_columns = X.shape
    own = torch.arange(n_rows, device=r.device).expand(n_tables, -1)
    share = r.uniform(n_tables, 1, high=0.4) * r.chance(0.1, n_tables, 1)
    repeated = r.chance(share, n_tables, n_rows)
    row = torch.where(repeated, r.integers(n_rows, n_tables, n_rows), own)
    trend = torch.gather(X, 2, r.integers(n_columns, n_tables, 1, 1).expand(-1, n_rows, -1))
    time = _standardise(trend)[:, :, 0] + r.log_uniform(0.3, 3, n_tables, 1) * r.normal(*y.shape)
    in_time = torch.where(r.chance(0.05, n_tables, 1), time, own.float()).argsort(1)
    row = torch.gather(row, 1, in_time)
    return _take_rows(X, row), torch.gather(y, 1, row)


def _hide(r: Random, X: torch.Tensor) -> torch.Tensor:
    """Remove values of a quarter of the tables, at random or depending on the value."""
    n_tables, _, n_columns = X.shape
    rate = 0.5 * r.uniform(n_tables, 1, n_columns) ** 2
    rate = rate * r.chance(r.uniform(n_tables, 1, 1), n_tables, 1, n_columns)
    rate = rate * r.chance(0.25, n_tables, 1, 1)
    depends = r.uniform(n_tables, 1, n_columns) * r.chance(0.5, n_tables, 1, 1)
    rate = rate * (1 + depends * torch.sign(X - X.mean(1, keepdim=True)))
    return torch.where(r.chance(rate, *X.shape), torch.nan, X)
