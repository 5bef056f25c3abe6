"""Ensembles of any learner: boosting, averaging, bootstrap, and cross-validated trees."""

from vicinal.ensemble._bayesian_model_averaging_classifier import BayesianModelAveragingClassifier
from vicinal.ensemble._bayesian_model_averaging_regressor import BayesianModelAveragingRegressor
from vicinal.ensemble._bootstrap_ensemble import (
    BootstrapEnsembleClassifier,
    BootstrapEnsembleRegressor,
)
from vicinal.ensemble._functional_gradient_boosting_classifier import (
    FunctionalGradientBoostingClassifier,
)
from vicinal.ensemble._functional_gradient_boosting_regressor import (
    FunctionalGradientBoostingRegressor,
)
from vicinal.ensemble._pruned_tree import PrunedTreeClassifier, PrunedTreeRegressor
from vicinal.ensemble._real_adaboost_classifier import RealAdaBoostClassifier

__all__ = [
    "BayesianModelAveragingClassifier",
    "BayesianModelAveragingRegressor",
    "BootstrapEnsembleClassifier",
    "BootstrapEnsembleRegressor",
    "FunctionalGradientBoostingClassifier",
    "FunctionalGradientBoostingRegressor",
    "PrunedTreeClassifier",
    "PrunedTreeRegressor",
    "RealAdaBoostClassifier",
]
