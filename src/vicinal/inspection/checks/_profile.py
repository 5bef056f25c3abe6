"""Profile of a table: columns, relation to the target, correlations, missing values."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from vicinal._base._explanation import show
from vicinal._base._tables import column_names, column_values, spread_rows
from vicinal.inspection.checks._findings import shortened
from vicinal.inspection.colors import color_index
from vicinal.table import TableEncoder

_MOST_COLUMNS = 60
_N_BARS, _N_BINS = 12, 10
_SHOWN_CATEGORIES = 6
# Categories beyond these are one group in relations; so are more pairs than these in a picture.
_MOST_CATEGORIES, _MOST_PAIRED, _PAIRED_ROWS = 50, 14, 2000
_LEAST_CORRELATION = 0.1
_N_BLOCKS, _MOST_MISSING = 60, 20


class EncodedTable:
    """An encoded table with names of its columns.

    Parameters
    ----------
    X : data frame or ndarray
        The table.
    """

    def __init__(self, X: Any) -> None:
        self.encoder = TableEncoder()
        self.Z = np.asarray(self.encoder.fit_transform(X), dtype=float)
        self.kinds = list(self.encoder.kinds_.values())
        self.names = [str(name) for name in self.encoder.get_feature_names_out()]
        self.sources = [str(source) for source in self.encoder.sources_]
        texts = [name for name, kind in self.encoder.kinds_.items() if kind == "text"]
        self.is_nameable = ~np.isin(self.sources, texts)


class Target:
    """The target of a profile, as ranks or as one column of zeros and ones per class."""

    def __init__(self, y: np.ndarray, has_classes: bool) -> None:
        self.has_classes = has_classes
        if has_classes:
            self.codes = np.unique(y, return_inverse=True)[1]
            self.Y = np.eye(self.codes.max() + 1)[self.codes]
        else:
            self.codes = np.digitize(y, np.quantile(y, [0.2, 0.4, 0.6, 0.8]))
            self.Y = stats.rankdata(y)[:, None] / len(y)
        self.mean = self.Y.mean(axis=0)

    def group_means(self, codes: np.ndarray) -> np.ndarray:
        """Return the mean of the other rows of each row's group, with one row of the overall."""
        sums = np.stack([np.bincount(codes, weights=y) for y in self.Y.T], axis=1)
        counts = np.bincount(codes)[codes][:, None]
        return (sums[codes] - self.Y + self.mean) / counts

    def explained(self, codes: np.ndarray) -> float:
        """Return the share of the loss that the other rows of each row's group explain."""
        return self.share(self.group_means(codes))

    def share(self, predictions: np.ndarray) -> float:
        """Return the share of Gini impurity, or of the variance of ranks, that is explained."""
        constant = np.sum((self.Y - self.mean) ** 2)
        loss = np.sum((self.Y - predictions) ** 2)
        return float(max(0.0, 1.0 - loss / constant)) if constant else 0.0

    def shares(self, rows: np.ndarray) -> list[dict[str, Any]]:
        """Return the classes of some rows with their shares, or the fifth of their mean rank."""
        if not rows.any():
            return []
        if not self.has_classes:
            return [{"style": f"q{min(4, int(5 * self.Y[rows].mean()))}", "share": 1.0}]
        counts = np.bincount(self.codes[rows])
        return [
            {"style": f"k{color_index(k)}", "share": float(counts[k] / counts.sum())}
            for k in np.flatnonzero(counts).tolist()
        ]


@dataclass(frozen=True)
class Column:
    """A column of the profile: what is shown, and the group and rank of each row, or ``None``."""

    shown: dict[str, Any]
    values: list[Any]
    codes: Any
    ranks: Any


def profile(
    X: Any, encoded: EncodedTable, y: Any, target: str, has_classes: bool | None = None
) -> dict[str, Any]:
    """Return the columns, their relations and where values are missing, as plain values."""
    return described(columns_of(X, encoded, y, target, has_classes), X.shape[1])


