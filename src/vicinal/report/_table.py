"""The table of a report: its columns, and error by segment."""

from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from vicinal._base import is_frame
from vicinal._base._tables import column_values
from vicinal.inspection.checks import EncodedTable
from vicinal.report._quality import wilson
from vicinal.table import TableEncoder


def column_in_order(X: Any, j: int) -> tuple[list[Any], str]:
    """Return a column by which rows can be ordered, and "number", "date" or "category".

    Numbers in strings are parsed, dates become a number of days, categories stay.
    """
    values = column_values(X, j)
    if all(isinstance(value, int | float) for value in values if value is not None):
        return values, "number"
    if not is_frame(X):
        return values, "category"
    column = X[[X.columns[j]]]
    encoder = TableEncoder("tree")
    try:
        counts = encoder.fit_transform(column)[:, -1]
    except ValueError:  # an identifier
        return values, "category"
    kind = next(iter(encoder.kinds_.values()))
    if kind not in ("number", "date"):
        return values, "category"
    return [None if np.isnan(count) else float(count) for count in counts], kind


def with_column(X: Any, j: int, source: Any, index: np.ndarray) -> Any:
    """Return the rows with column ``j`` taken from rows ``index`` of another such table.

    Every value occurs in the table, so integers stay integers and categories stay categories.
    """
    if hasattr(X, "get_columns"):
        return X.with_columns(source.to_series(j)[index.tolist()])
    if is_frame(X):
        changed = X.copy()
        changed[X.columns[j]] = source.iloc[index, j].set_axis(X.index)
        return changed
    changed = np.array(X)
    changed[:, j] = np.asarray(source)[index, j]
    return changed


_DEPTH = 3
_LEAST_ROWS = 80
_NORMAL = 1.96


def segments(
    encoded: EncodedTable, errors: np.ndarray, is_share: bool, rng: np.random.RandomState
) -> dict[str, Any] | None:
    """Return segments of the table with their errors, worst first.

    One half of the rows defines the segments, the other half estimates their errors, so the
    estimates have no selection bias. ``None`` if the tree predicts the errors of the other half no
    better than their mean.
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
        reach = _NORMAL * float(errors.std(ddof=1)) / np.sqrt(count) if count > 1 else 0.0
        low, high = max(0.0, mean - reach), mean + reach
    return {"count": count, "error": mean, "low": low, "high": high}


def _conditions(tree: Any, names: np.ndarray) -> dict[int, list[str]]:
    """Return the conditions of each leaf, one text per column."""
    found: dict[int, list[str]] = {}

    def visit(node: int, limits: dict[int, tuple[float, float]]) -> None:
        if tree.children_left[node] == -1:
            found[node] = [_condition(str(names[j]), *limits[j]) for j in limits]
            return
        j, threshold = int(tree.feature[node]), float(tree.threshold[node])
        low, high = limits.get(j, (-np.inf, np.inf))
        visit(tree.children_left[node], {**limits, j: (low, min(high, threshold))})
        visit(tree.children_right[node], {**limits, j: (max(low, threshold), high)})

    visit(0, {})
    return found


def _condition(name: str, low: float, high: float) -> str:
    """Return a condition as text; categories and missing values are columns of 0 and 1."""
    if " = " in name and 0 <= max(low, 0) <= 1:
        return name if low > 0 else name.replace(" = ", " is not ", 1)
    if name.endswith(" missing"):
        return name if low > 0 else f"{name.removesuffix(' missing')} known"
    if np.isinf(low):
        return f"{name} ≤ {high:.4g}"
    return f"{name} > {low:.4g}" if np.isinf(high) else f"{low:.4g} < {name} ≤ {high:.4g}"
