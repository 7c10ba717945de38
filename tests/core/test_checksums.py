"""Checksums: every changed, missing or added byte of a file is found; files without a checksum still load."""

import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from setpredict.core.checksums import Damaged, add_zip_checksum, verify_safetensors_checksum, verify_zip_checksum
from setpredict.core.weights import read_weights, save_weights


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "a.ckpt"
    torch.save({"weight": torch.arange(40.0), "step": 3}, path)
    add_zip_checksum(path)
    return path


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "a.safetensors"
    save_weights(nn.Linear(5, 3), path)
    return path


def test_a_file_with_a_checksum_is_still_one_for_everybody(checkpoint, weights):
    verify_zip_checksum(checkpoint)
    assert torch.load(checkpoint, weights_only=True)["step"] == 3
    with zipfile.ZipFile(checkpoint) as archive:
        assert archive.testzip() is None
        assert archive.comment.startswith(b"sha256:")
    verify_safetensors_checksum(weights)
    assert load_file(weights).keys() == {"weight", "bias"}


def test_every_flipped_byte_of_a_checkpoint_is_found(checkpoint):
    good = checkpoint.read_bytes()
    missed = []
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1 << at % 8
        checkpoint.write_bytes(bad)
        try:
            verify_zip_checksum(checkpoint)
            missed.append(at)
        except Damaged:
            pass
    assert missed == []


def test_every_flipped_byte_of_weights_is_found(weights):
    good = weights.read_bytes()
    expected = load_file(weights)
    missed = []
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1 << at % 8
        weights.write_bytes(bad)
        try:
            found = read_weights(weights)
        except Damaged:
            continue
        if {k: v.tolist() for k, v in found.items()} != {k: v.tolist() for k, v in expected.items()}:
            missed.append(at)
    assert missed == []


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.99])
def test_truncated_files_are_named(checkpoint, weights, part):
    for path, verify in ((checkpoint, verify_zip_checksum), (weights, read_weights)):
        content = path.read_bytes()
        path.write_bytes(content[: int(part * len(content))])
        with pytest.raises(Damaged, match=rf"{path.name} is (damaged|not a readable)"):
            verify(path)


def test_appended_bytes_are_found(checkpoint, weights):
    for path, verify in ((checkpoint, verify_zip_checksum), (weights, read_weights)):
        path.write_bytes(path.read_bytes() + b"\0" * 100)
        with pytest.raises(Damaged):
            verify(path)


def test_files_without_a_checksum_are_read(tmp_path):
    torch.save({"step": 3}, tmp_path / "old.ckpt")
    verify_zip_checksum(tmp_path / "old.ckpt")
    save_file({"a": torch.ones(2)}, tmp_path / "old.safetensors")
    assert read_weights(tmp_path / "old.safetensors")["a"].tolist() == [1.0, 1.0]


def test_a_changed_number_in_an_old_checkpoint_is_found(tmp_path):
    """Zip files have a CRC-32 of every part, which torch writes but does not verify."""
    path = tmp_path / "old.ckpt"
    torch.save({"weight": torch.full((40,), 1.5)}, path)
    content = path.read_bytes()
    at = content.index(torch.full((4,), 1.5).numpy().tobytes())
    path.write_bytes(content[:at] + b"\x01" + content[at + 1 :])
    assert torch.load(path, weights_only=True)["weight"][0] != 1.5, "torch verifies it by itself now"
    with pytest.raises(Damaged, match=r"old.ckpt is damaged: the checksum of .*data/0 does not match"):
        verify_zip_checksum(path)
