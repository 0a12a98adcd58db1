"""The straight road of eager operations says what the general one says: values, nodes, views, gradients, errors."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
import tracegrad.ops
from tests.ops.samples import samples_of
from tracegrad.function import registry
from tracegrad.ops.indexing import composed_getitem, getitem
from tracegrad.tensor import Tensor

assert tracegrad.ops  # importing it fills the registry

OPERATIONS = [op for _, op in sorted(registry.items())]


def leaves(args: tuple[Any, ...]) -> list[Any]:
    return [tg.tensor(a.copy(), requires_grad=a.dtype.kind in "fc") if isinstance(a, np.ndarray) else a for a in args]


def outcome(apply: Any, sample: Any) -> Any:
    """The results as a tuple and the operands, or the error as text."""
    operands = leaves(sample.args)
    try:
        with np.errstate(all="ignore"):
            result = apply(*operands, **sample.attrs)
    except Exception as error:
        return repr(error), operands
    return (result if isinstance(result, tuple) else (result,)), operands


def description(x: Any) -> Any:
    """What two roads must agree on for one result."""
    if not isinstance(x, Tensor):
        return np.asarray(x).tobytes(), np.shape(x)
    base = None if x._meta is None else (x._meta.base is not None, len(x._meta.replay), x._meta.view_reason)
    return x.numpy(force=True).tobytes(), x.shape, x.dtype, x.requires_grad, type(x.grad_fn), base


def gradients(results: Any, operands: list[Any], create_graph: bool) -> list[Any]:
    outputs = [y for y in results if isinstance(y, Tensor) and y.requires_grad]
    inputs = [x for x in operands if isinstance(x, Tensor) and x.requires_grad]
    rng = np.random.default_rng(0)
    seeds = [tg.tensor((rng.standard_normal(y.shape) * rng.integers(0, 4, y.shape)).astype(y.dtype)) for y in outputs]
    try:
        with np.errstate(all="ignore"):
            found = tg.autograd.grad(outputs, inputs, seeds, create_graph=create_graph, allow_unused=True)
    except Exception as error:
        return [type(error)]
    return [None if g is None else g.numpy(force=True) for g in found]


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("most", [1, pytest.param(None, marks=pytest.mark.slow)])
def test_roads_agree(recording, most):
    """Every operation on its samples; what backward computes on arrays is what it computes where it is recorded."""
    for op, sample in [(o, s) for o in OPERATIONS for s in samples_of(o)[:most]]:
        with tg.set_grad_enabled(recording):
            straight, operands = outcome(op.apply, sample)
            general, others = outcome(op.general_apply, sample)
        if isinstance(straight, str) or isinstance(general, str):
            assert straight == general, sample
            continue
        assert list(map(description, straight)) == list(map(description, general)), sample
        if any(isinstance(y, Tensor) and y.requires_grad for y in straight):
            bare, recorded = gradients(straight, operands, False), gradients(general, others, True)
            for a, b in zip(bare, recorded, strict=True):
                assert (a is None) == (b is None), sample
                if isinstance(a, np.ndarray):
                    rtol = 1e-5 if a.dtype.itemsize < 8 or a.dtype == np.complex64 else 1e-11
                    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12, err_msg=str(sample))


def an_item(choose: random.Random, size: int) -> Any:
    def bound() -> Any:
        return choose.choice([None, choose.randrange(-size - 2, size + 3)])

    return choose.choice(
        [
            choose.randrange(-size - 1, size + 1), slice(bound(), bound(), choose.choice([None, 1, 2, -1, -2, 0])),
            slice(bound(), bound()), None, Ellipsis, np.arange(size)[::-1], np.arange(size) % 2 == 0, True,
        ]
    )  # fmt: skip


def indexed(read: Any, start: np.ndarray, index: Any) -> Any:
    """The values, their first and second derivatives, and the derivative after a write through the view."""
    x = tg.tensor(start, requires_grad=True)
    source = x * 1.0
    try:
        part = read(source, index)
    except Exception as error:
        return repr(error)
    value = part.numpy(force=True).copy()
    (first,) = tg.autograd.grad((part * part * part).sum(), x, create_graph=True)
    (second,) = tg.autograd.grad((first * first).sum(), x, retain_graph=True)
    read(source, index).add_(1.5)
    (written,) = tg.autograd.grad((source * source).sum(), x)
    arrays = value, first.numpy(force=True), second.numpy(), source.numpy(force=True), written.numpy()
    return [(a.shape, a.tolist()) for a in arrays]


def test_indices_agree():
    """`x[index]` as one view by NumPy and as the operations that a trace records."""
    choose = random.Random(3)
    for _ in range(150):
        shape = tuple(choose.randrange(4) for _ in range(choose.randrange(4)))
        start = np.random.default_rng(1).standard_normal(shape)
        index = tuple(an_item(choose, n) for n in (*shape, 2)[: choose.randrange(len(shape) + 2)])
        found = indexed(getitem, start, index)
        assert found == indexed(composed_getitem, start, index), (shape, index)
        try:
            wanted = start[index]
        except (IndexError, ValueError):
            assert isinstance(found, str), (shape, index)
        else:
            assert found[0] == (wanted.shape, wanted.tolist()), (shape, index)


def test_recording_off_in_another_thread_only():
    """Whoever records goes on recording while another thread does not."""
    from threading import Event, Thread

    inside, done = Event(), Event()

    def quiet() -> None:
        with tg.no_grad():
            inside.set()
            done.wait()

    thread = Thread(target=quiet)
    thread.start()
    inside.wait()
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    results = [np.sin(x), x * x, x[0], np.where(x > 1, x, 0), np.reshape(x, (2, 1)), x.sum()]
    done.set()
    thread.join()
    assert all(y.requires_grad for y in results)
