"""Array libraries: detection, conversion to NumPy, CUDA graphs."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import array_api_compat as compat
import numpy as np

from vicinal._base._compat import import_optional

# Columns up to which rows of a CUDA tensor are gathered column by column.
_SHORT_ROW = 32
_NUMPY = compat.array_namespace(np.empty(0))


def is_torch(x: Any) -> bool:
    """Return whether ``x`` is a torch tensor, without importing torch."""
    return compat.is_torch_array(x)


def is_array_api(x: Any) -> bool:
    """Return whether ``x`` is an array of another library than NumPy, such as torch or CuPy."""
    return compat.is_array_api_obj(x) and not (
        compat.is_numpy_array(x) or compat.is_pydata_sparse_array(x)
    )


def is_on_device(x: Any) -> bool:
    """Return whether ``x`` is on a device that NumPy cannot read, such as a GPU."""
    if compat.is_torch_array(x):
        return x.device.type != "cpu"
    return compat.is_cupy_array(x)


def namespace(*arrays: Any) -> Any:
    """Return the array-API namespace that the given arrays share; ``None`` entries are skipped."""
    if len(arrays) == 1 and type(arrays[0]) is np.ndarray:
        return _NUMPY  # checking all libraries takes longer than a small sum
    return compat.array_namespace(*(a for a in arrays if a is not None))


def check_same_library(reference: Any, X: Any) -> None:
    """Raise unless ``X`` has the array library and the device of ``reference``.

    Data are not moved between devices silently, because the copy may be expensive.
    """
    if namespace(reference) is not namespace(X):
        raise TypeError(
            f"X is a {_type(X)}, but fit was called with a {_type(reference)}; convert X to the "
            "library of fit, or call fit again."
        )
    if compat.device(reference) != compat.device(X):
        raise ValueError(
            f"X is on device {compat.device(X)}, but fit was called with data on "
            f"{compat.device(reference)}; move X there, e.g. with "
            f"X.to({str(compat.device(reference))!r})."
        )


def check_same_device(X: Any, other: Any, name: str) -> None:
    """Raise if ``other``, given along with ``X``, is an array of another library or device.

    NumPy arrays pass: labels and weights may come from the host.
    """
    if not is_array_api(other):
        return
    if namespace(X) is not namespace(other):
        raise TypeError(
            f"{name} is a {_type(other)}, but X is a {_type(X)}; give both in one array library."
        )
    if compat.device(X) != compat.device(other):
        raise ValueError(
            f"{name} is on device {compat.device(other)}, but X is on {compat.device(X)}; move "
            f"{name} there, e.g. {name}.to({str(compat.device(X))!r})."
        )


def _type(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__name__}"


def on_device_of(values: Any, X: Any) -> Any:
    """Return an array or sparse matrix of the host where ``X`` is, floats in its precision.

    If ``X`` is on the host, or ``values`` are not, they are returned as they are.
    """
    if not is_array_api(X) or is_array_api(values):
        return values
    values = values.toarray() if hasattr(values, "toarray") else np.ascontiguousarray(values)
    dtype = X.dtype if values.dtype.kind == "f" else None
    return namespace(X).asarray(values, dtype=dtype, device=compat.device(X))


def take_rows(X: Any, indices: Any) -> Any:
    """Return ``X[indices]`` for an array of row numbers: shape (*indices.shape, ...)."""
    if not is_array_api(X):
        return X[indices]
    xp = namespace(X)
    flat = xp.reshape(indices, (-1,))
    shape = (*indices.shape, *X.shape[1:])
    if compat.is_torch_array(X) and X.is_cuda and X.ndim == 2 and X.shape[1] <= _SHORT_ROW:
        # Gathering rows uses a block of threads per row, which is ten times slower for short rows.
        return X.T.contiguous().index_select(1, flat).T.contiguous().reshape(shape)
    return xp.reshape(xp.take(X, flat, axis=0), shape)


def packed(X: Any, dtype: Any = None) -> Any:
    """Return a NumPy array as compiled code and BLAS want it; other libraries have no such order.

    Writeable, because a read-only array is another type to compiled code.
    """
    return np.require(X, dtype, ["C", "W"]) if isinstance(X, np.ndarray) else X


def column_moments(X: Any, weights: Any) -> tuple[Any, Any]:
    """Return weighted mean and variance of the columns, on the host in double precision."""
    if isinstance(X, np.ndarray):
        X = X.astype(np.float64, copy=False)
        mean = np.average(X, axis=0, weights=weights)
        return mean, np.average((X - mean) ** 2, axis=0, weights=weights)
    mean = weighted_mean(X, weights)
    return mean, weighted_mean((X - mean) ** 2, weights)


def weighted_mean(columns: Any, weights: Any) -> Any:
    """Return the weighted mean of columns in any array library."""
    xp = namespace(columns)
    if weights is None:
        return xp.mean(columns, axis=0)
    share = xp.astype(weights, columns.dtype)
    return (share / xp.sum(share)) @ columns


def select_rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array of any library, a sparse matrix or a frame."""
    if is_array_api(X):
        return take_rows(X, on_device_of(rows, X))
    from vicinal._base._compat import rows_of

    return rows_of(X, rows)


