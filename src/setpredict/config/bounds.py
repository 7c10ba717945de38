"""Bounds on the sizes in a model's configuration: what no computer holds is reported before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterator

from setpredict.config.inner import MOST_STEPS
from setpredict.config.model import ModelConfig
from setpredict.core.errors import UserError

LARGEST = 1_000_000
"""Of everything that has no bound of its own: features, latent numbers, channels."""
LARGEST_SET = 100_000
"""Elements of a set."""
MOST_NUMBERS = 10_000_000
"""Elements of a set times their features."""
LARGEST_IMAGE = 4096
"""Side of an image in pixels."""
LARGEST_RELATION = 10_000
"""Elements of a set whose pairs are encoded."""
MOST_LAYERS = 64


def check_sizes(config: ModelConfig) -> None:
    """Raise a UserError for a size that is not possible.

    >>> check_sizes(ModelConfig(max_size=10**12, features=2))
    Traceback (most recent call last):
    setpredict.core.errors.UserError: max_size must be from 1 to 100000, got 1000000000000
    """
    for name, value, least, most in _sizes(config):
        if not least <= value <= most:
            raise UserError(f"{name} must be from {least} to {most}, got {value}")
    if config.max_size * config.features > MOST_NUMBERS:
        shape = f"{config.max_size} × {config.features}"
        raise UserError(f"max_size × features must be at most {MOST_NUMBERS}, got {shape}")
    scale = config.feature_scale
    if scale and not (len(scale) == config.features and all(0 < factor < float("inf") for factor in scale)):
        raise UserError(f"feature_scale must be {config.features} numbers above 0, got {list(scale)}")
    for name, group in config.groups.items():
        if len(group) != 2 or not 0 <= group[0] < group[1] <= config.features:
            raise UserError(f"groups[{name!r}] must be a range of the {config.features} features, got {list(group)}")


def _sizes(c: ModelConfig) -> Iterator[tuple[str, int, int, int]]:
    """Name, value, least and most of every size."""
    images = c.input.kind in ("conv", "resnet")
    relation = c.encoder.kind == "relation" and c.decoder.kind == "dspn"
    layered = c.decoder.kind == "transformer"
    yield "max_size", c.max_size, 1, LARGEST_RELATION if relation else LARGEST_SET
    yield "features", c.features, 1, LARGEST
    yield "latent", c.latent, 1, LARGEST
    yield "input.size", c.input.size, 1, LARGEST_IMAGE if images else LARGEST
    yield "input.max_size", c.input.max_size, 0, LARGEST_RELATION if c.encoder.kind == "relation" else LARGEST_SET
    yield "input.width", c.input.width, 1, LARGEST
    yield "encoder.pieces", c.encoder.pieces, 0, LARGEST
    yield "decoder.solver.steps", c.decoder.solver.steps, 0, MOST_LAYERS if layered else MOST_STEPS
    yield "decoder.width", c.decoder.width, 1, LARGEST
    yield "decoder.heads", c.decoder.heads, 1, LARGEST
    lists = {
        "input.hidden": c.input.hidden,
        "input.widths": c.input.widths,
        "encoder.hidden": c.encoder.hidden,
        "decoder.hidden": c.decoder.hidden,
    }
    for name, widths in lists.items():
        yield f"the number of layers in {name}", len(widths), 0, MOST_LAYERS
        for width in widths:
            yield name, width, 0, LARGEST
