"""Attributes that `__getattr__` serves, until the object or its class gets one of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg


class Settings(dict):
    def __getattr__(self, name: str) -> Any:
        return self[name]


class Defaults:
    def __getattr__(self, name: str) -> float:
        return 2.0


def of_dict() -> tuple[Any, list[Any]]:
    settings = Settings(rate=2.0)
    return settings, [lambda: settings.update(rate=5.0), lambda: object.__setattr__(settings, "rate", 9.0)]


def of_object() -> tuple[Any, list[Any]]:
    class Own(Defaults):
        pass

    own = Own()
    return own, [lambda: setattr(Own, "rate", 7.0), lambda: setattr(own, "rate", 3.0), lambda: delattr(own, "rate")]


@pytest.mark.parametrize("make", [of_dict, of_object])
def test_later_attributes_show(make: Any) -> None:
    owner, changes = make()

    def function(x: Any) -> Any:
        return np.sum(x**2) * owner.rate

    x, compiled, gradient = np.ones(3), tg.jit(function), tg.grad(function)
    for change in (lambda: None, *changes):
        change()
        for _ in range(2):
            assert compiled(x) == function(x)
            np.testing.assert_array_equal(gradient(x), 2 * x * owner.rate)
