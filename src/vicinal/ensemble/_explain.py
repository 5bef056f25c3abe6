"""Reasons of ensembles: who is in it, with which weight, and what each member says."""

from typing import Any

import numpy as np

from vicinal._base._explanation import ExplanationSection, member_section, show


def averaging_sections(model: Any, X: Any, answer: Any) -> list[ExplanationSection]:
    """Return the weights of unlike members and what they say."""
    checked = model._checked(X)
    names, weights, size = list(model.named_estimators_), model.weights_, float(model.n_effective_)
    first = int(np.argmax(weights))
    summary = (
        f"The mean of {len(names)} members, worth {show(size)} of equal weight; {names[first]} "
        f"counts most ({weights[first]:.3f})."
    )
    answers = np.vstack([answer(member, checked) for member in model.estimators_])
    classes = getattr(model, "classes_", None)
    return [member_section(names, weights, answers, classes, summary, n_effective=size)]


def boosting_sections(model: Any, X: Any) -> list[ExplanationSection]:
    """Return what every round adds to the score."""
    outputs = (
        np.stack(list(model._members(model._checked(X)[0])), axis=1)[0]
        if model.n_iter_
        else np.zeros((0, 1))
    )
    column, sign, said = 0, 1.0, "the prediction"
    if hasattr(model, "classes_"):
        chosen = int(np.argmax(model.predict_proba(X)[0]))
        said = f"the score of {show(model.classes_[chosen])}"
        # Two classes share one score, which speaks for the second.
        column = chosen if outputs.shape[1] > 1 else 0
        sign = -1.0 if outputs.shape[1] == 1 and chosen == 0 else 1.0
    parts = sign * model.coef_ * outputs[:, column]
    start = sign * float(np.atleast_1d(model.intercept_)[column])
    rows = [
        (f"round {m + 1}", float(model.coef_[m]), sign * float(outputs[m, column]), float(parts[m]))
        for m in np.argsort(-np.abs(parts), kind="stable")
    ]
    summary = (
        f"{model.n_iter_} rounds add to {said}: from {show(start)} to "
        f"{show(start + float(parts.sum()))}. The largest steps come first."
    )
    return [
        ExplanationSection(
            "members",
            "Rounds",
            summary,
            ("round", "weight", "output", "contribution"),
            rows,
            "contribution",
            {"start": start, "score": start + float(parts.sum())},
        )
    ]


def adaboost_sections(model: Any, X: Any) -> list[ExplanationSection]:
    """Return what every member adds to the score of the chosen class."""
    chosen = int(np.argmax(model.predict_proba(X)[0]))
    scores = np.array([score[0, chosen] for score, _ in model._staged_scores(X)])
    steps = np.diff(scores, prepend=0.0)
    rows = [
        (f"round {m + 1}", float(model.estimator_errors_[m]), float(steps[m]))
        for m in np.argsort(-np.abs(steps), kind="stable")
    ]
    label = show(model.classes_[chosen])
    summary = (
        f"{int((steps > 0).sum())} of {len(steps)} members speak for {label}; together they give "
        f"it the score {show(float(scores[-1]))}. The largest steps come first."
    )
    head = ("round", "weighted error", "contribution")
    values = {"score": float(scores[-1]), "n_agreeing": int((steps > 0).sum())}
    return [ExplanationSection("members", "Rounds", summary, head, rows, "contribution", values)]


def bootstrap_sections(model: Any, X: Any) -> list[ExplanationSection]:
    """Return how the members spread."""
    n, checked = len(model.estimators_), model._checked(X)
    if not hasattr(model, "classes_"):
        said = np.array([float(member.predict(checked)[0]) for member in model.estimators_])
        levels = (0.05, 0.25, 0.5, 0.75, 0.95)
        rows = [(f"{level:.0%}", float(np.quantile(said, level))) for level in levels]
        low, high = model.predict_interval(X)[0]
        summary = (
            f"{n} members say {show(float(said.mean()))} on average, with deviation "
            f"{show(float(said.std()))}; nine targets in ten should lie between "
            f"{show(float(low))} and {show(float(high))}."
        )
        values = {"std": float(said.std()), "interval": [float(low), float(high)]}
        head = ("share of members below", "prediction")
        return [ExplanationSection("members", "Members", summary, head, rows, None, values)]
    mean, std = model.predict_proba(X, return_std=True)
    votes = np.bincount(
        [int(member.predict(checked)[0]) for member in model.estimators_],
        minlength=len(model.classes_),
    )
    order = np.argsort(-mean[0], kind="stable")
    table = [(model.classes_[c], int(votes[c]), float(mean[0, c]), float(std[0, c])) for c in order]
    first = int(order[0])
    summary = (
        f"{int(votes[first])} of {n} members vote for {show(model.classes_[first])}; their "
        f"probability for it deviates by {show(float(std[0, first]))}."
    )
    return [
        ExplanationSection(
            "members",
            "Members",
            summary,
            ("class", "votes", "probability", "deviation"),
            table,
            "probability",
            {"votes": dict(zip(model.classes_.tolist(), votes.tolist(), strict=True))},
        )
    ]
