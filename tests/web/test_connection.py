"""What is not HTTP while a request is being answered: one answer, and no error in the server's log."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from setpredict.web.connection import time_limited

BEGUN, GO_ON = threading.Event(), threading.Event()


async def application(scope, receive, send) -> None:
    """Answers at once; at /slow, the rest of its answer waits for GO_ON."""
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    if scope["path"] == "/slow":
        BEGUN.set()
        while not GO_ON.is_set():
            await asyncio.sleep(0.01)
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def port() -> Iterator[int]:
    protocol = time_limited(5)
    server = uvicorn.Server(uvicorn.Config(application, "127.0.0.1", 0, http=protocol, lifespan="off", log_config=None))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(timeout=10)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{r.name}: {r.getMessage()}" for r in caplog.records if r.levelname in ("ERROR", "CRITICAL")]


def until_closed(connection: socket.socket) -> bytes:
    connection.settimeout(5)
    received = b""
    while part := connection.recv(65536):
        received += part
    return received


def test_an_invalid_body_of_a_request_that_is_answered_without_it(port: int, caplog: pytest.LogCaptureFixture):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")
        received = until_closed(connection)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1") == 1
    assert errors(caplog) == []


def test_bytes_after_a_request_whose_answer_has_begun(port: int, caplog: pytest.LogCaptureFixture):
    BEGUN.clear()
    GO_ON.clear()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"POST /slow HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        assert BEGUN.wait(5)
        connection.sendall(b"garbage")
        received = until_closed(connection)
        GO_ON.set()
    assert received.startswith(b"HTTP/1.1 200 ")
    assert received.count(b"HTTP/1.1") == 1
    with socket.create_connection(("127.0.0.1", port)) as connection:  # the server goes on
        connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert until_closed(connection).endswith(b"ok")
    assert errors(caplog) == []