def columns_of(
    X: Any, encoded: EncodedTable, y: Any, target: str, has_classes: bool | None = None
) -> list[Column]:
    """Return the first columns of the table, after the target if there is one."""
    known, first = None, []
    if y is not None:
        is_class = y.dtype.kind != "f" if has_classes is None else has_classes
        known = Target(y, is_class)
        numbers = None if is_class else np.asarray(y, dtype=float)
        first = [_column(target, "category" if is_class else "number", y.tolist(), numbers, known)]
        first[0].shown.update(is_target=True, relation=None)
    found, read = [], encoded.encoder.plain_columns(X)
    for j, name in enumerate(column_names(X)[:_MOST_COLUMNS]):
        values, kind, numbers = column_values(X, j), encoded.kinds[j], None
        if kind in ("number", "date"):
            numbers = np.where([value is None for value in values], np.nan, read[name])
        found.append(_column(name, kind, values, numbers, known))
    return first + found


def described(columns: list[Column], n_columns: int) -> dict[str, Any]:
    """Return the profile of columns as plain values."""
    rows = [column.shown for column in columns]
    n_features = sum(not row["is_target"] for row in rows)
    return {
        "rows": rows,
        "n_rows": len(columns[0].values) if columns else 0,
        "n_more": n_columns - n_features,
        "n_missing": sum(row["n_missing"] for row in rows),
        "correlations": correlations(columns),
        "missing": missingness(columns),
    }


def _column(
    name: str, kind: str, values: list[Any], numbers: np.ndarray | None, target: Target | None
) -> Column:
    is_known = np.array([value is not None for value in values])
    known = [value for value in values if value is not None]
    shown: dict[str, Any] = {
        "name": name,
        "kind": "not used" if kind == "drop" else kind,
        "is_target": False,
        "n_missing": int((~is_known).sum()),
        "missing": float((~is_known).mean()),
        "n_distinct": len(set(map(str, known))),
        "summary": "",
        "bars": [],
        "relation": None,
        "flags": [],
    }
    codes = ranks = None
    if kind == "date" and numbers is not None and np.isfinite(numbers).any():
        ends = values[int(np.nanargmin(numbers))], values[int(np.nanargmax(numbers))]
        shown["summary"] = f"{ends[0]} to {ends[1]}"
    elif numbers is not None and np.isfinite(numbers).any():
        is_known = np.isfinite(numbers)
        codes = np.zeros(len(values), dtype=np.int64)  # 0 for a missing number
        cuts = np.unique(np.quantile(numbers[is_known], np.linspace(0, 1, _N_BINS + 1)[1:-1]))
        codes[is_known] = 1 + np.searchsorted(cuts, numbers[is_known])
        ranks = np.full(len(values), (is_known.sum() + 1) / 2.0)
        ranks[is_known] = stats.rankdata(numbers[is_known])
        shown |= _number_bars(numbers, is_known, target)
    elif kind == "category":
        texts = np.array([str(value) for value in values])
        counts = Counter(map(str, known)).most_common()
        number = {text: k + 1 for k, (text, _) in enumerate(counts[:_MOST_CATEGORIES])}
        codes = np.array([number.get(text, 0) for text in texts]) * is_known
        shown |= _category_bars(counts, texts, is_known, target)
    if codes is not None and target is not None:
        shown["relation"] = target.explained(codes)
    return Column(shown, values, codes, ranks)


def _bar(rows: np.ndarray, most: int, text: str, target: Target | None) -> dict[str, Any]:
    parts = [] if target is None else target.shares(rows)
    return {"height": float(rows.sum() / most), "text": text, "parts": parts}


def _number_bars(
    numbers: np.ndarray, is_known: np.ndarray, target: Target | None
) -> dict[str, Any]:
    known = numbers[is_known]
    low, middle, high = np.quantile(known, [0.0, 0.5, 1.0])
    counts, edges = np.histogram(known, bins=_N_BARS)
    index = np.full(len(numbers), -1)
    index[is_known] = np.clip(np.searchsorted(edges, known, "right") - 1, 0, _N_BARS - 1)
    bars = [
        _bar(index == k, counts.max(), f"{show(a)} to {show(b)}: {counts[k]}", target)
        for k, (a, b) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    ]
    summary = f"{show(float(low))} to {show(float(high))}, median {show(float(middle))}"
    return {"summary": summary, "bars": bars}


