"""Limited-memory quasi-Newton minimisation in a metric given by the caller."""

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

_SUFFICIENT_DECREASE = 1e-4
_MAX_HALVINGS = 30


class Minimum(NamedTuple):
    """Where a minimisation ended; ``converged`` means the gradient fell below its bound."""

    point: np.ndarray
    value: float
    n_iter: int
    converged: bool


def answer_all(steps: Generator[Any, Any, Any], answer: Callable[[Any], Any]) -> Any:
    """Answer what a generator asks for until it returns, and return that."""
    try:
        question = next(steps)
        while True:
            question = steps.send(answer(question))
    except StopIteration as end:
        return end.value


def lbfgs_steps(
    start: np.ndarray,
    precondition: Callable[[np.ndarray], np.ndarray],
    *,
    gradient_tol: float,
    max_iter: int,
    memory: int = 15,
) -> Generator[np.ndarray, tuple[float, np.ndarray], Minimum]:
    """Minimise a convex function until its largest gradient entry is at most ``gradient_tol``.

    Yields the points at which value and gradient are needed, so that many minimisations can be
    answered together, by one pass over the rows of all. ``precondition`` applies a fixed, positive
    definite approximation of the inverse Hessian; it takes the place of the multiple of the
    identity in the two-loop recursion (Nocedal and Wright, "Numerical Optimization", 2006,
    algorithm 7.4). For a loss of linear scores such a matrix costs one Gram matrix, and a unit step
    is then nearly always accepted.
    """
    point = np.array(start, dtype=np.float64)
    value, gradient = yield point
    pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=memory)
    scale = 1.0
    for iteration in range(max_iter):
        if np.abs(gradient).max() <= gradient_tol:
            return Minimum(point, float(value), iteration, True)
        direction = -_two_loops(gradient, pairs, precondition, scale)
        step = yield from _backtrack(point, value, gradient, direction)
        if step is None:
            break
        moved, new_value, new_gradient = step
        difference, change = moved - point, new_gradient - gradient
        curvature = difference @ change
        # Rounding can take the curvature of a convex function below zero near the minimum.
        if curvature > 1e-14 * np.linalg.norm(difference) * np.linalg.norm(change):
            pairs.append((difference, change, 1.0 / curvature))
            scale = curvature / (change @ precondition(change))
        point, value, gradient = moved, new_value, new_gradient
    else:
        iteration = max_iter
    return Minimum(point, float(value), iteration, bool(np.abs(gradient).max() <= gradient_tol))


def _two_loops(gradient, pairs, precondition, scale):
    """Apply the quasi-Newton inverse Hessian to the gradient."""
    q = gradient.copy()
    shares = []
    for difference, change, inverse in reversed(pairs):
        share = inverse * (difference @ q)
        shares.append(share)
        q -= share * change
    q = scale * precondition(q)
    for (difference, change, inverse), share in zip(pairs, reversed(shares), strict=True):
        q += difference * (share - inverse * (change @ q))
    return q


def _backtrack(point, value, gradient, direction):
    """Shorten the step until the value falls enough; ``None`` when rounding leaves no descent."""
    slope = gradient @ direction
    slack = 4 * np.finfo(float).eps * abs(value)
    step = 1.0
    for _ in range(_MAX_HALVINGS):
        moved = point + step * direction
        new_value, new_gradient = yield moved
        if new_value <= value + _SUFFICIENT_DECREASE * step * slope + slack:
            return moved, new_value, new_gradient
        # Minimum of the parabola through both values and the slope, kept within [0.1, 0.5] steps.
        parabola = -slope * step**2 / (2 * (new_value - value - step * slope))
        step = min(max(parabola, 0.1 * step), 0.5 * step)
    return None
