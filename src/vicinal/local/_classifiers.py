"""Classification by a weighted model around every query."""

from numbers import Integral

from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from vicinal._base import atomic_fit, documented, predicted_labels, store_parameters
from vicinal._base._compat import HasMethods, Options, StrOptions
from vicinal._base._estimator import SparseInputMixin
from vicinal._conformal import LabelSetMixin
from vicinal.local._base import SHARED_CONSTRAINTS, BaseLocal, check_compiled
from vicinal.local._data import local_data
from vicinal.local._fits import has_gradient, scores_and_gradients, store
from vicinal.local._selection import select, temperature_of
from vicinal.local._settings import exact_solver, resolve
from vicinal.local._solvers import probabilities

CLASSIFIER_CONSTRAINTS: dict = {
    **SHARED_CONSTRAINTS,
    "loss": [StrOptions({"squared_error", "log_loss", "squared_hinge"})],
    "degree": [Options(Integral, {0, 1, 2})],
    "calibration": [StrOptions({"temperature"}), None],
    "class_weight": [dict, StrOptions({"balanced"}), None],
}


def _has_scores(method: str):
    """Return a check that the local model offers ``method``."""

    def check(self) -> bool:
        estimator = getattr(self, "estimator", None)
        if estimator is None or exact_solver(estimator) is not None:
            return True
        return hasattr(estimator, method)

    return check


