"""Where data sets and caches live, and how files come into being there: whole or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
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
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place when the block ends well, and is removed when not.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("done")
    ...     [p.name for p in Path(folder).iterdir()]
    ['a.txt']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
    """A short name for these files as they now are (path, size, time of change) under these settings."""
    digest = hashlib.sha256(repr(settings).encode())
    for file in files:
        status = file.stat()
        digest.update(f"{file}|{status.st_size}|{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
