"""Sections of an explanation of one prediction, and names and values of its columns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from vicinal._base._files import counted
from vicinal._base._tables import column_names


@dataclass(frozen=True)
class ExplanationSection:
    """One section of an explanation: a summary and a table.

    Attributes
    ----------
    key : str
        Short name, the same for all models with this kind of section.
    title : str
        Heading.
    summary : str
        The finding, in one or two sentences.
    columns : tuple of str
        Column names of the table.
    rows : list of tuple
        The table, most important first.
    bars : str or None
        Column that is shown as bars.
    values : dict
        Single numbers that the summary rests on.
    cells : callable or None
        If the rows of the table are training rows: returns their values in a column of X, by name.
        :func:`vicinal.inspection.explain` shows the columns that matter.
    """

    key: str
    title: str
    summary: str
    columns: tuple[str, ...] = ()
    rows: list[tuple] = field(default_factory=list)
    bars: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    cells: Callable[[str], list] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text()

    def text(self, max_rows: int = 10) -> str:
        """Return the section as plain text.

        Parameters
        ----------
        max_rows : int, default=10
            Largest number of table rows shown.

        Returns
        -------
        str
            Heading, summary and table.
        """
        lines = [self.title, "-" * len(self.title), self.summary]
        return "\n".join(lines + (self._table(max_rows) if self.rows else []))

    def more(self, max_rows: int) -> str:
        """Return a note on the number of rows that are not shown.

        Parameters
        ----------
        max_rows : int
            Rows that are shown.

        Returns
        -------
        str
            Empty if all rows are shown.
        """
        rest = len(self.rows) - max_rows
        return f"... and {rest} more" if rest > 0 else ""

    def _table(self, max_rows: int) -> list[str]:
        table = [list(self.columns), *([show(v) for v in row] for row in self.rows[:max_rows])]
        widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
        right = [all(map(is_number, cells)) for cells in zip(*self.rows, strict=True)]
        padded = [
            [
                cell.rjust(width) if flush else cell.ljust(width)
                for cell, width, flush in zip(line, widths, right, strict=True)
            ]
            for line in table
        ]
        lines = [("  " + "  ".join(line)).rstrip() for line in padded]
        more = self.more(max_rows)
        return [*lines, f"  {more}"] if more else lines

    def to_dict(self) -> dict[str, Any]:
        """Return the section in types of JSON.

        Returns
        -------
        dict
            ``title``, ``summary``, ``values`` and ``table`` (one dictionary per row).
        """
        return {
            "title": self.title,
            "summary": self.summary,
            "values": plain(self.values),
            "table": [dict(zip(self.columns, map(plain, row), strict=True)) for row in self.rows],
        }


class RowColumns:
    """Names and values of the columns of one row, as the model gets them.

    Attributes
    ----------
    names : list of str
        Names of the columns of the model, ``"marital_married"``.
    sources : list of str or None
        The column of the table that each was computed from, ``"marital"``; ``None`` if there are
        several.
    values : list
        Value of the source in the row, or of the column itself if it has several sources.
    rates : ndarray
        Change of each column per unit of its source, which converts coefficients to units of the
        table; one for categories and for columns with several sources.
    label : object
        Predicted class, if a decision threshold selects it; ``None`` for the most probable class.
    """

    label: Any = None

    def __init__(
        self, names: list[str], sources: list[str | None], values: list[Any], rates: np.ndarray
    ) -> None:
        self.names, self.sources, self.values, self.rates = names, sources, values, rates

    @classmethod
    def of_table(cls, table: Any, names: list[str]) -> "RowColumns":
        """Return the columns of a table that the model takes as it is."""
        return cls(names, list(names), values_of(table), np.ones(len(names)))

    @property
    def are_encoded(self) -> bool:
        """Whether names and sources differ."""
        return any(source != name for source, name in zip(self.sources, self.names, strict=True))


class ExplainRowMixin:
    """Mixin of models that explain the prediction of one row.

    A model implements ``_sections(X, columns)`` for one validated row and the names of its
    columns.
    """

    def explain_row(self, X, columns=None):
        """Return the sections that explain the prediction of one row.

        :func:`vicinal.inspection.explain` shows them with the sections that any model has.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (1, n_features)
            The row.
        columns : RowColumns, default=None
            Names, values and units of the columns; ``None`` takes those of X.

        Returns
        -------
        sections : list of ExplanationSection
            The most informative first, each with a ``summary`` and a table (``columns`` and
            ``rows``).
        """
        check_is_fitted(self)
        if not hasattr(X, "columns") and not sparse.issparse(X):
            X = np.asarray(X, dtype=float)
        if len(X.shape) != 2 or X.shape[0] != 1:
            raise ValueError(
                f"X has shape {tuple(X.shape)}, but explain_row takes one row; pass X[i:i + 1]."
            )
        if columns is None:
            columns = RowColumns.of_table(X, column_names(X, self))
        return self._sections(X, columns)

    def _sections(self, X: Any, columns: RowColumns) -> list[ExplanationSection]:
        raise NotImplementedError


# --- rows ---


def values_of(table: Any) -> list[Any]:
    """Return the cells of a table of one row."""
    if hasattr(table, "columns"):
        return [_cell(table[name]) for name in table.columns]
    return list((table.toarray() if sparse.issparse(table) else np.asarray(table))[0])


def _cell(column: Any) -> Any:
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    return values[0]


def dense_row(X: Any) -> np.ndarray:
    """Return a table of one row as a matrix of floats."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=float)


