"""Training rows with answers by models that had not seen them."""

from functools import cached_property

import numpy as np

from vicinal._base import saved
from vicinal._rows._label_sets import LabelSets
from vicinal._rows._place import Place
from vicinal._rows._residual_intervals import ResidualIntervals
from vicinal._rows._support import Support

# More rows would not make quantiles better, only models larger.
_MAX_ROWS = 5000
_GIVEN = (
    "X",
    "answers",
    "targets",
    "weights",
    "n_jobs",
    "folds",
    "coarse",
    "are_coordinates",
    "groups",
)


@saved(
    X="n p gaps",
    answers="n *",
    targets="n | n *",
    weights="n",
    folds="n",
    coarse="n *",
    groups="n <n",
)
class HeldOutRows:
    """Training rows, their targets, and answers by models that had not seen them.

    What is asked of them is computed once, when it is first asked for; model files keep the rows.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_samples, n_columns)
        Rows as numbers.
    answers : ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes), or None
        Values or probabilities; ``None`` where only support is asked for.
    targets : ndarray of shape (n_samples, n_outputs) or ndarray of int of shape (n_samples,)
        True values or classes.
    weights : ndarray of shape (n_samples,), optional
        How often each row counts.
    n_jobs : int, optional
        Threads of the search.
    folds : ndarray of int of shape (n_samples,), optional
        Rows of one number were held out together.
    coarse : ndarray of shape (n_samples, n_outputs), optional
        Values by models of about half of the rows, see :func:`coarse_answers`.
    are_coordinates : bool, default=False
        Rows are in the coordinates of the model's own metric, to be compared as they are.
    groups : ndarray of int of shape (n_samples,), optional
        Rows of one number belong together, and new rows to none of them.
    """

    def __init__(
        self,
        X,
        answers,
        targets,
        weights=None,
        n_jobs=None,
        *,
        folds=None,
        coarse=None,
        are_coordinates=False,
        groups=None,
    ):
        self.X = X
        self.answers = answers
        self.targets = targets
        self.weights = weights
        self.n_jobs = n_jobs
        self.folds = folds
        self.coarse = coarse
        self.are_coordinates = are_coordinates
        self.groups = None if groups is None else np.unique(groups, return_inverse=True)[1]

    @cached_property
    def place(self) -> Place:
        """Coordinates of the rows."""
        return Place(self.X, self.n_jobs, are_coordinates=self.are_coordinates)

    @cached_property
    def support(self) -> Support:
        """How usual rows are."""
        return Support(self.place)

    @cached_property
    def intervals(self) -> ResidualIntervals:
        """Intervals of values."""
        coarse = None if self.coarse is None else self.targets - self.coarse
        return ResidualIntervals(
            self.place,
            self.targets - self.answers,
            self.weights,
            folds=self.folds,
            coarse=coarse,
            groups=self.groups,
        )

    @cached_property
    def sets(self) -> LabelSets:
        """Sets of labels."""
        return LabelSets(self.place, self.answers, self.targets, self.weights)

    def __saved_state__(self) -> dict[str, np.ndarray]:
        """Return what a model file keeps."""
        return {name: getattr(self, name) for name in _GIVEN}

    def __restore__(self, state: dict) -> None:
        """Take back what a model file kept."""
        vars(self).update({"groups": None} | state)  # files of earlier versions have none


def some_rows(n: int) -> np.ndarray:
    """Return rows of a table that stand for all of them, ascending."""
    return np.arange(n) if n <= _MAX_ROWS else np.linspace(0, n - 1, _MAX_ROWS).astype(np.int64)
