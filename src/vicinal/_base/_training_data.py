"""Training data of a fit: validated rows, targets, weights and groups, on any device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Any

import array_api_compat as compat
import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import _arrays
from vicinal._base import _validation as checks
from vicinal._base._compat import num_samples
from vicinal._base._held_out import hold_out, rows_outside


@dataclass(frozen=True)
class TrainingData:
    """Rows of positive weight in host memory, with their targets, weights and groups.

    Attributes
    ----------
    X : array, sparse matrix or frame of shape (n_samples, n_features)
        The rows.
    y : ndarray or None
        Class codes for classification, targets otherwise.
    classes : ndarray or None
        Sorted class labels of the codes; ``None`` for regression.
    sample_weight : ndarray or None
        Weights; ``None`` if every row has weight one.
    groups : ndarray of int or None
        Group of each row; rows of one group are held out together.
    index : ndarray of int or None
        Row number of each row in the table given to ``fit``; ``None`` if no row was dropped.
    start : int
        Row number of the first row, if these rows are one block of a larger table.
    is_host : bool
        Whether the rows are in host memory; False for those of another array library.
    """

    X: Any
    y: Any = None
    classes: Any = None
    sample_weight: Any = None
    groups: Any = None
    index: Any = None
    start: int = 0

    is_host = True

    def __len__(self) -> int:
        return num_samples(self.X)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.X.shape[1]

    @property
    def xp(self) -> Any:
        """The array library of the rows."""
        return np

    @property
    def is_weighted(self) -> bool:
        """Whether some weight differs from one."""
        return self.sample_weight is not None

    @property
    def weights(self) -> Any:
        """Weights, ones where none were given."""
        return self.ones() if self.sample_weight is None else self.sample_weight

    @property
    def labels(self) -> np.ndarray:
        """Targets as given to ``fit``: class labels for classification."""
        return self.y if self.classes is None else self.classes[self.host(self.y)]

    @property
    def positions(self) -> np.ndarray:
        """Row number of each row in the table given to ``fit``."""
        return np.arange(len(self)) if self.index is None else self.index

    def host(self, values: Any) -> np.ndarray:
        """Return values of the rows as a NumPy array."""
        return np.asarray(values)

    def array(self, values: Any) -> Any:
        """Return values from the host as an array of the library and the device of the rows."""
        return np.asarray(values)

    def ones(self) -> Any:
        """Return a one for each row, where the rows are."""
        return np.ones(len(self))

    def encoded(self, task: str | None) -> "TrainingData":
        """Return the data with class codes for classification, with floats for regression."""
        if task == "classification":
            classes, codes = checks.encode_labels(self.y)
            return replace(self, y=codes, classes=classes)
        if task == "regression":
            return replace(self, y=self.y.astype(np.float64, copy=False))
        return self

    def rows(self, index: Any) -> Any:
        """Return some rows of X."""
        return _arrays.select_rows(self.X, index)

    def take(self, index: np.ndarray) -> "TrainingData":
        """Return some of the rows, with their targets, weights and groups."""
        index = _arrays.as_numpy(index)
        given = {name: getattr(self, name) for name in ("y", "sample_weight", "groups")}
        parts = {name: _arrays.select_rows(v, index) for name, v in given.items() if v is not None}
        return replace(self, X=self.rows(index), index=self.positions[index], start=0, **parts)

    def check_on_host(self, what: str) -> None:
        """Raise if the rows are on a device, which ``what`` does not support."""
        if not self.is_host:
            raise ValueError(f"{what}, or convert X with numpy.asarray.")

    def standardized(self) -> tuple["TrainingData", StandardScaler]:
        """Return data with standardised columns, and the scaler; sparse ones are not centred."""
        scaler = StandardScaler(with_mean=not sparse.issparse(self.X))
        X = scaler.fit_transform(self.X, sample_weight=self.sample_weight)
        return replace(self, X=X), scaler

    def outside(self, fold: np.ndarray) -> "TrainingData":
        """Return the rows outside a fold, in order."""
        return self.take(rows_outside(fold, len(self)))

    def hold_out(
        self, fraction: float, rng: np.random.RandomState
    ) -> tuple["TrainingData", "TrainingData"]:
        """Split into training and validation rows, stratified; the first have every class."""
        n = len(self)
        codes = np.zeros(n, dtype=np.int64) if self.classes is None else self.host(self.y)
        held = hold_out(codes, fraction, rng)
        return self.take(np.flatnonzero(~held)), self.take(np.flatnonzero(held))

    # Sums over blocks: data in memory are one block.

    def total(
        self, function: Callable, *shared: Any, combine: Callable[[Any, Any], Any] = add
    ) -> Any:
        """Return the sum over blocks of ``function(block, *shared)``."""
        return function(self, *shared)

    def gather(self, function: Callable, *shared: Any) -> list:
        """Return ``function(block, *shared)`` of every block, in order."""
        return [function(self, *shared)]


class DeviceTrainingData(TrainingData):
    """Training data in another array library, on its device."""

    is_host = False

    @property
    def xp(self) -> Any:
        return _arrays.namespace(self.X)

    def host(self, values: Any) -> np.ndarray:
        return _arrays.as_numpy(values)

    def array(self, values: Any) -> Any:
        return self.xp.asarray(values, device=compat.device(self.X))

    def ones(self) -> Any:
        return self.xp.ones(len(self), dtype=self.xp.float64, device=compat.device(self.X))

    def standardized(self) -> tuple["TrainingData", StandardScaler]:
        X, total = self.xp.astype(self.X, self.xp.float64), self.xp.sum(self.weights)
        mean = self.weights @ X / total
        variance = self.weights @ ((X - mean) ** 2) / total
        scaler = scaler_of(_arrays.as_numpy(mean), _arrays.as_numpy(variance), float(total))
        return replace(self, X=scaled_rows(scaler, self.X)), scaler

    def encoded(self, task: str | None) -> "TrainingData":
        if task == "classification":
            classes, codes = encode_device_labels(self.y, self.X)
            return replace(self, y=codes, classes=classes)
        if task == "regression":
            xp = self.xp
            y = xp.asarray(self.y, dtype=self.X.dtype, device=compat.device(self.X))
            if not bool(xp.all(xp.isfinite(y))):
                raise ValueError("y contains NaN or infinity; drop those rows from X and y.")
            return replace(self, y=y)
        return self


def training_data(
    estimator: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    *,
    task: str | None = None,
    reset: bool = True,
    arrays: bool = False,
    learners: Sequence = (),
    **options: Any,
) -> TrainingData:
    """Validate the arguments of ``fit`` and return the rows of positive weight.

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_``, ``feature_names_in_`` and ``_reference``, an empty array with the
        library and the device of the rows (``None`` for NumPy).
    X, y, sample_weight, groups
        As given to ``fit``.
    task : {"classification", "regression"} or None
        Labels become codes, or targets floats; ``None`` leaves y unchanged.
    reset : bool, default=True
        False for rows that are added to a fitted model.
    arrays : bool, default=False
        Whether rows of other array libraries are accepted and stay on their device.
    learners : sequence of estimators, default=()
        What the rows are passed on to; if all of them read data frames, a frame stays as it is.
    **options
        Further options of scikit-learn's ``validate_data``.
    """
    if _arrays.is_array_api(X) and arrays:
        return _device_data(estimator, X, y, sample_weight, groups, task, reset, **options)
    if reset:
        estimator._reference = None
    if _is_frame_for(learners, X):
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        check_consistent_length(X, y)
        options = {"skip_check_array": True}
    options = {"dtype": [np.float64, np.float32], **options}
    if task == "regression":
        options = {"y_numeric": True, **options}
    if y is None and task is None:
        X = validate_data(estimator, X, reset=reset, **options)
    else:
        X, y = validate_data(estimator, X, y, reset=reset, **options)
    groups = checks.check_groups(groups, num_samples(X))
    if groups is not None:
        groups = np.unique(groups, return_inverse=True)[1]
    if sample_weight is None:
        return TrainingData(X, y, None, None, groups).encoded(task)
    weights = checks.check_weights(sample_weight, X)
    kept = np.flatnonzero(weights)
    has_weights = np.any(weights[kept] != 1.0)
    data = TrainingData(X, y, None, weights if has_weights else None, groups)
    return (data if len(kept) == len(weights) else data.take(kept)).encoded(task)


def _device_data(estimator, X, y, sample_weight, groups, task, reset, **options):
    X = validate_array_api(estimator, X, reset=reset, **options)
    if reset:
        estimator._reference = X[:0, :]
        estimator._labels_on_device = _arrays.is_array_api(y)
    xp, n_given = _arrays.namespace(X), X.shape[0]
    groups = checks.check_groups(groups, n_given)
    if y is not None:
        _arrays.check_same_device(X, y, "y")
        n_entries = y.shape[0] if hasattr(y, "shape") else len(y)
        if n_entries != n_given:
            raise ValueError(f"y has {n_entries} entries for {n_given} rows of X.")
    weight = check_device_weights(sample_weight, X)
    data = DeviceTrainingData(X, y, None, weight, groups)
    if weight is not None and not bool(xp.all(weight > 0)):
        data = data.take(_arrays.as_numpy(xp.nonzero(weight > 0)[0]))
    return data.encoded(task)


def _is_frame_for(learners: Sequence, X: Any) -> bool:
    """Return whether X is a data frame that all learners, one or more, read as it is."""
    return len(learners) > 0 and checks.is_frame(X) and all(map(checks.reads_frames, learners))


def query_rows(
    estimator: Any, X: Any, *, arrays: bool = False, learners: Sequence = (), **options: Any
) -> Any:
    """Return validated query rows for a model fitted with ``training_data``.

    With ``arrays``, a model fitted to NumPy arrays raises for rows of other array libraries. If all
    ``learners`` read data frames, a frame stays as it is.
    """
    reference = getattr(estimator, "_reference", None)
    options = {"dtype": [np.float64, np.float32], **options}
    dtype = options["dtype"][0] if isinstance(options["dtype"], list) else options["dtype"]
    if reference is None and checks.is_ready(estimator, X, dtype):
        checks.check_magnitude("X", X)
        return X
    check_is_fitted(estimator)
    checks.check_is_table(X)
    if arrays and reference is None and _arrays.is_array_api(X):
        reference = np.empty(0)
    if reference is not None:
        _arrays.check_same_library(reference, X)
        return validate_array_api(estimator, X, reset=False, **options)
    if _is_frame_for(learners, X):
        options = {"skip_check_array": True}
    X = validate_data(estimator, X, reset=False, **options)
    checks.check_magnitude("X", X)
    return X


def scaler_of(mean: np.ndarray, variance: np.ndarray, total: float) -> StandardScaler:
    """Return scikit-learn's scaler with the given moments; constant columns have scale one."""
    scaler = StandardScaler()
    eps = np.finfo(np.float64).eps
    constant = variance <= total * eps * variance + (total * mean * eps) ** 2
    scaler.mean_, scaler.var_ = mean, variance
    scaler.scale_ = np.where(constant, 1.0, np.sqrt(np.where(constant, 1.0, variance)))
    scaler.n_features_in_ = len(mean)
    scaler.n_samples_seen_ = total
    return scaler


