"""Fitted models as plain arrays that a page can compute with."""

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

from vicinal.local import AnchoredLocalClassifier, AnchoredLocalRegressor
from vicinal.partition import SpacePartitioningClassifier, SpacePartitioningRegressor
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
    """Return what a model computes with.

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
        "ElasticNet), behind TableEncoder and StandardScaler; any other model answers through "
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
        part["link"] = "score" if model.solver == "ridge" else "margin"
        part["temperature"] = model.temperature_
    return part
