"""Reasons of models with several metrics: which component speaks, in which metric, for whom."""

from typing import Any

import numpy as np

from vicinal._base import as_numpy
from vicinal._base._explanation import ExplanationSection, RowColumns, dense_row, show


def adaptive_sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
    """Return responsibilities, the leading metric, and the rows that vote in it."""
    row = as_numpy(model._whiten(dense_row(X)))
    shares = as_numpy(model.mixture_.predict_proba(row))[0]
    votes = np.vstack([as_numpy(model._votes(A, row))[0] for A in model._matrices])
    # A component has one metric of each split, and their votes count alike.
    votes = votes.reshape(model.n_splits_, len(shares), -1).mean(axis=0)[:, model._numbers]
    leader = int(shares.argmax())
    return [
        _components(shares, votes, model.classes_),
        _metric(model, leader, columns),
        _voters(model, row[0], leader),
    ]


def _components(shares, votes, classes) -> ExplanationSection:
    order = np.argsort(-shares, kind="stable")
    rows = [
        (f"component {k}", classes[votes[k].argmax()], float(votes[k].max()), float(shares[k]))
        for k in order
    ]
    leader = int(order[0])
    summary = (
        f"Component {leader} of {len(shares)} answers for this row with responsibility "
        f"{shares[leader]:.3f}; alone it would say {show(classes[votes[leader].argmax()])}."
    )
    values = {"responsibilities": shares.tolist(), "leader": leader}
    head = ("component", "vote", "probability", "responsibility")
    return ExplanationSection(
        "components", "Components", summary, head, rows, "responsibility", values
    )


def _metric(model: Any, leader: int, columns: RowColumns) -> ExplanationSection:
    own = as_numpy(model.metrics_)[leader :: model.n_regions_]
    stretch = np.sqrt((own**2).sum(axis=1).mean(axis=0))
    order = np.argsort(-stretch, kind="stable")
    rows = [(columns.names[j], columns.values[j], float(stretch[j])) for j in order]
    summary = (
        f"In the metric of component {leader}, one unit of a column is so far; rows more than "
        "about 2 away hardly speak."
    )
    return ExplanationSection(
        "metric", "Metric", summary, ("column", "value", "stretch"), rows, "stretch"
    )


def _voters(model: Any, row: np.ndarray, leader: int) -> ExplanationSection:
    voters = model._voters
    rows, bounds = as_numpy(voters.X), np.asarray(voters.bounds)
    log_weight = as_numpy(voters.log_weights)
    own = np.asarray(model._matrices)[leader :: model.n_regions_]
    squares = [(((rows - row) @ A.T) ** 2).sum(axis=1) for A in own]
    square = np.mean(squares, axis=0)
    share = np.mean([_vote_shares(s, log_weight, model.neighbors) for s in squares], axis=0)
    size = float(1.0 / (share**2).sum())
    inner = np.searchsorted(bounds, np.arange(len(rows)), side="right") - 1
    label = model.classes_[np.argsort(model._numbers)][inner]
    order = np.argsort(-share, kind="stable")
    order = order[: max(1, int((share > 1e-3).sum()))]
    table = [(label[i], float(np.sqrt(square[i])), float(share[i])) for i in order]
    summary = (
        f"In that metric {len(table)} training rows carry the vote, worth {show(size)} of equal "
        "weight."
    )
    values = {"n_neighbors": len(table), "effective_sample_size": size}
    head = ("target", "distance", "weight")
    return ExplanationSection("neighbors", "Neighbours", summary, head, table, "weight", values)


def _vote_shares(square: np.ndarray, log_weight: np.ndarray, rule) -> np.ndarray:
    """Return the part of each row in the votes of one metric."""
    if rule == "soft":
        weight = np.exp(log_weight - square - (log_weight - square).max())
    else:
        nearest = np.argsort(square, kind="stable")[:rule]
        weight = np.zeros(len(square))
        weight[nearest] = np.exp(log_weight[nearest] - log_weight[nearest].max())
    return weight / weight.sum()


def mixture_sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
    """Return the responsibilities of a mixture and where its leading component stands."""
    shares = as_numpy(model.predict_proba(X))[0]
    leader = int(shares.argmax())
    rows = [
        (f"component {k}", float(as_numpy(model.weights_)[k]), float(shares[k]))
        for k in np.argsort(-shares, kind="stable")
    ]
    summary = (
        f"Component {leader} of {len(shares)} is responsible for this row by {shares[leader]:.3f}."
    )
    centre = as_numpy(model.means_)[leader]
    x = dense_row(X)[0]
    order = np.argsort(-np.abs(x - centre), kind="stable")
    place = [(columns.names[j], columns.values[j], float(centre[j])) for j in order]
    return [
        ExplanationSection(
            "components",
            "Components",
            summary,
            ("component", "weight", "responsibility"),
            rows,
            "responsibility",
            {"responsibilities": shares.tolist(), "leader": leader},
        ),
        ExplanationSection(
            "place",
            "Place",
            f"Component {leader} stands here, columns farthest from the row first.",
            ("column", "value", "centre"),
            place,
        ),
    ]


def set_section(classes: np.ndarray, inside: np.ndarray, proba: np.ndarray, coverage: float):
    """Return the labels that hold the true one with the given chance."""
    order = np.argsort(-proba, kind="stable")
    rows = [(classes[k], float(proba[k]), "yes" if inside[k] else "no") for k in order]
    held = ", ".join(show(classes[k]) for k in order if inside[k])
    summary = f"With a chance of {coverage:.0%}, the label is one of: {held}."
    values = {"coverage": coverage, "labels": [classes[k] for k in order if inside[k]]}
    head = ("label", "probability", "in the set")
    return ExplanationSection("set", "Set of labels", summary, head, rows, None, values)


def interval_section(low: float, high: float, coverage: float) -> ExplanationSection:
    """Return the interval that holds the target with the given chance."""
    summary = (
        f"With a chance of {coverage:.0%}, the target lies between {show(low)} and {show(high)}."
    )
    values = {"coverage": coverage, "interval": [low, high]}
    return ExplanationSection("interval", "Interval", summary, values=values)
