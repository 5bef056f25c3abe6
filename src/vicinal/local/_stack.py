"""A weighted list of fitted local models that answers as one."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import KFold

from vicinal._base import saved
from vicinal.local._global_rung import BoostedModel, GlobalModel, boosted_model, global_fits

_N_FOLDS = 5


@saved()
@dataclass
class Stack:
    """Rungs and their weights.

    Every answer is the weighted mean of the rungs' answers; for linear smoothers it is a linear
    smoother again, whose equivalent kernel is the weighted mean of theirs.

    Attributes
    ----------
    rungs : list
        Fitted local estimators of one setting each, and global models.
    weights : ndarray of shape (n_rungs,)
        Weights of sum one.
    X : ndarray of shape (n_samples, n_features)
        Training rows, for the global models.
    Y : ndarray of shape (n_samples, n_outputs)
        Targets or class indicators.
    codes : ndarray or None
        Class codes.
    sample_weight : ndarray or None
        User weights.
    """

    rungs: list[Any]
    weights: np.ndarray
    X: np.ndarray
    Y: np.ndarray
    codes: np.ndarray | None
    sample_weight: np.ndarray | None

    def _sum(self, answers):
        total: Any = 0.0
        for weight, rung in zip(self.weights, self.rungs, strict=True):
            total = total + weight * answers(rung)
        return total

    def scores(self, X) -> np.ndarray:
        """Return predictions or class scores, (n_queries, n_outputs)."""
        return self._sum(lambda rung: rung.scores(X) if _is_global(rung) else rung._raw_scores(X))

    def slopes(self, X) -> np.ndarray:
        """Return gradients with respect to the columns of X, (n_queries, n_outputs, d)."""
        return self._sum(lambda rung: rung.slopes(X) if _is_global(rung) else rung._raw_slopes(X))

    def kernel(self, X) -> sparse.csr_matrix:
        """Return the equivalent kernel, (n_queries, n_samples)."""
        others = [rung.solver for rung in self.rungs if not _is_smoother(rung)]
        if others:
            raise ValueError(
                "equivalent_kernel exists for linear smoothers only, but the stack holds a global "
                f'model of another kind ({others[0]}); use combine="best", or ask the local models '
                "in rungs_."
            )
        return self._sum(
            lambda rung: (
                sparse.csr_matrix(self._global_kernel(rung, X))
                if isinstance(rung, GlobalModel)
                else rung._raw_kernel(X)
            )
        )

    def smoothers(self) -> "Stack":
        """Return the stack of the rungs that are linear smoothers, their weights of sum one."""
        kept = np.array([_is_smoother(rung) for rung in self.rungs])
        if not kept.any():
            raise ValueError(
                "Standard errors exist for linear smoothers only, but the choice fell on boosted "
                'trees alone; use combine="best" for a local model, or predict_interval with '
                'kind="prediction".'
            )
        weights = self.weights[kept] / self.weights[kept].sum()
        return replace(
            self, rungs=[r for r, keep in zip(self.rungs, kept, strict=True) if keep],
            weights=weights,
        )  # fmt: skip

    def _global_kernel(self, model: GlobalModel, X) -> np.ndarray:
        """Return w_i / s + w_i (x_i - m)' (V + lam I)^-1 (q - m) of a global ridge model."""
        Z = model.coordinates(self.X)
        share = np.ones(len(Z)) if self.sample_weight is None else self.sample_weight
        A = (Z - model.centre) * np.sqrt(share)[:, None]
        V = A.T @ A
        d = len(V)
        lam = model.alpha * np.trace(V) / d
        solved = np.linalg.solve(V + lam * np.eye(d), (model.coordinates(X) - model.centre).T)
        return share / share.sum() + (solved.T @ A.T) * np.sqrt(share)

    def neighbors(self, X) -> sparse.csr_matrix:
        """Return who speaks: the weighted mean of the rungs' smoothing weights, rows of sum one."""
        return self._sum(lambda rung: self._voices(rung, X))

    def _voices(self, rung, X) -> sparse.csr_matrix:
        n = len(self.X)
        if _is_global(rung):
            share = np.ones(n) if self.sample_weight is None else self.sample_weight
            return sparse.csr_matrix(np.broadcast_to(share / share.sum(), (X.shape[0], n)))
        voices = rung._raw_neighbors(X)
        total = np.asarray(voices.sum(axis=1)).ravel()
        return sparse.diags_array(1.0 / np.where(total > 0.0, total, 1.0)) @ voices

    def left_out(self) -> np.ndarray:
        """Return answers for the training rows by models that did not hold them.

        Local models leave the row out of its neighbourhood, global models its fold; learned
        coordinates and the weights of the rungs stay.
        """
        return self._sum(
            lambda rung: self._cross_fitted(rung) if _is_global(rung) else rung._raw_left_out()
        )

    def _cross_fitted(self, model) -> np.ndarray:
        out = np.empty(self.Y.shape)
        folds = KFold(min(_N_FOLDS, len(self.X)), shuffle=True, random_state=0).split(self.X)
        for train, test in folds:
            out[test] = self._refit(model, train).scores(self.X[test])
        return out

    def _refit(self, model, rows):
        """Return the same kind of global model, fitted to some of the rows."""
        weights = None if self.sample_weight is None else self.sample_weight[rows]
        codes = None if self.codes is None else self.codes[rows]
        if isinstance(model, BoostedModel):
            seed = model.models[0].random_state
            return boosted_model(self.X[rows], self.Y[rows], codes, weights, seed)
        Z = model.coordinates(self.X[rows])
        fit = global_fits(model.solver, Z, self.Y[rows], codes, weights, [model.alpha])[0]
        return replace(model, centre=fit[0], level=fit[1], coef=fit[2])

    def joined(self, append, X, Y, codes, sample_weight) -> "Stack":
        """Return the stack with further rows.

        ``append(rung)`` gives a local model its new rows; global models are fitted again.
        """
        weights = None
        if sample_weight is not None or self.sample_weight is not None:
            parts = ((self.sample_weight, len(self.X)), (sample_weight, len(X)))
            weights = np.concatenate([np.ones(n) if s is None else s for s, n in parts])
        stack = Stack(
            [],
            self.weights,
            np.vstack([self.X, np.asarray(X, dtype=np.float64)]),
            np.vstack([self.Y, Y]),
            None if self.codes is None else np.concatenate([self.codes, codes]),
            weights,
        )
        for rung in self.rungs:
            stack.rungs.append(
                stack._refit(rung, slice(None)) if _is_global(rung) else append(rung)
            )
        return stack


def _is_global(rung) -> bool:
    return isinstance(rung, (BoostedModel, GlobalModel))


def _is_smoother(rung) -> bool:
    return not _is_global(rung) or rung.solver == "ridge"
