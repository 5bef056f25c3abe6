"""A member of a mixture, and what became of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from vicinal._base import aligned_answers, saved


@saved()
@dataclass
class Member:
    """A model of the mixture, or a model that was left out of it.

    Attributes
    ----------
    name : str
        Its name.
    weight : float
        Its share of every answer; 0 if it was left out.
    reason : str
        Why it was left out, empty for members that carry weight.
    loss : float
        Mean held-out loss: log loss after calibration, or squared error in units of the variance;
        NaN if it was not tried.
    params : dict
        Setting that was chosen on held-out rows.
    trial_time, fit_time, predict_time : float
        Seconds of answering held-out rows with all settings, of the fit to all rows, and of the
        answer to 1,000 rows; NaN where there was none.
    n_rows : int
        Number of rows that it was fitted to.
    form : {"distance", "tree"}
        Encoding of the table that it is given.
    estimator : estimator or None
        Fitted to the encoded table.
    slope : float
        One over the temperature of its probabilities; 1 for numbers.
    """

    name: str
    weight: float = 0.0
    reason: str = ""
    loss: float = np.nan
    params: dict | None = None
    trial_time: float = np.nan
    fit_time: float = np.nan
    predict_time: float = np.nan
    n_rows: int = 0
    form: str = "distance"
    estimator: Any = None
    slope: float = 1.0

    def answers(self, X, classes: np.ndarray | None) -> np.ndarray:
        """Return predictions, or probabilities of ``classes`` before calibration, as columns."""
        method = "predict" if classes is None else "predict_proba"
        return aligned_answers(self.estimator, X, method, classes)
