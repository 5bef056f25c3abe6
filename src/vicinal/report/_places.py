"""Where the rows lie: a flat picture of the table, and the regions of a partition."""

from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler


def flat_picture(Z: np.ndarray, y: np.ndarray, is_classification: bool) -> np.ndarray:
    """Return two coordinates per row, in the unit square: the plane that shows the target best.

    Three classes or more have two discriminant axes. Two classes and numbers have one axis, the
    discriminant or the covariance with the target; the other is the main direction across it.
    """
    Z = StandardScaler().fit_transform(Z)
    if is_classification:
        lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(Z, y)
        axes = lda.scalings_[:, : min(2, len(lda.classes_) - 1, Z.shape[1])]
    else:
        axes = (Z.T @ (y - y.mean()))[:, None]
    if axes.shape[1] < 2:
        axis = axes / (np.linalg.norm(axes) or 1.0)
        across = Z - (Z @ axis) @ axis.T
        axes = np.column_stack([axis, np.linalg.eigh(across.T @ across)[1][:, -1]])
    plane = Z @ axes
    low, high = np.percentile(plane, [0.3, 99.7], axis=0)
    return np.clip((plane - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)


def regions(model: Any, X: Any, y: Any, names: list[str]) -> dict[str, Any] | None:
    """Describe the regions of a partition; ``None`` for a model that has none.

    ``X`` is the table as the model takes it, all numbers.
    """
    if not hasattr(model, "n_regions_") or not hasattr(model, "apply"):
        return None
    Z = np.asarray(X, dtype=float)
    region = np.asarray(model.apply(X))
    region = region[:, 0] if region.ndim == 2 else region  # the best of several cascades
    scale = np.where(Z.std(axis=0) > 0, Z.std(axis=0), 1.0)
    wrong = None if y is None else _loss(model, X, y)
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
    is_classifier = hasattr(model, "classes_")
    return {
        "model": type(model).__name__,
        "loss": "error" if is_classifier else "mean absolute error",
        "rows": sorted(table, key=lambda row: -row["count"]),
    }


def _loss(model, X, y) -> np.ndarray:
    answer = model.predict(X)
    return (answer != y).astype(float) if hasattr(model, "classes_") else np.abs(answer - y)


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
