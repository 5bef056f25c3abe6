"""Compiled functions: the cache follows its sources, and may be missing."""

import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.compiled import STEPS

from vicinal._kernels._compiled_files import SignatureFiles


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_without_a_folder_to_write_to_there_is_one_warning_and_no_cache():
    found = run(
        """
        import warnings
        from numba.core.caching import FunctionCache
        FunctionCache._impl_class._locator_classes = []
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            from vicinal._kernels.local._workspace import cholesky_lower, gram_lower
            import numpy as np
            G, L = np.empty((1, 1)), np.empty((1, 1))
            gram_lower(np.array([[1.0, 2.0]]), 1, 2, G)
            cholesky_lower(G, 1, 0.0, L)
        print(len(seen), "NUMBA_CACHE_DIR" in str(seen[0].message), G[0, 0])
        """
    )
    assert found.split() == ["1", "True", "5.0"]


@pytest.mark.skipif(os.name == "nt", reason="needs users and file modes, which Windows lacks")
def test_an_unwritable_home_and_package_do_not_stop_the_import(tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    code = """
        import os, warnings
        import numba, numpy as np
        from vicinal._kernels.local._workspace import gram_lower
        G = np.empty((1, 1))
        numba.njit(gram_lower.py_func)(np.array([[1.0, 2.0]]), 1, 2, G)  # imports all it needs
        if os.geteuid() == 0:  # may write everywhere, so becomes somebody who may not
            os.setuid(65534)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            gram_lower(np.array([[1.0, 2.0]]), 1, 2, G)
        print(len(seen), "NUMBA_CACHE_DIR" in str(seen[0].message), G[0, 0])
        """
    environment = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), str(locked))
    found = run(code, **environment, IPYTHONDIR=str(locked), TMPDIR=str(locked))
    assert found.split() == ["1", "True", "5.0"]


def test_a_changed_callee_makes_its_callers_new(tmp_path):
    """Numba alone would go on calling the old function from the cached caller."""
    (tmp_path / "low.py").write_text(
        "from vicinal._kernels._jit import jit\n\n\n@jit\ndef low(x):\n    return x + 1\n"
    )
    (tmp_path / "high.py").write_text(
        "from low import low\nfrom vicinal._kernels._jit import jit\n\n\n"
        "@jit\ndef high(x):\n    return 10 * low(x)\n"
    )
    folder = os.pathsep.join([str(tmp_path), *sys.path])
    ask = "from high import high; print(high(1), sum(high.stats.cache_hits.values()))"
    environment = {"PYTHONPATH": folder, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run(ask, **environment).split() == ["20", "0"]
    assert run(ask, **environment).split() == ["20", "1"]
    source = (tmp_path / "low.py").read_text()
    (tmp_path / "low.py").write_text(source.replace("x + 1", "x + 1001"))
    assert run(ask, **environment).split() == ["10020", "0"]


def test_signatures_written_at_the_same_time_keep_their_own_code(tmp_path):
    """Numba's numbered files were taken twice, and a process ran code of other arguments."""

    def write(base, key, barrier):
        files = SignatureFiles(str(tmp_path), base, (1,))
        barrier.wait()
        files.save(key, [key] * 1000)

    for turn in range(50):
        base, barrier = f"f{turn}", threading.Barrier(4)
        keys = ["int", "float", "complex", "bool"]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, [base] * 4, keys, [barrier] * 4))
        files = SignatureFiles(str(tmp_path), base, (1,))
        assert [files.load(key) for key in keys] == [[key] * 1000 for key in keys]


def test_files_of_older_sources_go_and_torn_ones_are_not_read(tmp_path):
    old, new = (SignatureFiles(str(tmp_path), "f", (state,)) for state in (1, 2))
    other = SignatureFiles(str(tmp_path), "ff", (1,))
    old.save("int", 1)
    other.save("int", 3)
    assert new.load("int") is None
    new.save("int", 2)
    assert (old.load("int"), new.load("int"), other.load("int")) == (None, 2, 3)
    (file,) = tmp_path.glob("f.*.nbc")
    file.write_bytes(file.read_bytes()[:-2])
    assert new.load("int") is None
    other.flush()
    assert other.load("int") is None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("step", STEPS)
def test_steps_that_compile_before_the_suite_run(step):
    STEPS[step]()
