"""Downloads from a local server that ends connections early, ignores ranges, or does not exist."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from setpredict.core.errors import UserError
from setpredict.data.io.download import download

CONTENT = bytes(range(256)) * 2000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    breaks: int = 0
    """The number of answers that will still end in the middle."""
    ranges: bool = True
    slow: float = 0
    asked: list[str | None]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file.gz"


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        begin = int(wanted.split("=")[1].rstrip("-")) if wanted and self.server.ranges else 0
        body = CONTENT[begin:]
        if begin and not body:
            self.send_error(416)
            return
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.breaks:
            self.server.breaks -= 1
            body = body[: len(body) // 2]
        for i in range(0, len(body), 50_000):
            try:
                self.wfile.write(body[i : i + 50_000])
                self.wfile.flush()
            except OSError:
                return
            time.sleep(self.server.slow)

    def log_message(self, format: str, *args) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_plain(server: Server, tmp_path: Path):
    download([server.url], tmp_path / "file.gz", MD5)
    assert (tmp_path / "file.gz").read_bytes() == CONTENT
    assert sorted(p.name for p in tmp_path.iterdir()) == [".file.gz.lock", "file.gz"]
    download([server.url], tmp_path / "file.gz", MD5)  # already there
    assert server.asked == [None]


@pytest.mark.parametrize("ranges", [True, False])
def test_resumes_where_the_server_stopped(server: Server, tmp_path: Path, ranges: bool):
    server.breaks, server.ranges = 2, ranges
    download([server.url], tmp_path / "file.gz", MD5, wait=0.0)
    assert (tmp_path / "file.gz").read_bytes() == CONTENT
    assert server.asked[1] == f"bytes={len(CONTENT) // 2}-"


def test_a_server_that_always_stops_early_leaves_no_file(server: Server, tmp_path: Path):
    server.breaks, server.ranges = 99, False
    with pytest.raises(UserError, match=r"could not download file.gz \(.* ended after 256000 of 512000 bytes\)"):
        download([server.url], tmp_path / "file.gz", MD5, tries=2, wait=0.0)
    assert not (tmp_path / "file.gz").exists()


def test_a_wrong_checksum_is_an_error_and_the_next_mirror_is_tried(server: Server, tmp_path: Path):
    with pytest.raises(UserError, match=r"its MD5 is .*, expected 0123"):
        download([server.url], tmp_path / "file.gz", "0123", tries=1)
    assert not any(p.suffix in (".gz", ".part") for p in tmp_path.iterdir())
    download(["http://127.0.0.1:9/file.gz", server.url], tmp_path / "file.gz", MD5, tries=1)
    assert (tmp_path / "file.gz").exists()


def test_a_stale_part_is_discarded(server: Server, tmp_path: Path):
    (tmp_path / "file.gz.part").write_bytes(b"x" * (len(CONTENT) + 5))
    download([server.url], tmp_path / "file.gz", MD5, wait=0.0)
    assert (tmp_path / "file.gz").read_bytes() == CONTENT


def test_without_network_the_error_says_where_to_put_the_file(tmp_path: Path):
    with pytest.raises(UserError) as error:
        download(["http://127.0.0.1:9/file.gz"], tmp_path / "file.gz", MD5, tries=1)
    message = str(error.value)
    assert "\n" not in message
    assert "download http://127.0.0.1:9/file.gz yourself" in message
    assert f"put it into {tmp_path}" in message


def test_killed_while_downloading(server: Server, tmp_path: Path):
    server.slow = 0.2
    code = (
        "import sys; from pathlib import Path; from setpredict.data.io.download import download;"
        f"download([{server.url!r}], Path({str(tmp_path)!r}) / 'file.gz', {MD5!r})"
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    part = tmp_path / "file.gz.part"
    until = time.monotonic() + 20
    while not (part.exists() and part.stat().st_size) and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert part.stat().st_size < len(CONTENT)
    assert not (tmp_path / "file.gz").exists()
    server.slow = 0
    download([server.url], tmp_path / "file.gz", MD5)
    assert (tmp_path / "file.gz").read_bytes() == CONTENT
    assert server.asked[-1] is not None  # resumed
    assert not part.exists()
