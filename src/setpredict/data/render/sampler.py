"""Sample scenes by CLEVR's rules: objects, camera and lights as a function of (seed, split, epoch, index)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import no_type_check

import numpy as np

from setpredict.core.errors import UserError
from setpredict.core.jit import kernel
from setpredict.core.rng import draw, key, start
from setpredict.data.clevr.camera import JITTER, RIGHT, USUAL_PLACE, axes, project
from setpredict.data.clevr.scene_files import SceneTable
from setpredict.data.clevr.states import ATTRIBUTES, RADIUS
from setpredict.data.render.light import LIGHTS
from setpredict.data.render.tracer import View, mark_instances, object_rows

HALF_SIDE = 3.0
GAP = 0.25
"""Smallest distance between the surfaces of two objects."""
MARGIN = 0.4
"""Smallest distance of two centers along "right" and along "front", so that "left of" and "behind" are unambiguous."""
SEEN_WIDTH, SEEN_HEIGHT, SEEN_PIXELS = 240, 160, 50
"""Each object shows at least 50 pixels of 240×160: a fixed size, so that scenes do not depend on the image size."""
POSITION_TRIES = 50
SCENE_TRIES = 400
MOST_OBJECTS, LARGEST_SIDE = 100, 4096
"""Larger values are typing errors: about 15 objects fit into a scene, and an image must fit into memory."""

CAMERA = np.array(USUAL_PLACE)
DIRECTIONS = np.array([[RIGHT[0], RIGHT[1]], [RIGHT[1], -RIGHT[0]]])  # right, front
CHOICES = np.array([len(values) for values in ATTRIBUTES.values()])
RADII = np.array([RADIUS[s] for s in ATTRIBUTES["size"]])


@dataclass(frozen=True, eq=False)
class SampledScene:
    """One scene of n objects."""

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
        """Column and row (integers, as in CLEVR's files), and depth: (n, 3)."""
        pixels = project(self.coords, self.camera)
        pixels[:, :2] = np.round(pixels[:, :2])
        return pixels


def sample_scene(
    seed: int, split: str, index: int, epoch: int = 0, min_objects: int = 3, max_objects: int = 10
) -> SampledScene:
    """One scene of `min_objects` to `max_objects` objects."""
    check_counts(min_objects, max_objects)
    state = np.array([start(np.uint64(key(seed, "scenes", split, epoch)), index)], np.uint64)
    n = min_objects + int(draw(state) * (max_objects + 1 - min_objects))
    camera, lights = np.empty(3), np.empty((3, 3))
    coords, attributes, rotation = np.empty((n, 3)), np.empty((n, 4), np.uint8), np.empty(n)
    _jitter(state, camera, lights)
    frame = axes(camera)
    buffer = np.empty((SEEN_HEIGHT, SEEN_WIDTH), np.int16)
    for _ in range(SCENE_TRIES):
        if not _place_objects(state, coords, attributes, rotation):
            continue
        mark_instances(object_rows(coords, attributes, rotation), camera, frame, buffer)
        if n == 0 or np.bincount(buffer.ravel() + 1, minlength=n + 1)[1:].min() >= SEEN_PIXELS:
            return SampledScene(coords, attributes, rotation, camera, lights)
    raise UserError(f"could not place {n} visible objects in {SCENE_TRIES} attempts; use fewer than {n}")


def check_counts(min_objects: int, max_objects: int) -> None:
    """Raise if these numbers of objects are impossible."""
    if not 0 <= min_objects <= max_objects:
        raise UserError(f"object counts must satisfy 0 <= min <= max, got min {min_objects} and max {max_objects}")
    if max_objects > MOST_OBJECTS:
        raise UserError(f"a scene can have at most {MOST_OBJECTS} objects, got max {max_objects}")


def check_side(size: int) -> None:
    """Raise if images of this size are impossible."""
    if not 1 <= size <= LARGEST_SIDE:
        raise UserError(f"size must be from 1 to {LARGEST_SIDE} pixels, got {size}")


def scene_table(scenes: Sequence[SampledScene]) -> SceneTable:
    """Sampled scenes as a table, like scenes read from CLEVR's files."""
    sizes = [len(s.coords) for s in scenes]
    return SceneTable(
        np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
        np.concatenate([s.coords for s in scenes]),
        np.concatenate([s.pixels for s in scenes]),
        np.concatenate([s.rotation for s in scenes]),
        np.concatenate([s.attributes for s in scenes]),
        np.tile(np.array(RIGHT), (len(scenes), 1)),
        np.array([""] * len(scenes), dtype=np.str_),
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
def _place_objects(state, coords, attributes, rotation):
    """Place objects one after another; False if one finds no free position in POSITION_TRIES tries."""
    for i in range(len(coords)):
        for a in range(4):
            attributes[i, a] = np.uint8(draw(state) * CHOICES[a])
        radius = RADII[attributes[i, 3]]
        rotation[i] = 360.0 * draw(state)
        found = False
        for _ in range(POSITION_TRIES):
            x = HALF_SIDE * (2.0 * draw(state) - 1.0)
            y = HALF_SIDE * (2.0 * draw(state) - 1.0)
            found = True
            for j in range(i):
                dx, dy = x - coords[j, 0], y - coords[j, 1]
                if np.sqrt(dx * dx + dy * dy) - radius - coords[j, 2] < GAP:
                    found = False
                    break
                for d in range(2):
                    if abs(dx * DIRECTIONS[d, 0] + dy * DIRECTIONS[d, 1]) < MARGIN:
                        found = False
                if not found:
                    break
            if found:
                coords[i, 0], coords[i, 1], coords[i, 2] = x, y, radius
                break
        if not found:
            return False
    return True
