"""One worker that decodes what waits: requests of one model and number of steps go together; too many are refused."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field

import torch

from setpredict.decoders import DSPN
from setpredict.sets import NotFinite, Prediction
from setpredict.web.answers import answer
from setpredict.web.catalog import Served
from setpredict.web.inputs import BadInput, Question, understand
from setpredict.web.limits import Limits
from setpredict.web.schema import DecodeRequest


class TooBusy(RuntimeError):
    """More requests wait than the server keeps."""


@dataclass
class Waiting:
    request: DecodeRequest
    served: Served
    future: Future[bytes] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)

    @property
    def key(self) -> tuple[str, int | None]:
        return self.served.name, self.request.steps if self.served.steps else None


class Decoder:
    """The queue and its worker. `submit` never blocks; the answer is a future of JSON."""

    def __init__(self, limits: Limits):
        self.limits = limits
        self.waiting: deque[Waiting] = deque()
        self.at_work = 0
        self.change = threading.Condition()
        self.closed = False
        self.thread = threading.Thread(target=self._work, name="setpredict-decoder", daemon=True)
        self.thread.start()

    def submit(self, request: DecodeRequest, served: Served) -> Future[bytes]:
        with self.change:
            if self.closed or len(self.waiting) + self.at_work >= self.limits.waiting:
                raise TooBusy(f"{self.limits.waiting} requests are waiting already; try again in a second")
            entry = Waiting(request, served)
            self.waiting.append(entry)
            self.change.notify()
        return entry.future

    def close(self) -> None:
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
                    self.at_work = 0

    def _take(self) -> list[Waiting]:
        """The oldest request and others of its kind, without those whose time is over or whose asker has gone."""
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
        group = [e for e in alive if e.key == key][: self.limits.together]
        self.waiting = deque(e for e in alive if e not in group)
        self.at_work = len(group)
        return group

    def _decode(self, group: list[Waiting]) -> None:
        began = time.perf_counter()
        questions: list[tuple[Waiting, Question]] = []
        for entry in group:
            if not entry.future.set_running_or_notify_cancel():
                continue
            try:
                questions.append((entry, understand(entry.request, entry.served, self.limits)))
            except Exception as e:
                entry.future.set_exception(_blame(e))
        if not questions:
            return
        try:
            way = decode([q for _, q in questions])
        except Exception as e:  # the batch as a whole failed: find out whose fault it was
            for entry, question in questions:
                self._alone(entry, question, e, len(questions))
            return
        spent = 1000 * (time.perf_counter() - began)
        for i, (entry, question) in enumerate(questions):
            self._finish(entry, question, part(way, i), spent, len(questions))

    def _alone(self, entry: Waiting, question: Question, error: Exception, size: int) -> None:
        if size == 1:
            entry.future.set_exception(_blame(error))
            return
        try:
            self._finish(entry, question, decode([question]), 0.0, 1)
        except Exception as e:
            entry.future.set_exception(_blame(e))

    def _finish(self, entry: Waiting, question: Question, way: Prediction, spent: float, together: int) -> None:
        try:
            entry.future.set_result(answer(question, way, spent, together))
        except Exception as e:
            entry.future.set_exception(e)


@torch.no_grad()
def decode(questions: list[Question]) -> Prediction:
    """All questions are of one model and number of steps; no sample's answer depends on its neighbors."""
    served, steps = questions[0].served, questions[0].steps
    z = torch.cat([q.z for q in questions])
    decoder = served.model.decoder
    return decoder(z, steps=steps) if isinstance(decoder, DSPN) else decoder(z)


def part(way: Prediction, i: int) -> Prediction:
    """The way of one sample, still a batch."""
    losses = None if way.repr_loss is None else way.repr_loss[:, i : i + 1]
    return Prediction(way.elements[:, i : i + 1], way.mask[:, i : i + 1], losses)


def _blame(error: Exception) -> Exception:
    """Numbers that are not finite come from the input; any other error is ours."""
    return BadInput(str(error)) if isinstance(error, NotFinite) else error
