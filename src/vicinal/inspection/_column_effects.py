"""How the answer changes when one column at a time is taken from other rows."""

from typing import Any

import numpy as np

from vicinal._base._compat import num_samples, rows_of
from vicinal._base._explanation import ExplanationSection, show, values_of

# Background rows that each column is borrowed from.
_MOST_ROWS = 60


def column_effects(
    model: Any, table: Any, names: list[str], prediction: Any, background: Any
) -> ExplanationSection:
    r"""Return how the answer changes when one column at a time is taken from other rows.

    For column :math:`j` this is :math:`f(x) - \frac{1}{m}\sum_b f(x \text{ with } x_j := b_j)`,
    with :math:`f` the probability of the predicted class, or the predicted value.
    """
    chosen = np.unique(
        np.linspace(0, num_samples(background) - 1, _MOST_ROWS).round().astype(np.int64)
    )
    others = rows_of(background, chosen)
    answer, what = _answer_of(model, prediction)
    here = float(answer(table)[0])
    changes = here - np.array(
        [np.mean(answer(_with_column(table, others, j))) for j in range(len(names))]
    )
    # Columns that the model never asks about change nothing but the rounding.
    changes = np.where(np.abs(changes) > 1e-12 * max(1.0, abs(here)), changes, 0.0)
    values = values_of(table)
    order = np.argsort(-np.abs(changes), kind="stable")
    rows = [(names[j], values[j], float(changes[j])) for j in order]
    summary = (
        f"So much of {what} is due to a column having this value and not that of another row "
        f"(mean over {len(chosen)} rows; columns one at a time, so effects of pairs are not split)."
    )
    return ExplanationSection(
        "columns", "Columns", summary, ("column", "value", "effect"), rows, "effect", {"here": here}
    )


def _answer_of(model: Any, prediction: Any):
    if not hasattr(model, "classes_"):
        return lambda rows: np.asarray(model.predict(rows), dtype=float), "the prediction"
    at = model.classes_.tolist().index(prediction)
    label = show(prediction)
    if hasattr(model, "predict_proba"):
        return lambda rows: np.asarray(model.predict_proba(rows))[:, at], f"the chance of {label}"
    return (
        lambda rows: (np.asarray(model.predict(rows)) == prediction).astype(float),
        f"the decision for {label}",
    )


def _with_column(table: Any, others: Any, j: int) -> Any:
    """Return copies of the row, one for each other row, with its value in column ``j``."""
    copies = rows_of(table, np.zeros(num_samples(others), dtype=np.int64))
    if hasattr(copies, "with_columns"):  # polars
        return copies.with_columns(others[others.columns[j]].alias(copies.columns[j]))
    if hasattr(copies, "columns"):
        name = copies.columns[j]
        return copies.assign(**{name: np.asarray(others.iloc[:, j])})
    if hasattr(copies, "tolil"):
        copies = copies.tolil()
        copies[:, j] = others[:, [j]]
        return copies.tocsr()
    copies = np.array(copies)
    copies[:, j] = np.asarray(others)[:, j]
    return copies
