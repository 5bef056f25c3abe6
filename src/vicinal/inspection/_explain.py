"""Explain one prediction of any fitted model."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

from vicinal.ensemble import (
    BayesianModelAveragingClassifier,
    BayesianModelAveragingRegressor,
    BootstrapEnsembleClassifier,
    BootstrapEnsembleRegressor,
    FunctionalGradientBoostingClassifier,
    FunctionalGradientBoostingRegressor,
    PrunedTreeClassifier,
    PrunedTreeRegressor,
    RealAdaBoostClassifier,
)
from vicinal.inspection._columns import Columns, columns_behind, names_of, one_row, values_of
from vicinal.inspection._explain_ensemble import (
    explain_adaboost,
    explain_averaging,
    explain_boosting,
    explain_bootstrap,
    explain_pruned_tree,
    explain_tree,
)
from vicinal.inspection._explain_local import explain_local
from vicinal.inspection._explain_other import borrowed_columns, explain_linear, explain_nearest
from vicinal.inspection._explain_partition import explain_cascade, explain_surrogate
from vicinal.inspection._explain_subspace import (
    explain_clusters,
    explain_fusion,
    explain_truncated,
)
from vicinal.inspection._explain_surface import surface_section
from vicinal.inspection._explain_uncertainty import explain_adaptive, explain_mixture
from vicinal.inspection._explanation import Explanation, ExplanationSection
from vicinal.local import (
    LocalClassifier,
    LocalRegressor,
    LoessRegressor,
    NadarayaWatsonRegressor,
)
from vicinal.partition import (
    SpacePartitioningClassifier,
    SpacePartitioningRegressor,
    SurrogatePartitionClassifier,
)
from vicinal.subspace import (
    DivideConquerSVC,
    SubspaceFusionClassifier,
    SubspaceFusionRegressor,
    TruncatedRBFClassifier,
    TruncatedRBFRegressor,
)
from vicinal.uncertainty import LocallyAdaptiveClassifier, ResponsibilityMixture

# Who explains which model: a function of the model, the row as the model sees it, and its columns.
_EXPLAINERS: list[tuple[tuple[type, ...], Callable[..., list[ExplanationSection]]]] = [
    ((SpacePartitioningClassifier, SpacePartitioningRegressor), explain_cascade),
    ((SurrogatePartitionClassifier,), explain_surrogate),
    ((LocalClassifier, LocalRegressor, LoessRegressor, NadarayaWatsonRegressor), explain_local),
    ((LocallyAdaptiveClassifier,), explain_adaptive),
    ((ResponsibilityMixture,), explain_mixture),
    ((SubspaceFusionClassifier, SubspaceFusionRegressor), explain_fusion),
    ((DivideConquerSVC,), explain_clusters),
    ((TruncatedRBFClassifier, TruncatedRBFRegressor), explain_truncated),
    ((BayesianModelAveragingClassifier, BayesianModelAveragingRegressor), explain_averaging),
    (
        (FunctionalGradientBoostingClassifier, FunctionalGradientBoostingRegressor),
        explain_boosting,
    ),
    ((RealAdaBoostClassifier,), explain_adaboost),
    ((BootstrapEnsembleClassifier, BootstrapEnsembleRegressor), explain_bootstrap),
    ((PrunedTreeClassifier, PrunedTreeRegressor), explain_pruned_tree),
    ((BaseDecisionTree,), explain_tree),
    ((KNeighborsClassifier, KNeighborsRegressor), explain_nearest),
]


def explain(
    model: Any,
    X_row: Any,
    *,
    feature_names: Sequence[str] | None = None,
    background: Any = None,
) -> Explanation:
    """Explain what a fitted model says about one row.

    Each family gives its own reasons: the way through the gates and the coefficients of the region
    (`vicinal.partition`), the neighbours with their weights and the local coefficients
    (`vicinal.local`), responsibilities and metric (`vicinal.uncertainty`), votes of the subspaces
    (`vicinal.subspace`), members and their weights (`vicinal.ensemble`). Behind a pipeline the
    columns keep the names of the table.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one.
    X_row : array-like, frame, series or mapping
        One row, as the model takes it.
    feature_names : sequence of str, default=None
        Names of the columns; ``None`` takes those of the frame or of the model.
    background : array-like or frame of shape (n_rows, n_features), default=None
        Rows like those of the training set, for reasons that compare with other rows.

    Returns
    -------
    explanation : Explanation
        With the forms ``text()``, ``to_dict()``, ``to_html()`` and ``plot()``.

    See Also
    --------
    Explanation : What comes back.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from vicinal import SpacePartitioningClassifier
    >>> from vicinal.inspection import explain
    >>> data = load_breast_cancer()
    >>> names = data.target_names[data.target]
    >>> model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0)
    >>> explanation = explain(
    ...     model.fit(data.data, names), data.data[0], feature_names=data.feature_names
    ... )
    >>> explanation["region"].values["n_regions"]
    2
    >>> explanation["coefficients"].columns
    ('column', 'value', 'coefficient', 'contribution')
    """
    check_is_fitted(model)
    if not hasattr(model, "predict"):
        raise ValueError(
            f"{type(model).__name__} has no predict, so there is no prediction to explain; pass a "
            "classifier or regressor, or a pipeline that ends in one."
        )
    table = one_row(X_row, model)
    names = names_of(table, feature_names, model)
    steps, last = _unwrapped(model)
    seen = table
    for step in steps:
        seen = step.transform(seen)
    columns = columns_behind(steps, table, names, seen)
    prediction, probabilities = _answer(model, table)
    sections = _sections(last, seen, columns)
    if background is not None:
        sections += _sections_beside(model, table, names, prediction, background)
    return Explanation(
        type(last).__name__,
        prediction,
        probabilities,
        dict(zip(names, values_of(table), strict=True)),
        sections,
    )


def _sections_beside(
    model: Any, table: Any, names: list[str], prediction: Any, background: Any
) -> list[ExplanationSection]:
    """Return the reasons that come from a comparison with other rows."""
    found = []
    if is_classifier(model):
        found.append(surface_section(model, table, names, prediction, background))
    if is_classifier(model) or is_regressor(model):
        found.append(borrowed_columns(model, table, names, prediction, background))
    return [section for section in found if section is not None]


def _unwrapped(model: Any) -> tuple[list[Any], Any]:
    """Return the transformers before the model that speaks, and that model."""
    if isinstance(model, Pipeline):
        before = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
        inner, last = _unwrapped(model.steps[-1][1])
        return [*before, *inner], last
    if hasattr(model, "best_estimator_"):
        return _unwrapped(model.best_estimator_)
    return [], model


def _answer(model: Any, table: Any) -> tuple[Any, dict[Any, float] | None]:
    prediction = np.asarray(model.predict(table))[0]
    prediction = prediction.item() if isinstance(prediction, np.generic) else prediction
    if not is_classifier(model) or not hasattr(model, "predict_proba"):
        return prediction, None
    proba = np.asarray(model.predict_proba(table))[0]
    return prediction, dict(zip(model.classes_.tolist(), proba.tolist(), strict=True))


def _sections(model: Any, X: Any, columns: Columns) -> list[ExplanationSection]:
    if not hasattr(X, "toarray") and not hasattr(X, "columns"):
        X = np.asarray(X, dtype=float)
    for types, explainer in _EXPLAINERS:
        if isinstance(model, types):
            return explainer(model, X, columns)
    return explain_linear(model, X, columns) if hasattr(model, "coef_") else []
