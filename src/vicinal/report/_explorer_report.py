"""A page that computes a fitted model in the browser."""

import json
from typing import Any

import numpy as np
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeCV,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from vicinal._base._compat import rows_of
from vicinal._base._tables import column_names, column_values
from vicinal._kernels.calibration._conformal import conformal_quantile
from vicinal.local import AnchoredLocalClassifier, AnchoredLocalRegressor
from vicinal.partition import SpacePartitioningClassifier, SpacePartitioningRegressor
from vicinal.report.explorer import ExplorerColumn, ExplorerPage, errors_of
from vicinal.table import TableEncoder

_LOGISTIC = (LogisticRegression, LogisticRegressionCV)
_STRAIGHT = (LinearRegression, Ridge, RidgeCV, Lasso, ElasticNet)
_PARTITION = (SpacePartitioningClassifier, SpacePartitioningRegressor)
_ANCHORED = (AnchoredLocalClassifier, AnchoredLocalRegressor)
_EUCLIDEAN = ("euclidean", "standardized", "ranked", "within_class", "gradient")


def split_encoder(model: Any) -> tuple[TableEncoder | None, list[StandardScaler], Any]:
    """Return the encoder, the scalers and the model of a pipeline; other steps are an error."""
    encoder: TableEncoder | None = None
    scalers: list[StandardScaler] = []
    while isinstance(model, Pipeline):
        for _, step in model.steps[:-1]:
            if isinstance(step, TableEncoder) and encoder is None and not scalers:
                encoder = step
            elif type(step) is StandardScaler:
                scalers.append(step)
            elif step not in (None, "passthrough"):
                raise _cannot(type(step).__name__)
        model = model.steps[-1][1]
    return encoder, scalers, model


def browser_model(model: Any) -> dict[str, Any]:
    """Return the arrays of a model.

    Raises
    ------
    TypeError
        If a page cannot compute the model; the message names those that it can.
    """
    if isinstance(model, _LOGISTIC) and np.ndim(model.classes_) == 1:
        return _linear(
            model.coef_, model.intercept_, "softmax" if len(model.coef_) > 1 else "logit"
        )
    if isinstance(model, _STRAIGHT) and np.ndim(model.coef_) == 1:
        return _linear(model.coef_[None], np.reshape(model.intercept_, 1), "value")
    if isinstance(model, _PARTITION):
        return {
            "kind": "partition",
            "scaler": None if model.scaler_ is None else scaler_part(model.scaler_),
            "cascades": [_cascade(cascade, type(model).__name__) for cascade in model.restarts_],
        }
    if isinstance(model, _ANCHORED):
        return _anchored(model)
    raise _cannot(type(model).__name__)


def scaler_part(scaler: StandardScaler) -> dict[str, Any]:
    """Return the mean and the scale of each column, 0 and 1 where the scaler has none."""
    n = scaler.n_features_in_
    mean = scaler.mean_ if scaler.with_mean and scaler.mean_ is not None else np.zeros(n)
    scale = scaler.scale_ if scaler.scale_ is not None else np.ones(n)
    return {"mean": mean.tolist(), "scale": scale.tolist()}


def _cannot(name: str) -> TypeError:
    return TypeError(
        f"a page alone cannot compute {name}. It can compute AnchoredLocalClassifier and "
        "AnchoredLocalRegressor, SpacePartitioningClassifier and SpacePartitioningRegressor with "
        "linear regions, and linear models (LogisticRegression, LinearRegression, Ridge, Lasso, "
        "ElasticNet), behind TableEncoder and StandardScaler; for any other model use "
        "`vicinal serve`."
    )


def _linear(coef: Any, intercept: Any, link: str) -> dict[str, Any]:
    return {"kind": "linear", "link": link, "coef": coef.tolist(), "intercept": intercept.tolist()}


def _cascade(cascade: Any, name: str) -> dict[str, Any]:
    return {
        "soft": bool(cascade.soft),
        "gates": [_gate(gate, name) for gate in cascade.gates],
        "regions": [_region(region, name) for region in cascade.regions],
    }


