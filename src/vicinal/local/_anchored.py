"""Classification and regression by local models that are fitted once, at anchors, and blended."""

from dataclasses import replace
from numbers import Integral
from typing import Any

from sklearn.base import MultiOutputMixin, RegressorMixin

from vicinal._base import TrainingData, atomic_fit, documented, store_parameters
from vicinal._base._compat import Interval, Options, StrOptions
from vicinal._conformal import FoldedRowsMixin, IntervalMixin, LabelSetMixin
from vicinal._kernels.calibration._probabilities import fit_temperature
from vicinal.local._anchor_search import AnchorSearch, Plan, blended_fit, check_anchored
from vicinal.local._base import SHARED_CONSTRAINTS, BaseLocal
from vicinal.local._classifiers import CLASSIFIER_CONSTRAINTS, BaseLocalClassifier
from vicinal.local._data import local_data
from vicinal.local._fits import store
from vicinal.local._selection import select
from vicinal.local._settings import LocalSettings, resolve


def select_anchors(
    estimator: Any, data: TrainingData
) -> tuple[AnchorSearch, Any, Plan, LocalSettings]:
    """Select the model around every query, then centres and plan of the anchors."""
    check_anchored(estimator, data)
    settings = resolve(estimator, data)
    # The temperature is fitted to scores of the anchors, not of the model around every query.
    chosen, compared = select(data, replace(settings, has_temperature=False))
    store(estimator, chosen, settings, compared)
    fit = estimator._model
    search = AnchorSearch(estimator.anchors, fit, data, settings, chosen.metric)
    centers, plan = search.choose()
    return search, centers, plan, settings


def store_anchors(estimator: Any, search: AnchorSearch, centers: Any, plan: Plan) -> None:
    """Store the models at the anchors instead of the rows, with the fitted attributes."""
    anchors = search.fit_plan(centers, plan)
    estimator._model = blended_fit(anchors, plan.alpha, search.fit)
    estimator.anchors_ = anchors
    estimator.n_refits_ = plan.n_refits
    estimator.alpha_ = float(plan.alpha)
    estimator.n_neighbors_ = int(plan.rule.count)
    estimator.anchor_selection_ = search.results


def _without_bandwidth(constraints: dict) -> dict:
    """Return the constraints of anchored models, whose neighbourhoods have a number of rows."""
    return {name: allowed for name, allowed in constraints.items() if name != "bandwidth"}


