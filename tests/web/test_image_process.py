"""The process that decodes images: killed at its limits, started again, and never left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from setpredict.data.io.decode import PixelLimit, decode_image
from setpredict.web import image_process
from setpredict.web.catalog import Served
from setpredict.web.image_process import ImageProcess
from setpredict.web.images import ImageQueue
from setpredict.web.limits import BadInput, Limits, TooBusy
from tests.hostile_images import many_scans, noise, saved
from tests.web.served import Running
from tests.web.test_hostile import text

SMALL = saved(noise(20, 10), "PNG")
SLOW = many_scans(2000, 64)  # about half a second
EXPECTED = decode_image(SMALL, 8, PixelLimit(200, ""), "image").tobytes()
CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children")
on_linux = pytest.mark.skipif(not CHILDREN.exists(), reason="needs /proc with lists of children")


@pytest.fixture
def images() -> Iterator[ImageProcess]:
    process = ImageProcess(Limits(image_seconds=60))
    yield process
    process.close()


def pid(images: ImageProcess) -> int:
    assert images.process is not None
    return images.process.pid


def is_gone(process: int) -> bool:
    """Whether a process has ended and was waited for: it is no zombie either."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def stuck(images: ImageProcess, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Future[bytes]]:
    """The process, stopped while it should decode an image, and the future result of that."""
    assert images.decode(SMALL, 8) == EXPECTED
    os.kill(pid(images), signal.SIGSTOP)
    asked, ask = threading.Event(), image_process._ask

    def ask_and_tell(*arguments):
        asked.set()
        return ask(*arguments)

    monkeypatch.setattr(image_process, "_ask", ask_and_tell)
    pool = ThreadPoolExecutor(1)
    answer = pool.submit(images.decode, SMALL, 8)
    pool.shutdown(wait=False)
    assert asked.wait(60)
    return pid(images), answer


def test_one_process_decodes_one_image_after_another(images: ImageProcess):
    images.start()
    first = pid(images)
    for _ in range(3):
        assert images.decode(SMALL, 8) == EXPECTED
        with pytest.raises(BadInput, match="image is not a PNG, JPEG or WebP image: it begins with b'text'"):
            images.decode(b"text", 8)
    assert pid(images) == first
    assert len(images.decode(saved(noise(300, 300), "PNG"), 500)) == 3 * 500 * 500


def test_an_image_that_takes_too_long_is_ended_with_its_process(images: ImageProcess):
    images.decode(SMALL, 8)
    first = pid(images)
    images.limits = replace(images.limits, image_seconds=0.02)
    with pytest.raises(BadInput, match=r"image was not decoded within 0.02 seconds; send a smaller or simpler one"):
        images.decode(SLOW, 8)
    assert is_gone(first)
    images.limits = replace(images.limits, image_seconds=60)
    assert images.decode(SMALL, 8) == EXPECTED
    assert pid(images) != first


@on_linux
@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_an_image_that_takes_too_much_memory_is_named(form: str):
    images = ImageProcess(Limits(image_seconds=60, image_pixels=100_000_000, image_memory=20_000_000))
    try:
        with pytest.raises(BadInput, match=r"image (needs more memory than there is|is not a valid WebP image)"):
            images.decode(saved(Image.new("RGB", (3000, 3000)), form), 8)
        assert images.decode(SMALL, 8) == EXPECTED
    finally:
        images.close()


def test_a_process_that_was_killed_is_started_again(images: ImageProcess):
    images.decode(SMALL, 8)
    first = pid(images)
    os.kill(first, signal.SIGKILL)
    assert images.process is not None
    images.process.wait()
    assert images.decode(SMALL, 8) == EXPECTED
    assert is_gone(first)


def test_an_image_that_crashes_its_process_is_named(images: ImageProcess, monkeypatch: pytest.MonkeyPatch):
    first, answer = stuck(images, monkeypatch)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(BadInput, match=r"image ended the process that decoded it \(code -9\)"):
        answer.result(30)
    assert is_gone(first)
    assert images.decode(SMALL, 8) == EXPECTED


def test_closing_does_not_wait_for_an_image(images: ImageProcess, monkeypatch: pytest.MonkeyPatch):
    first, answer = stuck(images, monkeypatch)
    images.close()
    with pytest.raises(TooBusy, match="shutting down"):
        answer.result(30)
    assert is_gone(first)
    with pytest.raises(TooBusy, match="shutting down"):
        images.decode(SMALL, 8)


