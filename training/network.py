"""The network: it reads a training table and queries, and returns one weight per training row.

Two blocks over cells (attention over the training rows of a column through a few summary vectors,
attention over the columns of a row), attention pooling to one token per row, then attention over
rows only. The weights of the training rows are a softmax of products of query and key vectors.
"""

import hashlib
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

N_FEATURES = 16  # of a cell
N_LABELS = 64  # class embeddings; a table takes some of them at random
COLUMN_SIZE = 16  # of the random vector of a column
UNIFORM_SHARE = 0.005
MAX_SEQUENCES = 65_535  # of fused attention on CUDA
EXPLICIT_TOKENS = 24  # fused attention wastes its tiles on sequences as short as this


@dataclass(frozen=True)
class Size:
    """Sizes of the network."""

    cell_width: int = 64
    cell_blocks: int = 2
    cell_heads: int = 2
    n_summaries: int = 32
    pool_heads: int = 8
    row_width: int = 160
    row_blocks: int = 6
    row_heads: int = 5


# --- what the network sees ----------------------------------------------------------------------


def _ranks(values: torch.Tensor, n_train: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mid-ranks in (0, 1) and shares of equal values among training rows (last axis)."""
    known = values.nan_to_num(nan=torch.inf)
    ordered = known[..., :n_train].sort(dim=-1).values.contiguous()
    count = torch.isfinite(ordered).sum(-1, keepdim=True).clamp(min=1)
    low = torch.searchsorted(ordered, known.contiguous())
    high = torch.searchsorted(ordered, known.contiguous(), right=True).clamp(max=count)
    rank = (0.5 * (low + high) / count).clamp(0.5 / count, 1 - 0.5 / count)
    return rank, (high - low).clamp(min=0) / count


def _standardised(values: torch.Tensor, n_train: int) -> torch.Tensor:
    """Standardise by training rows (last axis); missing values become zero."""
    train = values[..., :n_train]
    mean = train.nanmean(-1, keepdim=True).nan_to_num()
    deviation = (train - mean).square().nanmean(-1, keepdim=True).sqrt().nan_to_num()
    return ((values - mean) / (deviation + 1e-6 * (1 + mean.abs()))).nan_to_num()


def _waves(rank: torch.Tensor) -> list[torch.Tensor]:
    angles = [math.pi * 2**k * (rank - 0.5) for k in range(5)]
    return [f(angle) for angle in angles for f in (torch.sin, torch.cos)]


def describe_cells(X: torch.Tensor, is_category: torch.Tensor, n_train: int) -> torch.Tensor:
    """Return the features of cells, (tables, rows, columns, features)."""
    values = X.transpose(1, 2)
    rank, share = _ranks(values, n_train)
    missing = values.isnan()
    z = 4 * torch.tanh(_standardised(values, n_train) / 4)
    scores = math.sqrt(2) * torch.erfinv(2 * rank - 1)
    category = is_category[:, :, None].expand_as(z)
    parts = [z, scores, *_waves(rank), share.sqrt(), torch.ones_like(z), category]
    parts = [torch.where(missing, 0.0, part) for part in parts]
    features = torch.stack([*parts, missing], dim=-1).transpose(1, 2)
    return features.contiguous()


def describe_target(y: torch.Tensor, n_train: int) -> torch.Tensor:
    """Return the features of training targets that are numbers."""
    train = y[:, :n_train]
    rank, share = _ranks(train, n_train)
    z = 4 * torch.tanh(train / 4)
    scores = math.sqrt(2) * torch.erfinv(2 * rank - 1)
    zero = torch.zeros_like(z)
    parts = [z, scores, *_waves(rank), share.sqrt(), torch.ones_like(z), zero, zero]
    return torch.stack(parts, dim=-1)


def standardise_target(y: torch.Tensor, n_train: int) -> torch.Tensor:
    """Standardise a target by its training rows."""
    return _standardised(y, n_train)


# --- layers -------------------------------------------------------------------------------------


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None):
    """Attention of (sequences, heads, tokens, size), in pieces that the device can take."""
    if q.shape[-2] <= EXPLICIT_TOKENS and k.shape[-2] <= EXPLICIT_TOKENS and q.is_cuda:
        scores = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
        return torch.softmax(scores, dim=-1) @ v
    if len(q) <= MAX_SEQUENCES:
        return F.scaled_dot_product_attention(q, k, v, scale=scale)
    pieces = zip(*(t.split(MAX_SEQUENCES) for t in (q, k, v)), strict=True)
    return torch.cat([F.scaled_dot_product_attention(*p, scale=scale) for p in pieces])


def layer_norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """Normalise rows; training compiles this, since the stock kernel is slow for 64 columns."""
    return F.layer_norm(x, x.shape[-1:], gain)


class Matrices(nn.Module):
    """Some square matrices of one size, applied side by side."""

    def __init__(self, n_matrices: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_matrices, width, width) / math.sqrt(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return all products along the last axis."""
        return F.linear(x, self.weight.flatten(0, 1))


class Linear(nn.Linear):
    """A matrix without offset."""

    def __init__(self, n_inputs: int, n_outputs: int, zero: bool = False):
        super().__init__(n_inputs, n_outputs, bias=False)
        if zero:
            nn.init.zeros_(self.weight)


class Norm(nn.Module):
    """Layer normalisation without offset."""

    def __init__(self, width: int):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise the last axis."""
        return layer_norm(x.reshape(-1, x.shape[-1]), self.gain).view(x.shape)


class Mlp(nn.Module):
    """Two layers and a residual connection."""

    def __init__(self, width: int, factor: int):
        super().__init__()
        self.norm = Norm(width)
        self.up = nn.Linear(width, factor * width)
        self.down = Linear(factor * width, width, zero=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the same shape."""
        return x + self.down(F.relu(self.up(self.norm(x))))


class CellBlock(nn.Module):
    """Attention within columns through summaries, attention within rows, two layers."""

    def __init__(self, size: Size):
        super().__init__()
        c, self.heads = size.cell_width, size.cell_heads
        self.summaries = nn.Parameter(torch.randn(size.n_summaries, c))
        self.column_norm, self.row_norm, self.summary_norm = Norm(c), Norm(c), Norm(c)
        self.read = Matrices(2, c)
        self.ask = Matrices(1, c)
        self.give = Matrices(2, c)
        self.column_out = Linear(c, c, zero=True)
        self.row_qkv = Matrices(3, c)
        self.row_out = Linear(c, c, zero=True)
        self.mlp = Mlp(c, 2)

    def forward(self, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """Return new cells; ``label`` holds the targets of the training rows."""
        n_tables, n_rows, n_columns, c = x.shape
        n_train, heads = label.shape[1], self.heads

        def by_column(t: torch.Tensor) -> torch.Tensor:  # columns and heads together, no copy
            return t.unflatten(-1, (heads, -1)).flatten(2, 3).transpose(1, 2)

        h = self.column_norm(x)
        k, v = self.read(h[:, :n_train] + label[:, :, None]).chunk(2, dim=-1)
        q = self.summaries[None, :, None].expand(n_tables, -1, n_columns, -1)
        s = attend(by_column(q), by_column(k), by_column(v))
        s = self.summary_norm(q + s.transpose(1, 2).reshape(n_tables, -1, n_columns, c))
        k, v = self.give(s).chunk(2, dim=-1)
        h = attend(by_column(self.ask(h)), by_column(k), by_column(v))
        x = x + self.column_out(h.transpose(1, 2).reshape(x.shape))

        q, k, v = (
            t.view(n_tables * n_rows, n_columns, heads, -1).transpose(1, 2)
            for t in self.row_qkv(self.row_norm(x)).chunk(3, dim=-1)
        )
        h = attend(q, k, v).transpose(1, 2).reshape(x.shape)
        return self.mlp(x + self.row_out(h))


class Pool(nn.Module):
    """Attention pooling: one token per row."""

    def __init__(self, size: Size):
        super().__init__()
        self.norm = Norm(size.cell_width)
        self.score = Linear(size.cell_width, size.pool_heads)
        self.value = Linear(size.cell_width, size.row_width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (tables, rows, width) of (tables, rows, columns, width)."""
        h = self.norm(x)
        weights = torch.softmax(self.score(h), dim=2)
        values = self.value(h).unflatten(-1, (weights.shape[-1], -1))
        return (weights[..., None] * values).sum(2).flatten(2)


class RowBlock(nn.Module):
    """Attention of all rows to training rows, two layers."""

    def __init__(self, size: Size):
        super().__init__()
        self.heads = size.row_heads
        self.norm = Norm(size.row_width)
        self.qkv = Matrices(3, size.row_width)
        self.out = Linear(size.row_width, size.row_width, zero=True)
        self.mlp = Mlp(size.row_width, 4)

    def forward(self, x: torch.Tensor, n_train: int) -> torch.Tensor:
        """Return new tokens of rows; the first ``n_train`` are training rows."""
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in self.qkv(self.norm(x)).chunk(3, dim=-1)
        )
        scale = sharpness(n_train) / math.sqrt(q.shape[-1])
        h = attend(q, k[:, :, :n_train], v[:, :, :n_train], scale)
        return self.mlp(x + self.out(h.transpose(1, 2).reshape(x.shape)))


def sharpness(n_train: int) -> float:
    """Return a factor that keeps attention as sharp among many rows as among few."""
    return math.log(n_train + 1) / math.log(400)


class Network(nn.Module):
    """Weights of training rows for every query, and a bandwidth for regression."""

    def __init__(self, size: Size | None = None):
        super().__init__()
        self.size = size = size or Size()
        c, width = size.cell_width, size.row_width
        self.cell_in = nn.Linear(N_FEATURES, c)
        self.column_in = Linear(COLUMN_SIZE, c)
        self.cell_mix = Linear(c, c)
        self.label_cell = nn.Embedding(N_LABELS, c)
        self.label_row = nn.Embedding(N_LABELS, width)
        self.value_in = nn.Linear(N_FEATURES, 2 * c)
        self.value_cell = Linear(2 * c, c)
        self.value_row = Linear(2 * c, width)
        self.cells = nn.ModuleList(CellBlock(size) for _ in range(size.cell_blocks))
        self.pool = Pool(size)
        self.unknown = nn.Parameter(torch.zeros(2, width))
        self.rows = nn.ModuleList(RowBlock(size) for _ in range(size.row_blocks))
        self.norm = Norm(width)
        self.query_key = Matrices(2, width)
        self.bandwidth = nn.Linear(width, 1)
        nn.init.zeros_(self.bandwidth.weight)
        nn.init.constant_(self.bandwidth.bias, -1.0)

    def forward(self, cells, columns, target, n_train: int):
        """Return logits of training rows, (tables, queries, rows), and log bandwidths.

        Parameters
        ----------
        cells : tensor of shape (tables, rows, columns, N_FEATURES)
            The first ``n_train`` rows are training rows.
        columns : tensor of shape (tables, columns, COLUMN_SIZE)
            Random vectors that distinguish columns.
        target : tensor of shape (tables, n_train) or (tables, n_train, N_FEATURES)
            Embedding indices of the classes, or features of the values, of training rows.
        n_train : int
            Number of training rows.
        """
        is_regression = target.ndim == 3
        x = F.relu(self.cell_in(cells) + self.column_in(columns)[:, None])
        x = self.cell_mix(x)
        if is_regression:
            value = F.relu(self.value_in(target))
            label_cell, label_row = self.value_cell(value), self.value_row(value)
        else:
            # Products instead of look-ups: their gradient needs no sorting.
            one_hot = F.one_hot(target, N_LABELS).to(x.dtype)
            label_cell, label_row = (
                one_hot @ table.weight for table in (self.label_cell, self.label_row)
            )
        for block in self.cells:
            x = block(x, label_cell)
        x = self.pool(x)
        unknown = self.unknown[int(is_regression)].expand(len(x), x.shape[1] - n_train, -1)
        x = x + torch.cat([label_row, unknown], dim=1)
        for block in self.rows:
            x = block(x, n_train)
        x = self.norm(x)
        q, k = self.query_key(x).chunk(2, dim=-1)
        scale = sharpness(n_train) / math.sqrt(x.shape[-1])
        q, k = q[:, n_train:].float(), k[:, :n_train].float()
        logits = torch.bmm(q * scale, k.transpose(1, 2))
        return logits, self.bandwidth(x[:, n_train:]).float()[..., 0].clamp(-6, 1)


# --- predictions --------------------------------------------------------------------------------


def vote(logits: torch.Tensor, y_train: torch.Tensor, n_classes: int) -> torch.Tensor:
    """Return class probabilities: the weighted vote of training rows and 0.5 % of uniform."""
    votes = torch.softmax(logits, dim=-1) @ F.one_hot(y_train, n_classes).float()
    return (1 - UNIFORM_SHARE) * votes + UNIFORM_SHARE / n_classes


def log_density(logits, log_bandwidth, y_train, y):
    """Return the log density of y: kernels around training targets and 0.5 % of a wide Cauchy."""
    log_weights = torch.log_softmax(logits, dim=-1)
    z = (y[:, :, None] - y_train[:, None]) * torch.exp(-log_bandwidth)[:, :, None]
    log_kernel = -0.5 * z.square() - log_bandwidth[:, :, None] - 0.5 * math.log(2 * math.pi)
    inside = torch.logsumexp(log_weights + log_kernel, dim=-1) + math.log(1 - UNIFORM_SHARE)
    wide = math.log(UNIFORM_SHARE / (3 * math.pi)) - torch.log1p((y / 3).square())
    return torch.logaddexp(inside, wide)


@torch.no_grad()
def predict(network, X, y, X_query, is_category, n_classes: int = 0, n_passes: int = 4, seed=0):
    """Return probabilities or means of queries, and the weights of training rows.

    The mean of several passes, each with its own vectors of columns and embeddings of classes.
    """
    device, dtype = network.unknown.device, network.unknown.dtype
    generator = torch.Generator().manual_seed(seed)
    n_train = len(y)
    both = torch.as_tensor(np.concatenate([X, X_query]), dtype=torch.float32, device=device)[None]
    flags = torch.as_tensor(is_category, device=device)[None]
    cells = describe_cells(both, flags, n_train).to(dtype)
    if n_classes:
        y_train = torch.as_tensor(y, dtype=torch.long, device=device)[None]
    else:
        values = torch.as_tensor(y, dtype=torch.float64)
        centre, scale = values.mean(), values.std(correction=0) + 1e-12
        y_train = ((values - centre) / scale).float().to(device)[None]
        target = describe_target(y_train, n_train).to(dtype)
    weights = 0.0
    for _ in range(n_passes):
        columns = torch.randn(1, X.shape[1], COLUMN_SIZE, generator=generator).to(device, dtype)
        if n_classes:
            order = torch.randperm(N_LABELS, generator=generator).to(device)
            target = order[y_train % N_LABELS]
        logits, _ = network(cells, columns, target, n_train)
        weights = weights + torch.softmax(logits, dim=-1) / n_passes
    if n_classes:
        found = vote(torch.log(weights.clamp(min=1e-30)), y_train, n_classes)
    else:
        found = (weights @ y_train[..., None])[..., 0].double().cpu() * scale + centre
    return found[0].double().cpu().numpy(), weights[0].cpu().numpy()


# --- files --------------------------------------------------------------------------------------


def save_weights(network: Network, path: Path, about: str) -> str:
    """Write float16 weights with a note on their origin, and return the hash of the file."""
    arrays = {n: p.detach().cpu().numpy().astype("f2") for n, p in network.state_dict().items()}
    sizes = np.array([f"{k}={v}" for k, v in asdict(network.size).items()])
    np.savez_compressed(path, **arrays, _size=sizes, _about=np.array(about))
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def load_weights(path: Path) -> Network:
    """Read a network from a file that ``save_weights`` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        size = Size(**{k: int(v) for k, v in (t.split("=") for t in stored["_size"])})
        network = Network(size)
        names = network.state_dict()
        network.load_state_dict({n: torch.from_numpy(stored[n].astype("f4")) for n in names})
    return network
