"""Rounds of functional gradient boosting, shared by the classifier and the regressor."""

import warnings
from abc import ABCMeta, abstractmethod
from itertools import repeat
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.model_selection import KFold, train_test_split
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    Progress,
    atomic_fit_blocks,
    check_magnitude,
    documented,
    draw_seeds,
    fit_weighted,
    takes_weights,
)
from vicinal._base._compat import HasMethods, Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin
from vicinal._conformal import FoldedRowsMixin
from vicinal._kernels.ensemble._corrective import (
    LeastSquaresRefit,
    corrective_coefficients,
    l1_path,
    largest_useful_penalty,
)
from vicinal._kernels.ensemble._line_search import deviation, step_length
from vicinal._kernels.ensemble._losses import best_constant
from vicinal.ensemble._boosting_blocks import fit_boosting
from vicinal.ensemble._explain import boosting_sections
from vicinal.ensemble._learners import fresh_learner, usable_weights

_N_PENALTIES = 30
_N_FOLDS = 5
_MAX_HALVINGS = 60


@documented
class BaseFunctionalGradientBoosting(
    FoldedRowsMixin, ExplainRowMixin, BaseEstimator, metaclass=ABCMeta
):
    r"""Boosting of any regressor by any differentiable loss.

    Parameters
    ----------
    estimator : regressor, default=None
        Learner of every round; ``None`` is ``DecisionTreeRegressor(max_depth=3)``.
    n_estimators : int, default=100
        Largest number of rounds.
    learning_rate : float, default=0.1
        Shrinkage of each round. With ``coefficients="corrective"`` the share of the way to the
        refitted coefficients that is gone in a round; 1 is the full refit.
    coefficients : {"auto", "line_search", "leaf", "corrective", "fixed"}, default="auto"
        How the coefficients are found. ``"line_search"``: by a search along the new member.
        ``"leaf"``: by the best constant in each leaf of a
        :class:`~sklearn.tree.DecisionTreeRegressor`. ``"corrective"``: by refitting the
        coefficients of all members so far under a ridge penalty ``alpha``; lowers the training
        loss fastest and overfits soonest. ``"fixed"``: 1. ``"auto"`` is ``"leaf"`` for trees and
        ``"line_search"`` for other learners.
    newton : bool, default=False
        Fit each member to the Newton step, residual over curvature, weighted by the curvature,
        instead of to the residual. Needs a learner that takes ``sample_weight``.
    post_fit : {"l1"}, default=None
        After the last round, refit all coefficients along one L1 path, its penalty chosen by
        cross-validation in five folds (fewer of fewer rows), and drop the members left with zero.
    alpha : float, default=1e-3
        Ridge penalty of ``coefficients="corrective"``, relative to the mean loss and to members of
        unit deviation. The intercept goes free.
    subsample : float, default=1.0
        Share of the rows, drawn anew without replacement, that each round sees.
    validation_fraction : float, default=0.1
        Share of the rows held out for early stopping; used with ``n_iter_no_change`` only.
    n_iter_no_change : int, default=None
        Stop when the held-out loss has not fallen for this many rounds and go back to the best one.
        ``None`` holds nothing out.
    tol : float, default=1e-4
        Relative fall of the held-out loss that counts as one.
    random_state : int, RandomState instance or None, default=None
        Seeds of learners that have one, draws of rows, and folds.

    Attributes
    ----------
    coef_ : ndarray of shape (`n_iter_`,)
        Coefficient of each member, the learning rate included.
    train_score_ : ndarray of shape (n_rounds,)
        Mean training loss after each round. With ``subsample < 1`` over all rows.
    validation_score_ : ndarray of shape (n_rounds,) or None
        Mean held-out loss after each round, with early stopping only.
    n_iter_ : int
        Number of members kept.

    Notes
    -----
    Gradient boosting [1]_ goes down the loss in function space. With :math:`F_0 = \arg\min_c \sum_i
    w_i L(y_i, c)`, round :math:`m` fits the learner by least squares to

    .. math:: r_i = -\left.\frac{\partial L(y_i, F)}{\partial F}\right|_{F = F_{m-1}(x_i)}

    and takes the new member :math:`f_m` in by one of

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
    Members that do not descend get coefficient zero and are left out; two in a row end the fit.

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

    @abstractmethod
    def _make_loss(self, y):
        """Return the loss, if the targets (or class codes) are such that it has one."""

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Boost a table in blocks of rows.

        Up to 100,000 rows are fitted as in memory; of more, every round draws about as many.
        """
        fit_boosting(self, blocks, has_classes=is_classifier(self))

    def _boost(self, X, y, weight, loss, stratify):
        """Fit all rounds; ``y`` is numbers or class codes, ``loss`` an object of ``_losses``."""
        rng = check_random_state(self.random_state)
        held_out = None
        if self.n_iter_no_change is not None:
            X, held_X, y, held_y, weight, held_weight = train_test_split(
                X,
                y,
                weight,
                test_size=self.validation_fraction,
                random_state=rng,
                stratify=y if stratify else None,
            )
            held_out = held_X, held_y, held_weight
        return self._run_rounds(repeat((X, y, weight)), loss, held_out, rng)

    def _run_rounds(self, supply, loss, held_out, rng):
        """Fit each round to the next (X, y, weight) of ``supply``, most often always the same."""
        learner = DecisionTreeRegressor(max_depth=3) if self.estimator is None else self.estimator
        kind = self.coefficients
        if kind == "auto":
            kind = "leaf" if isinstance(learner, DecisionTreeRegressor) else "line_search"
        self._check_combination(learner, loss)
        rounds, shown, stalled = None, None, 0
        with Progress(self.n_estimators, type(self).__name__, verbose=self.verbose) as progress:
            for _ in range(self.n_estimators):
                rows_of_round = next(supply)
                if rows_of_round is not shown:
                    shown, (X, y, weight) = rows_of_round, rows_of_round
                    learner_weight = usable_weights(learner, weight, type(self).__name__)
                    if rounds is None:
                        rounds = _Rounds(self, kind, loss, y, weight, held_out)
                    else:
                        rounds.move_to(X, y, weight)
                residual, curvature = rounds.targets()
                if not np.isfinite(residual).all():
                    raise ValueError(
                        f"the gradients of loss={self.loss!r} overflowed in round "
                        f"{len(rounds.groups) + 1}; lower learning_rate={self.learning_rate}, use "
                        "coefficients='line_search', or a loss that grows less steeply."
                    )
                if np.abs(residual).max() < 1e-12:
                    break
                rows = self._draw(rng, len(y))
                group, output = self._fit_group(
                    learner, X, residual, curvature, learner_weight, weight, rows, rng
                )
                if kind == "leaf":
                    output = rounds.set_leaves(group, X, rows)
                if not rounds.add(group, output):
                    stalled += 1
                    if stalled == 2:
                        break
                    continue
                stalled = 0
                progress.advance(note=f"loss {rounds.train_score[-1]:.5g}")
                if rounds.is_over():
                    break
        rounds.keep_best()
        if self.post_fit == "l1" and rounds.groups:
            rounds.refit_l1(draw_seeds(rng, 1)[0])
        self._store(rounds)
        return self

    def _check_combination(self, learner, loss):
        """Refuse what cannot work before the first round."""
        name = type(self).__name__
        if self.coefficients == "leaf" and not isinstance(learner, DecisionTreeRegressor):
            raise ValueError(
                f"coefficients='leaf' sets the leaf values of a DecisionTreeRegressor, but the "
                f"learner of {name} is {learner!r}; use coefficients='line_search'."
            )
        if not getattr(loss, "has_curvature", True):
            for parameter, used in (
                ("newton=True", self.newton),
                ("coefficients='corrective'", self.coefficients == "corrective"),
                ("post_fit='l1'", self.post_fit is not None),
            ):
                if used:
                    raise ValueError(
                        f"{parameter} needs a loss with a second derivative, and "
                        f"loss={self.loss!r} has none (or zero) almost everywhere; use "
                        "coefficients='line_search' or 'leaf' with newton=False."
                    )
        if self.newton and not takes_weights(learner):
            raise ValueError(
                f"newton=True weights the rows by the curvature of the loss, but the learner "
                f"{learner!r} takes no sample_weight; use newton=False."
            )

    def _draw(self, rng, n_samples):
        """Rows of one round, ``None`` for all."""
        if self.subsample == 1.0:
            return None
        size = max(1, int(self.subsample * n_samples))
        return np.sort(rng.permutation(n_samples)[:size])

    def _fit_group(self, learner, X, residual, curvature, learner_weight, weight, rows, rng):
        """Fit one learner per column of residuals; return them and their outputs on all rows."""
        group, output = [], np.empty_like(residual)
        inside = slice(None) if rows is None else rows
        for k in range(residual.shape[1]):
            member = fresh_learner(learner, rng)
            target, w = residual[:, k], learner_weight
            if self.newton:
                floor = max(curvature[:, k].max() * 1e-8, np.finfo(float).tiny)
                h = np.maximum(curvature[:, k], floor)
                target, w = target / h, weight * h
            fit_weighted(member, X[inside], target[inside], None if w is None else w[inside])
            output[:, k] = member.predict(X)
            group.append(member)
        return group, output

    def _store(self, rounds):
        self._loss = rounds.loss
        single = rounds.n_scores == 1
        self.estimators_ = [g[0] if single else list(g) for g in rounds.groups]
        self.coef_ = rounds.coef
        self.intercept_ = float(rounds.intercept[0]) if single else rounds.intercept
        self.train_score_ = np.array(rounds.train_score)
        self.validation_score_ = (
            None if rounds.held_out is None else np.array(rounds.validation_score)
        )
        self.n_iter_ = len(rounds.groups)
        self._stages = rounds.stages
        if single and rounds.groups and rounds.is_linear_span():
            warnings.warn(
                f"{type(self).__name__} boosts a linear learner with the squared error: sums of "
                "linear models are linear, so the result tends to least squares. Use a learner "
                "that is not linear in its inputs (trees, kernels, local models).",
                UserWarning,
                stacklevel=5,
            )

    def _members(self, X):
        """Yield the outputs of each round, (n_samples, n_scores)."""
        for group in self.estimators_:
            group = group if isinstance(group, list) else [group]
            yield np.column_stack([member.predict(X) for member in group])

    def _raw_scores(self, X):
        score = np.zeros((X.shape[0], np.size(self.intercept_))) + self.intercept_
        for coef, output in zip(self.coef_, self._members(X), strict=True):
            score += coef * output
        return score

    def _staged_scores(self, X):
        if self._stages is None:
            score = np.zeros((X.shape[0], np.size(self.intercept_))) + self.intercept_
            for coef, output in zip(self.coef_, self._members(X), strict=True):
                score = score + coef * output
                yield score
            return
        outputs = []
        for (intercept, coef), output in zip(self._stages, self._members(X), strict=True):
            outputs.append(output)
            score = np.zeros_like(output) + intercept
            for c, f in zip(coef, outputs, strict=True):
                score += c * f
            yield score

    def _checked(self, X):
        """Validate queries; returns them and the floating type of the answer."""
        check_is_fitted(self)
        check_magnitude("X", X)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return X, X.dtype

    def _sections(self, X, columns):
        return boosting_sections(self, X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _Rounds:
    """Scores, members and coefficients while the rounds go on."""

    def __init__(self, model, kind, loss, y, weight, held_out):
        self.model, self.kind, self.loss = model, kind, loss
        self.y, self.weight, self.held_out = y, weight, held_out
        self.intercept = np.atleast_1d(np.asarray(best_constant(loss, y, weight), dtype=float))
        self.n_scores = len(self.intercept)
        self.score = np.tile(self.intercept, (len(y), 1))
        # A loss that adapts itself would be easier on later rounds; curves use its first form.
        self.monitor = (
            loss.adapted(y, self._flat(self.score), weight) if hasattr(loss, "adapted") else loss
        )
        self.groups, self.coef = [], np.empty(0)
        self.train_score, self.validation_score = [], []
        self.stages = None
        keeps_outputs = kind == "corrective" or model.post_fit is not None
        if keeps_outputs:
            columns = self.n_scores + model.n_estimators
            self.Phi = np.zeros((len(y) * self.n_scores, columns), order="F")
            for k in range(self.n_scores):
                self.Phi[k * len(y) : (k + 1) * len(y), k] = 1.0
        self.keeps_outputs = keeps_outputs
        self.scale = np.empty(0)
        if kind == "corrective":
            self.stages = []
            self.theta = self.intercept.copy()
            self.refit = (
                LeastSquaresRefit(y, weight, columns)
                if getattr(loss, "is_quadratic", False)
                else None
            )
        if held_out is not None:
            self.held_score = np.tile(self.intercept, (len(held_out[1]), 1))
            self.held_outputs = []
            self.best = self.held_loss()
            self.best_round = 0

    def _flat(self, score):
        """Losses of one score take vectors."""
        return score[:, 0] if self.n_scores == 1 else score

    def move_to(self, X, y, weight):
        """Go on with other rows, from the scores that the rounds so far give them."""
        self.y, self.weight = y, weight
        self.score = np.tile(self.intercept, (len(y), 1))
        for coef, group in zip(self.coef, self.groups, strict=True):
            self.score += coef * np.column_stack([member.predict(X) for member in group])

    def targets(self):
        """Negative gradients and second derivatives at the current scores (equation 9)."""
        if hasattr(self.loss, "adapted"):
            self.loss = self.loss.adapted(self.y, self._flat(self.score), self.weight)
        score = self._flat(self.score)
        residual = -self.loss.gradient(self.y, score).reshape(len(self.y), -1)
        if not self.model.newton:
            return residual, None
        return residual, self.loss.hessian(self.y, score).reshape(len(self.y), -1)

    def set_leaves(self, group, X, rows):
        """Put the best constant into each leaf (equation 13); returns the outputs on all rows."""
        score = self._flat(self.score)
        residual = -self.loss.gradient(self.y, score).reshape(len(self.y), -1)
        curvature = self.loss.hessian(self.y, score).reshape(len(self.y), -1)
        inside = slice(None) if rows is None else rows
        w = self.weight[inside]
        output = np.empty_like(residual)
        for k, member in enumerate(group):
            leaf = member.apply(X)
            n_nodes = member.tree_.node_count
            if getattr(self.loss, "has_curvature", True):
                top = np.bincount(leaf[inside], w * residual[inside, k], n_nodes)
                bottom = np.bincount(leaf[inside], w * curvature[inside, k], n_nodes)
                usable = bottom > 1e-12 * w.mean()
                value = np.where(usable, top / np.where(usable, bottom, 1.0), 0.0)
                if self.n_scores > 1:
                    value *= (self.n_scores - 1) / self.n_scores
                value = self._damped(value, leaf[inside], inside, w, k)
            else:
                value = self._leaf_constants(leaf[inside], inside, w, n_nodes)
            member.tree_.value[:, 0, 0] = value
            output[:, k] = value[leaf]
        return output

    def _damped(self, value, leaf, inside, w, k):
        """Halve the values of leaves whose loss would rise; far out a loss may be nearly flat."""
        y, score = self.y[inside], self.score[inside]
        rate, n_nodes = self.model.learning_rate, len(value)
        before = np.bincount(leaf, w * self.loss.value(y, self._flat(score)), n_nodes)
        for _ in range(_MAX_HALVINGS):
            trial = score.copy()
            trial[:, k] += rate * value[leaf]
            after = np.bincount(leaf, w * self.loss.value(y, self._flat(trial)), n_nodes)
            rises = ~(after <= before + 1e-12 * np.abs(before))
            if not rises.any():
                break
            value = np.where(rises, 0.5 * value, value)
        return value

    def _leaf_constants(self, leaf, inside, w, n_nodes):
        """Each leaf's own minimiser over the residuals, for losses without curvature."""
        rest = (self.y - self.score[:, 0])[inside]
        value = np.zeros(n_nodes)
        order = np.argsort(leaf, kind="stable")
        leaves, starts = np.unique(leaf[order], return_index=True)
        for node, rows in zip(leaves, np.split(order, starts[1:]), strict=True):
            value[node] = self.loss.constant(rest[rows], w[rows])
        return value

    def add(self, group, output):
        """Choose coefficients and take the round in; ``False`` if it does not descend."""
        rate = self.model.learning_rate
        if self.kind == "corrective":
            if not np.any(output):
                return False
            self._append(group, output)
            self._correct()
        else:
            length = 1.0
            if self.kind == "line_search":
                # All rows, also those the member was not shown: they keep the step honest.
                length = step_length(
                    self.loss,
                    self.y,
                    self.weight,
                    self._flat(self.score),
                    self._flat(output),
                )
            if length == 0.0 or not np.any(output):
                return False
            self._append(group, output)
            self.coef = np.append(self.coef, rate * length)
            self.score = self.score + rate * length * output
        self.train_score.append(self._mean_loss(self.y, self.score, self.weight))
        if self.held_out is not None:
            self._follow_held_out(group)
        return True

    def _append(self, group, output):
        if self.keeps_outputs:
            scale = deviation(output, self.weight)
            scale = scale if scale > 1e-12 else 1.0
            column = self.n_scores + len(self.groups)
            self.Phi[:, column] = output.ravel(order="F") / scale
            self.scale = np.append(self.scale, scale)
        self.groups.append(group)

    def _correct(self):
        """Refit every coefficient and go ``learning_rate`` of the way there (equation 12)."""
        Phi = self.Phi[:, : self.n_scores + len(self.groups)]
        ridge = np.full(Phi.shape[1], self.model.alpha)
        ridge[: self.n_scores] = 0.0
        start = np.append(self.theta, 0.0)
        if self.refit is not None:
            self.refit.add(Phi)
            target = self.refit.solve(ridge)
        else:
            target = corrective_coefficients(self.loss, self.y, self.weight, Phi, start, ridge)
        self.theta = start + self.model.learning_rate * (target - start)
        self.score = (Phi @ self.theta).reshape((len(self.y), -1), order="F")
        self.intercept = self.theta[: self.n_scores]
        self.coef = self.theta[self.n_scores :] / self.scale
        self.stages.append((self.intercept, self.coef))

    def _follow_held_out(self, group):
        held_X = self.held_out[0]
        output = np.column_stack([member.predict(held_X) for member in group])
        if self.stages is None:
            self.held_score = self.held_score + self.coef[-1] * output
        else:
            self.held_outputs.append(output)
            self.held_score = self.intercept + sum(
                c * f for c, f in zip(self.coef, self.held_outputs, strict=True)
            )
        value = self.held_loss()
        self.validation_score.append(value)
        if value < self.best - self.model.tol * abs(self.best):
            self.best, self.best_round = value, len(self.groups)

    def held_loss(self):
        _, y, weight = self.held_out
        return self._mean_loss(y, self.held_score, weight)

    def _mean_loss(self, y, score, weight):
        return float(np.average(self.monitor.value(y, self._flat(score)), weights=weight))

    def is_over(self):
        """Tell whether the held-out loss has not fallen for ``n_iter_no_change`` rounds."""
        if self.held_out is None:
            return False
        return len(self.groups) - self.best_round >= self.model.n_iter_no_change

    def keep_best(self):
        """Go back to the round that was best on the held-out rows."""
        if self.held_out is None or self.best_round == len(self.groups):
            return
        last = self.best_round
        self.groups = self.groups[:last]
        if self.stages is None:
            self.coef = self.coef[:last]
        else:
            self.stages = self.stages[:last]
            start = np.atleast_1d(best_constant(self.loss, self.y, self.weight))
            self.intercept, self.coef = self.stages[-1] if last else (start, np.empty(0))
        self.scale = self.scale[:last]

    def refit_l1(self, seed):
        """One L1 path over all members, penalty by cross-validation; zero members go."""
        n, K = len(self.y), self.n_scores
        Phi = self.Phi[:, : K + len(self.groups)]
        start = np.zeros(Phi.shape[1])
        start[:K] = best_constant(self.loss, self.y, self.weight)
        top = largest_useful_penalty(self.loss, self.y, self.weight, Phi, K, start)
        penalties = top * np.logspace(0, -4, _N_PENALTIES)
        held = np.zeros(_N_PENALTIES)
        folds = KFold(min(_N_FOLDS, n), shuffle=True, random_state=seed)
        for train, test in folds.split(self.y):
            inner = (np.arange(K)[:, None] * n + train).ravel()
            outer = (np.arange(K)[:, None] * n + test).ravel()
            path = l1_path(
                self.loss, self.y[train], self.weight[train], Phi[inner], K, penalties, start
            )
            for p, theta in enumerate(path):
                score = (Phi[outer] @ theta).reshape((len(test), K), order="F")
                value = self.loss.value(self.y[test], self._flat(score))
                held[p] += self.weight[test] @ value
        best = int(np.argmin(held))
        theta = l1_path(self.loss, self.y, self.weight, Phi, K, penalties[: best + 1], start)[-1]
        kept = np.flatnonzero(theta[K:])
        self.intercept = theta[:K]
        self.coef = theta[K:][kept] / self.scale[kept]
        self.groups = [self.groups[j] for j in kept]
        self.stages = None

    def is_linear_span(self):
        return getattr(self.loss, "is_quadratic", False) and hasattr(self.groups[0][0], "coef_")
