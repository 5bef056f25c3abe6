"""The clock of everything that has a time budget; tests replace ``now``."""

import time


def now() -> float:
    """Return monotonic seconds."""
    return time.perf_counter()
