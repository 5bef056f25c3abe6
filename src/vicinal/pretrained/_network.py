"""The pretrained network in NumPy: weights of training rows for queries.

The architecture is that of ``training/network.py``. Training rows are read once per pass
(``read``); queries see the summaries, keys and values that were stored then (``weigh``). All
arithmetic is float32; products of consecutive matrices are formed once.
"""

import hashlib
import io
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

# Of ``weights.npz``, which ``training/`` made.
SHA256 = "0d608ef96c1dcaa5f4e109a7faececce92b4f54b68a08c8f99cca3ad4762d861"
COLUMN_SIZE = 16
N_LABELS = 64
# Rows computed together. Queries always come in blocks of exactly this size, because rounding of
# float32 products depends on it: a prediction must not depend on the other queries.
_ROWS = 64


@dataclass(frozen=True)
class Context:
    """What queries have to know of the training rows of one pass.

    Attributes
    ----------
    columns : ndarray of shape (n_columns, COLUMN_SIZE)
        Random vectors that distinguish the columns.
    summaries : list of (ndarray, ndarray)
        Per block over cells, for each column, a map from cells to scores of the summary vectors
        and one from their weights to cells.
    keys, values : list of ndarray
        Per block over rows, of shapes (heads, size, n_train) and (heads, n_train, size).
    head : ndarray of shape (width, n_train)
        Keys of the training rows in the last layer.
    log_weights : ndarray of shape (n_train,) or None
        Logarithms of sample weights.
    sharpness : float
        Factor of the scores, which grows with the number of training rows.
    """

    columns: np.ndarray
    summaries: list
    keys: list
    values: list
    head: np.ndarray
    log_weights: np.ndarray | None
    sharpness: float


