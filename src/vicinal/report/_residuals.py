"""Errors of numbers: predicted against true, residuals, and how wide intervals must be."""

from typing import Any

import numpy as np

from vicinal._kernels.calibration._conformal import conformal_quantile
from vicinal.report._calibration import wilson
from vicinal.report._charts import Axis

_LEVELS = (0.5, 0.8, 0.9, 0.95)
_N_BARS = 24
_N_PARTS = 10
_LEAST_ROWS = 40


def residuals(y: np.ndarray, prediction: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """Return predicted values against true ones and against their errors, of some rows."""
    off = y - prediction
    both = Axis(np.concatenate([y, prediction]), "predicted")
    true = Axis([], "true", low=both.low, high=both.high)
    reach = float(np.quantile(np.abs(off), 0.995)) or 1.0
    error = Axis([], "true less predicted", low=-reach, high=reach)
    counts, edges = np.histogram(np.clip(off, -reach, reach), bins=_N_BARS, range=(-reach, reach))
    return {
        "predicted": both.as_dict(),
        "true": true.as_dict(),
        "error": error.as_dict(),
        "points": [
            {"row": int(row), "x": x, "y": t, "off": e}
            for row, x, t, e in zip(
                rows, both.at(prediction[rows]), true.at(y[rows]), error.at(off[rows]), strict=True
            )
        ],
        "bars": [
            {"count": int(count), "low": float(low), "high": float(high)}
            for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True)
        ],
        # Of a linear fit it is zero but for rounding.
        "bias": float(off.mean()) if abs(off.mean()) > 1e-9 * reach else 0.0,
        "beyond": int(np.sum(np.abs(off) > reach)),
    }


def coverage(y: np.ndarray, prediction: np.ndarray, rng: np.random.RandomState) -> Any:
    """Return how wide intervals around the answers are, and how many truths they hold.

    The rows are dealt into ten parts. A part's intervals reach as far as the conformal quantile of
    the errors of the other parts, so that no row decides about its own.
    """
    if len(y) < _LEAST_ROWS:
        return None
    off = np.abs(y - prediction)
    parts = rng.permutation(np.arange(len(y)) % _N_PARTS)
    rows = []
    for level in _LEVELS:
        reach = np.array([conformal_quantile(off[parts != k], level) for k in range(_N_PARTS)])
        held = float(np.mean(off <= reach[parts]))
        low, high = wilson(held, len(y))
        rows.append(
            {"level": level, "held": held, "low": low, "high": high, "reach": float(reach.mean())}
        )
    return {"levels": rows, "n_rows": len(y)}
