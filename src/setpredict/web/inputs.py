"""From a request to the code that is decoded; input that does not fit the model is an error with a reason."""

from __future__ import annotations

import base64
import binascii
import io
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from setpredict.core.errors import UserError
from setpredict.data.io.images import FILTER, images_to_float
from setpredict.data.task import Batch
from setpredict.encoders import Code
from setpredict.sets import Sets
from setpredict.web.catalog import Served
from setpredict.web.limits import Limits
from setpredict.web.schema import DecodeRequest

KINDS = ("points", "vector", "image", "sample", "latent")
INPUT_OF = {"set": "points", "vector": "vector", "image": "image"}


class BadInput(UserError):
    """A request that cannot be answered; the message gives the reason."""


@dataclass
class Question:
    """A valid request with its input encoded."""

    served: Served
    code: Code
    """Of one sample."""
    steps: int | None
    batch: Batch | None = None
    """With a sample: its input and target."""
    sample: int | None = None
    """With a sample: its index."""


@torch.no_grad()
def encode_request(request: DecodeRequest, served: Served, limits: Limits) -> Question:
    """Check that a request fits the model, and encode its input."""
    given = [kind for kind in KINDS if getattr(request, kind) is not None]
    if len(given) != 1:
        raise BadInput(f"give exactly one of {', '.join(KINDS)}; got {' and '.join(given) or 'none of them'}")
    kind, task, steps = given[0], served.task, request.steps if served.steps else None
    if kind == "latent":
        if len(request.latent or ()) != served.latent:
            raise BadInput(f"latent must have {served.latent} numbers, got {len(request.latent or ())}")
        return Question(served, Code(torch.tensor([request.latent], dtype=torch.float32)), steps)
    if kind == "sample":
        try:
            batch = served.sample(request.sample or 0)
        except UserError as e:
            raise BadInput(str(e)) from None
        return Question(served, served.model.encode(batch.input), steps, batch, request.sample)
    if kind != INPUT_OF[task.input_kind]:
        raise BadInput(f"{served.name} takes {INPUT_OF[task.input_kind]}, sample or latent, not {kind}")
    if request.points is not None:
        return Question(served, served.model.encode(_as_set(request.points, served)), steps)
    if request.vector is not None:
        if len(request.vector) != task.input_size:
            raise BadInput(f"vector must have {task.input_size} numbers, got {len(request.vector)}")
        vector = task.normalize_input(torch.tensor([request.vector], dtype=torch.float32))
        return Question(served, served.model.encode(vector), steps)
    pixels = read_image(request.image or "", task.input_size, limits)
    return Question(served, served.model.encode(images_to_float(pixels[None])), steps)


def read_image(text: str, side: int, limits: Limits) -> np.ndarray:
    """A base64 PNG or JPEG, resized to (3, side, side) uint8. Its header is checked before it is decompressed."""
    try:
        content = base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True)
    except (binascii.Error, ValueError):
        raise BadInput("image is not base64") from None
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(content), formats=("PNG", "JPEG")) as image:
            warnings.simplefilter("ignore")
            width, height = image.size
            if width * height > limits.image_pixels:
                raise BadInput(f"image is {width}×{height}; at most {limits.image_pixels:,} pixels are allowed")
            image.load()
            pixels = np.asarray(image.convert("RGB").resize((side, side), FILTER))
    except BadInput:
        raise
    except Exception as e:  # Pillow raises OSError, SyntaxError, ValueError, struct.error, … for broken files
        raise BadInput(f"image is not a complete PNG or JPEG: {' '.join(str(e).split())[:200]}") from None
    return pixels.transpose(2, 0, 1)


def _as_set(points: list[list[float]], served: Served) -> Sets:
    model, task = served.model, served.task
    max_size = (model.config.input.max_size or model.config.max_size) if model.config else task.max_size
    if len(points) > max_size:
        raise BadInput(f"{len(points)} points; {served.name} takes at most {max_size}")
    for i, point in enumerate(points):
        if len(point) != task.input_size:
            raise BadInput(f"point {i} has {len(point)} numbers; {served.name} takes {task.input_size}")
    if not (task.variable if task.input_variable is None else task.input_variable) and len(points) != max_size:
        raise BadInput(f"{served.name} takes sets of exactly {max_size} points, got {len(points)}")
    sets = Sets.from_list([points], max_size=max_size, features=task.input_size, dtype=torch.float32)
    sets = task.normalize_input(sets)
    assert isinstance(sets, Sets)
    return sets
