"""Names and buffers of a program: inputs, outputs, constants and what is stored in between."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tracegrad.ir.dims import Dim, DimLike, symbols
from tracegrad.ir.graph import Var
from tracegrad.schedule.contract import Contraction
from tracegrad.schedule.fuse import Forest
from tracegrad.schedule.loops import Buffer
from tracegrad.schedule.statements import Statement

_LOOP_NAMES = "ijklmnpq"
_RESERVED = {
    "range",
    "for",
    "in",
    "if",
    "else",
    "def",
    "return",
    "unroll",
    "parallel",
    "and",
    "or",
    "not",
    "is",
    "call",
}


class BufferTable:
    """Gives every value that is stored its buffer, and every scalar a name; makes buffers when they are first used."""

    def __init__(self, forest: Forest, contraction: Contraction):
        self.program = forest.program
        self.storage = contraction.storage
        self.makers = forest.makers
        self.buffers: dict[str, Buffer] = {}
        self.names: dict[Var, str] = {}
        self.taken: set[str] = set(_RESERVED)
        self.counts: dict[str, int] = {}
        for var in self.program.inputs:
            self.taken |= {s for d in var.type.shape for s in symbols(d)}
        given = {v.name for v in (*self.program.inputs, *self.program.outputs)}
        self.loop_names = [c for c in _LOOP_NAMES if c not in self.taken | given]
        self.taken |= set(self.loop_names)
        self.owners: dict[Var, Var] = {}
        for position, var in enumerate(self.program.inputs):
            name = self.fresh(var.name or f"x{position}")
            self.names[var] = name
            self.owners[var] = var
            self.buffers[name] = Buffer(name, var.type.dtype, var.type.shape, "input")
        for position, var in enumerate(self.program.outputs):
            if var not in self.names:
                name = self.fresh(var.name if _is_word(var.name) else f"out{position}")
                self.names[var] = name
                owner = self.owners.setdefault(self.program.memory(var), var)
                base, role = ("", "output") if owner is var else (self.names[owner], "input")
                self.buffers[name] = Buffer(name, var.type.dtype, var.type.shape, role, None, base)

    def loop_variable(self, depth: int) -> str:
        """The name of the loop variable at that depth."""
        while depth >= len(self.loop_names):
            self.loop_names.append(self.fresh(f"i{len(self.loop_names)}"))
        return self.loop_names[depth]

    def fresh(self, wish: str) -> str:
        """A name like `wish` that nothing has yet."""
        base = re.sub(r"\W", "_", wish) or "t"
        if base[0].isdigit():
            base = "t" + base
        name = base
        while name in self.taken:
            self.counts[base] = self.counts.get(base, 1) + 1
            name = f"{base}_{self.counts[base]}"
        self.taken.add(name)
        return name

    def scalar(self, var: Var, suffix: str = "") -> str:
        """A new name for a register that holds (something of) `var`."""
        wish = var.name if _is_word(var.name) else "t" if suffix else f"t{len(self.taken)}"
        return self.fresh(wish + ("_" + suffix if suffix else ""))

    def accumulator(self, var: Var, shape: tuple[DimLike, ...], role: str) -> str:
        """A new small buffer that a reduction to `var` accumulates in."""
        name = self.fresh((var.name if _is_word(var.name) else "t") + "_acc")
        self.buffers[name] = Buffer(name, var.type.dtype, shape, role)
        return name

    def of(self, var: Var) -> str:
        """The name of the buffer that holds `var`."""
        if var not in self.names:
            self.names[var] = self._make(var)
        return self.names[var]

    def _make(self, var: Var) -> str:
        root = self.program.memory(var)
        owner = self.owners.setdefault(root, root)
        name = self.fresh(var.name if _is_word(var.name) else f"b{len(self.buffers)}")
        if owner is not var:
            base = self.buffers[self.of(owner)]
            self.buffers[name] = Buffer(name, var.type.dtype, var.type.shape, base.role, base.value, base.name)
            return name
        constant = self.program.constants.get(var)
        if constant is not None:
            self.buffers[name] = Buffer(name, constant.dtype, constant.shape, "constant", constant)
            return name
        maker = self.makers[var]
        shape, role = var.type.shape, "temp"
        if isinstance(maker, Statement):
            storage = self.storage[maker]
            shape, role = tuple(shape[a] for a in storage.axes), storage.role
        self.buffers[name] = Buffer(name, var.type.dtype, shape, role)
        return name


def _is_word(name: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z_]\w*", name))


def sizes_of(inputs: tuple[Var, ...]) -> Mapping[str, tuple[int, int]]:
    """Where each symbol is found: the input and axis whose size it is."""
    found: dict[str, tuple[int, int]] = {}
    for position, var in enumerate(inputs):
        for axis, dim in enumerate(var.type.shape):
            if isinstance(dim, Dim) and len(names := dim.symbols()) == 1:
                (name,) = names
                if str(dim) == name:
                    found.setdefault(name, (position, axis))
    return found


__all__ = ["BufferTable", "sizes_of"]
