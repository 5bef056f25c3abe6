"""Arrays cut into blocks of rows."""

import dask.array as da


def as_dask(values, rows_per_block):
    """Return the array as a Dask array whose blocks have so many rows."""
    return da.from_array(values, chunks=(rows_per_block, *values.shape[1:]))
