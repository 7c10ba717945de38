"""Checksums: a file with a changed or missing byte is found before its content is used."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

from setpredict.core.errors import UserError

CHUNK = 1 << 20
NAME = "sha256"
NONE_YET = "0" * 64
"""Stands for the checksum while it is computed."""
PREFIX = b"sha256:"
COMMENT = len(PREFIX) + 64
LENGTH = struct.pack("<H", COMMENT)
ZIP_START, ZIP_END = b"PK\x03\x04", b"PK\x05\x06"
ZIP_END_SIZE = 22
"""The last part of a zip file without a comment; it ends with the length of the comment."""


class Damaged(UserError):
    """A file whose content is not what was written."""


def add_zip_checksum(path: Path) -> None:
    """Give a zip file (which `torch.save` writes) the SHA-256 of its bytes, as its comment.

    The comment is the end of a zip file, so that it still is one for every other program.
    """
    size = path.stat().st_size - 2  # all but the length of the comment
    with open(path, "r+b") as f:
        comment = PREFIX + _digest(f, size=size).encode()
        f.seek(size + 2 - ZIP_END_SIZE)
        if f.read(4) != ZIP_END:
            raise ValueError(f"{path} is not a zip file without a comment")
        f.seek(size)
        f.write(LENGTH + comment)


def verify_zip_checksum(path: Path) -> None:
    """Raise Damaged unless a zip file has the bytes that were written.

    A file without our checksum (0.2.0 and before) is verified by the CRC-32 that zip files have of their parts.
    """
    size = path.stat().st_size
    with open(path, "rb") as f:
        start = f.read(4)
        f.seek(max(size - COMMENT, 0))
        comment = f.read()
        if comment.startswith(PREFIX):
            f.seek(0)
            found = PREFIX + _digest(f, size=size - COMMENT - 2).encode()
            if found != comment or f.read(2) != LENGTH:
                raise Damaged(f"{path} is damaged: its checksum does not match")
            return
    if start != ZIP_START:
        raise Damaged(f"{path} is not a readable checkpoint")
    end = comment[-ZIP_END_SIZE:]
    if not end.startswith(ZIP_END) or not end.endswith(b"\0\0"):
        raise Damaged(f"{path} is damaged: it is incomplete, with {size:,} bytes")
    try:
        with zipfile.ZipFile(path) as archive:
            wrong = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, NotImplementedError, RuntimeError, EOFError) as e:
        raise Damaged(f"{path} is damaged: {e}") from None
    if wrong is not None:
        raise Damaged(f"{path} is damaged: the checksum of {wrong} does not match")


def add_safetensors_checksum(path: Path) -> None:
    """Write the SHA-256 of a safetensors file into its metadata, where `NAME: NONE_YET` was saved."""
    with open(path, "r+b") as f:
        head = _head(f)
        at = head.index(NONE_YET.encode())
        digest = _digest(f, head)
        f.seek(at)
        f.write(digest.encode())


def verify_safetensors_checksum(path: Path) -> None:
    """Raise Damaged if a safetensors file has a checksum and other bytes than were written."""
    with open(path, "rb") as f:
        head = _head(f)
        try:
            expected = json.loads(head[8:])["__metadata__"][NAME]
        except (ValueError, KeyError, TypeError, RecursionError):  # a file of 0.2.0 or before, or of another program
            return
        if _digest(f, head.replace(str(expected).encode(), NONE_YET.encode(), 1)) != expected:
            raise Damaged(f"{path} is damaged: its checksum does not match")


def _head(file: BinaryIO) -> bytes:
    """The beginning of a safetensors file: eight bytes with the length of the JSON header, and the header."""
    length = file.read(8)
    return length + file.read(int.from_bytes(length, "little"))


def _digest(file: BinaryIO, head: bytes = b"", size: int = 1 << 62) -> str:
    """SHA-256 of `head` and of the next `size` bytes of the file."""
    digest = hashlib.sha256(head)
    while size > 0 and (part := file.read(min(CHUNK, size))):
        digest.update(part)
        size -= len(part)
    return digest.hexdigest()
