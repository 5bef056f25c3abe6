"""Explain one prediction of any fitted model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier, is_regressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

from vicinal._base import as_numpy
from vicinal._base._compat import neighbor_targets, num_samples, rows_of
from vicinal._base._explanation import (
    ExplanationSection,
    RowColumns,
    linear_sections,
    path_section,
    show,
    values_of,
)
from vicinal._base._thresholds import split_threshold
from vicinal._rows import Place, Support
from vicinal.inspection.explain._columns import columns_behind, names_of, one_row
from vicinal.inspection.explain._contributions import column_section
from vicinal.inspection.explain._counterfactual import surface_section
from vicinal.inspection.explain._explanation import Explanation
from vicinal.table import TableEncoder

# Columns up to which a model's own rows are compared with: every column asks for more answers.
_MOST_COLUMNS = 100


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
    steps, last = _unwrapped(model)
    seen = table
    for step in steps:
        seen = step.transform(seen)
    columns = columns_behind(steps, table, names, seen)
    prediction, probabilities = _answer(model, table)
    sections = _sections(last, seen, columns)
    support = own_support_section(last, seen) if hasattr(last, "support") else None
    _check_change(model, names, immutable, target)
    background = X_train if background is None else background
    change = {"immutable": immutable, "target": target}
    changes = background is not None or len(immutable) > 0 or target is not None
    if background is None and not steps and table.shape[1] <= _MOST_COLUMNS:
        background = _own_background(last, table)
    if background is not None:
        sections += _sections_beside(
            model, table, names, prediction, background, change if changes else None
        )
        support = support_section(table, background) if support is None else support
    sections += [] if support is None else [support]
    if X_train is not None or not steps:
        sections = [with_row_values(section, X_train, names, sections) for section in sections]
    return Explanation(
        type(last).__name__,
        prediction,
        probabilities,
        dict(zip(names, values_of(table), strict=True)),
        sections,
        _threshold(model),
    )


def _own_background(model: Any, table: Any) -> Any:
    return model.background(table) if hasattr(model, "background") else None


def _threshold(model: Any) -> tuple[Any, float] | None:
    _, rule = split_threshold(model)
    return None if rule is None else (model.classes_[rule.code], rule.value)


def _sections_beside(
    model: Any, table: Any, names: list[str], prediction: Any, background: Any, change: dict | None
) -> list[ExplanationSection]:
    """Return the reasons that come from a comparison with other rows.

    ``change`` says what the least change must keep to; ``None`` leaves it out.
    """
    found: list[ExplanationSection | None] = []
    has_one_answer = np.ndim(prediction) == 0
    if has_one_answer and (is_classifier(model) or is_regressor(model)):
        found.append(column_section(model, table, names, prediction, background))
    if is_classifier(model) and change is not None:
        found.append(surface_section(model, table, names, prediction, background, **change))
    return [section for section in found if section is not None]


def _check_change(model: Any, names: list[str], immutable: Sequence[str], target: Any) -> None:
    unknown = [name for name in immutable if name not in names]
    if unknown:
        raise ValueError(f"immutable names {unknown}, but the columns are {names}.")
    if target is not None and target not in getattr(model, "classes_", ()):
        known = np.asarray(getattr(model, "classes_", [])).tolist()
        raise ValueError(f"target={target!r} must be one of the classes of the model, {known}.")


def _unwrapped(model: Any) -> tuple[list[Any], Any]:
    """Return the transformers before the model that speaks, and that model."""
    model, _ = split_threshold(model)
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


def _sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
    if hasattr(model, "explain_row"):
        return model.explain_row(X, columns)
    return sklearn_sections(model, X, columns)


def sklearn_sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
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


# Rows as lonely as fewer than this share of the others are unusual.
_UNUSUAL = 0.05


def support_section(table: Any, background: Any) -> ExplanationSection:
    """Return how usual the row is among others, by how far it stands from them."""
    row, rows = table, background
    if not sparse.issparse(table) and (
        hasattr(table, "columns") or np.asarray(table).dtype.kind not in "iuf"
    ):
        encoder = TableEncoder().fit(background)
        row, rows = encoder.transform(table), encoder.transform(background)
    share = float(Support(Place(rows))(row)[0])
    return _novelty_section(share, f"{share:.0%} of {num_samples(background)} other rows")


def own_support_section(model: Any, X: Any) -> ExplanationSection | None:
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


_VALUE_COLUMNS = 3
_ROW = "training row"


def with_row_values(
    section: ExplanationSection, X_train: Any, names: list[str], sections: list[ExplanationSection]
) -> ExplanationSection:
    """Add to a table of training rows what they hold in the columns that contribute most.

    Without their table (``X_train=None``) the model is asked, if it kept the rows.
    """
    chosen = _columns_that_matter(sections)
    if section.columns[:1] != (_ROW,) or not chosen:
        return section
    if X_train is not None:
        rows = rows_of(X_train, np.array([row[0] for row in section.rows], dtype=int))
        cells = [_column_values(rows, names.index(name)) for name in chosen]
    elif section.cells is not None:
        cells = [section.cells(name) for name in chosen]
    else:
        return section
    columns = [[_as_written(value) for value in column] for column in cells]
    table = [(*row[:2], *more, *row[2:]) for row, *more in zip(section.rows, *columns, strict=True)]
    heads = [name if name not in section.columns else f"{name} (value)" for name in chosen]
    # Beside the target, so that weights stay beside their bars.
    head = (*section.columns[:2], *heads, *section.columns[2:])
    return replace(section, columns=head, rows=table)


def _column_values(table: Any, j: int) -> Any:
    if hasattr(table, "columns"):
        return np.asarray(table[table.columns[j]]).tolist()
    return (table.toarray() if sparse.issparse(table) else np.asarray(table))[:, j].tolist()


def _as_written(value: Any) -> Any:
    """Return a value as it stood in the table: a whole number without decimals, no gap as NaN."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, float) or abs(value) > 1e15:
        return value
    if value != value:
        return None
    return int(value) if value.is_integer() else value


def _columns_that_matter(sections: list[ExplanationSection]) -> list[str]:
    """Return the columns of the table that contribute most, of those that contribute."""
    rows = [row for section in sections if section.key == "columns" for row in section.rows]
    return [row[0] for row in rows[:_VALUE_COLUMNS] if row[2] != 0.0]
