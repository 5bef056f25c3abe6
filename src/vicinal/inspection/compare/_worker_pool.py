"""Processes that run folds and can be stopped in the middle of one."""

import math
import pickle
import queue
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from joblib import wrap_non_picklable_objects

from vicinal._base import _clock
from vicinal._base._processes import take_process
from vicinal.inspection.compare._folds import FoldResult, FoldRunner, failure

WORKER = "vicinal.inspection.compare._fold_worker"
_LONG = 3600.0  # seconds; a queue cannot wait forever and be interrupted


class _Worker:
    """One process; a thread of the parent feeds it and another collects its results."""

    def __init__(self, payload: bytes, n_workers: int, results: queue.Queue) -> None:
        self.task: tuple[str, int] | None = None
        self.started = self.limit = math.inf  # a fold starts when its rows are encoded
        self.process = take_process(WORKER, n_workers)
        threading.Thread(target=self._collect, args=(results,), daemon=True).start()
        threading.Thread(target=self._write, args=(payload,), daemon=True).start()

    def give(self, task: tuple[str, int], planned_seconds: float, limit: float) -> None:
        self.task, self.limit, self.started = task, limit, math.inf
        self._write(pickle.dumps((*task, planned_seconds)))

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # the process is gone; the collecting thread reports it
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def _collect(self, results: queue.Queue) -> None:
        try:
            while True:
                results.put((self, pickle.load(self.process.stdout)))
        except Exception:
            results.put((self, None))

    def end_message(self) -> str:
        """Return why the process ended."""
        code = self.process.wait()
        self.process.log.seek(0)
        lines = self.process.log.read().decode("utf-8", "replace").strip().splitlines()
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        if code == -9:
            reason += ", usually for lack of memory"
        return f"its process ended ({reason})" + (f": {lines[-1]}" if lines and code > 0 else "")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.log):
            with suppress(OSError):
                stream.close()


class WorkerPool:
    """``n_workers`` processes over one :class:`FoldRunner`.

    Use it as a context manager: no process outlives the block.
    """

    def __init__(self, runner: FoldRunner, n_workers: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="vicinal-", ignore_cleanup_errors=True)
        runner.folder = Path(self._folder.name)
        # Models defined in a script or notebook travel by value.
        self._payload = pickle.dumps(wrap_non_picklable_objects(runner, keep_wrapper=False))
        self._n_workers = n_workers
        self._results: queue.Queue = queue.Queue()
        self._workers = [self._new_worker() for _ in range(n_workers)]
        self._ready: list[_Worker] = []
        self.start_seconds = 0.0  # that the slowest process took to be ready

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *exception: Any) -> None:
        for worker in self._workers:
            worker.kill()
        self._folder.cleanup()

    @property
    def tasks(self) -> list[tuple[str, int]]:
        """The folds that are being computed."""
        return [worker.task for worker in self._workers if worker.task]

    def has_idle_worker(self) -> bool:
        """Return whether a worker waits for a task."""
        return bool(self._ready)

    def submit(self, task: tuple[str, int], planned_seconds: float, limit: float) -> None:
        """Start a task; it is stopped ``limit`` seconds after its rows have been encoded.

        A model that plans its time plans with ``planned_seconds``.
        """
        self._ready.pop().give(task, planned_seconds, limit)

    def wait(self, timeout: float) -> tuple[tuple[str, int], FoldResult | None, float] | None:
        """Return a task, its result, ``None`` if it was stopped at its limit, and that limit.

        Returns ``None`` alone when nothing ended within ``timeout`` seconds or a worker has
        become ready.
        """
        ends = [worker.started + worker.limit for worker in self._workers if worker.task]
        left = min([timeout, _LONG, *(end - _clock.now() for end in ends)])
        try:
            worker, result = self._results.get(timeout=max(0.0, left))
        except queue.Empty:
            return self._stop_one_over_limit()
        if worker not in self._workers:
            return None  # the end of a worker that was stopped
        if result == "started":
            worker.started = _clock.now()
            return None
        task, worker.task = worker.task, None
        if result is None:
            return self._after_death(worker, task)
        self._ready.append(worker)
        if task is None:
            seconds = _clock.now() - worker.process.started
            self.start_seconds = max(seconds, self.start_seconds)
            return None
        return task, result, worker.limit

    def _stop_one_over_limit(self):
        now = _clock.now()
        for worker in self._workers:
            if worker.task and now >= worker.started + worker.limit:
                task = worker.task
                self._replace(worker)
                return task, None, worker.limit
        return None

    def _after_death(self, worker, task):
        reason = worker.end_message()
        if task is None:
            raise RuntimeError(f"A worker of the comparison could not start: {reason}.")
        self._replace(worker)
        return task, failure(reason), worker.limit

    def _replace(self, worker) -> None:
        worker.kill()
        self._workers[self._workers.index(worker)] = self._new_worker()

    def _new_worker(self) -> _Worker:
        return _Worker(self._payload, self._n_workers, self._results)
