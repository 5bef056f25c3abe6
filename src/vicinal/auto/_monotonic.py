"""Monotone constraints: which encoded columns they bind, and which base models obey them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from vicinal._base._compat import check_monotonic_cst
from vicinal.auto._base_models import NormalScores, Spec, TableShape
from vicinal.auto._encodings import Encodings

_CANNOT = "it cannot obey monotonic_cst"


def check_signs(model: Any, on_device: bool, n_outputs: int) -> np.ndarray | None:
    """Return -1, 0 or 1 for every column of the table; ``None`` without a constraint."""
    if model.monotonic_cst is None:
        return None
    signs = np.asarray(check_monotonic_cst(model, model.monotonic_cst))
    if not signs.any():
        return None
    if is_classifier(model) and n_outputs > 2:
        raise ValueError(f"monotonic_cst needs two classes, but y has {n_outputs}.")
    if on_device:
        raise ValueError("monotonic_cst needs rows on the host; pass NumPy arrays or a frame.")
    return signs


def encoded_signs(signs: np.ndarray, encodings: Encodings, X: dict[str, Any]) -> dict[str, Any]:
    """Return the constraints of every encoded column."""
    found = {}
    for name, encoder in encodings.encoders.items():
        own = np.zeros(X[name].shape[1], dtype=np.int8)
        if isinstance(encoder, TruncatedSVD):
            raise ValueError("monotonic_cst needs fewer columns: these are reduced to components.")
        if encodings.reads_frames:
            start, kinds = 0, encoder.kinds_
            signed = dict(zip(kinds, signs, strict=True))
            for column, sign in signed.items():
                if sign and kinds[column] not in ("number", "drop"):
                    raise ValueError(
                        f"monotonic_cst constrains {column!r}, which is read as "
                        f"{kinds[column]!r}; only columns of numbers have a direction."
                    )
            for column, outputs in encoder.input_to_outputs_.items():
                own[start] = signed[column]  # the mark of missing values behind it is free
                start += len(outputs)
        else:
            own[: len(signs)] = signs
        found[name] = own
    return found


def signs_for(spec: Spec, signs: np.ndarray, categorical: np.ndarray | None) -> dict | None:
    """Return the parameters by which a base model obeys, ``None`` if it cannot.

    Transformers must preserve the order of every column; statistics of categories go first.
    """
    steps = spec.estimator.steps if isinstance(spec.estimator, Pipeline) else [("", spec.estimator)]
    *before, (name, last) = steps
    if isinstance(last, DummyClassifier | DummyRegressor):
        return {}
    if "monotonic_cst" not in last.get_params() or getattr(last, "solver", "ridge") != "ridge":
        return None
    for _, step in before:
        if isinstance(step, ColumnTransformer) and spec.encoding == "tree":
            mask = np.asarray(categorical)
            signs = np.concatenate([np.zeros(mask.sum(), dtype=np.int8), signs[~mask]])
        elif not isinstance(step, StandardScaler | NormalScores):
            return None
    return {f"{name}__monotonic_cst" if before else "monotonic_cst": signs}


def monotone_specs(specs: Iterator[Spec], shape: TableShape) -> Iterator[Spec]:
    """Yield base models that obey the constraints; those that cannot have a reason."""
    for spec in specs:
        params = None
        if not spec.reason:
            params = signs_for(spec, shape.monotonic[spec.encoding], shape.categorical)
        if params is None:
            yield replace(spec, estimator=None, reason=spec.reason or _CANNOT)
        else:
            yield replace(spec, estimator=clone(spec.estimator).set_params(**params), probe=None)