@documented
class AnchoredLocalClassifier(LabelSetMixin, FoldedRowsMixin, BaseLocalClassifier):
    r"""Classification by local models that are fitted once, at anchors, and blended.

    A prediction of :class:`LocalClassifier` searches all training rows and fits a model. Here
    all models are fitted in ``fit``, at centres found by k-means (denser where classes overlap)
    or at the centres given, and a prediction is a weighted average of the nearest of them. Its
    cost does not depend on the number of training rows, and model files do not store them.

    Read more in the :doc:`user guide </guide/local>`.

    Parameters
    ----------
    anchors : int, "auto" or array-like of shape (n_anchors, n_features), default="auto"
        Number of models, or their centres. ``"auto"`` takes the fewest of 64, 256, 1024 and 4096
        whose held-out loss is within one standard error of the model fitted around every query, or
        else the best of them.
    n_neighbors : int, float or "auto", default="auto"
        Size of the smallest neighbourhoods tried at an anchor, as in :class:`LocalClassifier`;
        ``"auto"`` is that of the model fitted around every query.
    degree : {0, 1, 2}, default=1
        Degree of the local polynomial; degree 2 is stored as its tangent at the anchor.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows on which candidates are compared, and of the centres.

    Attributes
    ----------
    anchors_ : AnchorModels
        Stored models as plain arrays: ``centers``, ``origins``, ``values``, ``slopes`` and
        ``n_blended``.
    anchor_selection_ : dict of ndarray
        Candidates compared: ``n_anchors``, ``size``, ``alpha``, ``n_blended``, ``n_refits``,
        ``loss``.
    n_refits_ : int
        How often the models were refitted to the residuals of their blend.

    See Also
    --------
    LocalClassifier : A model fitted around every query.
    AnchoredLocalRegressor : The same for regression.

    Notes
    -----
    The model at anchor :math:`c_j` is stored as a linear function, and the prediction for a query
    is :math:`\sum_j v_j (a_j + B_j (q - c_j)) / \sum_j v_j` over its nearest anchors, with
    :math:`v_j = (1 - (\|q - c_j\|/h)^3)^3` and h the distance of the first anchor that is not
    blended, as in [1]_. Models of squared loss may be refitted, up to three times, to the
    residuals of their blend (twicing, [2]_). The number blended, the refits, the size of the
    anchors' neighbourhoods (from ``n_neighbors`` up to what covers the space between them) and, if
    ``alpha="auto"``, the penalty are the smoothest within one standard error of the least loss on
    held-out rows. ``neighbors`` gives weights of anchors
    instead of rows, ``local_coef`` the blended slopes.

    References
    ----------
    .. [1] S. Schaal and C. G. Atkeson, "Constructive incremental learning from only local
       information", Neural Computation 10 (1998), 2047-2084. :doi:`10.1162/089976698300016963`
    .. [2] P. Buehlmann and B. Yu, "Boosting with the L2 loss: regression and classification",
       Journal of the American Statistical Association 98 (2003), 324-339.
       :doi:`10.1198/016214503000125`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.local import AnchoredLocalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AnchoredLocalClassifier(12, n_neighbors=40, alpha=1.0, random_state=0).fit(X, y)
    >>> print(model.predict(X[[0, 70, 140]]), len(model.anchors_.centers))
    [0 1 2] 12
    """

    _parameter_constraints: dict = {
        **_without_bandwidth(CLASSIFIER_CONSTRAINTS),
        "anchors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), "array-like"],
    }

    def __init__(
        self,
        anchors="auto",
        *,
        loss="squared_error",
        n_neighbors="auto",
        kernel="tricube",
        metric="standardized",
        metric_params=None,
        degree=1,
        alpha="auto",
        alpha_scale="relative",
        location_columns=None,
        algorithm="auto",
        calibration="temperature",
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Choose the anchors, fit their models and calibrate."""
        data = local_data(self, X, y, sample_weight, groups)
        self.classes_ = data.classes
        search, centers, plan, settings = select_anchors(self, data)
        self.temperature_ = None
        if settings.has_temperature:
            scores, rows = search.held_out(centers, plan)
            weights = None if data.sample_weight is None else data.sample_weight[rows]
            self.temperature_ = fit_temperature(scores, data.y[rows], weights)
        store_anchors(self, search, centers, plan)
        self._keep_rows(data.X, data.labels, data.sample_weight)
        return self


@documented
class AnchoredLocalRegressor(
    MultiOutputMixin, RegressorMixin, IntervalMixin, FoldedRowsMixin, BaseLocal
):
    r"""Regression by local models that are fitted once, at anchors, and blended.

    A prediction of :class:`LocalRegressor` searches all training rows and fits a model. Here all
    models are fitted in ``fit``, at centres found by k-means or at the centres given, and a
    prediction is a weighted average of the nearest of them. Its cost does not depend on the number
    of training rows, and model files do not store them.

    Read more in the :doc:`user guide </guide/local>`.

    Parameters
    ----------
    anchors : int, "auto" or array-like of shape (n_anchors, n_features), default="auto"
        Number of models, or their centres. ``"auto"`` takes the fewest of 64, 256, 1024 and 4096
        whose held-out loss is within one standard error of the model fitted around every query, or
        else the best of them.
    degree : {0, 1, 2}, default=1
        Degree of the local polynomial; degree 2 is stored as its tangent at the anchor.
    n_neighbors : int, float or "auto", default="auto"
        Size of the smallest neighbourhoods tried at an anchor, as in :class:`LocalRegressor`;
        ``"auto"`` is that of the model fitted around every query.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows on which candidates are compared, and of the centres.

    Attributes
    ----------
    anchors_ : AnchorModels
        Stored models as plain arrays: ``centers``, ``origins``, ``values``, ``slopes`` and
        ``n_blended``.
    anchor_selection_ : dict of ndarray
        Candidates compared: ``n_anchors``, ``size``, ``alpha``, ``n_blended``, ``n_refits``,
        ``loss``.
    n_refits_ : int
        How often the models were refitted to the residuals of their blend.
    loo_score_ : float
        Leave-one-out mean squared error of the model fitted around every query, in units of the
        variance of y.

    See Also
    --------
    LocalRegressor : A model fitted around every query.
    AnchoredLocalClassifier : The same for classification; see its notes on blending.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.local import AnchoredLocalRegressor
    >>> x = np.linspace(0, 6, 500)[:, None]
    >>> model = AnchoredLocalRegressor(20, alpha=0.01, random_state=0).fit(x, np.sin(x).ravel())
    >>> print(model.predict([[1.0]]).round(1), len(model.anchors_.centers))
    [0.8] 20
    """

    _parameter_constraints: dict = {
        **_without_bandwidth(SHARED_CONSTRAINTS),
        "anchors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), "array-like"],
        "degree": [Options(Integral, {0, 1, 2})],
    }

    def __init__(
        self,
        anchors="auto",
        *,
        degree=1,
        n_neighbors="auto",
        kernel="tricube",
        metric="standardized",
        metric_params=None,
        alpha="auto",
        alpha_scale="relative",
        location_columns=None,
        algorithm="auto",
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Choose the anchors and fit their models.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        """
        data = local_data(self, X, y, sample_weight, groups)
        search, centers, plan, _ = select_anchors(self, data)
        store_anchors(self, search, centers, plan)
        self._keep_rows(data.X, data.y, data.sample_weight)
        return self

    def predict(self, X):
        """Predict targets."""
        X = self._queries(X)
        return self._shaped(self._model.predictions(X))

    def local_coef(self, X):
        """Return the blended slopes at each query.

        Returns
        -------
        ndarray of shape (n_queries, n_features) or (n_queries, n_outputs, n_features)
            Gradient of the weighted average, its weights held fixed, with respect to the columns
            of X.
        """
        X = self._queries(X)
        return self._shaped(self._model.slopes(X))
