"""Generated scenes as a person would like to see them: larger than the model's input, in the camera's aspect ratio."""

from __future__ import annotations

import base64
import io
from functools import lru_cache

from PIL import Image

from setpredict.data.clevr.camera import HEIGHT, WIDTH
from setpredict.data.render.sampler import sample_scene
from setpredict.data.render.tracer import render
from setpredict.data.sources.scenes import SceneSplit
from setpredict.data.task import Split, Subset

ASPECT = WIDTH / HEIGHT
SHOWN_HEIGHT = 240


def scene_split(split: Split | None) -> SceneSplit | None:
    """The scenes behind a split; None if it has other data."""
    inner = split.split if isinstance(split, Subset) else split
    return inner if isinstance(inner, SceneSplit) and inner.size is not None else None


def picture(split: Split | None, index: int) -> str | None:
    """A scene as a data URL; None for other data."""
    scenes = scene_split(split)
    if scenes is None:
        return None
    return _render(scenes.seed, scenes.split, index, scenes.min_objects, scenes.max_objects)


@lru_cache(maxsize=64)  # the models of a tab are asked about the same scene
def _render(seed: int, split: str, index: int, min_objects: int, max_objects: int) -> str:
    scene = sample_scene(seed, split, index, 0, min_objects, max_objects)
    buffer = io.BytesIO()
    pixels = render(scene.view, round(ASPECT * SHOWN_HEIGHT), SHOWN_HEIGHT)
    Image.fromarray(pixels).save(buffer, format="JPEG", quality=90)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
