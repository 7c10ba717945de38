"""Middleware that rejects request bodies that are too large, with or without a stated length, or too slow."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import JSONResponse

DRAINED = 8
"""Read and discard up to this many times the limit before rejecting a body: a client that is cut off while it is still
sending sees a broken connection instead of the reason."""


class BodyLimit:
    """ASGI middleware: a 413 for a body of more than `max_bytes`, which is not kept in memory, and a 408 for a body
    that is not complete after `seconds`. Both close the connection."""

    def __init__(self, app: Any, max_bytes: int, seconds: float):
        self.app, self.max_bytes, self.seconds = app, max_bytes, seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        body, seen = bytearray(), 0
        stated = dict(scope["headers"]).get(b"content-length", b"0")
        large, more = not stated.isdigit() or len(stated) > 15 or int(stated) > self.max_bytes, True
        try:
            async with asyncio.timeout(self.seconds):
                while more and seen <= (DRAINED + 1) * self.max_bytes:
                    message = await receive()
                    if message["type"] != "http.request":
                        return await _reply(400, "the body is incomplete")(scope, receive, send)  # the client is gone
                    part, more = message.get("body", b""), message.get("more_body", False)
                    seen += len(part)
                    large = large or seen > self.max_bytes
                    body += part
                    if large:
                        body.clear()
        except TimeoutError:
            if not large:
                late = f"the body did not arrive within {self.seconds:g} seconds"
                return await _reply(408, late)(scope, receive, send)
        if large:
            return await _reply(413, f"the body is larger than {self.max_bytes:,} bytes")(scope, receive, send)
        given = False

        async def replay() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        return await self.app(scope, replay, send)


def _reply(status: int, reason: str) -> JSONResponse:
    return JSONResponse({"detail": reason}, status, {"connection": "close"})
