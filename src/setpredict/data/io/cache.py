"""Cached files: read if present and valid, built otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from setpredict.core.files import atomic
from setpredict.core.paths import build_lock

T = TypeVar("T")


def cached(path: Path, build: Callable[[Path], None], read: Callable[[Path], T]) -> T:
    """`read(path)`, after `build` has written the file if it is missing or damaged.

    Two processes that start at the same time build it once.
    """
    found = _try_read(path, read)
    if found is None:
        with build_lock(path):
            found = _try_read(path, read)  # another process may have built it in the meantime
            if found is None:
                with atomic(path) as temporary:
                    build(temporary)
    return read(path) if found is None else found


def _try_read(path: Path, read: Callable[[Path], T]) -> T | None:
    if not path.exists():
        return None
    try:
        return read(path)
    except Exception:  # numpy, zipfile and zlib raise many kinds: EOFError, BadZipFile, KeyError, ValueError, …
        return None