# --- sections of several families ---


# Rows of a table of weighted training rows.
_N_WEIGHTED = 10


def weighted_section(found: Any, targets: Any, text: str, source: str = "") -> ExplanationSection:
    """Return the training rows of a prediction by falling weight, a CSR row that sums to one.

    ``targets`` is a function from row numbers to targets; ``text`` ends in what the rows do.
    """
    rows, weights = found.indices, np.asarray(found.data, dtype=float)
    size = 1.0 / float((weights**2).sum())
    shown = targets(rows[:_N_WEIGHTED])
    table = list(zip(rows.tolist(), shown, weights.tolist(), strict=False))
    summary = (
        f"{text.format(len(rows))}, with the weight of {size:.3g} equal ones; those shown have "
        f"{weights[:_N_WEIGHTED].sum():.0%} of the weight.{source}"
    )
    head = ("training row", "target", "weight")
    values = {"n_neighbors": len(rows), "effective_sample_size": size}
    return ExplanationSection("neighbors", "Neighbours", summary, head, table, "weight", values)


def coefficient_section(
    columns: RowColumns, coef: np.ndarray, offset: np.ndarray, summary: str, **values: Any
) -> ExplanationSection:
    """Return a table of coefficients, sorted by contribution.

    Parameters
    ----------
    columns : RowColumns
        Names and values.
    coef : ndarray of shape (n_columns,)
        Change of the score per unit of each column; the table has it per unit of the source.
    offset : ndarray of shape (n_columns,)
        Difference between the row and the reference point of the contributions.
    summary : str
        What the score is.
    **values
        Single numbers.
    """
    contribution = np.asarray(coef, dtype=float) * np.asarray(offset, dtype=float)
    order = np.argsort(-np.abs(contribution), kind="stable")
    names: tuple[str, ...] = ("column", "value", "coefficient", "contribution")
    rows: list[tuple] = []
    coef = np.asarray(coef, dtype=float) * columns.rates
    for j in order:
        row = (columns.names[j], columns.values[j], float(coef[j]), float(contribution[j]))
        source = columns.sources[j] or "several columns"
        rows.append((*row, source) if columns.are_encoded else row)
    if columns.are_encoded:
        names = (*names, "computed from")
        values["by source"] = by_source(columns, contribution)
    return ExplanationSection(
        "coefficients", "Coefficients", summary, names, rows, "contribution", values
    )


def by_source(columns: RowColumns, contribution: np.ndarray) -> dict[str, float]:
    """Return contributions summed over the columns computed from one column of the table."""
    total: dict[str, float] = {}
    for name, source, part in zip(columns.names, columns.sources, contribution, strict=True):
        key = name if source is None else source
        total[key] = total.get(key, 0.0) + float(part)
    return dict(sorted(total.items(), key=lambda item: -abs(item[1])))


def linear_sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
    """Return the coefficients of a linear model, if it has one per column."""
    coef = model.coef_.toarray() if hasattr(model.coef_, "toarray") else np.asarray(model.coef_)
    coef = np.atleast_2d(coef)
    if coef.shape[1] != len(columns.names):
        return []
    x = dense_row(X)[0]
    intercept = np.broadcast_to(np.atleast_1d(model.intercept_), len(coef)).astype(float)
    if not hasattr(model, "classes_"):
        level, slope = float(intercept[0]), coef[0]
        summary = f"The prediction is {show(level)} plus the sum of these contributions."
    elif len(coef) == 1:
        chosen = int(coef[0] @ x + intercept[0] > 0)
        sign = 1.0 if chosen == 1 else -1.0
        level, slope = sign * float(intercept[0]), sign * coef[0]
        summary = (
            f"The prediction is {show(model.classes_[chosen])} if {show(level)} plus the sum of "
            "these contributions is above 0."
        )
    elif len(coef) == len(model.classes_):
        first, second = two_best(coef @ x + intercept)
        level, slope = float(intercept[first] - intercept[second]), coef[first] - coef[second]
        summary = (
            f"{show(model.classes_[first])} is preferred to {show(model.classes_[second])} if "
            f"{show(level)} plus the sum of these contributions is above 0."
        )
    else:
        return []
    return [coefficient_section(columns, slope, x, summary, intercept=level)]


