"""The forms in which members see a table: one for distances and slopes, one for trees."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import SimpleImputer

from vicinal._base import is_on_device, narrowed, saved
from vicinal.table import TableEncoder
from vicinal.table.keys import has_keys

FORMS = ("distance", "tree")
# Sparse rows are written out up to this many entries; beyond, their leading axes stand for them.
_MAX_DENSE, _N_AXES = 20_000_000, 100


@saved(medians="p")
class Forms:
    """Encode a table for each kind of member.

    Attributes
    ----------
    encoders : dict of str to transformer or None
        Fitted encoder of each form; ``None`` takes the numbers as they are.
    medians : ndarray of shape (n_features,) or None
        Of an array without gaps, what fills those of later rows where distances are measured.
    """

    def __init__(self) -> None:
        self.encoders: dict[str, Any] = {}
        self.medians: np.ndarray | None = None

    def fit_transform(self, X, y, groups=None) -> dict[str, Any]:
        """Learn the encoders and return the training rows in each form.

        Forms of one encoder are one array. Rows of one group have no part in each other's numbers.
        """
        self.encoders = self._choose(X)
        if isinstance(X, np.ndarray) and self.encoders["distance"] is None:
            self.medians = np.array([np.median(column) for column in X.T])
        options = {"groups": groups} if self.reads_frames else {}
        found = {}
        for encoder in self.encoders.values():
            if id(encoder) not in found:
                Z = X if encoder is None else encoder.fit_transform(X, y, **options)
                found[id(encoder)] = _dense(Z)
        return {form: found[id(encoder)] for form, encoder in self.encoders.items()}

    def transform(self, X, form: str) -> Any:
        """Return rows in one form."""
        encoder = self.encoders[form]
        rows = _dense(X if encoder is None else encoder.transform(X))
        if form == "distance" and self.medians is not None:
            gaps = np.isnan(rows)
            if gaps.any():
                rows = np.where(gaps, self.medians, rows)
        return rows

    @property
    def reads_frames(self) -> bool:
        """Tell whether the table was a frame of mixed columns."""
        return isinstance(self.encoders["tree"], TableEncoder)

    @property
    def categorical(self) -> np.ndarray | None:
        """Columns of the tree form that are codes without an order, as a mask."""
        return getattr(self.encoders["tree"], "categorical_features_", None)

    def _choose(self, X) -> dict[str, Any]:
        if is_on_device(X):
            return dict.fromkeys(FORMS)
        if hasattr(X, "columns"):
            return {form: TableEncoder(form) for form in FORMS}
        if sparse.issparse(X):
            if X.shape[0] * X.shape[1] <= _MAX_DENSE:
                return dict.fromkeys(FORMS)
            axes = TruncatedSVD(min(_N_AXES, X.shape[1] - 1), random_state=0)
            return dict.fromkeys(FORMS, axes)
        if np.isnan(X).any():
            filled = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
            return {"distance": filled, "tree": None}
        return dict.fromkeys(FORMS)


def is_mixed_frame(X) -> bool:
    """Tell whether X is a frame with columns that are not plain numbers, or numbers of a key."""
    if not hasattr(X, "columns"):
        return False
    if hasattr(X, "column_names"):  # of Arrow, whose ``columns`` are not names
        raise TypeError(
            f"X is a {type(X).__module__}.{type(X).__name__}; frames of pandas and polars are "
            "read, so hand X.to_pandas() or polars.from_arrow(X) in."
        )
    names = list(X.columns)
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ValueError(
            f"X has {names.count(twice[0])} columns named {twice[0]!r}; answers are explained by "
            "name, so give every column its own."
        )
    is_plain = all(np.asarray(X[name]).dtype.kind in "bfiu" for name in X.columns)
    return not is_plain or has_keys(X)


def by_name(X, model) -> Any:
    """Return a frame with the columns that a model was fitted to, in their order, if it has them.

    Others are left out, as scikit-learn's ``ColumnTransformer`` does.
    """
    names = list(getattr(model, "feature_names_in_", ()))
    has_all = names and hasattr(X, "columns") and set(names) <= set(X.columns)
    return X[names] if has_all and list(X.columns) != names else X


def refuse_target_among(X, y) -> None:
    """Raise where the target is a column of the table, under the same name."""
    name = getattr(y, "name", None)
    if name is None or not hasattr(X, "columns") or list(X.columns).count(name) != 1:
        return
    if np.array_equal(np.asarray(X[name], dtype=object), np.asarray(y, dtype=object)):
        raise ValueError(f"X holds the target: its column {name!r} is y; leave it out of X.")


def plain_targets(y) -> Any:
    """Return targets of a nullable type of pandas, and objects of one kind, as NumPy has them."""
    kind = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if kind is not None and not y.isna().any():
        return y.to_numpy(dtype=kind)
    is_object = isinstance(y, list) or getattr(getattr(y, "dtype", None), "kind", "") == "O"
    return narrowed(np.asarray(y)) if is_object else y


def _dense(X) -> Any:
    if is_on_device(X):
        return X
    X = X.toarray() if sparse.issparse(X) else X
    # Writeable, because a read-only array is another type to compiled code.
    return np.require(X, dtype=np.float64, requirements=["C", "W"])
