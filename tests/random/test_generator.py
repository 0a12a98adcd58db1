"""The stream: the published generator's bits, the state, keys, and the same numbers in eager and compiled code."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from tracegrad.ir.dims import symbol
from tracegrad.ir.interpret import interpret
from tracegrad.ir.types import Type
from tracegrad.ops.random_bits import random_bits
from tracegrad.state import setting
from tracegrad.trace.tracer import Trace

MASK = 2**32 - 1


def threefry(key: int, counter: int) -> int:
    """Threefry2x32-20 in Python's integers, as the paper describes it (Salmon et al., SC11, section 4.2)."""
    k = [key & MASK, key >> 32]
    k.append(0x1BD11BDA ^ k[0] ^ k[1])
    x = [(counter & MASK) + k[0] & MASK, (counter >> 32) + k[1] & MASK]
    for i in range(20):
        r = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
        x[0] = x[0] + x[1] & MASK
        x[1] = ((x[1] << r) | (x[1] >> (32 - r))) & MASK
        x[1] ^= x[0]
        if i % 4 == 3:
            s = i // 4 + 1
            x = [x[0] + k[s % 3] & MASK, x[1] + k[(s + 1) % 3] + s & MASK]
    return x[0] | x[1] << 32


def test_the_reference_of_these_tests_gives_the_published_answers():
    """Random123, kat_vectors, threefry2x32 with 20 rounds."""
    assert threefry(0, 0) == 0x99BA4EFE6B200159
    assert threefry(2**64 - 1, 2**64 - 1) == 0xBB002BE71CB996FC
    assert threefry(0x0370734413198A2E, 0x85A308D3243F6A88) == 0x483DF7A0C4923A9C


def test_bits_are_those_of_the_published_generator():
    counters = [0, 1, 2**32 - 1, 2**32, 2**63 + 5, 2**64 - 1]
    for key in (0, 1, 0x0370734413198A2E):
        found = random_bits(tg.random.key(key), np.array(counters, np.uint64))
        assert found.tolist() == [threefry(key, c) for c in counters]


def test_uniform_numbers_are_the_high_bits():
    key = 12345
    bits = [threefry(key, i) for i in range(6)]
    found = tg.random.uniform(tg.random.key(key), (2, 3))
    assert found.tolist() == np.reshape([(b >> 11) * 2.0**-53 for b in bits], (2, 3)).tolist()
    single = tg.random.uniform(tg.random.key(key), 6, dtype=np.float32)
    assert single.dtype == np.float32 and single.tolist() == [(b >> 40) * 2.0**-24 for b in bits]
    half = tg.random.uniform(tg.random.key(key), 6, dtype=np.float16)
    assert half.dtype == np.float16 and half.tolist() == [(b >> 53) * 2.0**-11 for b in bits]


@pytest.mark.parametrize(
    "low, high", [(0, 6), (-3, 2**32 - 3), (-(2**63), 2**63), (0, 2**40 + 7), (-(2**62), 2**62 + 1)]
)
def test_integers_are_the_scaled_bits(low: int, high: int):
    count, key = high - low, 99
    found = tg.random.randint(tg.random.key(key), (50,), low=low, high=high).tolist()
    bits = [threefry(key, i) for i in range(100)]
    if count <= 2**32:
        expected = [low + (b * count >> 64) for b in bits[:50]]
    elif count == 2**64:
        expected = [low + b for b in bits[:50]]
    else:
        expected = [low + ((a << 64 | b) * count >> 128) for a, b in zip(bits[:50], bits[50:], strict=True)]
    assert found == expected


def test_the_generator_moves_on_by_what_is_drawn():
    generator = tg.random.Generator(7)
    assert generator.get_state().tolist() == [7, 0]
    first = tg.rand(4, generator=generator)
    second = tg.rand(2, 3, generator=generator)
    assert generator.get_state().tolist() == [7, 10]
    assert [*first.tolist(), *second.ravel().tolist()] == [(threefry(7, i) >> 11) * 2.0**-53 for i in range(10)]
    assert generator.initial_seed() == 7
    assert tg.rand(0, generator=generator).shape == (0,) and generator.state.tolist() == [7, 10]


def test_state_can_be_kept_and_set():
    tg.manual_seed(-1)
    assert tg.random.get_state().tolist() == [2**64 - 1, 0] and tg.random.initial_seed() == 2**64 - 1
    tg.rand(3)
    state = tg.random.get_state()
    first = tg.randn(5)
    tg.random.set_state(state)
    np.testing.assert_array_equal(tg.randn(5), first)
    before = tg.random.get_state().tolist()
    with tg.random.fork_rng():
        tg.rand(100)
    assert tg.random.get_state().tolist() == before
    assert tg.random.seed() == tg.random.initial_seed() != tg.random.Generator().initial_seed()


def test_keys_name_streams():
    key = tg.random.key(3)
    np.testing.assert_array_equal(tg.random.normal(key, (4,)), tg.random.normal(tg.random.key(3), (4,)))
    first, second, third = tg.random.split(key, 3)
    assert [first.tolist(), second.tolist(), third.tolist()] == [threefry(3, 2**64 - 1 - i) for i in range(3)]
    assert tg.random.fold_in(key, 5).tolist() == threefry(3, 2**63 + 5)
    assert not np.array_equal(tg.random.uniform(first, (4,)), tg.random.uniform(second, (4,)))


