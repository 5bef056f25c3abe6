"""Probabilities from signed distances to decision surfaces."""

import warnings
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from vicinal._base import (
    ArgmaxClassifierMixin,
    atomic_fit,
    check_fold_count,
    check_takes_weights,
    documented,
    fit_weighted,
    query_rows,
    random_seeds,
    saved,
    store_parameters,
    training_data,
)
from vicinal._base._compat import HasMethods, Interval, StrOptions, rows_of
from vicinal._base._explanation import ExplainRowMixin, ExplanationSection, show
from vicinal._kernels.calibration._probabilities import fit_saturated_platt
from vicinal.surface._decision_surface import DecisionSurface
from vicinal.surface._oracles import RowFormat
from vicinal.surface._problem import METRICS


@saved(classes_="c labels", scales_="s", limits_="s", slopes_="s", intercepts_="s")
@documented
class SurfaceCalibratedClassifier(ExplainRowMixin, ArgmaxClassifierMixin, BaseEstimator):
    r"""Classifier calibrated by signed distances to its decision surface.

    A sigmoid of the distance of a row to the decision surface is its probability. Classifiers
    without scores (votes, rules) get probabilities in this way too, and the probabilities of
    several classes are comparable.

    Read more in the :doc:`user guide </guide/surface>`.

    Parameters
    ----------
    estimator : classifier
        Classifier of two or more classes; clones of it are fitted.
    cv : int, cross-validation generator or iterable, default=5
        Cross-validation whose held-out rows the sigmoid is fitted to, for example
        ``sklearn.model_selection.LeaveOneOut()``.
    method : {"orthogonal", "first_order"}, default="orthogonal"
        Distance to the nearest point of the surface, or the score divided by the length of its
        gradient (one evaluation a row; classifiers without scores take the orthogonal one).
    metric : str, array-like or None, default=None
        Metric of the distance, see :class:`DecisionSurface`.
    C : float, default=1
        Strength of the data against the penalty on the slope of the sigmoid. Distances are first
        divided by their median size, so that ``C`` does not depend on the unit of the columns.
    random_state : int, RandomState instance or None, default=None
        Passed on to :class:`DecisionSurface`.

    Attributes
    ----------
    surfaces_ : list of DecisionSurface
        One for two classes; else one per class, between it and the others.
    slopes_, intercepts_ : ndarray of shape (n_surfaces,)
        The sigmoids :math:`\sigma(A D + B)`.
    scales_ : ndarray of shape (n_surfaces,)
        Median sizes of the distances, by which they are divided.
    limits_ : ndarray of shape (n_surfaces,)
        Largest distances that count, in these units.

    See Also
    --------
    DecisionSurface : The surface and its geometry.
    sklearn.calibration.CalibratedClassifierCV : Calibration of scores.

    Notes
    -----
    With distances D divided by the median of their size, Platt's method [2]_ minimises

    .. math:: -\sum_i t_i \log p_i + (1 - t_i) \log(1 - p_i) + \frac{A^2}{2c}, \qquad
        p_i = \sigma(A D_i + B),

    with targets :math:`t = (N_+ + 1)/(N_+ + 2)` and :math:`1/(N_- + 2)`. Distances beyond a limit
    count as the limit, which is chosen between the median and the largest by the loss of the same
    rows: outliers are far from everything, but not more certain. Brown and Benton [1]_ calibrate
    on the training rows of the classifier, which is more overconfident the more local it is, and
    with a fixed penalty on raw distances, which depends on their unit.

    Infinite distances (of a fold in which all rows have the same prediction) count as the largest
    finite one.

    References
    ----------
    .. [1] C. S. Brown and R. G. Benton, "Decision Surfaces of Localized Classifiers".
    .. [2] J. Platt, "Probabilistic outputs for support vector machines and comparisons to
       regularized likelihood methods", Advances in Large Margin Classifiers (1999), 61-74.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from vicinal.surface import SurfaceCalibratedClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SurfaceCalibratedClassifier(SVC(), random_state=0).fit(X, y)
    >>> print(model.predict(X[[0, 70, 140]]), f"{model.score(X, y):.2f}")
    [0 2 2] 0.97
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"])],
        "cv": ["cv_object"],
        "method": [StrOptions({"orthogonal", "first_order"})],
        "metric": [StrOptions(set(METRICS)), "array-like", None],
        "C": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self, estimator, *, cv=5, method="orthogonal", metric=None, C=1.0, random_state=None
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the classifiers, and the sigmoids to distances of held-out rows.

        Parameters
        ----------
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; rows of weight 0 are removed. The classifier must accept weights,
            unless all are one.
        """
        self._wrap = RowFormat(X)
        numbers = self._wrap.numbers(X)
        data = training_data(self, numbers, y, sample_weight, task="classification")
        self.classes_, self._dtype = data.classes, data.X.dtype
        if hasattr(X, "columns"):  # the model gets a data frame as it is
            data = replace(data, X=rows_of(X, data.positions))
        if data.sample_weight is not None and np.all(data.sample_weight == 1.0):
            data = replace(data, sample_weight=None)
        if data.sample_weight is not None:
            check_takes_weights(self.estimator)
        self._seed = random_seeds(self.random_state, 1)[0]
        positives = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        parts = [self._fit_surface(data, positive) for positive in positives]
        self.surfaces_ = [part[0] for part in parts]
        sigmoids = np.array([part[1] for part in parts])
        self.scales_, self.limits_, self.slopes_, self.intercepts_ = sigmoids.T
        return self

    def _fit_surface(self, data, positive: int):
        """Return the surface of all rows and (scale, limit, slope, intercept) of its sigmoid."""
        data = replace(data, y=(data.y == positive).astype(np.int64))
        if isinstance(self.cv, Integral):
            check_fold_count(int(self.cv), np.unique(data.y, return_counts=True)[1])
        distances = np.full(len(data), np.nan)
        for train, test in check_cv(self.cv, data.y, classifier=True).split(data.X, data.y):
            surface = self._surface(data.take(train))
            distances[test] = self._distances(surface, data.rows(test), data.y[train])
        seen = ~np.isnan(distances)
        distances, counted = distances[seen], data.weights[seen]
        scale = _median_size(distances, counted)
        scaled = distances / scale
        # Infinite distances count as the largest finite size, at least ten medians.
        largest = max(10.0, float(np.abs(scaled[np.isfinite(scaled)]).max(initial=0.0)))
        scaled = np.clip(scaled, -largest, largest)
        sigmoid = fit_saturated_platt(scaled, data.y[seen] == 1, counted, c=self.C)
        return self._surface(data), (scale, *sigmoid)

    def _surface(self, data):
        """Fit a clone on rows and return its surface (None where they hold one class)."""
        if len(np.unique(data.y)) < 2:
            return None
        estimator = fit_weighted(clone(self.estimator), data.X, data.y, data.sample_weight)
        options = {"metric": self.metric, "random_state": self._seed}
        if self.method == "first_order":
            # No search starts at points of the surface; a few are enough to select the oracle.
            options["n_surface_points"] = 30
        surface = DecisionSurface(estimator, **options)
        with warnings.catch_warnings():
            # A clone that predicts one class for all rows has infinite distances, handled above.
            warnings.filterwarnings("ignore", message=".* predicts .* for every row given to fit")
            return surface.fit(data.X)

    def _distances(self, surface, X, target) -> np.ndarray:
        if surface is None:
            return np.full(X.shape[0], np.inf if target.all() else -np.inf)
        # Classifiers without scores have orthogonal distances only.
        has_scores = surface.oracle_ in ("gradient", "differences")
        distances = surface.distance(X, method=self.method if has_scores else "orthogonal")
        return np.asarray(distances, dtype=np.float64)

    def decision_function(self, X):
        """Return the logits of the sigmoids.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_classes)
            Two classes: positive where the second one is more likely. More: logarithms of the
            probabilities.
        """
        check_is_fitted(self)
        if len(self.classes_) == 2:
            return self._logits(self._all_distances(X))[:, 0].astype(self._dtype, copy=False)
        return np.log(np.maximum(self.predict_proba(X), np.finfo(self._dtype).tiny))

    def _all_distances(self, X) -> np.ndarray:
        """Return the signed distances from every surface, shape (n_rows, n_surfaces)."""
        check_is_fitted(self)
        checked = query_rows(self, self._wrap.including(X).numbers(X))
        X = X if hasattr(X, "columns") else checked
        return np.column_stack([self._distances(part, X, None) for part in self.surfaces_])

    def _logits(self, distances) -> np.ndarray:
        """Return A D + B for every surface, shape (n_rows, n_surfaces)."""
        clipped = np.clip(distances / self.scales_, -self.limits_, self.limits_)
        return clipped * self.slopes_ + self.intercepts_

    def predict_proba(self, X):
        """Return class probabilities."""
        logits = self._logits(self._all_distances(X))
        if len(self.classes_) == 2:
            return expit(np.column_stack([-logits[:, 0], logits[:, 0]])).astype(self._dtype)
        # In logarithms: a row far from every class still prefers one of them.
        logs = -np.logaddexp(0.0, -logits)
        p = np.exp(logs - logs.max(axis=1, keepdims=True))
        return (p / p.sum(axis=1, keepdims=True)).astype(self._dtype)

    def _sections(self, X, columns):
        distances = self._all_distances(X)
        logits, distances = self._logits(distances)[0], distances[0]
        # The class on the positive side of each surface, and what is on the other.
        sides = [(show(label), "the rest") for label in self.classes_]
        if len(sides) == 2:
            sides = [(sides[1][0], sides[0][0])]
        numbers = np.column_stack([distances, distances / self.scales_, expit(logits)]).tolist()
        table = [(" or ".join(side), *own) for side, own in zip(sides, numbers, strict=True)]
        order = np.argsort(-logits, kind="stable")
        (inside, outside), first = sides[order[0]], table[order[0]]
        summary = (
            f"The row lies {show(abs(first[1]))} from the surface between {inside} and {outside}, "
            f"on the side of {inside if first[1] > 0 else outside}; that is "
            f"{show(abs(first[2]))} times the median distance. The probability of {inside} at this "
            f"distance is {first[3]:.3f}."
        )
        head = ("surface", "distance", "in medians", "probability")
        rows, values = [table[k] for k in order], {"distance": first[1]}
        return [
            ExplanationSection("distances", "Distances", summary, head, rows, "distance", values)
        ]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = False
        return tags


def _median_size(distances, weights) -> float:
    """Return the weighted median of finite sizes, one if they are all zero."""
    finite = np.isfinite(distances)
    if not finite.any():
        return 1.0
    size = np.abs(distances[finite])
    half = np.quantile(size, 0.5, weights=weights[finite], method="inverted_cdf")
    return float(half) or float(size.max()) or 1.0
