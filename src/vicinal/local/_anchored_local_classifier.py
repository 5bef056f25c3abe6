"""Classification by local models that are fitted once, at anchors, and blended."""

from numbers import Integral

from vicinal._base import atomic_fit, atomic_fit_blocks, documented
from vicinal._base._compat import Interval, Options, StrOptions
from vicinal._conformal import FoldedRowsMixin, LabelSetMixin
from vicinal._kernels.calibration._probabilities import fit_temperature
from vicinal.local._base import SHARED_CONSTRAINTS
from vicinal.local._blending import AnchorSearch, blended_fit, check_anchored
from vicinal.local._classification import SOLVERS, BaseLocalClassifier
from vicinal.local._data import Labels
from vicinal.local.blocks import fit_anchored_blocks


@documented
class AnchoredLocalClassifier(LabelSetMixin, FoldedRowsMixin, BaseLocalClassifier):
    r"""Classification by local models that are fitted once, at anchors, and blended.

    A prediction of :class:`LocalClassifier` searches all training rows and fits a model. Here a
    number of models are fitted in ``fit``, at centres placed by k-means (denser where classes mix)
    or at the centres given, and a prediction blends the nearest of them: its cost does not depend
    on the number of training rows, which model files do not keep.

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
        Degree of the local polynomial; one of degree 2 is stored as its tangent plane.
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

    See Also
    --------
    LocalClassifier : A model fitted anew around every query.
    AnchoredLocalRegressor : The same for numbers.

    Notes
    -----
    The model at anchor :math:`c_j` is stored as a plane and a query is answered by
    :math:`\sum_j v_j (a_j + B_j (q - c_j)) / \sum_j v_j` over its nearest anchors, with
    :math:`v_j = (1 - (\|q - c_j\|/h)^3)^3` and h the distance of the first anchor that is not
    blended, as in [1]_. Models of squared loss may be refitted, up to three times, to what their
    blend leaves over (twicing, [2]_), which lets them learn of each other. The number blended, the
    refits, the size of the anchors' neighbourhoods (from ``n_neighbors`` up to what covers the
    space between them) and, if ``alpha="auto"``, the penalty are the smoothest within one standard
    error of the least loss on rows held out of every model. ``neighbors`` gives weights of anchors
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
        **SHARED_CONSTRAINTS,
        "anchors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), "array-like"],
        "solver": [StrOptions(set(SOLVERS))],
        "degree": [Options(Integral, {0, 1, 2})],
        "calibration": [StrOptions({"temperature"}), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    outside = "nearest"

    def __init__(
        self,
        anchors="auto",
        *,
        solver="ridge",
        n_neighbors="auto",
        bandwidth=None,
        kernel="tricube",
        metric="standardized",
        metric_params=None,
        degree=1,
        alpha="auto",
        penalty="relative",
        location_columns=None,
        algorithm="auto",
        calibration="temperature",
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.anchors = anchors
        self.solver = solver
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.metric = metric
        self.metric_params = metric_params
        self.degree = degree
        self.alpha = alpha
        self.penalty = penalty
        self.location_columns = location_columns
        self.algorithm = algorithm
        self.calibration = calibration
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None, classes=None):
        """Place the anchors, fit their models and calibrate.

        Parameters
        ----------
        classes : array-like of shape (n_classes,), default=None
            All labels, if these rows lack some.
        """
        check_anchored(self, X)
        table, engine = self._read(X, y, sample_weight, groups, classes)
        self._settle(table, engine)
        search = AnchorSearch.of(self, table, engine)
        centers, plan = search.choose()
        self.temperature_ = None
        if self._has_temperature():
            scores, rows = search.held_out(centers, plan)
            share = None if table.sample_weight is None else table.sample_weight[rows]
            self.temperature_ = fit_temperature(scores, table.targets.codes[rows], share)
        self._keep_anchors(search.fit_plan(centers, plan), plan, search.results)
        if self._model.data.is_host:
            labels = self.classes_[table.targets.codes]
            self._keep_rows(table.X, labels, table.sample_weight)
        return self

    def _keep_anchors(self, anchors, plan, results=None) -> None:
        """Keep the stored models in place of the rows."""
        targets = Labels(anchors.values.argmax(axis=1), len(self.classes_))
        self._model = blended_fit(anchors, plan.alpha, self._model, targets)
        plan.note_on(self, anchors, results)

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit the models to a table in blocks of rows.

        Centres and all that is open come from a sample of 100,000 rows, the models from all rows.
        """
        fit_anchored_blocks(self, blocks)
