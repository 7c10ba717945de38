"""IDX files: what their header announces is read, and no more."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from setpredict.core.errors import UserError
from setpredict.data.io.idx import read_idx


def idx(*shape: int, data: bytes = b"") -> bytes:
    return b"\0\0\x08" + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + data


@pytest.mark.parametrize("zipped", [False, True])
def test_the_array(tmp_path: Path, zipped: bool):
    content = idx(2, 3, data=bytes(range(6)))
    (tmp_path / "a").write_bytes(gzip.compress(content) if zipped else content)
    assert read_idx(tmp_path / "a").tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(("content", "message"), [
    (b"", "is not an IDX file of bytes: it begins with nothing"),
    (b"\0\0\x0d\1" + bytes(8), "is not an IDX file of bytes: it begins with 00000d01"),
    (idx(2, 3)[:9], "ends at byte 9, inside its header of 12 bytes"),
    (idx(2, 3, data=bytes(5)), r"has 5 bytes of data, expected \(2, 3\)"),
    (idx(2, 3, data=bytes(7)), r"has more than 6 bytes of data, expected \(2, 3\)"),
    (idx(60_000, 28, 28 * 100), r"announces 4,704,000,000 bytes of data \(60000, 28, 2800\); at most 1,000,000,000"),
    (idx(*[2**32 - 1] * 4), "announces 340,282,366,604,025,813,516,997,721,482,669,850,625 bytes of data"),
    (idx(*[1] * 255, data=b"a"), "has an impossible shape"),
    (idx(0, *[2**32 - 1] * 4), "has an impossible shape"),
])  # fmt: skip
def test_errors_name_the_file(tmp_path: Path, content: bytes, message: str, zipped: bool):
    (tmp_path / "digits").write_bytes(gzip.compress(content) if zipped else content)
    with pytest.raises(UserError, match=message) as error:
        read_idx(tmp_path / "digits")
    assert str(error.value).startswith(str(tmp_path / "digits"))


def test_a_gzip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """30 MB behind a header that announces 6 bytes."""
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(idx(2, 3, data=bytes(30_000_000))))
    unpacked, read = [], gzip.GzipFile.read

    def counted(self: gzip.GzipFile, size: int = -1) -> bytes:
        data = read(self, size)
        unpacked.append(len(data))
        return data

    monkeypatch.setattr(gzip.GzipFile, "read", counted)
    monkeypatch.setattr(gzip, "decompress", None)
    with pytest.raises(UserError, match=r"bomb.gz has more than 6 bytes of data, expected \(2, 3\)"):
        read_idx(tmp_path / "bomb.gz")
    assert sum(unpacked) == 4 + 8 + 6 + 1


@pytest.mark.parametrize("damage", ["cut", "checksum", "tail"])
def test_a_damaged_gzip_file_is_named(tmp_path: Path, damage: str):
    content = gzip.compress(idx(100, 28, data=np.random.default_rng(0).bytes(2800)))
    wrong = content[:-8] + bytes(4) + content[-4:]
    (tmp_path / "a.gz").write_bytes({"cut": content[:1000], "checksum": wrong, "tail": content + b"tail"}[damage])
    with pytest.raises(UserError, match=r"a.gz is not a valid gzip file: "):
        read_idx(tmp_path / "a.gz")
