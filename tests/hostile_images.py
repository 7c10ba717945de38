"""Images as an attacker would make them."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
from PIL import Image

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
"""Pillow's own `open` hands this to Ghostscript, whatever the file is called."""


def saved(image: Image.Image, form: str, **options) -> bytes:
    """The content of an image file."""
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def noise(width: int, height: int, channels: int = 3, seed: int = 0) -> Image.Image:
    """An image that does not compress."""
    shape = (height, width, channels)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, data: bytes = b"", *, text: bytes = b"") -> bytes:
    """A PNG with any size in its header, any data, and chunks of metadata before them."""
    head = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + text + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b"")


def many_scans(side: int, scans: int) -> bytes:
    """A progressive JPEG of one color whose last scan is repeated until it has so many; each takes time to decode."""
    content = saved(Image.new("RGB", (side, side), "teal"), "JPEG", progressive=True)
    last = content.rindex(b"\xff\xda")
    return content[:-2] + content[last:-2] * (scans - content.count(b"\xff\xda")) + content[-2:]


def webp_header(width: int, height: int) -> bytes:
    """The start of a WebP of any size, without an image."""
    sizes = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBP" + b"VP8X" + struct.pack("<I", 10) + bytes(4) + sizes
    return b"RIFF" + struct.pack("<I", len(body)) + body
