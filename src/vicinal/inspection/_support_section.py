"""Whether rows like this one were seen."""

from typing import Any

import numpy as np
from scipy import sparse

from vicinal._base import as_numpy
from vicinal._base._compat import num_samples
from vicinal._base._explanation import ExplanationSection
from vicinal._conformal import StandardizedRows, Typicality
from vicinal.table import TableEncoder

# Rows as lonely as fewer than this share of the others are unusual.
_UNUSUAL = 0.05


def support_section(table: Any, background: Any) -> ExplanationSection:
    """Return how usual the row is among others, by how far it stands from them."""
    row, rows = table, background
    if not sparse.issparse(table) and (
        hasattr(table, "columns") or np.asarray(table).dtype.kind not in "iuf"
    ):
        encoder = TableEncoder().fit(background)
        row, rows = encoder.transform(table), encoder.transform(background)
    share = float(Typicality(StandardizedRows(rows))(row)[0])
    return _section(share, f"{share:.0%} of {num_samples(background)} other rows")


def own_support_section(model: Any, X: Any) -> ExplanationSection | None:
    """Return how usual the row is among the training rows of a model that knows it."""
    try:
        share = float(np.asarray(as_numpy(model.support(X)))[0])
    except ValueError:  # its training rows were not kept
        return None
    return _section(share, f"{share:.0%} of the training rows")


def _section(share: float, who: str) -> ExplanationSection:
    summary = f"{who} are at least as far from their nearest rows as this row is: "
    summary += (
        "it is unlike most of them, and the answer has little to stand on."
        if share < _UNUSUAL
        else "rows like it were seen."
    )
    return ExplanationSection("support", "Support", summary, values={"support": share})
