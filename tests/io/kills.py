"""Kill `save` at random moments: the file must be the old model or the new one, whole.

``python -m tests.io.kills FILE N``: children of one process that has imported everything save two
models in turn until they are killed; after each kill the file is read.
"""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
from tests.common.processes import module
from tests.io.helpers import X, fitted

from vicinal.io import load, save
from vicinal.linear import AveragedPerceptron


def killed(path, n_kills):
    """Return how often the file held each of the two models; raise if it ever held less."""
    command = module("io.kills", path, n_kills)
    lines = subprocess.run(**command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [int(count) for count in lines.split()]


def main(path, n_kills):
    """Save and kill."""
    rng = random.Random(0)
    models = [[fitted(AveragedPerceptron(random_state=i)), np.full(200_000, i)] for i in range(2)]
    expected = [model.decision_function(X) for model, _ in models]
    save(models[0], path)
    start = time.perf_counter()
    for model in 3 * models:
        save(model, path)
    seconds = (time.perf_counter() - start) / 6
    found = [0, 0]
    for first in range(n_kills):
        _kill_after(rng.uniform(0, 4 * seconds), models, path, first)
        model, marks = load(path)
        assert np.ptp(marks) == 0
        assert np.array_equal(model.decision_function(X), expected[marks[0]])
        found[marks[0]] += 1
    # A killed save leaves at most its own draft, under a hidden name.
    left = [name for name in os.listdir(os.path.dirname(path)) if name != os.path.basename(path)]
    assert len(left) <= n_kills
    assert all(name.startswith(".") and name.endswith(".tmp") for name in left)
    print(*found)


def _kill_after(seconds, models, path, turn):
    begun, begin = os.pipe()
    child = os.fork()
    if not child:
        os.write(begin, b"!")
        while True:
            turn += 1
            save(models[turn % 2], path)
    os.read(begun, 1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(begun)
    os.close(begin)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
