"""Labels, scores and gradients of a classifier.

An oracle returns ``scores(X, gradient)`` for a block of rows in the columns the classifier was
given: values of shape (m,) for two classes (positive for the second) or (m, n_classes), and
gradients with one more axis, or None. A classifier can provide its own as
``decision_function_and_gradient(X)``.
"""

import copy
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC

from vicinal._base import forest_proba, import_optional, is_frame, row_blocks, saved
from vicinal._base._parallel import check_stopped
from vicinal._base._tables import ColumnCodes, are_numbers, column_values
from vicinal._kernels.surface._closed_forms import kernel_classifier, perceptron_layers

# Probabilities are kept off 0 and 1 by this much before their logit is taken.
_FLOOR = 1e-12
# Scores beyond this (a local model that saw one class only) count as this.
_CEILING = 1e100
_FRAMES = ("pandas", "polars")


@saved()
class RowFormat(ColumnCodes):
    """Rows as a classifier was given them, arrays or frames, and their numbers.

    In frames, columns that hold anything but numbers are categories.
    """

    def __init__(self, rows=None):
        super().__init__({})
        self.columns = list(rows.columns) if hasattr(rows, "columns") else None
        self.library = type(rows).__module__.partition(".")[0]
        self.ordered: dict[int, bool] = {}  # columns of the type "category" of pandas
        if self.columns is None:
            return
        for j in range(len(self.columns)):
            cells = column_values(rows, j)
            if not are_numbers(cells):
                kind = rows.dtypes.iloc[j] if self.library == "pandas" else None
                if hasattr(kind, "ordered"):
                    cells = [*kind.categories.tolist(), *cells]
                    self.ordered[j] = bool(kind.ordered)
                self.categories |= ColumnCodes({j: cells}).categories

    @property
    def is_mixed(self) -> bool:
        """Whether some columns hold categories."""
        return bool(self.categories)

    def is_numeric(self, n_columns: int) -> np.ndarray:
        """Return which columns hold numbers."""
        return ~np.isin(np.arange(n_columns), list(self.categories))

    def including(self, rows) -> "RowFormat":
        """Return the format of rows that may hold further categories."""
        if not self.is_mixed or not is_frame(rows) or rows.shape[1] != len(self.columns):
            return self
        wider = copy.copy(self)
        wider.categories = ColumnCodes(
            {j: [*known, *column_values(rows, j)] for j, known in self.categories.items()}
        ).categories
        return self if wider.categories == self.categories else wider

    def numbers(self, rows):
        """Return rows with codes in place of categories, a missing number as NaN."""
        if not self.is_mixed or not is_frame(rows) or rows.shape[1] != len(self.columns):
            return rows
        columns = {}
        for j, name in enumerate(rows.columns):
            cells = column_values(rows, j)
            if j in self.categories:
                columns[name] = self.codes(j, cells)
            elif are_numbers(cells):
                columns[name] = np.array(cells, dtype=np.float64)
            else:
                wrong = next(cell for cell in cells if not are_numbers([None, cell, 0]))
                raise ValueError(f"column {name!r} held numbers in fit, and now holds {wrong!r}.")
        return type(rows)(columns)

    def __call__(self, X):
        if self.columns is None:
            return X
        if self.library not in _FRAMES:
            raise TypeError(f"frames must be of {' or '.join(_FRAMES)}, got {self.library!r}.")
        frames = import_optional(self.library, needed_by="A model of frames", extra="frame")
        columns: dict = {}
        for j, name in enumerate(self.columns):
            columns[name] = X[:, j]
            if j in self.categories:
                cells: Any = self.cells(j, X[:, j])
                if j in self.ordered:
                    known = [cell for cell in self.categories[j] if cell is not None]
                    cells = frames.Categorical(cells, known, ordered=self.ordered[j])
                columns[name] = cells
        return frames.DataFrame(columns)


@saved()
class OwnGradient:
    """Classifier with ``decision_function_and_gradient``."""

    def __init__(self, estimator, wrap):
        self.estimator = estimator
        self.wrap = wrap

    def scores(self, X, gradient: bool):
        """Return scores and gradients."""
        if not gradient:
            return _clipped(self.estimator.decision_function(self.wrap(X))), None
        values, slopes = self.estimator.decision_function_and_gradient(self.wrap(X))
        return _clipped(values), np.nan_to_num(np.asarray(slopes, dtype=np.float64))


@saved(coef="r q", intercept="r")
class LinearOracle:
    """Scores ``X @ coef.T + intercept``."""

    def __init__(self, coef, intercept):
        self.coef = np.asarray(coef, dtype=np.float64)
        self.intercept = np.asarray(intercept, dtype=np.float64)

    def scores(self, X, gradient: bool):
        """Return scores and gradients."""
        values = X @ self.coef.T + self.intercept
        if self.coef.shape[0] == 1:
            values = values[:, 0]
        if not gradient:
            return values, None
        slope = self.coef[0] if self.coef.shape[0] == 1 else self.coef
        return values, np.broadcast_to(slope, (len(X), *slope.shape)).copy()


