"""Ctrl-C, SIGTERM and SIGHUP as requests, so that a training can finish its step and save."""

from __future__ import annotations

import os
import signal
import stat
import threading
from contextlib import AbstractContextManager, suppress

from rich.console import Console

REQUESTS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class StopRequest(AbstractContextManager):
    """Ctrl-C, SIGTERM or SIGHUP (a closed terminal) sets `asked`; a second Ctrl-C raises KeyboardInterrupt.

    Under nohup, SIGHUP stays ignored.
    """

    def __init__(self, console: Console):
        self.console, self.asked, self.before = console, False, {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in REQUESTS:
                before = signal.getsignal(number)
                if number == signal.SIGINT or before is not signal.SIG_IGN:
                    self.before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: object) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
        if number == getattr(signal, "SIGHUP", None) and not _is_file(self.console):
            self.console.quiet = True  # the terminal is gone, and writing to it would be an error
            return
        with suppress(OSError, RuntimeError):  # the output is closed, or the interrupted code was writing to it
            self.console.print("Finishing this step and saving … (Ctrl-C again stops at once)")


def _is_file(console: Console) -> bool:
    """Whether the output goes to a file, or stays in this process; a terminal or a pipe ends with the session."""
    try:
        return stat.S_ISREG(os.fstat(console.file.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):  # no file of the operating system
        return True