def path_section(model: Any, X: Any, columns: RowColumns) -> ExplanationSection:
    """Return the conditions on the path of a row to its leaf in a tree of scikit-learn."""
    tree = model.tree_
    x = dense_row(X)[0].astype(np.float32)
    node, rows = 0, []
    while tree.children_left[node] != -1:
        j, threshold = int(tree.feature[node]), float(tree.threshold[node])
        goes_left = bool(x[j] <= threshold)
        condition = f"{columns.names[j]} {'<=' if goes_left else '>'} {show(threshold)}"
        node = int((tree.children_left if goes_left else tree.children_right)[node])
        rows.append((condition, columns.values[j], int(tree.n_node_samples[node])))
    size = int(tree.n_node_samples[node])
    path, leaf = counted(len(rows), "condition"), counted(size, "training row")
    summary = f"The row satisfies {path}; its leaf holds {leaf}."
    values: dict[str, Any] = {"leaf": node, "leaf_size": size}
    if hasattr(model, "classes_") and tree.n_outputs == 1:
        share = tree.value[node, 0] / tree.value[node, 0].sum()
        values["class_shares"] = dict(zip(model.classes_.tolist(), share.tolist(), strict=True))
        best = int(share.argmax())
        summary += f" {share[best]:.0%} of them are {show(model.classes_[best])}."
    head = ("condition", "value", "training rows")
    return ExplanationSection("path", "Decision path", summary, head, rows, None, values)


def base_model_section(
    names: list[str],
    weights: np.ndarray,
    predictions: np.ndarray,
    classes: np.ndarray | None,
    summary: str,
    label: Any = None,
    **values: Any,
) -> ExplanationSection:
    """Return the base models of a weighted mean; contributions add up to its prediction.

    Parameters
    ----------
    names : list of str
        Their names.
    weights : ndarray of shape (n_models,)
        Their weights, which sum to one.
    predictions : ndarray of shape (n_models, n_outputs)
        Probabilities of ``classes``, or predicted values.
    classes : ndarray or None
        Labels; ``None`` for a regressor.
    summary : str
        What the base models are.
    label : object, default=None
        Class whose probability is explained; ``None`` is the most probable one.
    **values
        Single numbers.
    """
    head: tuple[str, ...]
    parts = np.asarray(weights)[:, None] * predictions
    at = 0 if classes is None else int(parts.sum(axis=0).argmax())
    if label is not None:
        at = np.asarray(classes).tolist().index(label)
    rows: list[tuple] = []
    for m in np.argsort(-np.asarray(weights), kind="stable"):
        value, weight, part = float(predictions[m, at]), float(weights[m]), float(parts[m, at])
        label = () if classes is None else (classes[predictions[m].argmax()],)
        rows.append((names[m], *label, value, weight, part))
    if classes is None:
        head, total = ("base model", "prediction"), "prediction"
    else:
        head = ("base model", "prediction", "probability")
        total = f"probability of {show(classes[at])}"
    head = (*head, "weight", "contribution")
    summary += f" Contributions add up to the {total}."
    return ExplanationSection(
        "base_models", "Base models", summary, head, rows, "contribution", values
    )


def two_best(scores: np.ndarray) -> tuple[int, int]:
    """Return the indices of the largest and of the second largest score."""
    order = np.argsort(-scores, kind="stable")
    return int(order[0]), int(order[1])


# --- formatting ---


def plain(value: Any) -> Any:
    """Return a value in types of JSON; NaN and infinity become ``None``."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def show(value: Any) -> str:
    """Return a value as text: four digits, thousands separated, missing values named."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "missing"
    if isinstance(value, tuple):
        return f"({', '.join(map(show, value))})"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if 1e4 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    if isinstance(value, int):
        return str(value)
    return f"{0.0 if abs(value) < 1e-12 else value:.4g}"


def show_change(value: float) -> str:
    """Return a change of a number as text: its sign, three digits, thousands separated."""
    return f"{value:+,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:+.3g}"


def is_number(value: Any) -> bool:
    """Return whether a cell is a number, which is aligned right."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
