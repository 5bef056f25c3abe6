"""A fitted chain of gates over region models."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from vicinal._base import free_memory, is_array_api, namespace, row_blocks, saved
from vicinal._kernels.cascade._device import (
    device_gate_decisions,
    device_region_scores,
    take_own,
)
from vicinal._kernels.cascade._hard import route
from vicinal._kernels.cascade._soft import gate_log_priors
from vicinal.partition.stages import aligned_proba, gate_scores, stacked_gates, stacked_regions


@saved()
class Cascade:
    """A chain of gates over region models, fitted from one start.

    Rows may be arrays of another library where all stages are linear; models stay on the host.

    Attributes
    ----------
    regions : list of length n_regions
        Fitted region models.
    gates : list of length n_regions - 1
        Fitted gates; gate ``k`` passes a sample on to stage ``k + 1`` or keeps it in region ``k``.
    soft : bool
        Whether predictions mix the regions by the gates' probabilities.
    history : dict
        What was recorded after every sweep (or iteration): ``error``, ``region_sizes``,
        ``disagreement`` (hard) or ``objective`` (soft).
    train_error : float
        Weighted error (mean squared error for regression) on the data of the fit.
    selection_error : float
        Error by which starts are compared: on the training or on the validation rows.
    region_sizes : ndarray of shape (n_regions,)
        Number of training samples in each region.
    n_iter : int
        Number of sweeps or iterations that were run.
    converged : bool
        Whether the run stopped by itself.
    """

    def __init__(self, regions, gates, *, soft=False):
        self.regions = regions
        self.gates = gates
        self.soft = soft
        self.history = {}
        self.train_error = np.nan
        self.selection_error = np.nan
        self.region_sizes = np.zeros(len(regions), dtype=np.int64)
        self.n_iter = 0
        self.converged = False

    @classmethod
    def single(cls, model: Any, error: float, n_samples: int) -> "Cascade":
        """Return the cascade of one region, which needs no sweeps."""
        cascade = cls([model], [])
        cascade.train_error = cascade.selection_error = error
        cascade.region_sizes = np.array([n_samples])
        cascade.history = {
            "error": np.array([error]),
            "region_sizes": cascade.region_sizes[None, :],
            "disagreement": np.zeros((1, 0)),
        }
        cascade.n_iter, cascade.converged = 1, True
        return cascade

    @property
    def n_regions(self) -> int:
        """Number of regions."""
        return len(self.regions)

    def apply(self, X: Any) -> np.ndarray:
        """Return the region of each row; a gate is asked only about the rows that reach it."""
        if is_array_api(X):
            passed = namespace(X).permute_dims(self.gate_scores(X) > 0, (1, 0))
            return route(passed, X.shape[0])
        region = np.full(X.shape[0], len(self.gates), dtype=np.int64)
        rows = np.arange(X.shape[0])
        for k, gate in enumerate(self.gates):
            if len(rows) == 0:
                break
            passed = np.asarray(gate.predict(_take(X, rows))) == 1
            region[rows[~passed]] = k
            rows = rows[passed]
        return region

    def gate_scores(self, X: Any) -> np.ndarray:
        """Return the scores of all gates, of shape (n_samples, n_regions - 1)."""
        if is_array_api(X):
            return device_gate_decisions(X, *stacked_gates(self.gates, X.shape[1]))
        scores = np.empty((X.shape[0], len(self.gates)), dtype=X.dtype)
        for k, gate in enumerate(self.gates):
            scores[:, k] = gate_scores(gate, X)
        return scores

    def by_region(self, X: Any) -> Iterator[tuple[Any, np.ndarray, Any]]:
        """Yield the model, the rows and the data of every region that rows of ``X`` fall in."""
        region = self.apply(X)
        for k, model in enumerate(self.regions):
            rows = np.flatnonzero(region == k)
            if len(rows):
                yield model, rows, _take(X, rows)

    def predict(self, X: Any, dtype: Any) -> np.ndarray:
        """Return what each row's own region predicts."""
        predicted = np.empty(X.shape[0], dtype=dtype)
        for model, rows, X_rows in self.by_region(X):
            predicted[rows] = model.predict(X_rows)
        return predicted

    def predict_proba(self, X: Any, classes: np.ndarray) -> np.ndarray:
        """Return class probabilities: of the own region, or mixed over regions if soft."""
        if is_array_api(X):
            return namespace(X).concat([_softmax(part) for part in self._own_scores(X)], axis=0)
        proba = np.zeros((X.shape[0], len(classes)), dtype=X.dtype)
        if self.soft and self.gates:
            priors = np.exp(gate_log_priors(self.gate_scores(X)))
            for k, model in enumerate(self.regions):
                proba += priors[:, k : k + 1] * aligned_proba(model, X, classes)
            return proba / proba.sum(axis=1, keepdims=True)
        for model, rows, X_rows in self.by_region(X):
            proba[rows] = aligned_proba(model, X_rows, classes)
        return proba

    def predict_codes(self, X: Any) -> Any:
        """Return the code of the class that each row's own region predicts, of a device array."""
        xp = namespace(X)
        return xp.concat([xp.argmax(scores, axis=1) for scores in self._own_scores(X)])

    def _own_scores(self, X: Any) -> Iterator[Any]:
        """Yield the scores (n_rows, n_classes) of each row's own region, block by block."""
        coefs, intercepts = stacked_regions(self.regions)
        for rows in row_blocks(X.shape[0], 40 * intercepts.size, working_memory=free_memory(X)):
            block = X[rows, :]
            yield take_own(device_region_scores(block, coefs, intercepts), self.apply(block))

    def prune(self) -> None:
        """Delete the stages that hold no training sample; training samples keep their models."""
        keep = np.flatnonzero(self.region_sizes > 0)
        # The gate of the last kept stage goes too: nothing it passed on has a stage to go to.
        self.gates = [self.gates[k] for k in keep[:-1]]
        self.regions = [self.regions[k] for k in keep]
        self.region_sizes = self.region_sizes[keep]


def _take(X: Any, rows: np.ndarray) -> Any:
    """Return the given rows, without a copy when they are all rows in order."""
    return X if len(rows) == X.shape[0] else X[rows]


def _softmax(scores: Any) -> Any:
    xp = namespace(scores)
    powers = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return powers / xp.sum(powers, axis=1, keepdims=True)
