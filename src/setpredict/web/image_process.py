"""The process that decodes the images of requests: a file that takes too long or too much is ended with it.

Both ends are in this file. They exchange bytes of a fixed form, no pickles: a malicious image that takes over the
process has not taken over the server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import Any

from setpredict.core.errors import UserError
from setpredict.data.io.decode import PixelLimit, decode_image
from setpredict.web.limits import BadInput, Limits, TooBusy

QUESTION = Struct(">IQ")  # the side of the result and the length of the image, which follows
ANSWER = Struct(">?I")  # whether it was decoded and the length of what follows: RGB pixels, or the reason as text
READY = b"+"
START_SECONDS = 60.0
"""For the process to start; it takes less than a second unless the machine is very busy."""
MAX_REASON = 4000
CODE = """
import sys
sys.path += [path for path in sys.argv[3:] if path not in sys.path]
from setpredict.web.image_process import work
work(int(sys.argv[1]), int(sys.argv[2]))
"""


class ImageProcess:
    """The server's end: starts the process when it is needed, kills it at its time limit, and starts another one."""

    def __init__(self, limits: Limits):
        self.limits = limits
        self.process: subprocess.Popen[bytes] | None = None
        self._is_ready = self._is_closed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process, if it is not running, without waiting until it is ready."""
        with self._lock:
            self._start()

    def decode(self, content: bytes, side: int) -> bytes:
        """The RGB pixels of an image, resized to side × side; BadInput if that is not possible within the limits."""
        with self._lock:
            process = self._start()
            self._wait_until_ready(process)
            question = QUESTION.pack(side, len(content)) + content
            with _killed_after(self.limits.image_seconds, process) as late:
                answer = _ask(process, question, 3 * side * side)
            if answer is None or late.is_set():
                self._stop()
            if answer is None:
                raise self._failure(late.is_set(), process.returncode)
        decoded, result = answer
        if not decoded:
            raise BadInput(result.decode(errors="replace"))
        return result

    def close(self) -> None:
        """End the process, even in the middle of an image."""
        self._is_closed = True
        if (process := self.process) is not None:
            process.kill()
        with self._lock:
            self._stop()

    def _start(self) -> subprocess.Popen[bytes]:
        if self.process is not None and self.process.poll() is None:
            return self.process
        self._stop()
        if self._is_closed:
            raise TooBusy("the server is shutting down")
        numbers = [str(self.limits.image_pixels), str(self.limits.image_memory)]
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", CODE, *numbers, *(path for path in sys.path if path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C in the terminal is for the server, which then ends this process
            )
        except OSError as e:
            raise TooBusy(f"no process can be started to decode images: {e.strerror}") from None
        return self.process

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        """Starting is not part of the time for an image."""
        if not self._is_ready:
            with _killed_after(START_SECONDS, process):
                self._is_ready = _read(process.stdout, len(READY)) == READY
        if not self._is_ready:
            self._stop()
            raise TooBusy("the process that decodes images did not start; try again")

    def _stop(self) -> None:
        process, self.process, self._is_ready = self.process, None, False
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # what was not written yet cannot be written now
                    pipe.close()  # pyright: ignore[reportOptionalMemberAccess]

    def _failure(self, late: bool, code: int) -> Exception:
        if self._is_closed:
            return TooBusy("the server is shutting down")
        if late:
            seconds = self.limits.image_seconds
            return BadInput(f"image was not decoded within {seconds:g} seconds; send a smaller or simpler one")
        return BadInput(f"image ended the process that decoded it (code {code}); save it anew and try again")


@contextmanager
def _killed_after(seconds: float, process: subprocess.Popen[bytes]) -> Iterator[threading.Event]:
    """Kill the process when the time is over before the block is; the event says whether it was killed."""
    late = threading.Event()

    def kill() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, kill)
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
        timer.join()


def _ask(process: subprocess.Popen[bytes], question: bytes, most: int) -> tuple[bool, bytes] | None:
    """One image sent and its answer received; None if the process ended, or says what it cannot have to say."""
    try:
        process.stdin.write(question)  # pyright: ignore[reportOptionalMemberAccess]
        process.stdin.flush()  # pyright: ignore[reportOptionalMemberAccess]
    except OSError:
        return None
    head = _read(process.stdout, ANSWER.size)
    if head is None:
        return None
    decoded, length = ANSWER.unpack(head)
    if length != most if decoded else length > MAX_REASON:
        return None
    result = _read(process.stdout, length)
    return None if result is None else (decoded, result)


def _read(stream: Any, length: int) -> bytes | None:
    """Exactly this many bytes; None if the stream ends before."""
    content = stream.read(length)
    return content if len(content) == length else None


def work(max_pixels: int, memory: int) -> None:
    """The other end: decode one image after another, until the server closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    limit = PixelLimit(max_pixels, "send a smaller one")
    _limit_memory(memory)
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    with suppress(OSError):  # the server was killed
        answers.write(READY)
        answers.flush()
        while (head := _read(questions, QUESTION.size)) is not None:
            side, length = QUESTION.unpack(head)
            decoded, result = _decode(_read(questions, length) or b"", side, limit)
            answers.write(ANSWER.pack(decoded, len(result)) + result)
            answers.flush()


def _decode(content: bytes, side: int, limit: PixelLimit) -> tuple[bool, bytes]:
    try:
        return True, decode_image(content, side, limit, "image").tobytes()
    except UserError as e:
        return False, str(e).encode(errors="replace")[:MAX_REASON]


def _limit_memory(memory: int) -> None:
    """Allow this much more address space than is in use now, on systems that say how much that is."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        import resource

        most = int(pages.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") + memory
        with suppress(ValueError, OSError):  # a lower limit is already set
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
