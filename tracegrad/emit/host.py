"""Host calls: the code around Python functions in the middle of a compiled program (`callbacks` runs them)."""

from __future__ import annotations

from tracegrad.emit.frame import Frame, HostSite
from tracegrad.emit.layout import CONTEXT
from tracegrad.emit.llvm import I64, POINTER, alloca, call_pointer, i64, load_word, store_word
from tracegrad.schedule.loops import Call


def emit_host(frame: Frame, call: Call) -> None:
    """Call back into Python. attrs: `function`, from one ndarray per input to a tuple of one per output (or to one)."""
    b = frame.builder
    number = len(frame.unit.calls)
    buffers = frame.unit.buffers
    inputs, outputs = (tuple(buffers[n] for n in names) for names in (call.inputs, call.outputs))
    frame.unit.calls.append(HostSite(call, inputs, outputs, frame.unit.symbols))
    names = (*call.inputs, *call.outputs)
    pointers = alloca(b, POINTER, max(1, len(names)))
    for position, name in enumerate(names):
        store_word(b, frame.pointer(name), pointers, position)
    callback = load_word(b, frame.context, CONTEXT.host, POINTER)
    key = load_word(b, frame.context, CONTEXT.key)
    status = call_pointer(b, callback, I64, [key, i64(number), pointers, frame.table])
    with b.if_then(b.icmp_signed("!=", status, i64(0)), likely=False):
        frame.stop(status)
