"""The queue of requests: one worker decodes those for the same model and number of steps in one batch."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
import torch

from setpredict.core.errors import UserError
from setpredict.encoders import Code
from setpredict.sets import Prediction
from setpredict.web.answers import answer
from setpredict.web.catalog import Served
from setpredict.web.inputs import Question, encode_request
from setpredict.web.limits import BadInput, Limits, TooBusy
from setpredict.web.scene_pictures import start_picture
from setpredict.web.schema import DecodeRequest


@dataclass(eq=False)
class Waiting:
    """A request in the queue."""

    request: DecodeRequest
    served: Served
    pixels: np.ndarray | None = None
    """Those of its image, (3, H, W)."""
    future: Future[bytes] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)

    @property
    def key(self) -> tuple[str, int | None]:
        """Requests with the same key can be decoded in one batch."""
        return self.served.name, self.request.steps if self.served.steps else None


class DecodeQueue:
    """The queue and its worker thread."""

    def __init__(self, limits: Limits):
        self.limits = limits
        self.waiting: deque[Waiting] = deque()
        self.decoding = 0
        self.change = threading.Condition()
        self.closed = False
        self.thread = threading.Thread(target=self._work, name="setpredict-decoder", daemon=True)
        self.thread.start()

    def submit(self, request: DecodeRequest, served: Served, pixels: np.ndarray | None = None) -> Future[bytes]:
        """Add a request without blocking; the result is its answer as JSON. Raises TooBusy if the queue is full.

        `pixels` (3, H, W) are those of its image.
        """
        with self.change:
            if self.closed or len(self.waiting) + self.decoding >= self.limits.waiting:
                raise TooBusy(f"{self.limits.waiting} requests are already waiting; try again in a second")
            if request.sample is not None:
                start_picture(served.source, request.sample)  # while the worker decodes
            entry = Waiting(request, served, pixels)
            self.waiting.append(entry)
            self.change.notify()
        return entry.future

    def close(self) -> None:
        """Stop the worker; waiting requests are canceled."""
        with self.change:
            self.closed = True
            self.change.notify()
        self.thread.join(timeout=5)

    def _work(self) -> None:
        while True:
            with self.change:
                while not self.waiting and not self.closed:
                    self.change.wait()
                if self.closed:
                    for entry in self.waiting:
                        entry.future.cancel()
                    return
                group = self._take()
            try:
                self._decode(group)
            finally:
                with self.change:
                    self.decoding = 0

    def _take(self) -> list[Waiting]:
        """The oldest request and others with its key; canceled and expired requests are removed."""
        now = time.monotonic()
        alive = deque(e for e in self.waiting if not e.future.cancelled())
        for entry in [e for e in alive if now - e.since > self.limits.seconds]:
            alive.remove(entry)
            if entry.future.set_running_or_notify_cancel():
                entry.future.set_exception(TooBusy(f"not answered within {self.limits.seconds:g} seconds"))
        if not alive:
            self.waiting = alive
            return []
        key = alive[0].key
        group = [e for e in alive if e.key == key][: self.limits.batch_size]
        self.waiting = deque(e for e in alive if e not in group)
        self.decoding = len(group)
        return group

    def _decode(self, group: list[Waiting]) -> None:
        start = time.perf_counter()
        questions: list[tuple[Waiting, Question]] = []
        for entry in group:
            if not entry.future.set_running_or_notify_cancel():
                continue
            try:
                questions.append((entry, encode_request(entry.request, entry.served, entry.pixels)))
            except Exception as e:
                entry.future.set_exception(_as_bad_input(e))
        if not questions:
            return
        try:
            prediction = decode([q for _, q in questions])
        except Exception as e:  # perhaps because of one request: decode each separately
            for entry, question in questions:
                self._decode_one(entry, question, e, len(questions))
            return
        spent = 1000 * (time.perf_counter() - start)
        for i, (entry, question) in enumerate(questions):
            self._finish(entry, question, prediction.samples(slice(i, i + 1)), spent, len(questions))

    def _decode_one(self, entry: Waiting, question: Question, error: Exception, size: int) -> None:
        if size == 1:
            entry.future.set_exception(_as_bad_input(error))
            return
        try:
            self._finish(entry, question, decode([question]), 0.0, 1)
        except Exception as e:
            entry.future.set_exception(_as_bad_input(e))

    def _finish(
        self, entry: Waiting, question: Question, prediction: Prediction, spent: float, batch_size: int
    ) -> None:
        try:
            entry.future.set_result(answer(question, prediction, spent, batch_size))
        except Exception as e:
            entry.future.set_exception(_as_bad_input(e))


@torch.no_grad()
def decode(questions: list[Question]) -> Prediction:
    """Decode questions for the same model and number of steps in one batch; no prediction depends on the others."""
    served, steps = questions[0].served, questions[0].steps
    return served.model.decode_each(Code.cat([q.code for q in questions]), steps)


def _as_bad_input(error: Exception) -> Exception:
    """A UserError (such as a number that is not finite) is a mistake in the input; any other error is our bug."""
    return BadInput(str(error)) if isinstance(error, UserError) else error
