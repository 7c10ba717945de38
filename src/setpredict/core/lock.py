"""A lock file that says who holds it: process, machine and since when.

The operating system releases the lock when its owner ends, however that happens, so that a file which a killed process
left behind locks nothing.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from setpredict.core.errors import UserError

try:
    import fcntl
except ImportError:  # not on Windows, where nothing is locked
    fcntl = None


@contextmanager
def process_lock(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file `path`, which is deleted at the end; a UserError that names the owner if there is one.

    `what` is the subject of that message, such as the folder that is locked.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = _acquire(path, what)
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now().isoformat(" ", "seconds")}
    os.truncate(handle, 0)
    os.write(handle, json.dumps(owner).encode())
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(handle)


def check_unlocked(path: Path, what: str) -> None:
    """Raise the same error if a process holds the lock; otherwise, hold it only for a moment."""
    if path.exists():
        os.close(_acquire(path, what))


def _acquire(path: Path, what: str, tries: int = 5) -> int:
    """An open file that holds the lock. There are a few tries, since `check_unlocked` holds it for a moment."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            taken = _lock(handle, path)
            if taken and _is_still(path, handle):  # an owner that ended meanwhile deletes the file
                return handle
            if not taken and (tries := tries - 1) <= 0:
                raise UserError(f"{what} is in use: {_owner(path)}")
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        time.sleep(0.02)


def _lock(handle: int, path: Path) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks
        return not _is_running(_read(path))
    return True


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _read(path: Path) -> dict[str, object]:
    try:
        owner = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _owner(path: Path) -> str:
    owner = _read(path)
    if not owner:
        return "another process is training it"
    return f"process {owner.get('pid')} on {owner.get('host')} has been training it since {owner.get('since')}"


def _is_running(owner: dict[str, object]) -> bool:
    """Whether a process of this machine runs; processes of other machines cannot be asked."""
    pid = owner.get("pid")
    if owner.get("host") != socket.gethostname() or not isinstance(pid, int) or pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it belongs to somebody else
        return True
    return True
