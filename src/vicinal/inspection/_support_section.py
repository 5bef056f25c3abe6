"""Whether rows like this one were seen."""

from typing import Any

import numpy as np
from scipy import sparse

from vicinal._base._compat import num_samples
from vicinal._base._explanation import ExplanationSection
from vicinal._rows import Place, Support
from vicinal.table import TableEncoder

# Rows as lonely as fewer than this share of the others are unusual.
_UNUSUAL = 0.05


def support_section(table: Any, background: Any) -> ExplanationSection:
    """Return how usual the row is among others, by its distance to the tenth nearest of them."""
    row, rows = table, background
    if not sparse.issparse(table) and (
        hasattr(table, "columns") or np.asarray(table).dtype.kind not in "iuf"
    ):
        encoder = TableEncoder().fit(background)
        row, rows = encoder.transform(table), encoder.transform(background)
    share = float(Support(Place(rows))(row)[0])
    summary = (
        f"{share:.0%} of {num_samples(background)} other rows are at least as far from their "
        "nearest ten"
    )
    summary += (
        ": rows like this one are rare among them, and the answer has little to stand on."
        if share < _UNUSUAL
        else ", so that rows like this one were seen."
    )
    return ExplanationSection("support", "Support", summary, values={"support": share})
