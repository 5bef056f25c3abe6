"""Classification and regression by neighbours in learned coordinates."""

from copy import copy
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from array_api_compat import device as device_of
from scipy.sparse import csr_matrix
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
    clone,
)

from vicinal import _base
from vicinal._base._compat import RUN_CONSTRAINTS, Interval, StrOptions, num_samples, rows_of
from vicinal._base._explanation import ExplainRowMixin
from vicinal._kernels.linear._covariance import normal_score_knots, score_slopes
from vicinal._kernels.metric import _embedding_net as kernels
from vicinal.metric._explain import neighbor_sections
from vicinal.metric._training import N_FREQUENCIES, N_PER_FEATURE, Voters, net_shape, train_models

_TARGETS: dict = {"task": "regression", "multi_output": True}
_FLOOR = 1e-7  # of a probability whose logarithm is taken, as in the training


@_base.documented
class _NeuralNeighbors(
    ExplainRowMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Base class of nearest neighbours in coordinates of neural networks.

    Parameters
    ----------
    n_estimators : int, default=4
        Number of networks; their predictions are averaged.
    n_components : int, default=128
        Number of coordinates of a network; 64 takes half the time.
    n_hidden : int, default=128
        Width of the hidden layer.
    periodic : bool or "auto", default="auto"
        Whether to add sines and cosines of the columns with learned frequencies, for targets that
        change quickly. ``"auto"`` adds them in every network from 1,000 rows, and in every second
        one below, where they may overfit.
    n_voters : int or "auto", default="auto"
        Number of neighbours in a training step in addition to the batch; ``"auto"`` is 15 % of
        the rows, at least 1,024 and at most 16,384. All rows are neighbours at prediction.
    batch_size : int or "auto", default="auto"
        Rows predicted in a training step; ``"auto"`` is 256, or 1,024 above 20,000 rows.
    learning_rate : float, default=0.004
        Initial learning rate of AdamW.
    weight_decay : float, default=0.0002
        Weight decay of AdamW.
    max_iter : int, default=300
        Largest number of epochs.
    n_iter_no_change : int, default=4
        After this number of epochs without an improvement of the held-out loss by ``tol``, a
        network returns to its best state and continues with 0.3 times the rate; the third time it
        stops.
    validation_fraction : float, default=0.15
        Share of the rows that each network holds out for early stopping. It is larger than the 0.1
        of other models because little is lost: every network holds out other rows, and these rows
        are neighbours at prediction.
    device : str or None, default=None
        Device of torch, such as ``"cuda"``, that trains the networks of NumPy arrays; ``"auto"``
        is a GPU if there is one. What is fitted stays on the host, and predictions need no GPU.
        ``None`` trains where the arrays are.
    n_jobs : int, default=None
        Number of networks trained at a time, in threads. ``None`` is 1 unless in a
        :func:`joblib.parallel_config` context, ``-1`` is every core. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the networks, the held-out rows and the batches.

    Attributes
    ----------
    nets_ : list of dict
        Per network whether it is ``periodic``, its ``parameters`` and ``statistics``, and its
        ``loss_curve`` and ``validation_loss_curve`` by epoch.
    embedding_ : list of ndarray of shape (n_samples, n_components)
        Coordinates of the training rows in each network.
    knots_ : list of (ndarray, ndarray)
        Per column values and their normal scores, for linear interpolation.
    voter_log_weights_ : ndarray of shape (n_samples,)
        Logarithms of the weights of the training rows.
    mean_ : ndarray of shape (n_features,)
        Mean of each column.
    n_iter_ : int
        Largest number of epochs of a network.

    References
    ----------
    .. [1] H.-J. Ye, H.-H. Yin, D.-C. Zhan and W.-L. Chao, "Revisiting nearest neighbor for tabular
       data: a deep tabular baseline two decades later", ICLR 2025, arXiv:2407.03257.
    .. [2] Y. Gorishniy, I. Rubachev and A. Babenko, "On embeddings for numerical features in
       tabular deep learning", NeurIPS 2022.
    """

    # Normal scores are clipped to plus and minus this.
    _score_limit = 4.0
    # Whether ``held_out`` costs one fit per fold.
    _fits_each_fold = True
    _reference: Any = None  # an empty array of the library of the training rows, None for NumPy

    _parameter_constraints: dict = {
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_hidden": [Interval(Integral, 1, None, closed="left")],
        "periodic": ["boolean", StrOptions({"auto"})],
        "n_voters": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "batch_size": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "device": [str, None],
        **RUN_CONSTRAINTS,
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
        n_iter_no_change=4,
        tol=1e-4,
        validation_fraction=0.15,
        device=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        _base.store_parameters(self, locals())

    # --- training -----------------------------------------------------------------------------

    def _learn(self, data: _base.TrainingData) -> Voters:
        """Learn the normal scores of the columns; return the training data of the networks."""
        if len(data) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two rows of positive weight, but got "
                f"{len(data)}."
            )
        values, weights = self._votes(data)
        host, by = np.asarray(data.host(data.X), dtype=np.float64), data.host(weights)
        self.knots_ = [normal_score_knots(column, by) for column in host.T]
        self.mean_ = np.average(host, axis=0, weights=by)
        self._dtype = data.X.dtype
        self._weight_unit = float(data.xp.mean(weights))
        dtype = np.float32 if data.xp is np else data.X.dtype
        return Voters(self._scores(data.X, dtype), values, weights / self._weight_unit)

    @_base.atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Train the networks.

        Parameters
        ----------
        y : array-like of shape (n_samples,), for regression also (n_samples, n_outputs)
            Labels or targets.
        """
        data = self._data(X, y, sample_weight)
        voters, pool = self._learn(data), np.arange(len(data))
        (self.nets_,) = self._train(data, voters, [pool])
        self._store(voters)
        return self

    def _train(self, data: _base.TrainingData, voters: Voters, pools: list) -> list[list[dict]]:
        """Return the nets of every pool of rows, trained on ``device``."""
        device: Any = _base.computing_device(None, self.device)
        if data.xp is np and device is not None:
            voters = Voters(*_base.on_torch(device, *voters))
        has_classes, on_host = data.classes is not None, isinstance(voters.scores, np.ndarray)
        return train_models(self, voters, pools, classes=has_classes, on_host=on_host)

    def held_out(self, X, y, *, folds, rows=None, sample_weight=None, groups=None) -> _base.HeldOut:
        """Return predictions for rows by networks that have not seen them.

        On a device the networks of all folds are trained at once. The normal scores of the columns
        are learned from all rows.

        Parameters
        ----------
        X, y
            As in ``fit``.
        folds : sequence of ndarray of int
            Rows of each fold.
        rows : ndarray of int, default=None
            Rows to predict; all by default.
        sample_weight : array-like of shape (n_samples,), default=None
            Positive weights.
        groups : ignored
            Folds must not split groups.

        Returns
        -------
        HeldOut
            One candidate and its predictions. ``fitted`` keeps the networks of all folds, with all
            rows as neighbours.
        """
        model = clone(self)
        data = model._data(X, y, sample_weight)
        if len(data) < num_samples(X):
            n_rows = _base.counted(num_samples(X) - len(data), "row")
            raise ValueError(
                f"sample_weight is zero for {n_rows}, but held_out predicts every row; remove "
                "those rows from X, y and folds."
            )
        voters = model._learn(data)
        trained: list[dict] = []

        def predict(folds) -> _base.HeldOut:
            pools = [_base.rows_outside(fold, len(data)) for fold in folds]
            entries = _base.fold_entries(folds, rows)
            method, parts = "predict" if data.classes is None else "predict_proba", []
            found = model._train(data, voters, pools)
            for pool, nets, own in zip(pools, found, entries, strict=True):
                model.nets_ = nets
                model._store(Voters(*(rows_of(part, pool) for part in voters)))
                parts.append(
                    _base.aligned_predictions(model, rows_of(data.X, own), method, data.classes)
                )
                trained.extend(nets)
            predictions = np.concatenate(parts)[None]
            return _base.HeldOut([{}], np.concatenate(entries), predictions, fitted, predict)

        def fitted(c: int, *table):
            if table:
                return clone(self).fit(*table)
            whole = copy(model).set_params(n_estimators=len(trained))
            whole.nets_ = trained
            whole._store(voters)
            return whole

        return predict(folds)

    # --- voters -------------------------------------------------------------------------------

    def _store(self, voters: Voters) -> None:
        """Store the neighbours: their coordinates in every network, targets and weights."""
        self.n_iter_ = max(len(net["loss_curve"]) for net in self.nets_)
        xp = _base.namespace(voters.scores)
        working = np.float64 if isinstance(voters.scores, np.ndarray) else voters.scores.dtype
        scores, self.voter_outputs_, weights = (xp.astype(part, working) for part in voters)
        self.voter_log_weights_ = xp.log(weights)
        self.embedding_ = self._embedded(scores)

    def _add_voters(self, data: _base.TrainingData) -> None:
        """Add neighbours without training."""
        old = [self.voter_outputs_, self.voter_log_weights_, *self.embedding_]
        values, weights = self._votes(data)
        scores = self._scores(data.X, self.voter_outputs_.dtype)
        # Weights are relative to the mean weight of the training rows.
        self._store(Voters(scores, values, weights / self._weight_unit))
        new = [self.voter_outputs_, self.voter_log_weights_, *self.embedding_]
        both = [data.xp.concat(pair, axis=0) for pair in zip(old, new, strict=True)]
        self.voter_outputs_, self.voter_log_weights_, *self.embedding_ = both

    def _scores(self, X, dtype):
        """Return clipped normal scores of rows, computed on the host."""
        host = np.asarray(_base.as_numpy(X), dtype=np.float64)
        out = np.empty(host.shape)
        for j, (values, scores) in enumerate(self.knots_):
            out[:, j] = np.interp(host[:, j], values, scores)
        out = np.clip(out, -self._score_limit, self._score_limit)
        return _base.namespace(X).asarray(out, dtype=dtype, device=device_of(X))

    def _net(self, e: int, like) -> kernels.Nets:
        """Return one net in the library and precision of ``like``."""
        xp, net = _base.namespace(like), self.nets_[e]
        where = {"dtype": like.dtype, "device": device_of(like)}
        parts = (net["parameters"][None], net["statistics"][None])
        shape = net_shape(self, len(self.knots_), net["periodic"])
        return kernels.Nets(shape, *(xp.asarray(part, **where) for part in parts))

    def _embedded(self, scores) -> list:
        """Return the coordinates of rows in every net."""
        xp = _base.namespace(scores)
        width = scores.shape[1] * (2 * N_FREQUENCIES + 1 + 2 * N_PER_FEATURE) + self.n_hidden
        memory = _base.free_memory(scores)
        blocks = list(_base.row_blocks(scores.shape[0], 16 * width, working_memory=memory))
        found = []
        for e in range(self.n_estimators):
            net = self._net(e, scores)
            parts = [net.embed(scores[block, ...])[0, ...] for block in blocks]
            found.append(xp.concat(parts, axis=0))
        return found

    def _net_arrays(self, e: int) -> dict[str, np.ndarray]:
        """Return the matrices of one network by their names in the formula.

        Also ``mean``, ``inverse`` (one over the standard deviation), ``scale`` and ``shift`` of
        both normalisations.
        """
        net = self._net(e, np.zeros((1, 1)))
        arrays = {name: part[0] for name, part in {**net.P, **net.S}.items()}
        for layer in ("1", "2"):
            arrays["inverse" + layer] = 1.0 / np.sqrt(arrays.pop("var" + layer) + kernels.EPSILON)
        return arrays

    # --- predictions --------------------------------------------------------------------------

    def _queries(self, X):
        """Return normal scores of queries, in working precision."""
        X = _base.query_rows(self, X)
        return self._scores(X, self.voter_outputs_.dtype)

    def _blocks(self, n_queries: int, n_arrays: int = 4):
        bytes_per_row = 8 * n_arrays * self.voter_outputs_.shape[0]
        return _base.row_blocks(
            n_queries, bytes_per_row, working_memory=_base.free_memory(self.voter_outputs_)
        )

    def _mean_shares(self, embedded, block):
        """Return the weight of every neighbour for a block of queries, mean over networks."""
        total = 0.0
        for coordinates, voters in zip(embedded, self.embedding_, strict=True):
            D = kernels.distances(coordinates[None, block, :], voters[None])
            total = total + kernels.shares(D, self.voter_log_weights_[None])[0, ...]
        return total / self.n_estimators

    def _mean_votes(self, scores):
        """Return the mean prediction of the networks: (n_queries, n_outputs)."""
        xp = _base.namespace(scores)
        embedded = self._embedded(scores)
        parts = [
            xp.matmul(self._mean_shares(embedded, block), self.voter_outputs_)
            for block in self._blocks(scores.shape[0])
        ]
        return xp.concat(parts, axis=0)

    def _slopes(self, X, scores):
        """Return the slopes of every output by the columns of X: (n_queries, n_outputs, d)."""
        xp = _base.namespace(scores)
        n_outputs = self.voter_outputs_.shape[1]
        host = np.asarray(_base.as_numpy(X), dtype=np.float64)
        stretch = np.stack(
            [score_slopes(host[:, j], *knots) for j, knots in enumerate(self.knots_)], axis=1
        )
        stretch *= np.abs(_base.as_numpy(scores)) < self._score_limit
        stretch = xp.asarray(stretch, dtype=scores.dtype, device=device_of(scores))
        out = xp.zeros(
            (scores.shape[0], n_outputs, scores.shape[1]),
            dtype=scores.dtype,
            device=device_of(scores),
        )
        V, Y = self.embedding_, self.voter_outputs_[None]
        for e in range(self.n_estimators):
            net = self._net(e, scores)
            for block in self._blocks(scores.shape[0], 6):
                Q, cache = kernels.forward(net.P, net.S, scores[None, block, :], training=False)
                D = kernels.distances(Q, V[e][None])
                S = kernels.shares(D, self.voter_log_weights_[None])
                p = xp.matmul(S, Y)
                for c in range(n_outputs):
                    d_p = xp.zeros_like(p)
                    d_p[:, :, c] = 1.0
                    d_q, _ = kernels.vote_gradient(Q, V[e][None], Y, S, D, p, d_p)
                    d_x = kernels.backward(net.P, dict(cache), d_q, None, training=False)
                    out[block, c, :] += d_x[0, ...] / self.n_estimators
        return out * stretch[:, None, :]

    def neighbors(self, X, n_neighbors=None):
        """Return the weights of the training rows in each prediction.

        Parameters
        ----------
        n_neighbors : int, default=None
            Number of rows of largest weight to return for each query; ``None`` returns all.

        Returns
        -------
        weights : CSR matrix of shape (n_queries, n_samples)
            Weight of each training row in the prediction, mean over the networks; all weights of a
            query sum to one. Columns are rows in the order of ``fit`` (without those of sample
            weight 0) and ``partial_fit``; the entries of a query are sorted by decreasing weight.
        """
        scores = self._queries(X)
        if n_neighbors is not None and n_neighbors < 1:
            raise ValueError(f"n_neighbors={n_neighbors} must be at least 1.")
        xp, embedded = _base.namespace(scores), self._embedded(scores)
        found = []
        for block in self._blocks(scores.shape[0]):
            mean = self._mean_shares(embedded, block)
            order = xp.argsort(-mean, axis=1, stable=True)[:, :n_neighbors]
            found.append((order, xp.take_along_axis(mean, order, axis=1)))
        rows, weights = (xp.concat(part, axis=0) for part in zip(*found, strict=True))
        rows, weights = _base.as_numpy(rows), _base.as_numpy(xp.astype(weights, self._dtype))
        ends = np.arange(len(rows) + 1) * rows.shape[1]
        shape = len(rows), self.voter_log_weights_.shape[0]
        return csr_matrix((weights.ravel(), rows.ravel(), ends), shape=shape)

    def transform(self, X):
        """Map rows to the learned coordinates.

        Returns
        -------
        ndarray of shape (n_queries, n_estimators * n_components)
            Coordinates of all networks, concatenated; the squared distance is the mean of those of
            the networks.
        """
        scores = self._queries(X)
        xp = _base.namespace(scores)
        joined = xp.concat(self._embedded(scores), axis=1) / self.n_estimators**0.5
        return xp.astype(joined, self._dtype)

    _sections = neighbor_sections

    @property
    def _n_features_out(self) -> int:
        return self.n_estimators * self.n_components


@_base.saved(
    target_mean_="o",
    target_scale_="o",
    mean_="p",
    knots_="*",
    nets_="*",
    embedding_="v e",
    voter_outputs_="v o",
    voter_log_weights_="v",
)
@_base.documented
class NeuralNeighborsRegressor(MultiOutputMixin, RegressorMixin, _NeuralNeighbors):
    r"""Nearest-neighbour regression in coordinates learned by neural networks.

    A small network maps every row to coordinates. The prediction is the mean of the training
    targets, weighted by exp(-distance) in these coordinates. The networks minimise the
    leave-one-out error of this prediction. Every prediction has an explanation: the weights of the
    training rows (``neighbors``) and its slopes (``local_coef``).

    Read more in the :doc:`user guide </guide/embedding>`.

    Parameters
    ----------
    tol : float, default=1e-4
        Least improvement of the loss, the mean squared error of the standardised target.

    Attributes
    ----------
    voter_outputs_ : ndarray of shape (n_samples, n_outputs)
        Standardised targets of the training rows.
    target_mean_, target_scale_ : ndarray of shape (n_outputs,)
        Mean and scale of the targets.

    See Also
    --------
    NeuralNeighborsClassifier : The same for classification.
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

    The squared error of the standardised target is minimised, with ``sample_weight`` in predictions
    and losses [1]_. NumPy arrays are trained on the CPU. Torch tensors are trained on their device,
    all networks of a shape at once, with the same random numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.metric import NeuralNeighborsRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (600, 4))
    >>> y = np.sin(6 * X[:, 0]) * X[:, 1]
    >>> model = NeuralNeighborsRegressor(1, random_state=0).fit(X[:500], y[:500])
    >>> model.score(X[500:], y[500:]) > 0.9
    True
    >>> weights = model.neighbors(X[500:501], n_neighbors=3)
    >>> weights.shape, len(weights.indices)
    ((1, 500), 3)
    """

    def _data(self, X, y, sample_weight) -> _base.TrainingData:
        options: dict = {**_TARGETS, "ensure_min_samples": 2}
        data = _base.training_data(self, X, y, sample_weight, arrays=True, **options)
        xp, Y = data.xp, data.xp.reshape(data.y, (len(data), -1))
        share = xp.astype(data.weights, Y.dtype)[:, None]
        share = share / xp.sum(share)
        self.target_mean_ = xp.sum(share * Y, axis=0)
        spread = xp.sqrt(xp.sum(share * (Y - self.target_mean_) ** 2, axis=0))
        self.target_scale_ = xp.where(spread > 0.0, spread, xp.ones_like(spread))
        self._is_flat = data.y.ndim == 1
        return data

    def _votes(self, data: _base.TrainingData) -> tuple:
        """Return standardised targets and weights of rows."""
        Y = data.xp.reshape(data.y, (len(data), -1))
        return (Y - self.target_mean_) / self.target_scale_, data.weights

    @_base.atomic_fit
    def partial_fit(self, X, y, sample_weight=None):
        """Add neighbours without training; on an unfitted model this is ``fit``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to add.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.

        Returns
        -------
        self : object
            The regressor, with more neighbours.
        """
        if not hasattr(self, "nets_"):
            return self.fit(X, y, sample_weight)
        data = _base.training_data(self, X, y, sample_weight, reset=False, arrays=True, **_TARGETS)
        n_outputs = 1 if data.y.ndim == 1 else data.y.shape[1]
        if n_outputs != self.target_mean_.shape[0]:
            raise ValueError(
                f"y has {n_outputs} outputs, but the model was fitted to "
                f"{self.target_mean_.shape[0]}."
            )
        self._add_voters(data)
        return self

    def predict(self, X):
        """Predict the target."""
        votes = self._mean_votes(self._queries(X)) * self.target_scale_ + self.target_mean_
        votes = _base.namespace(votes).astype(votes, self._dtype)
        return votes[:, 0] if self._is_flat else votes

    def local_coef(self, X):
        """Return the slopes of the prediction at each query.

        Returns
        -------
        ndarray of shape (n_queries, n_features) or (n_queries, n_outputs, n_features)
            Change of the prediction per unit of each column.
        """
        scores = self._queries(X)
        slopes = self._slopes(X, scores) * self.target_scale_[:, None]
        slopes = _base.namespace(slopes).astype(slopes, self._dtype)
        return slopes[:, 0, :] if self._is_flat else slopes

    def _voter_values(self, rows):
        """Return the targets of neighbours."""
        values = self.voter_outputs_[rows, ...] * self.target_scale_ + self.target_mean_
        return values[:, 0] if self._is_flat else values


@_base.saved(
    classes_="c labels",
    mean_="p",
    knots_="*",
    nets_="*",
    embedding_="v e",
    voter_outputs_="v c",
    voter_log_weights_="v",
)
@_base.documented
class NeuralNeighborsClassifier(_base.ArgmaxClassifierMixin, _NeuralNeighbors):
    r"""Nearest-neighbour classification in coordinates learned by neural networks.

    A small network maps every row to coordinates. The probability of a class is its share of the
    training rows, weighted by exp(-distance) in these coordinates. The networks minimise the
    leave-one-out log loss of these probabilities. Every prediction has an explanation: the weights
    of the training rows (``neighbors``) and its slopes (``local_coef``).

    Read more in the :doc:`user guide </guide/embedding>`.

    Parameters
    ----------
    tol : float, default=1e-4
        Least improvement of the loss, the log loss.
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the classes, in predictions and losses.

    Attributes
    ----------
    voter_outputs_ : ndarray of shape (n_samples, n_outputs)
        Class indicators of the training rows.

    See Also
    --------
    NeuralNeighborsRegressor : The same for regression.
    GradientKernelClassifier : A global kernel model in a linear metric.
    vicinal.uncertainty.LocallyAdaptiveClassifier : Soft neighbours in several linear metrics.

    Notes
    -----
    The network is that of :class:`NeuralNeighborsRegressor` [1]_, with its periodic features [2]_.
    The mean of :math:`-\log(p_y + 10^{-7})` is minimised.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.metric import NeuralNeighborsClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (600, 4))
    >>> y = np.where(np.sin(6 * X[:, 0]) * X[:, 1] > 0, "up", "down")
    >>> model = NeuralNeighborsClassifier(1, random_state=0).fit(X[:500], y[:500])
    >>> model.score(X[500:], y[500:]) > 0.85
    True
    >>> weights = model.neighbors(X[500:501], n_neighbors=3)
    >>> weights.shape, len(weights.indices)
    ((1, 500), 3)
    """

    _parameter_constraints: dict = {
        **_NeuralNeighbors._parameter_constraints,
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
        n_iter_no_change=4,
        tol=1e-4,
        validation_fraction=0.15,
        device=None,
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        _base.store_parameters(self, locals())

    def _data(self, X, y, sample_weight) -> _base.TrainingData:
        options: dict = {"task": "classification", "ensure_min_samples": 2}
        data = _base.training_data(self, X, y, sample_weight, arrays=True, **options)
        host = data.host(data.y), data.host(data.weights)
        self.classes_ = data.classes
        self._class_factors = _base.class_factors(self.class_weight, self.classes_, *host)
        return data

    def _votes(self, data: _base.TrainingData) -> tuple:
        """Return class indicators and weights of rows."""
        codes = data.host(data.y)
        indicators = data.array(np.eye(len(self.classes_))[codes])
        return indicators, data.weights * data.array(self._class_factors[codes])

    @_base.atomic_fit
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Add neighbours without training; on an unfitted model this is ``fit``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to add.
        y : array-like of shape (n_samples,)
            Their labels, among the classes of the first ``fit``.
        classes : array-like of shape (n_classes,), default=None
            As in scikit-learn; the ``y`` of the first ``fit`` must have all of them.

        Returns
        -------
        self : object
            The classifier, with more neighbours.
        """
        if not hasattr(self, "nets_"):
            _base.codes_among([] if classes is None else classes, np.unique(_base.as_numpy(y)))
            return self.fit(X, y, sample_weight)
        data = _base.training_data(self, X, y, sample_weight, reset=False, arrays=True)
        codes = data.array(_base.codes_among(_base.as_numpy(data.y), self.classes_))
        self._add_voters(replace(data, y=codes, classes=self.classes_))
        return self

    def predict_proba(self, X):
        """Return the probability of every class."""
        proba = self._mean_votes(self._queries(X))
        xp = _base.namespace(proba)
        return xp.astype(proba / xp.sum(proba, axis=1, keepdims=True), self._dtype)

    def local_coef(self, X):
        """Return the slopes of the log-probabilities at each query.

        Returns
        -------
        ndarray of shape (n_queries, n_classes, n_features)
            Change of the logarithm of each class's probability (plus 1e-7) per unit of each column.
        """
        scores = self._queries(X)
        slopes = self._slopes(X, scores) / (self._mean_votes(scores) + _FLOOR)[:, :, None]
        return _base.namespace(slopes).astype(slopes, self._dtype)

    def _voter_values(self, rows):
        """Return the labels of neighbours."""
        codes = _base.as_numpy(self.voter_outputs_[rows, ...]).argmax(axis=1)
        return self.classes_[codes]
