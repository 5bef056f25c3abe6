"""What the network sees of a table: features of cells and of targets."""

import numpy as np
from scipy.special import ndtri


class ColumnScale:
    """Ranks and standardised values of one column, by the training rows.

    Parameters
    ----------
    values : ndarray of shape (n_train,)
        Values of the training rows; NaN where missing.
    weights : ndarray of shape (n_train,)
        Sample weights; weight 2 is the row twice.
    is_category : bool
        Whether values are codes of categories.
    """

    def __init__(self, values: np.ndarray, weights: np.ndarray, is_category: bool = False) -> None:
        self.is_category = is_category
        known = ~np.isnan(values)
        self.knots, codes = np.unique(values[known], return_inverse=True)
        counts = np.bincount(codes, weights=weights[known], minlength=len(self.knots))
        self.ends = np.concatenate([[0.0], np.cumsum(counts)])
        self.total = max(float(self.ends[-1]), 1.0)
        if len(self.knots):
            self.mean = float(np.average(self.knots, weights=counts))
            variance = np.average((self.knots - self.mean) ** 2, weights=counts)
            self.deviation = float(np.sqrt(variance)) + 1e-6 * (1 + abs(self.mean))
        else:
            self.mean, self.deviation = 0.0, 1.0

    def counts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight of the training rows below each value, and with those equal to it."""
        low, high = (np.searchsorted(self.knots, values, side=side) for side in ("left", "right"))
        return self.ends[low], self.ends[high]


def cell_features(scales: list[ColumnScale], values: np.ndarray) -> np.ndarray:
    """Return the features of cells, (n_columns, n_rows, 16); values are (n_columns, n_rows)."""
    settings = [(one.mean, one.deviation, one.total, one.is_category) for one in scales]
    mean, deviation, total, is_category = np.array(settings).T[..., None]
    pairs = zip(scales, values, strict=True)
    low, high = np.array([scale.counts(row) for scale, row in pairs]).swapaxes(0, 1)
    missing = np.isnan(values)
    z = (np.where(missing, mean, values) - mean) / deviation
    low, high = np.where(missing, 0.0, low), np.where(missing, 0.0, high)
    rank = np.clip(0.5 * (low + high), 0.5, total - 0.5) / total
    angles = np.pi * 2.0 ** np.arange(5) * (rank[..., None] - 0.5)
    out = np.empty((*values.shape, 16), dtype=np.float32)
    out[..., 0] = 4 * np.tanh(z / 4)
    out[..., 1] = ndtri(rank)
    out[..., 2:12:2], out[..., 3:12:2] = np.sin(angles), np.cos(angles)
    out[..., 12] = np.sqrt((high - low) / total)
    out[..., 13], out[..., 14] = 1.0, is_category
    out[missing, :15] = 0.0
    out[..., 15] = missing
    return out


MAX_COLUMNS = 128  # of a pass; training tables had at most 64


class TableScale:
    """The columns of a table that vary, each with its scale; a random sample of very many.

    Parameters
    ----------
    X : ndarray of shape (n_train, n_features)
        Training rows; NaN where missing.
    weights : ndarray of shape (n_train,)
        Sample weights.
    is_category : ndarray of shape (n_features,)
        Which columns hold codes of categories.
    rng : RandomState
        Samples columns where more than ``MAX_COLUMNS`` vary.
    """

    def __init__(
        self,
        X: np.ndarray,
        weights: np.ndarray,
        is_category: np.ndarray,
        rng: np.random.RandomState,
    ) -> None:
        first = X[:1]
        varies = ((X != first) & ~(np.isnan(X) & np.isnan(first))).any(axis=0)
        varies[0] |= not varies.any()
        self.columns = np.flatnonzero(varies)
        if len(self.columns) > MAX_COLUMNS:
            self.columns = np.sort(rng.permutation(self.columns)[:MAX_COLUMNS])
        self.scales = [ColumnScale(X[:, j], weights, bool(is_category[j])) for j in self.columns]

    def features(self, X: np.ndarray) -> np.ndarray:
        """Return the features of cells, (n_columns, n_rows, 16)."""
        return cell_features(self.scales, X[:, self.columns].T)


def target_features(y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the features of standardised targets, (n_train, 16)."""
    features = cell_features([ColumnScale(y, weights)], y[None])[0]
    features[:, 0] = 4 * np.tanh(y / 4)
    return features
