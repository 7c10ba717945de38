"""Where data sets and caches live, and who may build them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def data_folder() -> Path:
    """`$SETPREDICT_DATA`, or a folder beside the caches."""
    folder = os.environ.get("SETPREDICT_DATA")
    return Path(folder).expanduser() if folder else cache_folder() / "data"


def cache_folder() -> Path:
    """`$SETPREDICT_CACHE`, or the user's cache folder. Data folders are never written to: they may be read-only."""
    folder = os.environ.get("SETPREDICT_CACHE")
    if folder:
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "setpredict"


@contextmanager
def only_one_builder(path: Path) -> Iterator[None]:
    """Hold the lock of `path`: another process that wants to build it waits, and then finds it there.

    What a killed builder left behind is removed. The lock belongs to the process, so it never outlives it.
    """
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.parent / f".{path.name}.lock"):
        for leftover in path.parent.glob(f".{path.name}.*.tmp"):
            leftover.unlink(missing_ok=True)
        yield


def fingerprint(files: Iterable[Path], *settings: object) -> str:
    """A short name for these files as they now are (path, size, time of change) under these settings.

    However a folder is spelled (relative, absolute, through a link), the name is the same.
    """
    digest = hashlib.sha256(repr(settings).encode())
    folders: dict[Path, Path] = {}  # resolved once, not for each of 70,000 images
    for file in files:
        folder = file.parent
        if folder not in folders:
            folders[folder] = folder.resolve()
        status = file.stat()
        digest.update(f"{folders[folder] / file.name}|{status.st_size}|{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
