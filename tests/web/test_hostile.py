"""The API: wrong, huge, broken and malicious input gives a 4xx with a reason; too many requests give a 503."""

import asyncio
import base64
import json
import select
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest
import torch

from setpredict.data.sources.multisets import multisets
from setpredict.web.answers import answer as answer_to
from setpredict.web.batching import DecodeQueue, decode
from setpredict.web.body_limit import BodyLimit
from setpredict.web.catalog import Served
from setpredict.web.inputs import encode_request
from setpredict.web.limits import BadInput, Limits, TooBusy
from setpredict.web.schema import DecodeRequest
from tests.hostile_images import EPS, many_scans, noise, png, saved, webp_header
from tests.web.served import Running, tiny


def text(content: bytes) -> str:
    return base64.b64encode(content).decode()


PNG = saved(noise(64, 64), "PNG")
ZEROS = zlib.compress(bytes(30_000_000), 9)
WRONG = [
    ("points-dspn", {}, "exactly one"),
    ("points-dspn", {"points": [[0, 0]], "vector": [1.0]}, "exactly one"),
    ("points-dspn", {"points": [[0, 0]] * 6}, "at most 5"),
    ("points-dspn", {"points": [[0, 0, 0]]}, "takes 2"),
    ("points-dspn", {"points": [[]]}, "points"),
    ("points-dspn", {"points": [["a", 0]]}, "points[0][0]"),
    ("points-dspn", {"points": [[True, 0]]}, "points[0][0]"),
    ("points-dspn", {"points": "0 0"}, "points"),
    ("points-dspn", {"points": [[1e30, 0]]}, "less than or equal"),
    ("points-dspn", {"points": [[0, 0]] * 3000}, "2048"),
    ("points-dspn", {"points": [[0, 0]], "steps": 201}, "steps"),
    ("points-dspn", {"points": [[0, 0]], "steps": -1}, "steps"),
    ("points-dspn", {"points": [[0, 0]], "steps": 2.5}, "steps"),
    ("points-dspn", {"points": [[0, 0]], "sets": 1}, "body: there is no field 'sets'; the fields are points, vector, "),
    ("points-dspn", {f"k{i}": 0 for i in range(60_000)}, "there is no field 'k0'; the fields are points"),
    ("points-dspn", {"latent": [0.0] * 7}, "8 numbers"),
    ("points-dspn", {"sample": 7}, "0 to 6"),
    ("points-dspn", {"sample": -1}, "sample"),
    ("points-dspn", {"sample": 10**9}, "sample"),
    ("points-dspn", {"image": "abcd"}, "takes points"),
    ("polygons-dspn", {"vector": [0.0] * 9}, "8 numbers"),
    ("polygons-dspn", {"points": [[0, 0]]}, "takes vector"),
    ("scenes-box", {"image": "not base64!"}, "base64"),
    ("scenes-box", {"image": "data:image/png," + text(PNG)}, 'without ";base64,"'),
    ("scenes-box", {"image": "data:image/png;base64,?"}, "image is not base64: "),
    (
        "scenes-box",
        {"image": text(b"GIF89a nothing")},
        "is not a PNG, JPEG or WebP image: it begins with b'GIF89a ",
    ),
    ("scenes-box", {"image": text(EPS)}, "image is not a PNG, JPEG or WebP image: it begins with b'%!PS-Ado'"),
    ("scenes-box", {"image": text(PNG[:1000])}, "image is not a valid PNG image: image file is truncated"),
    ("scenes-box", {"image": text(png(100_000, 100_000, ZEROS))}, "image is 100000×100000 (10,000,000,000 pixels)"),
    (
        "scenes-box",
        {"image": text(png(2001, 2000, ZEROS[:1000]))},
        "at most 4,000,000 pixels are decoded: send a",
    ),
    ("scenes-box", {"image": text(png(0, 0))}, "image is not a valid PNG image: its size is 0×0"),
    ("scenes-box", {"image": text(png(1000, 1000, b""))}, "image is not a valid PNG image: "),
    ("scenes-box", {"image": text(many_scans(2000, 3000))}, "image is a JPEG of 3,000 scans; at most 64 are decoded"),
    ("scenes-box", {"image": text(webp_header(16_000, 16_000))}, "image is 16000×16000 (256,000,000 pixels)"),
    ("points-dspn", {"image": text(many_scans(2000, 3000))}, "takes points"),
]


@pytest.mark.parametrize(("model", "body", "reason"), WRONG, ids=range(len(WRONG)))
def test_wrong_input_has_a_reason(client: httpx.Client, model: str, body: dict, reason: str):
    answer = client.post(f"/api/{model}/decode", json=body)
    assert answer.status_code == 422, answer.text[:300]
    assert reason in answer.json()["detail"]


