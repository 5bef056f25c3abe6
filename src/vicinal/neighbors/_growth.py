"""Neighbourhoods that hold a given weight."""

from typing import Any

import array_api_compat as compat
from scipy import sparse

from vicinal._base import namespace, row_blocks
from vicinal.neighbors._neighborhoods import Neighborhoods


def grow_neighborhoods(engine: Any, Q: Any, mass: float, weights: Any, left_out: Any):
    """Return the smallest neighbourhoods of total weight above ``mass``, ties included.

    The search is repeated with twice as many neighbours for the queries whose neighbours so far
    weigh too little, or end within a tie.
    """
    xp, device = namespace(weights), compat.device(weights)
    n_rows = weights.shape[0]
    typical = float(xp.sum(weights)) / n_rows
    first_width = min(n_rows, int(min(mass / typical if typical else n_rows, n_rows)) + 9)
    found = []
    for block in row_blocks(Q.shape[0], 64 * first_width):
        pending = xp.arange(block.start, block.stop, dtype=xp.int64, device=device)
        width = first_width
        while pending.shape[0]:
            distances, rows = engine.nearest(_rows(Q, pending), width, left_out.part(pending))
            radii, inside, held, complete = enclose(distances, rows, weights, mass)
            if width == n_rows:
                _check_mass(held, mass)
                complete = xp.ones_like(complete)
            queries = pending[:, None] + xp.zeros_like(rows)
            inside = inside & complete[:, None]
            done = xp.nonzero(complete)[0]
            ends = xp.take(pending, done), xp.take(radii, done)
            found.append((*ends, queries[inside], rows[inside], distances[inside]))
            pending = xp.take(pending, xp.nonzero(~complete)[0])
            width = min(n_rows, 2 * width)
    places, radii, queries, rows, distances = (xp.concat(part) for part in zip(*found, strict=True))
    order = xp.argsort(queries, stable=True)
    return Neighborhoods(
        starts(queries, Q.shape[0]),
        xp.take(rows, order),
        xp.take(distances, order),
        xp.take(radii, xp.argsort(places)),
    )


def enclose(distances: Any, rows: Any, weights: Any, mass: float) -> tuple[Any, Any, Any, Any]:
    """Find the radius at which each sorted list of neighbours first weighs more than ``mass``.

    Returns the radii, the entries within (rows of no weight apart), the weight of each whole list,
    and whether the list is long enough: heavy enough, and without a tie at its end.
    """
    xp = namespace(weights)
    own = xp.reshape(xp.take(weights, xp.reshape(rows, (-1,))), rows.shape)
    own = xp.where(xp.isfinite(distances), own, xp.zeros_like(own))
    total = xp.cumulative_sum(own, axis=1)
    enough = xp.astype(total > mass, xp.int8)
    position = xp.argmax(enough, axis=1)
    columns = xp.arange(rows.shape[1], device=compat.device(rows))
    here = columns[None, :] == position[:, None]
    radii = xp.sum(xp.where(here, distances, xp.zeros_like(distances)), axis=1)
    inside = (distances <= radii[:, None]) & (own > 0)
    complete = (total[:, -1] > mass) & (distances[:, -1] > radii)
    return radii, inside, total[:, -1], complete


def starts(queries: Any, n_queries: int) -> Any:
    """Return where each query begins in a sorted list of pairs, as ``indptr`` of a CSR matrix."""
    xp = namespace(queries)
    edges = xp.arange(n_queries + 1, dtype=xp.int64, device=compat.device(queries))
    return xp.searchsorted(xp.sort(queries), edges)


def _check_mass(held: Any, mass: float) -> None:
    xp = namespace(held)
    least = float(xp.min(held))
    if not least > mass:
        raise ValueError(
            f"n_neighbors={mass:g} is not exceeded by the total weight {least:g} of the training "
            "rows that a query may find; lower n_neighbors or give more rows or weight."
        )


def _rows(Q: Any, which: Any) -> Any:
    return Q[which] if sparse.issparse(Q) else namespace(Q).take(Q, which, axis=0)
