"""How compiled functions are compiled: in one place, cached on disk, without the lock.

Threads are given blocks of rows by the caller (``vicinal._base.thread_map``) instead of by numba's
own ``prange``: ``n_jobs`` is then obeyed, nested parallelism is safe with every threading layer,
and compilation takes half the time.
"""

import functools
from typing import Any

import numba

# Typed as Any: a partial of numba's decorator hides from type checkers that it is given a function.
jit: Any = functools.partial(numba.njit, cache=True, nogil=True)
# Allows reassociation and fused multiply-add, which vectorises reductions; NaN and infinity keep
# their meaning, so guards on them still work.
fast_jit: Any = functools.partial(
    numba.njit, cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}
)
