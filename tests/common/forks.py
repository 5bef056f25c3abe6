"""Models fitted in a process answer in its forked children as they do in itself.

``python -m tests.common.forks NAME...`` fits estimators, asks each in a child and prints a line for
each. Two OpenMP threads are running by then, and those a child does not inherit.
"""

import faulthandler
import json
import os
import subprocess
import sys

import numpy as np
from sklearn.base import is_regressor
from sklearn.datasets import make_classification

from tests.common.discovery import public_estimators
from tests.common.instances import make
from tests.common.processes import module

LIMIT = 600  # seconds after which a child hangs
METHODS = ("predict_proba", "predict", "transform", "kneighbors", "distance")
# Where the common instance takes another way than the one whose threads once hung.
PARAMETERS = {
    "LocalRegressor": {"n_neighbors": 30},
    "NeighborSearch": {"metric": "manhattan", "algorithm": "brute"},
    "SubspaceFusionClassifier": {"decompositions": ["random"], "estimator": None},
}


def outcomes(names):
    """Return {estimator: "the same", "differs" or "hung"}."""
    threads = {f"{name}_NUM_THREADS": "2" for name in ("OMP", "OPENBLAS", "NUMBA")}
    command = module("common.forks", *names, **threads)
    lines = subprocess.run(**command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(map(json.loads, lines.splitlines()))


def main(names):
    """Fit the estimators and fork."""
    X, y = make_classification(600, 20, n_informative=5, random_state=0)
    for name in names:
        model = make(public_estimators()[name], **PARAMETERS.get(name, {}))
        model.fit(X, X[:, 0] + X[:, 1] ** 2 if is_regressor(model) else y)
        ask = next(getattr(model, method) for method in METHODS if hasattr(model, method))
        expected = ask(X)
        child = os.fork()
        if not child:
            faulthandler.dump_traceback_later(LIMIT, exit=True)
            os._exit(0 if _same(ask(X), expected) else 2)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps([name, {0: "the same", 2: "differs"}.get(status, "hung")]), flush=True)


def _same(first, second):
    parts = zip(first, second, strict=True) if isinstance(first, tuple) else [(first, second)]
    return all(np.array_equal(a, b) for a, b in parts)


if __name__ == "__main__":
    main(sys.argv[1:])
