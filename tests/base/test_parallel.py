import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config

from vicinal._base import draw_seeds, n_threads, parallel_map, thread_map

SOURCE = str(Path(__file__).parents[2] / "src")


def _draw(seed, scale):
    return scale * np.random.RandomState(seed).rand()


def test_results_do_not_depend_on_the_number_of_jobs():
    tasks = [(seed, 2.0) for seed in draw_seeds(0, 7)]
    expected = parallel_map(_draw, tasks, n_jobs=1)
    for backend in ("threading", "loky"):
        with parallel_config(backend=backend):
            assert parallel_map(_draw, tasks, n_jobs=2) == expected


def test_seeds_depend_on_the_random_state_alone():
    assert draw_seeds(3, 4) == draw_seeds(3, 4)
    assert draw_seeds(3, 4) != draw_seeds(4, 4)


@pytest.mark.parametrize("n_jobs", [1, 2, None])
def test_thread_map_keeps_order(n_jobs):
    assert thread_map(lambda item: item**2, range(20), n_jobs) == [i**2 for i in range(20)]


def test_thread_map_raises_what_its_function_raises():
    def fail(item):
        raise RuntimeError(f"item {item}")

    # Whichever thread comes first: the others are not waited for.
    with pytest.raises(RuntimeError, match="item [0-2]"):
        thread_map(fail, range(3), 2)


def test_none_means_every_core_for_compiled_code():
    assert n_threads(None) >= 1
    assert n_threads(2) == 2


def test_progress_is_shown_when_asked(capsys):
    parallel_map(_draw, [(0, 1.0), (1, 1.0)], label="drawing", verbose=1)
    assert "[drawing] 2/2" in capsys.readouterr().err


def test_silent_by_default(capsys):
    parallel_map(_draw, [(0, 1.0)])
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


FORK = """
import faulthandler, os, sys
from sklearn.datasets import make_classification
from vicinal import DivideConquerSVC, LocalDiscriminantTransformer, LocalRegressor
from vicinal import SubspaceFusionClassifier
from vicinal.neighbors import NeighborSearch

X, y = make_classification(600, 20, n_informative=5, random_state=0)
models = [
    DivideConquerSVC(random_state=0),
    LocalRegressor(n_neighbors=30, metric="standardized"),
    LocalDiscriminantTransformer(n_regions=2, n_init=1, random_state=0),
    SubspaceFusionClassifier(["random"], n_subspaces=2, cv=2, random_state=0),
    NeighborSearch(metric="manhattan", algorithm="brute"),
]
methods = ["predict", "predict", "transform", "predict", "kneighbors"]
for model, method in zip(models, methods):
    model.fit(X, y)
    expected = getattr(model, method)(X)[0]
    child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(60, exit=True)
        os._exit(int((getattr(model, method)(X)[0] != expected).any()))
    print(type(model).__name__, os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_predicts_as_its_parent_and_does_not_hang():
    environment = {name: value for name, value in os.environ.items() if "_NUM_THREADS" not in name}
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "2"},
        check=False,
        timeout=300,
    )
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["0"] * 5, result
