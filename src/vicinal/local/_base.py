"""Base class of the local estimators: parameters, neighbours and explanations."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from vicinal._base import counted, documented, held_out_by_folds
from vicinal._base._compat import RUN_CONSTRAINTS, HasMethods, Interval, StrOptions, num_samples
from vicinal._base._explanation import (
    ExplainRowMixin,
    ExplanationSection,
    RowColumns,
    coefficient_section,
    dense_row,
    show,
)
from vicinal._base._tables import spread_rows
from vicinal._conformal import MAX_HELD_OUT, HeldOutRows, TypicalityMixin
from vicinal._kernels.local._smoothing import KERNELS
from vicinal.local._data import local_data
from vicinal.local._rows import METRICS
from vicinal.local._selection import held_out_candidates, label_folds
from vicinal.local._settings import resolve
from vicinal.local._solvers import probabilities

# Largest number of neighbours in the table of an explanation.
_MOST_NEIGHBORS = 200

SHARED_CONSTRAINTS: dict = {
    "n_neighbors": [
        Interval(Integral, 1, None, closed="left"),
        Interval(Real, 0, 1, closed="right"),
        StrOptions({"auto"}),
    ],
    "bandwidth": [Interval(Real, 0, None, closed="right"), StrOptions({"auto"}), None],
    "kernel": [StrOptions(set(KERNELS)), callable],
    "metric": [StrOptions(METRICS), callable, HasMethods(["fit", "transform"])],
    "metric_params": [dict, None],
    "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    "alpha_scale": [StrOptions({"relative", "absolute"})],
    "location_columns": ["array-like", None],
    "algorithm": [StrOptions({"auto", "tree", "brute"})],
    **RUN_CONSTRAINTS,
}


@documented
class BaseLocal(TypicalityMixin, ExplainRowMixin, BaseEstimator):
    """Base class of the local estimators; ``_model`` is the fitted model.

    Parameters
    ----------
    n_neighbors : int, float or "auto", default="auto"
        Size of the neighbourhood. With an integer k, k rows have weight: the kernel vanishes at the
        (k+1)-th neighbour. A fraction in (0, 1] is a share of the rows, as in LOESS. ``"auto"`` is
        selected by leave-one-out from 10 to 640. With sample weights, total weight is counted.
    bandwidth : float, "auto" or None, default=None
        Fixed radius instead of ``n_neighbors``. ``inf`` is the global model, ``"auto"`` is
        selected by leave-one-out.
    kernel : str or callable, default="tricube"
        ``"uniform"``, ``"epanechnikov"``, ``"tricube"``, ``"gaussian"``, ``"bisquare"``,
        ``"triangular"``, ``"cosine"``, or a function K(u) of the scaled distance. With
        ``n_neighbors`` a Gaussian has half the radius of the neighbourhood as standard deviation
        and is 0 beyond it.
    metric : str, callable or transformer, default="standardized"
        A metric of scikit-learn; ``"standardized"`` (columns scaled to unit variance);
        ``"ranked"`` (columns transformed to normal scores, for long tails); for classification
        ``"within_class"`` (whitening by the pooled within-class covariance); ``"gradient"`` (a
        linear map learned from local slopes, see :class:`GradientMetric`, with the number of rounds
        selected); ``"forest"`` or ``"extra_forest"`` (rows that share leaves of a random forest or
        of extremely randomized trees; not for anchored models); or a transformer, whose output is
        used for search and fit.
    metric_params : dict, default=None
        Further arguments of the metric; for ``"gradient"`` those of :class:`GradientMetric`.
    alpha : float or "auto", default="auto"
        Ridge penalty on the slopes; 0 is least squares. ``"auto"`` is selected by leave-one-out,
        because the best value depends on the size of the neighbourhoods.
    alpha_scale : {"relative", "absolute"}, default="relative"
        Unit of ``alpha``. ``"relative"`` multiplies it by the mean squared spread of the
        neighbourhood, so that one value suits columns of any scale; ``"absolute"`` uses it as
        given, like :class:`~sklearn.linear_model.Ridge`.
    location_columns : array-like, default=None
        Columns (indices, names or a mask) that distances are computed from; the models are then
        fitted on the other columns (geographically weighted regression). ``None`` uses all columns
        for both.
    algorithm : {"auto", "tree", "brute"}, default="auto"
        Neighbour search; ``"auto"`` uses a tree where few columns make it faster.
    n_jobs : int, default=None
        Number of threads. ``None`` is 1 unless in a :func:`joblib.parallel_config` context, ``-1``
        is every core. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows on which candidates are compared, of folds, and of forests.
    verbose : int, default=0
        Show progress of the selection.

    Attributes
    ----------
    n_neighbors_ : int or None
        Number of neighbours in use.
    bandwidth_ : float or None
        Fixed bandwidth in use.
    alpha_ : float
        Penalty in use.
    degree_ : int
        Degree in use.
    metric_ : str, callable or transformer
        Metric in use; a transformer is the fitted one.
    selection_ : dict of ndarray
        Candidates compared: ``metric``, ``degree``, ``size``, ``alpha``, ``loss``; present if
        something was selected.
    """

    _model: Any
    _held_out_cache: HeldOutRows | None = None

    def held_out(self, X, y, *, folds=None, rows=None, sample_weight=None, groups=None):
        """Return held-out predictions of every candidate for training rows.

        Candidates are the settings among which ``fit`` selects: sizes, penalties, degrees and, with
        ``metric="gradient"``, numbers of rounds. A row is left out of its own neighbourhood,
        forests use their out-of-bag trees, and a metric that uses y is learned from the other
        folds. With an ``estimator`` that is not compiled, clones of this model are fitted to the
        rows outside each fold.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels or targets.
        folds : sequence of ndarray of int, default=None
            Rows of each fold; a row in several folds is predicted in each of them. ``None`` is
            five random folds.
        rows : ndarray of int, default=None
            Rows to predict; all of them by default.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts; all must be positive.
        groups : array-like of shape (n_samples,), default=None
            Rows of the same group are left out together.

        Returns
        -------
        HeldOut
            ``candidates``: parameters of each candidate; ``rows``: the row of each prediction, in
            the order of the folds; ``predictions`` of shape (n_candidates, n_entries, n_outputs):
            predictions, or class probabilities.
        """
        model = clone(self)
        model._validate_params()
        data = local_data(model, X, y, sample_weight, groups)
        if len(data) != len(y):
            raise ValueError(
                f"sample_weight is zero for {counted(len(y) - len(data), 'row')}, but held_out "
                "predicts every row; remove those rows from X and y first."
            )
        if data.classes is not None:
            model.classes_ = data.classes
        settings = resolve(model, data)
        if settings.solver.is_compiled:
            return held_out_candidates(model, data, settings, folds, rows)
        if folds is None:
            folds = label_folds(len(data), data.groups, model.random_state)
        method = "predict" if data.classes is None else "predict_proba"
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return held_out_by_folds(
            model, X, np.asarray(y), folds, sample_weight=weights, method=method, rows=rows
        )

    # --- queries ---

    def _queries(self, X):
        """Return checked queries."""
        if not hasattr(self, "_model"):  # many times as fast as the check
            check_is_fitted(self)
        return self._model.data.checked(self, X)

    def _shaped(self, values) -> Any:
        """Drop the output axis of a single target and restore the precision of the input."""
        data = self._model.data
        return data.as_given(values if data.is_multi_output else values[:, 0, ...])

    def _known_rows(self) -> HeldOutRows:
        """Return training rows in coordinates of the search."""
        if self._held_out_cache is None:
            data = self._model.data
            data.check_host("Held-out predictions")
            by_leaves = data.mapping.by_leaves
            rows = spread_rows(data.n_samples, MAX_HELD_OUT)
            self._held_out_cache = HeldOutRows(
                (data.rows if by_leaves else data.index.X)[rows],
                None,
                data.y[rows],
                None if data.sample_weight is None else data.sample_weight[rows],
                self.n_jobs,
                are_coordinates=not by_leaves,
                groups=None if data.groups is None else data.groups[rows],
            )
        return self._held_out_cache

    def _held_out_rows(self) -> HeldOutRows:
        """Return the same rows, each predicted by all others."""
        found = self._known_rows()
        if found.predictions is None:
            model = self._model
            values = model.left_out(spread_rows(model.data.n_samples, MAX_HELD_OUT))
            if is_classifier(self):
                values = probabilities(values, model.solver.link, self.temperature_)
            found.predictions = values
        return found

    def _row_numbers(self, X):
        data = self._model.data
        return data.locate(self._queries(X))[1 if data.mapping.by_leaves else 0]

    def _sections(self, X, columns):
        """Return neighbours (or anchors) and local coefficients."""
        ((_, design, found),) = self._model.localized(self._queries(X))
        describe = _anchors if hasattr(self, "anchors_") else _neighbors
        slopes = _slopes(self, X, found, columns)
        return [describe(self, X, design, found), *([] if slopes is None else [slopes])]

    def neighbors(self, X):
        """Return the rows around each query and their weights.

        Returns
        -------
        weights : CSR matrix of shape (n_queries, n_samples)
            Smoothing weight of each training row (rows of zero sample weight are not counted);
            zero weights are not stored. For anchored models the weight of each anchor, shape
            (n_queries, n_anchors).
        """
        X = self._queries(X)
        return self._model.weights(X)

    def effective_sample_size(self, X):
        r"""Return the number of equally weighted rows that each local model corresponds to.

        Returns
        -------
        ndarray of shape (n_queries,)
            :math:`(\sum_i w_i)^2 / \sum_i w_i^2`; for anchored models, over the anchors blended.
        """
        X = self._queries(X)
        self._model.data.check_host("Effective sample sizes")
        out = np.zeros(num_samples(X))
        for block, _, found in self._model.localized(X):
            square = found.sums(found.shares() ** 2)
            out[block] = np.divide(1.0, square, out=np.zeros_like(square), where=square > 0.0)
        return out

    @property
    def coordinates_(self):
        """Map from the columns that locate a row to the coordinates of the search.

        An object with ``matrix``, ``mean``, ``transformer`` and ``warp`` (``None`` if unused);
        called with rows it returns their coordinates.
        """
        check_is_fitted(self)
        return self._model.data.mapping.coordinates

    @property
    def location_mask_(self):
        """Which columns locate a row; ``None`` where all do and models are fitted on all."""
        check_is_fitted(self)
        return self._model.data.mapping.located


def check_compiled(model: Any, what: str) -> None:
    """Refuse what needs a built-in local model."""
    if not model._model.solver.is_compiled:
        raise ValueError(
            f"{what} needs a built-in local model, but estimator={model.estimator!r} is not one; "
            "use estimator=None."
        )


# --- explanation ---


def _rows_by_weight(found: Any, target: Any, distance: np.ndarray) -> list[tuple]:
    """Return (row, target, distance, share of the weight) of the heaviest rows."""
    columns = found.indices.tolist(), list(target), distance.tolist(), found.shares().tolist()
    order = np.argsort(-found.weights, kind="stable")[:_MOST_NEIGHBORS].tolist()
    return [tuple(column[i] for column in columns) for i in order]


def _neighbors(model: Any, X: Any, design: Any, found: Any) -> ExplanationSection:
    data, rows = model._model.data, found.indices
    size = float(model.effective_sample_size(X)[0])
    distance, unit = found.distances, ""
    if data.mapping.by_leaves:
        # A forest has no distance: use that of the standardised columns.
        spread = data.index.X.std(axis=0)
        step = (data.index.X[rows] - dense_row(X)) / np.where(spread > 0.0, spread, 1.0)
        distance, unit = np.sqrt((step**2).sum(axis=1)), " (in standard deviations)"
    target: Any = data.y[rows]
    values: dict[str, Any] = {"n_neighbors": len(rows), "effective_sample_size": size}
    summary = "No training row is near; the prediction is the overall mean or class frequency."
    if len(rows):
        summary = (
            f"{len(rows)} training rows determine this prediction, with the weight of {show(size)} "
            "equal ones; "
            f"the nearest is {show(float(distance.min()))} away, the farthest "
            f"{show(float(distance.max()))}{unit}."
        )
    if hasattr(model, "classes_"):
        if len(rows):
            shares = np.bincount(target, found.shares(), minlength=len(model.classes_))
            by_class = dict(zip(model.classes_.tolist(), shares.tolist(), strict=True))
            values["class_shares"] = by_class
            shown = ", ".join(f"{show(c)} {part:.2f}" for c, part in by_class.items() if part > 0)
            summary += f" Their weight by class: {shown}."
        target = model.classes_[target]
    else:
        target = target[:, 0] if target.shape[1] == 1 else map(tuple, target)
    table = _rows_by_weight(found, target, distance)
    head = ("training row", "target", "distance", "weight")
    return ExplanationSection("neighbors", "Neighbours", summary, head, table, "weight", values)


def _anchors(model: Any, X: Any, design: Any, found: Any) -> ExplanationSection:
    """Return the stored models that are blended for the row, with their predictions."""
    anchors, rows = model.anchors_, found.indices
    step = np.asarray(design)[0] - anchors.origins[rows]
    outputs = anchors.values[rows] + np.einsum("mcp,mp->mc", anchors.slopes[rows], step)
    is_classes = hasattr(model, "classes_")
    predictions = model.classes_[outputs.argmax(axis=1)] if is_classes else outputs[:, 0].tolist()
    size = float(1.0 / (found.shares() ** 2).sum())
    summary = (
        f"{len(rows)} of {len(anchors.centers)} stored models are averaged for this row, with the "
        f"weight of {show(size)} equal ones; the nearest is "
        f"{show(float(found.distances.min()))} away."
    )
    values = {
        "n_anchors": len(anchors.centers),
        "n_blended": len(rows),
        "effective_sample_size": size,
    }
    table = _rows_by_weight(found, predictions, found.distances)
    head = ("anchor", "prediction", "distance", "weight")
    return ExplanationSection("anchors", "Anchors", summary, head, table, "weight", values)


def _slopes(model: Any, X: Any, found: Any, columns: RowColumns) -> ExplanationSection | None:
    try:
        slopes = np.asarray(model.local_coef(X))[0]
    except (AttributeError, ValueError):
        # Estimators that are not compiled and nonlinear coordinates have no slopes.
        return None
    if not slopes.any():
        return None
    score = "the prediction"
    if hasattr(model, "classes_"):
        chosen = model.classes_.tolist().index(model.predict(X)[0])
        if slopes.ndim == 2:
            slopes = slopes[chosen]
        elif chosen == 0:
            slopes = -slopes
        score = f"the score of {show(model.classes_[chosen])}"
    elif slopes.ndim == 2:
        slopes, score = slopes[0], "the first target"
    x = dense_row(X)[0]
    centre = _centre(model._model.data, found, x)
    kind = "anchors" if hasattr(model, "anchors_") else "neighbours"
    return coefficient_section(
        columns,
        slopes,
        x - centre,
        f"Slopes of {score} around this row, per unit of each column; contributions are relative "
        f"to the weighted mean of the {kind}.",
    )


def _centre(data: Any, found: Any, x: np.ndarray) -> np.ndarray:
    """Return the weighted mean of the neighbours, in the columns of the row."""
    if not len(found.indices):
        return x
    share = found.shares()
    if data.mapping.by_leaves:
        return share @ data.index.X[found.indices]
    mean = np.asarray(share @ data.rows[found.indices]).ravel()
    if data.mapping.located is not None:
        centre = x.copy()
        centre[~data.mapping.located] = mean
        return centre
    return x + _step_back(data.mapping.coordinates, x, mean)


def _step_back(coordinates: Any, x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return the shortest step in the columns that gives, to first order, that in coordinates."""
    step = mean - np.asarray(coordinates(x[None, :]))[0]
    matrix = coordinates.matrix
    if coordinates.transformer is not None:
        matrix = coordinates.jacobian(x[None, :])
    if matrix is not None:
        step = step / matrix if matrix.ndim == 1 else step @ np.linalg.pinv(matrix)
    if coordinates.warp is not None:
        slope = coordinates.warp.derivative(x[None, :])[0]
        step = np.divide(step, slope, out=np.zeros_like(step), where=slope != 0.0)
    return step
