"""Gradient boosting of any regressor by any loss."""

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import KFold, train_test_split
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state

from vicinal._base import (
    ArgmaxClassifierMixin,
    Progress,
    SparseInputMixin,
    TrainingData,
    atomic_fit,
    documented,
    fit_weighted,
    predicted_labels,
    query_rows,
    random_seeds,
    saved,
    store_parameters,
    takes_weights,
    training_data,
)
from vicinal._base._compat import HasMethods, Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin, ExplanationSection, show
from vicinal._conformal import FoldedRowsMixin, IntervalMixin, LabelSetMixin
from vicinal._kernels.ensemble import _boosting as kernels
from vicinal.ensemble._learners import column_share, fresh_learner, usable_weights

_N_PENALTIES = 30
_N_FOLDS = 5
_MAX_HALVINGS = 60


# --- rounds ---


def resolve_boosting(model: Any, loss: Any) -> tuple[Any, str]:
    """Return learner and coefficients of a model; raise where parameters cannot be combined."""
    learner, coefficients = model.estimator, model.coefficients
    if learner is None:
        learner = DecisionTreeRegressor(max_depth=3, max_features=column_share(model))
    is_tree = isinstance(learner, DecisionTreeRegressor)
    if coefficients == "auto":
        coefficients = "leaf" if is_tree else "line_search"
    if model.coefficients == "leaf" and not is_tree:
        raise ValueError(
            f"coefficients='leaf' sets the leaf values of a DecisionTreeRegressor, but the "
            f"learner of {type(model).__name__} is {learner!r}; use coefficients='line_search'."
        )
    if not getattr(loss, "has_curvature", True):
        for parameter, used in (
            ("newton=True", model.newton),
            ("coefficients='corrective'", model.coefficients == "corrective"),
            ("post_fit='l1'", model.post_fit is not None),
        ):
            if used:
                raise ValueError(
                    f"{parameter} needs a loss with a second derivative, and "
                    f"loss={model.loss!r} has none (or zero) almost everywhere; use "
                    "coefficients='line_search' or 'leaf' with newton=False."
                )
    if model.newton and not takes_weights(learner):
        raise ValueError(
            f"newton=True weights the rows by the curvature of the loss, but the learner "
            f"{learner!r} does not accept sample_weight; use newton=False."
        )
    return learner, coefficients


def boost(model: Any, data: TrainingData, loss: Any) -> "Rounds":
    """Fit all rounds."""
    learner, coefficients = resolve_boosting(model, loss)
    rng, held = check_random_state(model.random_state), None
    if model.n_iter_no_change is not None:
        train, test = train_test_split(
            np.arange(len(data)),
            test_size=model.validation_fraction,
            random_state=rng,
            stratify=None if data.classes is None else data.y,
        )
        data, held = data.take(train), data.take(test)
    rounds = Rounds(model, data, held, loss, learner, coefficients)
    stalled = 0
    with Progress(model.n_estimators, type(model).__name__, verbose=model.verbose) as progress:
        for _ in range(model.n_estimators):
            residual, curvature = rounds.derivatives()
            if np.abs(residual).max() < 1e-12:
                break
            group, output = rounds.fit_group(residual, curvature, rng)
            if not rounds.add(group, output):
                stalled += 1
                if stalled == 2:
                    break
                continue
            stalled = 0
            progress.advance(note=f"loss {rounds.train_score[-1]:.5g}")
            if held and len(rounds.groups) - rounds.best_round >= model.n_iter_no_change:
                break
    rounds.return_to_best()
    if model.post_fit == "l1" and rounds.groups:
        rounds.refit_l1(random_seeds(rng, 1)[0])
    return rounds


def group_outputs(group: list, X: Any) -> np.ndarray:
    """Return the predictions of one round, (n_samples, n_scores)."""
    return np.column_stack([estimator.predict(X) for estimator in group])


