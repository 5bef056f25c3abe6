"""The pretrained network: weights of training rows for queries.

The architecture is that of ``training/network.py``. Training rows are read once per pass
(``read``); queries see the summaries, keys and values that were stored then (``weigh``). All
arithmetic is float32, in NumPy or on the device of a torch tensor; products of consecutive matrices
are formed once.
"""

import hashlib
import io
import math
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from vicinal._base import as_numpy, exponentials, namespace, on_torch, packed, positive_part

# Of ``weights.npz``, which ``training/`` made.
SHA256 = "0d608ef96c1dcaa5f4e109a7faececce92b4f54b68a08c8f99cca3ad4762d861"
COLUMN_SIZE = 16
N_LABELS = 64
# Training rows computed together, and queries. A prediction must not depend on the other queries,
# but the rounding of float32 products depends on the number of rows, and beyond eight rows on which
# one it is. Queries therefore come in blocks of exactly this size, small enough for single rows;
# some blocks share the memory traffic of the weights.
_ROWS, _QUERIES, _BLOCKS, _DEVICE_ROWS = 64, 4, 32, 512


@dataclass(frozen=True)
class Context:
    """What queries have to know of the training rows of one pass, on the host.

    Attributes
    ----------
    columns : array of shape (n_columns, COLUMN_SIZE)
        Random vectors that distinguish the columns.
    summaries : list of (array, array)
        Per block over cells, for each column, a map from cells to scores of the summary vectors
        and one from their weights to cells.
    keys, values : list of array
        Per block over rows, of shapes (heads, size, n_train) and (heads, n_train, size).
    head : array of shape (width, n_train)
        Keys of the training rows in the last layer.
    log_weights : array of shape (n_train,) or None
        Logarithms of sample weights.
    sharpness : float
        Factor of the scores, which grows with the number of training rows.
    """

    columns: Any
    summaries: list
    keys: list
    values: list
    head: Any
    log_weights: Any
    sharpness: float

    def moved(self, function: Any) -> "Context":
        """Return the context with a function applied to each of its arrays."""
        return Context(*(_applied(function, getattr(self, one.name)) for one in fields(self)))


def _applied(function: Any, part: Any) -> Any:
    if isinstance(part, list | tuple):
        return type(part)(_applied(function, one) for one in part)
    return part if part is None or isinstance(part, float) else function(part)


