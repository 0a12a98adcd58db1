"""tg.save and tg.load: everything comes back as it was, nothing is unpickled, and what cannot be stored is named."""

from __future__ import annotations

import io
import json
import math
import pickle
import sys
import zipfile
from collections import OrderedDict, defaultdict, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import tracegrad as tg
from tracegrad.errors import MissingPackageError, SaveError
from tracegrad.nn import Parameter


def through_file(obj: Any) -> Any:
    file = io.BytesIO()
    tg.save(obj, file)
    file.seek(0)
    return tg.load(file)


def same(a: Any, b: Any) -> bool:
    """Equal in type, structure and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return all(same(x, y) for x, y in zip(a.items(), b.items(), strict=True))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, tg.Tensor):
        return a.requires_grad == b.requires_grad and same(a.detach().numpy(), b.detach().numpy())
    if isinstance(a, (np.ndarray, np.generic)):
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes() or (math.isnan(a) and math.isnan(b))
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    return a == b


EXAMPLES = {
    "tensor": tg.tensor([[1.5, -0.0], [math.nan, math.inf]]),
    "leaf": tg.tensor([1.0], requires_grad=True),
    "dtypes": [tg.tensor(np.zeros((2, 0, 3), d)) for d in ("f2", "f4", "f8", "i1", "i8", "u1", "u8", "?", "c8", "c16")],
    "0-d": tg.tensor(7),
    "arrays": (np.arange(6).reshape(2, 3).T, np.array(["a", "bc"]), np.float32(2.5), np.array(1j)),
    "numbers": [0, -1, 2**200, True, False, 0.1, -0.0, math.nan, -math.inf, 1e-310, 1 - 2j],
    "text": ["", "ä/ü", "a" * 1000, b"\0\xff", b"", None],
    "keys": {"a": 1, 2: "b", 2.5: None, True: 3, None: 4, (1, "x"): 5, "": 6, "../up": np.ones(2), "a/b": np.zeros(1)},
    "nested": OrderedDict([("z", ({"y": [tg.tensor([1.0])]},)), ("a", [])]),
    "empty": {},
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_comes_back_as_it_was(name: str):
    assert same(through_file(EXAMPLES[name]), EXAMPLES[name])


LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text() | st.binary()
    | npst.arrays(npst.scalar_dtypes(), npst.array_shapes(min_dims=0, min_side=0, max_side=3))
)  # fmt: skip
OBJECTS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(OBJECTS)
def test_anything_of_these_comes_back(obj: Any):
    assert same(through_file(obj), obj)


def test_shared_tensors_stay_shared():
    x, a = tg.tensor([1.0, 2.0]), np.ones(3)
    first, second, third, fourth = through_file([x, {"again": x}, a, a])
    assert first is second["again"] and third is fourth


def test_parameters_and_modules_and_optimizers(tmp_path: Path):
    model = tg.nn.Linear(3, 2)
    optimizer = tg.optim.Adam(model.parameters(), lr=0.01, betas=(0.8, 0.9))
    x = tg.tensor(np.arange(6.0).reshape(2, 3))

    def train(model, optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            (model(x) ** 2).sum().backward()
            optimizer.step()
        return [p.detach().numpy().copy() for p in model.parameters()]

    train(model, optimizer)
    tg.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, tmp_path / "a.npz")
    found = tg.load(tmp_path / "a.npz")
    assert found["epoch"] == 3 and type(found["model"]) is OrderedDict
    other = tg.nn.Linear(3, 2)
    other.load_state_dict(found["model"])
    other_optimizer = tg.optim.Adam(other.parameters())
    other_optimizer.load_state_dict(found["optimizer"])
    assert other_optimizer.param_groups[0]["betas"] == (0.8, 0.9)
    for p, q in zip(train(model, optimizer), train(other, other_optimizer), strict=True):
        np.testing.assert_array_equal(p, q)
    parameter = through_file(Parameter(tg.tensor([1.0])))
    assert type(parameter) is Parameter and parameter.requires_grad


def test_numpy_reads_the_file_and_we_read_numpys(tmp_path: Path):
    path = tmp_path / "weights.npz"
    tg.save({"layer.weight": tg.tensor([1.0, 2.0])}, path)
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["layer.weight"], [1.0, 2.0])
    np.savez(tmp_path / "numpy.npz", a=np.arange(3))
    found = tg.load(str(tmp_path / "numpy.npz"))
    assert found["a"].tolist() == [0, 1, 2] and isinstance(found["a"], tg.Tensor)


def test_a_file_is_replaced_only_when_complete(tmp_path: Path):
    path = tmp_path / "x.npz"
    tg.save([1, 2], path)
    with pytest.raises(SaveError):
        tg.save([np.ones(3), object()], path)
    assert tg.load(path) == [1, 2] and [p.name for p in tmp_path.iterdir()] == ["x.npz"]


Pair = namedtuple("Pair", "a b")
FAULTS: list[tuple[Any, str, str]] = [
    ({"a": [object()]}, r"type builtins.object \(at a / 0\)", "tg.save stores"),
    ([tg.nn.Linear(1, 1)], "Linear", "state_dict"),
    (defaultdict(int), "defaultdict", "dict"),
    (Pair(1, 2), "Pair", "tuple"),
    ({1, 2}, "set", "tg.save stores"),
    (lambda: 0, "function", "tg.save stores"),
    (np.array([None]), "holds Python objects", "dtype"),
    ({np.float64: 1}, "type builtins.type", "tg.save stores"),
]


@pytest.mark.parametrize("obj, what, fix", FAULTS, ids=[f[1] for f in FAULTS])
def test_what_cannot_be_stored(obj: Any, what: str, fix: str):
    with pytest.raises(SaveError, match=what) as caught:
        tg.save(obj, io.BytesIO())
    assert fix in caught.value.fix


def test_cycles_and_traced_tensors():
    cycle: list = []
    cycle.append({"again": cycle})
    with pytest.raises(SaveError, match="contains itself"):
        tg.save(cycle, io.BytesIO())
    with pytest.raises(SaveError, match="no numbers yet"):
        tg.jit(lambda x: tg.save(x, io.BytesIO()))(np.ones(2))


class Explosive:
    def __reduce__(self):
        return (sys.exit, ("unpickled",))


def test_nothing_is_unpickled(tmp_path: Path):
    path = tmp_path / "evil.npz"
    np.savez(path, a=np.array([Explosive()], dtype=object))
    with pytest.raises(SaveError, match="cannot be read"):
        tg.load(path)
    path.write_bytes(pickle.dumps(Explosive()))
    with pytest.raises(SaveError, match=r"not a file of tg\.save"):
        tg.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Explosive()))
    with pytest.raises(SaveError, match="it is pickled"):
        tg.load(path)


def test_damaged_files(tmp_path: Path):
    for text in ("{", "[]", '{"version": 1, "object": {"list": 3}}', '{"version": 1, "object": {"array": "none"}}'):
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("tracegrad.json", text)
        with pytest.raises(SaveError, match="damaged"):
            tg.load(tmp_path / "x.npz")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("tracegrad.json", json.dumps({"version": 2, "object": None}))
    with pytest.raises(SaveError, match="newer tracegrad"):
        tg.load(tmp_path / "x.npz")
    with pytest.raises(FileNotFoundError):
        tg.load(tmp_path / "nowhere.npz")


def test_safetensors(tmp_path: Path):
    pytest.importorskip("safetensors")
    path = tmp_path / "x.safetensors"
    state = {"a": tg.tensor(np.arange(6.0).reshape(2, 3).T), "b": np.array([1, 2], np.int32)}
    tg.save(state, path)
    found = tg.load(str(path))
    assert set(found) == {"a", "b"} and all(isinstance(v, tg.Tensor) for v in found.values())
    assert found["a"].tolist() == state["a"].tolist() and found["b"].dtype == np.int32
    with pytest.raises(SaveError, match="by name, not a list"):
        tg.save([1], path)
    with pytest.raises(SaveError, match="'a': int"):
        tg.save({"a": 1}, path)


def test_safetensors_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("safetensors", "safetensors.numpy"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackageError, match=r"tracegrad\[io\]"):
        tg.save({"a": tg.ones(2)}, tmp_path / "x.safetensors")
    with pytest.raises(ImportError):
        tg.load(tmp_path / "x.safetensors")