def scaled_rows(scaler: StandardScaler | None, X: Any) -> Any:
    """Return scaled rows, in the array library of ``X``."""
    if scaler is None:
        return X
    if _arrays.is_array_api(X):
        return (X - _arrays.on_device_of(scaler.mean_, X)) / _arrays.on_device_of(scaler.scale_, X)
    # A model of sparse rows does not centre; sparse queries to others become dense.
    X = X.toarray() if scaler.with_mean and sparse.issparse(X) else X
    # Single precision cannot represent the scales of every model.
    numbers = np.r_[scaler.mean_, scaler.scale_] if scaler.with_mean else scaler.scale_
    is_held = np.abs(numbers).max() < np.finfo(X.dtype).max
    return scaler.transform(X if is_held else X.astype(np.float64))


def predicted_labels(estimator: Any, scores: Any) -> Any:
    """Return the classes of largest score: on the device if the labels came from there."""
    on_device = estimator._reference is not None and estimator._labels_on_device
    return _arrays.device_classes(estimator.classes_, scores, on_device=on_device)


class ArgmaxClassifierMixin(ClassifierMixin):
    """Classifiers that predict the class of largest probability."""

    def predict(self, X):
        """Predict the class of largest probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Queries, sparse where ``fit`` takes sparse rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels.
        """
        return predicted_labels(self, self.predict_proba(X))


