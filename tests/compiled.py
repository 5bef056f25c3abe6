"""Small fits that compile the functions which take longest to compile.

Workers of the suite that need the same function at the same time would each compile it, for up to
20 seconds: `tests/conftest.py` gives every worker its share of these steps first.
"""

import numpy as np

from vicinal import (
    GradientMetric,
    LocalClassifier,
    LocalRegressor,
    LoessRegressor,
    ObliviousBoostingRegressor,
    PrincipalSurface,
    PrunedTreeClassifier,
)
from vicinal.linear import AveragedPerceptron
from vicinal.neighbors import NeighborSearch

_rng = np.random.RandomState(0)
_X = _rng.normal(size=(400, 3))
_codes = np.digitize(_X[:, 0] + 0.3 * _rng.normal(size=400), [-0.5, 0.5])


def _local(loss):
    return LocalClassifier(n_neighbors=30, alpha=1.0, loss=loss).fit(_X, _codes)


def _gradients():
    _local("squared_hinge").decision_function_and_gradient(_X)


def _neighbors(dtype):
    search = NeighborSearch(algorithm="brute").fit(_X.astype(dtype))
    search.kneighbors(_X.astype(dtype))
    search.radius_neighbors(_X.astype(dtype), 0.5)


def _regressors():
    LocalRegressor(n_neighbors=30, alpha=1.0).fit(_X, _X[:, 0]).predict(_X)
    LocalRegressor(n_neighbors=30, alpha=0.0, degree=2).fit(_X, _X[:, 0]).predict(_X)


# In pairs of about equal length; an odd number of workers shares them less evenly.
STEPS = {
    "joint local classifiers": lambda: _local("log_loss").predict(_X),
    "gradients of local classifiers": lambda: _local(
        "squared_hinge"
    ).decision_function_and_gradient(_X),
    "local classifiers": lambda: _local("squared_hinge").predict(_X),
    "neighbours": lambda: _neighbors(np.float64),
    "neighbours, single precision": lambda: _neighbors(np.float32),
    "local regression": _regressors,
    "loess": lambda: LoessRegressor(span=0.3).fit(_X[:, :1], _X[:, 0]).predict(_X[:2, :1]),
    "principal surface": lambda: PrincipalSurface().fit(_X[:60]).transform(_X[:2]),
    "boosting": lambda: ObliviousBoostingRegressor(n_estimators=2, depth=2).fit(_X, _X[:, 0]),
    "pruned trees": lambda: PrunedTreeClassifier(cv=3).fit(_X, _codes),
    "gradient metric": lambda: GradientMetric().fit(_X, _X[:, 0]),
    "perceptron": lambda: AveragedPerceptron().fit(_X, _codes),
}