def _gate(gate: Any, name: str) -> dict[str, Any]:
    if hasattr(gate, "passes_on"):
        return {"coef": None, "intercept": 1.0 if gate.passes_on else -1.0}
    coef, intercept = _plane(gate, name)
    return {"coef": coef.ravel().tolist(), "intercept": float(np.ravel(intercept)[0])}


def _region(region: Any, name: str) -> dict[str, Any]:
    coef, intercept = _plane(region, name)
    coef = np.atleast_2d(coef)
    heat = float(getattr(region, "temperature_", 1.0))
    offsets = [float(b) if np.isfinite(b) else None for b in np.ravel(intercept)]
    if hasattr(region, "classes_") and len(coef) != len(region.classes_):
        raise _cannot(f"{name} with regions of {type(region).__name__}")
    return {"coef": coef.tolist(), "intercept": offsets, "temperature": heat}


def _plane(stage: Any, name: str) -> tuple[np.ndarray, Any]:
    """Return the plane of a linear stage of the cascade itself; other learners are an error."""
    own = type(stage).__module__.startswith("vicinal.partition.")
    if not own or not hasattr(stage, "coef_"):
        raise _cannot(f"{name} with stages of {type(stage).__name__}")
    return np.asarray(stage.coef_, dtype=float), stage.intercept_


def _anchored(model: Any) -> dict[str, Any]:
    name, anchors, coordinates = type(model).__name__, model.anchors_, model.coordinates_
    is_named = isinstance(model.metric, str) and model.metric in _EUCLIDEAN
    if not is_named or model.metric_params or coordinates.transformer is not None:
        raise _cannot(f"{name} with metric={model.metric!r}")
    warp, matrix, mask = coordinates.warp, coordinates.matrix, model.location_mask_
    if len(np.shape(anchors.values)) == 2 and not hasattr(model, "classes_"):
        if anchors.values.shape[1] > 1:
            raise _cannot(f"{name} with several targets")
    part = {
        "kind": "anchored",
        "located": None if mask is None else np.flatnonzero(mask).tolist(),
        "design": None if mask is None else np.flatnonzero(~mask).tolist(),
        "knots": None if warp is None else [[v.tolist(), s.tolist()] for v, s in warp.knots],
        "mean": None if coordinates.mean is None else np.asarray(coordinates.mean).tolist(),
        "matrix": None if matrix is None else np.asarray(matrix).tolist(),
        "centers": anchors.centers.tolist(),
        "origins": anchors.origins.tolist(),
        "values": anchors.values.tolist(),
        "slopes": anchors.slopes.tolist(),
        "n_blended": int(anchors.n_blended),
        "link": "value",
    }
    if hasattr(model, "classes_"):
        part["link"] = "score" if model.loss == "squared_error" else "margin"
        part["temperature"] = model.temperature_
    return part


_MOST_BYTES = 30 * 2**20


