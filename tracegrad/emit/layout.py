"""The fixed layout of what native code shares with Python: context, pool, specification, error record.

All are blocks of 64-bit words.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

SLOTS = 4  # blocks in a program's free list of workspaces

# The context of a program. `constants` is the first of as many words as it has constant buffers.
CONTEXT = SimpleNamespace(
    pool=0, run=1, dims=2, spec=3, explain=4, fail=5, release_gil=6, host=7, key=8, array_type=9,
    slots=10, constants=10 + SLOTS,
)  # fmt: skip

# The thread pool. `state`: 0 not started yet, 1 usable, -1 never to be entered.
POOL = SimpleNamespace(parallel_for=0, get_num_threads=1, state=2, launch=3)

# The specification of a program's arguments, read by `tg_call`: the counts below; then (input, axis) for each symbol;
# then for each input two type numbers that are the same type, ndim and one word per dimension; then for each output
# where it comes from (-1: computed; i: a copy of input i; inputs + o: of output o), type number, item size, ndim and
# dimensions.
# A dimension word d >= 0 is the size; else ~d is its position in the table of sizes, which starts with the symbols.
SPEC = SimpleNamespace(inputs=0, outputs=1, table=2, symbols=3, header=4)

# What a failed run leaves behind. `shared`: for a chunk of a loop, the address of the record of the whole; else 0.
ERROR = SimpleNamespace(status=0, check=1, value=2, extent=3, shared=4, words=5)
STATUS = SimpleNamespace(ok=0, index=1, host=2, memory=3, blas=4, interrupt=5, linalg=6)

# NumPy's words for what a kernel on matrices found, by the value in the record.
LINALG_ERRORS = {1: "Singular matrix", 2: "Matrix is not positive definite"}

# What of this Python's objects native code takes for granted, as the first line of its IR.
OBJECTS = f"; where objects have headers of {object.__basicsize__} bytes and the {sys.byteorder} end comes first\n"
