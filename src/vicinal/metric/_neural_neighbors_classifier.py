"""Classification by neighbours in learned coordinates."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    as_numpy,
    atomic_fit,
    class_factors,
    device_classes,
    documented,
    encode_device_labels,
    encode_labels,
    is_array_api,
    namespace,
    positive_rows,
    saved,
    validate_array_api,
    weighted_device_rows,
)
from vicinal._base._compat import StrOptions
from vicinal.metric._neural_neighbors import BaseNeuralNeighbors

_FLOOR = 1e-7  # of a probability whose logarithm is taken, as in the training


@saved(
    classes_="c labels",
    mean_="p",
    knots_="*",
    nets_="*",
    embedding_="v e",
    voter_outputs_="v c",
    voter_log_weights_="v",
)
@documented
class NeuralNeighborsClassifier(ClassifierMixin, BaseNeuralNeighbors):
    r"""Classification by near rows, in a map learned so that near rows predict.

    A small net maps every row to coordinates; the answer is the mean of the training labels,
    weighted by e to the minus distance there. Nets are trained so that this vote, the row itself
    left out, predicts the training rows. However bent the map, every answer keeps its reason: the
    rows that voted and their shares (``neighbors``), and the slopes of the answer by the chain rule
    (``local_coef``).

    Read more in the :doc:`user guide </guide/embedding>`.

    Parameters
    ----------
    tol : float, default=1e-4
        What counts as a better loss: the mean of minus the log-probability.
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the classes, in votes and losses.

    Attributes
    ----------
    voter_outputs_ : ndarray of shape (n_samples, n_outputs)
        What each row votes for: one in the column of its class.

    See Also
    --------
    NeuralNeighborsRegressor : The same for numbers.
    GradientKernelClassifier : A global kernel model in a linear metric.
    vicinal.uncertainty.LocallyAdaptiveClassifier : Soft neighbours in several linear metrics.

    Notes
    -----
    Columns become normal scores :math:`x` (quantiles, clipped to [-4, 4]). With batch
    normalisation :math:`\mathrm{bn}` and periodic features :math:`e` [2]_,

    .. math::

        e_k &= \mathrm{relu}\bigl(W_k [\cos 2\pi c_k x_k, \sin 2\pi c_k x_k, x_k] + b_k\bigr), \\
        z &= A\,[e_1, \dots, e_d], \qquad
        \phi = \mathrm{bn}\bigl(z + B_2\,\mathrm{relu}(B_1 \mathrm{bn}(z) + b)\bigr), \\
        p(q) &= \sum_j s_j y_j, \qquad
        s = \mathrm{softmax}_j\bigl(\log w_j - \|\phi(q) - \phi(x_j)\|\bigr) .

    The mean of :math:`-\log(p_y + 10^{-7})` is minimised,
    with ``sample_weight`` on votes and losses [1]_. Gradients are written down and run on NumPy;
    torch tensors are trained where they are, all nets of a kind side by side and the steps of a
    CUDA device recorded as one graph, with the same draws (normal scores pass through the host).

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.metric import NeuralNeighborsClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (600, 4))
    >>> y = np.where(np.sin(6 * X[:, 0]) * X[:, 1] > 0, "up", "down")
    >>> model = NeuralNeighborsClassifier(n_estimators=2, random_state=0).fit(X[:500], y[:500])
    >>> model.score(X[500:], y[500:]) > 0.85
    True
    >>> weights = model.neighbors(X[500:501], n_neighbors=3)
    >>> weights.shape, len(weights.indices)
    ((1, 500), 3)
    """

    _parameter_constraints: dict = {
        **BaseNeuralNeighbors._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        n_estimators=4,
        *,
        n_components=128,
        n_hidden=128,
        periodic="auto",
        n_voters="auto",
        batch_size="auto",
        learning_rate=4e-3,
        weight_decay=2e-4,
        max_iter=300,
        n_iter_no_change=8,
        tol=1e-4,
        validation_fraction=0.15,
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.n_estimators = n_estimators
        self.n_components = n_components
        self.n_hidden = n_hidden
        self.periodic = periodic
        self.n_voters = n_voters
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_iter = max_iter
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Train the nets."""
        self._fit_nets(X, y, sample_weight)
        return self

    def _prepared(self, X, y, sample_weight) -> tuple:
        X, y, weights = self._training_rows(X, y, sample_weight, reset=True)
        if is_array_api(X):
            self.classes_, codes = encode_device_labels(y, X)
            self._labels_on_device = is_array_api(y)
        else:
            self.classes_, codes = encode_labels(y)
        host = as_numpy(codes), as_numpy(weights)
        self._class_factors = class_factors(self.class_weight, self.classes_, *host)
        weights = weights * self._factors_of(codes, X)
        self._weight_unit = float(namespace(X).mean(weights))
        return X, self._indicators(codes, X), weights, True

    @atomic_fit
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Add voters without training again; the first call is ``fit``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to add.
        y : array-like of shape (n_samples,)
            Their labels, of classes seen in the first call.
        classes : array-like of shape (n_classes,), default=None
            As in scikit-learn; all of them must be in the first call's y.

        Returns
        -------
        self : object
            The classifier, with more voters.
        """
        if not hasattr(self, "nets_"):
            _check_known(classes, np.unique(as_numpy(y)))
            return self.fit(X, y, sample_weight)
        X, y, weights = self._training_rows(X, y, sample_weight, reset=False)
        labels = as_numpy(y)
        _check_known(labels, self.classes_)
        codes = namespace(X).asarray(np.searchsorted(self.classes_, labels))
        weights = weights * self._factors_of(codes, X) / self._weight_unit
        self._add_voters(X, self._indicators(codes, X), weights)
        return self

    def _training_rows(self, X, y, sample_weight, *, reset):
        if is_array_api(X):
            X = validate_array_api(self, X, reset=reset)
            X, y, weights = weighted_device_rows(X, y, sample_weight)
            ones = namespace(X).ones_like(X[:, 0])
            return X, y, ones if weights is None else weights
        X, y = validate_data(
            self,
            X,
            y,
            dtype=[np.float64, np.float32],
            reset=reset,
            ensure_min_samples=2 if reset else 1,
        )
        weights, X, y = positive_rows(sample_weight, X, y)
        return X, y, weights

    def _factors_of(self, codes, X):
        factors = self._class_factors[as_numpy(codes)]
        return namespace(X).asarray(factors, device=X.device) if is_array_api(X) else factors

    def _indicators(self, codes, X):
        rows = np.eye(len(self.classes_))[as_numpy(codes)]
        if not is_array_api(X):
            return rows
        return namespace(X).asarray(rows, dtype=X.dtype, device=X.device)

    def predict_proba(self, X):
        """Return the probability of every class: its share of the votes."""
        proba = self._answers(self._validated(X))
        xp = namespace(proba)
        return xp.astype(proba / xp.sum(proba, axis=1, keepdims=True), self._dtype)

    def predict(self, X):
        """Return the most probable class."""
        proba = self.predict_proba(X)
        if is_array_api(proba):
            return device_classes(self.classes_, proba, on_device=self._labels_on_device)
        codes = proba.argmax(axis=1)
        return self.classes_[codes]

    def local_coef(self, X):
        """Return the slopes of the log-probabilities at each query.

        Returns
        -------
        ndarray of shape (n_queries, n_classes, n_features)
            Change of the logarithm of each class's probability (plus 1e-7) per unit of each column,
            by the chain rule through vote, net and normal scores.
        """
        scores = self._validated(X)
        slopes = self._slopes(X, scores) / (self._answers(scores) + _FLOOR)[:, :, None]
        return namespace(slopes).astype(slopes, self._dtype)

    def voter_values(self, rows):
        """Return the labels of voters.

        Parameters
        ----------
        rows : array-like of int
            Their places, as given by ``neighbors``.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels.
        """
        check_is_fitted(self)
        codes = as_numpy(self.voter_outputs_[rows, ...]).argmax(axis=1)
        return self.classes_[codes]


def _check_known(labels, classes) -> None:
    """Raise if there are labels outside the classes."""
    unknown = np.setdiff1d([] if labels is None else labels, classes)
    if len(unknown):
        raise ValueError(
            f"y holds classes that the first call had no rows of: {unknown.tolist()}; the map was "
            "not trained for them. Fit again with all rows."
        )
