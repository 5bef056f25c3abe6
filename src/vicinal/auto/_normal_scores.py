"""Columns bent to normal scores, before models that live on distances or slopes."""

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from vicinal._base import saved
from vicinal._kernels.linear._maps import normal_score_knots


@saved()
class NormalScores(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Map every column, piecewise linearly, to normal scores of mean 0 and variance 1."""

    def fit(self, X, y=None, sample_weight=None):
        """Learn the knots of every column."""
        self.n_features_in_ = X.shape[1]
        self.knots_ = [normal_score_knots(column, sample_weight) for column in X.T]
        return self

    def transform(self, X):
        """Map rows; values beyond those seen take the scores of the extremes."""
        columns = [
            np.interp(column, values, scores)
            for column, (values, scores) in zip(X.T, self.knots_, strict=True)
        ]
        return np.stack(columns, axis=1)

    def write_graph(self, graph, x):
        """Write the map into a graph of :func:`vicinal.io.to_onnx`."""
        return graph.bent(x, self.knots_)
