"""Images as one memory-mapped array of bytes: resized once, in parallel, then read at memory speed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from setpredict.core.errors import UserError
from setpredict.core.paths import cache_folder, fingerprint
from setpredict.core.progress import progress
from setpredict.data.io.cache import cached

FILTER = Image.Resampling.BILINEAR


def image_cache(name: str, files: Sequence[Path], size: int, workers: int | None = None) -> np.ndarray:
    """All images resized to size × size, as a memory map (n, 3, size, size) uint8; built if missing.

    The aspect ratio is not kept. When a file is changed, added or removed, the cache is rebuilt and the old one of the
    same name is deleted.
    """
    if size < 1:
        raise UserError(f"the image size must be at least 1, got {size}")
    if not files:
        raise UserError(f"{name} has no images")
    path = cache_folder() / "images" / f"{name}-{size}-{fingerprint(files, size, FILTER.name, 'v1')}.npy"

    def build(temporary: Path) -> None:
        _build(temporary, name, files, size, workers or os.cpu_count() or 1)

    images = cached(path, build, lambda file: _open_cache(file, (len(files), 3, size, size)))
    for old in set(path.parent.glob(f"{name}-{size}-{'[0-9a-f]' * 16}.npy")) - {path}:
        old.unlink(missing_ok=True)
    return images


def available_images(folder: Path, names: Sequence[str] | np.ndarray, what: str) -> np.ndarray:
    """The indices of the named images that exist in `folder`; a warning counts the missing ones.

    `what` is the plural of the things that have these images, for messages.
    """
    folders = {Path(name).parent for name in names}
    existing = {str(sub / f) for sub in folders if (folder / sub).is_dir() for f in os.listdir(folder / sub)}
    found = np.flatnonzero([str(Path(name)) in existing for name in names])
    if len(found) == 0:
        raise UserError(f"none of the images of {len(names)} {what} is in {folder}")
    if len(found) < len(names):
        missing = len(names) - len(found)
        warnings.warn(f"skipped {missing} of {len(names)} {what}: their image is not in {folder}", stacklevel=4)
    return found


def read_image(file: Path, size: int) -> np.ndarray:
    """One image, resized to size × size: (3, size, size) uint8."""
    with _open_image(file) as image:
        image.load()
        pixels = np.asarray(image.convert("RGB").resize((size, size), FILTER))  # (size, size, 3)
    return pixels.transpose(2, 0, 1)


def image_size(file: Path) -> tuple[int, int]:
    """Width and height, from the file's header."""
    with _open_image(file) as image:
        return image.size


def images_to_float(pixels: np.ndarray) -> Float[Tensor, "B 3 H W"]:
    """Bytes as numbers in [0, 1]."""
    return torch.from_numpy(np.require(pixels, requirements=["C", "W"])).to(torch.float32).mul_(1 / 255)


@contextmanager
def _open_image(file: Path) -> Iterator[Image.Image]:
    try:
        with Image.open(file) as image:
            yield image
    except FileNotFoundError:
        raise UserError(f"image {file} not found") from None
    except (OSError, SyntaxError, ValueError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise UserError(f"{file} is not a valid image: {' '.join(str(error).split())}") from None


def _open_cache(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    array = np.load(path, mmap_mode="r")
    if array.shape != shape or array.dtype != np.uint8:
        raise ValueError(f"{path} has {array.dtype} numbers of shape {array.shape}, expected bytes of shape {shape}")
    return array


def _build(path: Path, name: str, files: Sequence[Path], size: int, workers: int) -> None:
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(len(files), 3, size, size))

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
