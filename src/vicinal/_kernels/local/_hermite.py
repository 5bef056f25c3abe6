"""Cubic Hermite interpolation on a line and on a rectangular grid, from values and slopes."""

import numpy as np


def quantile_nodes(x: np.ndarray, n_cells: int) -> np.ndarray:
    """Return increasing nodes from the least to the largest value, cells of about equal count."""
    return np.unique(np.quantile(x, np.linspace(0.0, 1.0, n_cells + 1)))


def _basis(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the weights of (left value, left slope, right value, right slope) on [0, 1]."""
    s = 1.0 - t
    return (1.0 + 2.0 * t) * s * s, t * s * s, t * t * (3.0 - 2.0 * t), -t * t * s


def _cells(nodes: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    cell = np.clip(np.searchsorted(nodes, q, side="right") - 1, 0, len(nodes) - 2)
    width = nodes[cell + 1] - nodes[cell]
    return cell, width, (q - nodes[cell]) / width


def hermite_line(nodes, values, slopes, q) -> np.ndarray:
    """Interpolate values (n_nodes, n_outputs) with slopes at the points q within the nodes."""
    cell, width, t = _cells(nodes, q)
    left, left_slope, right, right_slope = (b[:, None] for b in _basis(t))
    width = width[:, None]
    return (
        left * values[cell]
        + width * left_slope * slopes[cell]
        + right * values[cell + 1]
        + width * right_slope * slopes[cell + 1]
    )


def grid_twists(nodes: tuple[np.ndarray, np.ndarray], slopes: np.ndarray) -> np.ndarray:
    """Estimate mixed derivatives by differences of slopes of shape (n_0, n_1, n_outputs, 2)."""
    first = np.gradient(slopes[..., 0], nodes[1], axis=1)
    second = np.gradient(slopes[..., 1], nodes[0], axis=0)
    return 0.5 * (first + second)


def hermite_grid(nodes, values, slopes, twists, Q) -> np.ndarray:
    """Interpolate on a rectangular grid.

    Parameters
    ----------
    nodes : pair of ndarray
        Increasing coordinates along both axes.
    values : ndarray of shape (n_0, n_1, n_outputs)
        Values at the nodes.
    slopes : ndarray of shape (n_0, n_1, n_outputs, 2)
        Partial derivatives there.
    twists : ndarray of shape (n_0, n_1, n_outputs)
        Mixed derivatives there.
    Q : ndarray of shape (n_queries, 2)
        Points within the grid.
    """
    i, width_i, t_i = _cells(nodes[0], Q[:, 0])
    j, width_j, t_j = _cells(nodes[1], Q[:, 1])
    b_i, b_j = _basis(t_i), _basis(t_j)
    out = np.zeros((len(Q), values.shape[2]))
    for a in (0, 1):
        for b in (0, 1):
            at = (i + a, j + b)
            value_i, slope_i = b_i[2 * a], b_i[2 * a + 1] * width_i
            value_j, slope_j = b_j[2 * b], b_j[2 * b + 1] * width_j
            out += (value_i * value_j)[:, None] * values[at]
            out += (slope_i * value_j)[:, None] * slopes[at][..., 0]
            out += (value_i * slope_j)[:, None] * slopes[at][..., 1]
            out += (slope_i * slope_j)[:, None] * twists[at]
    return out
