"""The image cache: the resized images, built once, completely or not at all."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from setpredict.core.errors import UserError
from setpredict.data.io.images import available_images, image_cache, image_size, images_to_float
from tests.hostile_images import EPS, noise, png, saved


def write_images(folder: Path, count: int, size: tuple[int, int] = (48, 32)) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    files = [folder / f"{i:04d}.png" for i in range(count)]
    for file in files:
        Image.fromarray(random.integers(0, 256, (*size[::-1], 3), dtype=np.uint8)).save(file)
    return files


def test_contains_the_resized_images(tmp_path: Path, cache: Path):
    files = write_images(tmp_path / "in", 5)
    images = image_cache("some", files, 16)
    assert images.shape == (5, 3, 16, 16)
    assert isinstance(images, np.memmap)
    for pixels, file in zip(images, files):
        expected = np.asarray(Image.open(file).resize((16, 16), Image.Resampling.BILINEAR))
        assert np.array_equal(pixels, expected.transpose(2, 0, 1))
    assert [p.suffix for p in cache.rglob("*") if p.is_file() and p.suffix != ".lock"] == [".npy"]
    floats = images_to_float(images[:2])
    assert floats.min() >= 0
    assert floats.max() <= 1


def test_is_built_once_and_again_when_sources_change(tmp_path: Path, cache: Path):
    files = write_images(tmp_path / "in", 4)
    image_cache("some", files, 8)
    (built,) = cache.rglob("*.npy")
    before = built.stat().st_mtime_ns
    image_cache("some", files, 8)
    assert built.stat().st_mtime_ns == before
    Image.new("RGB", (9, 9), (255, 0, 0)).save(files[2])
    images = image_cache("some", files, 8)
    assert (images[2, 0] == 255).all()
    assert len(list(cache.rglob("*.npy"))) == 1  # the stale one is deleted
    assert image_cache("some", files, 4).shape == (4, 3, 4, 4)
    assert len(list(cache.rglob("*.npy"))) == 2  # one per size
    assert len(image_cache("some", files[:3], 8)) == 3


@pytest.mark.parametrize("damage", ["cut", "text", "empty"])
def test_a_broken_image_is_named_and_nothing_is_left(tmp_path: Path, cache: Path, damage: str):
    files = write_images(tmp_path / "in", 3)
    complete = files[1].read_bytes()
    files[1].write_bytes({"cut": complete[: len(complete) // 2], "text": b"not a picture", "empty": b""}[damage])
    with pytest.raises(UserError, match=r"0001.png is not a (valid PNG|PNG, JPEG or WebP) image: ") as error:
        image_cache("some", files, 8)
    assert "\n" not in str(error.value)
    assert not [p for p in cache.rglob("*") if p.suffix in (".npy", ".tmp")]


@pytest.mark.parametrize("content", [EPS, saved(noise(8, 8), "TIFF"), saved(noise(8, 8), "GIF")])
def test_a_png_that_is_something_else_is_not_opened(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch):
    def ghostscript(*_, **__):
        raise AssertionError("Ghostscript was called")

    monkeypatch.setattr("subprocess.check_call", ghostscript)
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(UserError, match=r"a.png is not a PNG, JPEG or WebP image: it begins with b'"):
        image_cache("some", [tmp_path / "a.png"], 8)
    with pytest.raises(UserError, match=r"a.png is not a PNG, JPEG or WebP image: it begins with b'"):
        image_size(tmp_path / "a.png")


def test_a_name_does_not_tell_the_format(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(saved(noise(8, 6), "WEBP"))
    assert image_cache("some", [tmp_path / "a.png"], 8).shape == (1, 3, 8, 8)
    assert image_size(tmp_path / "a.png") == (8, 6)


def test_the_number_of_pixels_is_limited_and_the_limit_can_be_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "large.png"
    file.write_bytes(png(13_000, 13_000))
    message = r"large.png is 13000×13000 \(169,000,000 pixels\); at most 128,000,000 .* or set SETPREDICT_MAX_PIXELS"
    with pytest.raises(UserError, match=message):
        image_cache("some", [file], 8)
    Image.new("L", (20, 30)).save(file)
    monkeypatch.setenv("SETPREDICT_MAX_PIXELS", "599")
    with pytest.raises(UserError, match=r"large.png is 20×30 \(600 pixels\); at most 599 pixels"):
        image_cache("some", [file], 8)
    monkeypatch.setenv("SETPREDICT_MAX_PIXELS", "600")
    assert image_cache("some", [file], 8).shape == (1, 3, 8, 8)
    for text in ("many", "0", "-5", "1e9", "9" * 5000):
        monkeypatch.setenv("SETPREDICT_MAX_PIXELS", text)
        with pytest.raises(UserError, match="SETPREDICT_MAX_PIXELS must be a number of pixels, got"):
            image_cache("other", [file], 8)


def test_large_images_need_no_warning_of_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Pillow warns above 89 megapixels and raises above 179; here the limit is ours."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    Image.new("RGB", (20, 30)).save(tmp_path / "a.jpg")
    assert image_cache("some", [tmp_path / "a.jpg"], 8).shape == (1, 3, 8, 8)


def test_a_file_that_is_far_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SETPREDICT_MAX_PIXELS", "1000")
    file = tmp_path / "a.png"
    file.write_bytes(saved(noise(8, 8), "PNG"))
    os.truncate(file, 64_008_001)  # sparse
    with pytest.raises(UserError, match=r"a.png has 64,008,001 bytes; at most 64,008,000 are read: resize it"):
        image_cache("some", [file], 8)


def test_what_is_not_a_file_is_named(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.png")
    for name, message in (("pipe.png", "pipe.png is not a file"), ("b.png", "b.png not found"), ("", "is not a file")):
        with pytest.raises(UserError, match=message):
            image_size(tmp_path / name)


def test_images_outside_their_folder_are_named(tmp_path: Path):
    inside, outside = write_images(tmp_path / "in", 2), write_images(tmp_path / "out", 1)
    (tmp_path / "in" / "link.png").symlink_to(outside[0])
    (tmp_path / "in" / "same.png").symlink_to(inside[0])
    fine = ["0000.png", "./0001.png", "../in/0001.png", "same.png", str(inside[0])]
    assert available_images(tmp_path / "in", fine, "scenes").tolist() == list(range(5))
    for name in ("../out/0000.png", str(outside[0]), "link.png"):
        with pytest.raises(UserError, match=r"scenes: image .*0000.png, outside .*/in: copy it there, or allow it by"):
            available_images(tmp_path / "in", ["0000.png", name], "scenes")
        assert len(available_images(tmp_path / "in", ["0000.png", name], "scenes", allow_outside=True)) == 2


def test_bad_arguments(tmp_path: Path):
    with pytest.raises(UserError, match="some has no images"):
        image_cache("some", [], 8)
    with pytest.raises(UserError, match="the image size must be at least 1, got 0"):
        image_cache("some", write_images(tmp_path, 1), 0)


CHILD = """
import sys, time
from pathlib import Path
from setpredict.data.io import images as module
slow, read = float(sys.argv[2]), module.read_image
def read_slowly(file, size):
    time.sleep(slow)
    print("read", flush=True)
    return read(file, size)
