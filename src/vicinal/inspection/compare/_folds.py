"""One model on one fold: fit, predict, score, results on disk, and processes for it."""

import hashlib
import io
import math
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import joblib
import numpy as np
from sklearn.base import clone, is_classifier

import vicinal
from vicinal._base import (
    _clock,
    fit_weighted,
    reads_frames,
    stored_score,
    takes_weights,
    write_whole,
)
from vicinal._base._compat import rows_of
from vicinal._base._unseen import unreported

_FIT_SHARE = 0.7  # of the time a model has for fit and prediction together


@dataclass(frozen=True)
class FoldResult:
    """Predictions of a model on the test rows of a fold, or the ``error`` that prevented them."""

    prediction: Any = None
    classes: np.ndarray | None = None
    proba: np.ndarray | None = None
    decision: np.ndarray | None = None
    fit_seconds: float = np.nan
    predict_seconds: float = np.nan
    error: str = ""

    @property
    def seconds(self) -> float:
        """Wall time of fit and prediction together."""
        return self.fit_seconds + self.predict_seconds


@dataclass(eq=False)
class FoldRunner:
    """Fits models on folds of one table.

    The rows of a fold are encoded once for all models. Those of the last fold stay in memory;
    processes share encoded rows in ``folder``, where there is one.
    """

    models: dict
    X: Any
    y: Any
    folds: list
    encoder: Any
    sample_weight: np.ndarray | None = None
    groups: np.ndarray | None = None
    folder: Path | None = None
    _encoded: tuple[int, tuple[Any, Any]] | None = None

    @unreported()
    def run(self, name: str, fold: int, seconds: float = np.inf) -> FoldResult:
        """Fit and predict; an exception becomes the ``error`` of the result.

        The parameter ``max_fit_time`` of a model that has it is set to a share of ``seconds``.
        """
        try:
            model = clone(self.models[name])
            timed = _timed(model)
            if timed and np.isfinite(seconds):
                model.set_params(**{timed: _FIT_SHARE * seconds})
            return self._fit_and_predict(model, name, fold)
        except Exception as error:
            return FoldResult(error=f"{type(error).__name__}: {error}")

    @unreported()
    def encode(self, name: str, fold: int) -> None:
        """Make the rows of a fold ready for a model; an error is left to ``run``."""
        with suppress(Exception):
            self._rows(name, fold)

    def planners(self) -> set[str]:
        """Return the names of the models that plan their time and have no ``max_fit_time`` yet."""
        return {name for name, model in self.models.items() if _timed(model)}

    def _fit_and_predict(self, model, name, fold) -> FoldResult:
        X_train, X_test = self._rows(name, fold)
        train = self.folds[fold][0]
        weights = None
        if self.sample_weight is not None and takes_weights(model):
            weights = self.sample_weight[train]
        groups = None if self.groups is None else self.groups[train]
        started = _clock.now()
        fit_weighted(model, X_train, rows_of(self.y, train), weights, groups)
        fitted = _clock.now()
        found = _predictions(model, X_test)
        ended = _clock.now()
        return replace(found, fit_seconds=fitted - started, predict_seconds=ended - fitted)

    def _rows(self, name, fold):
        train, test = self.folds[fold]
        if self.encoder is None or reads_frames(self.models[name]):
            return rows_of(self.X, train), rows_of(self.X, test)
        if self._encoded is None or self._encoded[0] != fold:
            self._encoded = fold, self._encode(fold)
        return self._encoded[1]

    def _encode(self, fold):
        """Return encoded training and test rows; other processes find them in ``folder``."""
        path = None if self.folder is None else self.folder / f"{fold}.joblib"
        if path is not None and path.exists():
            return joblib.load(path)
        train, test = self.folds[fold]
        encoder = clone(self.encoder)
        encoded = encoder.fit_transform(rows_of(self.X, train), rows_of(self.y, train))
        pair = encoded, encoder.transform(rows_of(self.X, test))
        if path is not None:
            draft = path.with_suffix(f".{os.getpid()}")
            joblib.dump(pair, draft)
            draft.replace(path)
        return pair


def _timed(model: Any) -> str | None:
    """Return the name of the unset parameter ``max_fit_time`` of a model or its steps."""
    unset = (key for key, value in model.get_params().items() if value is None)
    return next((key for key in unset if key.split("__")[-1] == "max_fit_time"), None)


def _predictions(model, X) -> FoldResult:
    """Return labels or values, probabilities and decision values, whichever the model has."""
    if not is_classifier(model):
        return FoldResult(np.asarray(model.predict(X)))
    classes = np.asarray(model.classes_)
    if hasattr(model, "predict_proba"):
        # Lazy models pay for every call: the label is read off the probabilities.
        proba = np.asarray(model.predict_proba(X))
        return FoldResult(classes[proba.argmax(axis=1)], classes, proba)
    decision = model.decision_function(X) if hasattr(model, "decision_function") else None
    return FoldResult(np.asarray(model.predict(X)), classes, decision=decision)