# --- arrays of other libraries, checked on their device ---


def encode_device_labels(y: Any, X: Any) -> tuple[np.ndarray, Any]:
    """Return the sorted classes on the host and the code of each label on the device of ``X``.

    Only the distinct labels are copied to the host; labels on the host, such as strings, are
    encoded there.
    """
    xp = _arrays.namespace(X)
    if _arrays.is_array_api(y):
        if y.ndim != 1:
            raise ValueError(f"y should be a 1d array, but has shape {tuple(y.shape)}.")
        values, codes = xp.unique_inverse(y)
        classes = _arrays.as_numpy(values)
        if classes.dtype.kind == "f" and np.any(classes != np.floor(classes)):
            raise ValueError(
                "Unknown label type: continuous. Use a regressor for a continuous target, or bin y "
                "first."
            )
        checks.check_two_classes(classes)
    else:
        classes, codes = checks.encode_labels(np.asarray(y))
        codes = xp.asarray(codes, device=compat.device(X))
    return classes, xp.astype(codes, xp.int64)


def check_device_weights(sample_weight: Any, X: Any) -> Any:
    """Return weights as a vector on the device of ``X``, or ``None``."""
    if sample_weight is None:
        return None
    _arrays.check_same_device(X, sample_weight, "sample_weight")
    xp = _arrays.namespace(X)
    weights = xp.asarray(sample_weight, dtype=xp.float64, device=compat.device(X))
    if weights.ndim == 0:
        weights = xp.broadcast_to(weights, (X.shape[0],))
    if weights.shape != (X.shape[0],):
        raise ValueError(
            f"sample_weight has shape {tuple(weights.shape)} for {X.shape[0]} rows of X."
        )
    if not bool(xp.all(xp.isfinite(weights) & (weights >= 0)) & xp.any(weights > 0)):
        raise ValueError(
            "sample_weight must be finite, nonnegative and positive for some row; use weight 0 to "
            "exclude a row."
        )
    return weights


