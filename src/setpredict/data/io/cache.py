"""A file in the cache: read from there, built when it is not there or not whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from setpredict.core.paths import only_one_builder
from setpredict.core.files import atomic

T = TypeVar("T")


def cached(path: Path, build: Callable[[Path], None], read: Callable[[Path], T]) -> T:
    """What `read` makes of `path`, after `build` has written it if need be.

    Two processes that start at once build it once. A damaged file (a full disk, a copy broken off) is built anew.
    """
    found = _try(path, read)
    if found is None:
        with only_one_builder(path):
            found = _try(path, read)  # another process may have built it meanwhile
            if found is None:
                with atomic(path) as temporary:
                    build(temporary)
    return read(path) if found is None else found


def _try(path: Path, read: Callable[[Path], T]) -> T | None:
    if not path.exists():
        return None
    try:
        return read(path)
    except Exception:  # numpy, zipfile and zlib raise much: EOFError, BadZipFile, KeyError, ValueError, …
        return None
