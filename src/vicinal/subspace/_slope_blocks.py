"""The slope that turns scores into probabilities, from blocks of scores."""

import numpy as np

from vicinal._base import Block, Blocks, Survey
from vicinal._kernels.calibration._probabilities import score_spread, slope_derivatives, solve_slope


def slope_of(scores: Blocks, found: Survey) -> float:
    """Return the slope of ``fit_slope`` for blocks of scores, with codes in place of y."""
    scores = scores.held()
    spread = scores.total(_spread, combine=max)
    if spread == 0.0:
        return 1.0
    counts = found.class_weights

    def derivatives(slope):
        return scores.total(_slope_sums, spread, counts, slope)

    return solve_slope(derivatives) / spread


def _spread(block: Block) -> float:
    return score_spread(block.X)


def _slope_sums(block: Block, spread, counts, slope) -> np.ndarray:
    return slope_derivatives(block.X / spread, block.y, block.sample_weight, counts, slope)
