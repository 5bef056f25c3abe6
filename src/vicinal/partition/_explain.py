"""Explanations of a cascade: the path through the gates, and the model of the region."""

from typing import Any

import numpy as np

from vicinal._base._explanation import (
    ExplanationSection,
    RowColumns,
    coefficient_section,
    dense_row,
    show,
    two_best,
)
from vicinal.partition.stages import Cascade, LinearGate, LinearRegionClassifier, rows_by_class


def cascade_sections(
    cascade: Cascade, X: Any, scaler: Any, columns: RowColumns
) -> list[ExplanationSection]:
    """Return the path of a row through the gates, and the coefficients of its region's model."""
    region = int(cascade.apply(X)[0])
    coefficients = region_coefficients(cascade.regions[region], X, scaler, columns, region)
    return [gate_section(cascade, X, region), *coefficients]


def gate_section(cascade: Cascade, X: Any, region: int) -> ExplanationSection:
    """Return the gates on the path of a row to its region."""
    scores = cascade.gate_scores(X)[0]
    rows = [
        (f"gate {k}", float(score), "passed on" if score > 0 else f"kept in region {k}")
        for k, score in enumerate(scores[: region + 1])
    ]
    if region == len(scores) and len(scores):
        rows.append((f"region {region}", 0.0, "last region"))
    n_regions, size = cascade.n_regions, int(cascade.region_sizes[region])
    n_rows = int(cascade.region_sizes.sum())
    known = f", which has {size} of {n_rows} training rows" if n_rows else ""
    summary = f"The row is in region {region} of {n_regions}{known}."
    if cascade.soft:
        summary += " The gates are soft, so the other regions contribute too, with their weights."
    values = {
        "region": region,
        "n_regions": n_regions,
        "region_size": size,
        "gate_scores": scores.tolist(),
    }
    head = ("stage", "score", "decision")
    return ExplanationSection("region", "Region", summary, head, rows, None, values)


def region_coefficients(
    part: Any, prepared: Any, scaler: Any, columns: RowColumns, region: int
) -> list[ExplanationSection]:
    """Return the coefficients of the model of a region, where it is linear."""
    coef = getattr(part, "coef_", None)
    if coef is None or np.ndim(coef) == 0 or np.shape(coef)[-1] != len(columns.names):
        return []
    z, scale = dense_row(prepared)[0], getattr(scaler, "scale_", None)
    scale = 1.0 if scale is None else scale  # to units of the original columns
    coef, intercept = np.atleast_2d(coef), np.atleast_1d(part.intercept_)
    if not hasattr(part, "classes_"):
        text = f"Prediction of region {region}: {show(float(intercept[0]))} plus the contributions."
        level = float(intercept[0])
        return [coefficient_section(columns, coef[0] / scale, z * scale, text, intercept=level)]
    if len(coef) == 1:
        coef = np.vstack([np.zeros_like(coef[0]), coef[0]])
        intercept = np.array([0.0, float(intercept[0])])
    first, second = two_best(coef @ z + intercept)
    if not np.isfinite(intercept[second]):
        text = f"All training rows of region {region} are {show(part.classes_[first])}."
        return [ExplanationSection("coefficients", "Coefficients", text)]
    level = float(intercept[first] - intercept[second])
    names = {"chosen": part.classes_[first], "rival": part.classes_[second]}
    chosen, rival = (show(name) for name in names.values())
    text = (
        f"The model of region {region} predicts {chosen} rather than {rival} if the sum of these "
        f"contributions and {show(level)} is above 0."
    )
    slope, values = (coef[first] - coef[second]) / scale, {"intercept": level, **names}
    return [coefficient_section(columns, slope, z * scale, text, **values)]


def surrogate_sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
    """Return the sections of the two-region surrogate, which is a cascade of linear models."""
    pairs = zip(model.coef_, model.intercept_, strict=True)
    regions = [LinearRegionClassifier(model.classes_, *rows_by_class(*pair)) for pair in pairs]
    cascade = Cascade(regions, [LinearGate(model.gate_coef_, model.gate_intercept_)])
    return cascade_sections(cascade, model._prepared(X), model.scaler_, columns)
