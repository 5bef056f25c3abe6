"""A model behind the encoder of its table."""

from typing import Any

from sklearn.pipeline import make_pipeline

from vicinal._base import fit_weighted, takes_weights
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.cli._check_table import CheckedTable


def with_encoder(checked: CheckedTable, estimator: Any) -> Any:
    """Return the model behind the encoder of its table; one that takes words needs none."""
    reads_frames = isinstance(estimator, AutoClassifier | AutoRegressor)
    return estimator if reads_frames else make_pipeline(checked.encoder(), estimator)


def fit_on(checked: CheckedTable, estimator: Any, rows: Any = slice(None)) -> Any:
    """Fit the model behind its encoder on rows of the table, with weights and groups it takes."""
    model = with_encoder(checked, estimator)
    weights = checked.weights if takes_weights(model) else None
    return fit_weighted(
        model,
        checked.X[rows],
        checked.y[rows],
        None if weights is None else weights[rows],
        None if checked.groups is None else checked.groups[rows],
    )
