"""Fuzzed HTTP requests to a real server on this machine."""

from __future__ import annotations

import base64
import io
import json
import random
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any

from PIL import Image

from tests.soak.processes import Job, resident_megabytes
from tests.soak.tally import Tally

ADDRESS = "127.0.0.1"
STRANGE: list[Any] = [
    None, True, "", "x" * 5000, "\ud800", [], {}, [[]], [None], -1, 0, 1, 2.5, 10**30, -(10**9), 1e308, float("nan"),
    float("inf"), [[1e999]], [[0.1, 0.2]] * 3000, "../../etc/passwd", {"$ref": "#"}, [0.0] * 5000,
]  # fmt: skip


class Server:
    """`setpredict serve` on a free port of the loopback address, and what it answers."""

    def __init__(self, log: Path):
        self.job = Job(["-m", "setpredict", "serve", "--host", ADDRESS, "--port", "0"], log)
        try:
            self.port, self.models = self._wait_until_it_answers()
        except BaseException:
            self.job.__exit__()
            raise

    def _wait_until_it_answers(self) -> tuple[int, list[dict[str, Any]]]:
        """Its port and its models."""
        end = time.monotonic() + 120
        while not (found := re.search(rf"http://{re.escape(ADDRESS)}:(\d+)", self.job.said)):
            if time.monotonic() > end or not self.job.is_running:
                raise RuntimeError(f"the server did not start: {self.job.said[-500:]}")
            time.sleep(0.2)
        self.port = int(found.group(1))
        status, body = self.ask(b"GET /api/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        if status != 200:
            raise RuntimeError(f"the server answered with {status}")
        return self.port, json.loads(body)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.job.__exit__()

    @property
    def megabytes(self) -> int:
        return resident_megabytes(self.job.members())

    def ask(self, request: bytes, seconds: float = 60) -> tuple[int, bytes]:
        """The status and the body of the answer; status 0 if the connection was closed without one, -1 if nothing came.

        A request that announces more than it sends is given up soon, as by a client that ends.
        """
        received, incomplete = b"", announced(request) > len(request.partition(b"\r\n\r\n")[2])
        try:
            address, seconds = (ADDRESS, self.port), 0.5 if incomplete else seconds
            with socket.create_connection(address, timeout=seconds) as connection:
                connection.sendall(request)
                while part := connection.recv(65536):
                    received += part
        except TimeoutError:
            return (0 if incomplete else -1), b""
        except OSError:  # the server closed the connection while the request was on its way
            pass
        found = re.match(rb"HTTP/1\.[01] (\d{3})", received)
        return (int(found.group(1)) if found else 0), received.partition(b"\r\n\r\n")[2]


def announced(request: bytes) -> int:
    """The length of the body according to the head of a request; without a complete head, more than there is."""
    head, end, _ = request.partition(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", head)
    return (int(found.group(1)) if found else 0) if end else len(request) + 1


def valid_request(model: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A request that the model answers."""
    kind, size = model["input_kind"], model["input_size"]
    if model["latent"] and rng.random() < 0.2:
        return {"latent": [rng.gauss(0, 1) for _ in range(model["latent"])], "steps": rng.randrange(10)}
    if kind == "set":
        return {"points": [[rng.random() for _ in range(size)] for _ in range(model["max_size"])]}
    if kind == "vector":
        return {"vector": [rng.random() for _ in range(size)]}
    return {"image": base64.b64encode(picture(rng)).decode()}


def picture(rng: random.Random) -> bytes:
    """A small image in a format that is accepted."""
    buffer = io.BytesIO()
    image = Image.frombytes("RGB", (32, 32), rng.randbytes(3 * 32 * 32))
    image.save(buffer, rng.choice(["PNG", "JPEG", "WebP"]))
    return buffer.getvalue()


def spoiled(request: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A valid request with something strange in it."""
    request = json.loads(json.dumps(request))
    name = rng.choice(list(request))
    match rng.randrange(4):
        case 0:
            request[name] = rng.choice(STRANGE)
        case 1:
            request[rng.choice(["points", "vector", "image", "sample", "latent", "steps", "x"])] = rng.choice(STRANGE)
        case 2 if isinstance(request[name], list):
            request[name][rng.randrange(len(request[name]))] = rng.choice(STRANGE)
        case 3 if isinstance(request.get("image"), str):
            data = bytearray(base64.b64decode(request["image"]))
            for _ in range(rng.randrange(1, 30)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            request["image"] = base64.b64encode(data[: rng.randrange(1, len(data) + 1)]).decode()
        case _:
            request["steps"] = rng.choice(STRANGE)
    return request


def http(path: str, body: bytes, rng: random.Random | None = None) -> bytes:
    """An HTTP request; with `rng`, some have a strange method, path, host or length."""
    method, host, length, kind = "POST", "localhost", str(len(body)), "application/json"
    if rng is not None and rng.random() < 0.2:
        method = rng.choice(["GET", "PUT", "DELETE", "OPTIONS", "POST", "X" * 50])
        path = rng.choice([path, "/", "/api/../../etc/passwd", "/api/%2e%2e/decode", "/static/" + "a" * 3000, "/%00"])
        host = rng.choice(["localhost", "evil.example", "", "a" * 500, "localhost:99999999"])
        length = rng.choice([str(len(body)), "0", "-1", "x", "99999999999", str(len(body) + 10)])
        kind = rng.choice(["application/json", "text/plain", "multipart/form-data; boundary=", "a" * 1000, "\xff"])
    head = f"{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n"
    return (head + "connection: close\r\n\r\n").encode("latin1") + body


def fuzzed(server: Server, rng: random.Random) -> bytes:
    """Anything that a client may send."""
    model = rng.choice(server.models)
    if rng.random() < 0.05:
        return rng.randbytes(rng.randrange(1, 2000))
    request = spoiled(valid_request(model, rng), rng)
    body = json.dumps(request).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        data = bytearray(body)
        data[rng.randrange(len(data))] = rng.randrange(256)
        body = bytes(data)
    return http(f"/api/{model['name']}/decode", body, rng)


def fuzz(server: Server, rng: random.Random, tally: Tally, requests: int, seconds: float, clients: int = 4) -> None:
    """Send fuzzed requests from several clients at once, with a valid one now and then that must be answered."""
    end, lock, left = time.monotonic() + seconds, threading.Lock(), iter(range(requests))

    def client(own: random.Random) -> None:
        for i in left:
            if time.monotonic() > end:
                return
            valid = i % 10 == 0
            model = own.choice(server.models)
            body = json.dumps(valid_request(model, own)).encode()
            sent = http(f"/api/{model['name']}/decode", body) if valid else fuzzed(server, own)
            status, answer = server.ask(sent)
            with lock:
                _count(tally, status, answer, valid, sent)

    threads = [threading.Thread(target=client, args=(random.Random(rng.random()),)) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not server.job.is_running:
        tally.wrong("unanswered", f"the server ended: {server.job.said[-500:]}")
    said = server.job.said
    if "Traceback" in said:
        tally.wrong("5xx", f"the server's log has an error: {said[said.index('Traceback') :][:2000]}")


def _count(tally: Tally, status: int, answer: bytes, valid: bool, sent: bytes) -> None:
    if valid:
        tally.add("valid")
        if status in (200, 503):
            tally.add("valid answered")
        else:
            tally.wrong("unanswered", f"{status} to a valid request: {answer[:200]!r}")
        return
    tally.add("requests")
    if status == 0:  # not a request, or not a complete one
        tally.add("closed")
    elif status == -1:
        tally.wrong("unanswered", f"no answer within a minute to {sent[:200]!r}")
    elif status >= 500 and status != 503:
        tally.wrong("5xx", f"{status} to {sent[:300]!r}")
    else:
        tally.add("answered")
        tally.add("503" if status == 503 else "2xx" if 200 <= status < 300 else "4xx")