def score(
    result: FoldResult, y_test: Any, metric: str, sample_weight: Any = None, positive: Any = None
) -> float:
    """Score the stored predictions of a fold; ``positive`` is the positive class of two."""
    if positive is not None:
        result, y_test = _about(result, positive), np.asarray(y_test) == positive
    return stored_score(result, y_test, metric, sample_weight)


def _about(result: FoldResult, positive: Any) -> FoldResult:
    """Return the predictions as ``True`` where a row is predicted to be of class ``positive``."""
    if result.classes is None or len(result.classes) != 2:
        raise ValueError("a score of a positive class needs two classes in every fold")
    is_second = result.classes[1] == positive
    decision = result.decision
    return replace(
        result,
        prediction=result.prediction == positive,
        classes=np.array([False, True]),
        proba=result.proba if is_second or result.proba is None else result.proba[:, ::-1],
        decision=decision if is_second or decision is None else -decision,
    )


_ARRAYS = ("prediction", "classes", "proba", "decision")


class FoldCache:
    """One file per model and fold of a comparison; a file appears whole or not at all.

    ``setup`` is what all its results depend on: rows, targets, folds, encoder, weights, groups. A
    change of the library's sources, or of scikit-learn's version, makes all keys new. The metric is
    not part of the key: predictions are stored, and scores are computed from them.
    """

    def __init__(self, folder: str | os.PathLike, *setup: Any):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._common = joblib.hash((setup, _library_state()))
        self._models: dict[int, str | None] = {}

    def path(self, model: Any, fold: int) -> Path:
        """Return where the result of a model on a fold is kept."""
        if id(model) not in self._models:
            self._models[id(model)] = joblib.hash(model)
        text = f"{self._common} {self._models[id(model)]} {fold}"
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"

    def read(self, model: Any, fold: int) -> FoldResult | None:
        """Return what was stored; nothing, or a file that cannot be read, is ``None``."""
        try:
            content = io.BytesIO(self.path(model, fold).read_bytes())
            with np.load(content, allow_pickle=False) as stored:
                found: Any = [stored[name] if name in stored else None for name in _ARRAYS]
                return FoldResult(*found, *map(float, stored["seconds"]))
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None

    def write(self, model: Any, fold: int, result: FoldResult) -> None:
        """Keep a finished fold, unless its labels are Python objects other than text."""
        given = ((name, getattr(result, name)) for name in _ARRAYS)
        arrays: Any = {name: _plain(values) for name, values in given if values is not None}
        if any(values.dtype.hasobject for values in arrays.values()):
            return
        buffer = io.BytesIO()
        np.savez_compressed(buffer, seconds=[result.fit_seconds, result.predict_seconds], **arrays)
        write_whole(self.path(model, fold), buffer.getvalue())


def _plain(values: Any) -> np.ndarray:
    """Turn an object array of texts into an array of fixed-width texts, which needs no pickle."""
    values = np.asarray(values)
    if values.dtype.hasobject and all(isinstance(value, str) for value in values.ravel()):
        return values.astype(str)
    return values


def _library_state() -> tuple:
    """Return what identifies the code: versions, and size and time of every source file."""
    root = Path(vicinal.__path__[0])
    sources = sorted(root.rglob("*.py"))
    stats = [(str(path.relative_to(root)), path.stat()) for path in sources]
    files = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    return vicinal.__version__, version("scikit-learn"), np.__version__, files


# --- processes ---

_WORKER = "vicinal.inspection.compare._fold_worker"
_LONG = 3600.0  # seconds; a queue cannot wait forever and be interrupted
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "LOKY_MAX_CPU_COUNT",
)


def _start_process(module: str, n_processes: int) -> Any:
    """Return one of ``n_processes`` that run a module, with pipes; ``log`` is its standard error.

    Each has its share of the cores for compiled code, BLAS and joblib.
    """
    log = tempfile.TemporaryFile()
    process: Any = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=_environment(max(1, joblib.cpu_count() // n_processes)),
    )
    process.log, process.started = log, _clock.now()
    return process


def _environment(n_threads: int) -> dict[str, str]:
    """Return environment variables with a limit on threads and the path of this library."""
    environment = dict(os.environ)
    for name in _THREAD_VARIABLES:
        given = environment.get(name, "")
        environment[name] = str(min(n_threads, int(given)) if given.isdigit() else n_threads)
    source = Path(vicinal.__path__[0]).parent
    paths = [str(source), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment


class _Worker:
    """One process; a thread of the parent feeds it and another collects its results."""

    def __init__(self, payload: bytes, n_workers: int, results: queue.Queue) -> None:
        self.task: tuple[str, int] | None = None
        self.started = self.limit = math.inf  # a fold starts when its rows are encoded
        self.process = _start_process(_WORKER, n_workers)
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
        self._payload = pickle.dumps(joblib.wrap_non_picklable_objects(runner, keep_wrapper=False))
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
            reason = worker.end_message()
            if task is None:
                raise RuntimeError(f"A worker of the comparison could not start: {reason}.")
            self._replace(worker)
            return task, FoldResult(error=reason), worker.limit
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

    def _replace(self, worker) -> None:
        worker.kill()
        self._workers[self._workers.index(worker)] = self._new_worker()

    def _new_worker(self) -> _Worker:
        return _Worker(self._payload, self._n_workers, self._results)
