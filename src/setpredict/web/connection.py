"""Connections without a request are closed: idle clients must not keep others out."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def time_limited(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's HTTP protocol with a time limit: a request's head must be complete `seconds` after the connection was
    made or the last response was sent. uvicorn itself waits forever for a first request, and for the rest of a later
    one."""

    class TimeLimited(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect_request()

        def on_response_complete(self) -> None:
            self._expect_request()
            super().on_response_complete()  # may start the next request at once

        def _expect_request(self) -> None:
            self.loop.call_later(seconds, self._close_if_idle, self.cycle)

        def _close_if_idle(self, before: Any) -> None:
            if self.cycle is before and not self.transport.is_closing():
                self.transport.close()

    return TimeLimited
