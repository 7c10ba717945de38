"""Refuses bodies that are too large, whether they say so or not, or too slow, before anything reads them as a whole."""

from __future__ import annotations

import asyncio
import json
from typing import Any

DRAINED = 8
"""So many times the limit is read and thrown away before the refusal: a client that is cut off while it still sends
sees a broken connection instead of the reason."""


class BodyLimit:
    """ASGI middleware: a 413 for more than `most` bytes, none of which are kept; a 408 for a body that has not arrived
    as a whole after `seconds`. Both close the connection."""

    def __init__(self, app: Any, most: int, seconds: float):
        self.app, self.most, self.seconds = app, most, seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        body, seen = bytearray(), 0
        stated = dict(scope["headers"]).get(b"content-length", b"0")
        large, more = not stated.isdigit() or len(stated) > 15 or int(stated) > self.most, True
        try:
            async with asyncio.timeout(self.seconds):
                while more and seen <= (DRAINED + 1) * self.most:
                    message = await receive()
                    if message["type"] != "http.request":
                        return await self._refuse(send, 400, "the body broke off")  # nobody will read it
                    part, more = message.get("body", b""), message.get("more_body", False)
                    seen += len(part)
                    large = large or seen > self.most
                    body += part
                    if large:
                        body.clear()
        except TimeoutError:
            if not large:
                return await self._refuse(send, 408, f"the body did not arrive within {self.seconds:g} seconds")
        if large:
            return await self._refuse(send, 413, f"the body is larger than {self.most:,} bytes")
        given = False

        async def replay() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        return await self.app(scope, replay, send)

    async def _refuse(self, send: Any, status: int, reason: str) -> None:
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps({"detail": reason}).encode()})
