"""What neural neighbours for numbers and for classes share."""

import threading
import warnings
from abc import ABCMeta, abstractmethod
from numbers import Integral, Real

import numpy as np
from array_api_compat import device as device_of
from scipy.sparse import csr_matrix
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from vicinal._base import (
    HeldOut,
    Progress,
    aligned_answers,
    as_numpy,
    check_same_library,
    documented,
    draw_seeds,
    fold_entries,
    free_memory,
    is_array_api,
    namespace,
    row_blocks,
    rows_outside,
    thread_map,
    validate_array_api,
)
from vicinal._base._compat import Interval, StrOptions, num_samples, rows_of
from vicinal._base._explanation import ExplainRowMixin
from vicinal._kernels.linear._covariance import normal_score_knots, score_slopes
from vicinal._kernels.metric._embedding_net import (
    EPSILON,
    Nets,
    NetShape,
    backward,
    distances,
    forward,
    shares,
    vote_gradient,
)
from vicinal.metric._explain import neighbor_sections
from vicinal.metric._training import TrainingPlan, train_nets

_N_FREQUENCIES, _N_PER_FEATURE = 8, 12
# From so many rows on every net has periodic features, below every second one.
_PERIODIC_FROM = 1000
# Fewer rows leave nothing to hold out; the map stays as it was drawn.
_MIN_ROWS = 4


class _Interrupted(Exception):
    """Ends the epochs of other threads when one of them fails."""