module.read_image = read_slowly
module.image_cache("some", sorted(Path(sys.argv[1]).glob("*.png")), 8, workers=1)
"""


def test_two_processes_at_once_build_once(tmp_path: Path, cache: Path):
    files = write_images(tmp_path / "in", 10)
    command = [sys.executable, "-c", CHILD, str(tmp_path / "in"), "0.02"]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [child.communicate()[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert sorted(output.count("read") for output in outputs) == [0, 10]
    assert len(image_cache("some", files, 8)) == 10


def test_killed_while_building(tmp_path: Path, cache: Path):
    files = write_images(tmp_path / "in", 20)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "in"), "0.2"], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()  # one image is read
    time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert not list(cache.rglob("*.npy"))
    images = image_cache("some", files, 8)
    assert images.shape == (20, 3, 8, 8)
    assert not list(cache.rglob("*.tmp"))


def damaged(path: Path, damage: str) -> None:
    complete = path.read_bytes()
    path.write_bytes({"cut": complete[: len(complete) // 2], "text": b"not an array", "empty": b""}[damage])


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "other"])
def test_a_damaged_cache_is_rebuilt(tmp_path: Path, cache: Path, damage: str):
    files = write_images(tmp_path / "in", 4)
    complete = np.array(image_cache("some", files, 8))
    (built,) = cache.rglob("*.npy")
    if damage == "other":
        np.save(built, np.zeros((2, 3, 8, 8), np.uint8))
    else:
        damaged(built, damage)
    assert np.array_equal(image_cache("some", files, 8), complete)
    assert list(cache.rglob("*.npy")) == [built]
    before = built.stat().st_mtime_ns
    image_cache("some", files, 8)
    assert built.stat().st_mtime_ns == before


def test_spellings_of_a_folder_share_one_cache(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    files = write_images(tmp_path / "in", 2)
    monkeypatch.chdir(tmp_path)
    image_cache("some", files, 8)
    (built,) = cache.rglob("*.npy")
    before = built.stat().st_mtime_ns
    image_cache("some", [file.relative_to(tmp_path) for file in files], 8)
    assert list(cache.rglob("*.npy")) == [built]
    assert built.stat().st_mtime_ns == before


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system cannot reserve space")
def test_a_full_disk_is_an_error_and_nothing_is_left(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    def full(descriptor: int, begin: int, length: int) -> None:
        assert length >= 3 * 3 * 16 * 16
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files = write_images(tmp_path / "in", 3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        said = r"some has 3 images of 16×16 pixels, which need .* \(No space left on device\): .* lower --data.size"
        with pytest.raises(UserError, match=said):
            image_cache("some", files, 16)
    assert not [file for file in cache.rglob("*") if file.is_file() and file.suffix != ".lock"]
    assert image_cache("some", files, 16).shape == (3, 3, 16, 16)
