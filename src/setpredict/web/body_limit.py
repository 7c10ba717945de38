"""Refuses bodies that are too large, whether they say so or not, before anything reads them as a whole."""

from __future__ import annotations

import json
from typing import Any

DRAINED = 8
"""So many times the limit is read and thrown away before the refusal: a client that is cut off while it still sends
sees a broken connection instead of the reason."""


class BodyLimit:
    """ASGI middleware: a 413 for more than `most` bytes, none of which are kept."""

    def __init__(self, app: Any, most: int):
        self.app, self.most = app, most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        stated = dict(scope["headers"]).get(b"content-length", b"0")
        if not stated.isdigit() or len(stated) > 15 or int(stated) > self.most:
            return await self._refuse(receive, send)
        chunks: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return None  # the client has gone
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            more = message.get("more_body", False)
            if size > self.most:
                chunks.clear()
                return await self._refuse(receive, send, more)
        body, given = b"".join(chunks), False

        async def replay() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return await self.app(scope, replay, send)

    async def _refuse(self, receive: Any, send: Any, more: bool = True) -> None:
        drained = 0
        while more and drained <= DRAINED * self.most:
            message = await receive()
            if message["type"] != "http.request":
                return
            drained += len(message.get("body", b""))
            more = message.get("more_body", False)
        body = json.dumps({"detail": f"the body is larger than {self.most:,} bytes"}).encode()
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": body})
