"""Pages on which the reader changes a row and sees the prediction."""

import json
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn import linear_model
from sklearn.base import BaseEstimator
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from vicinal._base import last_step
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._explanation import plain
from vicinal._base._tables import column_names, column_values, sampled_rows
from vicinal._base._wrappers import split_steps, split_threshold
from vicinal._kernels.calibration._conformal import conformal_quantile
from vicinal.inspection.colors import color_index
from vicinal.local import AnchoredLocalClassifier, AnchoredLocalRegressor
from vicinal.report._held_out import check_labels, with_column
from vicinal.report._page import Page
from vicinal.table import TableEncoder

_MOST_ROWS = 400


class ExplorerPage(Page):
    """Base class of the explorers: controls, initial rows and the decision rule.

    Parameters
    ----------
    model : estimator
        The fitted model; behind scikit-learn's ``FixedThresholdClassifier`` its threshold decides.
    table : data frame, array or None
        Rows to start from and to compare with.
    y : array-like of shape (n_samples,) or None
        Their target.
    title : str
        Heading of the page.
    target : str or None
        Name of the target.
    coverage : float
        Probability that an interval or set of labels contains the target.
    random_state : int, RandomState instance or None
        Seed of the sample of rows on the page.
    """

    template = "explorer.html"
    max_categories = 40
    encoder: Any = None  # the TableEncoder of the model

    def __init__(
        self,
        model: Any,
        table: Any,
        y: Any = None,
        *,
        title: str = "Explorer",
        target: str | None = None,
        coverage: float = 0.9,
        random_state: Any = 0,
    ) -> None:
        self.model, self.rule = split_threshold(model)
        self.name = type(last_step(self.model)).__name__
        self.table, self.title, self.target = table, title, target
        self.y = None if y is None else np.asarray(y)
        self.coverage, self.random_state = coverage, random_state

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the page as plain values.

        Returns
        -------
        dict
            ``title``, and ``data``: controls, rows, and the model.
        """
        columns = self.columns()
        n_rows = 0 if self.table is None else num_samples(self.table)
        kept = sampled_rows(n_rows, _MOST_ROWS, self.random_state).tolist()
        classes = getattr(self.model, "classes_", None)
        data = {
            "name": self.name,
            "target": self.target,
            "classes": None if classes is None else [plain(label) for label in classes],
            "colors": [] if classes is None else [color_index(k) for k in range(len(classes))],
            "controls": [column.control for column in columns],
            "numbers": kept,
            "rows": [[column.cell(i) for column in columns] for i in kept],
            "truth": None if self.y is None else [plain(self.y[i]) for i in kept],
            "coverage": self.coverage,
            "threshold": None if self.rule is None else self.rule._asdict(),
            "copied": None,
            **self.engine(columns),
        }
        return {"title": self.title, "data": data}

    def values(self) -> dict[str, list[Any]]:
        """Return the values of each column; what the encoder reads as numbers are numbers."""
        names = column_names(self.table)
        found = {name: column_values(self.table, j) for j, name in enumerate(names)}
        if self.encoder is not None:
            read = self.encoder.plain_columns(self.table)
            for name, kind in self.encoder.kinds_.items():
                if kind == "number" and any(isinstance(cell, str) for cell in found[name]):
                    cells = read[name].tolist()
                    found[name] = [None if np.isnan(number) else number for number in cells]
        return found

    def columns(self) -> list[Any]:
        """Return the controls of the columns."""
        return [
            ExplorerColumn(name, values, max_categories=self.max_categories)
            for name, values in self.values().items()
        ]

    def engine(self, columns: list[Any]) -> dict[str, Any]:
        """Return the arrays of the model; ``model`` is ``None`` where a server predicts."""
        return {"model": None}


class ExplorerColumn:
    """A column of the table: its control and its values.

    Parameters
    ----------
    name : str
        Its name.
    values : list
        Its values, ``None`` for a missing one.
    max_categories : int
        Largest number of categories of a menu; with more, the value is typed.
    as_categories : bool
        Treat numbers as categories.
    """

    def __init__(
        self, name: str, values: list[Any], *, max_categories: int, as_categories: bool = False
    ) -> None:
        self.values = values
        known = [value for value in values if value is not None]
        self.is_number = not as_categories and all(
            isinstance(value, int | float) for value in known
        )
        if not known:
            found: dict[str, Any] = {"kind": "unknown", "value": None if values else 0}
        elif self.is_number:
            found = _number_control(np.array(known, dtype=float))
        else:
            found = _category_control([str(value) for value in known], max_categories)
        self.control = {"name": name, **found, "is_used": True}

    def cell(self, i: int) -> Any:
        """Return a value in a type of JSON."""
        value = self.values[i]
        return plain(value) if self.is_number or value is None else str(value)


def _number_control(numbers: np.ndarray) -> dict[str, Any]:
    """Return the range of a column of numbers, and its median as the initial value."""
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return {"kind": "unknown", "value": None}
    low, middle, high = np.quantile(numbers, [0.0, 0.5, 1.0], method="nearest").tolist()
    is_whole = bool(np.all(numbers == np.round(numbers)))
    step = 1.0 if is_whole else (high - low) / 200 or 1.0
    limits = {"min": low, "max": high, "value": middle, "step": step}
    return {"kind": "number", **limits, "is_whole": is_whole}


def _category_control(texts: list[str], max_categories: int) -> dict[str, Any]:
    """Return the menu of a column of categories; many distinct strings are free text."""
    categories, counts = np.unique(texts, return_counts=True)
    if len(categories) > max_categories:
        return {"kind": "text", "value": texts[0]}
    usual = str(categories[counts.argmax()])
    return {"kind": "category", "categories": categories.tolist(), "value": usual}


def errors_of(model: Any, table: Any, y: Any) -> np.ndarray:
    """Return the conformity scores: absolute error, or one minus the probability of the label.

    Their quantiles give intervals and sets of labels with that coverage of new rows, if the model
    was not fitted to the table.
    """
    if not hasattr(model, "classes_"):
        return np.abs(np.asarray(y, dtype=float) - np.asarray(model.predict(table)))
    y = np.asarray(y)
    check_labels(y, model.classes_)
    proba = np.asarray(model.predict_proba(table))
    codes = np.searchsorted(model.classes_, y)
    return 1.0 - proba[np.arange(len(codes)), codes]


# --- a page that computes the model in the browser -----------------------------------------------

_LOGISTIC = (linear_model.LogisticRegression, linear_model.LogisticRegressionCV)
_STRAIGHT = (
    linear_model.LinearRegression,
    linear_model.Ridge,
    linear_model.RidgeCV,
    linear_model.Lasso,
    linear_model.ElasticNet,
)
_ANCHORED = (AnchoredLocalClassifier, AnchoredLocalRegressor)
_EUCLIDEAN = ("euclidean", "standardized", "ranked", "within_class", "gradient")


def split_encoder(model: Any) -> tuple[TableEncoder | None, list[StandardScaler], Any]:
    """Return the encoder, the scalers and the model of a pipeline; other steps are an error."""
    steps, last = split_steps(model)
    encoder = steps.pop(0) if steps and isinstance(steps[0], TableEncoder) else None
    if not all(type(step) is StandardScaler for step in steps):
        raise _NotInBrowserError
    return encoder, steps, last


def browser_model(model: Any) -> dict[str, Any]:
    """Return the arrays of a model.

    Raises
    ------
    _NotInBrowserError
        If a page cannot compute the model.
    """
    from vicinal.partition import SpacePartitioningClassifier, SpacePartitioningRegressor

    if isinstance(model, _LOGISTIC) and np.ndim(model.classes_) == 1:
        return _linear(
            model.coef_, model.intercept_, "softmax" if len(model.coef_) > 1 else "logit"
        )
    if isinstance(model, _STRAIGHT) and np.ndim(model.coef_) == 1:
        return _linear(model.coef_[None], np.reshape(model.intercept_, 1), "value")
    if isinstance(model, SpacePartitioningClassifier | SpacePartitioningRegressor):
        return {
            "kind": "partition",
            "scaler": None if model.scaler_ is None else scaler_part(model.scaler_),
            "cascades": [
                {
                    "soft": bool(cascade.soft),
                    "gates": [_gate(gate) for gate in cascade.gates],
                    "regions": [_region(region) for region in cascade.regions],
                }
                for cascade in model.restarts_
            ],
        }
    if isinstance(model, _ANCHORED):
        return _anchored(model)
    if isinstance(model, TreeCopy):
        return model.arrays()
    raise _NotInBrowserError


def scaler_part(scaler: StandardScaler) -> dict[str, Any]:
    """Return the mean and the scale of each column, 0 and 1 where the scaler has none."""
    n = scaler.n_features_in_
    mean = scaler.mean_ if scaler.with_mean and scaler.mean_ is not None else np.zeros(n)
    scale = scaler.scale_ if scaler.scale_ is not None else np.ones(n)
    return {"mean": mean.tolist(), "scale": scale.tolist()}


class _NotInBrowserError(Exception):
    """A page cannot compute the model, but a copy of it."""


def _linear(coef: Any, intercept: Any, link: str) -> dict[str, Any]:
    return {"kind": "linear", "link": link, "coef": coef.tolist(), "intercept": intercept.tolist()}


def _gate(gate: Any) -> dict[str, Any]:
    if hasattr(gate, "passes_on"):
        return {"coef": None, "intercept": 1.0 if gate.passes_on else -1.0}
    coef, intercept = _plane(gate)
    return {"coef": coef.ravel().tolist(), "intercept": float(np.ravel(intercept)[0])}


def _region(region: Any) -> dict[str, Any]:
    coef, intercept = _plane(region)
    coef = np.atleast_2d(coef)
    heat = float(getattr(region, "temperature_", 1.0))
    offsets = [float(b) if np.isfinite(b) else None for b in np.ravel(intercept)]
    if hasattr(region, "classes_") and len(coef) != len(region.classes_):
        raise _NotInBrowserError
    return {"coef": coef.tolist(), "intercept": offsets, "temperature": heat}


def _plane(stage: Any) -> tuple[np.ndarray, Any]:
    """Return the plane of a linear stage of the cascade itself; other learners are an error."""
    own = type(stage).__module__.startswith("vicinal.partition.")
    if not own or not hasattr(stage, "coef_"):
        raise _NotInBrowserError
    return np.asarray(stage.coef_, dtype=float), stage.intercept_


def _anchored(model: Any) -> dict[str, Any]:
    anchors, coordinates = model.anchors_, model.coordinates_
    is_named = isinstance(model.metric, str) and model.metric in _EUCLIDEAN
    if not is_named or model.metric_params or coordinates.transformer is not None:
        raise _NotInBrowserError
    warp, matrix, mask = coordinates.warp, coordinates.matrix, model.location_mask_
    if len(np.shape(anchors.values)) == 2 and not hasattr(model, "classes_"):
        if anchors.values.shape[1] > 1:
            raise _NotInBrowserError
    part = {
        "kind": "anchored",
        "located": None if mask is None else np.flatnonzero(mask).tolist(),
        "design": None if mask is None else np.flatnonzero(~mask).tolist(),
        "knots": None if warp is None else [[v.tolist(), s.tolist()] for v, s in warp.knots],
        "mean": None if coordinates.mean is None else np.asarray(coordinates.mean).tolist(),
        "matrix": None if matrix is None else np.asarray(matrix).tolist(),
        "centers": anchors.centers.tolist(),
        "origins": anchors.origins.tolist(),
        "values": anchors.values.tolist(),
        "slopes": anchors.slopes.tolist(),
        "n_blended": int(anchors.n_blended),
        "link": "value",
    }
    if hasattr(model, "classes_"):
        part["link"] = "score" if model.loss == "squared_error" else "margin"
        part["temperature"] = model.temperature_
    return part


# Rows that a copy of a model is fitted to, and checked on.
_COPIED_ROWS, _CHECKED_ROWS = 6000, 1000
_N_TREES = 400


class TreeCopy(BaseEstimator):
    """Boosted trees with the outputs of another model.

    Parameters
    ----------
    random_state : int, RandomState instance or None
        Seed of the trees.
    """

    def __init__(self, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(self, X: np.ndarray, outputs: np.ndarray, classes: Any = None) -> "TreeCopy":
        """Fit values, or probabilities of classes, one column each."""
        rng = check_random_state(self.random_state)
        if classes is not None:
            self.classes_ = classes
            outputs = np.log(np.clip(outputs, 1e-3, 1.0))
            if len(classes) == 2:
                outputs = outputs[:, 1:] - outputs[:, :1]
        self.boosters_ = [
            GradientBoostingRegressor(
                n_estimators=max(60, _N_TREES // outputs.shape[1]),
                max_depth=6,
                max_features=0.5,
                min_samples_leaf=5,
                subsample=0.5,
                random_state=rng.randint(2**31),
            ).fit(X, output)
            for output in outputs.T
        ]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the values of encoded rows."""
        return self.boosters_[0].predict(X)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the probabilities of encoded rows."""
        scores = np.column_stack([booster.predict(X) for booster in self.boosters_])
        if scores.shape[1] == 1:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        return softmax(scores, axis=1)

    def arrays(self) -> dict[str, Any]:
        """Return the nodes of the trees."""
        outputs = []
        for booster in self.boosters_:
            parts = []
            for tree in (one.tree_ for one in booster.estimators_[:, 0]):
                value = booster.learning_rate * tree.value[:, 0, 0]
                names = ("left", "right", "feature", "threshold", "value")
                nodes = tree.children_left, tree.children_right, tree.feature, tree.threshold, value
                parts.append({k: v.tolist() for k, v in zip(names, nodes, strict=True)})
            outputs.append({"start": float(np.ravel(booster.init_.constant_)[0]), "parts": parts})
        link = "softmax" if hasattr(self, "classes_") else "value"
        return {"kind": "trees", "link": link, "outputs": outputs}


def copy_of(model: Any, table: Any, random_state: Any) -> tuple[Pipeline, dict[str, Any]]:
    """Return a copy of a model for rows of mixed values, and how much its outputs differ."""
    rng = check_random_state(random_state)
    n, n_rows = num_samples(table), _COPIED_ROWS + _CHECKED_ROWS
    own = rng.randint(n, size=n_rows)
    rows = rows_of(table, own)
    share = 0.5 * rng.rand(n_rows) ** 2  # of the values that are those of other rows: few, mostly
    for j in range(table.shape[1]):
        other = np.where(rng.rand(n_rows) < share, rng.randint(n, size=n_rows), own)
        rows = with_column(rows, j, table, other)
    classes = getattr(model, "classes_", None)
    if classes is not None and hasattr(model, "predict_proba"):
        outputs = np.asarray(model.predict_proba(rows))
    else:
        outputs = np.asarray(model.predict(rows))[:, None]
        outputs = outputs.astype(float) if classes is None else outputs == classes
    encoder = TableEncoder().fit(rows)
    X = encoder.transform(rows)
    copy = TreeCopy(rng.randint(2**31)).fit(X[:_COPIED_ROWS], outputs[:_COPIED_ROWS], classes)
    own, X = outputs[_COPIED_ROWS:], X[_COPIED_ROWS:]
    found = copy.predict(X)[:, None] if classes is None else copy.predict_proba(X)
    quality = {
        "n_rows": _CHECKED_ROWS,
        "difference": float(np.abs(own - found).mean()),
        "changed": float((own.argmax(axis=1) != found.argmax(axis=1)).mean()),
    }
    return Pipeline([("encoder", encoder), ("copy", copy)]), quality


_MOST_BYTES = 30 * 2**20


class ExplorerReport(ExplorerPage):
    """A page on which the reader changes the columns of a row and sees the prediction.

    The page holds the model's arrays and computes in the browser: it needs neither a network nor
    Python. It shows the prediction with its interval, its response to each column, the nearest
    rows of the table, and counterfactuals that change one or two columns.

    Anchored local models, partitions with linear regions and linear models of scikit-learn, alone
    or behind :class:`~vicinal.table.TableEncoder` and scalers, are computed as they are. Of any
    other model, such as :class:`~vicinal.auto.AutoClassifier`, the page computes a copy made of
    boosted trees, and states how much its predictions differ.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor; in ``FixedThresholdClassifier`` its threshold decides.
    table : data frame or array of shape (n_samples, n_features)
        Rows to start from and to compare with.
    y : array-like of shape (n_samples,), default=None
        Their target, from which intervals and sets of labels are computed (split conformal); use
        rows that the model was not fitted to.
    title : str, default="Explorer"
        Heading of the page.
    target : str, default=None
        Name of the target.
    coverage : float, default=0.9
        Probability that an interval or set of labels contains the target.
    random_state : int, RandomState instance or None, default=0
        Seed of the sample of rows on the page, where there are more than 400.

    See Also
    --------
    vicinal.serve.serve : The same page, computed by a server.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import SpacePartitioningClassifier
    >>> from vicinal.report import ExplorerReport
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0).fit(X, y)
    >>> ExplorerReport(model, X, y).as_dict()["data"]["model"]["kind"]
    'partition'
    """

    max_categories = 1000

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the page as plain values.

        Returns
        -------
        dict
            ``title``, and ``data``: the model, the encoding of each column, controls, rows.
        """
        if not hasattr(self, "copied"):
            self.copied = self._copy()
        content = super().as_dict()
        if len(json.dumps(content)) > _MOST_BYTES:
            raise ValueError(
                f"{self.name} is too large for a page; fit it with fewer anchors or regions, or "
                "use `vicinal serve`."
            )
        return content

    def _copy(self) -> dict[str, Any] | None:
        """Copy a model that the page cannot compute; return how much the copy differs."""
        try:
            browser_model(split_encoder(self.model)[2])
        except _NotInBrowserError:
            self.model, quality = copy_of(self.model, self.table, self.random_state)
            return quality
        return None

    def columns(self) -> list[Any]:
        """Return the controls of the columns and their encoding."""
        self.encoder = split_encoder(self.model)[0]
        return [
            _EncodedColumn(self, j, name, values)
            for j, (name, values) in enumerate(self.values().items())
        ]

    def engine(self, columns: Any) -> dict[str, Any]:
        """Return the arrays of the model and the encoding of each column."""
        _, scalers, last = split_encoder(self.model)
        reach = None
        if self.y is not None:
            reach = conformal_quantile(errors_of(self.model, self.table, self.y), self.coverage)
        return {
            "model": browser_model(last),
            "columns": [column.encoding() for column in columns],
            "scalers": [scaler_part(scaler) for scaler in scalers],
            "reach": reach if reach is not None and np.isfinite(reach) else None,
            "copied": self.copied,
        }


