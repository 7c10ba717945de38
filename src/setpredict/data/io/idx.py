"""IDX, the file format of MNIST; gzip compression is detected from the content."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np

from setpredict.core.errors import UserError


def read_idx(path: Path) -> np.ndarray:
    """The uint8 array in an IDX file."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise UserError(f"{path} is not a valid gzip file: {error}") from None
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise UserError(f"{path} is not an IDX file of bytes: it begins with {data[:4].hex() or 'nothing'}")
    axes = data[3]
    begin = 4 + 4 * axes
    if len(data) < begin:
        raise UserError(f"{path} ends at byte {len(data)}, inside its header of {begin} bytes")
    shape = tuple(int(n) for n in np.frombuffer(data, ">u4", axes, offset=4))
    if len(data) - begin != int(np.prod(shape)):
        raise UserError(f"{path} has {len(data) - begin} bytes of data, expected {shape}")
    return np.frombuffer(data, np.uint8, offset=begin).reshape(shape)
