"""Processes of the soak test: started in a session of their own, and ended without touching any other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Job:
    """A process and its children, whose output goes to a file."""

    def __init__(self, command: Sequence[str], log: Path):
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log, self.seen = log, dict[int, int]()  # when each of its processes began, by number
        with open(log, "ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        """End what is left of it."""
        for pid in self.members():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def members(self) -> list[int]:
        """The process and its descendants that still run, also those whose parent has ended, from Linux's /proc."""
        processes = running_processes()
        for pid, (parent, began) in sorted(processes.items(), key=lambda item: item[1][1]):
            if pid == self.process.pid or self.seen.get(parent) == processes.get(parent, (0, -1))[1]:
                self.seen.setdefault(pid, began)
        # A number may belong to another process by now, which began later.
        return sorted(pid for pid, began in self.seen.items() if processes.get(pid, (0, -1))[1] == began)

    def wait(self, seconds: float) -> int | None:
        """The exit code; None if it still runs after that time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def wait_for_change(self, path: Path, before: str, seconds: float) -> None:
        """Wait until a file has other text than before, or the process ends."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.is_running and text_of(path) in ("", before):
            time.sleep(0.02)


def running_processes() -> dict[int, tuple[int, int]]:
    """All processes of this machine: their parents, and when they began."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                found[int(stat.parent.name)] = int(fields[1]), int(fields[19])
    return found


def text_of(path: Path) -> str:
    """The text of a file; none if there is no file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def resident_megabytes(pids: Sequence[int]) -> int:
    """The memory of some processes together."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1])
    return total // 1024