class Network:
    """The trained network.

    Parameters
    ----------
    arrays : dict of str to ndarray
        Matrices by the names of the training code.
    device : str or None
        Device of torch that computes; ``None`` is NumPy.
    """

    def __init__(self, arrays: dict[str, np.ndarray], device: str | None = None) -> None:
        self.device = "cpu" if device is None else device
        self.xp = namespace(np.empty(0) if device is None else on_torch(device, np.empty(0))[0])
        self.n_rows, self.n_queries, self.n_blocks = _ROWS, _QUERIES, _BLOCKS
        if device is not None:
            self.n_rows, self.n_queries, self.n_blocks = _DEVICE_ROWS, _DEVICE_ROWS, 1
        a = {n: self._array(array) for n, array in arrays.items() if n[0] != "_"}
        sizes = dict(text.split("=") for text in arrays["_size"])
        self.cell_heads, self.row_heads = int(sizes["cell_heads"]), int(sizes["row_heads"])
        self.pool_heads = int(sizes["pool_heads"])
        self.n_cell_blocks, self.n_row_blocks = int(sizes["cell_blocks"]), int(sizes["row_blocks"])
        self.cell_width, self.row_width = int(sizes["cell_width"]), int(sizes["row_width"])

        def after(gain: str, name: str) -> Any:
            """Return a matrix that is applied to normalised rows; the gain goes into it."""
            matrix = a[name].reshape(-1, a[name].shape[-1])
            return packed((matrix * a[gain]).T)

        self.a = a
        self.cells = [
            {
                "query": after(f"{p}column_norm.gain", f"{p}ask.weight"),
                "read": after(f"{p}column_norm.gain", f"{p}read.weight"),
                "read_label": a[f"{p}read.weight"].reshape(-1, self.cell_width).T,
                "give": after(f"{p}summary_norm.gain", f"{p}give.weight"),
                "column_out": a[f"{p}column_out.weight"].T,
                "qkv": after(f"{p}row_norm.gain", f"{p}row_qkv.weight"),
                "out": a[f"{p}row_out.weight"].T,
                "summaries": a[f"{p}summaries"],
                **self._mlp(p, after),
            }
            for p in (f"cells.{k}." for k in range(self.n_cell_blocks))
        ]
        self.rows = [
            {
                "qkv": after(f"{p}norm.gain", f"{p}qkv.weight"),
                "out": a[f"{p}out.weight"].T,
                **self._mlp(p, after),
            }
            for p in (f"rows.{k}." for k in range(self.n_row_blocks))
        ]
        self.pool_score = after("pool.norm.gain", "pool.score.weight")
        value = after("pool.norm.gain", "pool.value.weight")
        value = value.reshape(self.cell_width, self.pool_heads, -1)
        self.pool_value = self.xp.permute_dims(value, (1, 0, 2))
        self.query_key = after("norm.gain", "query_key.weight")
        self.bandwidth = after("norm.gain", "bandwidth.weight")

    def _array(self, values: np.ndarray) -> Any:
        """Return a host array where the network computes, floats in single precision."""
        dtype = self.xp.float32 if values.dtype.kind == "f" else None
        return self.xp.asarray(values, dtype=dtype, device=self.device)

    def _mlp(self, prefix: str, after) -> dict[str, Any]:
        return {
            "up": after(f"{prefix}mlp.norm.gain", f"{prefix}mlp.up.weight"),
            "offset": self.a[f"{prefix}mlp.up.bias"],
            "down": self.a[f"{prefix}mlp.down.weight"].T,
        }

    # --- training rows ------------------------------------------------------------------------

    def labels(self, target: np.ndarray) -> tuple[Any, Any]:
        """Return what cells and rows know of the target: embedding numbers, or its features."""
        target = self._array(target)
        if target.ndim == 1:
            return self.a["label_cell.weight"][target], self.a["label_row.weight"][target]
        value = positive_part(target @ self.a["value_in.weight"].T + self.a["value_in.bias"])
        return value @ self.a["value_cell.weight"].T, value @ self.a["value_row.weight"].T

    def read(self, cells, columns, target, weights) -> Context:
        """Return what queries have to know of a training table.

        Parameters
        ----------
        cells : ndarray of shape (n_columns, n_train, n_features)
            Features of the cells.
        columns : ndarray of shape (n_columns, COLUMN_SIZE)
            Random vectors that distinguish the columns.
        target : ndarray of shape (n_train,) or (n_train, n_features)
            Embedding numbers of the classes, or features of the values.
        weights : ndarray of shape (n_train,) or None
            Sample weights; weight 2 is the row twice.
        """
        xp, columns = self.xp, self._array(columns)
        log_weights = None if weights is None else self._array(np.log(weights))
        total = cells.shape[1] if weights is None else float(weights.sum())
        sharpness = math.log(total + 1) / math.log(400)
        label_cell, label_row = self.labels(target)
        x, summaries = self._embed(self._array(cells), columns), []
        starts = range(0, x.shape[1], self.n_rows)
        blocks = [slice(start, start + self.n_rows) for start in starts]
        for block in self.cells:
            summaries.append(self._summarise(block, x, label_cell @ block["read_label"],
                                             log_weights))  # fmt: skip
            for rows in blocks:
                x[:, rows] = self._cell_block(block, x[:, rows], summaries[-1])
        rows_x = xp.concat([self._pool(x[:, rows]) for rows in blocks], axis=0) + label_row
        keys, values = [], []
        for block in self.rows:
            kv = _normalised(rows_x) @ block["qkv"][:, self.row_width :]
            k, v = self._by_head(kv[:, : self.row_width]), self._by_head(kv[:, self.row_width :])
            keys.append(packed(xp.permute_dims(k, (0, 2, 1))))
            values.append(packed(v))
            context = keys[-1], values[-1], log_weights, sharpness
            parts = [self._row_block(block, rows_x[rows], *context) for rows in blocks]
            rows_x = xp.concat(parts, axis=0)
        head = packed((_normalised(rows_x) @ self.query_key[:, self.row_width :]).T)
        found = Context(columns, summaries, keys, values, head, log_weights, sharpness)
        return found.moved(as_numpy)

    def _summarise(self, block, x, label, log_weights) -> tuple[Any, Any]:
        """Return the maps of every column that attention through its summaries amounts to."""
        xp, heads, c = self.xp, self.cell_heads, self.cell_width
        size, n_summaries = c // heads, block["summaries"].shape[0]
        factor = size**-0.5
        queries = xp.permute_dims(block["summaries"].reshape(n_summaries, heads, size), (1, 0, 2))
        query = xp.permute_dims(block["query"].reshape(c, heads, size), (1, 0, 2))
        out = block["column_out"].reshape(heads, size, c)
        to_scores, to_cells = [], []
        for j in range(x.shape[0]):
            read = (_normalised(x[j]) @ block["read"] + label).reshape(-1, 2, heads, size)
            scores = queries @ xp.permute_dims(read[:, 0], (1, 2, 0)) * factor
            summary = _softmax(scores, log_weights) @ xp.permute_dims(read[:, 1], (1, 0, 2))
            summary = xp.permute_dims(summary, (1, 0, 2)).reshape(-1, c)
            given = _normalised(block["summaries"] + summary) @ block["give"]
            given = xp.permute_dims(given.reshape(n_summaries, 2, heads, size), (1, 2, 3, 0))
            scores = xp.permute_dims(query @ given[0], (1, 0, 2)) * factor
            to_scores.append(scores.reshape(c, -1))
            to_cells.append((xp.permute_dims(given[1], (0, 2, 1)) @ out).reshape(-1, c))
        return xp.stack(to_scores), xp.stack(to_cells)

    # --- all rows -----------------------------------------------------------------------------

    def _embed(self, cells, columns) -> Any:
        offset = columns @ self.a["column_in.weight"].T + self.a["cell_in.bias"]
        x = positive_part(cells @ self.a["cell_in.weight"].T + offset[:, None])
        return x @ self.a["cell_mix.weight"].T

    def _cell_block(self, block, x, summary) -> Any:
        """Return new cells of (..., n_columns, n_rows, width)."""
        (*rows, c), heads = x.shape, self.cell_heads
        scores = (_normalised(x) @ summary[0]).reshape(*rows, heads, -1)
        x = x + _softmax(scores).reshape(*rows, -1) @ summary[1]
        qkv = (_normalised(x) @ block["qkv"]).reshape(*rows, 3, heads, c // heads)
        # (..., n_rows, heads, n_columns, size)
        q, k, v = (qkv[..., part, :, :].swapaxes(-4, -3).swapaxes(-3, -2) for part in range(3))
        scores = packed(q) @ k.swapaxes(-1, -2)
        scores *= (c // heads) ** -0.5
        h = (_softmax(scores) @ v).swapaxes(-3, -2).swapaxes(-4, -3).reshape(x.shape)
        return _add_mlp(block, x + h @ block["out"])

    def _pool(self, x) -> Any:
        """Return one token per row of (..., n_columns, n_rows, width)."""
        h = _normalised(x)
        shares = _softmax((h @ self.pool_score).swapaxes(-3, -2).swapaxes(-2, -1))
        pooled = (shares @ h.swapaxes(-3, -2)).swapaxes(-3, -2) @ self.pool_value
        return pooled.swapaxes(-3, -2).reshape(*x.shape[:-3], x.shape[-2], -1)

    def _by_head(self, x) -> Any:
        return x.reshape(*x.shape[:-1], self.row_heads, -1).swapaxes(-3, -2)

    def _row_block(self, block, x, keys, values, log_weights, sharpness) -> Any:
        q = self._by_head(_normalised(x) @ block["qkv"][:, : self.row_width])
        scores = (q * (sharpness * q.shape[-1] ** -0.5)) @ keys
        shares = _unscaled_softmax(scores, log_weights)
        # Means of values are scaled instead of the shares: one number for each head and row.
        h = shares @ values
        h /= _sums(shares)
        h = h.swapaxes(-3, -2).reshape(x.shape) @ block["out"]
        h += x
        return _add_mlp(block, h)

    # --- queries ------------------------------------------------------------------------------

    def moved(self, context: Context) -> Context:
        """Return the context where the network computes."""
        return context.moved(self._array)

    def weigh(self, cells, context: Context, *, regression: bool) -> tuple[Any, Any]:
        """Return the weights of the training rows for queries, and logarithms of bandwidths.

        The context must be where the network computes (``moved``).
        """
        xp, (n_columns, n_queries, n_features) = self.xp, cells.shape
        cells = np.pad(cells, ((0, 0), (0, -n_queries % self.n_queries), (0, 0)), mode="edge")
        cells = cells.reshape(n_columns, -1, self.n_queries, n_features).swapaxes(0, 1)
        scale = context.sharpness * self.row_width**-0.5
        weights, bandwidths = [], []
        for start in range(0, len(cells), self.n_blocks):
            part = np.ascontiguousarray(cells[start : start + self.n_blocks])
            x = self._embed(self._array(part), context.columns)
            for block, summary in zip(self.cells, context.summaries, strict=True):
                x = self._cell_block(block, x, summary)
            x = self._pool(x) + self.a["unknown"][int(regression)]
            for block, k, v in zip(self.rows, context.keys, context.values, strict=True):
                x = self._row_block(block, x, k, v, context.log_weights, context.sharpness)
            x = _normalised(x)
            q = x @ self.query_key[:, : self.row_width] * scale
            found = _softmax(q @ context.head, context.log_weights)
            weights.append(found.reshape(-1, found.shape[-1]))
            bandwidths.append((x @ self.bandwidth).reshape(-1) + self.a["bandwidth.bias"][0])
        log_bandwidth = xp.clip(xp.concat(bandwidths)[:n_queries], -6.0, 1.0)
        return xp.concat(weights)[:n_queries], log_bandwidth


def _normalised(x: Any) -> Any:
    """Return rows of mean zero and variance one."""
    xp, size = namespace(x), x.shape[-1]
    h = x - _sums(x) / size
    h *= 1 / xp.sqrt(xp.vecdot(h, h)[..., None] / size + 1e-5)
    return h


def _sums(x: Any) -> Any:
    """Return sums along the last axis, which stays; by BLAS, which is faster on short axes."""
    return x @ namespace(x).ones((x.shape[-1], 1), dtype=x.dtype, device=x.device)


def _softmax(scores: Any, log_weights: Any = None) -> Any:
    """Return shares along the last axis, in the memory of the scores."""
    shares = _unscaled_softmax(scores, log_weights)
    shares /= _sums(shares)
    return shares


def _unscaled_softmax(scores: Any, log_weights: Any = None) -> Any:
    """Return multiples of the shares along the last axis, in the memory of the scores."""
    if log_weights is not None:
        scores += log_weights
    scores -= namespace(scores).max(scores, axis=-1, keepdims=True)
    return exponentials(scores)


def _add_mlp(block, x: Any) -> Any:
    h = _normalised(x) @ block["up"]
    h += block["offset"]
    h = positive_part(h) @ block["down"]
    h += x
    return h


@cache
def load_network(device: str | None = None) -> Network:
    """Return the network of the weights in this package; a changed file is refused.

    It computes in NumPy, or on a device of torch.
    """
    content = files("vicinal.pretrained").joinpath("weights.npz").read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise OSError(
            f"weights.npz of vicinal.pretrained has the hash {found[:12]}..., but {SHA256[:12]}... "
            "is expected; install the package again."
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return Network(dict(stored), device)