def check_rows(X: Any, *, ensure_all_finite: Any = True) -> Any:
    """Return rows of floats, or raise; arrays of other libraries stay on their device."""
    if not _arrays.is_array_api(X):
        return check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=ensure_all_finite)
    xp = _arrays.namespace(X)
    if ensure_all_finite == "allow-nan" and bool(xp.any(xp.isinf(X))):
        raise ValueError("X contains infinity; mark missing values by NaN.")
    if ensure_all_finite is True and not bool(xp.all(xp.isfinite(X))):
        raise ValueError("X contains NaN or infinity; impute or drop those rows first.")
    return X


def validate_array_api(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    ensure_all_finite: Any = True,
    ensure_min_samples: int = 1,
    **_: Any,
) -> Any:
    """Validate an array of another library on its device: 2-D, floating, right width.

    The counterpart of ``sklearn.utils.validation.validate_data`` for device arrays, with two of its
    options; the others are ignored.
    """
    xp = _arrays.namespace(X)
    if X.ndim != 2:
        raise ValueError(
            f"Expected a 2D array, got {X.ndim}D of shape {tuple(X.shape)}; reshape a single "
            "sample with X[None, :] and a single feature with X[:, None]."
        )
    if X.shape[0] < ensure_min_samples or X.shape[1] == 0:
        raise ValueError(
            f"Found array of shape {tuple(X.shape)}; at least {ensure_min_samples} row(s) and one "
            "column needed."
        )
    if not xp.isdtype(X.dtype, "real floating"):
        X = xp.astype(X, xp.float64)
    check_rows(X, ensure_all_finite=ensure_all_finite)
    if reset:
        estimator.n_features_in_ = int(X.shape[1])
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    return X
