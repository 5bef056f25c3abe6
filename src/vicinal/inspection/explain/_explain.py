"""Explain one prediction of any fitted model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier, is_regressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

from vicinal._base import as_numpy, is_frame
from vicinal._base._compat import neighbor_targets, num_samples, rows_of
from vicinal._base._explanation import (
    ExplanationSection,
    RowColumns,
    linear_sections,
    path_section,
    show,
    values_of,
)
from vicinal._base._tables import column_values, is_missing
from vicinal._base._wrappers import split_steps, split_threshold
from vicinal._conformal import StandardizedRows, Typicality
from vicinal.inspection.explain._columns import columns_behind, names_of, one_row
from vicinal.inspection.explain._contributions import column_section
from vicinal.inspection.explain._counterfactual import counterfactual_section
from vicinal.inspection.explain._explanation import Explanation
from vicinal.table import TableEncoder

# Columns up to which a model's own background rows are used: cost grows with the columns.
_MOST_COLUMNS = 100
# Rows with a smaller typicality than this are novel.
_UNUSUAL = 0.05
# Columns whose values are shown for training rows.
_VALUE_COLUMNS = 3


def explain(
    model: Any,
    X_row: Any,
    *,
    feature_names: Sequence[str] | None = None,
    background: Any = None,
    X_train: Any = None,
    immutable: Sequence[str] = (),
    target: Any = None,
) -> Explanation:
    """Explain the prediction of any fitted model for one row.

    Any model has contributions of the columns (Shapley values), a counterfactual and novelty.
    Models of this library add sections: the region and its coefficients (`vicinal.partition`),
    the neighbours with their weights and the local coefficients (`vicinal.local`), responsibilities
    and metric (`vicinal.uncertainty`), votes of the subspaces (`vicinal.subspace`), base models and
    their weights (`vicinal.ensemble`, `vicinal.auto`). Behind a pipeline the columns keep the names
    of the table.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one; behind scikit-learn's
        ``FixedThresholdClassifier`` or ``TunedThresholdClassifierCV`` prediction and counterfactual
        use the threshold.
    X_row : array-like, frame, series or mapping
        One row in the format of the training table.
    feature_names : sequence of str, default=None
        Names of the columns; ``None`` takes those of the frame or of the model.
    background : array-like or frame of shape (n_rows, n_features), default=None
        Rows like those of the training set, which contributions and counterfactual are computed
        from. Models of `vicinal.auto` have background rows of their own, up to 100 columns; with
        them the counterfactual is searched only if ``background``, ``immutable`` or ``target`` is
        given, because it takes seconds.
    X_train : array-like or frame of shape (n_samples, n_features), default=None
        The training table in its order: neighbours are shown with their values in the most
        important columns. It is the background if no other is given. Models of `vicinal.auto` store
        their rows and do not need it.
    immutable : sequence of str, default=()
        Columns that the counterfactual must not change.
    target : object, default=None
        Prediction that the counterfactual must have; ``None`` means any other class.

    Returns
    -------
    Explanation
        ``prediction``, ``probabilities`` (by class), ``row`` and ``sections``.
        ``explanation["columns"]`` is one section, with ``summary``, ``columns``, ``rows`` and
        ``values``. ``print`` shows all as text; ``text()``, ``to_dict()`` and ``to_html()`` return
        them, ``plot()`` shows one section as bars.

    See Also
    --------
    vicinal.report.write_html : Write the explanation as a page.

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
    if unknown := [name for name in immutable if name not in names]:
        raise ValueError(f"immutable names {unknown}, but the columns are {names}.")
    if target is not None and target not in getattr(model, "classes_", ()):
        known = np.asarray(getattr(model, "classes_", [])).tolist()
        raise ValueError(f"target={target!r} must be one of the classes of the model, {known}.")
    steps, last = split_steps(model)
    seen = table
    for step in steps:
        seen = step.transform(seen)
    columns = columns_behind(steps, table, names, seen)
    prediction, probabilities = _predicted(model, table)
    if hasattr(last, "explain_row"):
        sections = last.explain_row(seen, columns)
    else:
        sections = _sklearn_sections(last, seen, columns)
    novelty = _own_novelty_section(last, seen) if hasattr(last, "typicality") else None
    background = X_train if background is None else background
    searches = background is not None or len(immutable) > 0 or target is not None
    if background is None and not steps and table.shape[1] <= _MOST_COLUMNS:
        background = last.background(table) if hasattr(last, "background") else None
    if background is None and target is not None:
        raise ValueError(
            f"target={target!r} needs a counterfactual, which is searched among other rows; pass "
            "them as background or X_train."
        )
    if background is not None:
        row = model, table, names, prediction, background
        if np.ndim(prediction) == 0 and (is_classifier(model) or is_regressor(model)):
            sections.append(column_section(*row))
        if is_classifier(model) and searches:
            found = counterfactual_section(*row, immutable=immutable, target=target)
            sections += [] if found is None else [found]
        novelty = _novelty_of_background(table, background) if novelty is None else novelty
    sections += [] if novelty is None else [novelty]
    if X_train is not None or not steps:
        sections = [_with_row_values(section, X_train, names, sections) for section in sections]
    _, rule = split_threshold(model)
    return Explanation(
        type(last).__name__,
        prediction,
        probabilities,
        dict(zip(names, values_of(table), strict=True)),
        sections,
        None if rule is None else (model.classes_[rule.code], rule.value),
    )


