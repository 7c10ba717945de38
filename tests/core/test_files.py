"""Files: replaced completely or not at all, kept once more, and read with every problem named."""

import json
import os
import stat
import threading
import time
from pathlib import Path

import pytest

from setpredict.core.errors import UserError
from setpredict.core.files import LARGEST_JSON, atomic, keep_previous, read_json, remove_temporary, write_text


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def interrupted() -> None:
        with atomic(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (path.read_text(), names(tmp_path)) == ("old", ["a.txt"])


@pytest.mark.parametrize("links", [True, False])
def test_the_previous_version_is_kept(tmp_path, monkeypatch, links):
    if not links:

        def no_links(*_):
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr("os.link", no_links)
    path, previous = tmp_path / "last", tmp_path / "previous"
    for text in ("1", "2", "3"):
        with atomic(path) as temporary:
            temporary.write_text(text)
            keep_previous(path, previous)
            assert previous.exists() or path.exists() or text == "1"
    assert (path.read_text(), previous.read_text(), names(tmp_path)) == ("3", "2", ["last", "previous"])


def test_keeping_the_same_version_twice_leaves_nothing_behind(tmp_path):
    """As after a kill between keeping the last version and replacing it."""
    path, previous = tmp_path / "last", tmp_path / "previous"
    path.write_text("1")
    keep_previous(path, previous)
    keep_previous(path, previous)
    assert (path.read_text(), previous.read_text(), names(tmp_path)) == ("1", "1", ["last", "previous"])


def test_temporary_files_of_killed_processes_are_removed(tmp_path):
    ours, young, old, other = (tmp_path / n for n in (".a.ckpt.x1.tmp", ".b.json.x2.tmp", ".c.json.x3.tmp", "d.tmp"))
    for file in (ours, young, old, other):
        file.write_text("half")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    assert remove_temporary([tmp_path / "a.ckpt"], [tmp_path, tmp_path / "none"]) == [ours, old]
    assert names(tmp_path) == [".b.json.x2.tmp", "d.tmp"]


def test_a_name_with_special_characters_is_no_pattern(tmp_path):
    (tmp_path / ".ab.x.tmp").write_text("another file's")
    (tmp_path / ".[ab]*.x.tmp").write_text("ours")
    remove_temporary([tmp_path / "[ab]*"], [])
    assert names(tmp_path) == [".ab.x.tmp"]


BROKEN = {"cut": b"{", "bytes": b"\xff", "deep": b"[" * 100_000, "long": b"9" * 5000, "nested": b'{"a": ' * 50_000}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_json_that_cannot_be_read_is_named_in_one_line(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"a.json is not (valid JSON|a text file): ") as raised:
        read_json(path)
    assert "\n" not in str(raised.value)


def test_missing_and_huge_json_files_are_named(tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(UserError, match=r"a.json not found"):
        read_json(path)
    with open(path, "wb") as f:
        f.truncate(LARGEST_JSON + 1)  # a hole: it takes no space on the disk
    with pytest.raises(UserError, match=r"a.json has 16,000,001 bytes, expected a JSON file of at most 16,000,000"):
        read_json(path)
    path.write_text(json.dumps({"a": 1}))
    assert read_json(path) == {"a": 1}


def test_a_link_stays_and_what_it_names_is_replaced(tmp_path: Path):
    (tmp_path / "link").symlink_to("file")
    for text in ("first", "second"):
        write_text(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "file").read_text() == text


def test_pipes_are_written_to_and_folders_are_named(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    read: list[str] = []
    reader.start()
    write_text(tmp_path / "pipe", "text")
    reader.join(10)
    assert read == ["text"]
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(UserError, match="is a folder, expected the name of a file"):
        write_text(tmp_path, "text")
    write_text("/dev/null", "text")
    assert Path("/dev/null").is_char_device()


def test_files_have_the_permissions_of_the_umask(tmp_path: Path):
    before = os.umask(0o077)
    try:
        write_text(tmp_path / "file", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_the_error_of_a_folder_that_is_only_read_names_the_file(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"(Not a directory|File exists): '.*file.*'"):
        write_text(tmp_path / "file" / "name", "text")


def test_a_temporary_file_of_a_running_process_may_vanish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Between its listing and a look at its age, as when another process replaces its file."""
    old, glob = tmp_path / ".a.x1.tmp", Path.glob
    old.write_text("half")
    os.utime(old, (0, 0))
    monkeypatch.setattr(Path, "glob", lambda self, pattern: [self / ".b.x2.tmp", *glob(self, pattern)])
    assert remove_temporary([tmp_path / "c"], [tmp_path]) == [old]
    assert names(tmp_path) == []
