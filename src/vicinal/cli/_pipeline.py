"""A model behind the encoder of its table."""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import has_fit_parameter

from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.cli._check_table import CheckedTable


def with_encoder(checked: CheckedTable, estimator: Any) -> Any:
    """Return the model behind the encoder of its table; one that takes words needs none."""
    reads_frames = isinstance(estimator, AutoClassifier | AutoRegressor)
    return estimator if reads_frames else make_pipeline(checked.encoder(), estimator)


def fit_on(checked: CheckedTable, estimator: Any, rows: Any = slice(None)) -> Any:
    """Fit the model behind its encoder on rows of the table, with their weights if it takes any."""
    model = with_encoder(checked, estimator)
    last, prefix = model, ""
    while isinstance(last, Pipeline):
        prefix += f"{last.steps[-1][0]}__"
        last = last.steps[-1][1]
    weights = {}
    if checked.weights is not None and has_fit_parameter(last, "sample_weight"):
        weights = {f"{prefix}sample_weight": np.asarray(checked.weights)[rows]}
    return model.fit(checked.X[rows], checked.y[rows], **weights)
