"""Requests to stop."""

import io
import os
import signal

import pytest
from rich.console import Console

from setpredict.training.interrupt import StopRequest


def test_a_second_interrupt_stops_at_once():
    before = signal.getsignal(signal.SIGINT)
    with StopRequest(Console(quiet=True)) as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_every_request_is_said_and_the_handlers_come_back(name):
    number = getattr(signal, name)
    before, said = signal.getsignal(number), io.StringIO()
    with StopRequest(Console(file=said, width=100)) as stop:
        signal.raise_signal(number)
        assert stop.asked
    assert signal.getsignal(number) is before
    assert said.getvalue() == "Finishing this step and saving … (Ctrl-C again stops at once)\n"


def test_under_nohup_a_closed_terminal_is_no_request():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest(Console(quiet=True)) as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.asked
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_nothing_is_written_to_a_terminal_that_is_gone():
    """A pipe whose reader has ended, as that of a closed session: writing to it would be an error."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", buffering=1) as file:
        os.close(reader)
        console = Console(file=file)
        with StopRequest(console) as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.asked
            console.print("Stopped.")


def test_output_that_fails_does_not_stop_the_saving():
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    with StopRequest(Console(file=Full())) as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.asked