class ExplorerReport(ExplorerPage):
    """A page on which the reader changes the columns of a row and sees the prediction.

    The page holds the model's arrays and computes in the browser: it needs neither a network nor
    Python. It shows the prediction with its interval, the nearest rows of the table, and a
    counterfactual that changes one or two columns.

    Parameters
    ----------
    model : estimator
        Fitted :class:`~vicinal.local.AnchoredLocalClassifier` or
        :class:`~vicinal.local.AnchoredLocalRegressor`,
        :class:`~vicinal.partition.SpacePartitioningClassifier` or
        :class:`~vicinal.partition.SpacePartitioningRegressor` with linear regions, or a linear
        model of scikit-learn; alone or behind :class:`~vicinal.table.TableEncoder` and scalers, and
        in ``FixedThresholdClassifier``, whose threshold then decides.
    table : data frame or array of shape (n_samples, n_features)
        Rows to start from and to compare with.
    y : array-like of shape (n_samples,), default=None
        Their target, from which intervals and sets of labels are computed (split conformal); use
        rows that the model was not fitted to.
    title : str, default="Explorer"
        Heading of the page.
    target : str, default=None
        Name of the target.
    coverage : float, default=0.9
        Probability that an interval or set of labels contains the target.
    random_state : int, RandomState instance or None, default=0
        Seed of the sample of rows on the page, where there are more than 400.

    See Also
    --------
    vicinal.serve.serve : The same page for any model, computed by a server.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import SpacePartitioningClassifier
    >>> from vicinal.report import ExplorerReport
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0).fit(X, y)
    >>> ExplorerReport(model, X, y).as_dict()["data"]["model"]["kind"]
    'partition'
    """

    max_categories = 1000

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the page as plain values.

        Returns
        -------
        dict
            ``title``, and ``data``: the model, the encoding of each column, controls, rows.
        """
        content = super().as_dict()
        if len(json.dumps(content)) > _MOST_BYTES:
            raise ValueError(
                f"{self.model_name()} is too large for a page; fit it with fewer anchors or "
                "regions, or use `vicinal serve`."
            )
        return content

    def columns(self) -> list[ExplorerColumn]:
        """Return the controls of the columns and their encoding."""
        encoder, _, last = split_encoder(self.model)
        browser_model(last)  # raises if the page cannot compute the model
        return [
            _EncodedColumn(self.table, j, name, encoder, self.max_categories)
            for j, name in enumerate(column_names(self.table))
        ]

    def engine(self, columns: Any) -> dict[str, Any]:
        """Return the arrays of the model and the encoding of each column."""
        _, scalers, last = split_encoder(self.model)
        reach = None
        if self.y is not None:
            reach = conformal_quantile(errors_of(self.model, self.table, self.y), self.coverage)
        return {
            "model": browser_model(last),
            "columns": [column.encoding() for column in columns],
            "scalers": [scaler_part(scaler) for scaler in scalers],
            "reach": reach if reach is not None and np.isfinite(reach) else None,
        }


class _EncodedColumn(ExplorerColumn):
    """A column, and how its cells become numbers.

    The encoder treats columns separately, so one row per category shows its encoding.
    """

    def __init__(self, table: Any, j: int, name: str, encoder: Any, max_categories: int) -> None:
        self.table, self.encoder = table, encoder
        self.outputs = [j] if encoder is None else _outputs(encoder, name)
        is_number = encoder is None or encoder.kinds_.get(name) == "number"
        values = column_values(table, j)
        if is_number and any(isinstance(value, str) for value in values):
            values = self._read_numbers()
        super().__init__(name, values, max_categories=max_categories, as_categories=not is_number)
        self.control["is_used"] = bool(self.outputs)

    def _read_numbers(self) -> list[float | None]:
        """Return the numbers that the encoder parses from text, ``None`` for a missing value."""
        block = np.asarray(self.encoder.transform(self.table))[:, self.outputs]
        is_missing = block[:, 1] > 0 if len(self.outputs) > 1 else np.zeros(len(block), dtype=bool)
        numbers = zip(block[:, 0].tolist(), is_missing, strict=True)
        return [None if missing else number for number, missing in numbers]

    def encoding(self) -> dict[str, Any]:
        """Return the encoded columns, and the code of each category and of a missing value."""
        first: dict[str | None, int] = {}
        for i in range(len(self.values)):
            cell = self.cell(i)
            if not self.is_number or cell is None:
                first.setdefault(cell, i)
        if self.encoder is None or not self.outputs or not first:
            return {"at": self.outputs, "categories": None, "missing": None}
        rows = np.array(list(first.values()))
        block = np.asarray(self.encoder.transform(rows_of(self.table, rows)))[:, self.outputs]
        known = dict(zip(first, block.tolist(), strict=True))
        missing = known.pop(None, None)
        return {
            "at": self.outputs,
            "categories": None if self.is_number else known,
            "missing": missing,
        }


def _outputs(encoder: Any, name: str) -> list[int]:
    given = [str(output) for output in encoder.get_feature_names_out()]
    return [given.index(str(output)) for output in encoder.input_to_outputs_.get(name, [])]
