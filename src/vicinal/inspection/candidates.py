"""The models that `compare` ranks where none are named: baselines and local models."""

from importlib.util import find_spec
from typing import Any

from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.ensemble import (
    FunctionalGradientBoostingRegressor,
    PrunedTreeClassifier,
    PrunedTreeRegressor,
    RealAdaBoostClassifier,
)
from vicinal.local import LocalClassifier, LocalRegressor
from vicinal.partition import SpacePartitioningClassifier, SpacePartitioningRegressor
from vicinal.subspace import DivideConquerSVC, TruncatedRBFRegressor
from vicinal.uncertainty import LocallyAdaptiveClassifier


def candidate_models(task: str, *, random_state: Any = 0) -> dict[str, Any]:
    """Return named, unfitted models for a task: baselines, AutoClassifier or AutoRegressor, others.

    The baselines are a constant, a linear model, nearest neighbours, a random forest, histogram
    boosting, and LightGBM where it is installed.

    Parameters
    ----------
    task : {"classification", "regression"}
        What the target is.
    random_state : int, default=0
        Seed of every model that uses random numbers.

    Returns
    -------
    dict of str to estimator
        In the order in which they should be fitted, quick ones first.

    Examples
    --------
    >>> from vicinal.inspection.candidates import candidate_models
    >>> "random forest" in candidate_models("regression")
    True
    """
    if task == "classification":
        return {**_classification_baselines(random_state), **_local_classifiers(random_state)}
    if task == "regression":
        return {**_regression_baselines(random_state), **_local_regressors(random_state)}
    raise ValueError(f"task={task!r} is unknown; choose 'classification' or 'regression'.")


def _classification_baselines(seed):
    return {
        "most frequent class": DummyClassifier(),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "k nearest neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier()),
        "random forest": RandomForestClassifier(n_jobs=-1, random_state=seed),
        "histogram boosting": HistGradientBoostingClassifier(random_state=seed),
        **_lightgbm("LGBMClassifier", seed),
    }


def _regression_baselines(seed):
    return {
        "mean": DummyRegressor(),
        "ridge": make_pipeline(StandardScaler(), RidgeCV()),
        "k nearest neighbours": make_pipeline(StandardScaler(), KNeighborsRegressor()),
        "random forest": RandomForestRegressor(n_jobs=-1, random_state=seed),
        "histogram boosting": HistGradientBoostingRegressor(random_state=seed),
        **_lightgbm("LGBMRegressor", seed),
    }


def _lightgbm(name, seed):
    if find_spec("lightgbm") is None:
        return {}
    import lightgbm

    return {"LightGBM": getattr(lightgbm, name)(random_state=seed, verbosity=-1)}


def _local_classifiers(seed):
    return {
        # First, because it plans its own time.
        "AutoClassifier": AutoClassifier(random_state=seed),
        "LocalClassifier": LocalClassifier(random_state=seed),
        "SpacePartitioningClassifier": SpacePartitioningClassifier(random_state=seed),
        "LocallyAdaptiveClassifier": LocallyAdaptiveClassifier(random_state=seed),
        "DivideConquerSVC": make_pipeline(StandardScaler(), DivideConquerSVC(random_state=seed)),
        "RealAdaBoostClassifier": RealAdaBoostClassifier(random_state=seed),
        "PrunedTreeClassifier": PrunedTreeClassifier(random_state=seed),
    }


def _local_regressors(seed):
    return {
        "AutoRegressor": AutoRegressor(random_state=seed),
        "LocalRegressor": LocalRegressor(random_state=seed),
        "SpacePartitioningRegressor": SpacePartitioningRegressor(random_state=seed),
        "FunctionalGradientBoostingRegressor": FunctionalGradientBoostingRegressor(
            random_state=seed
        ),
        "TruncatedRBFRegressor": make_pipeline(StandardScaler(), TruncatedRBFRegressor()),
        "PrunedTreeRegressor": PrunedTreeRegressor(random_state=seed),
    }
