"""Locks between processes: who holds it is said, and a lock of a killed process holds nobody up."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from setpredict.core.errors import UserError
from setpredict.core.lock import check_unlocked, process_lock

HOLD = """
import sys, time
from pathlib import Path
from setpredict.core.lock import process_lock
with process_lock(Path(sys.argv[1]), "it"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "a.lock")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_error_names_the_owner(tmp_path, holder):
    path = tmp_path / "a.lock"
    host = re.escape(socket.gethostname())
    message = rf"^runs/x is in use: process {holder.pid} on {host} has been training it since 2"
    with pytest.raises(UserError, match=message):
        check_unlocked(path, "runs/x")
    with pytest.raises(UserError, match=message), process_lock(path, "runs/x"):
        pass


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path, holder):
    path = tmp_path / "a.lock"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert path.is_file(), "the killed process left no file"
    check_unlocked(path, "it")
    with process_lock(path, "it"):
        assert f'"pid": {os.getpid()}' in path.read_text()
    assert not path.exists()


def test_a_lock_is_for_one_holder_and_ends_with_it(tmp_path):
    path = tmp_path / "new" / "a.lock"
    check_unlocked(path, "it")
    assert not path.parent.exists()
    for _ in range(2):
        with process_lock(path, "it"):
            with pytest.raises(UserError, match=f"it is in use: process {os.getpid()}"), process_lock(path, "it"):
                pass
            assert path.is_file()
        assert not path.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}'])
def test_a_file_without_a_holder_is_no_lock(tmp_path, content):
    (tmp_path / "a.lock").write_text(content)
    with process_lock(tmp_path / "a.lock", "it"):
        pass


def test_where_files_cannot_be_locked_a_running_process_counts(tmp_path, monkeypatch, holder):
    def not_here(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", not_here)
    path = tmp_path / "a.lock"
    with pytest.raises(UserError, match=f"process {holder.pid}"):
        check_unlocked(path, "it")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with process_lock(path, "it"):
        pass
