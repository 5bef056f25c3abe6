"""How the columns of a table are encoded for base models, of the whole table or of a split."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import SimpleImputer

from vicinal._base import packed, saved
from vicinal._base._unseen import UnseenValues
from vicinal.table import TableEncoder
from vicinal.table.parsing import ReadFrame

ENCODINGS = ("distance", "tree")
# Sparse rows are made dense up to this many entries; beyond, their leading components are used.
_MAX_DENSE, _N_COMPONENTS = 20_000_000, 100


@saved(medians="p")
class Encodings:
    """Encode a table for each kind of base model: by distances or by trees.

    Attributes
    ----------
    encoders : dict of str to transformer or None
        Fitted encoder of each encoding; ``None`` takes the numbers as they are.
    medians : ndarray of shape (n_features,) or None
        Of an array without missing values: they replace those of later rows in distances.
    n_rows : int
        Number of training rows.
    """

    def __init__(self) -> None:
        self.encoders: dict[str, Any] = {}
        self.medians: np.ndarray | None = None
        self.n_rows = 0

    def fit_transform(self, X, y, groups=None) -> dict[str, Any]:
        """Learn the encoders and return the training rows in each encoding.

        Encodings by the same encoder are one array. Statistics of the target leave out the rows of
        the row's own group.
        """
        self.encoders, self.n_rows = self._choose(X), len(y)
        if not sparse.issparse(X) and self.encoders["distance"] is None:
            self.medians = np.array([np.median(column) for column in X.T])
        options = {"groups": groups} if self.reads_frames else {}
        found = {}
        for encoder in self.encoders.values():
            if id(encoder) not in found:
                Z = X if encoder is None else encoder.fit_transform(X, y, **options)
                found[id(encoder)] = self._dense(Z)
        return {name: found[id(encoder)] for name, encoder in self.encoders.items()}

    def read(self, X) -> Any:
        """Return query rows so that no encoder needs to read the columns of a frame again."""
        return ReadFrame(X) if self.reads_frames else X

    def transform(self, X, encoding: str) -> Any:
        """Return rows in one encoding."""
        encoder = self.encoders[encoding]
        rows = self._dense(X if encoder is None else encoder.transform(X))
        if encoding == "distance" and self.medians is not None:
            missing = np.isnan(rows)
            if missing.any():
                rows = np.where(missing, self.medians, rows)
        return rows

    def unseen_values(self, X, names: list[str]) -> list[UnseenValues]:
        """Return values of query rows that no training row has; of arrays missing ones."""
        if self.reads_frames:
            return self.encoders["distance"].unseen_values(X)
        if sparse.issparse(X):
            return []
        problem, imputer = "missing values where training rows have none", self.encoders["distance"]
        missing = np.isnan(X)
        if imputer is not None:
            missing[:, imputer.indicator_.features_] = False
        columns = np.flatnonzero(missing.any(axis=0))
        typicality = 1 / (self.n_rows + 1)
        return [UnseenValues(names[j], problem, missing[:, j], "", typicality) for j in columns]

    def encoded_signs(self, signs: np.ndarray, X: dict[str, Any]) -> dict[str, Any]:
        """Return the monotone constraints of every encoded column."""
        found = {}
        for name, encoder in self.encoders.items():
            own = np.zeros(X[name].shape[1], dtype=np.int8)
            if isinstance(encoder, TruncatedSVD):
                raise ValueError(
                    "monotonic_cst needs fewer columns: these are reduced to components."
                )
            if self.reads_frames:
                start, kinds = 0, encoder.kinds_
                signed = dict(zip(kinds, signs, strict=True))
                for column, sign in signed.items():
                    if sign and kinds[column] not in ("number", "drop"):
                        raise ValueError(
                            f"monotonic_cst constrains {column!r}, which is read as "
                            f"{kinds[column]!r}; only columns of numbers have a direction."
                        )
                for column, outputs in encoder.input_to_outputs_.items():
                    own[start] = signed[column]  # the mark of missing values behind it is free
                    start += len(outputs)
            else:
                own[: len(signs)] = signs
            found[name] = own
        return found

    def _dense(self, X) -> Any:
        return packed(X.toarray() if sparse.issparse(X) else X, np.float64)

    @property
    def reads_frames(self) -> bool:
        """Return whether the table was a frame of mixed columns."""
        return isinstance(self.encoders["tree"], TableEncoder)

    @property
    def categorical(self) -> np.ndarray | None:
        """Columns of the encoding for trees that are codes of categories, as a mask."""
        return getattr(self.encoders["tree"], "categorical_features_", None)

    def _choose(self, X) -> dict[str, Any]:
        if hasattr(X, "columns"):
            return {name: TableEncoder(name, unseen="ignore") for name in ENCODINGS}
        if sparse.issparse(X):
            if X.shape[0] * X.shape[1] <= _MAX_DENSE:
                return dict.fromkeys(ENCODINGS)
            components = TruncatedSVD(min(_N_COMPONENTS, X.shape[1] - 1), random_state=0)
            return dict.fromkeys(ENCODINGS, components)
        if np.isnan(X).any():
            filled = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
            return {"distance": filled, "tree": None}
        return dict.fromkeys(ENCODINGS)


@saved()
class PlainEncodings(Encodings):
    """Encodings of rows that base models take as they are: finite numbers on a device."""

    def fit_transform(self, X, y, groups=None) -> dict[str, Any]:
        self.encoders, self.n_rows = dict.fromkeys(ENCODINGS), len(y)
        return dict.fromkeys(ENCODINGS, X)

    def transform(self, X, encoding: str) -> Any:
        return X

    def unseen_values(self, X, names: list[str]) -> list[UnseenValues]:
        return []


@dataclass(frozen=True)
class Split:
    """Training and test rows of a split, encoded by what the training rows show.

    Attributes
    ----------
    train, test : ndarray of int
        Numbers of the rows.
    X_train, X_test : dict of str to array
        The rows in each encoding.
    encodings : Encodings
        Fitted to the training rows.
    signs : dict of str to ndarray or None
        Monotone constraints of the columns of each encoding.
    """

    train: np.ndarray
    test: np.ndarray
    X_train: dict[str, Any]
    X_test: dict[str, Any]
    encodings: Encodings
    signs: dict[str, Any] | None

    @classmethod
    def of(cls, table: Any, train, test, signs) -> "Split":
        """Return a split of a table; its encodings know the training rows alone."""
        known, encodings = table.take(train), table.encodings()
        X = encodings.fit_transform(known.X, known.labels, known.groups)
        new = {name: encodings.transform(table.rows(test), name) for name in X}
        signs = None if signs is None else encodings.encoded_signs(signs, X)
        return cls(train, test, X, new, encodings, signs)
