"""Compiled code on the disk, so that the next process need not compile it again.

The folder is `tracegrad` in the user's cache folder, or TRACEGRAD_CACHE_DIR; TRACEGRAD_CACHE=0 turns it off. It may be
deleted at any time. An entry is bytes under a key (`keys`); `files` keeps them. Nothing here ever raises: a cache that
cannot be read or written is an empty one.
"""

from __future__ import annotations

import os

from tracegrad.cache.files import Folder, default_folder
from tracegrad.cache.keys import digest, key

_FALSE = ("0", "off", "no", "false")


def folder() -> Folder | None:
    """Where entries are kept now; None if nothing is to be kept."""
    if os.environ.get("TRACEGRAD_CACHE", "").lower() in _FALSE:
        return None
    chosen = os.environ.get("TRACEGRAD_CACHE_DIR", "")
    return Folder(chosen) if chosen else default_folder()


def read(key: str) -> bytes | None:
    """The entry of that key; None if there is none."""
    place = folder()
    return None if place is None else place.read(key)


def write(key: str, data: bytes) -> None:
    """Keep `data` under that key."""
    place = folder()
    if place is not None:
        place.write(key, data)


__all__ = ["Folder", "digest", "folder", "key", "read", "write"]
