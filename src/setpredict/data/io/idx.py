"""IDX, the file format of MNIST; gzip compression is detected from the content."""

from __future__ import annotations

import gzip
import math
import zlib
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from setpredict.core.errors import UserError

MAX_BYTES = 1_000_000_000
"""The largest array that is read; MNIST has 47 MB, its largest variant (EMNIST) 638 MB."""


def read_idx(path: Path) -> np.ndarray:
    """The uint8 array in an IDX file. No more is unpacked than its header announces."""
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            return _read(gzip.GzipFile(fileobj=file) if zipped else file, path)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{path} is not a valid gzip file: {error}") from None


def _read(stream: BufferedIOBase, path: Path) -> np.ndarray:
    start = stream.read(4)
    if len(start) < 4 or start[:3] != b"\x00\x00\x08":
        raise UserError(f"{path} is not an IDX file of bytes: it begins with {start.hex() or 'nothing'}")
    axes = start[3]
    sizes = stream.read(4 * axes)
    if len(sizes) < 4 * axes:
        raise UserError(f"{path} ends at byte {4 + len(sizes)}, inside its header of {4 + 4 * axes} bytes")
    shape = tuple(int(n) for n in np.frombuffer(sizes, ">u4"))
    expected = math.prod(shape)
    if expected > MAX_BYTES:
        raise UserError(f"{path} announces {expected:,} bytes of data {shape}; at most {MAX_BYTES:,} are read")
    data = stream.read(expected)
    more = stream.read(1)  # also makes gzip verify its checksum
    if more or len(data) != expected:
        found = f"more than {expected}" if more else len(data)
        raise UserError(f"{path} has {found} bytes of data, expected {shape}")
    try:
        return np.frombuffer(data, np.uint8).reshape(shape)
    except ValueError as error:  # too many axes, or a huge axis beside one of size 0
        raise UserError(f"{path} has an impossible shape {shape}: {error}") from None