def test_a_process_that_does_not_start_is_no_crash(images: ImageProcess, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(image_process, "CODE", "")
    with pytest.raises(TooBusy, match="did not start"):
        images.decode(SMALL, 8)
    monkeypatch.undo()
    assert images.decode(SMALL, 8) == EXPECTED


SERVER = """
import os, signal, sys
from setpredict.web.image_process import ImageProcess
from setpredict.web.limits import Limits
images = ImageProcess(Limits())
images.decode(bytes.fromhex(sys.argv[1]), 8)
print(images.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@on_linux
def test_a_killed_server_leaves_no_process_behind():
    done = subprocess.run([sys.executable, "-c", SERVER, SMALL.hex()], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    process = Path("/proc") / done.stdout.strip()

    def runs() -> bool:  # whoever adopts it may not have waited for it yet
        return process.exists() and "\nState:\tZ" not in (process / "status").read_text()

    for _ in range(1000):
        if not runs():
            return
        time.sleep(0.02)
    raise AssertionError("it still runs")


def children() -> set[str]:
    return {c for file in Path("/proc/self/task").glob("*/children") for c in file.read_text().split()}


@on_linux
def test_the_process_starts_and_ends_with_the_server(models: dict[str, Served]):
    before = children()
    with Running({"points-mlp": models["points-mlp"]}):
        assert children() == before  # it is for images only
    with Running({"scenes-box": models["scenes-box"]}) as address:
        (process,) = children() - before
        for _ in range(2):
            assert httpx.post(f"{address}/api/scenes-box/decode", json={"image": text(SMALL)}).status_code == 200
        assert children() - before == {process}
    assert children() == before
    assert is_gone(int(process))


def test_an_image_does_not_hold_up_other_requests(models: dict[str, Served], monkeypatch: pytest.MonkeyPatch):
    """While an image is decoded, other models answer; images beyond the limit of waiting ones get a 503."""
    started, go_on, decode = threading.Event(), threading.Event(), ImageProcess.decode

    def slow(self: ImageProcess, content: bytes, side: int) -> bytes:
        started.set()
        assert go_on.wait(60)
        return decode(self, content, side)

    monkeypatch.setattr(ImageProcess, "decode", slow)
    with (
        Running(models, Limits(waiting=2, seconds=60)) as address,
        ThreadPoolExecutor(2) as pool,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        image = {"image": text(SMALL)}
        try:
            waiting = [pool.submit(httpx.post, f"{address}/api/scenes-box/decode", json=image, timeout=60)]
            assert started.wait(60)
            waiting.append(pool.submit(httpx.post, f"{address}/api/scenes-box/decode", json=image, timeout=60))
            while client.get("/healthz").json()["waiting"] < 2:
                time.sleep(0.01)
            for _ in range(3):
                assert client.post("/api/points-dspn/decode", json={"points": [[0.1, 0.2]]}).status_code == 200
                assert client.post("/api/scenes-box/decode", json={"sample": 1}).status_code == 200
            rejected = client.post("/api/scenes-box/decode", json=image)
            assert (rejected.status_code, rejected.headers["retry-after"]) == (503, "1")
            assert rejected.json()["detail"] == "2 images are already waiting; try again in a second"
        finally:
            go_on.set()
        assert [w.result(60).status_code for w in waiting] == [200, 200]
        assert client.get("/healthz").json()["waiting"] == 0


def test_a_time_limit_of_an_image_has_its_own_message(models: dict[str, Served], monkeypatch: pytest.MonkeyPatch):
    with Running({"scenes-box": models["scenes-box"]}, Limits(image_seconds=0.02)) as address:
        slow = httpx.post(f"{address}/api/scenes-box/decode", json={"image": text(SLOW)}, timeout=60)
        assert (slow.status_code, slow.json()["detail"][:44]) == (422, "image was not decoded within 0.02 seconds; s")
    go_on = threading.Event()
    monkeypatch.setattr(ImageProcess, "decode", lambda *_: go_on.wait(60))
    with Running({"scenes-box": models["scenes-box"]}, Limits(seconds=0.1)) as address:
        late = httpx.post(f"{address}/api/scenes-box/decode", json={"image": text(SMALL)}, timeout=60)
        go_on.set()
    assert late.status_code == 504
    assert late.json()["detail"] == "not answered within 0.1 seconds; other images are decoded first; try again"


def test_the_pixels_of_an_image_are_those_that_training_sees():
    queue = ImageQueue(Limits(image_seconds=60))
    try:
        pixels = asyncio.run(queue.decode(text(SMALL), 8))
    finally:
        queue.close()
    assert np.array_equal(pixels.transpose(1, 2, 0), np.frombuffer(EXPECTED, np.uint8).reshape(8, 8, 3))
