"""Ctrl-C and SIGTERM as requests, so that a training can finish its step and save."""

from __future__ import annotations

import signal
import threading
from contextlib import AbstractContextManager

from rich.console import Console


class StopRequest(AbstractContextManager):
    """Ctrl-C or SIGTERM sets `asked`; a second Ctrl-C raises KeyboardInterrupt."""

    def __init__(self, console: Console):
        self.console, self.asked, self.before = console, False, {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: object) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
        self.console.print("Finishing this step and saving …")
