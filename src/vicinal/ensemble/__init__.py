"""Ensembles of any learner: boosting, averaging, bootstrap, and cross-validated trees."""

from vicinal.ensemble._bayesian_model_averaging import (
    BayesianModelAveragingClassifier,
    BayesianModelAveragingRegressor,
)
from vicinal.ensemble._bootstrap_ensemble import (
    BootstrapEnsembleClassifier,
    BootstrapEnsembleRegressor,
)
from vicinal.ensemble._functional_gradient_boosting import (
    FunctionalGradientBoostingClassifier,
    FunctionalGradientBoostingRegressor,
)
from vicinal.ensemble._oblivious import ObliviousBoostingClassifier, ObliviousBoostingRegressor
from vicinal.ensemble._pruned_tree import PrunedTreeClassifier, PrunedTreeRegressor
from vicinal.ensemble._real_adaboost_classifier import RealAdaBoostClassifier

__all__ = [
    "BayesianModelAveragingClassifier",
    "BayesianModelAveragingRegressor",
    "BootstrapEnsembleClassifier",
    "BootstrapEnsembleRegressor",
    "FunctionalGradientBoostingClassifier",
    "FunctionalGradientBoostingRegressor",
    "ObliviousBoostingClassifier",
    "ObliviousBoostingRegressor",
    "PrunedTreeClassifier",
    "PrunedTreeRegressor",
    "RealAdaBoostClassifier",
]
