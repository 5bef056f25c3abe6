"""Boosted symmetric trees, with categorical columns and missing values."""

from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from vicinal._base import (
    ArgmaxClassifierMixin,
    HeldOut,
    TrainingData,
    atomic_fit,
    column_mask,
    documented,
    fold_entries,
    held_out_by_folds,
    is_frame,
    query_rows,
    random_seeds,
    row_blocks,
    saved,
    store_parameters,
    thread_map,
    training_data,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._base._explanation import (
    ExplainRowMixin,
    ExplanationSection,
    by_source,
    show,
    two_best,
)
from vicinal._base._tables import column_names, column_values, is_missing
from vicinal._kernels.ensemble import _oblivious as kernels
from vicinal.ensemble._learners import column_share
from vicinal.ensemble._oblivious_rounds import Boosting, Path, Settings, joined, near, select_rounds

# Depths that "auto" chooses from.
_DEPTHS = (4, 6)
# From so many rows in classification, trees that leave nothing to chance are better on some tables.
_MANY_ROWS = 2000
# Numbers in the leaves of all runs, 2 MB.
_MAX_LEAVES = 500_000
# Rows whose codes stay in the cache while all trees are added.
_BLOCK = 1024


# --- tables with categorical columns ---


def _categorical_mask(X: Any, features: Any) -> np.ndarray:
    """Return which columns of a table are categorical."""
    if not isinstance(features, str):
        return column_mask(features, X.shape[1], column_names(X), "categorical_features")
    dtypes = X.dtypes if is_frame(X) else [None] * X.shape[1]
    return np.array([_is_categorical(dtype) for dtype in dtypes], dtype=bool)


def _is_categorical(dtype: Any) -> bool:
    """Whether a type of pandas or polars is one of categories or strings."""
    name = str(getattr(dtype, "name", dtype)).lower()
    return name.startswith(("category", "categorical", "enum", "object", "str"))


def _category_codes(values: list, known: Any) -> np.ndarray:
    """Return the index of each value among the known categories, NaN for missing and others."""
    codes = dict(zip(known, range(len(known)), strict=True))
    return np.array([codes.get(value, np.nan) for value in values], dtype=np.float64)


def _coded_frame(X: Any, mask: np.ndarray, categories: list) -> Any:
    """Return a frame with the index of its category in each categorical column."""
    columns, known = {name: X[name] for name in X.columns}, iter(categories)
    for name, is_coded in zip(X.columns, mask, strict=True):
        if is_coded:
            columns[name] = _category_codes(X[name].to_list(), next(known))
    return type(X)(columns)


def _seen_categories(X: Any, j: int) -> list:
    seen = {value for value in column_values(X, j) if not is_missing(value)}
    return sorted(seen, key=lambda value: (type(value).__name__, value))


@documented
class _ObliviousBoosting(ExplainRowMixin, BaseEstimator):
    r"""Gradient boosting of symmetric trees.

    Parameters
    ----------
    n_estimators : int, default=1000
        Largest number of rounds; with ``cv=None`` the number of rounds.
    learning_rate : float, default=0.05
        Factor of the leaf values of every tree.
    depth : int or "auto", default="auto"
        Levels of each tree; a tree has ``2 ** depth`` leaves. ``"auto"`` selects 4 or 6 by the loss
        on held-out rows (6 with ``cv=None``).
    l2_regularization : float, default=1.0
        Penalty :math:`\lambda` on squared leaf values.
    max_bins : int, default=64
        Largest number of bins of a numeric column. Missing values have a bin of their own, below
        all others.
    max_features : float or "auto", default="auto"
        Share of the columns, sampled for each level of each tree, that it may split. ``"auto"`` is
        0.3 in classification with ten columns or more, and 1.0 otherwise.
    bootstrap : bool or "auto", default="auto"
        Whether the splits of each tree are chosen by a random half of the rows. Leaf values use all
        rows. ``"auto"`` is true; in classification from 2,000 rows on, the held-out rows decide
        whether splits see half of the rows and a share of the columns, or all of both (if
        ``max_features="auto"``).
    categorical_features : array-like, "from_dtype" or None, default="from_dtype"
        Categorical columns: a mask, indices or names. ``"from_dtype"`` takes the columns of a frame
        that hold categories or strings, and none of an array.
    cv : int or None, default=5
        Folds whose held-out rows select the number of rounds, the depth and the bootstrap, with
        twice the learning rate and half of the rounds; the model is then fitted to all rows.
        ``None`` selects nothing.
    n_runs : int, default=4
        Runs whose scores are averaged, each with random numbers of its own: rows, columns,
        directions, and orders of the rows. One where nothing is random; fewer where the
        leaves of all runs would hold more than 500,000 numbers.
    n_iter_no_change : int, default=50
        The search for the number of rounds stops when the held-out loss has not fallen for this
        many rounds.
    n_jobs : int, default=None
        Folds at once, in threads, through joblib; ``None`` is one, unless
        ``joblib.parallel_config`` sets another number. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Folds, sampled rows and columns, directions of gradients and orders of the rows.

    Attributes
    ----------
    n_iter_ : int
        Number of trees of each run.
    depth_ : int
        Levels of each tree.
    validation_score_ : ndarray of shape (n_steps,) or None
        Mean held-out loss at the selected depth after each round of the search, which stands for
        two rounds of the model; ``None`` without folds.
    feature_importances_ : ndarray of shape (`n_features_in_`,)
        Share of each column in the gains of all splits.
    is_categorical_ : ndarray of bool of shape (`n_features_in_`,)
        Which columns are categorical.
    categories_ : list of ndarray
        Categories of each categorical column.
    intercept_ : ndarray of shape (n_scores,)
        Score before the first tree.
    baseline_ : ndarray of shape (n_scores,)
        Mean score of the training rows, from which Shapley values are counted.

    Notes
    -----
    All nodes of one level of a symmetric tree have the same split, so that the leaf of a row is a
    number of ``depth`` bits. With scores :math:`F`, gradients :math:`g_i` of the loss and
    :math:`u_i` two for the sampled rows and zero for others, each level takes the split that
    maximises

    .. math:: \sum_l \frac{\left(\sum_{i \in l} u_i w_i g_i\right)^2}
        {\sum_{i \in l} u_i w_i h_i + \lambda}

    over the leaves :math:`l` it leads to, where :math:`h_i` is the second derivative of the loss
    (with several scores, the gradients are projected on a random direction, as in [2]_, and second
    derivatives averaged).
    The values of the leaves minimise the penalised loss

    .. math:: \sum_{i \in l} w_i L(y_i, F_i + v_l) + \frac{\lambda}{2} \|v_l\|^2

    by Newton steps (the exact minimum for the squared error; for the quantile loss the quantile of
    the residuals times :math:`W_l / (W_l + \lambda)`), and :math:`F \leftarrow F + \nu v_l`. The
    scores of classes start at zero, and those of regression at the best constant: from the
    frequencies, the small curvature of a rare class would hold back the trees.

    A categorical column is replaced by a target statistic, as in [1]_: the mean target of the
    earlier rows of the same category in a random order of the rows, with a prior of one row. Each
    tree takes one of four orders. Queries get the statistic over all training rows; unknown
    categories are treated as missing ones. In regression, a column of up to 32 categories has an
    indicator of each category instead.

    References
    ----------
    .. [1] Prokhorenkova, Gusev, Vorobev, Dorogush, Gulin, "CatBoost: unbiased boosting with
       categorical features", NeurIPS 2018.
    .. [2] Iosipoi, Vakhrushev, "SketchBoost: fast gradient boosted decision tree for multioutput
       problems", NeurIPS 2022.
    .. [3] Lundberg et al., "From local explanations to global understanding with explainable AI for
       trees", Nature Machine Intelligence 2, 2020. :doi:`10.1038/s42256-019-0138-9`
    """

    _parameter_constraints: dict = {
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, 1, closed="right")],
        "depth": [Interval(Integral, 1, 8, closed="both"), StrOptions({"auto"})],
        "l2_regularization": [Interval(Real, 0, None, closed="neither")],
        "max_bins": [Interval(Integral, 2, 254, closed="both")],
        "max_features": [Interval(Real, 0, 1, closed="right"), StrOptions({"auto"})],
        "bootstrap": ["boolean", StrOptions({"auto"})],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "cv": [Interval(Integral, 2, None, closed="left"), None],
        "n_runs": [Interval(Integral, 1, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def _read(self, X, y, sample_weight, task: str) -> TrainingData:
        """Check the table and replace categories, which are stored, by their codes."""
        if not hasattr(X, "shape") or len(X.shape) != 2:
            X = np.asarray(X)
        self.is_categorical_, self.categories_, seen = np.zeros(0, dtype=bool), [], None
        if len(X.shape) == 2:
            self.is_categorical_ = _categorical_mask(X, self.categorical_features)
        columns = np.flatnonzero(self.is_categorical_)
        if is_frame(X) and len(columns):
            seen = [_seen_categories(X, int(j)) for j in columns]
            X = _coded_frame(X, self.is_categorical_, seen)
        data = training_data(self, X, y, sample_weight, task=task, ensure_all_finite="allow-nan")
        rows = np.array(data.X, dtype=np.float64)
        for number, j in enumerate(columns):  # codes from 0, without rows of weight zero
            known = ~np.isnan(rows[:, j])
            found, rows[known, j] = np.unique(rows[known, j], return_inverse=True)
            if seen is not None:
                found = np.array([seen[number][int(code)] for code in found], dtype=object)
            self.categories_.append(found)
        return replace(data, X=rows)

    def _settings(
        self, loss: int, n_scores: int = 1, level: float = 0.5, *, may_see_all: bool = False
    ) -> list[Settings]:
        """Return the settings to select from, one for each depth and way to choose splits."""
        depths = _DEPTHS[::-1] if self.depth == "auto" else (self.depth,)
        share = column_share(self) if self.max_features == "auto" else self.max_features
        ways = [(float(share), bool(self.bootstrap))]
        if may_see_all and self.bootstrap == "auto" and self.max_features == "auto":
            ways.append((1.0, False))
        rate = float(self.learning_rate)
        return [
            Settings(self, loss, level, n_scores, depth, rate, *way)
            for way in ways
            for depth in depths
        ]

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Select rounds, depth and bootstrap, and fit the trees.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Training rows; NaN is a missing value.
        """
        data, candidates = self._prepare(X, y, sample_weight)
        rng = check_random_state(self.random_state)
        settings, n_rounds, self.validation_score_ = candidates[0], self.n_estimators, None
        if self.cv is not None and len(data) >= 2 * self.cv:
            path = select_rounds(data, candidates, rng)
            settings, n_rounds, self.validation_score_ = path.settings, path.n_rounds, path.losses
        n_leaves = n_rounds * 2**settings.depth * settings.n_scores
        is_random = settings.bootstrap or settings.max_features < 1.0 or settings.n_scores > 1
        is_random = is_random or self.is_categorical_.any()
        n_runs = max(1, min(self.n_runs, _MAX_LEAVES // n_leaves)) if is_random else 1

        def run(seed: int) -> Boosting:
            return Boosting(data, None, settings, seed).advance(n_rounds)

        return self._store(data, thread_map(run, random_seeds(rng, n_runs), self.n_jobs))

    def held_out(self, X, y, *, folds, rows=None, sample_weight=None, groups=None) -> HeldOut:
        """Return predictions for each fold by trees that were fitted to the other folds.

        The folds select the number of rounds and the depth as in ``fit``, so that no further search
        is needed. Settings whose loss on the folds given first is clearly larger are dropped.

        Parameters
        ----------
        X, y
            As in ``fit``.
        folds : sequence of ndarray of int
            Rows of each fold.
        rows : ndarray of int, default=None
            Rows to predict; all by default.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        groups : array-like of shape (n_samples,), default=None
            Ignored: the folds keep groups together.

        Returns
        -------
        HeldOut
            A candidate for each setting and its predictions; those of further folds (``more``)
            include the folds before.
        """
        model = clone(self)
        data, candidates = model._prepare(X, y, sample_weight)
        if len(data) < len(y):  # rows of weight zero are predicted, too
            own = {"sample_weight": sample_weight, "rows": rows}
            method = "predict_proba" if hasattr(self, "predict_proba") else "predict"
            return held_out_by_folds(self, X, y, folds, method=method, **own)
        rng = check_random_state(self.random_state)
        paths = [Path(data, settings) for settings in candidates]

        def predict(folds) -> HeldOut:
            seeds = random_seeds(rng, len(folds))
            paths[:] = near([path.add(folds, seeds) for path in paths])
            entries = fold_entries(paths[0].folds, rows)
            predictions = [
                np.concatenate(
                    [
                        model._outputs(score[np.isin(fold, own)])
                        for score, fold, own in zip(path.scores(), path.folds, entries, strict=True)
                    ]
                )
                for path in paths
            ]
            chosen = "depth", "max_features", "bootstrap"
            settings = [
                {"cv": None, "n_estimators": path.n_rounds}
                | {name: getattr(path.settings, name) for name in chosen}
                for path in paths
            ]
            return HeldOut(settings, np.concatenate(entries), np.stack(predictions), more=predict)

        return predict(folds)

    def _store(self, data: TrainingData, runs: list[Boosting]):
        self.n_iter_, self.depth_ = len(runs[0].values), runs[0].settings.depth
        self.intercept_ = runs[0].intercept
        self._columns, rows = joined([run.codes.columns for run in runs])
        columns, codes, gains = zip(*(split for run in runs for split in run.splits), strict=True)
        own = np.repeat(np.arange(len(runs)), self.n_iter_)[:, None]
        self._split_columns, self._split_codes = rows[own, np.stack(columns)], np.stack(codes)
        values = np.concatenate([run.values for run in runs]) / len(runs)
        is_usual = values.size == 0 or not values.any() or 1e-30 < np.abs(values).max() < 1e30
        self._values = values.astype(np.float32) if is_usual else values
        shares = np.zeros(self._values.shape[:2])
        weights = data.weights / data.weights.sum()
        own = self._columns(data.X)
        kernels.count_leaves(own, self._split_columns, self._split_codes, weights, shares)
        self._shares = shares.astype(np.float32)
        self.baseline_ = self.intercept_ + np.einsum("tl,tlk->k", shares, self._values)
        sources = self._columns.sources[self._split_columns]
        total = np.bincount(sources.ravel(), np.concatenate(gains), self.n_features_in_)
        self.feature_importances_ = total / total.sum() if total.sum() > 0 else total
        return self

    def _tree_arrays(self):
        """Return edges and sources of the columns, and columns, codes and values of the trees."""
        columns = self._columns
        return columns.edges, columns.sources, self._split_columns, self._split_codes, self._values

    def _codes(self, X):
        """Return the codes of query rows, and the type of their numbers."""
        check_is_fitted(self)
        if self._values.shape[1] != 2 ** self._split_columns.shape[1]:
            raise ValueError("the number of leaves must be 2 to the power of the depth.")
        is_coded = is_frame(X) and X.shape[1] == self.n_features_in_ and self.is_categorical_.any()
        if is_coded:
            X = _coded_frame(X, self.is_categorical_, self.categories_)
        rows = query_rows(self, X, ensure_all_finite="allow-nan")
        if not is_coded and self.is_categorical_.any():
            rows = rows.copy()
            for j, known in zip(self.is_categorical_.nonzero()[0], self.categories_, strict=True):
                rows[:, j] = _category_codes(rows[:, j].tolist(), known)
        return self._columns(rows), rows.dtype

    def _raw_scores(self, X):
        codes, dtype = self._codes(X)
        score = np.tile(self.intercept_, (codes.shape[1], 1))
        for block in row_blocks(len(score), 8 * len(codes), max_rows=_BLOCK):
            part = np.ascontiguousarray(codes[:, block])
            kernels.add_trees(
                part, self._split_columns, self._split_codes, self._values, score[block]
            )
        return score, dtype

    def shapley_values(self, X):
        """Exact Shapley values of the columns, with the training rows as background.

        The values of a row and ``baseline_`` add up to its score: the log-odds of the second class,
        one score per class with more than two, or the prediction of a regressor. They are
        interventional: the value of a set of columns is the mean score over the training rows after
        these columns are replaced by those of the query.

        Returns
        -------
        values : ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_classes)
            Contribution of each column.
        """
        codes, _ = self._codes(X)
        out = np.zeros((codes.shape[1], self.n_features_in_, len(self.intercept_)))
        trees = self._split_columns, self._split_codes, self._columns.sources
        for i, row in enumerate(out):
            own = np.ascontiguousarray(codes[:, i : i + 1])
            kernels.shapley_values(own, *trees, self._values, self._shares, row)
        return out[..., 0] if out.shape[2] == 1 else out

    def _sections(self, X, columns):
        values, score = self.shapley_values(X)[0], self._raw_scores(X)[0][0]
        base, target = self.baseline_, "the prediction"
        if values.ndim == 2:
            first, second = two_best(score)
            values, base = values[:, first] - values[:, second], base[[first]] - base[[second]]
            score = score[[first]] - score[[second]]
            names = show(self.classes_[first]), show(self.classes_[second])
            target = f"the score of {names[0]} less that of {names[1]}"
        elif hasattr(self, "classes_"):
            chosen = int(score[0] > 0.0)
            sign = 1.0 if chosen else -1.0
            values, base, score = sign * values, sign * base, sign * score
            target = f"the log-odds of {show(self.classes_[chosen])}"
        summary = (
            f"Over the training rows, {target} is {show(float(base[0]))} on average; the "
            f"contributions of the columns (Shapley values) lead to {show(float(score[0]))}."
        )
        parts = by_source(columns, values)
        cells = zip(columns.names, columns.sources, columns.values, strict=True)
        shown = {name if source is None else source: value for name, source, value in cells}
        rows = [(name, shown[name], part) for name, part in parts.items()]
        numbers = {"baseline": float(base[0]), "score": float(score[0])}
        head = "column", "value", "contribution"
        section = "contributions", "Contributions", summary, head, rows, head[-1], numbers
        return [ExplanationSection(*section)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


_SHAPES = {
    "intercept_": "k",
    "baseline_": "k",
    "_columns.sources": "q <p",
    "_split_columns": "t d <q",
    "_split_codes": "t d",
    "_values": "t l k",
    "_shares": "t l",
    "is_categorical_": "p",
}


@saved(classes_="c labels", **_SHAPES)
@documented
class ObliviousBoostingClassifier(ArgmaxClassifierMixin, _ObliviousBoosting):
    """Gradient boosting of symmetric trees, for classes.

    All nodes of a level have the same split. Such trees are strongly regularised, predictions take
    a few microseconds, and the contributions of the columns are exact. Categorical columns and
    missing values need no preparation; the number of rounds and the depth are selected on held-out
    rows.

    Read more in the :doc:`user guide </guide/ensemble>`.

    See Also
    --------
    ObliviousBoostingRegressor : The same for regression.
    FunctionalGradientBoostingClassifier : Boosting of any regressor by any loss.
    sklearn.ensemble.HistGradientBoostingClassifier : Boosting of trees that grow leaf by leaf.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from vicinal.ensemble import ObliviousBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ObliviousBoostingClassifier(random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.93
    True
    """

    def __init__(
        self,
        n_estimators=1000,
        *,
        learning_rate=0.05,
        depth="auto",
        l2_regularization=1.0,
        max_bins=64,
        max_features="auto",
        bootstrap="auto",
        categorical_features="from_dtype",
        cv=5,
        n_runs=4,
        n_iter_no_change=50,
        n_jobs=None,
        random_state=None,
    ):
        store_parameters(self, locals())

    def _prepare(self, X, y, sample_weight):
        data = self._read(X, y, sample_weight, "classification")
        self.classes_ = data.classes
        n = len(data.classes)
        loss = (kernels.LOGISTIC, 1) if n == 2 else (kernels.MULTINOMIAL, n)
        return data, self._settings(*loss, may_see_all=len(data) >= _MANY_ROWS)

    def decision_function(self, X):
        """Raw scores: log-odds for two classes, one column per class for more."""
        score, dtype = self._raw_scores(X)
        return (score[:, 0] if score.shape[1] == 1 else score).astype(dtype, copy=False)

    def predict_proba(self, X):
        """Probabilities of the classes."""
        score, dtype = self._raw_scores(X)
        return self._outputs(score).astype(dtype, copy=False)

    def _outputs(self, score):
        if score.shape[1] > 1:
            return softmax(score, axis=1)
        second = expit(score[:, 0])
        return np.column_stack([1.0 - second, second])


@saved(**_SHAPES)
@documented
class ObliviousBoostingRegressor(RegressorMixin, _ObliviousBoosting):
    r"""Gradient boosting of symmetric trees, for regression.

    All nodes of a level have the same split. Such trees are strongly regularised, predictions take
    a few microseconds, and the contributions of the columns are exact. Categorical columns and
    missing values need no preparation; the number of rounds and the depth are selected on held-out
    rows.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    n_estimators : int, default=1400
        Largest number of rounds; with ``cv=None`` the number of rounds.
    learning_rate : float, default=0.1
        Factor of the leaf values of every tree.
    l2_regularization : float, default=3.0
        Penalty :math:`\lambda` on squared leaf values.
    max_bins : int, default=128
        Largest number of bins of a numeric column: where targets have little noise, predictions
        gain from fine bins.
    n_runs : int, default=3
        Runs whose scores are averaged, each with random numbers of its own; see
        :class:`ObliviousBoostingClassifier`.
    n_iter_no_change : int, default=75
        The search for the number of rounds stops when the held-out loss has not fallen for this
        many rounds.
    loss : {"squared_error", "absolute_error", "quantile"}, default="squared_error"
        Loss; the prediction is the conditional mean, median or quantile.
    quantile : float, default=0.5
        Level of ``loss="quantile"``.

    See Also
    --------
    ObliviousBoostingClassifier : The same for classification.
    FunctionalGradientBoostingRegressor : Boosting of any regressor by any loss.
    sklearn.ensemble.HistGradientBoostingRegressor : Boosting of trees that grow leaf by leaf.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from vicinal.ensemble import ObliviousBoostingRegressor
    >>> X, y = make_friedman1(n_samples=400, noise=1.0, random_state=0)
    >>> model = ObliviousBoostingRegressor(random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.8
    True
    """

    _parameter_constraints: dict = {
        **_ObliviousBoosting._parameter_constraints,
        "loss": [StrOptions({"squared_error", "absolute_error", "quantile"})],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        n_estimators=1400,
        *,
        loss="squared_error",
        quantile=0.5,
        learning_rate=0.1,
        depth="auto",
        l2_regularization=3.0,
        max_bins=128,
        max_features="auto",
        bootstrap="auto",
        categorical_features="from_dtype",
        cv=5,
        n_runs=3,
        n_iter_no_change=75,
        n_jobs=None,
        random_state=None,
    ):
        store_parameters(self, locals())

    def _prepare(self, X, y, sample_weight):
        loss = kernels.SQUARED if self.loss == "squared_error" else kernels.QUANTILE
        level = 0.5 if self.loss == "absolute_error" else self.quantile
        data = self._read(X, y, sample_weight, "regression")
        return data, self._settings(loss, level=level)

    def _outputs(self, score):
        return score

    def predict(self, X):
        """Predict the target."""
        score, dtype = self._raw_scores(X)
        return score[:, 0].astype(dtype, copy=False)