class Network:
    """The trained network.

    Parameters
    ----------
    arrays : dict of str to ndarray
        Matrices by the names of the training code.
    """

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        a = {n: array.astype(np.float32) for n, array in arrays.items() if n[0] != "_"}
        sizes = dict(text.split("=") for text in arrays["_size"])
        self.cell_heads, self.row_heads = int(sizes["cell_heads"]), int(sizes["row_heads"])
        self.pool_heads = int(sizes["pool_heads"])
        self.n_cell_blocks, self.n_row_blocks = int(sizes["cell_blocks"]), int(sizes["row_blocks"])
        self.cell_width, self.row_width = int(sizes["cell_width"]), int(sizes["row_width"])

        def after(gain: str, name: str) -> np.ndarray:
            """Return a matrix that is applied to normalised rows; the gain goes into it."""
            matrix = a[name].reshape(-1, a[name].shape[-1])
            return np.ascontiguousarray((matrix * a[gain]).T)

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
        self.pool_value = value.reshape(self.cell_width, self.pool_heads, -1).transpose(1, 0, 2)
        self.query_key = after("norm.gain", "query_key.weight")
        self.bandwidth = after("norm.gain", "bandwidth.weight")

    def _mlp(self, prefix: str, after) -> dict[str, np.ndarray]:
        return {
            "up": after(f"{prefix}mlp.norm.gain", f"{prefix}mlp.up.weight"),
            "offset": self.a[f"{prefix}mlp.up.bias"],
            "down": self.a[f"{prefix}mlp.down.weight"].T,
        }

    # --- training rows ------------------------------------------------------------------------

    def labels(self, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what cells and rows know of the target: embedding numbers, or its features."""
        if target.ndim == 1:
            return self.a["label_cell.weight"][target], self.a["label_row.weight"][target]
        value = _relu(target @ self.a["value_in.weight"].T + self.a["value_in.bias"])
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
        log_weights = None if weights is None else np.log(weights).astype(np.float32)
        total = cells.shape[1] if weights is None else float(weights.sum())
        sharpness = math.log(total + 1) / math.log(400)
        label_cell, label_row = self.labels(target)
        x, summaries = self._embed(cells, columns), []
        blocks = [slice(start, start + _ROWS) for start in range(0, x.shape[1], _ROWS)]
        for block in self.cells:
            summaries.append(self._summarise(block, x, label_cell @ block["read_label"],
                                             log_weights))  # fmt: skip
            for rows in blocks:
                x[:, rows] = self._cell_block(block, x[:, rows], summaries[-1])
        rows_x = np.concatenate([self._pool(x[:, rows]) for rows in blocks]) + label_row
        keys, values = [], []
        for block in self.rows:
            k, v = np.split(_normalised(rows_x) @ block["qkv"][:, self.row_width :], 2, axis=1)
            keys.append(np.ascontiguousarray(self._by_head(k).transpose(0, 2, 1)))
            values.append(np.ascontiguousarray(self._by_head(v)))
            context = keys[-1], values[-1], log_weights, sharpness
            rows_x = np.concatenate([self._row_block(block, rows_x[r], *context) for r in blocks])
        head = (_normalised(rows_x) @ self.query_key[:, self.row_width :]).T
        head = np.ascontiguousarray(head)
        return Context(columns, summaries, keys, values, head, log_weights, sharpness)

    def _summarise(self, block, x, label, log_weights) -> tuple[np.ndarray, np.ndarray]:
        """Return the maps of every column that attention through its summaries amounts to."""
        heads, c = self.cell_heads, self.cell_width
        size, n_summaries = c // heads, len(block["summaries"])
        queries = block["summaries"].reshape(n_summaries, heads, size).transpose(1, 0, 2)
        query = block["query"].reshape(c, heads, size)
        out = block["column_out"].reshape(heads, size, c)
        to_scores = np.empty((len(x), c, heads * n_summaries), dtype=np.float32)
        to_cells = np.empty((len(x), heads * n_summaries, c), dtype=np.float32)
        for j, column in enumerate(x):
            read = (_normalised(column) @ block["read"] + label).reshape(-1, 2, heads, size)
            scores = queries @ read[:, 0].transpose(1, 2, 0) * np.float32(size**-0.5)
            shares = _softmax(scores, log_weights)
            summary = (shares @ read[:, 1].transpose(1, 0, 2)).transpose(1, 0, 2).reshape(-1, c)
            given = _normalised(block["summaries"] + summary) @ block["give"]
            k, v = given.reshape(n_summaries, 2, heads, size).transpose(1, 2, 0, 3)
            scores = np.einsum("chd,hsd->chs", query, k, optimize=True) * np.float32(size**-0.5)
            to_scores[j] = scores.reshape(c, -1)
            to_cells[j] = (v @ out).reshape(-1, c)
        return to_scores, to_cells

    # --- all rows -----------------------------------------------------------------------------

    def _embed(self, cells, columns) -> np.ndarray:
        offset = columns @ self.a["column_in.weight"].T + self.a["cell_in.bias"]
        x = _relu(cells @ self.a["cell_in.weight"].T + offset[:, None])
        return x @ self.a["cell_mix.weight"].T

    def _cell_block(self, block, x, summary) -> np.ndarray:
        """Return new cells of (n_columns, n_rows, width)."""
        n_columns, n_rows, c = x.shape
        heads = self.cell_heads
        scores = (_normalised(x) @ summary[0]).reshape(n_columns, n_rows, heads, -1)
        x = x + _softmax(scores).reshape(n_columns, n_rows, -1) @ summary[1]
        qkv = (_normalised(x).reshape(-1, c) @ block["qkv"]).reshape(
            n_columns, n_rows, 3, heads, c // heads
        )
        q, k, v = qkv.transpose(2, 1, 3, 0, 4)
        scores = np.ascontiguousarray(q) @ k.transpose(0, 1, 3, 2)
        scores *= np.float32((c // heads) ** -0.5)
        h = (_softmax(scores) @ v).transpose(2, 0, 1, 3).reshape(-1, c)
        return _add_mlp(block, x.reshape(-1, c) + h @ block["out"]).reshape(x.shape)

    def _pool(self, x) -> np.ndarray:
        """Return one token per row of (n_columns, n_rows, width)."""
        h = _normalised(x)
        shares = _softmax((h @ self.pool_score).transpose(1, 2, 0))
        pooled = shares @ h.transpose(1, 0, 2)
        return (
            (pooled.transpose(1, 0, 2) @ self.pool_value).transpose(1, 0, 2).reshape(x.shape[1], -1)
        )

    def _by_head(self, x) -> np.ndarray:
        return x.reshape(len(x), self.row_heads, -1).transpose(1, 0, 2)

    def _row_block(self, block, x, keys, values, log_weights, sharpness) -> np.ndarray:
        q = self._by_head(_normalised(x) @ block["qkv"][:, : self.row_width])
        scores = (q * np.float32(sharpness * q.shape[-1] ** -0.5)) @ keys
        h = (_softmax(scores, log_weights) @ values).transpose(1, 0, 2).reshape(x.shape)
        return _add_mlp(block, x + h @ block["out"])

    # --- queries ------------------------------------------------------------------------------

    def weigh(self, cells, context: Context, *, regression: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights of the training rows for queries, and logarithms of bandwidths."""
        n_queries = cells.shape[1]
        cells = np.pad(cells, ((0, 0), (0, -n_queries % _ROWS), (0, 0)), mode="edge")
        scale = np.float32(context.sharpness * self.row_width**-0.5)
        weights = np.empty((cells.shape[1], context.head.shape[1]), dtype=np.float32)
        bandwidths = np.empty(len(weights), dtype=np.float32)
        for start in range(0, len(weights), _ROWS):
            rows = slice(start, start + _ROWS)
            x = self._embed(cells[:, rows], context.columns)
            for block, summary in zip(self.cells, context.summaries, strict=True):
                x = self._cell_block(block, x, summary)
            x = self._pool(x) + self.a["unknown"][int(regression)]
            for block, k, v in zip(self.rows, context.keys, context.values, strict=True):
                x = self._row_block(block, x, k, v, context.log_weights, context.sharpness)
            x = _normalised(x)
            q = x @ self.query_key[:, : self.row_width] * scale
            weights[rows] = _softmax(q @ context.head, context.log_weights)
            bandwidths[rows] = (x @ self.bandwidth)[:, 0] + self.a["bandwidth.bias"][0]
        return weights[:n_queries], np.clip(bandwidths[:n_queries], -6, 1)


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, np.float32(0), out=x)


def _normalised(x: np.ndarray) -> np.ndarray:
    """Return rows of mean zero and variance one."""
    h = x - x.mean(axis=-1, keepdims=True)
    variance = np.einsum("...i,...i->...", h, h)[..., None] / np.float32(x.shape[-1])
    h /= np.sqrt(variance + np.float32(1e-5))
    return h


def _softmax(scores: np.ndarray, log_weights: np.ndarray | None = None) -> np.ndarray:
    """Return shares along the last axis, in the memory of the scores."""
    if log_weights is not None:
        scores += log_weights
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def _add_mlp(block, x: np.ndarray) -> np.ndarray:
    return x + _relu(_normalised(x) @ block["up"] + block["offset"]) @ block["down"]


@cache
def load_network() -> Network:
    """Return the network of the weights in this package; a changed file is refused."""
    content = files("vicinal.pretrained").joinpath("weights.npz").read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise OSError(
            f"weights.npz of vicinal.pretrained has the hash {found[:12]}..., but {SHA256[:12]}... "
            "is expected; install the package again."
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return Network(dict(stored))
