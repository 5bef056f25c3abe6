"""Rows of known label and points known to lie on the surface: where searches start."""

import numpy as np

from vicinal._base import saved
from vicinal._kernels.surface._labels import mixed_distance
from vicinal.neighbors import NeighborSearch


@saved(rows="n d", codes="n", numeric="d")
class ReferenceRows:
    """Training rows with their predicted codes, in the coordinates of one chart.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_coordinates)
        Training rows.
    codes : ndarray of shape (n_samples,)
        Their predicted codes.
    numeric : ndarray of bool of shape (n_coordinates,)
        Coordinates that hold numbers; the others hold categories.
    """

    def __init__(self, rows, codes, numeric=None):
        self.rows = rows
        self.codes = codes
        self.numeric = np.ones(rows.shape[1], dtype=bool) if numeric is None else numeric
        self._searches: dict = {}

    def __getstate__(self):
        return {**self.__dict__, "_searches": {}}

    def _search(self, key):
        """Return the search among rows of one code (``target``) or of all others (``own``)."""
        if key not in self._searches:
            kind, code = key
            which = np.flatnonzero(self.codes == code if kind == "is" else self.codes != code)
            search = None
            if which.size and self.numeric.any():
                search = NeighborSearch(n_jobs=1).fit(
                    np.ascontiguousarray(self.rows[which][:, self.numeric])
                )
            self._searches[key] = (which, search)
        return self._searches[key]

    def opposites(self, Z, own, target, k: int) -> np.ndarray:
        """Return the ``k`` nearest rows of a label asked for, -1 where there are fewer."""
        out = np.full((len(Z), k), -1, dtype=np.int64)
        for code in np.unique(np.where(target < 0, own, -2 - target)):
            key = ("not", code) if code >= 0 else ("is", -2 - code)
            some = np.flatnonzero(np.where(target < 0, own, -2 - target) == code)
            which, search = self._search(key)
            if not which.size:
                continue
            count = min(k, len(which))
            if search is None:
                out[some, :count] = which[:count]
            elif self.numeric.all():
                found = search.kneighbors(Z[some], count, return_distance=False)
                out[some, :count] = which[found]
            else:
                out[some, :count] = which[self._nearest_mixed(Z[some], which, search, count)]
        return out

    def _nearest_mixed(self, Z, which, search, count):
        """Rank a longer list of numeric neighbours by the distance that counts categories."""
        longer = min(len(which), max(20 * count, 200))
        query = np.ascontiguousarray(Z[:, self.numeric])
        found = search.kneighbors(query, longer, return_distance=False)
        rows = self.rows[which[found]]
        distance = mixed_distance(rows, Z[:, None], self.numeric)
        order = np.argsort(distance, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(found, order, axis=1)


@saved(inner="m d", outer="m d", points="m d", sides="m 2")
class SurfacePool:
    """Points of the surface found in ``fit``, with the codes on their two sides."""

    def __init__(self, inner, outer, points, sides):
        self.inner = inner
        self.outer = outer
        self.points = points
        self.sides = sides
        self._searches: dict = {}

    def __len__(self):
        return len(self.points)

    def thinned(self, cell: float) -> "SurfacePool":
        """Keep the first point of each cell of a lattice; crowds tell nothing new."""
        lattice = np.column_stack([np.round(self.points / cell), self.sides])
        kept = np.sort(np.unique(lattice, axis=0, return_index=True)[1])
        return SurfacePool(*(a[kept] for a in (self.inner, self.outer, self.points, self.sides)))

    def __getstate__(self):
        return {**self.__dict__, "_searches": {}}

    def _search(self, code: int):
        if code not in self._searches:
            which = np.flatnonzero((self.sides == code).any(axis=1))
            search, spacing = None, 0.0
            if which.size:
                search = NeighborSearch(n_jobs=1).fit(self.points[which])
                if which.size > 1:
                    spacing = float(np.median(search.kneighbors(None, 1)[0]))
            self._searches[code] = (which, search, spacing)
        return self._searches[code]

    def spacing(self, code: int) -> float:
        """Return the typical distance between neighbouring points on the border of a class."""
        return self._search(code)[2]

    def nearest(self, Z, code: int, k: int):
        """Return numbers (m, k') and distances of the nearest points on the border of a class."""
        which, search, _ = self._search(code)
        if search is None:
            return np.empty((len(Z), 0), dtype=np.int64), np.empty((len(Z), 0))
        distances, found = search.kneighbors(Z, min(k, len(which)))
        return which[found], distances
