"""What a column is, and what is done with it, decided once from its values."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vicinal.table import _columns, parsing
from vicinal.table.keys import ENOUGH_ROWS, NEARLY_UNIQUE, has_repeated_tokens, is_id, key_kind

KINDS = ("number", "numbers", "category", "choices", "date", "text", "drop")
# A column of texts is numbers, or dates, when so many of them are; the others count as missing.
_MOST = 0.8
_MOST_CLASSES = 20
# Remarks on columns that number or name the rows.
COUNTER, IDENTIFIER = "left out, it counts the rows", "left out, an identifier"


@dataclass
class Rules:
    """Settings of the encoder, and the type of the target."""

    encoding: str
    max_categories: int
    target_type: str | None
    drop_identifiers: bool = True
    one_column: bool = False

    @property
    def keep_missing(self) -> bool:
        """Whether missing values stay NaN."""
        return self.encoding == "tree"


@dataclass
class Decision:
    """How one column is encoded (``None`` if it is left out), with remarks."""

    kind: str
    encoder: _columns.ColumnEncoder | None = None
    remarks: list[str] = field(default_factory=list)
    examples: dict[str, str] = field(default_factory=dict)  # of values, by remark


def decide(name: str, values: np.ndarray, kind: str | None, rules: Rules) -> Decision:
    """Return how a column is encoded; ``kind`` is what the user declared, if anything."""
    missing = parsing.missing_values(values)
    if kind == "drop":
        return Decision("drop")
    if parsing.is_nested(values):
        return Decision("drop", None, ["left out, nested values"])
    if missing.all():
        return Decision("drop", None, ["left out, no value"])
    if not missing.any() and (values == values[0]).all():
        return Decision("drop", None, ["left out, one value in all rows"])
    if kind is not None:
        return _DECLARED[kind](values, rules)
    if values.dtype.kind == "M":
        return _dates(values, rules)
    if values.dtype == object:
        return _texts(name, values, rules)
    if values.dtype.kind == "f" and parsing.are_dates_in_digits(values):
        return _dates(values, rules, (parsing.DIGITS,))
    found = _key(name, values, values, rules)
    if found is not None:
        return found
    counts_rows = len(values) >= ENOUGH_ROWS and bool((values[1:] == values[:-1] + 1).all())
    return _numbers(values, rules, remarks=["kept, though it counts the rows"] * counts_rows)


def lines(decisions: dict[str, Decision]) -> list[str]:
    """Return one line for each kind of decision, with all columns that it concerns."""
    groups: dict[str, list[str]] = {}
    for name, decision in decisions.items():
        for remark in decision.remarks:
            example = decision.examples.get(remark)
            shown = repr(name) if example is None else f"{name!r} ({example!r})"
            groups.setdefault(remark, []).append(shown)
    return [f"{remark}: {', '.join(names)}" for remark, names in groups.items()]


def _key(name, numbers, values, rules):
    """Return what is done with a column of numbers that is a key, ``None`` if it is none."""
    kind = key_kind(name, numbers, rules.one_column)
    if kind == "category":
        return _categories(values, rules, ["numbers of a key that repeat, taken as codes"])
    if kind is None or not rules.drop_identifiers:
        return None
    return Decision("drop", None, [COUNTER if kind == "counter" else IDENTIFIER])


# --- kinds --------------------------------------------------------------------------------------


def _numbers(values, rules, decimal=".", remarks=(), unit=""):
    remarks = list(remarks)
    if values.dtype.kind == "f" and np.isinf(values).any():
        remarks.append("infinities count as missing")
    if values.dtype.kind == "f" and (low := parsing.sentinel_in(values)) is not None:
        remarks.append(
            f"{low:g} is far from all other values; leave the cell empty if it means missing"
        )
    if parsing.missing_values(values).any() and not rules.keep_missing:
        remarks.append("missing values filled with the median and marked")
    return Decision("number", _columns.NumberColumn(decimal, rules.keep_missing, unit), remarks)


def _declared_numbers(values, rules):
    if values.dtype != object:
        return _numbers(values, rules)
    known = _known(values)
    unit = parsing.unit_of(known)
    return _numbers(values, rules, parsing.decimal_of(known, unit)[0], unit=unit)


def _dates(values, rules, formats=("iso",)):
    remarks = ["dates as parts of the calendar and a count of days"]
    if len(formats) > 1:
        remarks.append(f"dates written in {len(formats)} ways")
    return Decision("date", _columns.DateColumn(formats, rules.keep_missing), remarks)


def _declared_dates(values, rules):
    if values.dtype == object:
        known = _known(values)
        formats = parsing.date_formats_of(known, _MOST) or parsing.date_formats_of(known, 0.01)
    else:
        formats = (parsing.DIGITS if values.dtype.kind == "f" else "iso",)
    if np.isnat(parsing.as_dates(values, formats)).all():
        shown = _known(values)[0]
        raise ValueError(f"no date can be read from {shown!r}; write dates as 2020-12-31.")
    return _dates(values, rules, formats)


def _categories(values, rules, remarks=()):
    labels = parsing.as_labels(values)
    n_categories = len(set(labels.tolist()))
    remarks = list(remarks)
    if n_categories > rules.max_categories and rules.target_type is not None:
        remarks.append(
            f"more than {rules.max_categories} categories, encoded by their target statistics"
        )
        return Decision("category", _columns.TargetColumn(rules.target_type), remarks)
    if rules.encoding == "tree":
        return Decision("category", _columns.CodeColumn(), remarks)
    if n_categories > rules.max_categories:
        remarks.append(
            f"the {rules.max_categories - 1} most frequent categories, the others together"
        )
    return Decision("category", _columns.OneHotColumn(rules.max_categories), remarks)


def _several_numbers(values, rules):
    known = _known(values)
    counts = Counter(filter(None, (len(parsing.numbers_in(text)) for text in known)))
    if not counts:
        raise ValueError(f"no numbers can be read from {known[0]!r}; write them as 120/80.")
    remark = "several numbers in a cell, a column for each"
    column = _columns.NumbersColumn(max(counts, key=counts.__getitem__), rules.keep_missing)
    return Decision("numbers", column, [remark], {remark: known[0]})


def _choices(values, rules):
    known = _known(values)
    separator = parsing.separator_of(known) or ";"
    remark = "cells that list choices, a column for each of them"
    example = next((text for text in known if separator in text), known[0])
    return Decision(
        "choices",
        _columns.ChoicesColumn(separator, rules.max_categories),
        [remark],
        {remark: example},
    )


def _free_text(values, rules):
    column = _columns.TextColumn()
    return Decision("text", column, [f"free text as {column.n_components} latent columns"])


_DECLARED: dict[str, Any] = {
    "number": _declared_numbers,
    "numbers": _several_numbers,
    "choices": _choices,
    "date": _declared_dates,
    "category": _categories,
    "text": _free_text,
}


def _texts(name, values, rules):
    """Return how a column of strings is encoded: numbers, dates, categories, text, identifier."""
    known = _known(values)
    categories = list(dict.fromkeys(known))
    if is_id(name) and len(known) >= ENOUGH_ROWS:
        if len(categories) <= NEARLY_UNIQUE * len(known):
            return _categories(values, rules)
        if rules.drop_identifiers:
            return Decision("drop", None, [IDENTIFIER])
    if parsing.has_leading_zeros(categories):
        remark = "digits with leading zeros, taken as codes"
        return _categories_or_text(known, categories, values, rules, [remark])
    found = _numbers_in_text(known, categories, values, rules)
    if found is not None:
        return _key(name, found.encoder.plain(values), values, rules) or found
    formats = parsing.date_formats_of(categories, _MOST)
    if formats:
        return _dates(values, rules, formats)
    unit = parsing.unit_of(known)
    found = _numbers_in_text(known, categories, values, rules, unit) if unit else None
    return found or _categories_or_text(known, categories, values, rules)


def _numbers_in_text(known, categories, values, rules, unit=""):
    """Return how numbers are read from text, ``None`` where too few are numbers."""
    mark, strings = parsing.decimal_of(categories, unit)
    no_numbers = {*strings, *(text for text in categories if parsing.is_limit(text))}
    if sum(text in no_numbers for text in known) > (1 - _MOST) * len(known):
        return None
    remark = "numbers, and strings that count as missing" if strings else "numbers read from text"
    strange = strings or [t for t in categories if not t.lstrip("+-").replace(".", "").isdigit()]
    decision = _numbers(values, rules, mark, [remark] if strange else [], unit)
    if strange:
        decision.examples[remark] = strange[0]
    return decision


def _categories_or_text(known, categories, values, rules, remarks=()):
    if len(categories) > rules.max_categories:
        if _are_several_numbers(known):
            return _several_numbers(values, rules)
        if _are_choices(known, rules):
            return _choices(values, rules)
    if rules.drop_identifiers and _are_identifiers(known, categories):
        return Decision("drop", None, [IDENTIFIER])
    if len(categories) <= rules.max_categories or len(categories) <= 0.5 * len(known):
        return _categories(values, rules, remarks)
    return _free_text(values, rules)


def _are_identifiers(known, categories) -> bool:
    """Return whether nearly all rows have a short text of their own, without shared tokens."""
    n_tokens = float(np.mean([len(text.split()) for text in categories[:1000]]))
    is_short = len(categories) > NEARLY_UNIQUE * len(known) and n_tokens < 3
    return is_short and len(known) >= ENOUGH_ROWS and not has_repeated_tokens(known)


def _are_several_numbers(known) -> bool:
    """Return whether most texts are made of as many numbers, two or more."""
    counts = Counter(len(parsing.numbers_in(text)) for text in known)
    return any(n > 0 and count >= _MOST * len(known) for n, count in counts.items())


def _are_choices(known, rules) -> bool:
    """Return whether texts combine few choices, each at most once in a cell."""
    separator = parsing.separator_of(known)
    if not separator:
        return False
    cells = [parsing.choices_in(text, separator) for text in known]
    n_lists = sum(len(cell) > 1 for cell in cells)
    n_choices = len({choice for cell in cells for choice in cell})
    is_set = all(len(set(cell)) == len(cell) for cell in cells)
    return is_set and n_choices <= rules.max_categories and n_lists >= (1 - _MOST) * len(cells)


def _known(values) -> list[str]:
    return [label for label in parsing.as_labels(values).tolist() if label is not None]


def target_type_of(y: Any) -> str | None:
    """Return how statistics of the target are made, ``None`` when it has too many classes."""
    if y is None or y.ndim != 1 or len(y) < 2:
        return None
    if y.dtype.kind == "f":
        return "continuous"
    n_classes = len(np.unique(y.astype(str) if y.dtype == object else y))
    if n_classes < 2:
        return None
    if n_classes <= _MOST_CLASSES:
        return "binary" if n_classes == 2 else "multiclass"
    return "continuous" if y.dtype.kind in "iu" else None
