"""Decode images that nobody vouches for: PNG, JPEG and WebP only, with limits checked before anything is unpacked.

The format comes from the content, never from the file's name, and the three decoders of Pillow are called directly:
a file that is really EPS, TIFF or PDF reaches no other decoder (Pillow hands EPS to Ghostscript).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, BytesIO

from PIL import Image, ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from setpredict.core.errors import UserError

FILTER = Image.Resampling.BILINEAR
MAX_SCANS = 64
"""A progressive JPEG is decoded once per scan. Encoders write about 10 scans; a hostile file repeats one thousands of
times."""
PNG_START = b"\x89PNG\r\n\x1a\n"
PIXEL_CHUNKS = (b"IHDR", b"PLTE", b"IDAT", b"IEND")
"""The chunks of a PNG that its colors depend on; text, profiles and further frames are not unpacked."""
START_OF_IMAGE, END_OF_IMAGE, START_OF_SCAN = 0xD8, 0xD9, 0xDA
MARKER = re.compile(rb"\xff([\x02-\xcf\xd8-\xfe])")  # not FF00 (data), FF01, FFD0 to FFD7 (no content), FFFF (padding)
ORIENTATION = 0x0112
"""The EXIF tag that says how the stored pixels of a photo have to be turned."""
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
DECODERS: dict[str, type[ImageFile.ImageFile]] = {"PNG": PngImageFile, "JPEG": JpegImageFile, "WebP": WebPImageFile}


@dataclass(frozen=True)
class PixelLimit:
    """The largest image that is decoded."""

    pixels: int
    """Width times height."""
    remedy: str
    """What the user can do about a larger image, for the error message."""


@dataclass(frozen=True)
class ImageHeader:
    """What an image says of itself."""

    format: str
    """PNG, JPEG or WebP."""
    width: int
    height: int
    orientation: int = 1
    """How the pixels of a JPEG have to be turned (EXIF); 1: they are upright."""

    @property
    def upright(self) -> tuple[int, int]:
        """Width and height as the image is seen."""
        return (self.height, self.width) if self.orientation > 4 else (self.width, self.height)


def decode_image(content: bytes, size: int | None, limit: PixelLimit, name: str) -> Image.Image:
    """An image in RGB, upright, resized to size × size if a size is given. Of an animation it is the first frame.

    Args:
        content: The content of an image file.
        size: The side of the result; the aspect ratio is not kept (None: not resized).
        limit: A larger image is an error, and it is not decoded.
        name: What error messages call the image: its file, or "image".
    """
    header = read_header(BytesIO(content), name)
    if header.width * header.height > limit.pixels:
        extent = f"{header.width}×{header.height} ({header.width * header.height:,} pixels)"
        raise UserError(f"{name} is {extent}; at most {limit.pixels:,} pixels are decoded: {limit.remedy}")
    if header.format == "JPEG" and (scans := count_scans(content)) > MAX_SCANS:
        raise UserError(
            f"{name} is a JPEG of {scans:,} scans; at most {MAX_SCANS} are decoded: save it as a plain JPEG or as PNG"
        )
    with _errors_named(name, header.format):
        image = DECODERS[header.format](BytesIO(pixel_chunks(content) if header.format == "PNG" else content))
        if image.size != (header.width, header.height):
            raise ValueError(f"it has two sizes, {header.width}×{header.height} and {image.size[0]}×{image.size[1]}")
        image.load()
        rgb = image if image.mode == "RGB" else _as_rgb(image)
        if header.orientation in TURNS:
            rgb = rgb.transpose(TURNS[header.orientation])
        return rgb if size is None else rgb.resize((size, size), FILTER)


def read_header(file: BytesIO | BufferedReader, name: str) -> ImageHeader:
    """The format and the size of an image, without decoding it; `name` is what error messages call it."""
    start = file.read(30)
    file.seek(0)
    if not start:
        raise UserError(f"{name} is not a PNG, JPEG or WebP image: it is empty")
    orientation = 1
    with _errors_named(name, form := _format(start, name)):
        match form:
            case "PNG" if start[12:16] != b"IHDR":
                raise ValueError("its header is missing")
            case "PNG":
                width, height = struct.unpack(">II", start[16:24])
            case "WebP":
                width, height = _webp_size(start)
            case _:
                jpeg = JpegImageFile(file)
                (width, height), orientation = jpeg.size, _orientation(jpeg)
        if width < 1 or height < 1:
            raise ValueError(f"its size is {width}×{height}")
    return ImageHeader(form, width, height, orientation)


def _orientation(image: JpegImageFile) -> int:
    """The EXIF orientation, 1 if there is none or the metadata are broken: the pixels are still good."""
    try:
        found = image.getexif().get(ORIENTATION, 1)
    except Exception:  # whatever Pillow raises for broken metadata
        return 1
    return found if found in TURNS else 1


def _as_rgb(image: Image.Image) -> Image.Image:
    """Any mode in RGB; 16 bits per pixel are scaled to 8, where Pillow would clip them to white."""
    if image.mode.startswith("I"):
        image = image.convert("I").point(lambda value: value * (1 / 257) + 0.5, "L")
    return image.convert("RGB")


def count_scans(content: bytes) -> int:
    """The number of scans of a JPEG, read from its markers as libjpeg does."""
    scans, at = 0, 2
    while (found := MARKER.search(content, at)) and (marker := found[1][0]) != END_OF_IMAGE:
        at = found.end()
        scans += marker == START_OF_SCAN
        if marker != START_OF_IMAGE:
            at += int.from_bytes(content[at : at + 2], "big")
    return scans


def pixel_chunks(content: bytes) -> bytes:
    """A PNG without the chunks that its colors do not depend on."""
    view, at = memoryview(content), len(PNG_START)
    parts = [view[:at]]
    while at + 8 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, at)
        end = at + 12 + length
        if kind in PIXEL_CHUNKS or end > len(content):  # an incomplete chunk stays: the decoder reports it
            parts.append(view[at:end])
        if kind == b"IEND":
            break
        at = end
    return b"".join(parts)


def _format(start: bytes, name: str) -> str:
    if start.startswith(PNG_START):
        return "PNG"
    if start.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "WebP"
    raise UserError(f"{name} is not a PNG, JPEG or WebP image: it begins with {start[:8]!r}")


def _webp_size(start: bytes) -> tuple[int, int]:
    """The size in the first 30 bytes of a WebP; Pillow's decoder allocates the image as soon as it is opened."""
    match start[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(start[24:27], "little"), 1 + int.from_bytes(start[27:30], "little")
        case b"VP8L":
            bits = int.from_bytes(start[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack("<HH", start[26:30])
            return width & 0x3FFF, height & 0x3FFF
    raise ValueError(f"its first chunk is {start[12:16]!r}")


@contextmanager
def _errors_named(name: str, form: str) -> Iterator[None]:
    """Turn whatever a decoder raises into one line that names the image."""
    try:
        yield
    except UserError:
        raise
    except MemoryError:
        raise UserError(f"{name} needs more memory than there is to decode it") from None
    except Exception as e:  # Pillow raises OSError, SyntaxError, ValueError, struct.error, … for broken files
        cause = e.__cause__ if isinstance(e, SyntaxError) else e
        incomplete = isinstance(cause, (struct.error, IndexError)) or "not identified" in str(e)
        reason = "its header is incomplete" if incomplete else " ".join(str(e).split())[:200] or type(e).__name__
        raise UserError(f"{name} is not a valid {form} image: {reason}") from None
