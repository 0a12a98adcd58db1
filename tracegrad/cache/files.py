"""A folder of entries: one file each, written whole or not at all, checked when read, the least recently used deleted.

A file is the magic bytes, a hash of the rest, the key, and the data. Files that disagree with their hash or name are
ignored and overwritten by the next writer. Any number of processes may read and write at once: a file appears under its
name by being renamed, so that nobody sees a part of one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import time

MAGIC = b"tracegrad\x00\x00\x01"
LIMIT = 256 << 20  # bytes of all entries together
LARGEST = 32 << 20  # bytes of one entry
SUFFIX = ".tgc"
ABANDONED = 3600.0  # seconds after which the temporary file of another process belongs to nobody


class Folder:
    """The entries in the folder `path`, which is made when the first one is written."""

    def __init__(self, path: str | os.PathLike[str], limit: int = LIMIT):
        self.path, self.limit = os.fspath(path), limit

    def read(self, key: str) -> bytes | None:
        """The data kept under `key`; None if there is none, or it is damaged."""
        file = self._file(key)
        try:
            with open(file, "rb") as opened:
                content = opened.read()
        except OSError:
            return None
        data = _open(content, key)
        if data is not None:
            with contextlib.suppress(OSError):
                os.utime(file)  # it has been used now
        return data

    def write(self, key: str, data: bytes) -> bool:
        """Keep `data` under `key`; whether that worked."""
        content = _seal(data, key)
        if len(content) > min(LARGEST, self.limit):
            return False
        temporary = os.path.join(self.path, f"{key}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            with open(temporary, "wb") as opened:
                opened.write(content)
            os.replace(temporary, self._file(key))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            return False
        self._trim()
        return True

    def _file(self, key: str) -> str:
        return os.path.join(self.path, key + SUFFIX)

    def _trim(self) -> None:
        """Delete the entries unused for longest until the rest is within the limit, and what dead writers left."""
        now, entries = time.time(), []
        with contextlib.suppress(OSError), os.scandir(self.path) as files:
            for file in files:
                with contextlib.suppress(OSError):
                    status = file.stat()
                    if file.name.endswith(SUFFIX):
                        entries.append((status.st_mtime, status.st_size, file.path))
                    elif file.name.endswith(".tmp") and now - status.st_mtime > ABANDONED:
                        os.unlink(file.path)
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size


def _seal(data: bytes, key: str) -> bytes:
    rest = len(key).to_bytes(2, "little") + key.encode() + data
    return MAGIC + hashlib.blake2b(rest, digest_size=32).digest() + rest


def _open(content: bytes, key: str) -> bytes | None:
    start = len(MAGIC) + 32
    rest = content[start:]
    if content[: len(MAGIC)] != MAGIC or hashlib.blake2b(rest, digest_size=32).digest() != content[len(MAGIC) : start]:
        return None
    name = len(key).to_bytes(2, "little") + key.encode()
    return rest[len(name) :] if rest.startswith(name) else None


@functools.cache
def _user_folder() -> str | None:
    """`tracegrad` in the user's cache folder; None if there is no such place."""
    if sys.platform == "linux":  # what platformdirs says there, which takes longer to import than to load a program
        base = os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache")
        return os.path.join(base, "tracegrad") if os.path.isabs(base) else None
    from platformdirs import user_cache_dir

    try:
        return user_cache_dir("tracegrad", appauthor=False)
    except (OSError, RuntimeError):  # no home folder
        return None


def default_folder() -> Folder | None:
    """The user's own folder. None where it belongs to somebody else, since its files are run as code."""
    path = _user_folder()
    if path is None:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return Folder(path)
    mine = not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o002)
    return Folder(path) if mine else None
