"""From a request to the code that is decoded; input that does not fit the model is an error with a reason."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from setpredict.core.errors import UserError
from setpredict.data.io.images import images_to_float
from setpredict.data.task import Batch
from setpredict.encoders import Code
from setpredict.sets import Sets
from setpredict.web.catalog import Served
from setpredict.web.limits import LARGEST_NUMBER, BadInput
from setpredict.web.schema import DecodeRequest

KINDS = ("points", "vector", "image", "sample", "latent")
INPUT_OF = {"set": "points", "vector": "vector", "image": "image"}


@dataclass
class Question:
    """A valid request with its input encoded."""

    served: Served
    code: Code
    """Of one sample."""
    steps: int | None
    input: Tensor | Sets | None = None
    """As the model sees it, where the answer shows it."""
    batch: Batch | None = None
    """With a sample: its input and target."""
    sample: int | None = None
    """With a sample: its index."""


def input_kind(request: DecodeRequest, served: Served) -> str:
    """Which of its inputs a request has; BadInput if the model does not take it."""
    given = [kind for kind in KINDS if getattr(request, kind) is not None]
    if len(given) != 1:
        raise BadInput(f"give exactly one of {', '.join(KINDS)}; got {' and '.join(given) or 'none of them'}")
    taken = INPUT_OF[served.task.input_kind]
    if given[0] not in (taken, "sample", "latent"):
        raise BadInput(f"{served.name} takes {taken}, sample or latent, not {given[0]}")
    if given[0] == "latent" and not served.takes_latent:
        raise BadInput(f"{served.name} decodes more than the vector z: it takes {taken} or sample, not latent")
    return given[0]


@torch.no_grad()
def encode_request(request: DecodeRequest, served: Served, pixels: np.ndarray | None = None) -> Question:
    """Check that a request fits the model, and encode its input; `pixels` (3, H, W) are those of its image."""
    kind, task, steps = input_kind(request, served), served.task, request.steps if served.steps else None
    most = served.model.max_steps
    if steps is not None and most is not None and steps > most:
        raise BadInput(f"{served.name} has {most} layers and cannot take {steps} steps")
    if kind == "latent":
        if len(request.latent or ()) != served.latent:
            raise BadInput(f"latent must have {served.latent} numbers, got {len(request.latent or ())}")
        return Question(served, Code(torch.tensor([request.latent], dtype=torch.float32)), steps)
    if kind == "sample":
        try:
            batch = served.sample(request.sample or 0)
        except UserError as e:
            raise BadInput(str(e)) from None
        return Question(served, served.model.encode_each(batch.input), steps, batch.input, batch, request.sample)
    if request.points is not None:
        sets = _as_set(request.points, served)
        return Question(served, served.model.encode_each(sets), steps, sets)
    if request.vector is not None:
        if len(request.vector) != task.input_size:
            raise BadInput(f"vector must have {task.input_size} numbers, got {len(request.vector)}")
        vector = _normalized(torch.tensor([request.vector], dtype=torch.float64), served)
        return Question(served, served.model.encode_each(vector), steps, vector)
    assert pixels is not None, "the image of a request is decoded before the request is encoded"
    return Question(served, served.model.encode_each(images_to_float(pixels[None])), steps)


def _as_set(points: list[list[float]], served: Served) -> Tensor | Sets:
    task = served.task
    limits = served.model.config or task
    max_size = limits.input_capacity
    if len(points) > max_size:
        raise BadInput(f"{len(points)} points; {served.name} takes at most {max_size}")
    for i, point in enumerate(points):
        if len(point) != task.input_size:
            raise BadInput(f"point {i} has {len(point)} numbers; {served.name} takes {task.input_size}")
    if not limits.input_varies and len(points) != max_size:
        raise BadInput(f"{served.name} takes sets of exactly {max_size} points, got {len(points)}")
    sets = Sets.from_list([points], max_size=max_size, features=task.input_size, dtype=torch.float64)
    return _normalized(sets, served)


def _normalized(given: Tensor | Sets, served: Served) -> Tensor | Sets:
    """The input in the range of the training data, which it must not exceed by far."""
    seen = served.task.normalize_input(given)
    values = seen.elements if isinstance(seen, Sets) else seen
    if (far := values.abs().amax().item() if values.numel() else 0.0) > LARGEST_NUMBER:
        raise BadInput(f"the input is far outside of the training data of {served.name}: {far:.4g} times its range")
    return seen.to(torch.float32)