@documented
class BaseLocalClassifier(ClassifierMixin, BaseLocal):
    """Base class of local classifiers.

    Parameters
    ----------
    loss : {"squared_error", "log_loss", "squared_hinge"}, default="squared_error"
        Loss of the built-in local model. ``"squared_error"`` is ridge regression on class
        indicators: one linear system per query for all classes. ``"log_loss"`` and
        ``"squared_hinge"`` fit one class against the rest by Newton's method, at 7 to 30 times the
        cost of a ridge fit. The search for neighbours often takes longer than the fits.
    degree : {0, 1, 2}, default=1
        Degree of the local polynomial; 0 is a weighted vote.
    calibration : {"temperature", None}, default="temperature"
        ``"temperature"`` gives softmax(score / T), where T minimises the leave-one-out log loss.
        ``None`` sets negative ridge scores to 0 and normalises; other scores pass through the
        logistic function first.
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of each class's rows; neighbourhood sizes do not change.

    Attributes
    ----------
    temperature_ : float or None
        Temperature of the probabilities.
    loo_score_ : float
        Leave-one-out error rate of the selected setting, on the rows used for the selection and
        therefore optimistic; present if something was selected.
    """

    # --- queries ---

    def predict(self, X):
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.
        """
        X = self._queries(X)
        return predicted_labels(self, self._model.predictions(X))

    @available_if(_has_scores("predict_proba"))
    def predict_proba(self, X):
        """Predict class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.
        """
        X = self._queries(X)
        scores = self._model.predictions(X, "predict_proba")
        proba = probabilities(scores, self._model.solver.link, self.temperature_)
        return self._model.data.as_given(proba)

    @available_if(_has_scores("decision_function"))
    def decision_function(self, X):
        """Return the scores that ``predict`` compares.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.
        """
        X = self._queries(X)
        scores = self._model.predictions(X, "decision_function")
        if self._model.solver.is_linear:
            # Indicators 0 and 1 become the targets -1 and 1.
            scores = 2.0 * scores - 1.0
        scores = scores[:, 1] if len(self.classes_) == 2 else scores
        return self._model.data.as_given(scores)

    def local_coef(self, X):
        """Return the slopes of the local models at each query.

        Returns
        -------
        ndarray of shape (n_queries, n_features) or (n_queries, n_classes, n_features)
            Gradient of each class's score with respect to the columns of X; for two classes that
            of the second. Zero where the neighbourhood holds one class.
        """
        X = self._queries(X)
        check_compiled(self, "local_coef")
        slopes = self._model.slopes(X)
        slopes = slopes[:, 1, :] if len(self.classes_) == 2 else slopes
        return self._model.data.as_given(slopes)


def _has_gradient(self) -> bool:
    return getattr(self, "_model", None) is not None and has_gradient(self._model)


@documented
class LocalClassifier(SparseInputMixin, LabelSetMixin, BaseLocalClassifier):
    r"""Classification by a weighted model around every query.

    For each query a small model (ridge on class indicators, logistic, squared hinge, or any
    classifier) is fitted to the rows around it, weighted by distance, and evaluated at the query.
    Where classes overlap it usually has fewer errors than a vote of neighbours. Every prediction
    comes with its neighbours, their weights and the slopes of its model. This is one local model;
    :class:`vicinal.auto.AutoClassifier` averages several with other model families.

    Read more in the :doc:`user guide </guide/local>`.

    Parameters
    ----------
    estimator : classifier, default=None
        Local model, cloned and fitted on the neighbours centred at the query with their weights.
        ``None`` uses the built-in model of ``loss``. ``RidgeClassifier``, ``LinearSVC`` and, for
        two classes, ``LogisticRegression`` (not subclasses) run as compiled code that solves
        their own objective.
    outside : {"nearest", "prior", "raise"}, default="nearest"
        Prediction where no row lies within a fixed ``bandwidth``: from the d+1 nearest rows, the
        class frequencies of the training rows, or an error.

    See Also
    --------
    LocalRegressor : The same for regression.
    AnchoredLocalClassifier : Models fitted once at anchors, for fast predictions.
    vicinal.auto.AutoClassifier : A weighted average of local and other models.
    sklearn.neighbors.KNeighborsClassifier : Votes without a local model.

    Notes
    -----
    With weights :math:`w_i = s_i K(\|x_i - q\| / h)` the local model minimises, over a function f
    that is linear in :math:`x - q` with free intercept,

    .. math:: \sum_i w_i\, E(y_i, f(x_i)) + \tfrac{\lambda}{2} \|\nabla f\|^2,

    equation (2) of [1]_ with a penalty, and the score is :math:`f(q)`;
    :math:`\lambda = \alpha \operatorname{tr}(V) / d` with the scatter V of the neighbourhood.
    Centring at the query makes the result independent of the origin. For the squared error all
    classes share one system, see :class:`LocalRegressor`; scores of classes without a neighbour
    are 0. The others have finite scores too: the minimiser of their objective, whose intercept
    carries a penalty of 1e-8 times the total weight.

    A neighbourhood of one class needs no fit. Good fixed values are ``n_neighbors=40``
    and ``alpha=1`` for the squared error, ``alpha=0.1`` for the other losses.

    Among the settings at least as smooth as the one of least leave-one-out loss, and within half a
    (paired) standard error of it, the largest penalty and then the largest size is selected.

    A sample weight of 2 equals repeating the row, also for neighbourhood sizes. A weight common to
    all rows changes nothing.

    References
    ----------
    .. [1] C. S. Brown and R. G. Benton, "Decision Surfaces of Localized Classifiers".
    .. [2] C. G. Atkeson, A. W. Moore and S. Schaal, "Locally weighted learning", Artificial
       Intelligence Review 11 (1997), 11-73. :doi:`10.1023/A:1006559212014`
    .. [3] L. Bottou and V. Vapnik, "Local learning algorithms", Neural Computation 4 (1992),
       888-900. :doi:`10.1162/neco.1992.4.6.888`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.local import LocalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LocalClassifier(n_neighbors=40, alpha=1.0, metric="euclidean").fit(X, y)
    >>> print(model.predict(X[[0, 70, 140]]), f"{model.score(X, y):.2f}")
    [0 1 2] 0.99
    """

    _parameter_constraints: dict = {
        **CLASSIFIER_CONSTRAINTS,
        "estimator": [HasMethods(["fit", "predict"]), None],
        "outside": [StrOptions({"nearest", "prior", "raise"})],
    }

    def __init__(
        self,
        estimator=None,
        *,
        loss="squared_error",
        n_neighbors="auto",
        bandwidth=None,
        kernel="tricube",
        metric="standardized",
        metric_params=None,
        degree=1,
        alpha="auto",
        alpha_scale="relative",
        location_columns=None,
        algorithm="auto",
        outside="nearest",
        calibration="temperature",
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Store the rows, select what was left unset and calibrate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        groups : array-like of shape (n_samples,), default=None
            Rows of the same group are left out together when candidates are compared and
            probabilities calibrated.
        """
        data = local_data(self, X, y, sample_weight, groups)
        self.classes_ = data.classes
        settings = resolve(self, data)
        chosen, compared = select(data, settings)
        store(self, chosen, settings, compared)
        self.temperature_ = temperature_of(chosen, data, settings)
        return self

    @available_if(_has_gradient)
    def decision_function_and_gradient(self, X, *, weights_move=True):
        """Return the decision function and its exact gradient.

        The gradient includes the change of the weights, of the bandwidth and of the penalty with
        the query. It is available after ``fit`` for the built-in models of degree 0 or 1 on dense
        rows with Euclidean distances (in columns as given, standardised or whitened). The function
        has kinks where the set of neighbours changes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Queries.
        weights_move : bool, default=True
            ``False`` holds the weights fixed and gives the slopes of the local models.

        Returns
        -------
        values : ndarray of shape (n_queries,) or (n_queries, n_classes)
            As ``decision_function`` returns them.
        gradients : ndarray of shape (n_queries, n_features) or (n_queries, n_classes, n_features)
            With respect to the columns of X.
        """
        X = self._queries(X)
        scores, gradients = scores_and_gradients(self._model, X, weights_move)
        if self._model.solver.is_linear:
            scores, gradients = 2.0 * scores - 1.0, 2.0 * gradients
        if len(self.classes_) == 2:
            scores, gradients = scores[:, 1], gradients[:, 1]
        data = self._model.data
        return data.as_given(scores), data.as_given(gradients)

    def equivalent_kernel(self, X):
        """Return the weight of every training row in the ridge scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Queries.

        Returns
        -------
        CSR matrix of shape (n_queries, n_samples)
            Rows l(q); the score of class c is the sum over its rows. Rows of zero sample weight
            are not counted.
        """
        X = self._queries(X)
        if not self._model.solver.is_linear:
            raise ValueError(
                'equivalent_kernel needs loss="squared_error": other local classifiers are '
                "not linear in the labels."
            )
        return self._model.kernel(X)

    def leave_one_out(self):
        """Return probabilities of training rows by models that did not see them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per class; rows of zero sample weight are not counted.
        """
        check_is_fitted(self)
        check_compiled(self, "leave_one_out")
        return probabilities(self._model.left_out(), self._model.solver.link, self.temperature_)
