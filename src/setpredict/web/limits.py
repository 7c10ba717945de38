"""The limits of one request and of all waiting requests, and the errors of requests beyond them."""

from __future__ import annotations

from dataclasses import dataclass

from setpredict.core.errors import UserError

MAX_STEPS = 200
LARGEST_GIVEN = 1e9
"""The largest absolute value of coordinates and vector entries in the units of the data."""
LARGEST_NUMBER = 1000.0
"""The largest absolute value of what a model sees, which has a range of about 1 in training, and of a latent vector."""


@dataclass(frozen=True)
class Limits:
    """The limits of a server. A request beyond them gets a 4xx, 503 or 504 response that names the limit; a
    connection without a request, or whose client does not read, is closed."""

    body_bytes: int = 1_000_000
    """The size of a request's body."""
    body_seconds: float = 10.0
    """From the end of a request's head to the end of its body."""
    head_seconds: float = 10.0
    """From the start of a connection, or the end of its last response, to the end of the next request's head; and how
    long a client may read nothing of its response."""
    connections: int = 200
    """Open at the same time; further requests get a 503."""
    image_pixels: int = 4_000_000
    """Width times height according to the image's header: a larger image is not decompressed."""
    image_seconds: float = 5.0
    """To decode one image; the process that decodes it is then killed."""
    image_memory: int = 512_000_000
    """Bytes to decode one image, where the operating system can limit them."""
    waiting: int = 32
    """Requests in the queue or being decoded; further ones get a 503."""
    batch_size: int = 16
    """Waiting requests for the same model and number of steps that are decoded in one batch."""
    seconds: float = 20.0
    """From the arrival of a request to its response; a 504 after that."""


class BadInput(UserError):
    """A request that cannot be answered; the message gives the reason."""


class TooBusy(RuntimeError):
    """The queue is full, or a request waited too long."""