BODIES = [
    b"",
    b"{",
    b'{"points": [[NaN, 0]]}',
    b'{"points": [[Infinity, 0]]}',
    b'{"points": [[1e999, 0]]}',
    b'{"points": [[' + b"9" * 5000 + b", 0]]}",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"null",
    b"[]",
    b"\xff\xfe\x00",
    b'{"points": [[0, 0]], "points": "twice"}',
    b'{"image": "\\ud800"}',
    PNG,
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/form-data", "application/zip"])
def test_bodies_that_are_not_valid_json_requests(client: httpx.Client, body: bytes, kind: str):
    answer = client.post("/api/points-dspn/decode", content=body, headers={"content-type": kind})
    assert 400 <= answer.status_code < 500
    assert answer.json()["detail"]


def test_unknown_model_and_method(client: httpx.Client):
    assert client.post("/api/nobody/decode", json={"points": []}).status_code == 404
    assert client.post("/api/..%2F..%2Fetc/decode", json={"points": []}).status_code == 404
    assert client.get("/api/points-dspn/decode").status_code == 405


def test_a_large_body_is_rejected(client: httpx.Client):
    answer = client.post("/api/points-dspn/decode", content=b" " * 1_000_001)
    assert answer.status_code == 413
    assert "1,000,000" in answer.json()["detail"]


def test_an_endless_body_is_given_up_and_not_kept():
    taken, sent = 0, []

    async def receive() -> dict:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": b" " * 1000, "more_body": True}

    async def send(message: dict) -> None:
        sent.append(message)

    asyncio.run(BodyLimit(None, max_bytes=5000, seconds=10)({"type": "http", "headers": []}, receive, send))
    assert taken == 46  # nine limits, all discarded
    assert sent[0]["status"] == 413


@pytest.mark.parametrize("size", [1_000_001, 3_000_000])
def test_a_stated_length_beyond_the_limit_gets_its_reason(client: httpx.Client, size: int):
    assert client.post("/api/points-dspn/decode", content=b" " * size).status_code == 413


@pytest.fixture(scope="module")
def impatient(models: dict[str, Served]) -> Iterator[tuple[str, int]]:
    """A server that waits for half a second, with up to 20 connections."""
    limits = Limits(body_seconds=0.5, head_seconds=0.5, connections=20)
    with Running({"points-mlp": models["points-mlp"]}, limits) as address:
        yield "127.0.0.1", int(address.rpartition(":")[2])


def until_closed(connection: socket.socket) -> bytes:
    """Everything that the server sends before it closes the connection."""
    connection.settimeout(5)
    received = b""
    while part := connection.recv(65536):
        received += part
    return received


def head(size: int, host: str = "localhost") -> bytes:
    return f"POST /api/points-mlp/decode HTTP/1.1\r\nhost: {host}\r\ncontent-length: {size}\r\n\r\n".encode()


@pytest.mark.parametrize(("size", "status", "reason"), [(100, 408, "within 0.5 seconds"), (2_000_000, 413, "larger")])
def test_a_body_that_does_not_arrive_times_out(impatient: tuple[str, int], size: int, status: int, reason: str):
    with socket.create_connection(impatient) as connection:
        connection.sendall(head(size) + b"{")
        received = until_closed(connection)
    assert received.startswith(b"HTTP/1.1 %d " % status)
    assert b"connection: close" in received
    assert b"x-content-type-options: nosniff" in received  # the headers of all responses
    assert reason in json.loads(received[received.index(b"{") : received.rindex(b"}") + 1])["detail"]


def test_a_body_that_arrives_byte_by_byte_times_out_too(impatient: tuple[str, int]):
    with socket.create_connection(impatient) as connection:
        connection.sendall(head(100))
        sent = 0
        while not select.select([connection], [], [], 0.05)[0]:
            assert (sent := sent + 1) < 60, "the server still waits"
            connection.sendall(b" ")
        assert until_closed(connection).startswith(b"HTTP/1.1 408 ")


def test_slow_clients_keep_nobody_out(impatient: tuple[str, int]):
    """All connections are taken, each without its body, head or request; the server soon closes them."""
    starts = [head(100) + b"{", b"POST /api/po", b"", b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\nGET /he"]
    slow = [socket.create_connection(impatient) for _ in range(20)]
    try:
        for i, connection in enumerate(slow):
            connection.sendall(starts[i % 4])
        url = f"http://{impatient[0]}:{impatient[1]}/healthz"
        rejected = httpx.get(url)
        assert (rejected.status_code, rejected.headers["content-type"]) == (503, "text/plain; charset=utf-8")
        for connection in slow:
            until_closed(connection)
        assert httpx.get(url).status_code == 200
    finally:
        for connection in slow:
            connection.close()


def test_clients_that_do_not_read_are_disconnected(models: dict[str, Served]):
    """One asks for far more than buffers hold, and reads nothing of it."""
    request = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
    running = Running({"points-mlp": models["points-mlp"]}, Limits(head_seconds=0.5))
    with running as address, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", int(address.rpartition(":")[2])))
        deaf.sendall(2000 * request)
        wait_until(lambda: bool(running.server.server_state.connections), "it is not connected")
        wait_until(lambda: not running.server.server_state.connections, "the server still waits for it")


def wait_until(happens: Callable[[], bool], problem: str) -> None:
    until = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < until, problem
        time.sleep(0.05)


def test_a_client_that_disconnects_is_no_error(impatient: tuple[str, int], caplog: pytest.LogCaptureFixture):
    with socket.create_connection(impatient) as connection:
        connection.sendall(head(100) + b"{")
    assert httpx.get(f"http://{impatient[0]}:{impatient[1]}/healthz").status_code == 200
    assert not caplog.records


def test_waiting_requests_are_decoded_in_one_batch_as_they_are_alone(models: dict[str, Served]):
    queue = DecodeQueue(Limits(batch_size=4))
    served = models["points-dspn"]
    requests = [DecodeRequest.model_validate({"points": [[0.1 * i, 0.2]]}) for i in range(6)]
    with queue.change:  # the worker waits for this lock, so that all requests are in the queue when it looks
        futures = [queue.submit(r, served) for r in requests]
        other = queue.submit(DecodeRequest.model_validate({"points": [[0.1, 0.2]]}), models["points-mlp"])
    answers = [json.loads(f.result(10)) for f in futures]
    assert [a["batch_size"] for a in answers] == [4, 4, 4, 4, 2, 2]
    assert json.loads(other.result(10))["batch_size"] == 1
    for request, answer in zip(requests, answers):
        alone = json.loads(queue.submit(request, served).result(10))
        assert alone["batch_size"] == 1
        for name in ("elements", "mask", "repr_loss", "latent"):
            assert alone[name] == answer[name], f"{name} differs from that in a batch"
    queue.close()


def test_one_bad_request_does_not_spoil_its_batch(models: dict[str, Served]):
    queue = DecodeQueue(Limits())
    good = DecodeRequest.model_validate({"points": [[0.1, 0.2]]})
    bad = DecodeRequest.model_validate({"points": [[0.1, 0.2]] * 6})
    with queue.change:
        futures = [queue.submit(r, models["points-dspn"]) for r in (good, bad, good)]
    assert json.loads(futures[0].result(10))["batch_size"] == 2
    with pytest.raises(ValueError, match="at most 5"):
        futures[1].result(10)
    futures[2].result(10)
    queue.close()


@pytest.mark.parametrize("field", ["elements", "mask", "repr_loss"])
def test_a_set_that_explodes_is_a_mistake_of_the_input(models: dict[str, Served], field: str):
    served = models["points-dspn"]
    question = encode_request(DecodeRequest.model_validate({"points": [[0.1, 0.2]]}), served)
    prediction = decode([question])
    assert json.loads(answer_to(question, prediction, 0.0, 1))["repr_loss"]
    broken = replace(prediction, **{field: getattr(prediction, field).clone().fill_(torch.inf)})
    with pytest.raises(BadInput, match="values that are not finite; is it in the range of the training data"):
        answer_to(question, broken, 0.0, 1)


def test_requests_that_wait_too_long_are_rejected(models: dict[str, Served]):
    queue = DecodeQueue(Limits(seconds=0.05))
    with queue.change:
        late = queue.submit(DecodeRequest.model_validate({"points": []}), models["points-dspn"])
        time.sleep(0.1)
    with pytest.raises(TooBusy, match="within"):
        late.result(10)
    queue.close()


def test_a_burst_is_answered_or_rejected(models: dict[str, Served]):
    """40 at once where 4 may wait: each gets a 200, or a 503 with a retry-after, and the server still answers."""
    slow = {"slow": tiny("slow", multisets(8, variable=True, test=2), steps=80)}
    seen: list[httpx.Response] = []
    with Running(slow, Limits(waiting=4, batch_size=1)) as address:

        def ask() -> None:
            seen.append(
                httpx.post(f"{address}/api/slow/decode", json={"points": [[0.1, 0.2]], "steps": 200}, timeout=30)
            )

        threads = [threading.Thread(target=ask) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert httpx.post(f"{address}/api/slow/decode", json={"points": []}).status_code == 200
        assert httpx.get(f"{address}/healthz").json()["waiting"] == 0
    codes = sorted({r.status_code for r in seen})
    assert len(seen) == 40
    assert codes == [200, 503]
    assert all(
        r.headers["retry-after"] == "1" and "waiting" in r.json()["detail"] for r in seen if r.status_code == 503
    )
