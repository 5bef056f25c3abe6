"""A support vector machine whose penalty and tube are in units of the target."""

import numpy as np
from sklearn.svm import SVR

from vicinal._base import saved


@saved()
class ScaledSVR(SVR):
    """``SVR`` of the standardised target."""

    def fit(self, X, y, sample_weight=None):
        """Standardise y and fit."""
        self.target_mean_ = np.average(y, weights=sample_weight)
        spread = np.sqrt(np.average((y - self.target_mean_) ** 2, weights=sample_weight))
        self.target_scale_ = spread if spread > 0.0 else 1.0
        return super().fit(X, (y - self.target_mean_) / self.target_scale_, sample_weight)

    def predict(self, X):
        """Predict in the unit of y."""
        return self.target_mean_ + self.target_scale_ * super().predict(X)

    def write_graph(self, graph, x):
        """Write the predictions into a graph of :func:`vicinal.io.to_onnx`."""
        plain = SVR(**self.get_params())
        plain.__dict__.update(self.__dict__)  # the same machine, by the name that others know
        said = graph.borrow("values", plain, [x])
        return graph.affine(said, [[self.target_scale_]], [self.target_mean_])
