"""The table of a report: a map of its rows, and error by segment."""

from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from vicinal._base import is_frame
from vicinal._base._tables import column_values
from vicinal.inspection.checks import EncodedTable, shortened
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


_NAMED = 2
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


def flat_picture(
    Z: np.ndarray, y: np.ndarray, is_classification: bool, names: list[str]
) -> tuple[np.ndarray, list[str]]:
    """Return two coordinates per row in the unit square, related to the target, and their names.

    For three or more classes they are discriminant axes. For two classes and regression the first
    axis is the discriminant or the covariance with the target, the second the first principal
    component orthogonal to it. An axis is named after the columns that correlate most with it.
    """
    Z = StandardScaler().fit_transform(Z)
    if is_classification:
        lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(Z, y)
        axes = lda.scalings_[:, : min(2, len(lda.classes_) - 1, Z.shape[1])]
    else:
        axes = (Z.T @ (y - y.mean()))[:, None]
    titles = ["first discriminant direction", "second discriminant direction"]
    if axes.shape[1] < 2:
        titles = [f"direction of the {'classes' if is_classification else 'target'}"]
        titles.append("principal direction")
        axis = axes / (np.linalg.norm(axes) or 1.0)
        across = Z - (Z @ axis) @ axis.T
        axes = np.column_stack([axis, np.linalg.eigh(across.T @ across)[1][:, -1]])
    plane = Z @ axes
    labels = []
    for title, shift in zip(titles, (Z.T @ plane).T, strict=True):
        top = np.argsort(-np.abs(shift), kind="stable")[:_NAMED]
        top = top[np.abs(shift[top]) >= 0.5 * np.abs(shift[top[0]])]
        parts = [f"{'−' if shift[j] < 0 else ''}{shortened(names[j])}" for j in top]
        labels.append(f"{title}: mostly {', '.join(parts)}")
    low, high = np.percentile(plane, [0.3, 99.7], axis=0)
    return np.clip((plane - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0), labels


def regions(model: Any, X: Any, y: Any, names: list[str]) -> dict[str, Any]:
    """Describe the regions of a partition; ``X`` is the encoded table."""
    Z = np.asarray(X, dtype=float)
    region = np.asarray(model.apply(X))
    region = region[:, 0] if region.ndim == 2 else region  # the best of several cascades
    scale = np.where(Z.std(axis=0) > 0, Z.std(axis=0), 1.0)
    is_classifier = hasattr(model, "classes_")
    wrong = None
    if y is not None:
        prediction = model.predict(X)
        wrong = prediction != y if is_classifier else np.abs(prediction - y)
    table = []
    for k in range(model.n_regions_):
        inside = region == k
        if not inside.any():
            continue
        shift = (Z[inside].mean(axis=0) - Z.mean(axis=0)) / scale
        order = np.argsort(-np.abs(shift), kind="stable")[:4]
        table.append(
            {
                "region": k,
                "count": int(inside.sum()),
                "share": float(inside.mean()),
                "loss": None if wrong is None else float(wrong[inside].mean()),
                "target": [] if y is None else _target_shares(y[inside], model),
                "apart": [
                    {"name": names[j], "shift": float(shift[j])}
                    for j in order
                    if abs(shift[j]) > 0.1
                ],
            }
        )
    return {
        "model": type(model).__name__,
        "loss": "error" if is_classifier else "mean absolute error",
        "rows": sorted(table, key=lambda row: -row["count"]),
    }


def _target_shares(y, model) -> list[dict[str, Any]]:
    if not hasattr(model, "classes_"):
        low, middle, high = np.percentile(y, [10, 50, 90])
        return [{"label": f"{low:.4g} to {high:.4g}, median {middle:.4g}", "share": None}]
    shares = [(str(label), float(np.mean(y == label)), k) for k, label in enumerate(model.classes_)]
    return [
        {"label": label, "share": share, "code": k}
        for label, share, k in sorted(shares, key=lambda item: -item[1])[:6]
        if share > 0
    ]
