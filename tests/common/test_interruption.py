"""Slow fits stop at a signal, within two seconds, and leave the object unfitted."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.common.discovery import public_estimators

ROOT = Path(__file__).parents[2]

SLOW = {
    "SpacePartitioningClassifier": {},
    "LocallyAdaptiveClassifier": {},
    "FunctionalGradientBoostingClassifier": {"n_estimators": 2000},
    "BootstrapEnsembleClassifier": {"n_estimators": 2000},
    "AutoClassifier": {},
}

# Seconds are counted in processor time: a busy machine must not fail the test.
FIT = """
import os, sys, threading, time
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
import vicinal

number, settings = int(sys.argv[1]), eval(sys.argv[2])
X, y = make_classification(20_000, 20, n_informative=10, n_classes=3, random_state=0)

def stop(sent):
    time.sleep(1.0)
    sent.append(time.process_time())
    os.kill(os.getpid(), number)

for name, parameters in settings.items():
    # Compiling cannot be interrupted half-way, and is no part of a second fit.
    quick = {key: 2 for key in parameters}
    getattr(vicinal, name)(**quick).fit(X[:300], y[:300])
    model, sent = getattr(vicinal, name)(**parameters), []
    threading.Thread(target=stop, args=(sent,), daemon=True).start()
    try:
        model.fit(X, y)
    except KeyboardInterrupt:
        seconds = time.process_time() - sent[0]
        try:
            check_is_fitted(model)
        except NotFittedError:
            print(name, "unfitted", "at once" if seconds < 2.0 else f"after {seconds:.1f} s")
"""

# Every estimator with its defaults; those that are done before the signal comes say so.
EVERY = """
import inspect, os, signal, threading, time
from sklearn.base import is_regressor
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from tests.common.discovery import public_estimators
from tests.common.instances import make

X, y = make_classification(20_000, 20, n_informative=10, random_state=0)

def stop(sent):
    time.sleep(2.0)
    sent.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)

for name, cls in public_estimators().items():
    small, sent = make(cls), []
    target = X[:, 0] if is_regressor(small) else y
    small.fit(X[:200], target[:200])  # compiles
    signature = inspect.signature(cls).parameters.values()
    needed = [part.name for part in signature if part.default is part.empty]
    model = cls(**{part: getattr(small, part) for part in needed})
    clock = threading.Thread(target=stop, args=(sent,), daemon=True)
    clock.start()
    is_done = False
    try:
        model.fit(X, target)
        is_done = True
        clock.join()
    except KeyboardInterrupt:
        seconds = time.process_time() - sent[0]
        try:
            check_is_fitted(model)
        except NotFittedError:
            print(name, "stopped" if seconds < 2.0 else f"after {seconds:.1f} s")
            continue
    print(name, "done" if is_done else "fitted")
"""


def run(number, settings):
    return start(FIT, str(int(number)), repr(settings))


def start(code, *arguments):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        check=False,
        timeout=1800,
    )


def test_ctrl_c_stops_slow_fits_and_leaves_them_unfitted():
    result = run(signal.SIGINT, SLOW)
    assert result.stdout.splitlines() == [f"{name} unfitted at once" for name in SLOW], result


def test_a_process_told_to_end_ends_during_a_slow_fit():
    result = run(signal.SIGTERM, {"AutoClassifier": {}})
    assert result.returncode == -signal.SIGTERM


@pytest.mark.statistical
def test_ctrl_c_stops_the_fit_of_every_estimator():
    result = start(EVERY)
    outcomes = dict(line.split(" ", 1) for line in result.stdout.splitlines())
    assert set(outcomes) == set(public_estimators()), result.stderr
    assert set(outcomes.values()) == {"stopped", "done"}, outcomes
    assert sum(outcome == "stopped" for outcome in outcomes.values()) > 15
