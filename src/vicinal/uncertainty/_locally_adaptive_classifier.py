"""Locally adaptive classification piloted by uncertainty: one metric per component."""

import warnings
from dataclasses import fields, replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import array_api_compat as compat
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d

from vicinal._base import (
    ArgmaxClassifierMixin,
    Progress,
    TrainingData,
    as_numpy,
    atomic_fit,
    documented,
    query_rows,
    saved,
    store_parameters,
    training_data,
)
from vicinal._base._compat import RUN_CONSTRAINTS, Interval, StrOptions, num_samples
from vicinal._base._explanation import (
    ExplainRowMixin,
    ExplanationSection,
    RowColumns,
    dense_row,
    show,
)
from vicinal._kernels.metric._mixture import COVARIANCE_TYPES
from vicinal._kernels.metric._soft_votes import soft_votes
from vicinal._kernels.metric._uncertainty import one_blas_thread
from vicinal.uncertainty._metric_learning import (
    MetricSettings,
    as_references,
    by_class,
    learn_metrics,
    merge_copies,
)

_CANDIDATES = (1, 4)
# Added to probabilities before their logarithm, so that no single row dominates.
_FLOOR = 1e-3
# Components with a smaller responsibility for a query do not vote on it.
_LEAST_VOTE = 1e-12


