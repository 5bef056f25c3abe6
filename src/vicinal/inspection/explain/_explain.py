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
from vicinal.inspection.explain._counterfactual import surface_section
from vicinal.inspection.explain._explanation import Explanation
from vicinal.table import TableEncoder

# Columns up to which a model's own rows are compared with: every column asks for more answers.
_MOST_COLUMNS = 100
# Rows that fewer than this share of the others are as far away as are unusual.
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
    """Explain what a fitted model says about one row.

    Each family gives its own reasons: the way through the gates and the coefficients of the region
    (`vicinal.partition`), the neighbours with their weights and the local coefficients
    (`vicinal.local`), responsibilities and metric (`vicinal.uncertainty`), votes of the subspaces
    (`vicinal.subspace`), members and their weights (`vicinal.ensemble`). Behind a pipeline the
    columns keep the names of the table.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one; behind scikit-learn's
        ``FixedThresholdClassifier`` or ``TunedThresholdClassifierCV`` the answer, and the least
        change of it, follow the threshold.
    X_row : array-like, frame, series or mapping
        One row, as the model takes it.
    feature_names : sequence of str, default=None
        Names of the columns; ``None`` takes those of the frame or of the model.
    background : array-like or frame of shape (n_rows, n_features), default=None
        Rows like those of the training set, for reasons that compare with other rows: what each
        column contributes, and the least change that gets another answer. Mixtures of
        `vicinal.auto` compare columns with rows of their own, up to 100 columns; the least change,
        which takes seconds, is searched where a background, ``immutable`` or ``target`` is given.
    X_train : array-like or frame of shape (n_samples, n_features), default=None
        The table that the model was fitted to, in its order: training rows that speak are shown
        with their values in the columns that matter most. It is the background if there is no
        other. Mixtures of `vicinal.auto` know their rows and need no table for these values.
    immutable : sequence of str, default=()
        Columns that the least change leaves as they are.
    target : object, default=None
        Answer that the least change shall get; ``None`` means any other.

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
    support = _own_support_section(last, seen) if hasattr(last, "support") else None
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
            found = surface_section(*row, immutable=immutable, target=target)
            sections += [] if found is None else [found]
        support = _support_section(table, background) if support is None else support
    sections += [] if support is None else [support]
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
    """Return the reasons of a model that offers none, from what scikit-learn makes public."""
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
        f"{len(rows)} training rows speak for this one, the nearest {show(float(distance.min()))} "
        f"away, the farthest {show(float(distance.max()))}."
    )
    head = ("training row", "target", "distance")
    values = {"n_neighbors": len(rows)}
    return ExplanationSection("neighbors", "Neighbours", summary, head, table, None, values)


def _support_section(table: Any, background: Any) -> ExplanationSection:
    """Return how usual the row is among others, by how far it stands from them."""
    row, rows = table, background
    if not sparse.issparse(table) and (is_frame(table) or table.dtype.kind not in "iuf"):
        encoder = TableEncoder().fit(background)
        row, rows = encoder.transform(table), encoder.transform(background)
    share = float(Typicality(StandardizedRows(rows))(row)[0])
    return _novelty_section(share, f"{share:.0%} of {num_samples(background)} other rows")


def _own_support_section(model: Any, X: Any) -> ExplanationSection | None:
    """Return how usual the row is among the training rows of a model that knows it."""
    try:
        share = float(np.asarray(as_numpy(model.support(X)))[0])
    except ValueError:  # its training rows were not kept
        return None
    return _novelty_section(share, f"{share:.0%} of the training rows")


def _novelty_section(share: float, who: str) -> ExplanationSection:
    summary = f"{who} are at least as far from their nearest rows as this row is: "
    summary += (
        "it is unlike most of them, and the answer has little to stand on."
        if share < _UNUSUAL
        else "rows like it were seen."
    )
    return ExplanationSection("support", "Support", summary, values={"support": share})


def _with_row_values(
    section: ExplanationSection, X_train: Any, names: list[str], sections: list[ExplanationSection]
) -> ExplanationSection:
    """Add to a table of training rows what they hold in the columns that contribute most.

    Without their table (``X_train=None``) the model is asked, if it kept the rows.
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
    # Behind the target, so that weights stay before their bars.
    head = (*section.columns[:2], *heads, *section.columns[2:])
    return replace(section, columns=head, rows=table)


def _as_written(value: Any) -> Any:
    """Return a value as it stood in the table: a whole number has no decimals."""
    value = value.item() if isinstance(value, np.generic) else value
    if is_missing(value):
        return None
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= 1e15
    return int(value) if is_whole else value
