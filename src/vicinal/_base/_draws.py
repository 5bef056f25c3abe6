"""Random draws of rows."""

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)


def row_uniforms(seed: int, start: int, n: int) -> np.ndarray:
    """Return one number in [0, 1) for each of the rows ``start .. start + n`` of the table.

    The number is a hash of seed and position (the finaliser of SplitMix64; Steele, Lea and Flood,
    2014), so that it hangs on neither the blocks nor the order in which they are worked.
    """
    with np.errstate(over="ignore"):
        state = (np.arange(start, start + n, dtype=np.uint64) + np.uint64(1)) * _STEP
        state += _mixed(np.asarray([seed], dtype=np.uint64) + _STEP)
        return (_mixed(state) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def hold_out(codes: np.ndarray, fraction: float, rng: np.random.RandomState) -> np.ndarray:
    """Choose rows to hold out, in proportion to the classes: a boolean mask.

    Rows are lined up by class, shuffled within, and every ``1 / fraction``-th is taken. A class of
    one row keeps it.
    """
    order = np.lexsort((rng.permutation(len(codes)), codes))
    order = order[np.bincount(codes)[codes[order]] > 1]
    mask = np.zeros(len(codes), dtype=bool)
    places = np.arange(rng.uniform() / fraction, len(order), 1 / fraction).astype(int)
    mask[order[places]] = True
    emptied = np.bincount(codes[~mask], minlength=codes.max() + 1)[codes] == 0
    mask[emptied] = False
    return mask


def _mixed(state: np.ndarray) -> np.ndarray:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