def join_rows(rows: Sequence[Any], parts: Sequence[Any]) -> Any:
    """Return the array of which every part holds some rows; together they hold all rows once."""
    if not is_array_api(parts[0]):
        out = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), dtype=np.result_type(*parts))
        for index, part in zip(rows, parts, strict=True):
            out[index] = part
        return out
    xp = namespace(parts[0])
    return xp.take(xp.concat(parts, axis=0), xp.argsort(xp.concat(rows)), axis=0)


def sums_by_class(X: Any, codes: Any, weights: Any, n_classes: int) -> tuple[Any, Any]:
    """Return weight and weighted sum of the rows of each class; ``weights`` may be ``None``."""
    if isinstance(X, np.ndarray):
        from scipy.sparse import csr_array

        values = np.ones(len(X)) if weights is None else weights
        indicators = csr_array((values, codes, np.arange(len(X) + 1)), shape=(len(X), n_classes))
        return np.bincount(codes, weights=weights, minlength=n_classes), indicators.T @ X
    xp = namespace(X)
    kinds = xp.arange(n_classes, device=compat.device(X))
    indicators = xp.astype(codes[:, None] == kinds[None, :], X.dtype)
    if weights is not None:
        indicators = indicators * weights[:, None]
    return xp.sum(indicators, axis=0), indicators.T @ X


def solve_lower(lower: Any, right: Any, *, transposed: bool = False) -> Any:
    """Solve with a lower triangular matrix, or with its transpose."""
    if isinstance(lower, np.ndarray):
        from scipy.linalg import solve_triangular

        return solve_triangular(lower, right, lower=True, trans=int(transposed))
    xp = namespace(lower)
    matrix = lower.T if transposed else lower
    if is_torch(lower):
        return xp.linalg.solve_triangular(matrix, right, upper=transposed)
    return xp.linalg.solve(matrix, right)


def solve_regular(A: Any, B: Any) -> Any:
    """Solve batches of regular systems, without a check for singular ones."""
    xp = namespace(A)
    return xp.linalg.solve_ex(A, B)[0] if is_torch(A) else xp.linalg.solve(A, B)


def lower_factor(A: Any) -> Any:
    """Return the Cholesky factors of a batch, without a check for singular matrices."""
    xp = namespace(A)
    return xp.linalg.cholesky_ex(A)[0] if is_torch(A) else xp.linalg.cholesky(A)


def product_eps(X: Any) -> float:
    """Return the machine epsilon of a product; torch may multiply float32 with fewer bits."""
    xp = namespace(X)
    if is_torch(X) and X.dtype == xp.float32:
        return {"highest": 2.0**-23, "high": 2.0**-10, "medium": 2.0**-7}[
            xp.get_float32_matmul_precision()
        ]
    return float(xp.finfo(X.dtype).eps)


def as_numpy(x: Any) -> np.ndarray:
    """Return ``x`` as a NumPy array; from a device this copies the data to the host."""
    if compat.is_torch_array(x):
        return x.detach().cpu().numpy()
    if is_array_api(x):
        return np.asarray(
            compat.to_device(x, "cpu") if compat.is_cupy_array(x) else np.from_dlpack(x)
        )
    return np.asarray(x)


def as_given(values: Any, X: Any) -> Any:
    """Return values with the precision, array library and device of the queries ``X``."""
    if not is_torch(X):
        values = as_numpy(values)
    if is_array_api(X):
        xp = namespace(X)
        dtype = xp.float32 if X.dtype == xp.float32 else xp.float64
        return xp.asarray(values, dtype=dtype, device=compat.device(X))
    return values.astype(np.float32) if getattr(X, "dtype", None) == np.float32 else values


def gpu() -> str | None:
    """Return ``"cuda"`` where torch finds an NVIDIA GPU; without a driver torch is not imported."""
    has_driver = os.path.exists("/proc/driver/nvidia/version") or "torch" in sys.modules
    if not has_driver or find_spec("torch") is None:
        return None
    return "cuda" if import_module("torch").cuda.is_available() else None


def computing_device(X: Any, wanted: str | None) -> str | None:
    """Return the device of torch that computes: that of a tensor, else the one wanted.

    ``"auto"`` is a GPU if there is one; ``None`` computes by NumPy.
    """
    if is_torch(X):
        return str(X.device)
    if wanted in ("auto", None):
        return gpu() if wanted else None
    torch = import_optional("torch", needed_by=f"device={wanted!r}", extra="torch")
    try:
        torch.empty(0, device=wanted)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"torch has no device={wanted!r} here; use 'auto' or 'cpu'.") from error
    return wanted


def on_torch(device: str, *arrays: np.ndarray) -> list:
    """Return host arrays as torch tensors on a device."""
    torch = import_module("torch")
    return [torch.asarray(array, device=device) for array in arrays]


