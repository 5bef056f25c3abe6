"""Regression by local models that are fitted once, at anchors, and blended."""

from numbers import Integral
from typing import Any

from sklearn.base import MultiOutputMixin, RegressorMixin

from vicinal._base import atomic_fit, atomic_fit_blocks, documented
from vicinal._base._compat import Interval, Options, StrOptions
from vicinal._conformal import FoldedRowsMixin, IntervalMixin
from vicinal.local._base import SHARED_CONSTRAINTS, BaseLocal
from vicinal.local._blending import AnchorSearch, blended_fit, check_anchored
from vicinal.local._data import Numbers
from vicinal.local._regression import ALPHAS, read_numbers
from vicinal.local._solvers import RidgeSolver
from vicinal.local.blocks import fit_anchored_blocks


@documented
class AnchoredLocalRegressor(
    MultiOutputMixin, RegressorMixin, IntervalMixin, FoldedRowsMixin, BaseLocal
):
    r"""Regression by local models that are fitted once, at anchors, and blended.

    A prediction of :class:`LocalRegressor` searches all training rows and fits a model. Here a
    number of models are fitted in ``fit``, at centres placed by k-means or at the centres given,
    and a prediction blends the nearest of them: its cost does not depend on the number of training
    rows, which model files do not keep.

    Read more in the :doc:`user guide </guide/local>`.

    Parameters
    ----------
    anchors : int, "auto" or array-like of shape (n_anchors, n_features), default="auto"
        Number of models, or their centres. ``"auto"`` takes the fewest of 64, 256, 1024 and 4096
        whose held-out loss is within one standard error of the model fitted around every query, or
        else the best of them.
    degree : {0, 1, 2}, default=1
        Degree of the local polynomial; one of degree 2 is stored as its tangent plane.
    n_neighbors : int, float or "auto", default="auto"
        Size of the smallest neighbourhoods tried at an anchor, as in :class:`LocalRegressor`;
        ``"auto"`` is that of the model fitted around every query.
    random_state : int, RandomState instance or None, default=None
        Draws the rows on which candidates are compared and the centres.

    Attributes
    ----------
    anchors_ : AnchorPlanes
        Stored models as plain arrays: ``centers``, ``origins``, ``values``, ``slopes`` and
        ``n_blended``.
    anchor_selection_ : dict of ndarray
        Path of their choice: ``n_anchors``, ``size``, ``alpha``, ``n_blended``, ``n_refits``,
        ``loss``.
    n_refits_ : int
        How often the models were refitted to what their blend left over.
    loo_score_ : float
        Its leave-one-out mean squared error, in units of the variance of y.

    See Also
    --------
    LocalRegressor : A model fitted anew around every query.
    AnchoredLocalClassifier : The same for classes; its notes say how anchors are blended.

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
        **SHARED_CONSTRAINTS,
        "anchors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), "array-like"],
        "degree": [Options(Integral, {0, 1, 2})],
    }

    outside = "nearest"

    def __init__(
        self,
        anchors="auto",
        *,
        degree=1,
        n_neighbors="auto",
        bandwidth=None,
        kernel="tricube",
        metric="standardized",
        metric_params=None,
        alpha="auto",
        penalty="relative",
        location_columns=None,
        algorithm="auto",
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.anchors = anchors
        self.degree = degree
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.metric = metric
        self.metric_params = metric_params
        self.alpha = alpha
        self.penalty = penalty
        self.location_columns = location_columns
        self.algorithm = algorithm
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Place the anchors and fit their models.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        """
        check_anchored(self, X)
        table, engine = self._read(X, y, sample_weight, groups)
        self._settle(table, engine)
        search = AnchorSearch.of(self, table, engine)
        centers, plan = search.choose()
        self._keep_anchors(search.fit_plan(centers, plan), plan, search.results)
        if self._model.data.is_host:
            self._keep_rows(table.X, table.targets.values, table.sample_weight)
        return self

    def _read(self, X, y, sample_weight, groups):
        return read_numbers(self, X, y, sample_weight, groups, self._solver(1))

    def _keep_anchors(self, anchors, plan, results=None) -> None:
        """Keep the stored models in place of the rows."""
        targets = Numbers(anchors.values, self._model.data.targets.is_multi_output)
        self._model = blended_fit(anchors, plan.alpha, self._model, targets)
        plan.note_on(self, anchors, results)

    def _solver(self, degree: int) -> RidgeSolver:
        return RidgeSolver(degree, self._is_relative(), n_jobs=self.n_jobs)

    def _alphas(self) -> list[float]:
        return list(ALPHAS) if isinstance(self.alpha, str) else [float(self.alpha)]

    def _as_answers(self, values, solver, rows, table) -> tuple[Any, list]:
        return values, [None] * len(values)

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit the models to a table in blocks of rows.

        Centres and all that is open come from a sample of 100,000 rows, the models from all rows.
        """
        fit_anchored_blocks(self, blocks)

    def predict(self, X):
        """Predict targets."""
        X = self._queries(X)
        return self._shaped(self._model.answers(X))

    def local_coef(self, X):
        """Return the blended slopes at each query.

        Returns
        -------
        ndarray of shape (n_queries, n_features) or (n_queries, n_outputs, n_features)
            Gradient of the blended planes, their weights held fixed, with respect to the columns of
            X.
        """
        X = self._queries(X)
        return self._shaped(self._model.slopes(X))
