"""A fitted model on a table, or a comparison of models, as one HTML file that needs no network."""

import math
import os
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from vicinal._base import Progress, _clock, counted
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._explanation import plain
from vicinal._base._held_out import OutOfFold
from vicinal._base._tables import sampled_rows
from vicinal._base._unseen import unreported
from vicinal._base._wrappers import split_steps, split_threshold, unseen_values
from vicinal.inspection import check, explain
from vicinal.inspection.checks import EncodedTable, profile
from vicinal.inspection.results import Comparison, Explanation, TableCheck
from vicinal.report import _quality, _table, results
from vicinal.report._held_out import HeldOutPredictions, effects, held_out_predictions, importance
from vicinal.report._page import Axis, Page, number, percent

_MAP_ROWS = 800
_OVERVIEW_ROWS = 4000
_BACKGROUND_ROWS = 200
_SHUFFLED_ROWS = 400
_CHECKED_ROWS, _CHECKED_COLUMNS, _FOUND_LINES = (10, 10_000), 300, 6  # rows: least, most
# Shares of the time budget; explanations of rows get the rest.
_IMPORTANCE_SHARE, _EFFECTS_SHARE = 0.25, 0.15


@dataclass(eq=False, repr=False)
class ModelReport(Page):
    """Report of one model: scores, importance of columns, uncertain rows, explanations.

    All parts use the same held-out predictions.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one; behind scikit-learn's
        ``FixedThresholdClassifier`` or ``TunedThresholdClassifierCV`` the threshold decides.
    X : data frame or array of shape (n_samples, n_features)
        The rows of the report.
    y : array-like of shape (n_samples,), default=None
        Their target; without it, only uncertainty and explanations are shown.
    title : str, default="Report"
        Heading of the page.
    target : str, default="target"
        Name of the target.
    positive : label, default=None
        Of two classes, the one whose probability is shown; ``None`` is the class of the model's
        threshold, without one the second class.
    out_of_fold : OutOfFold, default=None
        Held-out predictions, as a comparison stores them. ``None`` uses the predictions of
        ``model``, so ``X`` should be rows that it was not fitted to.
    unseen : array-like of int, default=None
        Rows of ``X`` that ``model`` was not fitted to: explanations, importance and effects use
        them. ``None`` is all rows.
    seen : array-like of int, default=None
        Rows of ``X`` that ``model`` was fitted to, in that order: neighbours are then shown by
        their position in ``X``, with their values. ``None`` shows positions in the training set.
    n_explained : int, default=24
        How many rows are explained: half of them the most uncertain, half at random.
    time_budget : float, default=60
        Seconds for importance, effects and explanations together.
    notes : sequence of str, default=()
        Remarks, shown below the heading.
    random_state : int, RandomState instance or None, default=0
        Seed of the rows in the plots.
    verbose : int, default=0
        Whether to show progress.

    See Also
    --------
    write_html : Write this page, or a leaderboard with it, to a file.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import SpacePartitioningClassifier
    >>> from vicinal.report import ModelReport
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0)
    >>> report = ModelReport(model.fit(X[::2], y[::2]), X[1::2], y[1::2], n_explained=2)
    >>> len(report.as_dict()["explanations"])
    2
    """

    model: Any
    X: Any
    y: Any = None
    _: KW_ONLY
    title: str = "Report"
    target: str = "target"
    positive: Any = None
    out_of_fold: OutOfFold | None = None
    unseen: Any = None
    seen: Any = None
    n_explained: int = 24
    time_budget: float = 60.0
    notes: Any = ()
    random_state: Any = 0
    verbose: int = 0

    def __post_init__(self) -> None:
        self.y = None if self.y is None else np.asarray(self.y)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the page as plain values.

        Returns
        -------
        dict
            One entry per part of the page; empty parts are ``None`` or absent.
        """
        n_steps = 4 + min(self.n_explained, num_samples(self.X))
        with unreported(), Progress(n_steps, "report", verbose=self.verbose) as progress:
            return self._content(progress)

    def _content(self, progress: Progress) -> dict[str, Any]:
        end = _clock.now() + self.time_budget
        found = held_out_predictions(self.model, self.X, self.out_of_fold, self.unseen, self.y)
        progress.advance(note="predictions")
        unlike = [] if self.out_of_fold else unseen_values(self.model, self.X)
        content: dict[str, Any] = {
            "title": self.title,
            "target": self.target,
            "notes": [*map(str, self.notes), *(f"unlike the training rows, {f}" for f in unlike)],
            "model": type(split_steps(self.model)[1]).__name__,
            "task": "regression" if found.classes is None else "classification",
            "classes": [] if found.classes is None else [str(label) for label in found.classes],
            "n_rows": num_samples(self.X),
            "is_out_of_fold": self.out_of_fold is not None,
        }
        if found.y is not None:
            content |= self._scores(found.predictions, found.y)
            if not sparse.issparse(self.X):
                content |= self._columns(found)
                progress.advance(note="importance of columns")
                content["findings"] = self._findings(found) if _clock.now() < end else []
        progress.advance(3 - progress.done, note="findings")
        content["explanations"] = self._explanations(self._chosen(found), end, progress)
        explained = {part["row"] for part in content["explanations"]}
        content["uncertain"] = self._uncertain(found, explained)
        content |= self._overview(found, explained)
        content["summary"] = self._summary(content, found)
        progress.advance(progress.total - progress.done, note="overview")
        return content

    def _summary(self, content: dict[str, Any], found: HeldOutPredictions) -> list[dict[str, str]]:
        """Return the main facts: target, rows, model, score and baseline, columns, warnings."""
        facts = [("model", content["model"])]
        if found.y is not None:
            name, value = next(iter(content["facts"].items()))
            if found.classes is None:
                facts.append((name, number(value)))
            else:
                low, high = _quality.wilson(value, len(found.y))
                most = np.unique(found.y, return_counts=True)[1].max() / len(found.y)
                facts.append((name, f"{percent(value)} ({percent(low)} to {percent(high)})"))
                facts.append(("most frequent class", percent(most)))
        n_rows, n_columns = np.shape(self.X)
        size = f"{number(n_rows)} rows, {counted(n_columns, 'column')}"
        return _summary_items(content, size, facts, content["notes"])

    # --- parts of the page ---

    def _positive(self, classes: Any) -> int:
        if self.positive is None:
            rule = split_threshold(self.model)[1]
            return 1 if rule is None else rule.code
        found = np.flatnonzero(np.asarray(classes) == self.positive)
        if len(found) != 1:
            raise ValueError(f"positive={self.positive!r} is none of the classes {list(classes)}.")
        return int(found[0])

    def _scores(self, predictions: OutOfFold, y: np.ndarray) -> dict[str, Any]:
        if predictions.classes is None:
            return {
                "facts": _quality.regression_facts(y, predictions.prediction),
                "residuals": _quality.residuals(
                    y, predictions.prediction, self._sample(len(y), _MAP_ROWS)
                ),
                "coverage": _quality.coverage(y, predictions.prediction, self._rng()),
            }
        rule = split_threshold(self.model)[1]
        parts: dict[str, Any] = {
            "confusion": _quality.confusion(y, predictions.prediction, predictions.classes, rule)
        }
        if predictions.proba is None:
            parts["facts"] = {"accuracy": float(np.mean(predictions.prediction == y))}
            return parts
        given = y, predictions.proba, predictions.classes
        positive = self._positive(predictions.classes)
        in_use = None
        if rule is not None:
            # The threshold of the other class, in terms of this class.
            in_use = rule.value if rule.code == positive else 1.0 - rule.value
        return parts | {
            "facts": _quality.classification_facts(*given, predictions.prediction, rule),
            "calibration": _quality.calibration(*given, positive),
            "ranking": _quality.ranking(*given, positive),
            "thresholds": _quality.thresholds(*given, positive, in_use),
        }

    def _columns(self, held_out: HeldOutPredictions) -> dict[str, Any]:
        """Return importance of the columns and partial dependence."""
        rows = held_out.unseen[self._sample(len(held_out.unseen), _SHUFFLED_ROWS)]
        if len(rows) < 2 or held_out.y is None:
            return {"importance": None}
        X, y = rows_of(self.X, rows), held_out.y[held_out.at(rows)]
        found = importance(held_out, X, y, self._rng(), _IMPORTANCE_SHARE * self.time_budget)
        if found is None:
            return {"importance": None}
        clear = [row["column"] for row in found["rows"] if row["is_clear"]]
        positive = 0 if held_out.classes is None else self._positive(held_out.classes)
        curves = effects(held_out, X, clear, positive, _EFFECTS_SHARE * self.time_budget)
        return {"importance": found, "effects": curves}

    def _findings(self, held_out: HeldOutPredictions) -> list[dict[str, Any]]:
        """Return findings about the table; labels are judged by the predictions of the page."""
        predictions = held_out.predictions
        n_rows, n_columns = np.shape(self.X)
        few, many = _CHECKED_ROWS
        if not few <= len(predictions.rows) == n_rows <= many or n_columns > _CHECKED_COLUMNS:
            return []
        task = "regression" if predictions.classes is None else "classification"
        y: Any = self.y
        predicted: Any = predictions.prediction
        if predictions.classes is not None:
            # Rows may have some of the classes only; with one class, labels cannot be judged.
            present = np.isin(predictions.classes, y)
            predicted = None if predictions.proba is None else predictions.proba[:, present]
            y = y if present.sum() > 1 else None
        predicted = None if y is None else predicted
        found = check(self.X, y, held_out=predicted, task=task, random_state=self.random_state)
        return [part for part in results.finding_parts(found, _FOUND_LINES) if part["found"]]

    def _chosen(self, held_out: HeldOutPredictions) -> np.ndarray:
        """Select rows to explain: half of them the most uncertain, half at random."""
        uncertainty = held_out.uncertainty[held_out.at(held_out.unseen)]
        order = held_out.unseen[np.argsort(-uncertainty, kind="stable")]
        n_rows = min(self.n_explained, len(order))
        worst, others = np.split(order, [n_rows - n_rows // 2])
        sampled = self._rng().choice(np.sort(others), n_rows // 2, replace=False)
        return np.concatenate([worst, np.sort(sampled)]).astype(int)

    def _uncertain(self, held_out: HeldOutPredictions, explained: set[int]) -> list[dict[str, Any]]:
        if not held_out.uncertainty.any():
            return []
        predictions, parts = held_out.predictions, []
        for at in np.argsort(-held_out.uncertainty, kind="stable")[:12].tolist():
            row = int(predictions.rows[at])
            proba = None if predictions.proba is None else predictions.proba[at]
            truth = None if held_out.y is None else plain(held_out.y[at])
            part = results.prediction_part(
                row, truth, predictions.prediction[at], held_out.classes, proba
            )
            parts.append(part | {"is_explained": row in explained})
        return parts

    def _explanations(
        self, rows: np.ndarray, end: float, progress: Progress
    ) -> list[dict[str, Any]]:
        """Explain the rows, with comparisons to background rows as far as time allows."""
        others = np.setdiff1d(self._sample(num_samples(self.X), _BACKGROUND_ROWS), rows)
        background = rows_of(self.X, others) if len(others) > 1 else None
        cost, started = _background_cost(self.model, background), _clock.now()
        # The first row shows the cost of a row without comparisons, which all rows shall have.
        parts = [self._explanation(row, None) for row in rows[:1].tolist()]
        plain_cost = _clock.now() - started
        for at, row in enumerate(rows.tolist()):
            started = _clock.now()
            if started + cost + plain_cost * (len(rows) - at - 1) < end:
                parts[at:] = [self._explanation(row, background)]
                cost = max(cost, _clock.now() - started)
            elif at and started < end:
                parts.append(self._explanation(row, None))
            progress.advance(note=f"row {row}")
        return parts

    def _explanation(self, row: int, background: Any) -> dict[str, Any]:
        X_train = None if self.seen is None or background is None else rows_of(self.X, self.seen)
        found = explain(
            self.model,
            rows_of(self.X, slice(row, row + 1)),
            background=background,
            X_train=X_train,
            target_name=self.target,
        )
        truth = None if self.y is None else plain(self.y[row])
        return results.explanation_part(found, row, truth, self.seen)

    def _overview(self, held_out: HeldOutPredictions, explained: set[int]) -> dict[str, Any]:
        """Return profile of the table, uncertainty map, error by segment, and regions."""
        at = self._sample(len(held_out.predictions.rows), _OVERVIEW_ROWS)
        at = np.union1d(at, held_out.at(sorted(explained))).astype(int)
        rows = held_out.predictions.rows[at]
        X = rows_of(self.X, rows)
        X = X.toarray() if sparse.issparse(X) else X
        y = None if held_out.y is None else held_out.y[at]
        try:
            encoded = EncodedTable(X)
        except ValueError:  # all rows are equal
            return {}
        content: dict[str, Any] = {"profile": profile(X, encoded, y, self.target)}
        if y is not None:
            is_share = held_out.classes is not None
            errors = held_out.errors[at]
            content["segments"] = _table.segments(encoded, errors, is_share, self._rng())
        shown = held_out.predictions.prediction[at] if y is None else y
        uncertainty = held_out.uncertainty[at]
        content["map"] = self._map(encoded, shown, rows, uncertainty, held_out.classes, explained)
        steps, last = split_steps(self.model)
        if hasattr(last, "n_regions_") and hasattr(last, "apply"):
            table, names = _encoded(steps, rows_of(self.X, rows))
            content["regions"] = _table.regions(last, table, y, names)
        return content

    def _map(self, encoded, y, rows, uncertainty, classes, explained) -> dict[str, Any] | None:
        if len(np.unique(y)) < 2 or len(rows) < 10 or not encoded.Z.shape[1]:
            return None
        by_class = classes is not None
        plane, axes = _table.flat_picture(encoded.Z, y, by_class, encoded.names)
        if by_class:
            size, meaning = uncertainty, "the more uncertain its prediction is"
            codes = np.searchsorted(classes, y)
        else:
            size, meaning = uncertainty / (uncertainty.max() or 1.0), "the larger its error is"
            codes = np.digitize(y, np.quantile(y, [0.2, 0.4, 0.6, 0.8]))
        keep = np.argsort(~np.isin(rows, list(explained)), kind="stable")[:_MAP_ROWS]
        points = [
            {
                "row": int(rows[i]),
                "x": float(plane[i, 0]),
                "y": float(plane[i, 1]),
                "uncertainty": float(size[i]),
                "code": int(codes[i]),
                "label": str(plain(y[i])),
                "is_explained": int(rows[i]) in explained,
            }
            for i in keep.tolist()
        ]
        # Uncertain rows come last, on top; explained ones above all.
        points.sort(key=lambda point: (point["is_explained"], point["uncertainty"]))
        about = {"meaning": meaning, "by_class": by_class, "axes": axes, "n_rows": len(points)}
        return {"points": points, **about}

    def _rng(self) -> np.random.RandomState:
        return check_random_state(self.random_state)

    def _sample(self, n: int, at_most: int) -> np.ndarray:
        return sampled_rows(n, at_most, self.random_state)


def _background_cost(model: Any, background: Any) -> float:
    """Estimate the seconds of one explanation with background: a hundred predictions of it."""
    if background is None:
        return np.inf
    started = _clock.now()
    model.predict(background)
    return 100 * (_clock.now() - started)


def _encoded(steps: list[Any], X: Any) -> tuple[Any, list[str]]:
    """Return the rows as the last model takes them, dense, and the names of those columns."""
    names = [str(name) for name in getattr(X, "columns", [])]
    for step in steps:
        given = None if hasattr(step, "feature_names_in_") or not names else names
        X = step.transform(X)
        names = [str(name) for name in step.get_feature_names_out(given)]
    X = X.toarray() if hasattr(X, "toarray") else X
    return X, names if len(names) == X.shape[1] else [f"x{j}" for j in range(X.shape[1])]


# Scorers whose name on a page is another.
_NAMES = {"r2": "R²", "roc_auc": "ROC AUC"}


@dataclass(eq=False, repr=False)
class ComparisonReport(Page):
    """A page that shows a comparison of models.

    Parameters
    ----------
    comparison : Comparison
        What :func:`vicinal.inspection.compare` returned.
    title : str
        Heading of the page, usually the name of the table.
    detail : ModelReport, default=None
        A report of one of the models, shown below the leaderboard.
    """

    comparison: Comparison
    title: str
    detail: ModelReport | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the page as plain values.

        Returns
        -------
        dict
            ``leaderboard``, ``title`` and the parts of ``detail``.
        """
        detail = {} if self.detail is None else self.detail.as_dict()
        scored = [entry for entry in self.comparison.entries if len(entry.scores)]
        content = {**detail, "title": self.title, "leaderboard": self._leaderboard(scored)}
        shown = None if self.detail is None else self.detail.out_of_fold
        entry = next((part for part in scored if part.out_of_fold is shown), None)
        if entry is not None and "facts" in content:
            # One score, one value: the leaderboard's mean over folds, not that of all rows.
            name = self._metric()
            content["score"] = {"name": name, "value": self.comparison.sign * entry.mean}
            content["facts"] = {k: v for k, v in content["facts"].items() if k != name}
            content["model"] = entry.name
        content["summary"] = self._summary(content, scored) if scored else []
        return content

    def _summary(self, content: dict[str, Any], scored: list[Any]) -> list[dict[str, str]]:
        """Return the main facts: target, rows, best model, gain over the baseline, columns."""
        board, best = self.comparison, scored[0]
        error = f" ± {2 * _spread(best):.3g} (2 se)" if _spread(best) else ""
        found = [
            ("best model", best.name),
            (self._metric(), f"{board.sign * best.mean:.4g}{error}"),
        ]
        baseline = next((entry for entry in scored if entry.name in _BASELINES), None)
        if baseline is not None and baseline is not best:
            common = sorted(set(best.folds) & set(baseline.folds))
            gains = [_score_of(best, k) - _score_of(baseline, k) for k in common]
            text = f"{np.mean(gains):.4g}" if gains else ""
            if len(gains) > 1:
                text += f" ± {2 * np.std(gains, ddof=1) / len(gains) ** 0.5:.3g} (2 se)"
            found.append((f"gain over {baseline.name}", text))
        size = f"{number(board.n_samples)} rows, {counted(board.n_features, 'column')}"
        return _summary_items(content, size, found, [board.warning] if board.warning else [])

    def _metric(self) -> str:
        return _NAMES.get(self.comparison.metric, self.comparison.metric_label)

    def _leaderboard(self, scored: list[Any]) -> dict[str, Any]:
        board = self.comparison
        ends = [board.sign * entry.mean + k * _spread(entry) for entry in scored for k in (-2, 2)]
        margin = 0.03 * np.ptp(ends) if ends else 0.0
        axis = Axis([end + k * margin for end in ends for k in (-1, 1)], self._metric())
        return {
            "metric": self._metric(),
            "direction": "higher" if board.sign > 0 else "lower",
            "n_folds": board.n_folds,
            "n_samples": board.n_samples,
            "n_features": board.n_features,
            "warning": board.warning,
            "axis": axis.as_dict(),
            "rows": [
                _leaderboard_row(rank, entry, axis, board)
                for rank, entry in zip(board.ranks, board.entries, strict=True)
            ],
        }


