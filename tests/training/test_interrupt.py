"""Requests to stop."""

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
