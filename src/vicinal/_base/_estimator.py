"""Parts of estimators: a ``fit`` that succeeds or changes nothing, parameters, sparse input."""

import functools
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import RegressorMixin, is_classifier

from vicinal._base import _validation as checks
from vicinal._base._compat import fit_context

# Attributes that the user configures; all others are learned.
_CONFIGURATION = {
    "_metadata_request",
    "_sklearn_output_config",
    # Callbacks that scikit-learn's meta-estimators (Pipeline, from 1.9) set and remove around fit.
    "_skl_callbacks",
    "_parent_callback_ctx",
}


def store_parameters(estimator: Any, arguments: dict[str, Any]) -> None:
    """Store the arguments of a constructor, ``locals()``, as attributes of the same names."""
    for name, value in arguments.items():
        if name != "self":
            setattr(estimator, name, value)


class SparseInputMixin:
    """Estimators that take sparse rows."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _forget(estimator) -> None:
    """Remove the attributes of an earlier ``fit``."""
    keep = _CONFIGURATION.union(estimator.get_params(deep=False))
    for name in set(vars(estimator)) - keep:
        delattr(estimator, name)


def atomic_fit(method):
    """Decorate ``fit`` or ``partial_fit`` so that it either succeeds or changes nothing.

    Parameters are validated first (``_parameter_constraints``). An X that is not a table raises,
    and so do numbers in X or y whose squares would overflow. ``fit`` first removes learned
    attributes, so that refitting equals fitting a clone. After an error or Ctrl-C the attributes
    are restored. A ``partial_fit`` must not write into arrays it learned earlier, because only the
    attributes themselves are restored.
    """
    validated = fit_context(prefer_skip_nested_validation=False)(method)
    starts_afresh = method.__name__ != "partial_fit"

    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        given = {**dict(zip(("X", "y", "sample_weight"), args, strict=False)), **kwargs}
        checks.check_is_table(given.get("X"))
        for name in ("X", "y"):
            checks.check_magnitude(name, given.get(name))
        if isinstance(self, RegressorMixin):  # tags may need parameters that are checked below
            checks.check_no_dates(given.get("y"))
        before = dict(vars(self))
        if starts_afresh:
            _forget(self)
        try:
            return validated(self, *args, **kwargs)
        except BaseException as error:
            vars(self).clear()
            vars(self).update(before)
            if _interrupted(error):
                raise KeyboardInterrupt from error
            advice = _advice(error, self, given)
            if advice is None:
                raise
            raise ValueError(advice) from error

    return wrapper


def _interrupted(error: BaseException | None) -> bool:
    """Return whether Ctrl-C came during a call of compiled code, which raises SystemError then."""
    while isinstance(error, SystemError):
        error = error.__cause__
    return isinstance(error, KeyboardInterrupt)


def _advice(error: BaseException, estimator, given: dict[str, Any]) -> str | None:
    """Return the message of a known error about the data with a remedy, else ``None``."""
    if error.__cause__ is not None or not str(error):  # already explained by an inner model
        return None
    if isinstance(error, TypeError) and not isinstance(error, ValueError):
        strange = None if checks.reads_frames(estimator) else checks.no_numbers_in(given.get("X"))
        return strange and f"{strange}. {_numbers_wanted(estimator, given)}"
    what = str(error).splitlines()[0].rstrip(".")
    remedy = _remedy(what, estimator, given)
    return remedy and f"{what}. {remedy}"


def _remedy(text: str, estimator, given: dict[str, Any]) -> str | None:
    """Return the remedy for an error of scikit-learn."""
    if text.startswith("could not convert string to float"):
        return _numbers_wanted(estimator, given, text.partition(": ")[2].strip("'\""))
    if text.startswith("Input X contains NaN"):
        return (
            f"{type(estimator).__name__} does not accept missing values; put "
            "vicinal.table.TableEncoder() before it in a pipeline to impute them."
        )
    if text.startswith(("Input y contains NaN", "Input contains NaN")):  # numbers, strings
        return "Drop rows without a target from X and y."
    if text.startswith("Unknown label type: continuous"):
        return "Use a regressor for a continuous target, or bin y first."
    return None


def _numbers_wanted(estimator, given: dict[str, Any], value: str = "") -> str:
    """Return which argument of a failed ``fit`` holds a value that is no number, and the remedy."""
    remedies = {
        "X": "pass a data frame, whose strings are encoded"
        if checks.reads_frames(estimator)
        else f"put vicinal.table.TableEncoder() before {type(estimator).__name__} in a pipeline",
        "y": "use a classifier for class labels",
        "sample_weight": "give one number for each row",
    }
    if is_classifier(estimator):
        del remedies["y"]  # class labels may be strings
    if checks.reads_frames(estimator) and checks.is_frame(given.get("X")):
        del remedies["X"]
    found = [name for name in remedies if not _is_numeric(given.get(name, 0.0))]
    if not found:
        return "Numeric input is needed."
    holding = [name for name in found if value in np.ravel(np.asarray(given[name], dtype=object))]
    name = (holding or found)[0]
    return f"{name} must be numeric: {remedies[name]}."


def _is_numeric(values: Any) -> bool:
    try:
        np.asarray(0.0 if issparse(values) else values, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def atomic_fit_blocks(method):
    """Decorate ``fit_blocks(blocks)`` as ``atomic_fit`` decorates ``fit``."""

    @functools.wraps(method)
    def wrapper(self, blocks):
        method(self, blocks)
        self.n_features_in_ = blocks.n_features
        if blocks.feature_names is not None:
            self.feature_names_in_ = blocks.feature_names
        return self

    return atomic_fit(wrapper)


def refuse(estimator: Any, *, why: str, **only: Any) -> None:
    """Raise where a parameter has another value than the only one supported."""
    for name, value in only.items():
        given = getattr(estimator, name)
        if given != value:
            raise ValueError(
                f"{name}={given!r} cannot be fitted {why}; use {name}={value!r}, or fit to a "
                "sample in memory."
            )
