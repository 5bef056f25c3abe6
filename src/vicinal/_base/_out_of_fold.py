"""Answers to rows that a model had not seen."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class OutOfFold:
    """What a model answered on rows it had not seen.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
        Positions in the table, ascending; all rows when every fold was finished.
    prediction : ndarray of shape (n_rows,)
        Predicted labels or values.
    proba : ndarray of shape (n_rows, n_classes) or None
        Class probabilities, in the order of ``classes``.
    classes : ndarray of shape (n_classes,) or None
        All labels of the table, sorted; ``None`` for a regressor.
    """

    rows: np.ndarray
    prediction: np.ndarray
    proba: np.ndarray | None
    classes: np.ndarray | None
