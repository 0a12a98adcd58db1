"""The keys of entries: hashes of all that the compiled code depends on."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

FORMAT = 1  # of entries


def key(*parts: str | bytes) -> str:
    """A key for what `parts` describe, on this machine and with these versions."""
    return digest((_surroundings(), *parts))


def digest(parts: Iterable[str | bytes]) -> str:
    """A hash of texts and bytes, and of where each ends."""
    found = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.hexdigest()


@functools.cache
def _surroundings() -> str:
    """Versions of everything that has a say in the code, and the processor it is for."""
    import llvmlite

    from tracegrad.emit.codegen import machine

    target = machine()
    versions = (llvmlite.__version__, np.__version__, sys.version, sys.implementation.cache_tag or "")
    return digest((str(FORMAT), *versions, target.triple, target.cpu, target.features, *_sources()))


def _sources() -> Iterator[str]:
    """This package's source files, by name, size and time, since any of them may change the code it writes."""
    root = Path(__file__).resolve().parent.parent
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".py"):
                status = os.stat(os.path.join(folder, name))
                yield f"{folder[len(str(root)) :]}/{name} {status.st_size} {status.st_mtime_ns}"
