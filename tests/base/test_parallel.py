import numpy as np
import pytest
from joblib import parallel_config

from vicinal._base import n_threads, parallel_map, random_seeds, thread_map


def _normal(seed, scale):
    return scale * np.random.RandomState(seed).rand()


def test_results_do_not_depend_on_the_number_of_jobs():
    tasks = [(seed, 2.0) for seed in random_seeds(0, 7)]
    expected = parallel_map(_normal, tasks, n_jobs=1)
    for backend in ("threading", "loky"):
        with parallel_config(backend=backend):
            assert parallel_map(_normal, tasks, n_jobs=2) == expected


def test_seeds_depend_on_the_random_state_alone():
    assert random_seeds(3, 4) == random_seeds(3, 4)
    assert random_seeds(3, 4) != random_seeds(4, 4)


@pytest.mark.parametrize("n_jobs", [1, 2, None])
def test_thread_map_keeps_order(n_jobs):
    assert thread_map(lambda item: item**2, range(20), n_jobs) == [i**2 for i in range(20)]


def test_thread_map_raises_what_its_function_raises():
    def fail(item):
        raise RuntimeError(f"item {item}")

    # Whichever thread comes first: the others are not waited for.
    with pytest.raises(RuntimeError, match="item [0-2]"):
        thread_map(fail, range(3), 2)


def test_threads_follow_the_rule_of_joblib():
    assert n_threads(None) == 1
    assert n_threads(2) == 2
    with parallel_config("threading", n_jobs=3):
        assert n_threads(None) == 3


def test_progress_is_shown_when_verbose(capsys):
    parallel_map(_normal, [(0, 1.0), (1, 1.0)], label="sampling", verbose=1)
    assert "[sampling] 2/2" in capsys.readouterr().err


def test_silent_by_default(capsys):
    parallel_map(_normal, [(0, 1.0)])
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_a_function_that_only_changes_its_arguments_is_refused():
    # In another process the change would be lost.
    with pytest.raises(TypeError, match="return the result, or use thread_map"):
        parallel_map(list.append, [([], 1)])
