"""Explain one prediction of any fitted model."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier, is_regressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

from vicinal._base import as_numpy, counted, is_frame
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
from vicinal._base._unseen import as_novel, report_unseen, unreported
from vicinal._base._wrappers import split_steps, split_threshold, unseen_rule, unseen_values
from vicinal._conformal import StandardizedRows, Typicality
from vicinal.inspection.explain._columns import as_table, columns_behind, names_of
from vicinal.inspection.explain._contributions import column_section
from vicinal.inspection.explain._counterfactual import Constraints, counterfactual_section
from vicinal.inspection.explain._explanation import Explanation
from vicinal.inspection.explain._explanations import Explanations
from vicinal.table import TableEncoder

# Columns up to which a model's own background rows are used: cost grows with the columns.
_MOST_COLUMNS = 100
# Rows with a smaller typicality than this are novel.
_UNUSUAL = 0.05
# Training rows that the chart of similar rows counts.
_NEAREST = 12
# Targets that its text names.
_SHOWN_LABELS = 4
# Columns whose values are shown for training rows.
_VALUE_COLUMNS = 3


def explain(
    model: Any,
    X: Any,
    *,
    feature_names: Sequence[str] | None = None,
    target_name: str | None = None,
    background: Any = None,
    X_train: Any = None,
    coverage: float = 0.9,
    target: Any = None,
    fixed: Sequence[str] = (),
    increase: Sequence[str] = (),
    decrease: Sequence[str] = (),
    ranges: Mapping[str, tuple[float | None, float | None]] | None = None,
    categories: Mapping[str, Sequence[Any]] | None = None,
    costs: Mapping[str, float] | None = None,
    n_counterfactuals: int = 1,
) -> Any:
    """Explain the predictions of any fitted model.

    For one row: the prediction with its interval or label set, contributions of the columns
    (Shapley values), similar training rows, a counterfactual and novelty. Models of this library
    add sections: the region and its coefficients (`vicinal.partition`), local coefficients
    (`vicinal.local`), responsibilities and metric (`vicinal.uncertainty`), votes of the subspaces
    (`vicinal.subspace`), base models and their weights (`vicinal.ensemble`, `vicinal.auto`). Behind
    a pipeline the columns keep the names of the table. For several rows: contributions of the
    columns.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one; behind scikit-learn's
        ``FixedThresholdClassifier`` or ``TunedThresholdClassifierCV`` prediction and counterfactual
        use the threshold.
    X : array-like, frame, series or mapping
        One row or several rows in the format of the training table.
    feature_names : sequence of str, default=None
        Names of the columns; ``None`` takes those of the frame or of the model.
    target_name : str, default=None
        Name of the target, for texts and plots.
    background : array-like or frame of shape (n_rows, n_features), default=None
        Rows like those of the training set, which contributions and counterfactual are computed
        from. Models of `vicinal.auto` have background rows of their own, up to 100 columns; with
        them the counterfactual is searched only if ``background`` or an option of counterfactuals
        is given.
    X_train : array-like or frame of shape (n_samples, n_features), default=None
        The training table in its order: neighbours are shown with their values in the most
        important columns. It is the background if no other is given. Models of `vicinal.auto` store
        their rows and do not need it.
    coverage : float, default=0.9
        Probability that the prediction interval or set contains the true value; models that store
        held-out predictions have one.
    target : object, default=None
        Prediction that the counterfactual must have: a class, where ``None`` means any other one;
        for regression a pair (low, high) with ``None`` for an open end, such as ``(4000, None)``
        for at least 4000. A regressor has no counterfactual without it.
    fixed, increase, decrease : sequence of str, default=()
        Columns that the counterfactual must not change, may only increase, or may only decrease.
    ranges : mapping of str to (low, high), default=None
        Limits of numbers that the counterfactual changes, ``None`` for an open end; the default is
        the range of the background.
    categories : mapping of str to sequence, default=None
        Values of a column that the counterfactual may use; the default is the categories of the
        background, without missing ones.
    costs : mapping of str to float, default=None
        Factors of the changes of columns in the distance: a change of a column with cost 3 counts
        three times. The default is 1.
    n_counterfactuals : int, default=1
        Largest number of counterfactuals; alternatives change other columns.

    Returns
    -------
    Explanation or Explanations
        Of one row: ``prediction``, ``probabilities`` (by class), ``interval`` or ``labels``,
        ``row`` and ``sections``. ``explanation["columns"]`` is one section, with ``summary``,
        ``columns``, ``rows`` and ``values``. ``print`` shows all as text; ``text()``,
        ``to_dict()`` and ``to_html()`` return them; ``plot()`` shows the columns as a waterfall.

        Of several rows: ``all_values`` and ``all_baselines``, ``to_frame()``, ``to_shap()``,
        ``plot.waterfall(row)``, ``plot.beeswarm()``, ``plot.importance()`` and
        ``plot.dependence(column)``; ``explanations[i]`` is the explanation of one row.

    See Also
    --------
    vicinal.report.write_html : Write the explanation of a row as a page.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from vicinal import SpacePartitioningClassifier
    >>> from vicinal.inspection import explain
    >>> data = load_breast_cancer(as_frame=True)
    >>> model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0)
    >>> model = model.fit(data.data, data.target_names[data.target])
    >>> explanation = explain(model, data.data[:1], background=data.data, target_name="tumour")
    >>> [section.key for section in explanation.sections]
    ['columns', 'counterfactual', 'novelty', 'region', 'coefficients']
    >>> explain(model, data.data[:5], background=data.data).to_frame().shape
    (150, 7)
    """
    check_is_fitted(model)
    if not hasattr(model, "predict"):
        raise ValueError(
            f"{type(model).__name__} has no predict, so there is no prediction to explain; pass a "
            "classifier or regressor, or a pipeline that ends in one."
        )
    table = as_table(X, model)
    names = names_of(table, feature_names, model)
    limits = ranges or {}, categories or {}, costs or {}
    given = Constraints(target, fixed, increase, decrease, *limits, n_counterfactuals)
    given.check(model, names)
    options: dict[str, Any] = {"target_name": target_name, "coverage": coverage}
    report_unseen(lambda: unseen_values(model, table), unseen_rule(model))
    if num_samples(table) == 1:
        return _explanation(model, table, names, background, X_train, given, **options)
    rows = _background_of(model, table, background, X_train)
    if rows is None:
        raise ValueError(
            f"explain of {num_samples(table)} rows needs background: pass rows like those of the "
            "training set."
        )

    def explain_row(i: int) -> Explanation:
        row = rows_of(table, slice(i, i + 1))
        return _explanation(model, row, names, rows, X_train, given, **options)

    with unreported():
        return Explanations(model, table, names, rows, target_name, explain_row)


def _background_of(model: Any, table: Any, background: Any, X_train: Any) -> Any:
    """Return the background that was given, or that of the model; ``None`` without one."""
    if background is not None or X_train is not None:
        return X_train if background is None else background
    steps, last = split_steps(model)
    if steps or table.shape[1] > _MOST_COLUMNS or not hasattr(last, "background"):
        return None
    return last.background(table)


@unreported()
def _explanation(
    model: Any,
    table: Any,
    names: list[str],
    background: Any,
    X_train: Any,
    given: Constraints,
    *,
    target_name: str | None,
    coverage: float,
) -> Explanation:
    """Explain one row."""
    steps, last = split_steps(model)
    seen = table
    for step in steps:
        seen = step.transform(seen)
    columns = columns_behind(steps, table, names, seen)
    prediction, probabilities = _predicted(model, table)
    _, rule = split_threshold(model)
    columns.label = None if rule is None else prediction
    if hasattr(last, "explain_row"):
        sections = last.explain_row(seen, columns)
    else:
        sections = _sklearn_sections(last, seen, columns)
    searches = background is not None or X_train is not None or given.is_given
    background = _background_of(model, table, background, X_train)
    if background is None and given.target is not None:
        raise ValueError(
            f"target={given.target!r} needs a counterfactual, which is searched among other rows; "
            "pass them as background or X_train."
        )
    has_one_output = np.ndim(prediction) == 0 and (is_classifier(model) or is_regressor(model))
    if background is not None and has_one_output:
        row = model, table, names, prediction, background
        sections.append(column_section(*row))
        if searches and (is_classifier(model) or given.target is not None):
            found = counterfactual_section(*row, given)
            sections += [] if found is None else [found]
    sections += _novelty_sections(last, seen, table, unseen_values(model, table), background)
    if X_train is not None or not steps:
        sections = [_with_row_values(section, X_train, names, sections) for section in sections]
    return Explanation(
        type(last).__name__,
        prediction,
        probabilities,
        dict(zip(names, values_of(table), strict=True)),
        [_with_target_counts(section, target_name) for section in sections],
        None if rule is None else (model.classes_[rule.code], rule.value),
        target_name=target_name,
        coverage=coverage,
        **_limits(last, seen, coverage),
    )


def _limits(model: Any, X: Any, coverage: float) -> dict[str, Any]:
    """Return the prediction interval or set of a model that stores held-out predictions."""
    if not hasattr(model, "held_out_"):
        return {}
    try:
        # An unbounded interval is not shown.
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            if hasattr(model, "classes_"):
                is_in = np.asarray(as_numpy(model.predict_set(X, coverage=coverage)), dtype=bool)[0]
                return {"labels": np.asarray(model.classes_)[is_in].tolist()}
            limits = np.asarray(as_numpy(model.predict_interval(X, coverage=coverage)))[0]
    except (ValueError, TypeError):  # its training rows are not stored
        return {}
    has_several_targets = limits.ndim > 1
    if has_several_targets or not np.isfinite(limits).all():
        return {}
    return {"interval": tuple(map(float, limits))}


def _with_target_counts(section: ExplanationSection, name: str | None) -> ExplanationSection:
    """Add to similar training rows how many of them have which target."""
    if section.key != "neighbors" or "target" not in section.columns or not section.rows:
        return section
    at = section.columns.index("target")
    targets = [row[at] for row in section.rows[:_NEAREST]]
    n, name = len(targets), name or "target"
    values: dict[str, Any] = {"nearest": n}
    if all(isinstance(value, float | np.floating) for value in targets):
        low, mean, high = map(show, (min(targets), float(np.mean(targets)), max(targets)))
        values |= {"targets": [float(value) for value in targets]}
        text = f"The {n} most similar training rows have {name} {low} to {high}, mean {mean}."
    else:
        labels, counts = zip(*Counter(targets).most_common(), strict=True)
        values |= {"target_counts": dict(zip(labels, counts, strict=True))}
        text = f"{counts[0]} of the {n} most similar training rows have {name} {show(labels[0])}"
        text = text if labels[1:] else f"All {text.partition(' of the ')[2]}"
        for label, count in list(zip(labels, counts, strict=True))[1:_SHOWN_LABELS]:
            text += f", {count} {'has' if count == 1 else 'have'} {show(label)}"
        rest = sum(counts[_SHOWN_LABELS:])
        text += f", {rest} {'has another' if rest == 1 else 'have others'}." if rest else "."
    return replace(section, summary=f"{text} {section.summary}", values=section.values | values)


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
    table = list(zip(rows.tolist(), target.tolist(), distance.tolist(), strict=True))
    nearest, farthest = show(float(distance.min())), show(float(distance.max()))
    summary = (
        f"The prediction averages {counted(len(rows), 'training row')}, at distances from "
        f"{nearest} to {farthest}."
    )
    head = ("training row", "target", "distance")
    values = {"n_neighbors": len(rows)}
    return ExplanationSection("neighbors", "Neighbours", summary, head, table, None, values)


def _novelty_sections(
    model: Any, seen: Any, table: Any, unseen: Any, background: Any
) -> list[ExplanationSection]:
    """Return the novelty of the row: its distance from other rows compared with theirs.

    It is computed by the model, from its training rows, or else from the background.
    """
    share, who = None, "the training rows"
    if hasattr(model, "typicality"):
        with suppress(ValueError):  # it stores no training rows
            share = as_novel(np.asarray(as_numpy(model.typicality(seen))), unseen)
    if share is None and background is None:
        return []
    if share is None:
        row, rows, unseen = table, background, []
        if not sparse.issparse(table) and (is_frame(table) or table.dtype.kind not in "iuf"):
            encoder = TableEncoder().fit(background)
            row, rows = encoder.transform(table), encoder.transform(background)
            unseen = encoder.unseen_values(table)
        share = as_novel(Typicality(StandardizedRows(rows))(row), unseen)
        who = f"{num_samples(background)} other rows"
    typicality = float(share[0])
    found = "the row is typical."
    if typicality < _UNUSUAL:
        found = "the row is novel, and its prediction is less reliable."
    summary = (
        f"{typicality:.0%} of {who} are at least as far from their nearest rows as this row is: "
        f"{found}"
    )
    values = {"typicality": typicality}
    return [ExplanationSection("novelty", "Novelty", summary, values=values)]


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