def free_memory(x: Any) -> float | None:
    """Return the MiB of temporary memory that one block of rows may take, for `row_blocks`.

    On a CUDA device this is a quarter of the free memory, including torch's cache. Elsewhere it is
    ``None``, which means scikit-learn's ``working_memory``.
    """
    if not (compat.is_torch_array(x) and x.device.type == "cuda"):
        return None
    cuda = namespace(x).cuda
    cached = cuda.memory_reserved(x.device) - cuda.memory_allocated(x.device)
    return (cuda.mem_get_info(x.device)[0] + cached) / 2**22


def pair_memory(X: Any, host: float, device: float) -> float:
    """Return the MiB of a block of pairs: ``host``, or ``device`` where so many are free."""
    if not is_array_api(X):
        return host
    # A device that is nearly full gets shorter blocks.
    free = free_memory(X)
    return device if free is None else min(device, free)


def host_sample(arrays: Sequence[Any], most: int, seed: int) -> list[np.ndarray]:
    """Return arrays of equal lengths on the host: all rows, or ``most`` of those on a device."""
    n_rows = arrays[0].shape[0]
    if is_array_api(arrays[0]) and n_rows > most:
        rows = np.random.RandomState(seed).choice(n_rows, most, replace=False)
        arrays = [select_rows(values, np.sort(rows)) for values in arrays]
    return [as_numpy(values) for values in arrays]


def block_limits(X: Any, max_rows: int | None = None) -> dict[str, Any]:
    """Return options of `row_blocks` for the rows of ``X``: free memory, and rows on the host."""
    return {"working_memory": free_memory(X), "max_rows": None if is_array_api(X) else max_rows}


def host_jobs(X: Any, n_jobs: int | None) -> int | None:
    """Return ``n_jobs`` for rows on the host, one for a device: it divides the work itself."""
    return 1 if is_array_api(X) else n_jobs


def device_classes(classes: np.ndarray, proba: Any, *, on_device: bool) -> Any:
    """Return the classes of largest probability: on the device if the labels came from there."""
    xp = namespace(proba)
    codes = xp.argmax(proba, axis=1)
    if not on_device:
        return classes[as_numpy(codes)]
    return xp.take(xp.asarray(classes, device=compat.device(proba)), codes)


def kth_smallest(values: Any, k: int) -> Any:
    """Return the ``k``-th smallest entry of each row, ``k`` counted from one."""
    if isinstance(values, np.ndarray):
        return np.partition(values, k - 1, axis=1)[:, k - 1]
    if is_torch(values):
        return values.kthvalue(k, dim=1).values
    return namespace(values).sort(values, axis=1)[:, k - 1]


def smallest_entries(values: Any, count: int) -> tuple[Any, Any]:
    """Return the columns of the ``count`` smallest entries of each row, and the last of those."""
    xp = namespace(values)
    if is_torch(values):
        found, columns = values.topk(count, dim=1, largest=False, sorted=False)
        return columns, xp.max(found, axis=1)
    columns = xp.argsort(values, axis=1)[:, :count]
    return columns, xp.take_along_axis(values, columns[:, -1:], axis=1)[:, 0]


def fill_entries(values: Any, columns: Any, fill: float) -> Any:
    """Put ``fill`` in one column of each row, in place where the library can."""
    xp, device = namespace(values), compat.device(values)
    if isinstance(values, np.ndarray) or is_torch(values):
        values[xp.arange(values.shape[0], device=device), columns] = fill
        return values
    filler = xp.full((1, 1), fill, dtype=values.dtype, device=device)
    here = xp.arange(values.shape[1], device=device)[None, :] == columns[:, None]
    return xp.where(here, filler, values)


def positive_part(values: Any) -> Any:
    """Return the larger of each entry and zero, in place where the library can."""
    if isinstance(values, np.ndarray):
        return np.maximum(values, 0.0, out=values)
    if is_torch(values):
        return values.clamp_(min=0)
    return namespace(values).maximum(values, namespace(values).zeros_like(values))


def exponentials(values: Any, least: float = -np.inf) -> Any:
    """Return the exponentials, in place where the library can.

    A processor takes ten times as long for exponentials that underflow; there, exponents below
    ``least`` are raised to it.
    """
    if isinstance(values, np.ndarray):
        if least > -np.inf:
            np.maximum(values, least, out=values)
        return np.exp(values, out=values)
    return values.exp_() if is_torch(values) else namespace(values).exp(values)


def captured(function: Callable[[], Any], state: Sequence[Any]) -> Callable[[], Any]:
    """Return ``function`` recorded as a CUDA graph, or unchanged if its state is not on a GPU.

    The function may read and write only arrays with a fixed address. ``state`` lists those that it
    changes; they are restored after the trial run that a recording needs. Every call overwrites
    the result of the call before.
    """
    if not (is_torch(state[0]) and state[0].is_cuda):
        return function
    cuda = namespace(state[0]).cuda
    before = [array.clone() for array in state]
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        function()
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    # Other threads may use the device meanwhile.
    with cuda.graph(graph, capture_error_mode="thread_local"):
        result = function()
    for array, old in zip(state, before, strict=True):
        array.copy_(old)

    def replay(recorded: Callable = function) -> Any:
        # A graph stores addresses only: the reference to the function keeps its arrays.
        graph.replay()
        return result

    return replay
