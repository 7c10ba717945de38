"""Where data sets and caches are stored, and locks for building cached files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from setpredict.core.files import remove_temporary


def data_folder() -> Path:
    """`$SETPREDICT_DATA`, or the folder `data` in the cache folder."""
    folder = os.environ.get("SETPREDICT_DATA")
    return Path(folder).expanduser() if folder else cache_folder() / "data"


def cache_folder() -> Path:
    """`$SETPREDICT_CACHE`, or `setpredict` in the user's cache folder.

    Caches are never written to data folders, which may be read-only.
    """
    folder = os.environ.get("SETPREDICT_CACHE")
    if folder:
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "setpredict"


@contextmanager
def build_lock(path: Path) -> Iterator[None]:
    """Hold the lock for building `path`; other processes that want to build it wait.

    Temporary files of a killed builder are removed. The operating system releases the lock when the process ends.
    """
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.parent / f".{path.name}.lock"):
        remove_temporary((path,), ())
        yield


def fingerprint(files: Iterable[Path], *settings: object) -> str:
    """A short hash of these files (path, size, modification time) and settings.

    Relative, absolute and linked spellings of the same folder give the same hash.
    """
    digest = hashlib.sha256(repr(settings).encode())
    folders: dict[Path, Path] = {}  # each folder is resolved once, not once per image
    for file in files:
        folder = file.parent
        if folder not in folders:
            folders[folder] = folder.resolve()
        status = file.stat()
        digest.update(f"{folders[folder] / file.name}|{status.st_size}|{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