# Names of the constant models of `compare`.
_BASELINES = ("most frequent class", "mean")


def _score_of(entry, fold: int) -> float:
    return float(entry.scores[entry.folds.index(fold)])


def _summary_items(
    content: dict[str, Any], size: str, found: list[tuple[str, str]], warnings: list[str]
) -> list[dict[str, str]]:
    """Return the items of the summary; empty ones are skipped."""
    n_classes = len(content.get("classes", ()))
    kind = f"{n_classes} classes" if n_classes else "regression"
    target = content.get("target")
    importance = content.get("importance") or {"rows": []}
    main = [row["name"] for row in importance["rows"] if row["is_clear"]][:3]
    warnings = warnings + [part["title"].lower() for part in content.get("findings", ())]
    items = [
        ("target", f"{target} ({kind})" if target else ""),
        ("table", size),
        *found,
        ("most important columns", ", ".join(main)),
        ("warnings", "; ".join(warnings)),
    ]
    return [{"name": name, "text": text} for name, text in items if text]


def _spread(entry) -> float:
    return 0.0 if math.isnan(entry.standard_error) else entry.standard_error


def _leaderboard_row(rank, entry, axis, board) -> dict[str, Any]:
    scored = len(entry.scores) > 0
    score, spread = board.sign * entry.mean, _spread(entry)
    low, at, high = axis.at([score - 2 * spread, score, score + 2 * spread] if scored else [0] * 3)
    return {
        "rank": rank,
        "name": entry.name,
        "error": entry.error,
        "note": entry.note,
        "is_scored": scored,
        "n_folds": len(entry.scores),
        "score": score,
        "standard_error": spread,
        "fit_seconds": entry.fit_seconds,
        "predict_seconds": entry.predict_seconds,
        "at": round(100.0 * at, 2),
        "low": round(100.0 * low, 2),
        "width": round(100.0 * (high - low), 2),
    }


