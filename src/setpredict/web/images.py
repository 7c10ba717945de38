"""The images of requests: from base64 to pixels, in a process of their own, while the event loop goes on."""

from __future__ import annotations

import asyncio
import base64
import binascii
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from setpredict.web.image_process import ImageProcess
from setpredict.web.limits import BadInput, Limits, TooBusy


class ImageQueue:
    """The images that wait for the process that decodes them, one at a time. Other requests do not wait for them."""

    def __init__(self, limits: Limits):
        self.limits = limits
        self.waiting = 0
        self.process = ImageProcess(limits)
        self._thread = ThreadPoolExecutor(1, "setpredict-images")  # waits for the process

    async def decode(self, text: str, side: int) -> np.ndarray:
        """The pixels of an image in base64, resized: (3, side, side) uint8."""
        content = from_base64(text)
        if self.waiting >= self.limits.waiting:
            raise TooBusy(f"{self.waiting} images are already waiting; try again in a second")
        self.waiting += 1
        try:
            loop = asyncio.get_running_loop()
            pixels = await loop.run_in_executor(self._thread, self.process.decode, content, side)
        finally:
            self.waiting -= 1
        return np.frombuffer(pixels, np.uint8).reshape(side, side, 3).transpose(2, 0, 1)

    def close(self) -> None:
        """End the process; images that are waiting are canceled."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self.process.close()


def from_base64(text: str) -> bytes:
    """The content of an image in base64, with or without "data:image/…;base64," before it."""
    head, comma, rest = text.partition(",")
    if not text.startswith("data:"):
        rest = text
    elif not comma or not head.endswith(";base64"):
        raise BadInput('image is a data URL without ";base64,": send the image in base64')
    try:
        return base64.b64decode(rest, validate=True)
    except (binascii.Error, ValueError) as e:
        raise BadInput(f"image is not base64: {e}") from None