def _predicted(model: Any, table: Any) -> tuple[Any, dict[Any, float] | None]:
    prediction = np.asarray(model.predict(table))[0]
    prediction = prediction.item() if isinstance(prediction, np.generic) else prediction
    if not is_classifier(model) or not hasattr(model, "predict_proba"):
        return prediction, None
    proba = np.asarray(model.predict_proba(table))[0]
    return prediction, dict(zip(model.classes_.tolist(), proba.tolist(), strict=True))


def _sklearn_sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
    """Return sections for a model of scikit-learn, from its public attributes."""
    if isinstance(model, BaseDecisionTree):
        return [path_section(model, X, columns)]
    if isinstance(model, KNeighborsClassifier | KNeighborsRegressor):
        return [_neighbors(model, X)]
    return linear_sections(model, X, columns) if hasattr(model, "coef_") else []


def _neighbors(model: Any, X: Any) -> ExplanationSection:
    """Return the neighbours of a nearest-neighbour model of scikit-learn."""
    distance, rows = (part[0] for part in model.kneighbors(X))
    target = neighbor_targets(model)[rows]
    table = [
        (int(row), value, float(away))
        for row, value, away in zip(rows, target.tolist(), distance, strict=True)
    ]
    summary = (
        f"The prediction averages {len(rows)} training rows, at distances from "
        f"{show(float(distance.min()))} to {show(float(distance.max()))}."
    )
    head = ("training row", "target", "distance")
    values = {"n_neighbors": len(rows)}
    return ExplanationSection("neighbors", "Neighbours", summary, head, table, None, values)


def _novelty_of_background(table: Any, background: Any) -> ExplanationSection:
    """Return the novelty of the row: its distance from other rows compared with theirs."""
    row, rows = table, background
    if not sparse.issparse(table) and (is_frame(table) or table.dtype.kind not in "iuf"):
        encoder = TableEncoder().fit(background)
        row, rows = encoder.transform(table), encoder.transform(background)
    share = float(Typicality(StandardizedRows(rows))(row)[0])
    return _novelty_section(share, f"{share:.0%} of {num_samples(background)} other rows")


def _own_novelty_section(model: Any, X: Any) -> ExplanationSection | None:
    """Return the novelty of the row, from a model that computes it from its training rows."""
    try:
        share = float(np.asarray(as_numpy(model.typicality(X)))[0])
    except ValueError:  # it stores no training rows
        return None
    return _novelty_section(share, f"{share:.0%} of the training rows")


def _novelty_section(share: float, who: str) -> ExplanationSection:
    summary = f"{who} are at least as far from their nearest rows as this row is: "
    summary += (
        "the row is novel, and its prediction is less reliable."
        if share < _UNUSUAL
        else "the row is typical."
    )
    return ExplanationSection("novelty", "Novelty", summary, values={"typicality": share})


def _with_row_values(
    section: ExplanationSection, X_train: Any, names: list[str], sections: list[ExplanationSection]
) -> ExplanationSection:
    """Add to a table of training rows their values in the columns that contribute most.

    Without their table (``X_train=None``) the values come from the model, if it stores the rows.
    """
    parts = [row for other in sections if other.key == "columns" for row in other.rows]
    chosen = [name for name, _, contribution in parts[:_VALUE_COLUMNS] if contribution != 0.0]
    if section.columns[:1] != ("training row",) or not chosen:
        return section
    if X_train is not None:
        rows = rows_of(X_train, np.array([row[0] for row in section.rows], dtype=int))
        cells = [column_values(rows, names.index(name)) for name in chosen]
    elif section.cells is not None:
        cells = [section.cells(name) for name in chosen]
    else:
        return section
    columns = [[_as_written(value) for value in column] for column in cells]
    table = [(*row[:2], *more, *row[2:]) for row, *more in zip(section.rows, *columns, strict=True)]
    heads = [name if name not in section.columns else f"{name} (value)" for name in chosen]
    # After the target, so that weights stay before their bars.
    head = (*section.columns[:2], *heads, *section.columns[2:])
    return replace(section, columns=head, rows=table)


def _as_written(value: Any) -> Any:
    """Return a value as in the table: an integer has no decimals."""
    value = value.item() if isinstance(value, np.generic) else value
    if is_missing(value):
        return None
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= 1e15
    return int(value) if is_whole else value
