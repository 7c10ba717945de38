"""Middleware that rejects request bodies that are too large, with or without a stated length, or too slow."""

from __future__ import annotations

import asyncio
import json
from typing import Any

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
                        return await self._reject(send, 400, "the body is incomplete")  # the client is gone
                    part, more = message.get("body", b""), message.get("more_body", False)
                    seen += len(part)
                    large = large or seen > self.max_bytes
                    body += part
                    if large:
                        body.clear()
        except TimeoutError:
            if not large:
                return await self._reject(send, 408, f"the body did not arrive within {self.seconds:g} seconds")
        if large:
            return await self._reject(send, 413, f"the body is larger than {self.max_bytes:,} bytes")
        given = False

        async def replay() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        return await self.app(scope, replay, send)

    async def _reject(self, send: Any, status: int, reason: str) -> None:
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps({"detail": reason}).encode()})