def test_compiled_functions_draw_fresh_numbers_of_the_same_stream():
    def draws(x):
        return x * tg.rand(3), tg.randint(-5, 5, (4,)), tg.random.bernoulli((3, 2), p=0.3), tg.randperm(7)

    compiled, x = tg.jit(draws), np.arange(3.0)
    tg.manual_seed(11)
    found = [compiled(x) for _ in range(4)]
    state = tg.random.get_state().tolist()
    tg.manual_seed(11)
    expected = [draws(x) for _ in range(4)]
    assert tg.random.get_state().tolist() == state == [11, 4 * (3 + 4 + 6 + 7)]
    for ours, wanted in zip(found, expected, strict=True):
        for a, b in zip(ours, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
    assert not np.array_equal(found[0][0], found[1][0])
    assert "1 programs" in repr(compiled)


def test_a_seed_inside_a_compiled_function_holds_in_every_call():
    @tg.jit
    def f(x):
        tg.manual_seed(5)
        return x + tg.rand(2)

    tg.manual_seed(5)
    expected = tg.rand(2)
    for _ in range(3):
        np.testing.assert_array_equal(f(np.zeros(2)), expected)
    assert tg.random.get_state().tolist() == [5, 2]


def test_keys_as_arguments_of_compiled_functions():
    def f(key):
        a, b = tg.random.split(key)
        return tg.random.uniform(a, (3,)) - tg.random.uniform(tg.random.fold_in(b, 1), (3,))

    compiled = tg.jit(f)
    for seed in (0, 2**63 + 1):
        key = tg.random.key(seed)
        np.testing.assert_array_equal(compiled(key), f(key))


def test_gradients_of_functions_that_draw():
    """The mask of each call is that of the stream, and the gradient is its own."""

    def dropped(w):
        return np.sum(w * tg.random.bernoulli(w.shape, p=0.5, dtype=float))

    w = np.arange(1.0, 9.0)
    step = tg.value_and_grad(dropped)
    tg.manual_seed(2)
    found = [step(w) for _ in range(3)]
    tg.manual_seed(2)
    for value, gradient in found:
        mask = tg.random.bernoulli((8,), p=0.5, dtype=float)._array
        np.testing.assert_array_equal(gradient, mask)
        assert value == np.sum(w * mask)


def test_what_makes_no_sense_is_an_error():
    with pytest.raises(ArgumentError, match="a seed is an integer"):
        tg.manual_seed(1.5)
    with pytest.raises(ArgumentError, match="64 bits"):
        tg.manual_seed(2**64)
    with pytest.raises(ShapeError, match="shape"):
        tg.random.set_state(np.zeros(3, np.uint64))
    with pytest.raises(DTypeError, match="uint64"):
        tg.random.set_state(np.zeros(2))
    with pytest.raises(ArgumentError, match="key is needed"):
        tg.random.split(3)
    with pytest.raises(ArgumentError, match="no integer"):
        tg.randint(3, 3)
    with pytest.raises(ArgumentError, match="do not fit into dtype uint8"):
        tg.randint(0, 257, (2,), dtype=np.uint8)
    with pytest.raises(ArgumentError, match="Generator"):
        tg.rand(2, generator=np.random.default_rng(0))
    with pytest.raises(DTypeError, match="float16, float32 or float64"):
        tg.rand(2, dtype=int)
    with pytest.raises(ArgumentError, match="by name"):
        tg.random.normal((3,), 2.0)
    with pytest.raises(ShapeError, match="broadcast"):
        tg.random.normal((3,), loc=np.zeros(2))
    with pytest.raises(ShapeError, match="do not broadcast to the shape"):
        tg.random.normal((3,), loc=np.zeros((2, 1)))


def test_symbolic_sizes():
    """Traced once for any n, the draw takes n*3 blocks, and then as many integers of the blocks after them."""
    recording = Trace("draws")
    x = recording.add_input(Type(np.dtype(float), (symbol("n"), 3)), "x")
    generator = tg.random.Generator(9)
    with setting(trace=recording):
        results = tg.rand(x.shape, generator=generator) + x, tg.randint(0, 2**40, x.shape, generator=generator)
        outputs = tuple(recording.lift(r) for r in (*results, generator.state))
    graph, captured = recording.finish(outputs)
    for n in (2, 5):
        values = np.ones((n, 3))
        drawn, integers, state = interpret(graph, [values, *(c._value() for c in captured)])
        same = tg.random.Generator(9)
        np.testing.assert_array_equal(drawn, tg.rand(n, 3, generator=same)._array + 1)
        np.testing.assert_array_equal(integers, tg.randint(0, 2**40, (n, 3), generator=same)._array)
        assert state.tolist() == same.state.tolist() == [9, 9 * n]


def test_rows_under_vmap_draw_from_keys():
    keys = tg.random.split(tg.random.key(0), 3)
    found = tg.vmap(lambda key: tg.random.uniform(key, (2,)))(keys)
    np.testing.assert_array_equal(found, [tg.random.uniform(key, (2,)) for key in keys])
    with pytest.raises(UnsupportedError) as caught:
        tg.vmap(lambda x: x * tg.rand())(np.ones(3))
    assert "tg.random.split" in caught.value.fix