class Rounds:
    """Scores, base models and coefficients during the rounds."""

    def __init__(self, model, data, held, loss, learner, coefficients: str):
        self.model, self.data, self.loss = model, data, loss
        self.learner, self.coefficients = learner, coefficients
        self.held: Any = held
        self.y, self.weight = data.y, data.weights
        self.learner_weight = usable_weights(learner, self.weight)
        start = kernels.best_constant(self.loss, self.y, self.weight)
        self.intercept = np.atleast_1d(np.asarray(start, dtype=float))
        self.n_scores = len(self.intercept)
        self.score = np.tile(self.intercept, (len(data), 1))
        # Curves use the loss of the first round: an adaptive loss would fall by itself.
        self.monitor = self._adapted()
        self.groups: list[list] = []
        self.coef, self.scale = np.empty(0), np.empty(0)
        self.train_score: list[float] = []
        self.validation_score: list[float] = []
        self.stages: Any = None
        is_corrective = coefficients == "corrective"
        columns = self.n_scores + model.n_estimators
        self.Phi: Any = None
        if is_corrective or model.post_fit is not None:
            self.Phi = np.zeros((len(data) * self.n_scores, columns), order="F")
            for k in range(self.n_scores):
                self.Phi[k * len(data) : (k + 1) * len(data), k] = 1.0
        if is_corrective:
            self.stages, self.theta, self.refit = [], self.intercept.copy(), None
            if getattr(self.loss, "is_quadratic", False):
                self.refit = kernels.LeastSquaresRefit(self.y, self.weight, columns)
        if held is not None:
            self.held_score = np.tile(self.intercept, (len(held), 1))
            self.held_outputs: list[np.ndarray] = []
            self.best, self.best_round = self._mean_loss(held, self.held_score), 0

    def _flat(self, score):
        """Return a single score as a vector, as losses take it."""
        return score[:, 0] if self.n_scores == 1 else score

    def _adapted(self):
        """Return the loss for the current scores; Huber's bound follows the residuals."""
        if not hasattr(self.loss, "adapted"):
            return self.loss
        return self.loss.adapted(self.y, self._flat(self.score), self.weight)

    def _mean_loss(self, data: TrainingData, score) -> float:
        return float(
            np.average(self.monitor.value(data.y, self._flat(score)), weights=data.weights)
        )

    def derivatives(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Negative gradients and second derivatives at the current scores (equation 9)."""
        self.loss = self._adapted()
        score = self._flat(self.score)
        residual = -self.loss.gradient(self.y, score).reshape(len(self.y), -1)
        if not np.isfinite(residual).all():
            raise ValueError(
                f"The gradients of loss={self.model.loss!r} overflowed in round "
                f"{len(self.groups) + 1}; lower learning_rate={self.model.learning_rate}, or "
                "use coefficients='line_search'."
            )
        if not self.model.newton and self.coefficients != "leaf":
            return residual, None
        return residual, self.loss.hessian(self.y, score).reshape(len(self.y), -1)

    def fit_group(self, residual, curvature, rng) -> tuple[list, np.ndarray]:
        """Fit one learner per column of residuals; return them and their outputs on all rows."""
        X, n = self.data.X, len(self.data)
        inside: Any = slice(None)
        if self.model.subsample < 1.0:
            size = max(1, int(self.model.subsample * n))
            inside = np.sort(rng.permutation(n)[:size])
        group, output = [], np.empty_like(residual)
        for k in range(self.n_scores):
            estimator = fresh_learner(self.learner, rng)
            target, w = residual[:, k], self.learner_weight
            if self.model.newton:
                floor = max(curvature[:, k].max() * 1e-8, np.finfo(float).tiny)
                h = np.maximum(curvature[:, k], floor)
                target, w = target / h, self.weight * h
            fit_weighted(estimator, X[inside], target[inside], None if w is None else w[inside])
            if self.coefficients == "leaf":
                self._set_leaves(estimator, k, inside, residual[inside, k], curvature[inside, k])
            output[:, k] = estimator.predict(X)
            group.append(estimator)
        return group, output

    def _set_leaves(self, tree, k, inside, residual, curvature) -> None:
        """Put the best constant for score ``k`` into each leaf (equation 13)."""
        leaf, n_nodes = tree.apply(self.data.X)[inside], tree.tree_.node_count
        w, score = self.weight[inside], self.score[inside]
        if getattr(self.loss, "has_curvature", True):
            top = np.bincount(leaf, w * residual, n_nodes)
            bottom = np.bincount(leaf, w * curvature, n_nodes)
            usable = bottom > 1e-12 * w.mean()
            value = np.where(usable, top / np.where(usable, bottom, 1.0), 0.0)
            if self.n_scores > 1:
                value *= (self.n_scores - 1) / self.n_scores
            value = self._damped(value, leaf, self.y[inside], score, w, k)
        else:  # the leaf's own minimiser over the residuals
            value, rest = np.zeros(n_nodes), self.y[inside] - score[:, 0]
            order = np.argsort(leaf, kind="stable")
            leaves, starts = np.unique(leaf[order], return_index=True)
            for node, rows in zip(leaves, np.split(order, starts[1:]), strict=True):
                value[node] = self.loss.constant(rest[rows], w[rows])
        tree.tree_.value[:, 0, 0] = value

    def _damped(self, value, leaf, y, score, w, k):
        """Halve the values of leaves whose loss would rise."""
        before = np.bincount(leaf, w * self.loss.value(y, self._flat(score)), len(value))
        for _ in range(_MAX_HALVINGS):
            trial = score.copy()
            trial[:, k] += self.model.learning_rate * value[leaf]
            after = np.bincount(leaf, w * self.loss.value(y, self._flat(trial)), len(value))
            rises = ~(after <= before + 1e-12 * np.abs(before))
            if not rises.any():
                break
            value = np.where(rises, 0.5 * value, value)
        return value

    def add(self, group, output) -> bool:
        """Add a round with its coefficients; return ``False`` if the loss does not fall."""
        length = 1.0
        if self.coefficients == "line_search":
            # All rows, also those outside the subsample, so that the step does not overfit.
            direction = self._flat(output)
            length = kernels.step_length(
                self.loss, self.y, self.weight, self._flat(self.score), direction
            )
        if length == 0.0 or not np.any(output):
            return False
        if self.Phi is not None:
            scale = kernels.deviation(output, self.weight)
            scale = scale if scale > 1e-12 else 1.0
            self.Phi[:, self.n_scores + len(self.groups)] = output.ravel(order="F") / scale
            self.scale = np.append(self.scale, scale)
        self.groups.append(group)
        if self.stages is None:
            step = self.model.learning_rate * length
            self.coef = np.append(self.coef, step)
            self.score = self.score + step * output
        else:
            self._correct()
        self.train_score.append(self._mean_loss(self.data, self.score))
        if self.held is not None:
            self._score_held_out(group)
        return True

    def _correct(self) -> None:
        """Move all coefficients by ``learning_rate`` towards their refit (equation 12)."""
        Phi = self.Phi[:, : self.n_scores + len(self.groups)]
        ridge = np.full(Phi.shape[1], self.model.alpha)
        ridge[: self.n_scores] = 0.0
        start = np.append(self.theta, 0.0)
        if self.refit is not None:
            self.refit.add(Phi)
            target = self.refit.solve(ridge)
        else:
            target = kernels.MeanLoss(self.loss, self.y, self.weight, Phi).refit(start, ridge)
        self.theta = start + self.model.learning_rate * (target - start)
        self.score = (Phi @ self.theta).reshape((len(self.y), -1), order="F")
        self.intercept = self.theta[: self.n_scores]
        self.coef = self.theta[self.n_scores :] / self.scale
        self.stages.append((self.intercept, self.coef))

    def _score_held_out(self, group) -> None:
        output = group_outputs(group, self.held.X)
        if self.stages is None:
            self.held_score = self.held_score + self.coef[-1] * output
        else:
            self.held_outputs.append(output)
            self.held_score = self.intercept + sum(
                c * f for c, f in zip(self.coef, self.held_outputs, strict=True)
            )
        value = self._mean_loss(self.held, self.held_score)
        self.validation_score.append(value)
        if value < self.best - self.model.tol * abs(self.best):
            self.best, self.best_round = value, len(self.groups)

    def return_to_best(self) -> None:
        """Go back to the round that was best on the held-out rows."""
        if self.held is None or self.best_round == len(self.groups):
            return
        last = self.best_round
        self.groups, self.scale = self.groups[:last], self.scale[:last]
        if self.stages is None:
            self.coef = self.coef[:last]
        else:
            self.stages = self.stages[:last]
            start = np.atleast_1d(kernels.best_constant(self.loss, self.y, self.weight))
            self.intercept, self.coef = self.stages[-1] if last else (start, np.empty(0))

    def refit_l1(self, seed: int) -> None:
        """Refit the coefficients with an L1 penalty chosen by cross-validation; drop the zeros."""
        n, K = len(self.y), self.n_scores
        Phi = self.Phi[:, : K + len(self.groups)]
        start = np.zeros(Phi.shape[1])
        start[:K] = kernels.best_constant(self.loss, self.y, self.weight)
        whole = kernels.MeanLoss(self.loss, self.y, self.weight, Phi)
        penalties = whole.largest_useful_penalty(K, start) * np.logspace(0, -4, _N_PENALTIES)
        held = np.zeros(_N_PENALTIES)
        folds = KFold(min(_N_FOLDS, n), shuffle=True, random_state=seed)
        for train, test in folds.split(self.y):
            inside, outside = (
                kernels.MeanLoss(
                    self.loss,
                    self.y[rows],
                    self.weight[rows],
                    Phi[(np.arange(K)[:, None] * n + rows).ravel()],
                )
                for rows in (train, test)
            )
            path = inside.l1_path(K, penalties, start)
            held += self.weight[test].sum() * np.array([outside.value(theta) for theta in path])
        theta = whole.l1_path(K, penalties[: int(np.argmin(held)) + 1], start)[-1]
        kept = np.flatnonzero(theta[K:])
        self.intercept = theta[:K]
        self.coef = theta[K:][kept] / self.scale[kept]
        self.groups = [self.groups[j] for j in kept]
        self.stages = None


# --- estimators ---


@documented
class _FunctionalGradientBoosting(
    SparseInputMixin, FoldedRowsMixin, ExplainRowMixin, BaseEstimator
):
    r"""Gradient boosting over any regressor and differentiable loss.

    Parameters
    ----------
    estimator : regressor, default=None
        Learner of every round; ``None`` is ``DecisionTreeRegressor(max_depth=3)``, whose splits
        consider 30 % of the columns in classification with ten columns or more.
    n_estimators : int, default=200
        Largest number of rounds.
    learning_rate : float, default=0.1
        Shrinkage of each round. With ``coefficients="corrective"``, the step towards the refitted
        coefficients in each round; 1 is the full refit.
    coefficients : {"auto", "line_search", "leaf", "corrective", "fixed"}, default="auto"
        Coefficients of the base models. ``"line_search"``: the one of least loss for the new base
        model. ``"leaf"``: the best constant in each leaf of a
        :class:`~sklearn.tree.DecisionTreeRegressor`. ``"corrective"``: a refit of all coefficients
        in every round under a ridge penalty ``alpha``, which lowers the training loss fastest and
        overfits soonest. ``"fixed"``: 1. ``"auto"`` is ``"leaf"`` for trees and
        ``"line_search"`` for other learners.
    newton : bool, default=False
        Whether base models are fitted to the Newton step (residual over curvature, weighted by
        the curvature) instead of the residual. Needs a learner that accepts ``sample_weight``.
    post_fit : {"l1"}, default=None
        ``"l1"`` refits all coefficients after the last round with an L1 penalty, chosen by
        five-fold cross-validation, and drops the base models of coefficient zero.
    alpha : float, default=1e-3
        Ridge penalty of ``coefficients="corrective"``, relative to the mean loss and to outputs of
        unit standard deviation. The intercept is not penalised.
    subsample : float, default=1.0
        Share of the rows, sampled without replacement, that each round is fitted to.
    validation_fraction : float, default=0.1
        Share of the rows held out for early stopping; used with ``n_iter_no_change`` only.
    n_iter_no_change : int, default=None
        Early stopping: end when the held-out loss has not fallen for this many rounds, and return
        to the best round. ``None`` uses all rows and all rounds.
    tol : float, default=1e-4
        Smallest relative decrease of the held-out loss that counts.
    random_state : int, RandomState instance or None, default=None
        Seed of the learners, the subsamples, and the folds.

    Attributes
    ----------
    coef_ : ndarray of shape (`n_iter_`,)
        Coefficient of each base model, learning rate included.
    train_score_ : ndarray of shape (n_rounds,)
        Mean training loss after each round. With ``subsample < 1`` over all rows.
    validation_score_ : ndarray of shape (n_rounds,) or None
        Mean held-out loss after each round, with early stopping only.
    n_iter_ : int
        Number of base models.

    Notes
    -----
    Gradient boosting [1]_ is gradient descent in function space. With :math:`F_0 = \arg\min_c
    \sum_i w_i L(y_i, c)`, round :math:`m` fits the learner by least squares to

    .. math:: r_i = -\left.\frac{\partial L(y_i, F)}{\partial F}\right|_{F = F_{m-1}(x_i)}

    and adds the new base model :math:`f_m` by one of

    .. math::

        \alpha_m &= \arg\min_a \sum_i w_i L(y_i, F_{m-1}(x_i) + a f_m(x_i)), \quad
        F_m = F_{m-1} + \nu \alpha_m f_m
        && \text{(line search)} \\
        v_l &= \sum_{i \in l} w_i r_i \Big/ \sum_{i \in l} w_i h_i
        && \text{(leaf; $h$: second derivative)} \\
        \alpha_{0..m} &= \arg\min_\alpha \tfrac1W \sum_i w_i L\Big(y_i,
        \sum_j \alpha_j f_j(x_i)\Big) + \tfrac{\lambda}{2} \sum_{j>0} \alpha_j^2
        && \text{(corrective)}

    (equations 9 to 13 of the guide; steps 3 to 5 of the lecture's algorithm [2]_). Losses whose
    second derivative vanishes take the leaf's own median or quantile, and a bracketing line search.
    Base models that do not lower the loss are dropped; two in a row end the fit.

    References
    ----------
    .. [1] Friedman, "Greedy function approximation: a gradient boosting machine", Annals of
       Statistics 29(5), 2001. :doi:`10.1214/aos/1013203451`
    .. [2] Toussaint, "Local learning and ensemble learning", lecture slides, pages 22 to 25.
    .. [3] Hastie, Tibshirani, Friedman, "The Elements of Statistical Learning", 2nd edition,
       Springer 2009, chapters 10 and 16. :doi:`10.1007/978-0-387-84858-7`
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "coefficients": [StrOptions({"auto", "line_search", "leaf", "corrective", "fixed"})],
        "newton": ["boolean"],
        "post_fit": [StrOptions({"l1"}), None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "subsample": [Interval(Real, 0, 1, closed="right")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def _store(self, data: TrainingData, rounds: Rounds):
        self._keep_rows(data.X, data.labels, data.sample_weight)
        single = rounds.n_scores == 1
        self._loss = rounds.loss
        self.estimators_ = [group[0] if single else group for group in rounds.groups]
        self.coef_ = rounds.coef
        self.intercept_ = float(rounds.intercept[0]) if single else rounds.intercept
        self.train_score_ = np.array(rounds.train_score)
        self.validation_score_ = None
        if rounds.held is not None:
            self.validation_score_ = np.array(rounds.validation_score)
        self.n_iter_ = len(rounds.groups)
        self._stages = rounds.stages
        is_quadratic = getattr(rounds.loss, "is_quadratic", False)
        if is_quadratic and self.estimators_ and hasattr(self.estimators_[0], "coef_"):
            warnings.warn(
                f"{type(self).__name__} boosts a linear learner with the squared error, and a sum "
                "of linear models is linear, so the result tends to least squares. Use a learner "
                "that is not linear in its inputs (trees, kernels, local models).",
                UserWarning,
                stacklevel=5,
            )
        return self

    def _outputs(self, X):
        """Yield the predictions of each round, (n_samples, n_scores)."""
        for group in self.estimators_:
            yield group_outputs(group if isinstance(group, list) else [group], X)

    def _raw_scores(self, X):
        score = np.zeros((X.shape[0], np.size(self.intercept_))) + self.intercept_
        for coef, output in zip(self.coef_, self._outputs(X), strict=True):
            score += coef * output
        return score

    def _staged_scores(self, X):
        if self._stages is None:
            score = np.zeros((X.shape[0], np.size(self.intercept_))) + self.intercept_
            for coef, output in zip(self.coef_, self._outputs(X), strict=True):
                score = score + coef * output
                yield score
            return
        outputs = []
        for (intercept, coef), output in zip(self._stages, self._outputs(X), strict=True):
            outputs.append(output)
            yield intercept + sum(c * f for c, f in zip(coef, outputs, strict=True))

    def _sections(self, X, columns):
        """Return what every round adds to the score."""
        outputs = np.zeros((0, 1))
        if self.n_iter_:
            queries = query_rows(self, X, accept_sparse="csr")
            outputs = np.stack(list(self._outputs(queries)), axis=1)[0]
        column, sign, target = 0, 1.0, "the prediction"
        if hasattr(self, "classes_"):
            chosen = int(np.argmax(self.predict_proba(X)[0]))
            target = f"the score of {show(self.classes_[chosen])}"
            # Two classes share one score, that of the second.
            column = chosen if outputs.shape[1] > 1 else 0
            sign = -1.0 if outputs.shape[1] == 1 and chosen == 0 else 1.0
        own = sign * outputs[:, column]
        parts = self.coef_ * own
        start = sign * float(np.atleast_1d(self.intercept_)[column])
        score = start + float(parts.sum())
        order = np.argsort(-np.abs(parts), kind="stable")
        numbers = np.column_stack([self.coef_, own, parts])[order].tolist()
        rows = [(f"round {m + 1}", *row) for m, row in zip(order, numbers, strict=True)]
        summary = (
            f"{self.n_iter_} rounds add to {target}: from {show(start)} to {show(score)}. The "
            "largest steps come first."
        )
        head = ("round", "weight", "output", "contribution")
        values = {"start": start, "score": score}
        return [ExplanationSection("base_models", "Rounds", summary, head, rows, head[-1], values)]


@saved(classes_="c labels", coef_="m | m *")
@documented
class FunctionalGradientBoostingClassifier(
    ArgmaxClassifierMixin, LabelSetMixin, _FunctionalGradientBoosting
):
    """Gradient boosting classifier over any regressor and loss.

    Each round fits copies of ``estimator``, a *regressor* (a tree, kernel ridge, a local model, a
    pipeline), to the residuals of the current probabilities: one copy for two classes, else one
    per class, with one coefficient for all of them.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    loss : {"log_loss", "exponential"} or object, default="log_loss"
        ``"log_loss"`` is logistic for two classes and multinomial for more; ``"exponential"``, the
        loss of AdaBoost, is for two. An object with ``value(y, score)``, ``gradient(y, score)`` and
        ``hessian(y, score)``, each of vectors with ``y`` in {0, 1}, serves two classes; it may have
        ``constant(y, weight)`` and ``probability(score)`` (the logistic function otherwise).

    subsample : float, default=0.8
        Share of the rows, sampled without replacement, that each round is fitted to.

    Attributes
    ----------
    estimators_ : list of length `n_iter_`
        Base models; with more than two classes each is a list of one regressor per class.
    intercept_ : float or ndarray of shape (n_classes,)
        Score before the first round (or its refitted value).

    See Also
    --------
    FunctionalGradientBoostingRegressor : The same for regression.
    RealAdaBoostClassifier : Boosting of classifiers by reweighting.
    sklearn.ensemble.HistGradientBoostingClassifier : Fast boosting of binned trees.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from vicinal.ensemble import FunctionalGradientBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = FunctionalGradientBoostingClassifier(newton=True, random_state=0)
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.92
    True
    """

    _parameter_constraints: dict = {
        **_FunctionalGradientBoosting._parameter_constraints,
        "loss": [
            StrOptions({"log_loss", "exponential"}),
            HasMethods(["value", "gradient", "hessian"]),
        ],
    }

    def __init__(
        self,
        estimator=None,
        *,
        loss="log_loss",
        n_estimators=200,
        learning_rate=0.1,
        coefficients="auto",
        newton=False,
        post_fit=None,
        alpha=1e-3,
        subsample=0.8,
        validation_fraction=0.1,
        n_iter_no_change=None,
        tol=1e-4,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the rounds.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; the learner must accept them if they differ.
        """
        data = training_data(self, X, y, sample_weight, task="classification", accept_sparse="csr")
        self.classes_, loss = data.classes, self.loss
        n_classes = len(data.classes)
        if n_classes > 2 and loss != "log_loss":
            raise ValueError(
                f"loss={loss!r} is for two classes, and y holds {n_classes}; use "
                "loss='log_loss', or wrap the model in sklearn.multiclass.OneVsRestClassifier."
            )
        if loss == "exponential":
            loss = kernels.Exponential()
        elif loss == "log_loss":
            loss = kernels.Logistic() if n_classes == 2 else kernels.Multinomial(n_classes)
        return self._store(data, boost(self, data, loss))

    def decision_function(self, X):
        """Raw scores: log-odds for two classes, one column per class for more."""
        X = query_rows(self, X, accept_sparse="csr")
        score = self._raw_scores(X).astype(X.dtype, copy=False)
        return score[:, 0] if score.shape[1] == 1 else score

    def predict_proba(self, X):
        """Probabilities of the classes."""
        X = query_rows(self, X, accept_sparse="csr")
        return self._probability(self._raw_scores(X)).astype(X.dtype, copy=False)

    def staged_predict_proba(self, X):
        """Probabilities after each round (after each base model that ``post_fit`` left).

        Yields
        ------
        probability : ndarray of shape (n_samples, n_classes)
            Probabilities after one more round.
        """
        X = query_rows(self, X, accept_sparse="csr")
        for score in self._staged_scores(X):
            yield self._probability(score).astype(X.dtype, copy=False)

    def staged_predict(self, X):
        """Predict after each round (after each base model that ``post_fit`` left).

        Yields
        ------
        y : ndarray of shape (n_samples,)
            Class labels after one more round.
        """
        for probability in self.staged_predict_proba(X):
            yield predicted_labels(self, probability)

    def _probability(self, score):
        probability = getattr(self._loss, "probability", expit)
        if score.shape[1] > 1:
            return probability(score)
        second = probability(score[:, 0])
        return np.column_stack([1.0 - second, second])


@saved(coef_="m | m *")
@documented
class FunctionalGradientBoostingRegressor(
    RegressorMixin, IntervalMixin, _FunctionalGradientBoosting
):
    """Gradient boosting regressor over any regressor and loss.

    Each round fits a copy of ``estimator`` (a tree, kernel ridge, a local model, a pipeline) to the
    residuals of the previous rounds. For trees with standard losses scikit-learn's histogram
    boosting is faster; this class is for other learners, other losses, and other ways to find
    coefficients.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    loss : str or object, default="squared_error"
        One of ``"squared_error", "absolute_error", "huber", "quantile", "poisson"``, or an object.
        An object has ``value(y, score)``, ``gradient(y, score)`` and ``hessian(y, score)``, each
        of vectors; it may have ``constant(y, weight)`` (the best constant score), ``mean(score)``
        (the prediction) and ``has_curvature = False``.
    n_estimators : int, default=300
        Largest number of rounds.
    quantile : float, default=0.9
        Level of the quantile loss; for ``"huber"`` the quantile of absolute residuals beyond which
        the loss is linear, computed again in each round.

    Attributes
    ----------
    estimators_ : list of length `n_iter_`
        Base models.
    intercept_ : float
        Score before the first round (or its refitted value).

    See Also
    --------
    FunctionalGradientBoostingClassifier : The same for classification.
    sklearn.ensemble.HistGradientBoostingRegressor : Fast boosting of binned trees.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.kernel_ridge import KernelRidge
    >>> from vicinal.ensemble import FunctionalGradientBoostingRegressor
    >>> X, y = make_friedman1(n_samples=400, noise=1.0, random_state=0)
    >>> learner = KernelRidge(kernel="rbf", gamma=0.5)
    >>> model = FunctionalGradientBoostingRegressor(learner, n_iter_no_change=5, random_state=0)
    >>> model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.8
    True
    """

    _parameter_constraints: dict = {
        **_FunctionalGradientBoosting._parameter_constraints,
        "loss": [
            StrOptions(set(kernels.REGRESSION_LOSSES)),
            HasMethods(["value", "gradient", "hessian"]),
        ],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        estimator=None,
        *,
        loss="squared_error",
        quantile=0.9,
        n_estimators=300,
        learning_rate=0.1,
        coefficients="auto",
        newton=False,
        post_fit=None,
        alpha=1e-3,
        subsample=1.0,
        validation_fraction=0.1,
        n_iter_no_change=None,
        tol=1e-4,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the rounds.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; the learner must accept them if they differ.
        """
        data = training_data(self, X, y, sample_weight, task="regression", accept_sparse="csr")
        if self.loss == "poisson" and (data.y.min() < 0 or data.y.sum() <= 0):
            raise ValueError(
                f"loss='poisson' needs y >= 0 with a positive sum, but y has minimum "
                f"{data.y.min()!r} and sum {data.y.sum()!r}; use another loss."
            )
        loss = self.loss
        if isinstance(loss, str):
            loss = kernels.REGRESSION_LOSSES[loss](self.quantile)
        return self._store(data, boost(self, data, loss))

    def predict(self, X):
        """Predict the target."""
        X = query_rows(self, X, accept_sparse="csr")
        return self._mean(self._raw_scores(X)).astype(X.dtype, copy=False)

    def staged_predict(self, X):
        """Predict after each round (after each base model that ``post_fit`` left).

        Yields
        ------
        y : ndarray of shape (n_samples,)
            Predictions after one more round.
        """
        X = query_rows(self, X, accept_sparse="csr")
        for score in self._staged_scores(X):
            yield self._mean(score).astype(X.dtype, copy=False)

    def _mean(self, score):
        return self._loss.mean(score[:, 0]) if hasattr(self._loss, "mean") else score[:, 0]
