from __future__ import annotations

import pytest

import tracegrad as tg


@pytest.fixture(params=["eager", "compiled"])
def prepare(request):
    """Turns a function into what is called: itself, or compiled."""
    return tg.jit if request.param == "compiled" else lambda function: function
