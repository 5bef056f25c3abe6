"""The models that `compare` ranks where none are named: baselines and local models."""

from importlib.util import find_spec
from typing import Any

from sklearn import ensemble, neighbors
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vicinal


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
    seed = {"random_state": random_state}
    if task == "classification":
        return {
            "most frequent class": DummyClassifier(),
            "logistic regression": _scaled(LogisticRegression(max_iter=1000)),
            "k nearest neighbours": _scaled(neighbors.KNeighborsClassifier()),
            "random forest": ensemble.RandomForestClassifier(n_jobs=-1, **seed),
            "histogram boosting": ensemble.HistGradientBoostingClassifier(**seed),
            **_lightgbm("LGBMClassifier", seed),
            # The first of this library, because it plans its own time.
            "AutoClassifier": vicinal.AutoClassifier(**seed),
            "LocalClassifier": vicinal.LocalClassifier(**seed),
            "SpacePartitioningClassifier": vicinal.SpacePartitioningClassifier(**seed),
            "LocallyAdaptiveClassifier": vicinal.LocallyAdaptiveClassifier(**seed),
            "DivideConquerSVC": _scaled(vicinal.DivideConquerSVC(**seed)),
            "RealAdaBoostClassifier": vicinal.RealAdaBoostClassifier(**seed),
            "PrunedTreeClassifier": vicinal.PrunedTreeClassifier(**seed),
        }
    if task == "regression":
        return {
            "mean": DummyRegressor(),
            "ridge": _scaled(RidgeCV()),
            "k nearest neighbours": _scaled(neighbors.KNeighborsRegressor()),
            "random forest": ensemble.RandomForestRegressor(n_jobs=-1, **seed),
            "histogram boosting": ensemble.HistGradientBoostingRegressor(**seed),
            **_lightgbm("LGBMRegressor", seed),
            "AutoRegressor": vicinal.AutoRegressor(**seed),
            "LocalRegressor": vicinal.LocalRegressor(**seed),
            "SpacePartitioningRegressor": vicinal.SpacePartitioningRegressor(**seed),
            "FunctionalGradientBoostingRegressor": vicinal.FunctionalGradientBoostingRegressor(
                **seed
            ),
            "TruncatedRBFRegressor": _scaled(vicinal.TruncatedRBFRegressor()),
            "PrunedTreeRegressor": vicinal.PrunedTreeRegressor(**seed),
        }
    raise ValueError(f"task={task!r} is unknown; choose 'classification' or 'regression'.")


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


def _lightgbm(name: str, seed: dict[str, Any]) -> dict[str, Any]:
    if find_spec("lightgbm") is None:
        return {}
    import lightgbm

    return {"LightGBM": getattr(lightgbm, name)(verbosity=-1, **seed)}
