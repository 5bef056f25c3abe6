"""A sample of rows that fits on the client, the same whatever blocks the rows come in."""

import numpy as np

from vicinal.distributed._blocks import Block, Blocks
from vicinal.distributed._draws import row_uniforms
from vicinal.distributed._survey import Survey


def sample_rows(
    blocks: Blocks, found: Survey, n_rows: int, seed: int, *, verbose: int = 0
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Return rows, targets and weights of about ``n_rows`` rows; of all where there are no more.

    ``blocks`` must know where they start, see ``survey``.
    """
    share = 1.0 if found.n_rows <= n_rows else n_rows / found.n_rows
    parts = blocks.gather(_chosen, share, seed, verbose=verbose)
    X, y, weight = zip(*parts, strict=True)
    return np.concatenate(X), None if y[0] is None else np.concatenate(y), np.concatenate(weight)


def _chosen(block: Block, share: float, seed: int):
    rows = np.flatnonzero(row_uniforms(seed, block.start, len(block)) < share)
    return block.X[rows], None if block.y is None else block.y[rows], block.sample_weight[rows]
