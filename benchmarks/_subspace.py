"""What the benchmarks of the subspace family share: data and settings."""

import time

import numpy as np
import scipy.sparse as sp
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from _datasets import load_dataset
from vicinal.subspace import FeatureSpaceDecomposition


class Clock:
    """Wall and processor seconds of a block; the latter do not suffer from other work."""

    def __enter__(self):
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_):
        self.wall = time.perf_counter() - self._wall
        self.cpu = time.process_time() - self._cpu


def error(model, X, y):
    """Percentage of wrong predictions."""
    return 100.0 * float(np.mean(model.predict(X) != y))


def standard_error(percent, n):
    """Of an error rate in percent, over n test rows."""
    return float(np.sqrt(percent * (100.0 - percent) / n))


def covtype(n_train=None, n_test=None):
    """Class 2 against the rest, columns scaled to [0, 1], a random 0.8/0.2 split."""
    X, y = load_dataset("covtype", return_X_y=True)
    X, y = MinMaxScaler().fit_transform(np.asarray(X, dtype=np.float64)), (y == 2).astype(int)
    order = np.random.RandomState(0).permutation(len(X))
    cut = int(0.8 * len(X))
    train, test = order[:cut][:n_train], order[cut:][:n_test]
    return X[train], X[test], y[train], y[test]


def covtype_decompositions():
    """Return the settings of Table 2: 4 subspaces of 40 columns, or 4 halves, per method."""
    subsets = [
        FeatureSpaceDecomposition(method, n_subspaces=4, subspace_size=40)
        for method in ("random", "principal", "discriminant")
    ]
    halves = [
        FeatureSpaceDecomposition(method, n_blocks=2, n_repeats=2)
        for method in ("cholesky", "approximate")
    ]
    return [*subsets, *halves]


def census(n_train=None, n_test=None):
    """One-hot categories and numbers scaled to [0, 1], a random 0.8/0.2 split of one file."""
    data = load_dataset("census_income")
    X, y = data.X_train, np.asarray(data.y_train)
    order = np.random.RandomState(0).permutation(len(y))
    cut = int(0.8 * len(y))
    train, test = order[:cut][:n_train], order[cut:][:n_test]
    categorical = np.asarray(data.categorical_features)
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), categorical),
        (MinMaxScaler(), ~categorical),
    )
    y = (y == data.classes[1]).astype(int)
    X_train = encode.fit_transform(X[train]).astype(np.float32)
    return X_train, encode.transform(X[test]).astype(np.float32), y[train], y[test]


def rcv1(*, is_reversed=False):
    """Return the training and test parts of the subset, or the other way round."""
    X_train, X_test, y_train, y_test = load_dataset("rcv1_subset", return_X_y=True)
    if is_reversed:
        X_train, X_test, y_train, y_test = X_test, X_train, y_test, y_train
    return X_train.tocsr(), X_test.tocsr(), y_train, y_test


def newsgroups():
    """Two classes after the rule of news20: sci, comp and misc.forsale against the others."""
    data = load_dataset("newsgroups20")
    X = sp.vstack([data.X_train, data.X_test]).tocsr().astype(np.float64)
    labels = np.concatenate([data.y_train, data.y_test])
    names = [str(name) for name in data.target_names]
    positive = [n.startswith(("sci.", "comp.")) or n == "misc.forsale" for n in names]
    y = np.isin(labels, np.asarray(data.classes)[positive]).astype(int)
    order = np.random.RandomState(0).permutation(len(y))
    cut = int(0.9 * len(y))
    tfidf = TfidfTransformer(sublinear_tf=True)
    X_train = tfidf.fit_transform(X[order[:cut]])
    return X_train, tfidf.transform(X[order[cut:]]), y[order[:cut]], y[order[cut:]]
