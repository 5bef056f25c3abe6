"""What each column is worth: held-out answers get worse when it is shuffled."""

from typing import Any

import numpy as np

from vicinal._base import _clock
from vicinal.report._held_out import UnseenAnswers, row_losses
from vicinal.report._table import column_names, with_column

_MOST_REPEATS = 5


def importance(
    held_out: UnseenAnswers, X: Any, y: np.ndarray, rng: np.random.RandomState, seconds: float
) -> dict[str, Any] | None:
    """Return how the loss rises when a column is shuffled among rows the model had not seen.

    Columns are those of the table, so what was encoded from one of them is shuffled together. The
    standard error is over the rows, each with the mean of its repeats. Columns for which there was
    no time are counted in ``n_left``.
    """
    end, names = _clock.now() + seconds, column_names(X)
    started = _clock.now()
    before, unit = row_losses(held_out.ask(X), y)
    cost = _clock.now() - started
    repeats = int(np.clip(seconds / max(cost * len(names), 1e-9), 1, _MOST_REPEATS))
    found: list[dict[str, Any]] = []
    for j, name in enumerate(names):
        if _clock.now() + repeats * cost >= end:
            break
        rise = np.zeros(len(before))
        for _ in range(repeats):
            mixed = with_column(X, j, X, rng.permutation(len(before)))
            rise += (row_losses(held_out.ask(mixed), y)[0] - before) / repeats
        error = float(rise.std(ddof=1) / np.sqrt(len(rise)))
        found.append({"column": j, "name": name, "rise": float(rise.mean()), "error": error})
    if not any(row["rise"] > 2 * row["error"] for row in found):
        return None
    found.sort(key=lambda row: -row["rise"])
    longest = found[0]["rise"] + found[0]["error"]
    decimals = max(0, 3 - int(np.floor(np.log10(longest))))
    for row in found:
        row["shown"] = [f"{row[name]:.{decimals}f}" for name in ("rise", "error")]
        row["length"] = max(0.0, row["rise"]) / longest
        row["spread"] = row["error"] / longest
        row["is_clear"] = row["rise"] > 2 * row["error"]
    return {
        "rows": found,
        "unit": unit,
        "loss": float(before.mean()),
        "n_rows": len(before),
        "n_repeats": repeats,
        "n_left": len(names) - len(found),
    }
