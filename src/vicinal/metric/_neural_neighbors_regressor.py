"""Regression by neighbours in learned coordinates."""

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    atomic_fit,
    documented,
    is_array_api,
    namespace,
    positive_rows,
    saved,
    validate_array_api,
    weighted_device_rows,
)
from vicinal.metric._neural_neighbors import BaseNeuralNeighbors


@saved(
    target_mean_="o",
    target_scale_="o",
    mean_="p",
    knots_="*",
    nets_="*",
    embedding_="v e",
    voter_outputs_="v o",
    voter_log_weights_="v",
)
@documented
class NeuralNeighborsRegressor(RegressorMixin, BaseNeuralNeighbors):
    r"""Regression by near rows, in a map learned so that near rows predict.

    A small net maps every row to coordinates; the answer is the mean of the training targets,
    weighted by e to the minus distance there. Nets are trained so that this vote, the row itself
    left out, predicts the training rows. However bent the map, every answer keeps its reason: the
    rows that voted and their shares (``neighbors``), and the slopes of the answer by the chain rule
    (``local_coef``).

    Read more in the :doc:`user guide </guide/embedding>`.

    Parameters
    ----------
    tol : float, default=1e-4
        What counts as a better loss: a share of the variance.

    Attributes
    ----------
    voter_outputs_ : ndarray of shape (n_samples, n_outputs)
        What each row votes for, standardised.
    target_mean_, target_scale_ : ndarray of shape (n_outputs,)
        What the targets were standardised by.

    See Also
    --------
    NeuralNeighborsClassifier : The same for classes.
    GradientKernelRegressor : A global kernel model in a linear metric.

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

    The squared error of the standardised target is minimised,
    with ``sample_weight`` on votes and losses [1]_. Gradients are written down and run on NumPy;
    torch tensors are trained where they are, all nets of a kind side by side and the steps of a
    CUDA device recorded as one graph, with the same draws (normal scores pass through the host).

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.metric import NeuralNeighborsRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (600, 4))
    >>> y = np.sin(6 * X[:, 0]) * X[:, 1]
    >>> model = NeuralNeighborsRegressor(n_estimators=2, random_state=0).fit(X[:500], y[:500])
    >>> model.score(X[500:], y[500:]) > 0.9
    True
    >>> weights = model.neighbors(X[500:501], n_neighbors=3)
    >>> weights.shape, len(weights.indices)
    ((1, 500), 3)
    """

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
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Train the nets.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        """
        self._fit_nets(X, y, sample_weight)
        return self

    def _prepared(self, X, y, sample_weight) -> tuple:
        X, y, weights = self._training_rows(X, y, sample_weight, reset=True)
        xp = namespace(X)
        Y = xp.reshape(y, (y.shape[0], -1))
        share = weights[:, None] / xp.sum(weights)
        self.target_mean_ = xp.sum(share * Y, axis=0)
        spread = xp.sqrt(xp.sum(share * (Y - self.target_mean_) ** 2, axis=0))
        self.target_scale_ = xp.where(spread > 0.0, spread, xp.ones_like(spread))
        self._is_flat = y.ndim == 1
        self._weight_unit = float(xp.mean(weights))
        return X, (Y - self.target_mean_) / self.target_scale_, weights, False

    @atomic_fit
    def partial_fit(self, X, y, sample_weight=None):
        """Add voters without training again; the first call is ``fit``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to add.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.

        Returns
        -------
        self : object
            The regressor, with more voters.
        """
        if not hasattr(self, "nets_"):
            return self.fit(X, y, sample_weight)
        X, y, weights = self._training_rows(X, y, sample_weight, reset=False)
        Y = namespace(X).reshape(y, (y.shape[0], -1))
        if Y.shape[1] != self.target_mean_.shape[0]:
            raise ValueError(
                f"y has {Y.shape[1]} outputs, but the model was fitted to "
                f"{self.target_mean_.shape[0]}."
            )
        values = (Y - self.target_mean_) / self.target_scale_
        self._add_voters(X, values, weights / self._weight_unit)
        return self

    def _training_rows(self, X, y, sample_weight, *, reset):
        if is_array_api(X):
            X = validate_array_api(self, X, reset=reset)
            X, y, weights = weighted_device_rows(X, y, sample_weight)
            xp = namespace(X)
            y = xp.asarray(y, dtype=X.dtype, device=X.device)
            return X, y, xp.ones_like(X[:, 0]) if weights is None else weights
        X, y = validate_data(
            self,
            X,
            y,
            dtype=[np.float64, np.float32],
            multi_output=True,
            y_numeric=True,
            reset=reset,
            ensure_min_samples=2 if reset else 1,
        )
        weights, X, y = positive_rows(sample_weight, X, y)
        return X, y.astype(np.float64), weights

    def predict(self, X):
        """Predict the target."""
        answers = self._answers(self._validated(X)) * self.target_scale_ + self.target_mean_
        answers = namespace(answers).astype(answers, self._dtype)
        return answers[:, 0] if self._is_flat else answers

    def local_coef(self, X):
        """Return the slopes of the answer at each query.

        Returns
        -------
        ndarray of shape (n_queries, n_features) or (n_queries, n_outputs, n_features)
            Change of the answer per unit of each column, by the chain rule through vote, net and
            normal scores.
        """
        scores = self._validated(X)
        slopes = self._slopes(X, scores) * self.target_scale_[:, None]
        slopes = namespace(slopes).astype(slopes, self._dtype)
        return slopes[:, 0, :] if self._is_flat else slopes

    def voter_values(self, rows):
        """Return the targets of voters.

        Parameters
        ----------
        rows : array-like of int
            Their places, as given by ``neighbors``.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Targets.
        """
        check_is_fitted(self)
        values = self.voter_outputs_[rows, ...] * self.target_scale_ + self.target_mean_
        return values[:, 0] if self._is_flat else values

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
