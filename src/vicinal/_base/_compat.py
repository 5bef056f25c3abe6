"""Private scikit-learn names, all in one place so that a new release breaks one file."""

from typing import Any

import numpy as np
from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as rows_of
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads as openmp_threads
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    Options,
    StrOptions,
    validate_params,
)
from sklearn.utils.metaestimators import _BaseComposition as NamedParts
from sklearn.utils.parallel import _get_threadpool_controller as threadpool_controller
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _check_y as check_y
from sklearn.utils.validation import _num_samples as num_samples

__all__ = [
    "HasMethods",
    "Interval",
    "NamedParts",
    "Options",
    "StrOptions",
    "check_feature_names_in",
    "check_sample_weight",
    "check_y",
    "fit_context",
    "neighbor_targets",
    "num_samples",
    "openmp_threads",
    "rows_of",
    "svc_gamma",
    "threadpool_controller",
    "tuned_label",
    "validate_params",
]


def neighbor_targets(model: Any) -> np.ndarray:
    """Return the targets of the training rows of a nearest-neighbour model of scikit-learn."""
    targets = np.asarray(model._y)
    is_coded = hasattr(model, "classes_") and targets.ndim == 1
    return model.classes_[targets] if is_coded else targets


def svc_gamma(machine: Any) -> float:
    """Return the width of the kernel that a fitted SVC uses."""
    return float(machine._gamma)


def tuned_label(model: Any) -> Any:
    """Return the label whose probability a tuned threshold is about, ``None`` for the second."""
    return model._curve_scorer._get_pos_label()
