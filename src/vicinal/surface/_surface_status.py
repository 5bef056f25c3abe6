"""What happened to a query."""

from enum import IntEnum

from vicinal._kernels.surface import _roots as codes


class SurfaceStatus(IntEnum):
    """Outcome of a search for one row, as the whole number stored in ``status`` arrays.

    Examples
    --------
    >>> from vicinal.surface import SurfaceStatus
    >>> SurfaceStatus(3).name
    'NO_CROSSING'
    """

    CONVERGED = codes.CONVERGED
    """The point lies on the surface and satisfies the conditions of the search."""
    ON_SURFACE = codes.ON_SURFACE
    """The row itself lies on the surface."""
    KINK = codes.KINK
    """The point lies on the surface, but the gradient jumps there: trust the distance, which is
    that of the nearest point found from labels, and not the normal."""
    NO_CROSSING = codes.NO_CROSSING
    """The ray met no surface up to its end."""
    NO_SURFACE = codes.NO_SURFACE
    """No row and no point with another label is known."""
    NOT_CONVERGED = codes.NOT_CONVERGED
    """The iteration stopped early; the point is the last one."""
