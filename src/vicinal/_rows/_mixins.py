"""Methods of models that have answered training rows without having seen them."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vicinal._base import as_given, as_numpy


class SupportMixin:
    """Models that tell how usual a row is.

    A model writes ``_held_out_rows()``, and ``_row_numbers(X)``, which checks queries and returns
    them in the columns of those rows.
    """

    def support(self, X):
        """Return how usual each query is among the training rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        ndarray of shape (n_queries,)
            The share of training rows that stand at least as far from the rows around them: a
            p-value, uniform on rows like those of ``fit``, near 0 far away from all of them.
        """
        check_is_fitted(self)
        return as_given(self._known_rows().support(self._row_numbers(X)), X)

    def _known_rows(self):
        """Return the training rows; whether they are answered does not matter."""
        return self._held_out_rows()


class IntervalMixin(SupportMixin):
    """Regressors whose held-out errors say how far answers are off."""

    def predict_interval(self, X, coverage=0.9, *, local=False):
        """Return intervals that hold the target with the given chance.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_queries, n_features)
            Queries.
        coverage : float, default=0.9
            Chance, between 0 and 1.
        local : bool, default=False
            Take the quantile over the rows around each query too, not only the scale: for tables
            whose errors change shape from place to place. Intervals are wider, and infinite, with a
            warning, where too few rows speak.

        Returns
        -------
        ndarray of shape (n_queries, 2) or (n_queries, n_outputs, 2)
            Lower and upper ends.
        """
        check_is_fitted(self)
        values = np.asarray(as_numpy(self.predict(X)), dtype=np.float64)
        numbers = self._row_numbers(X)
        intervals = self._held_out_rows().intervals
        ends = intervals.around(values.reshape(len(values), -1), numbers, coverage, local=local)
        return as_given(ends if values.ndim == 2 else ends[:, 0], X)


class LabelSetMixin(SupportMixin):
    """Classifiers whose held-out probabilities say which labels are possible."""

    def predict_set(self, X, coverage=0.9, *, method="adaptive", by_class=False, local=False):
        """Return sets of labels that hold the true one with the given chance.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_queries, n_features)
            Queries.
        coverage : float, default=0.9
            Chance, between 0 and 1.
        method : {"adaptive", "threshold"}, default="adaptive"
            "adaptive" takes the most probable labels until their chances add up: at least one, so
            that the promise is exceeded where the model is right more often than asked.
            "threshold" takes all labels above one probability, which keeps it closely, by the
            smallest sets on average, of which some are empty.
        by_class : bool, default=False
            Keep the promise within every class, for rare ones.
        local : bool, default=False
            Take the quantile over the rows around each query.

        Returns
        -------
        ndarray of bool of shape (n_queries, n_classes)
            Which labels are in the set; columns follow ``classes_``.
        """
        check_is_fitted(self)
        proba = np.asarray(as_numpy(self.predict_proba(X)), dtype=np.float64)
        numbers = self._row_numbers(X)
        sets = self._held_out_rows().sets
        return sets.of(proba, numbers, coverage, method=method, by_class=by_class, local=local)
