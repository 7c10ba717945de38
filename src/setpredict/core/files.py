"""Files that are replaced completely or not at all, and JSON files that are read with every problem named."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from setpredict.core.errors import UserError

LARGEST_JSON = 16_000_000
"""Bytes of a JSON file that is read, unless it is a data set; ours have a few thousand."""


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path in the folder of `path` that replaces `path` on success and is deleted on an error.

    A crash, a full disk or a kill leaves the old file unchanged.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("done")
    ...     [p.name for p in Path(folder).iterdir()]
    ['a.txt']
    """
    given = Path(path).absolute()
    path = Path(os.path.realpath(path))  # a link stays, and what it names is replaced
    device = given.parts[1:2] in (("dev",), ("proc",)) and given.parts[2:3] != ("shm",)
    if device or (path.exists() and not path.is_file()):
        with _special(path) as temporary:
            yield temporary
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))  # as the umask allows
    except OSError as e:
        raise type(e)(e.errno, e.strerror, str(path)) from None  # the file that is meant
    try:
        yield temporary
        with open(temporary, "r+b") as f:  # Windows flushes only what can be written
            os.fsync(f.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _special(path: Path) -> Iterator[Path]:
    """A temporary file whose content is then written to a device or a pipe, which cannot be replaced."""
    if path.is_dir():
        raise UserError(f"{path} is a folder, expected the name of a file")
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / path.name
        temporary.touch()
        yield temporary
        with open(path, "ab") as f:  # /dev/stdout may be a file that has other lines already
            f.write(temporary.read_bytes())


def write_text(path: str | Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path, most: int | None = LARGEST_JSON) -> Any:
    """The content of a JSON file of at most that many bytes; a UserError that names the file if it is not valid."""
    try:
        size = path.stat().st_size
        if most is not None and size > most:
            raise UserError(f"{path} has {size:,} bytes, expected a JSON file of at most {most:,}")
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{path} not found") from None
    except UserError:
        raise
    except UnicodeDecodeError as e:
        raise UserError(f"{path} is not a text file: {e}") from None
    except (ValueError, RecursionError) as e:
        raise UserError(f"{path} is not valid JSON: {json_error(e, lines=True)}") from None


def json_error(error: ValueError | RecursionError, lines: bool = False) -> str:
    """An error of `json.loads` as one short line; with `lines`, including the line number."""
    if isinstance(error, json.JSONDecodeError):
        line = f"line {error.lineno}, " if lines else ""
        return f"{error.msg} at {line}column {error.colno}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else "it has a number with too many digits"


def keep_previous(path: Path, previous: Path) -> None:
    """Make `previous` the present version of `path`, which is about to be replaced. At every moment, both names are
    complete files or missing, and at least one of them exists."""
    if not path.exists():
        return
    link = previous.with_name(f".{previous.name}.{os.getpid()}.tmp")
    link.unlink(missing_ok=True)
    try:
        os.link(path, link)  # a second name for the same data
    except OSError:  # not on this file system
        os.replace(path, previous)
        return
    try:
        os.replace(link, previous)
    finally:
        link.unlink(missing_ok=True)  # it still exists if both were the same file already


def remove_temporary(files: Iterable[Path], folders: Iterable[Path], minutes: float = 60.0) -> list[Path]:
    """Delete what killed processes left behind of `atomic` and `keep_previous`, and return the deleted paths.

    Args:
        files: Files that no other process is writing now; their temporary files are deleted whatever their age.
        folders: Where other temporary files are deleted if they are older than `minutes`.
        minutes: Long enough for any process that is still writing.
    """
    found = {leftover for file in files for leftover in file.parent.glob(f".{_literal(file.name)}.*.tmp")}
    before = time.time() - 60 * minutes
    for folder in folders:
        for leftover in folder.glob(".*.tmp"):
            with suppress(FileNotFoundError):  # another process has just finished writing
                if leftover.lstat().st_mtime < before:
                    found.add(leftover)
    found = {leftover for leftover in found if leftover.is_file()}
    for leftover in found:
        leftover.unlink(missing_ok=True)
    return sorted(found)


def _literal(name: str) -> str:
    """A file name as a pattern that matches only itself."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