@saved()
class KernelClassifier:
    """Support vector machine of two classes."""

    def __init__(self, svc):
        self.svc = svc

    def scores(self, X, gradient: bool):
        """Return scores and gradients."""
        svc = self.svc
        vectors, dual = svc.support_vectors_, svc.dual_coef_[0]
        kernel = svc.kernel, svc._gamma, svc.coef0, svc.degree
        return kernel_classifier(X, vectors, dual, float(svc.intercept_[0]), *kernel, gradient)


@saved()
class NeuralNetwork:
    """Multi-layer perceptron; its scores are the outputs before the last activation."""

    def __init__(self, network):
        self.network = network

    def scores(self, X, gradient: bool):
        """Return scores and gradients."""
        net = self.network
        values, slopes = perceptron_layers(X, net.coefs_, net.intercepts_, net.activation, gradient)
        if values.shape[1] > 1:
            return values, slopes
        return values[:, 0], None if slopes is None else slopes[:, 0]


@saved()
class Differences:
    """Smooth scores without a gradient: central differences, 2 d rows per gradient, in one call."""

    def __init__(self, score, steps):
        self.score = score
        self.steps = steps

    def scores(self, X, gradient: bool):
        """Return scores and gradients."""
        values = self.score(X)
        if not gradient:
            return values, None
        m, d = X.shape
        shifts = np.diag(self.steps)
        around = np.concatenate([X[:, None] + shifts, X[:, None] - shifts], axis=1)
        found = self.score(around.reshape(-1, d))
        found = found.reshape(m, 2, d, *values.shape[1:])
        slopes = (found[:, 0] - found[:, 1]) / (2.0 * self.steps).reshape(
            d, *[1] * (values.ndim - 1)
        )
        return values, np.moveaxis(slopes, 1, -1)


@saved()
class AffineThen:
    """Columns mapped by ``X @ matrix + offset`` before another oracle sees them."""

    def __init__(self, inner, matrix, offset):
        self.inner = inner
        self.matrix = matrix
        self.offset = offset

    def scores(self, X, gradient: bool):
        """Return scores and gradients."""
        values, slopes = self.inner.scores(X @ self.matrix + self.offset, gradient)
        return values, None if slopes is None else slopes @ self.matrix.T


def make_oracle(estimator, X, wrap, choice: str, probe: np.ndarray) -> tuple[str, Any]:
    """Return the kind of oracle and the oracle (None for labels).

    Parameters
    ----------
    estimator : fitted classifier
        The classifier.
    X : ndarray of shape (n_samples, n_features)
        Rows on which scores must agree with ``predict``.
    wrap : callable
        Turns an array into what the classifier was fitted on (a frame, if it was one).
    choice : {"auto", "gradient", "differences", "labels"}
        The parameter ``oracle``.
    probe : ndarray of shape (n_probes, n_features)
        Points near the surface, where a constant score is detected.
    """
    if wrap.is_mixed and choice in ("gradient", "differences"):
        raise ValueError(f"oracle={choice!r} needs columns of numbers only; use oracle='auto'.")
    if choice == "labels" or wrap.is_mixed:
        return "labels", None
    if choice in ("auto", "gradient"):
        oracle = _closed_form(estimator, X, wrap)
        if oracle is not None and _agrees(oracle, estimator, X, wrap):
            return "gradient", oracle
        if choice == "gradient":
            raise ValueError(
                f"oracle='gradient' needs a gradient in closed form, which is not known for "
                f"{type(estimator).__name__}; use oracle='auto'."
            )
    score = _score_function(estimator, X, wrap)
    if score is not None:
        spread = X.std(axis=0)
        oracle = Differences(score, 1e-5 * np.where(spread > 0.0, spread, 1.0))
        if choice == "differences":
            return "differences", oracle
        if _agrees(oracle, estimator, X, wrap) and not _is_flat(score, oracle.steps, probe):
            return "differences", oracle
    if choice == "differences":
        raise ValueError(
            f"oracle='differences' needs decision_function or predict_proba, which "
            f"{type(estimator).__name__} lacks; use oracle='labels'."
        )
    return "labels", None


