"""A connection on which no request comes is closed: idle ones must not keep the others out."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def impatient(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol, but a request's head must be whole `seconds` after the connection was made or the last answer
    was given. uvicorn itself waits for ever for a first request, and for the rest of a later one."""

    class Impatient(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect_request()

        def on_response_complete(self) -> None:
            self._expect_request()
            super().on_response_complete()  # which may begin with the next request at once

        def _expect_request(self) -> None:
            self.loop.call_later(seconds, self._close_if_still, self.cycle)

        def _close_if_still(self, before: Any) -> None:
            if self.cycle is before and not self.transport.is_closing():
                self.transport.close()

    return Impatient
