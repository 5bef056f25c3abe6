"""Where the rows lie: a flat picture of the table, and the regions of a partition."""

from typing import Any

import numpy as np
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler

from vicinal.uncertainty import uncertainty_map


def flat_picture(Z: np.ndarray, y: np.ndarray, is_classification: bool) -> np.ndarray:
    """Return two coordinates per row, in the unit square: the plane that shows the target best.

    Classes: discriminant axes, and for two classes the main direction across the one axis there
    is. Numbers: the first two components of partial least squares.
    """
    Z = StandardScaler().fit_transform(Z)
    if Z.shape[1] < 2:
        Z = np.column_stack([Z, np.zeros(len(Z))])
    if is_classification:
        lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(Z, y)
        plane = lda.transform(Z)[:, :2]
        if plane.shape[1] < 2:
            axis = lda.scalings_[:, :1] / np.linalg.norm(lda.scalings_[:, :1])
            across = PCA(1, random_state=0).fit_transform(Z - (Z @ axis) @ axis.T)
            plane = np.column_stack([plane, across])
    else:
        plane = PLSRegression(2).fit(Z, y).transform(Z)
    low, high = np.percentile(plane, [1, 99], axis=0)
    return np.clip((plane - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)


def neighbor_doubt(Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the share of each row's neighbours that belong to other classes."""
    return uncertainty_map(StandardScaler().fit_transform(Z), y)


def regions(model: Any, Z: np.ndarray, y: Any, names: list[str]) -> dict[str, Any] | None:
    """Describe the regions of a partition; ``None`` for a model that has none."""
    if not hasattr(model, "n_regions_") or not hasattr(model, "apply"):
        return None
    region = np.asarray(model.apply(Z))
    region = region[:, 0] if region.ndim == 2 else region  # the best of several cascades
    scale = np.where(Z.std(axis=0) > 0, Z.std(axis=0), 1.0)
    wrong = None if y is None else _loss(model, Z, y)
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
                    {"name": names[j], "shift": float(shift[j])} for j in order if abs(shift[j]) > 0.1
                ],
            }
        )
    is_classifier = hasattr(model, "classes_")
    return {
        "model": type(model).__name__,
        "loss": "error" if is_classifier else "mean absolute error",
        "rows": sorted(table, key=lambda row: -row["count"]),
    }


def _loss(model, Z, y) -> np.ndarray:
    answer = model.predict(Z)
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