@documented
class BaseNeuralNeighbors(
    ExplainRowMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    metaclass=ABCMeta,
):
    """Nets whose coordinates let near rows vote.

    Parameters
    ----------
    n_estimators : int, default=4
        Number of nets; their votes are averaged.
    n_components : int, default=128
        Coordinates of a net; 64 halve the time and cost about a twentieth of the accuracy.
    n_hidden : int, default=128
        Width of the hidden layer.
    periodic : bool or "auto", default="auto"
        Whether columns first pass sines and cosines of learned frequencies, which follow targets
        that change quickly; ``"auto"`` gives them to every net from 1,000 rows on and to every
        second one below, where they overfit.
    n_voters : int or "auto", default="auto"
        Rows that vote in a step beside the batch itself; ``"auto"`` is 15 % of the rows, at least
        1,024 and at most 16,384. All rows vote at prediction.
    batch_size : int or "auto", default="auto"
        Rows answered in a step; ``"auto"`` is 256, or 1,024 above 20,000 rows.
    learning_rate : float, default=0.004
        Rate of AdamW at the start.
    weight_decay : float, default=0.0002
        Its decay of the parameters.
    max_iter : int, default=300
        Largest number of epochs.
    n_iter_no_change : int, default=8
        After so many epochs in which the held-out loss has not fallen by ``tol``, a net goes back
        to its best state and on with three tenths of the rate; the third time it stops.
    validation_fraction : float, default=0.15
        Share of the rows that each net holds out (other ones each) to be stopped by; they vote at
        prediction.
    n_jobs : int, default=None
        Nets trained at a time, in threads; ``None`` uses every core.
    random_state : int, RandomState instance or None, default=None
        Draws the nets, the rows held out and the batches.

    Attributes
    ----------
    nets_ : list of dict
        Per net whether it is ``periodic``, its ``parameters`` and ``statistics``, and its
        ``loss_curve`` and ``validation_loss_curve`` by epochs.
    embedding_ : list of ndarray of shape (n_samples, n_components)
        Coordinates of the voters in each net.
    knots_ : list of (ndarray, ndarray)
        Per column values and their normal scores, between which the map is linear.
    voter_log_weights_ : ndarray of shape (n_samples,)
        Logarithms of the weights of the votes.
    mean_ : ndarray of shape (n_features,)
        Mean of each column.
    n_iter_ : int
        Epochs of the net that was trained longest.

    References
    ----------
    .. [1] H.-J. Ye, H.-H. Yin, D.-C. Zhan and W.-L. Chao, "Revisiting nearest neighbor for tabular
       data: a deep tabular baseline two decades later", ICLR 2025, arXiv:2407.03257.
    .. [2] Y. Gorishniy, I. Rubachev and A. Babenko, "On embeddings for numerical features in
       tabular deep learning", NeurIPS 2022.
    """

    # Normal scores are clipped to plus and minus this.
    score_limit = 4.0
    # ``held_out`` takes as long as so many fits, unless a device trains them side by side.
    fits_each_fold = True

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
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # --- training -----------------------------------------------------------------------------

    def _fit_nets(self, X, y, sample_weight) -> None:
        X, values, weights, classes = self._prepared(X, y, sample_weight)
        data = self._placed(X, values, weights)
        (self.nets_,) = self._train(data, classes, [np.arange(X.shape[0])])
        self.n_iter_ = max(len(net["loss_curve"]) for net in self.nets_)
        self._store(*data)

    @abstractmethod
    def _prepared(self, X, y, sample_weight) -> tuple:
        """Return rows, their values (n, c), positive weights, and whether values are classes."""

    def _placed(self, X, values, weights) -> tuple:
        """Return normal scores of rows, their values and weights of mean one, where X lies."""
        if X.shape[0] < 2:
            raise ValueError(
                f"n_samples={X.shape[0]} row of positive weight cannot be both learned from and "
                f"held out; {type(self).__name__} needs two or more."
            )
        xp = namespace(X)
        host = np.asarray(as_numpy(X), dtype=np.float64)
        self.knots_ = [normal_score_knots(column, as_numpy(weights)) for column in host.T]
        self.mean_ = np.average(host, axis=0, weights=as_numpy(weights))
        self._dtype = X.dtype
        self._like = X[:0, ...] if is_array_api(X) else None
        weights = weights / xp.mean(weights)
        scores = self._scores(host, X.dtype if is_array_api(X) else xp.float32)
        return scores, values, weights

    def held_out(self, X, y, *, folds, rows=None, sample_weight=None, groups=None) -> HeldOut:
        """Return answers to rows by nets that had not seen them.

        The nets of all folds are trained side by side, which fills a device; columns become normal
        scores by all rows.

        Parameters
        ----------
        X, y
            As in ``fit``.
        folds : sequence of ndarray of int
            Rows of each fold.
        rows : ndarray of int, default=None
            Rows to answer; all by default.
        sample_weight : array-like of shape (n_samples,), default=None
            Positive weights.
        groups : ignored
            Folds hold groups whole.

        Returns
        -------
        HeldOut
            One candidate and its answers.
        """
        model, n_rows = clone(self), num_samples(X)
        X, values, weights, classes = model._prepared(X, y, sample_weight)
        if X.shape[0] < n_rows:
            raise ValueError(
                f"{n_rows - X.shape[0]} rows have sample_weight=0, but folds count every row; "
                "leave those rows out of X, y and folds."
            )
        data = model._placed(X, values, weights)
        pools = [rows_outside(fold, X.shape[0]) for fold in folds]
        found = model._train(data, classes, pools)
        entries = fold_entries(folds, rows)
        method, parts = "predict_proba" if classes else "predict", []
        for pool, nets, own in zip(pools, found, entries, strict=True):
            model.nets_ = nets
            model._store(*(rows_of(array, pool) for array in data))
            labels = getattr(model, "classes_", None)
            parts.append(aligned_answers(model, rows_of(X, own), method, labels))
        return HeldOut([{}], np.concatenate(entries), np.concatenate(parts)[None])

    def _train(self, data, classes, pools) -> list[list[dict]]:
        """Train the nets of one model for each pool of rows."""
        scores = data[0]
        data = [namespace(scores).astype(array, scores.dtype) for array in data]
        n, d = min(map(len, pools)), scores.shape[1]
        n_nets = self.n_estimators
        seeds = draw_seeds(self.random_state, n_nets)
        kinds = [self._is_periodic(e, n) for e in range(n_nets)]
        plan, stop = self._plan(n), threading.Event()
        places = [(m, e) for m in range(len(pools)) for e in range(n_nets)]
        groups = self._groups(places, kinds, plan, scores)
        with Progress(
            len(places) * plan.max_iter, type(self).__name__, verbose=self.verbose
        ) as progress:

            def train(group):
                def on_epoch(note):
                    progress.advance(len(group), note)
                    if stop.is_set():
                        raise _Interrupted

                found = train_nets(
                    *data,
                    self._shape(d, kinds[group[0][1]]),
                    plan,
                    [seeds[e] for _, e in group],
                    classes=classes,
                    pools=[pools[m] for m, _ in group],
                    on_epoch=on_epoch,
                )
                early = sum(plan.max_iter - len(net.losses) for net in found)
                progress.advance(early, "stopped early" if early else "")
                return found

            # One thread of BLAS each: sums then have one order, whatever the number of threads.
            # A device takes one recording at a time, and fills itself with the nets of one group.
            jobs = 1 if is_array_api(scores) else self.n_jobs
            with threadpool_limits(1, user_api="blas"):
                trained = thread_map(train, groups, jobs, stop=stop)
        models: list = [[None] * n_nets for _ in pools]
        for group, found in zip(groups, trained, strict=True):
            for (m, e), net in zip(group, found, strict=True):
                models[m][e] = {
                    "periodic": bool(kinds[e]),
                    "parameters": net.parameters,
                    "statistics": net.statistics,
                    "loss_curve": np.array(net.losses),
                    "validation_loss_curve": np.array(net.held_out_losses),
                }
                if not net.converged and plan.max_iter == self.max_iter:
                    warnings.warn(
                        f"A net still improved after max_iter={self.max_iter} epochs; raise "
                        "max_iter, or lower n_iter_no_change.",
                        ConvergenceWarning,
                        stacklevel=5,
                    )
        return models

    def _groups(self, places, kinds, plan, scores) -> list[list]:
        """Return which nets are trained side by side: on a device all of one kind that fit."""
        if not is_array_api(scores):
            return [[place] for place in places]
        width = scores.shape[1] * (2 * _N_FREQUENCIES + 1 + 2 * _N_PER_FEATURE)
        width += 4 * (self.n_hidden + self.n_components)
        bytes_per_net = 4 * plan.n_window * (2 * width + 6 * plan.batch_size)
        groups = []
        for kind in (True, False):
            alike = [place for place in places if kinds[place[1]] == kind]
            blocks = row_blocks(len(alike), bytes_per_net, working_memory=free_memory(scores))
            groups += [alike[block] for block in blocks]
        return groups

    def _plan(self, n: int) -> TrainingPlan:
        """Resolve the settings for n rows."""
        if n < _MIN_ROWS:
            return TrainingPlan(1, 1, 0, 1, self.tol, 1, self.learning_rate, self.weight_decay)
        n_held_out = min(max(1, round(self.validation_fraction * n)), n - 3)
        n_train = n - n_held_out
        batch = self.batch_size
        if batch == "auto":
            batch = 256 if n <= 20_000 else 1024
        batch = min(batch, n_train)
        voters = self.n_voters
        if voters == "auto":
            voters = int(np.clip(0.15 * n_train, 1024, 16_384))
        return TrainingPlan(
            batch_size=batch,
            n_window=min(batch + voters, n_train),
            max_iter=self.max_iter,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
            n_held_out=n_held_out,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
        )

    def _is_periodic(self, e: int, n: int) -> bool:
        if self.periodic == "auto":
            return n >= _PERIODIC_FROM or e % 2 == 0
        return bool(self.periodic)

    def _shape(self, d: int, periodic: bool) -> NetShape:
        n_frequencies = _N_FREQUENCIES if periodic else 0
        return NetShape(d, n_frequencies, _N_PER_FEATURE, self.n_hidden, self.n_components)

    # --- voters -------------------------------------------------------------------------------

    def _store(self, scores, values, weights) -> None:
        """Keep what votes: coordinates of the rows in every net, their values and weights."""
        xp = namespace(scores)
        working = scores.dtype if is_array_api(scores) else np.float64
        self.embedding_ = self._embedded(xp.astype(scores, working))
        self.voter_outputs_ = xp.astype(values, working)
        self.voter_log_weights_ = xp.log(xp.astype(weights, working))

    def _add_voters(self, X, values, weights) -> None:
        """Add rows that vote from now on; the nets stay."""
        xp = namespace(X)
        old = self.embedding_, self.voter_outputs_, self.voter_log_weights_
        # Weights were scaled to a mean of one; new rows are counted in the same unit.
        self._store(self._scores(X, self.voter_outputs_.dtype), values, weights)
        new = self.embedding_, self.voter_outputs_, self.voter_log_weights_
        self.embedding_ = [xp.concat(both, axis=0) for both in zip(old[0], new[0], strict=True)]
        self.voter_outputs_ = xp.concat([old[1], new[1]], axis=0)
        self.voter_log_weights_ = xp.concat([old[2], new[2]], axis=0)

    def _scores(self, X, dtype):
        """Return normal scores of rows, clipped; tensors pass through the host for it."""
        host = np.asarray(as_numpy(X), dtype=np.float64)
        out = np.empty(host.shape)
        for j, (values, scores) in enumerate(self.knots_):
            out[:, j] = np.interp(host[:, j], values, scores)
        out = np.clip(out, -self.score_limit, self.score_limit)
        if self._like is None:
            return out.astype(dtype)
        xp = namespace(self._like)
        return xp.asarray(out, dtype=dtype, device=device_of(self._like))

    def _net(self, e: int, like) -> Nets:
        """Return one net in the library and precision of ``like``."""
        xp, net = namespace(like), self.nets_[e]
        place = {"dtype": like.dtype, "device": device_of(like)}
        shape = self._shape(len(self.knots_), net["periodic"])
        parts = (net["parameters"][None], net["statistics"][None])
        return Nets(shape, *(xp.asarray(part, **place) for part in parts))

    def _embedded(self, scores) -> list:
        """Return the coordinates of rows in every net."""
        xp = namespace(scores)
        width = scores.shape[1] * (2 * _N_FREQUENCIES + 1 + 2 * _N_PER_FEATURE) + self.n_hidden
        found = []
        for e in range(self.n_estimators):
            net = self._net(e, scores)
            parts = [
                net.embed(scores[block, ...])[0, ...]
                for block in row_blocks(
                    scores.shape[0], 16 * width, working_memory=free_memory(scores)
                )
            ]
            found.append(xp.concat(parts, axis=0))
        return found

    def net_arrays(self, e):
        """Return what one net is made of.

        Parameters
        ----------
        e : int
            Which net.

        Returns
        -------
        dict of str to ndarray
            The matrices of the net by the names of the formula, and ``mean``, ``inverse``
            (one over the standard deviation), ``scale`` and ``shift`` of both normalisations.
        """
        check_is_fitted(self)
        net = self._net(e, np.zeros((1, 1)))
        arrays = {name: part[0] for name, part in {**net.P, **net.S}.items()}
        for layer in ("1", "2"):
            arrays["inverse" + layer] = 1.0 / np.sqrt(arrays.pop("var" + layer) + EPSILON)
        return arrays

    # --- answers ------------------------------------------------------------------------------

    def _validated(self, X):
        """Return normal scores of queries, in working precision."""
        check_is_fitted(self)
        if self._like is not None:
            check_same_library(self._like, X)
            X = validate_array_api(self, X, reset=False)
            return self._scores(X, self._dtype)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return self._scores(X, np.float64)

    def _blocks(self, n_queries: int, n_arrays: int = 4):
        bytes_per_row = 8 * n_arrays * self.voter_outputs_.shape[0]
        return row_blocks(n_queries, bytes_per_row, working_memory=free_memory(self.voter_outputs_))

    def _mean_shares(self, embedded, block):
        """Return the share of every voter in the answers of a block, mean over the nets."""
        total = 0.0
        for coordinates, voters in zip(embedded, self.embedding_, strict=True):
            D = distances(coordinates[None, block, :], voters[None])
            total = total + shares(D, self.voter_log_weights_[None])[0, ...]
        return total / self.n_estimators

    def _answers(self, scores):
        """Return the mean vote of the nets: (n_queries, n_outputs)."""
        xp = namespace(scores)
        embedded = self._embedded(scores)
        parts = [
            xp.matmul(self._mean_shares(embedded, block), self.voter_outputs_)
            for block in self._blocks(scores.shape[0])
        ]
        return xp.concat(parts, axis=0)

    def _slopes(self, X, scores):
        """Return the slopes of every output by the columns of X: (n_queries, n_outputs, d)."""
        xp = namespace(scores)
        n_outputs = self.voter_outputs_.shape[1]
        host = np.asarray(as_numpy(X), dtype=np.float64)
        bends = np.stack(
            [score_slopes(host[:, j], *knots) for j, knots in enumerate(self.knots_)], axis=1
        )
        bends *= np.abs(as_numpy(scores)) < self.score_limit
        bends = xp.asarray(bends, dtype=scores.dtype, device=device_of(scores))
        out = xp.zeros(
            (scores.shape[0], n_outputs, scores.shape[1]),
            dtype=scores.dtype,
            device=device_of(scores),
        )
        V, Y = self.embedding_, self.voter_outputs_[None]
        for e in range(self.n_estimators):
            net = self._net(e, scores)
            for block in self._blocks(scores.shape[0], 6):
                Q, cache = forward(net.P, net.S, scores[None, block, :], training=False)
                D = distances(Q, V[e][None])
                S = shares(D, self.voter_log_weights_[None])
                p = xp.matmul(S, Y)
                for c in range(n_outputs):
                    d_p = xp.zeros_like(p)
                    d_p[:, :, c] = 1.0
                    d_q, _ = vote_gradient(Q, V[e][None], Y, S, D, p, d_p)
                    d_x = backward(net.P, dict(cache), d_q, None, training=False)
                    out[block, c, :] += d_x[0, ...] / self.n_estimators
        return out * bends[:, None, :]

    def neighbors(self, X, n_neighbors=None):
        """Return the training rows that answer each query and their weights.

        Parameters
        ----------
        n_neighbors : int, default=None
            How many rows of largest share to keep for each query; ``None`` keeps all, since every
            row has a say.

        Returns
        -------
        weights : CSR matrix of shape (n_queries, n_samples)
            Share of each training row in the answer, mean over the nets; those of all rows add up
            to one. Columns are rows in the order of ``fit`` (without those of weight 0) and
            ``partial_fit``; the entries of a query are stored by falling share.
        """
        scores = self._validated(X)
        if n_neighbors is not None and n_neighbors < 1:
            raise ValueError(f"n_neighbors={n_neighbors} must be at least 1.")
        xp, embedded = namespace(scores), self._embedded(scores)
        found = []
        for block in self._blocks(scores.shape[0]):
            mean = self._mean_shares(embedded, block)
            order = xp.argsort(-mean, axis=1, stable=True)[:, :n_neighbors]
            found.append((order, xp.take_along_axis(mean, order, axis=1)))
        rows, weights = (xp.concat(part, axis=0) for part in zip(*found, strict=True))
        rows, weights = as_numpy(rows), as_numpy(xp.astype(weights, self._dtype))
        ends = np.arange(len(rows) + 1) * rows.shape[1]
        shape = len(rows), self.voter_log_weights_.shape[0]
        return csr_matrix((weights.ravel(), rows.ravel(), ends), shape=shape)

    def transform(self, X):
        """Map rows to the learned coordinates.

        Returns
        -------
        ndarray of shape (n_queries, n_estimators * n_components)
            Coordinates in all nets side by side; squared distance in them is the mean over the
            nets of the squared distance in each.
        """
        scores = self._validated(X)
        xp = namespace(scores)
        joined = xp.concat(self._embedded(scores), axis=1) / self.n_estimators**0.5
        return xp.astype(joined, self._dtype)

    def _sections(self, X, columns):
        return neighbor_sections(self, X, columns)

    @property
    def _n_features_out(self) -> int:
        return self.n_estimators * self.n_components
