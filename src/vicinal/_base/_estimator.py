"""The contract of ``fit``: all or nothing."""

import functools
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from vicinal._base._compat import fit_context
from vicinal._base._validation import check_is_table, check_magnitude, no_numbers_in

# State that belongs to the user's set-up of an estimator, not to what it learned.
_CONFIGURATION = {
    "_metadata_request",
    "_sklearn_output_config",
    # Callbacks that scikit-learn's meta-estimators (Pipeline, from 1.9) set and remove around fit.
    "_skl_callbacks",
    "_parent_callback_ctx",
}


def _forget(estimator) -> None:
    """Remove everything an earlier ``fit`` left behind."""
    keep = _CONFIGURATION.union(estimator.get_params(deep=False))
    for name in set(vars(estimator)) - keep:
        delattr(estimator, name)


def atomic_fit(method):
    """Decorate ``fit`` or ``partial_fit`` so that it either succeeds or changes nothing.

    Parameters are validated first (``_parameter_constraints``), and numbers whose squares would
    overflow are refused, in X and in y, and an X that is no table. A ``fit`` starts from a clean
    object, so that refitting equals fitting afresh; when anything goes wrong, Ctrl-C included, the
    object is put back as it was: unfitted if it was unfitted. A ``partial_fit`` must not write into
    arrays it learned earlier, because only the attributes themselves are put back.
    """
    validated = fit_context(prefer_skip_nested_validation=False)(method)
    starts_afresh = method.__name__ != "partial_fit"

    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        given = {**dict(zip(("X", "y", "sample_weight"), args, strict=False)), **kwargs}
        check_is_table(given.get("X"))
        for name in ("X", "y"):
            check_magnitude(name, given.get(name))
        before = dict(vars(self))
        if starts_afresh:
            _forget(self)
        try:
            return validated(self, *args, **kwargs)
        except BaseException as error:
            vars(self).clear()
            vars(self).update(before)
            advice = _advice(error, self, given)
            if advice is None:
                raise
            raise ValueError(advice) from error

    return wrapper


def _advice(error: BaseException, estimator, given: dict[str, Any]) -> str | None:
    """Return an error about the data and what to do about it, if it is a known one."""
    if error.__cause__ is not None or not str(error):  # a model inside has said it
        return None
    if isinstance(error, TypeError):
        strange = no_numbers_in(given.get("X"))
        return strange and f"{strange}. {_numbers_wanted(estimator, given)}"
    what = str(error).splitlines()[0].rstrip(".")
    remedy = _remedy(what, estimator, given)
    return remedy and f"{what}. {remedy}"


def _remedy(text: str, estimator, given: dict[str, Any]) -> str | None:
    """Return what to do about an error of scikit-learn's."""
    if text.startswith("could not convert string to float"):
        return _numbers_wanted(estimator, given)
    if text.startswith("Input X contains NaN"):
        return (
            f"{type(estimator).__name__} takes no gaps: put vicinal.table.TableEncoder() before it "
            "in a pipeline, which fills and marks them."
        )
    if text.startswith("Input y contains NaN"):
        return "Leave rows without a target out of X and y."
    if text.startswith("Unknown label type: continuous"):
        return "Use a regressor for numbers, or bin y first."
    return None


def _numbers_wanted(estimator, given: dict[str, Any]) -> str:
    """Return which argument of a failed ``fit`` holds words, and what to do about it."""
    remedies = {
        "y": "use a classifier for labels, and write amounts as numbers",
        "sample_weight": "count how often each row is seen",
        "X": f"put vicinal.table.TableEncoder() before {type(estimator).__name__} in a pipeline",
    }
    if is_classifier(estimator):
        del remedies["y"]  # its words are welcome
    for name, remedy in remedies.items():
        try:
            np.asarray(given.get(name, 0.0), dtype=np.float64)
        except (TypeError, ValueError):
            return f"{name} must be numbers here: {remedy}."
    return "Numbers are needed here."


def atomic_fit_blocks(method):
    """Decorate ``fit_blocks(blocks)``: ``atomic_fit`` for a table that comes in blocks of rows."""

    @functools.wraps(method)
    def wrapper(self, blocks):
        method(self, blocks)
        self.n_features_in_ = blocks.n_features
        if blocks.feature_names is not None:
            self.feature_names_in_ = blocks.feature_names
        return self

    return atomic_fit(wrapper)


def refuse(estimator: Any, *, why: str, **only: Any) -> None:
    """Raise where a parameter has another value than the one that can be had here."""
    for name, value in only.items():
        given = getattr(estimator, name)
        if given != value:
            raise ValueError(
                f"{name}={given!r} is not possible {why}; use {name}={value!r}, or fit to a sample "
                "in memory."
            )
