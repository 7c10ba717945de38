"""What one request, and all that wait, may ask for."""

from __future__ import annotations

from dataclasses import dataclass

MOST_STEPS = 200
LARGEST_NUMBER = 1000.0
"""Coordinates and vector entries lie within plus and minus this; data are about 1 in size."""


@dataclass(frozen=True)
class Limits:
    """The bounds of a server; beyond them is a 4xx or 503 that names the bound, or, without a request, the end."""

    body_bytes: int = 1_000_000
    body_seconds: float = 10.0
    """From a request's head to the end of its body."""
    head_seconds: float = 10.0
    """From a connection's beginning, or its last answer, to the end of the next request's head."""
    connections: int = 200
    """Open at once; further requests get a 503."""
    image_pixels: int = 4_000_000
    """Width times height as the image's header has it: nothing larger is unpacked."""
    waiting: int = 32
    """Requests under way or waiting; further ones get a 503."""
    together: int = 16
    """Waiting requests of one model and number of steps are decoded together, at most so many."""
    seconds: float = 20.0
    """From arrival to answer; later it is a 503."""
