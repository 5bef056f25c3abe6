"""Rounds of functional gradient boosting (equations 8 to 13 of the guide)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, train_test_split
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state

from vicinal._base import Progress, TrainingData, fit_weighted, random_seeds, takes_weights
from vicinal._kernels.ensemble import _boosting as kernels
from vicinal.ensemble._learners import fresh_learner, usable_weights

_N_PENALTIES = 30
_N_FOLDS = 5
_MAX_HALVINGS = 60


@dataclass(frozen=True)
class BoostingSettings:
    """Learner, loss and coefficients of a model; all other parameters are its own."""

    model: Any
    estimator: Any
    loss: Any
    coefficients: str


def resolve_boosting(model: Any, loss: Any) -> BoostingSettings:
    """Return the settings of a model; raise where parameters cannot be combined."""
    learner, coefficients = model.estimator, model.coefficients
    if learner is None:
        learner = DecisionTreeRegressor(max_depth=3)
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
    return BoostingSettings(model, learner, loss, coefficients)


def boost(data: TrainingData, settings: BoostingSettings) -> "Rounds":
    """Fit all rounds."""
    model, held = settings.model, None
    rng = check_random_state(model.random_state)
    if model.n_iter_no_change is not None:
        train, test = train_test_split(
            np.arange(len(data)),
            test_size=model.validation_fraction,
            random_state=rng,
            stratify=None if data.classes is None else data.y,
        )
        data, held = data.take(train), data.take(test)
    rounds = Rounds(data, held, settings)
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

    def __init__(self, data: TrainingData, held: TrainingData | None, settings: BoostingSettings):
        self.data, self.settings, self.loss = data, settings, settings.loss
        self.model = model = settings.model
        self.held: Any = held
        self.y, self.weight = data.y, data.weights
        self.learner_weight = usable_weights(settings.estimator, self.weight, type(model).__name__)
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
        is_corrective = settings.coefficients == "corrective"
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
        if not self.model.newton and self.settings.coefficients != "leaf":
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
            estimator = fresh_learner(self.settings.estimator, rng)
            target, w = residual[:, k], self.learner_weight
            if self.model.newton:
                floor = max(curvature[:, k].max() * 1e-8, np.finfo(float).tiny)
                h = np.maximum(curvature[:, k], floor)
                target, w = target / h, self.weight * h
            fit_weighted(estimator, X[inside], target[inside], None if w is None else w[inside])
            if self.settings.coefficients == "leaf":
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
        if self.settings.coefficients == "line_search":
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
