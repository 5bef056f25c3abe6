"""Reasons of a cascade: the way through the gates, and the model of the region."""

from typing import Any

import numpy as np

from vicinal.inspection._columns import Columns, dense_row
from vicinal.inspection._explain_linear import coefficient_section, two_best, unscaled
from vicinal.inspection._explanation import ExplanationSection, show


def explain_cascade(model: Any, X: Any, columns: Columns) -> list[ExplanationSection]:
    """Return the path and the region's coefficients for a space-partitioning model."""
    best = model.restarts_[0]
    prepared = model._prepared(X)
    region = int(best.apply(prepared)[0])
    sections = [_path(model, best, prepared, region)]
    part = _region_model(model, best.regions[region], prepared, columns, region)
    return [*sections, part] if part is not None else sections


def _path(model: Any, best: Any, prepared: Any, region: int) -> ExplanationSection:
    scores = best.gate_scores(prepared)[0]
    rows = [
        (f"gate {k}", float(score), "passed on" if score > 0 else f"kept in region {k}")
        for k, score in enumerate(scores[: region + 1])
    ]
    if region == len(scores) and len(scores):
        rows.append((f"region {region}", 0.0, "the last region takes what is left"))
    n_regions, size = best.n_regions, int(best.region_sizes[region])
    summary = (
        f"The row falls in region {region} of {n_regions}, which held {size} of "
        f"{int(best.region_sizes.sum())} training rows."
    )
    if best.soft:
        summary += " The gates are soft: other regions speak too, with their share."
    values = {
        "region": region,
        "n_regions": n_regions,
        "region_size": size,
        "gate_scores": scores.tolist(),
    }
    if len(model.restarts_) > 1:
        answers = np.array([_answer(model, start, prepared) for start in model.restarts_])
        values["n_cascades"] = len(model.restarts_)
        if hasattr(model, "classes_"):
            said = model._predict_labels(model.restarts_, prepared)[0]
            values["n_agreeing"] = int((answers == said).sum())
            summary += (
                f" This is the best of {len(model.restarts_)} cascades that vote together; "
                f"{values['n_agreeing']} of them would say {show(said)}."
            )
        else:
            summary += (
                f" This is the best of {len(model.restarts_)} cascades whose mean is predicted; "
                f"their answers run from {show(answers.min())} to {show(answers.max())}."
            )
    return ExplanationSection(
        "region", "Region", summary, ("stage", "score", "decision"), rows, None, values
    )


def _answer(model: Any, cascade: Any, prepared: Any) -> Any:
    is_classifier = hasattr(model, "classes_")
    if is_classifier and cascade.soft:
        return model.classes_[cascade.predict_proba(prepared, model.classes_).argmax()]
    return cascade.predict(prepared, model.classes_.dtype if is_classifier else float)[0]


def _region_model(model: Any, part: Any, prepared: Any, columns: Columns, region: int):
    coef = getattr(part, "coef_", None)
    if coef is None or np.ndim(coef) == 0 or np.shape(coef)[-1] != len(columns.names):
        return None
    z = dense_row(prepared)[0]
    coef, intercept = np.atleast_2d(coef), np.atleast_1d(part.intercept_)
    if not hasattr(part, "classes_"):
        slope, level = coef[0], float(intercept[0])
        said = f"The model of region {region} starts from {show(level)} at its origin and adds:"
        names = {}
    else:
        if len(coef) == 1:
            coef = np.vstack([np.zeros_like(coef[0]), coef[0]])
            intercept = np.array([0.0, float(intercept[0])])
        first, second = two_best(coef @ z + intercept)
        if not np.isfinite(intercept[second]):
            said = f"Region {region} held {show(part.classes_[first])} only, and so always says it."
            return ExplanationSection("coefficients", "Coefficients", said)
        slope = coef[first] - coef[second]
        level = float(intercept[first] - intercept[second])
        chosen, rival = part.classes_[first], part.classes_[second]
        said = (
            f"The model of region {region} prefers {show(chosen)} to {show(rival)} where the sum "
            f"of these contributions and {show(level)} is above 0."
        )
        names = {"chosen": chosen, "rival": rival}
    per_unit = unscaled(slope, model.scaler_)
    offset = np.divide(slope * z, per_unit, out=np.zeros_like(z), where=per_unit != 0)
    return coefficient_section(columns, per_unit, offset, said, intercept=level, **names)


def explain_surrogate(model: Any, X: Any, columns: Columns) -> list[ExplanationSection]:
    """Return the side of the gate and the coefficients there for the two-region surrogate."""
    score = float(np.ravel(model.decision_path(X))[0])
    region = int(model.apply(X)[0])
    prepared = model._prepared(X)
    summary = f"The gate gives {show(score)}, so the row falls in region {region} of 2."
    rows = [("gate", score, f"region {region}")]
    values = {"region": region, "n_regions": 2, "gate_scores": [score]}
    path = ExplanationSection(
        "region", "Region", summary, ("stage", "score", "decision"), rows, None, values
    )
    chosen = model.classes_.tolist().index(model.predict(X)[0])
    sign = 1.0 if chosen == 1 else -1.0
    slope, z = sign * model.coef_[region], prepared[0]
    level = sign * float(model.intercept_[region])
    per_unit = unscaled(slope, model.scaler_)
    offset = np.divide(slope * z, per_unit, out=np.zeros_like(z), where=per_unit != 0)
    said = (
        f"The model of region {region} prefers {show(model.classes_[chosen])} to "
        f"{show(model.classes_[1 - chosen])} where the sum of these contributions and "
        f"{show(level)} is above 0."
    )
    return [path, coefficient_section(columns, per_unit, offset, said, intercept=level)]
