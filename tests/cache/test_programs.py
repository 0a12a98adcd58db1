"""Compiled programs from the disk: the next process computes the same bits without compiling."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import numpy as np, tracegrad as tg
from tracegrad.emit import codegen

calls, optimise = [], codegen._optimise

def counted(module):
    calls.append(module.name)
    optimise(module)

codegen._optimise = counted

def show(result):
    leaves = result if isinstance(result, tuple) else (result,)
    for leaf in leaves:
        for x in (leaf if isinstance(leaf, tuple) else (leaf,)):
            print(np.asarray(x).dtype, np.shape(x), np.asarray(x).tobytes().hex())

def end(*functions):
    cached = [p.cached for f in functions for p in tg.explain(f).programs]
    print("compiled" if calls else "loaded", "| cached", cached)
    calls.clear()
"""

ROSEN = """
@tg.value_and_grad
def f(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
show(f(np.linspace(0.1, 1.7, 10)))
end(f)
"""

CONSTANTS = """
table = np.cos(np.arange(300.0))
@tg.value_and_grad
def f(x):
    weights = np.linspace(0.0, 1.0, 300)
    return np.sum(np.exp(x * weights) * table * np.array([0.5, np.nan, 2.0] * 100)[0] + weights[:300])
show(f(np.linspace(-1.0, 1.0, 300)))
end(f)
"""

HOST = """
@tg.jit
def f(x, y):
    a = np.sort(x)
    b = np.sort(y)
    return np.exp(a) - b, np.fft.fft(x) if hasattr(tg, "nothing") else a * (1 + 2j)
show(f(np.sin(np.arange(40.0)), np.cos(np.arange(40.0))))
end(f)
"""

USER_FUNCTION = """
class Cube(tg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return tg.tensor(POWER(x.numpy()))
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x
@tg.value_and_grad
def f(x):
    return np.sum(Cube.apply(x) * np.arange(5.0))
show(f(np.linspace(-1.0, 1.0, 5)))
end(f)
"""

MATMUL = """
@tg.value_and_grad
def f(a, b):
    return np.sum(np.tanh(a @ b) ** 2)
rng = np.random.default_rng(0)
show(f(rng.normal(size=(70, 50)), rng.normal(size=(50, 40))))
large = rng.normal(size=(300, 300))
g = tg.grad(lambda a: np.sum(a @ a))
show(g(large))
end(f, g)
"""

INDEX = """
@tg.jit
def f(x, i):
    y = x * 2
    return np.exp(y)[i]
show(f(np.arange(4.0), np.array([1, 3])))
try:
    f(np.arange(4.0), np.array([1, 9]))
except IndexError as error:
    print(error.location.line, error.location.file[-8:], str(error).splitlines()[0])
end(f)
"""

TENSORS = """
@tg.jit
def f(x):
    return np.sum(np.exp(x) * np.sin(x))
x = tg.tensor(np.linspace(0.0, 1.0, 9), requires_grad=True)
y = f(x)
y.backward()
show((y.detach().numpy(), x.grad.numpy()))
end(f)
"""


