"""Images as one memory-mapped array of bytes: resized once, in parallel, then read at memory speed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BufferedReader
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from setpredict.core.errors import UserError
from setpredict.core.paths import cache_folder, fingerprint
from setpredict.core.progress import progress
from setpredict.data.io.cache import cached
from setpredict.data.io.decode import FILTER, PixelLimit, decode_image, read_header
from setpredict.data.io.inside import find_outside

MAX_PIXELS = 128_000_000
"""The largest image of a data set: photographs of 100 megapixels exist. Decoding takes 4 bytes per pixel and more."""
BYTES_PER_PIXEL, METADATA = 8, 64_000_000
"""A file has at most 16 bits for each of red, green, blue and alpha, and metadata (phones append videos)."""


def image_cache(name: str, files: Sequence[Path], size: int, workers: int | None = None) -> np.ndarray:
    """All images resized to size × size, as a memory map (n, 3, size, size) uint8; built if missing.

    The aspect ratio is not kept. When a file is changed, added or removed, the cache is rebuilt and the old one of the
    same name is deleted.
    """
    if size < 1:
        raise UserError(f"the image size must be at least 1, got {size}")
    if not files:
        raise UserError(f"{name} has no images")
    path = cache_folder() / "images" / f"{name}-{size}-{fingerprint(files, size, FILTER.name, 'v2')}.npy"

    def build(temporary: Path) -> None:
        _build(temporary, name, files, size, workers or os.cpu_count() or 1)

    images = cached(path, build, lambda file: _open_cache(file, (len(files), 3, size, size)))
    for old in set(path.parent.glob(f"{name}-{size}-{'[0-9a-f]' * 16}.npy")) - {path}:
        old.unlink(missing_ok=True)
    return images


def available_images(
    folder: Path, names: Sequence[str] | np.ndarray, what: str, allow_outside: bool = False
) -> np.ndarray:
    """The indices of the named images that exist in `folder`; a warning counts the missing ones.

    `what` is the plural of the things that have these images, for messages. An image outside the folder is an error,
    unless `allow_outside` is set.
    """
    folders = {Path(name).parent for name in names}
    existing = {str(sub / f) for sub in folders if (folder / sub).is_dir() for f in os.listdir(folder / sub)}
    found = np.flatnonzero([str(Path(name)) in existing for name in names])
    if not allow_outside and (outside := find_outside(folder, [str(names[int(i)]) for i in found])):
        raise UserError(f"{what}: {outside[1]}")
    if len(found) == 0:
        raise UserError(f"none of the images of {len(names)} {what} is in {folder}")
    if len(found) < len(names):
        missing = len(names) - len(found)
        warnings.warn(f"skipped {missing} of {len(names)} {what}: their image is not in {folder}", stacklevel=4)
    return found


def read_image(file: Path, size: int) -> np.ndarray:
    """One image (PNG, JPEG or WebP, whatever its name), resized to size × size: (3, size, size) uint8."""
    return np.asarray(open_image(file, size)).transpose(2, 0, 1)


def open_image(file: Path, size: int | None = None) -> Image.Image:
    """One image in RGB, resized to size × size, or as large as it is (None)."""
    limit = PixelLimit(pixel_limit(), "resize it, or set SETPREDICT_MAX_PIXELS to a larger number")
    with _open_file(file) as stream:
        length, most = os.fstat(stream.fileno()).st_size, BYTES_PER_PIXEL * limit.pixels + METADATA
        if length > most:
            raise UserError(f"{file} has {length:,} bytes; at most {most:,} are read: {limit.remedy}")
        content = stream.read()
    return decode_image(content, size, limit, str(file))


def image_size(file: Path) -> tuple[int, int]:
    """Width and height of the upright image, from the file's header."""
    with _open_file(file) as stream:
        return read_header(stream, str(file)).upright


def pixel_limit() -> int:
    """Larger images of data sets, and of `predict`, are an error: `$SETPREDICT_MAX_PIXELS`, or 128 million."""
    text = os.environ.get("SETPREDICT_MAX_PIXELS") or str(MAX_PIXELS)
    if not (text.isascii() and text.isdecimal() and len(text) < 13 and int(text) > 0):
        raise UserError(f"SETPREDICT_MAX_PIXELS must be a number of pixels, got {text!r}")
    return int(text)


def images_to_float(pixels: np.ndarray) -> Float[Tensor, "B 3 H W"]:
    """Bytes as numbers in [0, 1]."""
    return torch.from_numpy(np.require(pixels, requirements=["C", "W"])).to(torch.float32).mul_(1 / 255)


def _open_file(file: Path) -> BufferedReader:
    if not file.is_file():  # a pipe or a device may never end
        raise UserError(f"image {file} is not a file" if file.exists() else f"image {file} not found")
    return open(file, "rb")


def _open_cache(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    array = np.load(path, mmap_mode="r")
    if array.shape != shape or array.dtype != np.uint8:
        raise ValueError(f"{path} has {array.dtype} numbers of shape {array.shape}, expected bytes of shape {shape}")
    return array


def _build(path: Path, name: str, files: Sequence[Path], size: int, workers: int) -> None:
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(len(files), 3, size, size))
    if hasattr(os, "posix_fallocate"):  # a disk that is full says so now, and not by a bus error later
        with open(path, "r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            except OSError as e:
                raise UserError(
                    f"{name} has {len(files):,} images of {size}×{size} pixels, which need {array.nbytes / 1e9:.1f} GB "
                    f"in {path.parent} ({e.strerror}): free the space, or lower --data.size"
                ) from None

    def store(index: int) -> None:
        array[index] = read_image(files[index], size)

    # Pillow releases the GIL while it decodes and resizes, so threads use all cores.
    pool = ThreadPoolExecutor(workers)
    try:
        with progress(f"Reading the images of {name}", len(files)) as advance:
            for begin in range(0, len(files), 1024):
                for _ in pool.map(store, range(begin, min(begin + 1024, len(files)))):
                    advance(1)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    array.flush()