def write_html(
    result: Any,
    path: str | os.PathLike,
    *,
    title: str | None = None,
    notes: Any = (),
    detail: ModelReport | None = None,
) -> Path:
    """Write a result as one HTML file that loads nothing from the network.

    Parameters
    ----------
    result : object
        What :func:`~vicinal.inspection.explain`, :func:`~vicinal.inspection.compare` or
        :func:`~vicinal.inspection.check` returned, or a :class:`ModelReport`.
    path : path-like
        File to write. It is complete, or it is not there.
    title : str, default=None
        Heading of the page; ``None`` uses a heading that fits the result.
    notes : sequence of str, default=()
        Remarks below the heading of a check.
    detail : ModelReport, default=None
        For a comparison: the report of one of its models, shown below the leaderboard.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import SpacePartitioningClassifier
    >>> from vicinal.inspection import explain
    >>> from vicinal.report import write_html
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0).fit(X, y)
    >>> path = write_html(explain(model, X[0]), Path(mkdtemp()) / "wine.html", title="A wine")
    >>> "A wine" in path.read_text()
    True
    """
    if isinstance(result, Explanation):
        page: Page = results.ExplanationReport(result, title or "Explanation")
    elif isinstance(result, Comparison):
        page = ComparisonReport(result, title or "Comparison", detail=detail)
    elif isinstance(result, TableCheck):
        page = results.CheckReport(result, title or "Check of the table", notes)
    elif isinstance(result, Page):
        page = result
    else:
        raise TypeError(
            f"result is a {type(result).__name__}; pass what explain, compare or check returned, "
            "or a ModelReport."
        )
    return page.write_html(path)
