"""Scenes by CLEVR's rules: where objects, camera and lights are, as a function of (seed, split, epoch, index)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import no_type_check

import numpy as np

from setpredict.data.clevr.camera import JITTER, RIGHT, USUAL_PLACE, axes, project
from setpredict.data.clevr.scene_files import SceneTable
from setpredict.data.clevr.states import ATTRIBUTES, RADIUS
from setpredict.core.jit import kernel
from setpredict.core.rng import key
from setpredict.core.rng import draw, start
from setpredict.data.render.tracer import View, mark_instances, object_rows
from setpredict.data.render.light import LIGHTS

HALF_SIDE = 3.0
GAP = 0.25
"""Between the surfaces of two objects."""
APART = 0.4
"""Along right and along front, so that "left of" and "behind" are never in doubt."""
SEEN_WIDTH, SEEN_HEIGHT, SEEN_PIXELS = 240, 160, 50
"""Each object shows at least 50 pixels of 240×160: a fixed buffer, so that the image size changes no scene."""
PLACES = 50
SCENES = 400
MOST_OBJECTS, LARGEST_SIDE = 100, 4096
"""More is a slip of the keyboard: there is room for about 15 objects, and an image is made in memory."""

CAMERA = np.array(USUAL_PLACE)
DIRECTIONS = np.array([[RIGHT[0], RIGHT[1]], [RIGHT[1], -RIGHT[0]]])  # right, front
CHOICES = np.array([len(values) for values in ATTRIBUTES.values()])
RADII = np.array([RADIUS[s] for s in ATTRIBUTES["size"]])


@dataclass(frozen=True, eq=False)
class SampledScene:
    coords: np.ndarray  # (n, 3)
    attributes: np.ndarray  # (n, 4) uint8, indices into ATTRIBUTES
    rotation: np.ndarray  # (n,), 0 to 360
    camera: np.ndarray  # (3,)
    lights: np.ndarray  # (3, 3)

    @property
    def view(self) -> View:
        return View(object_rows(self.coords, self.attributes, self.rotation), self.camera, self.lights)

    @property
    def pixels(self) -> np.ndarray:
        """Column, row (whole numbers, as in CLEVR's files) and depth: (n, 3)."""
        pixels = project(self.coords, self.camera)
        pixels[:, :2] = np.round(pixels[:, :2])
        return pixels


def sample_scene(seed: int, split: str, index: int, epoch: int = 0, least: int = 3, most: int = 10) -> SampledScene:
    """One scene of `least` to `most` objects."""
    check_counts(least, most)
    state = np.array([start(np.uint64(key(seed, "scenes", split, epoch)), index)], np.uint64)
    n = least + int(draw(state) * (most + 1 - least))
    camera, lights = np.empty(3), np.empty((3, 3))
    coords, attributes, rotation = np.empty((n, 3)), np.empty((n, 4), np.uint8), np.empty(n)
    _jitter(state, camera, lights)
    frame = axes(camera)
    buffer = np.empty((SEEN_HEIGHT, SEEN_WIDTH), np.int16)
    for _ in range(SCENES):
        if not _place(state, coords, attributes, rotation):
            continue
        mark_instances(object_rows(coords, attributes, rotation), camera, frame, buffer)
        if n == 0 or np.bincount(buffer.ravel() + 1, minlength=n + 1)[1:].min() >= SEEN_PIXELS:
            return SampledScene(coords, attributes, rotation, camera, lights)
    raise ValueError(f"no room for {n} objects that are all visible, in {SCENES} attempts; use fewer than {n}")


def check_counts(least: int, most: int) -> None:
    if not 0 <= least <= most:
        raise ValueError(f"the object counts must satisfy 0 <= min <= max, got min {least} and max {most}")
    if most > MOST_OBJECTS:
        raise ValueError(f"a scene has at most {MOST_OBJECTS} objects, got max {most}")


def check_side(size: int) -> None:
    if not 1 <= size <= LARGEST_SIDE:
        raise ValueError(f"size must be from 1 to {LARGEST_SIDE} pixels, got {size}")


def scene_table(scenes: Sequence[SampledScene], names: Sequence[str] | None = None) -> SceneTable:
    """Sampled scenes in the form in which CLEVR's files are read."""
    sizes = [len(s.coords) for s in scenes]
    return SceneTable(
        np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        np.concatenate([s.coords for s in scenes]),
        np.concatenate([s.pixels for s in scenes]),
        np.concatenate([s.rotation for s in scenes]),
        np.concatenate([s.attributes for s in scenes]),
        np.tile(np.array(RIGHT), (len(scenes), 1)),
        np.array(names if names is not None else [""] * len(scenes), dtype=np.str_),
    )


@kernel
@no_type_check
def _jitter(state, camera, lights):
    for i in range(3):
        camera[i] = CAMERA[i] + JITTER * (2.0 * draw(state) - 1.0)
    for k in range(3):
        for i in range(3):
            lights[k, i] = LIGHTS[k, i] + 2.0 * draw(state) - 1.0


@kernel
@no_type_check
def _place(state, coords, attributes, rotation):
    """Fill in objects one after the other; False if one finds no place in 50 tries."""
    for i in range(len(coords)):
        for a in range(4):
            attributes[i, a] = np.uint8(draw(state) * CHOICES[a])
        radius = RADII[attributes[i, 3]]
        rotation[i] = 360.0 * draw(state)
        found = False
        for _ in range(PLACES):
            x = HALF_SIDE * (2.0 * draw(state) - 1.0)
            y = HALF_SIDE * (2.0 * draw(state) - 1.0)
            found = True
            for j in range(i):
                dx, dy = x - coords[j, 0], y - coords[j, 1]
                if np.sqrt(dx * dx + dy * dy) - radius - coords[j, 2] < GAP:
                    found = False
                    break
                for d in range(2):
                    if abs(dx * DIRECTIONS[d, 0] + dy * DIRECTIONS[d, 1]) < APART:
                        found = False
                if not found:
                    break
            if found:
                coords[i, 0], coords[i, 1], coords[i, 2] = x, y, radius
                break
        if not found:
            return False
    return True
