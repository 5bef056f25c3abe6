"""Axes of pictures: round ticks, and values as places between 0 and 1."""

import math
from typing import Any

import numpy as np

_N_STEPS = 4


class Axis:
    """A range of values, from the edge of a picture to the other.

    Parameters
    ----------
    values : array-like
        What must fit; without a value, the axis goes from 0 to 1.
    label : str
        What the axis is.
    low, high : float, optional
        Ends that the values do not decide.
    """

    def __init__(
        self, values: Any, label: str, *, low: float | None = None, high: float | None = None
    ) -> None:
        finite = np.asarray(values, dtype=float)
        finite = finite[np.isfinite(finite)]
        self.label = label
        self.low = float(finite.min(initial=math.inf)) if low is None else low
        self.high = float(finite.max(initial=-math.inf)) if high is None else high
        if not self.low < self.high:
            middle = self.low if math.isfinite(self.low) else 0.5
            self.low, self.high = middle - 0.5, middle + 0.5

    def at(self, values: Any) -> list[float]:
        """Return where values lie, 0 to 1; what is beyond lies on the edge."""
        share = (np.asarray(values, dtype=float) - self.low) / (self.high - self.low)
        return np.clip(share, 0.0, 1.0).round(4).tolist()

    def as_dict(self) -> dict[str, Any]:
        """Return the label and the ticks with their places."""
        step = _round_step((self.high - self.low) / _N_STEPS)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        values = [k * step for k in range(first, last + 1)]
        return {
            "label": self.label,
            "ticks": [
                {"at": at, "text": _tick(value, step)}
                for at, value in zip(self.at(values), values, strict=True)
            ],
        }


def share_axis(label: str) -> dict[str, Any]:
    """Return an axis of shares, from nothing to all."""
    ticks = [{"at": k / 4, "text": f"{25 * k} %" if k else "0"} for k in range(5)]
    return {"label": label, "ticks": ticks}


def _round_step(width: float) -> float:
    unit = 10.0 ** math.floor(math.log10(width))
    return unit * next(step for step in (1, 2, 2.5, 5, 10) if step * unit >= width * (1 - 1e-9))


def _tick(value: float, step: float) -> str:
    if abs(value) < step / 1000:
        return "0"
    if abs(value) >= 1e6 or step < 1e-4:
        return f"{value:.3g}"
    decimals = max(0, 1 - math.floor(math.log10(step) + 1e-9)) if step < 10 else 0
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
