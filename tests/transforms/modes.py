"""The two ways in which tests run a transformed function."""

import pytest

import tracegrad as tg

MODES = pytest.mark.parametrize("eager", [False, True], ids=["compiled", "eager"])


def run(eager, call):
    """What `call` gives compiled, or eagerly."""
    if not eager:
        return call()
    with tg.eager():
        return call()
