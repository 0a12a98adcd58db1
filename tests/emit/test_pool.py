"""The thread pool without Numba: opened by the first parallel loop, shared with Numba where that is imported later."""

import os
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from tracegrad.emit.pool import _chosen_otherwise, _openmp, _processors

SCRIPT = """
    import ctypes, sys
    import numpy as np
    import tracegrad as tg
    from tracegrad.emit import runtime
    from tracegrad.emit.layout import POOL

    f = tg.value_and_grad(lambda x: np.sum(np.sin(x) * x))
    x = np.linspace(0, 9, 300_000)
    value, gradient = f(x)
    np.testing.assert_allclose(gradient, np.sin(x) + x * np.cos(x), rtol=1e-12, atol=1e-12)
    assert runtime._pool_state[POOL.state] == 1 and "numba" not in sys.modules
    threads = ctypes.CFUNCTYPE(ctypes.c_int)(runtime._pool_state[POOL.get_num_threads])

    import numba
    assert numba.get_num_threads() == threads() == numba.config.NUMBA_NUM_THREADS
    assert numba.threading_layer() == "omp"
    numba.set_num_threads(1)
    assert threads() == 1
    again, gradient_again = f(x)
    assert again == value and np.array_equal(gradient, gradient_again)
"""


@pytest.mark.skipif(_openmp() is None, reason="Numba's OpenMP layer cannot be loaded, or would not be chosen")
def test_the_pool_is_opened_without_numba_and_obeys_it():
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(_openmp() is None or not sys.platform.startswith("linux"), reason="GNU's OpenMP is not used")
@pytest.mark.parametrize(("given", "expected"), [({}, "1000"), ({"GOMP_SPINCOUNT": "77"}, "77")])
def test_threads_without_work_soon_sleep(given, expected):
    """OpenMP prints what it read; the environment is as it was."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "GOMP_", "OMP_"))}
    environment |= {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_DISPLAY_ENV": "VERBOSE", **given}
    script = """
        import os
        import numpy as np
        import tracegrad as tg

        tg.jit(lambda x: np.sum(np.sin(x)))(np.linspace(0, 9, 300_000))
        print(os.environ.get("GOMP_SPINCOUNT"))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert f"GOMP_SPINCOUNT = '{expected}'" in done.stderr
    assert done.stdout.strip() == str(given.get("GOMP_SPINCOUNT"))


@pytest.mark.parametrize(
    ("changes", "otherwise"),
    [
        ({}, False),
        ({"NUMBA_NUM_THREADS": 1000}, True),
        ({"THREADING_LAYER": "workqueue"}, True),
        ({"THREADING_LAYER_PRIORITY": ["omp", "tbb", "workqueue"]}, True),
        ({"_is_initialized": True}, True),
    ],
)
def test_what_numba_was_told_in_this_process_counts(monkeypatch, tmp_path, changes, otherwise):
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith("NUMBA_")]:
        monkeypatch.delenv(name)
    settings = {
        "NUMBA_NUM_THREADS": _processors(),
        "THREADING_LAYER": "default",
        "THREADING_LAYER_PRIORITY": ["tbb", "omp", "workqueue"],
        "_is_initialized": False,
        **changes,
    }
    parallel = SimpleNamespace(_is_initialized=settings.pop("_is_initialized"))
    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace(config=SimpleNamespace(**settings)))
    monkeypatch.setitem(sys.modules, "numba.np.ufunc.parallel", parallel)
    assert _chosen_otherwise() is otherwise
