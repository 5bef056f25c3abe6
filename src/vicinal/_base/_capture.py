"""Many small launches on a CUDA device as one."""

from collections.abc import Callable, Sequence
from typing import Any

from vicinal._base._arrays import is_torch, namespace


def captured(function: Callable[[], Any], state: Sequence[Any]) -> Callable[[], Any]:
    """Return ``function`` recorded as a CUDA graph, or as it is where its state lives elsewhere.

    The function may read and write only arrays that stay where they are; ``state`` names those
    that it changes, which are put back after the trial run that a recording needs. What it returns
    is written anew by every call.
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
    # Other threads may go on with the device meanwhile.
    with cuda.graph(graph, capture_error_mode="thread_local"):
        result = function()
    for array, old in zip(state, before, strict=True):
        array.copy_(old)

    return Recording(function, graph, result)


class Recording:
    """A function recorded as a CUDA graph.

    It keeps the function: a graph knows where arrays lie, not that they are in use, and what only
    the function holds would be freed under it.
    """

    def __init__(self, function: Callable[[], Any], graph: Any, result: Any) -> None:
        self.function, self.graph, self.result = function, graph, result

    def __call__(self) -> Any:
        """Repeat what was recorded."""
        self.graph.replay()
        return self.result
