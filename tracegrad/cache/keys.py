"""The keys of entries: hashes of all that the compiled code depends on."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator

import numpy as np

FORMAT = 1  # of entries
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


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
    return digest((str(FORMAT), *versions, target.triple, target.cpu, target.features, "\n".join(_sources())))


def _sources(folder: str = "") -> Iterator[str]:
    """This package's source files, by name, size and time, since any of them may change the code it writes."""
    with os.scandir(os.path.join(_ROOT, folder)) as found:
        files = sorted(found, key=lambda file: file.name)
    for file in files:
        if file.name.endswith((".py", ".ll")):
            status = file.stat()
            yield f"{folder}/{file.name} {status.st_size} {status.st_mtime_ns}"
        elif file.is_dir() and file.name != "__pycache__":
            yield from _sources(f"{folder}/{file.name}" if folder else file.name)
