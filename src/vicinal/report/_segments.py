"""Where in the table the answers are worse: segments that a shallow tree names."""

from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from vicinal.report._calibration import wilson
from vicinal.report._table import EncodedTable

_DEPTH = 3
_LEAST_ROWS = 80
_Z = 1.96


def segments(
    encoded: EncodedTable, errors: np.ndarray, is_share: bool, rng: np.random.RandomState
) -> dict[str, Any] | None:
    """Return segments of the table with their errors, worst first.

    One half of the rows says where the segments are, the other how large the errors in them, so a
    segment is not bad because it was looked for. ``None`` where the tree tells the other half's
    errors no better than their mean: then no segment stands out.
    """
    if len(errors) < _LEAST_ROWS or not encoded.is_nameable.any() or np.ptp(errors) == 0:
        return None
    Z, names = encoded.Z[:, encoded.is_nameable], np.array(encoded.names)[encoded.is_nameable]
    order = rng.permutation(len(errors))
    first, second = order[::2], order[1::2]
    leaf = max(10, len(first) // 12)
    tree = DecisionTreeRegressor(max_depth=_DEPTH, min_samples_leaf=leaf, random_state=0)
    tree.fit(Z[first], errors[first])
    if tree.score(Z[second], errors[second]) <= 0:
        return None
    leaves, conditions = tree.apply(Z[second]), _conditions(tree.tree_, names)
    rows = [
        {"conditions": conditions[leaf], **_summary(errors[second][leaves == leaf], is_share)}
        for leaf in np.unique(leaves).tolist()
    ]
    rows.sort(key=lambda row: -row["error"])
    longest = max(row["high"] for row in rows) or 1.0
    for row in rows:
        row["length"], row["spread"] = row["error"] / longest, row["high"] / longest
    return {
        "rows": rows,
        "is_share": is_share,
        "error": float(errors[second].mean()),
        "n_rows": len(second),
    }


def _summary(errors: np.ndarray, is_share: bool) -> dict[str, Any]:
    mean, count = float(errors.mean()), len(errors)
    if is_share:
        low, high = wilson(mean, count)
    else:
        reach = _Z * float(errors.std(ddof=1)) / np.sqrt(count) if count > 1 else 0.0
        low, high = max(0.0, mean - reach), mean + reach
    return {"count": count, "error": mean, "low": low, "high": high}


def _conditions(tree: Any, names: np.ndarray) -> dict[int, list[str]]:
    """Return for each leaf what its rows have in common, one text for each column."""
    found: dict[int, list[str]] = {}

    def walk(node: int, limits: dict[int, tuple[float, float]]) -> None:
        if tree.children_left[node] == -1:
            found[node] = [_condition(str(names[j]), *limits[j]) for j in limits]
            return
        j, threshold = int(tree.feature[node]), float(tree.threshold[node])
        low, high = limits.get(j, (-np.inf, np.inf))
        walk(tree.children_left[node], {**limits, j: (low, min(high, threshold))})
        walk(tree.children_right[node], {**limits, j: (max(low, threshold), high)})

    walk(0, {})
    return found


def _condition(name: str, low: float, high: float) -> str:
    """Say in words between which limits a column lies; levels and gaps are columns of 0 and 1."""
    if " = " in name and 0 <= max(low, 0) <= 1:
        return name if low > 0 else name.replace(" = ", " is not ", 1)
    if name.endswith(" missing"):
        return name if low > 0 else f"{name.removesuffix(' missing')} known"
    if np.isinf(low):
        return f"{name} ≤ {high:.4g}"
    return f"{name} > {low:.4g}" if np.isinf(high) else f"{low:.4g} < {name} ≤ {high:.4g}"