def run(source: str, folder, **environment: str) -> list[str]:
    """The lines that a fresh process prints."""
    env = {**os.environ, "TRACEGRAD_CACHE": "1", "TRACEGRAD_VERIFY": "0", "TRACEGRAD_CACHE_DIR": str(folder)}
    script = textwrap.dedent(PRELUDE) + source
    result = subprocess.run(
        [sys.executable, "-c", script], env={**env, **environment}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.fixture(scope="module")
def rosen_once(tmp_path_factory):
    """A folder in which ROSEN has been compiled, and what that printed."""
    folder = tmp_path_factory.mktemp("rosen")
    return folder, run(ROSEN, folder)


@pytest.fixture
def rosen(rosen_once, tmp_path):
    """A copy of that folder to use up, and the lines."""
    folder, lines = rosen_once
    return shutil.copytree(folder, tmp_path / "copy"), lines


def test_the_second_process_loads_and_gives_the_same_bits(tmp_path):
    source = "".join([ROSEN, CONSTANTS, HOST, MATMUL, INDEX, TENSORS])
    first, second = run(source, tmp_path), run(source, tmp_path)
    for lines, how, other in ((first, "compiled", "True"), (second, "loaded", "False")):
        ends = [line for line in lines if "cached" in line]
        assert len(ends) == 6 and all(line.startswith(how) and other not in line for line in ends), ends
    assert [line for line in first if "cached" not in line] == [line for line in second if "cached" not in line]


def test_the_switch_turns_it_off(rosen, tmp_path):
    folder = tmp_path / "unused"
    folder.mkdir()
    assert run(ROSEN, folder, TRACEGRAD_CACHE="0") == rosen[1]
    assert not list(folder.iterdir())


def test_functions_of_users_are_those_of_the_process(tmp_path):
    """The code is the same, but the Python function that it calls is today's."""
    cube, other = (USER_FUNCTION.replace("POWER", text) for text in ("(lambda a: a ** 3)", "(lambda a: a ** 5)"))
    first, second, third = run(cube, tmp_path), run(cube, tmp_path), run(other, tmp_path)
    assert first[-1].startswith("compiled") and second[-1].startswith("loaded") and third[-1].startswith("loaded")
    assert first[:-1] == second[:-1]
    assert third[0] != first[0]  # the value
    assert third[1] == first[1]  # the gradient, which is stated for the cube


def test_another_function_is_another_entry(rosen):
    assert run(ROSEN.replace("100.0", "10.0"), rosen[0])[-1].startswith("compiled")


def test_constants_are_part_of_the_key(tmp_path):
    """Arrays that the recording keeps, and not only their shapes."""
    source = """
    f = tg.jit(lambda x: x * np.linspace(0.0, END, 500))
    show(f(np.ones(500)))
    end(f)
    """
    one, two = (textwrap.dedent(source).replace("END", end) for end in ("1.0", "2.0"))
    assert run(one, tmp_path)[0] != run(two, tmp_path)[0]
    assert run(two, tmp_path)[-1].startswith("loaded")


def test_another_processor_has_another_key(rosen):
    folder, lines = rosen
    assert lines[-1].startswith("compiled")
    other = "from tracegrad.emit import codegen; m = codegen.machine()\n"
    other += 'codegen.machine = lambda: codegen.Machine(m.triple, m.cpu, m.features + ",-avx512f")\n'
    assert run(other + ROSEN, folder)[-1].startswith("compiled")
    assert run(ROSEN, folder)[-1].startswith("loaded")


def test_damaged_entries_are_compiled_again(rosen):
    folder, lines = rosen
    for file in folder.iterdir():
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0xFF
        file.write_bytes(content)
    assert run(ROSEN, folder) == lines
    assert run(ROSEN, folder)[-1].startswith("loaded")


def test_entries_with_another_header_are_compiled_again(rosen):
    """An entry whose hash is right and whose contents are not."""
    from tracegrad.cache.files import Folder

    path, lines = rosen
    folder = Folder(path)
    for file in path.iterdir():
        if b"arrays" in folder.read(file.stem):
            folder.write(file.stem, b"{'name': 'f'}\n")
    assert run(ROSEN, path) == lines
    assert run(ROSEN, path)[-1].startswith("loaded")


def test_processes_at_once(tmp_path):
    env = {**os.environ, "TRACEGRAD_CACHE": "1", "TRACEGRAD_VERIFY": "0", "TRACEGRAD_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PRELUDE + ROSEN]
    processes = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [p.communicate()[0].splitlines() for p in processes]
    assert all(p.returncode == 0 for p in processes)
    assert len({tuple(lines[:-1]) for lines in outputs}) == 1
    assert not list(tmp_path.glob("*.tmp"))
    assert run(ROSEN, tmp_path)[-1].startswith("loaded")


def test_a_folder_that_cannot_be_used_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    lines = run(ROSEN, tmp_path / "file" / "cache")
    assert lines[-1].startswith("compiled")
    env = {"TRACEGRAD_CACHE_DIR": "", "HOME": "/nonexistent", "XDG_CACHE_HOME": "/proc/none"}
    assert run(ROSEN, tmp_path, **env) == lines


def test_stages_of_a_loaded_program_can_be_shown(tmp_path):
    source = ROSEN + 'print(len(f.show("schedule")) > 0, "define" in f.show("llvm"), "ret" in f.show("asm"))\n'
    source += 'print("disk cache" in str(tg.explain(f)))\n'
    assert run(source, tmp_path)[-2:] == ["True True True", "False"]
    assert run(source, tmp_path)[-2:] == ["True True True", "True"]


def test_a_loaded_program_is_callable_from_njit(rosen):
    source = ROSEN + textwrap.dedent("""
    import numba
    entry = next(iter(f.entries.values()))[0].program.executable.entry
    @numba.njit
    def run(x):
        value, gradient = np.empty(()), np.empty(x.size)
        entry(x, value, gradient)
        return value, gradient
    show(run(np.linspace(0.1, 1.7, 10)))
    """)
    value, gradient, end, value_again, gradient_again = run(source, rosen[0])
    assert end.startswith("loaded")
    assert (value, gradient) == (value_again, gradient_again)
