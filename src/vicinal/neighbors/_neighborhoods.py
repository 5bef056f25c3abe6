"""Lists of neighbours of different lengths, in flat arrays."""

from collections.abc import Iterator
from typing import Any, NamedTuple


class Neighborhoods(NamedTuple):
    """Neighbours of each query, as many as there are, in three flat arrays.

    The neighbours of query ``i`` are the entries ``indptr[i]:indptr[i + 1]`` of ``indices`` and
    ``distances``, nearest first and by row number where distances are equal: the layout of a
    sparse CSR matrix, which compiled code and array libraries read without a list of arrays.

    Attributes
    ----------
    indptr : array of shape (n_queries + 1,)
        Where the neighbours of each query begin and end.
    indices : array of shape (n_pairs,)
        Training rows.
    distances : array of shape (n_pairs,)
        Their distances from the query.
    radii : array of shape (n_queries,)
        Radius of each neighbourhood: every training row within it is listed.

    See Also
    --------
    NeighborSearch : Finds them.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.neighbors import NeighborSearch
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> found = NeighborSearch().fit(X).radius_neighbors([[0.5], [9.0]], radius=1.0)
    >>> found.indptr
    array([0, 2, 2])
    >>> [indices.tolist() for distances, indices in found.split()]
    [[0, 1], []]
    """

    indptr: Any
    indices: Any
    distances: Any
    radii: Any

    def split(self) -> Iterator[tuple[Any, Any]]:
        """Yield distances and indices query by query."""
        for i in range(self.indptr.shape[0] - 1):
            part = slice(int(self.indptr[i]), int(self.indptr[i + 1]))
            yield self.distances[part], self.indices[part]
