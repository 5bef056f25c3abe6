"""One set of answers to rows that a model had not seen, for every part of a page."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from vicinal._base._compat import num_samples, rows_of
from vicinal._base._out_of_fold import OutOfFold
from vicinal._base._thresholds import Rule, split_threshold


@dataclass(frozen=True)
class UnseenAnswers:
    """A fitted model, the rows that it had not seen, and the answers that the page is about.

    Attributes
    ----------
    model : estimator
        Fitted classifier or regressor.
    unseen : ndarray of int
        Rows of the table that ``model`` had not seen.
    answers : OutOfFold
        Answers to all rows by models that had not seen them; those to ``unseen`` are the model's.
    """

    model: Any
    unseen: np.ndarray
    answers: OutOfFold

    @property
    def classes(self) -> np.ndarray | None:
        """All labels, sorted; ``None`` for a regressor."""
        return self.answers.classes

    def ask(self, X: Any) -> OutOfFold:
        """Return the model's answers to other rows, probabilities in the order of ``classes``."""
        return ask(self.model, X, self.classes)


def held_out_answers(
    model: Any, X: Any, out_of_fold: OutOfFold | None, unseen: Any
) -> UnseenAnswers:
    """Put the answers of a model and those of a comparison together.

    A model fitted again for its reasons may differ a little from the one of the comparison, when
    its fit was stopped by the clock or had fewer rows. Its answers take the place of the others, so
    that no two parts of a page contradict each other.
    """
    if out_of_fold is None:
        rows = np.arange(num_samples(X)) if unseen is None else np.unique(unseen)
        return UnseenAnswers(model, rows, replace(ask(model, rows_of(X, rows)), rows=rows))
    rows = out_of_fold.rows if unseen is None else np.intersect1d(unseen, out_of_fold.rows)
    said = ask(model, rows_of(X, rows), out_of_fold.classes)
    at = np.searchsorted(out_of_fold.rows, rows)
    prediction = out_of_fold.prediction.copy()
    prediction[at] = said.prediction
    proba = None
    if out_of_fold.proba is not None and said.proba is not None:
        proba = out_of_fold.proba.copy()
        proba[at] = said.proba
        if (rule := split_threshold(model)[1]) is not None:
            prediction = decided(proba, out_of_fold.classes, rule)
    return UnseenAnswers(model, rows, replace(out_of_fold, prediction=prediction, proba=proba))


def ask(model: Any, X: Any, classes: np.ndarray | None = None) -> OutOfFold:
    """Return the model's own answers in the form of a comparison's."""
    rows = np.arange(num_samples(X))
    if not is_classifier(model):
        return OutOfFold(rows, np.asarray(model.predict(X)), None, None)
    known = np.asarray(model.classes_)
    classes = known if classes is None else classes
    if not hasattr(model, "predict_proba"):
        return OutOfFold(rows, np.asarray(model.predict(X)), None, classes)
    proba = np.zeros((len(rows), len(classes)))
    proba[:, np.searchsorted(classes, known)] = model.predict_proba(X)
    return OutOfFold(rows, decided(proba, classes, split_threshold(model)[1]), proba, classes)


def decided(proba: np.ndarray, classes: Any, rule: Rule | None) -> np.ndarray:
    """Return the most probable labels, or those that a threshold decides for."""
    return classes[proba.argmax(axis=1) if rule is None else rule.codes(proba)]


def check_labels(y: np.ndarray, classes: np.ndarray) -> None:
    """Refuse labels that a model cannot answer; they would be counted as others."""
    unknown = sorted({str(label) for label in y[~np.isin(y, classes)]})
    if unknown:
        known = ", ".join(repr(str(label)) for label in classes[:12])
        raise ValueError(
            f"y holds {unknown[0]!r}, which is none of the classes of the model ({known}); leave "
            "such rows out, or fit the model to them."
        )


def row_losses(answers: OutOfFold, y: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the loss of each answer, and what it is called."""
    if answers.classes is None:
        return np.abs(y - answers.prediction), "mean absolute error"
    if answers.proba is None:
        return (answers.prediction != y).astype(float), "share of wrong answers"
    missed = answers.proba - (answers.classes[None, :] == y[:, None])
    # Bounded, unlike the log loss: one sure mistake must not outweigh all other rows.
    scale = 0.5 if len(answers.classes) == 2 else 1.0
    return scale * (missed**2).sum(axis=1), "Brier score"


def row_errors(answers: OutOfFold, y: np.ndarray) -> np.ndarray:
    """Return 1 for a wrong label and 0 for a right one; for numbers, the absolute error."""
    if answers.classes is None:
        return np.abs(y - answers.prediction)
    return (answers.prediction != y).astype(float)


def row_trouble(answers: OutOfFold, y: np.ndarray | None) -> np.ndarray:
    """Return how doubtful each answer is, 1 at a tie of all classes; else how wrong it was."""
    if answers.proba is not None:
        chance = np.clip(answers.proba, 1e-12, 1.0)
        return -(chance * np.log(chance)).sum(axis=1) / np.log(chance.shape[1])
    if y is None:
        return np.zeros(len(answers.rows))
    return row_errors(answers, y)
