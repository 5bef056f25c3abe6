"""Bootstrap of any learner, shared by the classifier and the regressor."""

from abc import ABCMeta, abstractmethod
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    atomic_fit_blocks,
    check_magnitude,
    documented,
    draw_seeds,
    is_frame,
    parallel_map,
    positive_rows,
    reads_frames,
)
from vicinal._base._compat import HasMethods, Interval, num_samples, rows_of
from vicinal._base._explanation import ExplainRowMixin
from vicinal._conformal import HeldOutRows, some_rows
from vicinal.ensemble._bootstrap_blocks import fit_bootstrap
from vicinal.ensemble._explain import bootstrap_sections
from vicinal.ensemble._learners import draw_rows, fresh_learner, row_count
from vicinal.table import TableEncoder

# Rows that one member may draw: two gigabytes of row numbers.
_MOST_DRAWS = 2**28


def _fit_member(learner, output, X, y, weight, n_draws, codes, seed):
    """Fit one member to its own draw; returns it, its unused rows and its outputs there."""
    rng = check_random_state(seed)
    rows = draw_rows(rng, weight, n_draws, codes)
    member = fresh_learner(learner, rng)
    member.fit(rows_of(X, rows), y[rows])
    unused = np.setdiff1d(np.arange(len(weight)), rows)
    return member, unused, output(member, rows_of(X, unused)) if len(unused) else None


class RunningMoments:
    """Mean and spread of members' outputs without keeping them (Welford)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = np.zeros(1)
        self._squares = np.zeros(1)

    def add(self, output: np.ndarray) -> None:
        """Take in one member's outputs."""
        self.count += 1
        change = output - self.mean
        self.mean = self.mean + change / self.count
        self._squares = self._squares + change * (output - self.mean)

    def std(self) -> np.ndarray:
        """Deviation over members, 0 for a single one."""
        return np.sqrt(self._squares / max(1, self.count - 1))


@documented
class BaseBootstrapEnsemble(ExplainRowMixin, BaseEstimator, metaclass=ABCMeta):
    """Copies of a learner fitted to rows drawn with replacement.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of members.
    n_jobs : int, default=None
        Members at once, through joblib; ``None`` is one, unless ``joblib.parallel_config`` says
        otherwise. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds of the draws and of learners that have one.
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Interval(Integral, 2, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self, estimator=None, *, n_estimators=100, n_jobs=None, random_state=None, verbose=0
    ):
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _learner(self):
        """Return the learner of the members, unfitted."""

    @abstractmethod
    def _output(self):
        """Return the function (member, X) that gives a member's output."""

    @abstractmethod
    def _keep_out_of_bag(self, X, mean, target, weight):
        """Keep mean out-of-bag outputs (NaN where there is none) and how right they are."""

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit the members to a table in blocks of rows.

        Up to 100,000 rows are fitted as in memory; of more, each member draws about as many.
        """
        fit_bootstrap(self, blocks, has_classes=is_classifier(self))

    def _fit_members(self, X, y, weight, codes=None):
        """Fit all members; returns the mean out-of-bag output per row, NaN where there is none."""
        learner, output = self._learner(), self._output()
        seeds = draw_seeds(self.random_state, self.n_estimators)
        n_draws = row_count(weight)
        if n_draws > _MOST_DRAWS:
            raise ValueError(
                f"sample_weight sums to {n_draws:.3g}, and every member draws so many rows, but at "
                f"most {_MOST_DRAWS:.3g}; divide the weights by their mean to draw one for each."
            )
        results = parallel_map(
            _fit_member,
            [(learner, output, X, y, weight, n_draws, codes, seed) for seed in seeds],
            n_jobs=self.n_jobs,
            label=type(self).__name__,
            verbose=self.verbose,
        )
        self.estimators_ = [member for member, _, _ in results]
        width = self._output_shape()
        total, count = np.zeros((len(weight), *width)), np.zeros(len(weight))
        for _, unused, out in results:
            if out is not None:
                total[unused] += out
                count[unused] += 1
        is_known = count > 0
        mean = np.full_like(total, np.nan)
        mean[is_known] = total[is_known] / count[is_known].reshape((-1,) + (1,) * len(width))
        return mean

    def _keep_answers(self, X, answers, targets, weight, is_known) -> None:
        """Keep some of the rows that have an out-of-bag answer."""
        rows = np.flatnonzero(is_known)
        rows = rows[some_rows(len(rows))]
        self._table = TableEncoder().fit(X) if is_frame(X) else None
        numbers = self._as_numbers(rows_of(X, rows))
        self._answered = HeldOutRows(
            numbers, answers[rows], targets[rows], weight[rows], self.n_jobs
        )

    def _held_out_rows(self) -> HeldOutRows:
        if not len(self._answered.targets):
            raise ValueError("every member drew every row; no row was held out to learn from.")
        return self._answered

    def _row_numbers(self, X):
        return self._as_numbers(self._checked(X))

    def _as_numbers(self, X):
        return X if self._table is None else self._table.transform(X)

    def _output_shape(self):
        """Shape of a member's output for one row."""
        return ()

    def _moments(self, X, output):
        moments = RunningMoments()
        for member in self.estimators_:
            moments.add(output(member, X))
        return moments

    def _training_rows(self, X, y, sample_weight, **options):
        """Return weights, rows and targets; a frame goes as it is to a learner that reads it."""
        if is_frame(X) and reads_frames(self._learner()):
            validate_data(self, X, skip_check_array=True)
            y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
            check_consistent_length(X, y)
            weight, rows, y = positive_rows(sample_weight, np.arange(num_samples(X)), y)
            return weight, rows_of(X, rows), y
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], **options
        )
        return positive_rows(sample_weight, X, y)

    def _checked(self, X):
        check_is_fitted(self)
        check_magnitude("X", X)
        if is_frame(X) and reads_frames(self._learner()):
            return validate_data(self, X, skip_check_array=True, reset=False)
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
        )

    def _sections(self, X, columns):
        return bootstrap_sections(self, X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
