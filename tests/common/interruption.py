"""Signals during fits: Ctrl-C ends the fit and leaves the model unfitted, SIGTERM the process.

``python -m tests.common.interruption NAME...`` fits estimators to 20,000 rows, one after another,
and prints a line before and after each fit; `outcomes` watches it and sends the signals, from a
process of its own because compiled code may keep every thread of the other waiting. Seconds are
processor time: a busy machine is no slow one.
"""

import inspect
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback

from sklearn.base import is_regressor
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from tests.common.discovery import public_estimators
from tests.common.instances import make
from tests.common.processes import module

BEFORE, LIMIT = 1.0, 120.0  # wall seconds from a fit's begin to its signal, and then to giving up
# Sizes that make a fit long which would be over too soon.
LONG = {
    "BootstrapEnsembleClassifier": {"n_estimators": 2000},
    "BootstrapEnsembleRegressor": {"n_estimators": 2000},
    "FunctionalGradientBoostingClassifier": {"n_estimators": 2000},
    "FunctionalGradientBoostingRegressor": {"n_estimators": 2000},
    "RealAdaBoostClassifier": {"n_estimators": 2000},
}


def outcomes(number, names):
    """Return {estimator: (outcome, processor seconds that it went on after the signal)}.

    The right outcomes are "stopped" of Ctrl-C and "ended" of SIGTERM; a fit that was over before
    the signal came is "done". After an estimator that ends its process, the others get a new one.
    """
    found, left = {}, list(names)
    while left:
        found |= _watched(number, left)
        left = [name for name in left if name not in found]
    return found


def _watched(number, names):
    """Return what came of the fits that one process began."""
    found = {}
    with subprocess.Popen(
        **module("common.interruption", *names), stdout=subprocess.PIPE, bufsize=0
    ) as child:
        while begun := child.stdout.readline():
            name, sent = json.loads(begun), 0.0
            if not select.select([child.stdout], [], [], BEFORE)[0]:
                sent = _processor_seconds(child.pid)
                child.send_signal(number)
                if not select.select([child.stdout], [], [], LIMIT)[0]:
                    child.kill()
            if after := child.stdout.readline():
                outcome, seconds = json.loads(after)
            else:
                outcome, seconds = _ended(child, number)
            found[name] = outcome, 0.0 if outcome == "done" else seconds - sent
        if not found:
            raise RuntimeError(f"no fit of {names} began")
    return found


def _processor_seconds(pid):
    return time.clock_gettime((~pid << 3) | 2)  # Linux: the clock of another process


def _ended(child, number):
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    outcome = "ended" if child.returncode == -number else f"exit status {child.returncode}"
    return outcome, usage.ru_utime + usage.ru_stime


def _long_instance(cls, small):
    """Return an estimator with its defaults, but for ``LONG``."""
    parameters = inspect.signature(cls).parameters.values()
    needed = [entry.name for entry in parameters if entry.default is entry.empty]
    return cls(**{name: getattr(small, name) for name in needed}, **LONG.get(cls.__name__, {}))


def _say(line):
    print(json.dumps(line), flush=True)


def main(names):
    """Fit the estimators; print the name of each before its fit, and then what came of it."""
    X, y = make_classification(20_000, 20, n_informative=10, random_state=0)
    for name in names:
        cls = public_estimators()[name]
        small = make(cls)
        target = X[:, 0] if is_regressor(small) else y
        small.fit(X[:200], target[:200])  # compiles, which cannot be interrupted half-way
        model = _long_instance(cls, small)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        fitted = None
        try:
            _say(name)
            fitted = model.fit(X, target)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _say(["done", 0.0])
        except KeyboardInterrupt:
            # On a busy machine the signal may come after the fit.
            _say(["done", 0.0] if fitted else [_left(model), time.process_time()])
        except Exception:
            _say([traceback.format_exc(), time.process_time()])


def _left(model):
    try:
        check_is_fitted(model)
    except NotFittedError:
        return "stopped"
    return "fitted"


if __name__ == "__main__":
    main(sys.argv[1:])
