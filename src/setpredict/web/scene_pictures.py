"""Generated scenes: as the models see them, and for people, larger and in the aspect ratio of the camera."""

from __future__ import annotations

import base64
import io
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from setpredict.data.clevr.camera import HEIGHT, WIDTH
from setpredict.data.io.images import images_to_float
from setpredict.data.render.sampler import SampledScene, sample_scene
from setpredict.data.render.tracer import render
from setpredict.data.sources.scenes import SceneSplit
from setpredict.data.task import Batch, Split, Subset

ASPECT = WIDTH / HEIGHT
SHOWN_HEIGHT = 240
REMEMBERED = 64
"""Scenes whose images are kept: the models of a tab are asked about the same scene."""
RENDERER = ThreadPoolExecutor(1, "setpredict-picture")
"""Renders pictures while the models decode: a kernel does not hold the interpreter's lock."""


class SceneKey(NamedTuple):
    """What a scene is sampled from."""

    seed: int
    split: str
    index: int
    min_objects: int
    max_objects: int

    @classmethod
    def of(cls, scenes: SceneSplit, index: int) -> SceneKey:
        return cls(scenes.seed, scenes.split, index, scenes.min_objects, scenes.max_objects)

    def sample(self) -> SampledScene:
        return sample_scene(self.seed, self.split, self.index, 0, self.min_objects, self.max_objects)


def scene_split(split: Split | None) -> SceneSplit | None:
    """The scenes behind a split; None if it has other data."""
    inner = split.split if isinstance(split, Subset) else split
    return inner if isinstance(inner, SceneSplit) and inner.size is not None else None


def sample_of(split: Split, index: int) -> Batch:
    """One sample of a split; a scene is rendered once for all models that see it in the same size."""
    scenes, indices = scene_split(split), np.array([index], dtype=np.int64)
    if scenes is None or scenes.size is None:
        return split.batch(indices, 0)
    pixels = _pixels(SceneKey.of(scenes, index), scenes.size)
    return Batch(images_to_float(pixels[None]), scenes.sets(indices), torch.from_numpy(indices))


def start_picture(split: Split | None, index: int) -> None:
    """Begin to render what `picture` returns."""
    scenes = scene_split(split)
    if scenes is not None and index < len(scenes):
        _picture(SceneKey.of(scenes, index))


def picture(split: Split | None, index: int) -> str | None:
    """A scene as a data URL; None for other data."""
    scenes = scene_split(split)
    return None if scenes is None else _picture(SceneKey.of(scenes, index)).result()


@lru_cache(maxsize=REMEMBERED)
def _picture(scene: SceneKey) -> Future[str]:
    return RENDERER.submit(_render, scene)


def _render(scene: SceneKey) -> str:
    buffer = io.BytesIO()
    pixels = render(scene.sample().view, round(ASPECT * SHOWN_HEIGHT), SHOWN_HEIGHT)
    Image.fromarray(pixels).save(buffer, format="JPEG", quality=90)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


@lru_cache(maxsize=REMEMBERED)
def _pixels(scene: SceneKey, size: int) -> np.ndarray:
    """The input of a model: (3, size, size) uint8."""
    return render(scene.sample().view, size).transpose(2, 0, 1)