def final_model(estimator):
    """Return the model inside fitted searches and frozen estimators."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif type(estimator).__name__ == "FrozenEstimator":
            estimator = estimator.estimator
        else:
            return estimator


def _closed_form(estimator, X, wrap):
    """Return the oracle of a classifier whose gradient is known, else None."""
    estimator = final_model(estimator)
    if isinstance(estimator, Pipeline):
        affine = _affine_map(estimator[:-1], X, wrap)
        if affine is None:
            return None
        matrix, offset = affine
        inner = _closed_form(estimator[-1], X @ matrix + offset, RowFormat())
        return None if inner is None else AffineThen(inner, matrix, offset)
    if hasattr(estimator, "decision_function_and_gradient"):
        return OwnGradient(estimator, wrap)
    # By exact type: a subclass may differ.
    if type(estimator) in (SVC, NuSVC):
        kernels = ("rbf", "poly", "sigmoid", "linear")
        if len(estimator.classes_) == 2 and estimator.kernel in kernels and not estimator._sparse:
            return KernelClassifier(estimator)
        return None
    if type(estimator) is MLPClassifier:
        return NeuralNetwork(estimator)
    if hasattr(estimator, "coef_") and hasattr(estimator, "decision_function"):
        return _linear(estimator, X, wrap)
    return None


def _linear(estimator, X, wrap):
    """Return the linear oracle if the decision function really is linear on the rows."""
    coef = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
    intercept = np.asarray(getattr(estimator, "intercept_", 0.0), dtype=np.float64)
    if coef.shape[1] != X.shape[1]:
        return None
    oracle = LinearOracle(coef, intercept)
    some = X[:50]
    values, expected = oracle.scores(some, False)[0], estimator.decision_function(wrap(some))
    if values.shape != expected.shape or not np.allclose(values, expected, rtol=1e-5, atol=1e-6):
        return None
    return oracle


def _affine_map(steps, X, wrap):
    """Return (matrix, offset) of transformers that act as one affine map, found by probing."""
    if not len(steps):
        return np.eye(X.shape[1]), np.zeros(X.shape[1])
    centre, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    basis = np.vstack([centre, centre + np.diag(spread)])
    # Rows beyond the data detect clipping, rows of the data detect curvature.
    check = np.vstack([X[:50], centre + 3.0 * (X[:50] - centre)])
    try:
        image, checked = (np.asarray(steps.transform(wrap(A)), np.float64) for A in (basis, check))
    except (TypeError, ValueError, AttributeError):
        return None
    if image.ndim != 2 or not np.isfinite(image).all():
        return None
    matrix = (image[1:] - image[0]) / spread[:, None]
    offset = image[0] - centre @ matrix
    error = np.abs(check @ matrix + offset - checked).max()
    return (matrix, offset) if error <= 1e-9 * (1.0 + np.abs(checked).max()) else None


@saved()
class Scores:
    """Scores of ``decision_function``, or logits of two and logarithms of more probabilities."""

    def __init__(self, estimator, wrap, method):
        self.estimator = estimator
        self.wrap = wrap
        self.method = method

    def __call__(self, X):
        values = getattr(self.estimator, self.method)(self.wrap(X))
        if self.method == "decision_function":
            return _clipped(values)
        proba = np.clip(values.astype(np.float64), _FLOOR, 1.0 - _FLOOR)
        return logit(proba[:, 1]) if proba.shape[1] == 2 else np.log(proba)


def _score_function(estimator, X, wrap):
    """Return the score behind ``predict``, if there is one per class (or one for two)."""
    n_classes = len(estimator.classes_)
    if hasattr(estimator, "decision_function"):
        shape = np.shape(estimator.decision_function(wrap(X[:1])))
        if shape == ((1,) if n_classes == 2 else (1, n_classes)):
            return Scores(estimator, wrap, "decision_function")
    if hasattr(estimator, "predict_proba"):
        return Scores(estimator, wrap, "predict_proba")
    return None


def _clipped(values):
    return np.clip(np.nan_to_num(np.asarray(values, dtype=np.float64)), -_CEILING, _CEILING)


def score_labels(values, n_classes: int) -> np.ndarray:
    """Return the codes of the labels that scores predict."""
    return (values > 0.0).astype(np.int64) if n_classes == 2 else values.argmax(axis=1)


def _agrees(oracle, estimator, X, wrap) -> bool:
    """Return whether the scores give the labels of ``predict``."""
    some = X[:: max(1, len(X) // 500)]
    values = oracle.scores(some, False)[0]
    labels = estimator.classes_[score_labels(values, len(estimator.classes_))]
    return bool(np.all(labels == estimator.predict(wrap(some))))


def _is_flat(score, steps, probe) -> bool:
    """Return whether small steps mostly do not change the score, as of trees and votes."""
    if not len(probe):
        return False
    return bool(np.mean(score(probe + 10.0 * steps) == score(probe - 10.0 * steps)) > 0.5)


@saved()
class Model:
    """Fitted classifier with what searches need: codes of labels, scores, gradients."""

    def __init__(self, estimator, wrap, kind: str, oracle):
        self.estimator = estimator
        self.wrap = wrap
        self.kind = kind
        self.oracle = oracle
        self.classes = estimator.classes_

    def codes(self, X) -> np.ndarray:
        """Return predicted labels as positions in ``classes``."""
        check_stopped()
        if not len(X):
            return np.empty(0, dtype=np.int64)
        # A subclass may predict as it likes.
        if type(self.estimator) in (ExtraTreesClassifier, RandomForestClassifier):
            return forest_proba(self.estimator, X, self.wrap).argmax(axis=1)
        return np.searchsorted(self.classes, self.estimator.predict(self.wrap(X)))

    def scores(self, X, gradient: bool):
        """Return scores and gradients, in blocks of rows."""
        d, n_classes = X.shape[1], len(self.classes)
        copies = 4 * d if isinstance(self.oracle, Differences) and gradient else 4
        parts = [
            self.oracle.scores(X[block], gradient)
            for block in row_blocks(len(X), 8 * d * (copies + n_classes))
        ]
        values = np.concatenate([part[0] for part in parts])
        return values, np.concatenate([part[1] for part in parts]) if gradient else None
