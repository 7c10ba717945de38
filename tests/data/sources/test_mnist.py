"""MNIST as sets: the original files, missing files and damaged files."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from setpredict.core.errors import UserError
from setpredict.data.io.idx import read_idx
from setpredict.data.sources.mnist import DigitSets, mnist
from setpredict.data.task import SetTask


def digits(task: SetTask, name: str) -> DigitSets:
    split = task.split(name)
    assert isinstance(split, DigitSets)
    return split


def write_idx(path: Path, images: np.ndarray, zipped: bool = False) -> None:
    data = b"\x00\x00\x08" + bytes([images.ndim]) + np.array(images.shape, ">u4").tobytes() + images.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if zipped else data)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """40 random training digits (uncompressed) and 10 test digits (compressed)."""
    random = np.random.default_rng(0)
    digits = random.integers(0, 256, (50, 28, 28), dtype=np.uint8) * (random.random((50, 28, 28)) < 0.2)
    write_idx(tmp_path / "mnist" / "train-images-idx3-ubyte", digits[:40].astype(np.uint8))
    write_idx(tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz", digits[40:].astype(np.uint8), zipped=True)
    return tmp_path / "mnist"


def test_the_original_sets(real_data: Path):
    task = mnist(real_data / "mnist", val=0.0)
    sizes = {name: np.diff(digits(task, name).offsets) for name in ("train", "test")}
    assert {name: len(s) for name, s in sizes.items()} == {"train": 60_000, "test": 10_000}
    both = np.concatenate(list(sizes.values()))
    assert (both.min(), both.max()) == (32, 342)
    assert round(sizes["train"].mean()) == 133
    for name, file in (("train", "train-images-idx3-ubyte.gz"), ("test", "t10k-images-idx3-ubyte.gz")):
        images = read_idx(real_data / "mnist" / file)
        split = digits(task, name)
        painted = np.zeros(images.shape, bool)
        image = np.repeat(np.arange(len(images)), np.diff(split.offsets))
        painted[image, split.points[:, 0], split.points[:, 1]] = True
        assert np.array_equal(painted, images > 0.1307 * 255)
        assert len(split.points) == painted.sum()  # no point twice


def test_a_batch_equals_the_thresholded_images(small: Path):
    task = mnist(small)
    images = read_idx(small / "t10k-images-idx3-ubyte.gz")
    for batch in task.loader("test", 4):
        assert batch.target.elements.shape[1:] == (342, 2)
        assert (batch.target.elements[~batch.target.mask] == 0).all()
        for index, points in zip(batch.index, batch.target.to_list()):
            painted = np.zeros((28, 28), bool)
            row, column = (points * 27).round().long().T
            painted[row, column] = True
            assert len(points) == painted.sum()
            assert np.array_equal(painted, images[index] > 33.3285)


def test_each_epoch_shuffles_the_order_but_not_the_set(small: Path):
    task = mnist(small)
    a, b, c = (task.train.batch(np.array([3, 5]), epoch).target for epoch in (0, 0, 1))
    assert torch.equal(a.elements, b.elements)
    assert not torch.equal(a.elements, c.elements)
    for x, y in zip(a.to_list(), c.to_list()):
        assert sorted(x.tolist()) == sorted(y.tolist())


def test_val_is_a_random_part_of_train(small: Path):
    task, again, other = mnist(small, val=0.25), mnist(small, val=0.25), mnist(small, val=0.25, seed=1)
    assert (len(task.train), len(task.val), len(task.test)) == (30, 10, 10)
    assert sorted([*digits(task, "train").chosen, *digits(task, "val").chosen]) == list(range(40))
    assert np.array_equal(digits(task, "val").chosen, digits(again, "val").chosen)
    assert not np.array_equal(digits(task, "val").chosen, digits(other, "val").chosen)


def test_the_cache_follows_the_files(small: Path, cache: Path):
    before = mnist(small)
    images = np.zeros((7, 28, 28), np.uint8)
    images[:, 0, 0] = 255
    write_idx(small / "train-images-idx3-ubyte", images)
    after = mnist(small, val=0.0)
    assert (len(before.train) + len(before.val), len(after.train)) == (40, 7)


def test_broken_files(small: Path):
    path = small / "t10k-images-idx3-ubyte.gz"
    complete = path.read_bytes()
    path.write_bytes(complete[: len(complete) // 2])
    with pytest.raises(UserError, match=r"t10k-images-idx3-ubyte.gz is not a valid gzip file"):
        mnist(small)
    path.write_bytes(gzip.compress(gzip.decompress(complete)[:-5]))
    with pytest.raises(UserError, match=r"has 7835 bytes of data, expected \(10, 28, 28\)"):
        mnist(small)
    path.write_bytes(b"<html>")
    with pytest.raises(UserError, match="is not an IDX file of bytes: it begins with 3c68746d"):
        mnist(small)
    write_idx(path, np.zeros((4, 3), np.uint8))
    with pytest.raises(UserError, match=r"shape \(4, 3\), expected \(n, 28, 28\)"):
        mnist(small)


def test_missing_files_are_downloaded(small: Path, monkeypatch: pytest.MonkeyPatch):
    calls = []

    def fake(urls: list[str], path: Path, md5: str) -> None:
        calls.append((urls, md5))
        write_idx(path, np.full((3, 28, 28), 255, np.uint8), zipped=True)

    (small / "train-images-idx3-ubyte").unlink()
    monkeypatch.setattr("setpredict.data.sources.mnist.download", fake)
    assert len(mnist(small, val=0.0, threshold=100.0).train) == 3
    (urls, md5), *rest = calls
    assert not rest
    assert all(url.endswith("/mnist/train-images-idx3-ubyte.gz") for url in urls)
    assert md5 == "f68b3c2dcbeaaa9fbdd348bbdeb94873"


def test_bad_options(small: Path):
    with pytest.raises(UserError, match=r"val must be a fraction of the training samples, from 0 to below 1, got 1.5"):
        mnist(small, val=1.5)
    with pytest.raises(UserError, match="threshold must be from 0 to below 255, got 300"):
        mnist(small, threshold=300.0)


@pytest.mark.parametrize("keep", [0, 100, -30])
def test_a_damaged_cache_is_rebuilt(small: Path, cache: Path, keep: int):
    points = digits(mnist(small), "train").points
    built = sorted(cache.rglob("*.npz"))
    assert len(built) == 2
    for file in built:
        file.write_bytes(file.read_bytes()[:keep])
    assert np.array_equal(digits(mnist(small), "train").points, points)
    assert sorted(cache.rglob("*.npz")) == built