def _category_bars(
    counts: list[tuple[str, int]], texts: np.ndarray, is_known: np.ndarray, target: Target | None
) -> dict[str, Any]:
    first = counts[:_SHOWN_CATEGORIES]
    most, total = (first[0][1], is_known.sum()) if first else (1, 1)
    bars = [_bar((texts == c) & is_known, most, f"{c}: {n}", target) for c, n in first]
    names = [f"{shortened(c)} {100 * n / total:.0f} %" for c, n in first[:3]]
    more = f", {len(counts) - 3} more" if len(counts) > 3 else ""
    return {"summary": ", ".join(names) + more, "bars": bars}


def correlations(columns: list[Column]) -> dict[str, Any] | None:
    """Return the rank correlations of numbers, and Cramér's V of the other pairs of columns.

    Only the columns of the strongest pairs are shown; ``None`` if no pair is correlated.
    """
    used = [column for column in columns if column.codes is not None]
    used = [column for column in used if len(np.unique(column.codes)) > 1]
    if len(used) < 2:
        return None
    rows = spread_rows(len(used[0].values), _PAIRED_ROWS)
    matrix = np.eye(len(used))
    for i, a in enumerate(used):
        for j, b in enumerate(used[:i]):
            matrix[i, j] = matrix[j, i] = _association(a, b, rows)
    strength = np.abs(matrix - np.eye(len(used))).max(axis=1)
    if strength.max() < _LEAST_CORRELATION:
        return None
    kept = np.sort(np.argsort(-strength, kind="stable")[:_MOST_PAIRED])
    names = [used[k].shown["name"] for k in kept]
    pairs = [
        {"first": names[j], "second": names[i], "value": float(matrix[kept[i], kept[j]])}
        for i in range(len(kept))
        for j in range(i)
    ]
    pairs.sort(key=lambda pair: -abs(pair["value"]))
    return {"names": names, "values": matrix[np.ix_(kept, kept)].tolist(), "pairs": pairs[:8]}


def _association(a: Column, b: Column, rows: np.ndarray) -> float:
    """Return Spearman's correlation of two columns of numbers, else Cramér's V without its bias."""
    if a.ranks is not None and b.ranks is not None:
        return float(np.corrcoef(a.ranks[rows], b.ranks[rows])[0, 1])
    first, second = (np.unique(column.codes[rows], return_inverse=True)[1] for column in (a, b))
    r, k, n = first.max() + 1, second.max() + 1, len(rows)
    if min(r, k) < 2:
        return 0.0
    counts = np.bincount(first * k + second, minlength=r * k).reshape(r, k).astype(float)
    expected = counts.sum(axis=1)[:, None] * counts.sum(axis=0) / n
    phi = max(0.0, np.sum((counts - expected) ** 2 / expected) / n - (r - 1) * (k - 1) / (n - 1))
    least = min(r - (r - 1) ** 2 / (n - 1), k - (k - 1) ** 2 / (n - 1)) - 1
    return float(np.sqrt(min(1.0, phi / least))) if least > 0 else 0.0


def missingness(columns: list[Column]) -> list[dict[str, Any]]:
    """Return for columns with missing values their share in blocks of rows, in table order."""
    some = sorted(
        (column for column in columns if column.shown["n_missing"]),
        key=lambda column: -column.shown["n_missing"],
    )[:_MOST_MISSING]
    return [
        {
            "name": column.shown["name"],
            "share": column.shown["missing"],
            "blocks": [
                float(np.mean(block))
                for block in np.array_split([value is None for value in column.values], _N_BLOCKS)
                if len(block)
            ],
        }
        for column in some
    ]
