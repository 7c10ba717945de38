"""Connections: those without a request, or whose client does not read, are closed; invalid requests have one answer."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def time_limited(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's HTTP protocol with a time limit: a request's head must be complete `seconds` after the connection was
    made or the last response was sent, and a client must read what it is sent, since idle clients must not keep others
    out. uvicorn itself waits forever for a first request, for the rest of a later one, and for its response to be read.
    """

    class TimeLimited(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect_request()

        def on_response_complete(self) -> None:
            self._expect_request()
            super().on_response_complete()  # may start the next request at once

        def pause_writing(self) -> None:
            """Called when the buffers are full, because the client does not read."""
            super().pause_writing()
            self.unread = self.loop.call_later(seconds, self.transport.abort)

        def resume_writing(self) -> None:
            self.unread.cancel()
            super().resume_writing()

        def send_400_response(self, msg: str) -> None:
            """Called when what arrives is not HTTP, perhaps while a request before it is being answered.

            There can be one answer only: either the application has begun it, or this is it, and what the application
            sends later is dropped. uvicorn would raise an error in both cases.
            """
            begun = self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE)
            if self.cycle is not None and not self.cycle.response_complete:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            if begun:
                self.transport.close()
            else:
                super().send_400_response(msg)

        def _expect_request(self) -> None:
            self.loop.call_later(seconds, self._close_if_idle, self.cycle)

        def _close_if_idle(self, before: Any) -> None:
            if self.cycle is before and not self.transport.is_closing():
                self.transport.close()

    return TimeLimited