@saved(
    classes_="c labels",
    mean_="p",
    whitening_="r p",
    _matrices="m * r",
    metrics_="m * p",
    _numbers="c <c",
    **{"_voters.bounds": "c+1", "_voters.X": "n r"},
)
@documented
class LocallyAdaptiveClassifier(ExplainRowMixin, ArgmaxClassifierMixin, BaseEstimator):
    r"""Soft nearest-neighbour classifier with one learned metric per uncertain region (LCU).

    A :class:`ResponsibilityMixture` of the whitened rows, weighted by their uncertainty, divides
    the space into components. Each component learns a linear metric that improves leave-one-out
    classification of its rows. The votes of all components for a query are weighted by their
    responsibilities. With one component and ``objective="accuracy"`` it is neighbourhood
    components analysis (NCA).

    Use it where nearest neighbours do well and one metric does not fit everywhere. Held-out rows
    decide when learning stops.

    Read more in the :doc:`user guide </guide/uncertainty>`.

    Parameters
    ----------
    n_regions : int or "auto", default="auto"
        Number of local metrics. ``"auto"`` takes 4 if they are better on held-out rows than one
        metric, else 1.
    n_components : int, default=None
        Dimensions that each metric maps into; ``None`` means the rank of the features.
    objective : {"likelihood", "accuracy"}, default="likelihood"
        What the metrics maximise. With p the leave-one-out probability of a row's class,
        ``"likelihood"`` is the mean of log(p + 0.001) and ``"accuracy"`` the mean of p, the
        objective of [1]_. The latter does not penalise overconfident votes and tends to use ever
        fewer neighbours.
    solver : {"lbfgs", "anneal"}, default="lbfgs"
        Optimiser: a quasi-Newton method, or simulated annealing as in [1]_.
    init : {"auto", "whiten"}, default="auto"
        First metric of all components. ``"whiten"``: unit covariance, in units of the mean distance
        to the nearest neighbour. ``"auto"``: the best of whitening with several amounts of
        shrinkage, standardisation, and unit covariance within classes, each at several scales, by
        the likelihood of held-out rows before any learning. Learning uses the coordinates
        of the first metric.
    region_method : {"uncertainty", "density"}, default="uncertainty"
        How regions are found: by a mixture weighted by uncertainty, or by an unweighted one.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="tied"
        Covariances of the mixture.
    early_stopping : bool, default=True
        Whether to stop when the objective on held-out rows no longer rises, and return to the best
        metrics.
    validation_fraction : float, default=0.1
        Share of each class to hold out, with ``early_stopping`` or ``n_regions="auto"``, unless
        ``fit`` is given ``X_val``.
    n_splits : int, default=4
        Number of random splits into training and held-out rows. Each component learns one metric
        per split, and the votes are averaged, which reduces their variance. Ignored if no rows are
        held out, or with ``X_val``.
    n_iter_no_change : int, default=5
        Iterations without improvement on the held-out rows before learning stops.
    max_iter : int, default=100
        Maximum number of iterations. With several components, the first three are for a shared
        metric.
    tol : float, default=1e-5
        Smallest improvement that counts, relative for L-BFGS, absolute on the held-out rows.
    n_jobs : int, default=None
        Number of threads. ``None`` is 1 unless in a :func:`joblib.parallel_config` context, ``-1``
        is every core. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the held-out rows, the starts of the mixture, and annealing.

    Attributes
    ----------
    metrics_ : array of shape (`n_splits_` * `n_regions_`, n_components, n_features)
        Local metrics: the distance of component k is ``norm(metrics_[k] @ (x - x_i))`` in the first
        split; those of the other splits follow.
    n_regions_ : int
        Number of components.
    n_splits_ : int
        Number of metrics of each component.
    mixture_ : ResponsibilityMixture
        Mixture of the rows in the coordinates of the start, ``(x - mean_) @ whitening_.T``.
    uncertainty_ : ndarray of shape (n_samples,)
        Uncertainty of each training row in the coordinates of the start; NaN for rows of
        weight zero and rows held out in the first split.
    objective_ : float
        Final value of the objective, averaged over training rows and splits. With
        ``objective="accuracy"``, the expected leave-one-out accuracy, G / N.
    validation_score_ : float
        Mean of the objective on held-out rows over the splits; NaN if no rows are held out.
    objective_paths_ : list of ndarray
        Objective on held-out rows (training rows if there are none) after each iteration, per
        metric; per split for annealing, which moves all components together.
    n_iter_ : int
        Largest number of iterations of a component.
    mean_ : array of shape (n_features,)
        Mean of the training rows.
    whitening_ : array of shape (rank, n_features)
        Map to the coordinates of the start.

    See Also
    --------
    ResponsibilityMixture : The mixture of the components.
    uncertainty_map : Its weights.
    sklearn.neighbors.NeighborhoodComponentsAnalysis : One metric, without blocks or early stopping.

    Notes
    -----
    With responsibilities :math:`r_{ik}` fixed, each component of [1]_ maximises its part of

    .. math:: G = \sum_i \sum_k r_{ik} \sum_{j \ne i,\, c_j = c_i} p_{ij}^k, \qquad
        p_{ij}^k = \frac{\exp(-\|A^k (x_i - x_j)\|^2)}{\sum_{o \ne i} \exp(-\|A^k (x_i - x_o)\|^2)},

    equations (6) and (7) of [1]_; :math:`G` is the expected leave-one-out accuracy of
    :meth:`predict_proba`. Its gradient, equation (8) with its sign error corrected, is
    :math:`2 A^k \sum_{ij} w_{ij} x_{ij} x_{ij}^\top`, :math:`w_{ij} = r_{ik} (p_i p_{ij} -
    [c_i = c_j] p_{ij})`. By default :math:`\log\frac{p_i^k + \epsilon}{1 + \epsilon}` replaces
    :math:`p_i^k`, the sum of the :math:`p_{ij}^k` of the own class. Apart from
    :math:`\epsilon` this is a lower bound of the log-likelihood of the averaged votes. Its
    gradient has :math:`w_{ij} / (p_i^k + \epsilon)`. The gradient is A times a scatter matrix, in
    which features of large variance dominate, so rows are first transformed to the coordinates of
    the first metric.

    A row of sample weight v counts v times in :math:`G` and as a voter, but is never its own
    neighbour. Equal rows of the same class are merged into one of their total weight, so neither
    repetition nor the order of the rows changes anything.

    One gradient takes :math:`O(N^2 (q + m))` operations in single precision, in blocks of rows:
    memory does not grow with :math:`N^2`. Torch tensors (any array of the array-API standard) stay
    on their device; only matrices of the size of a metric are copied.

    References
    ----------
    .. [1] J. Dai, S. Yan, X. Tang and J. T. Kwok, "Locally adaptive classification piloted by
       uncertainty", ICML 2006.
    .. [2] J. Goldberger, S. Roweis, G. Hinton and R. Salakhutdinov, "Neighbourhood components
       analysis", NeurIPS 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from vicinal.uncertainty import LocallyAdaptiveClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    >>> model = LocallyAdaptiveClassifier(1, random_state=0).fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.9
    True
    >>> model.metrics_.shape  # one component, four splits
    (4, 13, 13)
    """

    _parameter_constraints = {
        "n_regions": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "objective": [StrOptions({"likelihood", "accuracy"})],
        "solver": [StrOptions({"lbfgs", "anneal"})],
        "init": [StrOptions({"auto", "whiten"})],
        "region_method": [StrOptions({"uncertainty", "density"})],
        "covariance_type": [StrOptions(set(COVARIANCE_TYPES))],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_splits": [Interval(Integral, 1, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        **RUN_CONSTRAINTS,
    }

    def __init__(
        self,
        n_regions="auto",
        *,
        n_components=None,
        objective="likelihood",
        solver="lbfgs",
        init="auto",
        region_method="uncertainty",
        covariance_type="tied",
        early_stopping=True,
        validation_fraction=0.1,
        n_splits=4,
        n_iter_no_change=5,
        max_iter=100,
        tol=1e-5,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None, X_val=None, y_val=None):
        """Find the components and learn their metrics.

        Parameters
        ----------
        X_val : array-like of shape (n_val, n_features), default=None
            Held-out rows, instead of a part of ``X``. They should resemble future data: other
            days, speakers or lighting than those of the training rows.
        y_val : array-like of shape (n_val,), default=None
            Their labels.
        """
        options = {"task": "classification", "arrays": True, "ensure_min_samples": 2, "order": "C"}
        data = training_data(self, X, y, sample_weight, **options)
        self.classes_ = data.classes
        distinct, kind, self._numbers = merge_copies(data)
        validation = self._validation_rows(distinct, X_val, y_val)
        settings = self._settings()
        progress = partial(Progress, label=type(self).__name__, verbose=self.verbose)
        rng = check_random_state(self.random_state)
        with one_blas_thread():
            found = learn_metrics(distinct, validation, settings, rng, progress)
        self.mean_, self.whitening_, _ = found.coordinates
        self._voters = as_references(
            by_class(replace(distinct, X=self._whiten(distinct.X))), len(self.classes_)
        )
        self.uncertainty_ = np.full(num_samples(X), np.nan)
        self.uncertainty_[data.positions] = found.uncertainty[kind]
        self._store(found, distinct)
        return self

    def _validation_rows(self, distinct, X_val, y_val) -> TrainingData | None:
        """Return the given held-out rows, with classes numbered as in the distinct rows."""
        if X_val is None:
            if y_val is not None:
                raise ValueError("y_val was given without X_val; give both.")
            return None
        if y_val is None:
            raise ValueError("X_val was given without y_val; give both.")
        X_val = query_rows(self, X_val, arrays=True, order="C")
        labels = column_or_1d(as_numpy(y_val))
        check_consistent_length(X_val, labels)
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y_val holds the labels {unknown.tolist()!r}, which y does not; remove their rows."
            )
        numbers = distinct.array(self._numbers[np.searchsorted(self.classes_, labels)])
        return type(distinct)(X_val, numbers, self.classes_)

    def _settings(self) -> MetricSettings:
        """Return how the metrics are learned, with "auto" resolved."""
        holds_out = self.early_stopping or self.n_regions == "auto"
        given = {
            **self.get_params(deep=False),
            "n_classes": len(self.classes_),
            "n_regions": _CANDIDATES if self.n_regions == "auto" else (self.n_regions,),
            "held_out": self.validation_fraction if holds_out else None,
            "floor": _FLOOR if self.objective == "likelihood" else None,
            "n_iter_no_change": self.n_iter_no_change if self.early_stopping else None,
        }
        return MetricSettings(**{part.name: given[part.name] for part in fields(MetricSettings)})

    def _store(self, found, distinct) -> None:
        xp, dtype = compat.array_namespace(distinct.X), distinct.X.dtype
        self._matrices = np.concatenate([fit.matrices for fit in found.fits])
        self.n_splits_, self.n_regions_ = len(found.fits), found.mixture.n_components
        maps = self._matrices @ as_numpy(self.whitening_).astype(np.float64)
        self.metrics_ = xp.astype(distinct.array(maps), dtype)
        self.mixture_ = found.mixture
        for name in ("weights_", "means_", "covariances_"):
            setattr(self.mixture_, name, xp.astype(getattr(self.mixture_, name), dtype))
        self.objective_ = found.objective
        scores = [fit.score for fit in found.fits]
        self.validation_score_ = float(np.mean(scores)) if found.has_watched else float("nan")
        self.objective_paths_ = [path for fit in found.fits for path in fit.paths]
        self.n_iter_ = max(1, max(len(path) - 1 for path in self.objective_paths_))
        if not all(fit.finished for fit in found.fits):
            warnings.warn(
                f"L-BFGS used all max_iter={self.max_iter} iterations; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def predict_proba(self, X):
        """Return the probability of each class.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Votes of all components, weighted by their responsibility for the query.
        """
        rows = self._whiten(query_rows(self, X, arrays=True, order="C"))
        xp, device = compat.array_namespace(rows), compat.device(rows)
        shares = self.mixture_.predict_proba(rows)
        shares = xp.concat([shares] * self.n_splits_, axis=1) / self.n_splits_
        total = xp.zeros((rows.shape[0], len(self.classes_)), dtype=rows.dtype, device=device)
        for k, A in enumerate(self._matrices):
            queried = np.flatnonzero(as_numpy(shares[:, k]) > _LEAST_VOTE)
            if len(queried) == 0:
                continue
            index = xp.asarray(queried, device=device)
            votes = soft_votes(A, xp.take(rows, index, axis=0), self._voters, n_jobs=self.n_jobs)
            votes = xp.astype(votes, rows.dtype) * xp.take(shares[:, k], index)[:, None]
            total = _add_rows(total, queried, votes, xp)
        total = xp.take(total, xp.asarray(self._numbers, device=device), axis=1)
        return total / xp.sum(total, axis=1, keepdims=True)

    def score_samples(self, X):
        """Return the log density of the mixture, small where no component is near.

        Returns
        -------
        array of shape (n_samples,)
            Log density in whitened coordinates. Far from all components one responsibility is 1
            and the prediction is that of the nearest row.
        """
        return self.mixture_.score_samples(
            self._whiten(query_rows(self, X, arrays=True, order="C"))
        )

    def _whiten(self, X):
        return (X - self.mean_[None, :]) @ self.whitening_.T

    def _sections(self, X, columns):
        row = as_numpy(self._whiten(dense_row(X)))
        shares = as_numpy(self.mixture_.predict_proba(row))[0]
        votes = np.vstack(
            [as_numpy(soft_votes(A, row, self._voters, n_jobs=1))[0] for A in self._matrices]
        )
        # A component has one metric of each split, with equal votes.
        votes = votes.reshape(self.n_splits_, len(shares), -1).mean(axis=0)[:, self._numbers]
        leader = int(shares.argmax())
        return [
            _component_section(shares, votes, self.classes_),
            _metric_section(self, leader, columns),
            _voter_section(self, row[0], leader),
        ]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


def _add_rows(total, index, rows, xp):
    """Add ``rows`` to the rows of ``total`` named by ``index``, each named once."""
    if len(index) == total.shape[0]:
        return total + rows
    spread = np.full(total.shape[0], len(index))
    spread[index] = np.arange(len(index))
    blank = xp.zeros((1, total.shape[1]), dtype=total.dtype, device=compat.device(total))
    padded = xp.concat([rows, blank])
    return total + xp.take(padded, xp.asarray(spread, device=compat.device(total)), axis=0)


def _component_section(shares, votes, classes) -> ExplanationSection:
    """Return responsibilities, and the vote of each component."""
    order = np.argsort(-shares, kind="stable")
    rows = [
        (f"component {k}", classes[votes[k].argmax()], float(votes[k].max()), float(shares[k]))
        for k in order
    ]
    leader = int(order[0])
    summary = (
        f"Component {leader} of {len(shares)} has responsibility {shares[leader]:.3f} for this "
        f"row; alone it would predict {show(classes[votes[leader].argmax()])}."
    )
    values = {"responsibilities": shares.tolist(), "leader": leader}
    head = ("component", "vote", "probability", "responsibility")
    return ExplanationSection(
        "components", "Components", summary, head, rows, "responsibility", values
    )


def _metric_section(model: Any, leader: int, columns: RowColumns) -> ExplanationSection:
    """Return the lengths of columns in the metrics of the leading component."""
    own = as_numpy(model.metrics_)[leader :: model.n_regions_]
    stretch = np.sqrt((own**2).sum(axis=1).mean(axis=0))
    order = np.argsort(-stretch, kind="stable")
    rows = [(columns.names[j], columns.values[j], float(stretch[j])) for j in order]
    summary = (
        f"Length of one unit of each column in the metric of component {leader}; rows more than "
        "about 2 away hardly contribute."
    )
    return ExplanationSection(
        "metric", "Metric", summary, ("column", "value", "stretch"), rows, "stretch"
    )


def _voter_section(model: Any, row: np.ndarray, leader: int) -> ExplanationSection:
    """Return the training rows that vote in the metrics of the leading component."""
    voters = model._voters
    rows, log_weight = as_numpy(voters.X), as_numpy(voters.log_weights)
    own = np.asarray(model._matrices)[leader :: model.n_regions_]
    squares = np.stack([(((rows - row) @ A.T) ** 2).sum(axis=1) for A in own])
    weights = np.exp(log_weight - squares - (log_weight - squares).max(axis=1, keepdims=True))
    share = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=0)
    distance = np.sqrt(squares.mean(axis=0))
    size = float(1.0 / (share**2).sum())
    inner = np.searchsorted(np.asarray(voters.bounds), np.arange(len(rows)), side="right") - 1
    label = model.classes_[np.argsort(model._numbers)][inner]
    order = np.argsort(-share, kind="stable")
    order = order[: max(1, int((share > 1e-3).sum()))]
    table = [(label[i], float(distance[i]), float(share[i])) for i in order]
    summary = (
        f"In that metric {len(table)} training rows vote (effective sample size {show(size)})."
    )
    values = {"n_neighbors": len(table), "effective_sample_size": size}
    head = ("target", "distance", "weight")
    return ExplanationSection("neighbors", "Neighbours", summary, head, table, "weight", values)