class _EncodedColumn(ExplorerColumn):
    """A column, and how its cells become numbers.

    The encoder treats columns separately, so one row per category shows its encoding.
    """

    def __init__(self, page: ExplorerReport, j: int, name: str, values: list[Any]) -> None:
        self.table, self.encoder = page.table, page.encoder
        self.outputs, is_number = [j], True
        if self.encoder is not None:
            given = [str(output) for output in self.encoder.get_feature_names_out()]
            made = self.encoder.input_to_outputs_.get(name, [])
            self.outputs = [given.index(str(output)) for output in made]
            is_number = self.encoder.kinds_.get(name) == "number"
        super().__init__(
            name, values, max_categories=page.max_categories, as_categories=not is_number
        )
        self.control["is_used"] = bool(self.outputs)

    def encoding(self) -> dict[str, Any]:
        """Return the encoded columns, and the code of each category and of a missing value."""
        first: dict[str | None, int] = {}
        for i in range(len(self.values)):
            cell = self.cell(i)
            if not self.is_number or cell is None:
                first.setdefault(cell, i)
        if self.encoder is None or not self.outputs or not first:
            return {"at": self.outputs, "categories": None, "missing": None}
        rows = np.array(list(first.values()))
        block = np.asarray(self.encoder.transform(rows_of(self.table, rows)))[:, self.outputs]
        known = dict(zip(first, block.tolist(), strict=True))
        missing = known.pop(None, None)
        return {
            "at": self.outputs,
            "categories": None if self.is_number else known,
            "missing": missing,
        }
