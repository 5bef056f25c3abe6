"""Ascent on an expected accuracy over matrices: L-BFGS and simulated annealing.

Every solver keeps the best iterate by the score it is given to watch (the accuracy expected on rows
held out, or the objective itself) and stops when that has not risen for a while. Matrices stay on
the host in float64; an objective may compute wherever it likes.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


class BestIterate:
    """Remember the best matrix by a score, and tell when it has stopped improving.

    Parameters
    ----------
    score : callable
        From a matrix to a number to be large.
    patience : int or None
        Updates without improvement after which to stop; None never stops.
    min_gain : float, default=0.0
        A smaller rise is no improvement, though the better matrix is kept.
    """

    def __init__(
        self, score: Callable[[np.ndarray], float], patience: int | None, min_gain: float = 0.0
    ) -> None:
        self.score = score
        self.patience = patience
        self.min_gain = min_gain
        self.waited = 0
        self._mark = -np.inf
        self.scores: list[float] = []
        self.iterates: list[np.ndarray] = []
        self.best = -1

    def update(self, A: np.ndarray) -> bool:
        """Take note of ``A``; return whether to stop."""
        self.scores.append(float(self.score(A)))
        self.iterates.append(A.copy())
        if self.best < 0 or self.scores[-1] > self.scores[self.best]:
            self.best = len(self.scores) - 1
        improved = self.scores[-1] > self._mark + self.min_gain
        self._mark = self.scores[-1] if improved else self._mark
        self.waited = 0 if improved else self.waited + 1
        return self.has_stopped()

    def has_stopped(self) -> bool:
        """Tell whether patience has run out."""
        return self.patience is not None and self.waited >= self.patience

    @property
    def matrix(self) -> np.ndarray:
        """The best iterate."""
        return self.iterates[self.best]


def lbfgs_ascent(
    objective: Objective, start: np.ndarray, watch: BestIterate, *, max_iter: int, tol: float
) -> bool:
    """Limited-memory quasi-Newton steps; return whether they ended before ``max_iter`` did.

    ``objective`` should be of order one (a mean over rows): the first step has unit length then,
    less than the start's own norm.
    """
    shape = start.shape

    def negative(flat):
        value, gradient = objective(flat.reshape(shape))
        return -value, -gradient.ravel()

    def callback(flat):
        if watch.update(flat.reshape(shape)):
            raise StopIteration

    watch.update(start)
    result = minimize(
        negative,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=callback,
        options={"maxiter": max_iter, "ftol": tol, "gtol": 1e-8},
    )
    return result.nit < max_iter or watch.has_stopped()


def annealed_ascent(
    objectives: Sequence[Objective],
    values: Sequence[Callable[[np.ndarray], float]],
    starts: Sequence[np.ndarray],
    watch: BestIterate,
    *,
    max_iter: int,
    temperature: float,
    cooling: float,
    step: float,
    noise: float,
    random_state: np.random.RandomState,
) -> bool:
    """Anneal all matrices together: Algorithm 1 of the source with its sign mended.

    A proposal adds to each matrix a step along its gradient, ``step`` of the matrix's norm long,
    and a normal random matrix of norm ``noise`` of it; all are accepted or refused together, with
    probability ``min(1, exp(gain / T))``, where ``gain`` is the change of the summed ``values``
    (of order one) and ``T`` falls from ``temperature`` by the factor ``cooling`` each time.
    ``objectives`` may be random estimates (gradients of some rows); ``values`` are not.
    """
    matrices = [start.copy() for start in starts]
    current = float(sum(value(A) for value, A in zip(values, matrices, strict=True)))
    gradients: list[np.ndarray] | None = None
    watch.update(np.stack(matrices))
    for iteration in range(max_iter):
        if gradients is None:
            gradients = [g(A)[1] for g, A in zip(objectives, matrices, strict=True)]
        proposal = []
        for A, gradient in zip(matrices, gradients, strict=True):
            size, length = float(np.linalg.norm(A)), float(np.linalg.norm(gradient))
            shake = random_state.standard_normal(A.shape) * (noise * size / np.sqrt(A.size))
            proposal.append(A + gradient * (step * size / max(length, 1e-300)) + shake)
        proposed = float(sum(value(A) for value, A in zip(values, proposal, strict=True)))
        gain = (proposed - current) / (temperature * float(cooling) ** iteration)
        # One number is drawn whatever the gain, so that runs with equal seeds stay comparable.
        if np.log(random_state.uniform()) < gain:
            matrices, current, gradients = proposal, proposed, None
        if watch.update(np.stack(matrices)):
            return True
    return False
