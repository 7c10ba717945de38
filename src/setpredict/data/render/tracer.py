"""A small ray tracer for CLEVR's scenes: rubber and metal objects on gray ground, seen by CLEVR's camera."""

from __future__ import annotations

from dataclasses import dataclass
from typing import no_type_check

import numpy as np

from setpredict.core.jit import kernel
from setpredict.data.clevr.camera import FOCAL, HEIGHT, WIDTH, axes
from setpredict.data.clevr.states import ATTRIBUTES, RADIUS
from setpredict.data.render.materials import ground_color, object_color
from setpredict.data.render.shapes import (
    BLUE,
    BOUND,
    BOUNDS,
    COLUMNS,
    COS,
    FAR,
    METAL,
    RED,
    SHAPE,
    SIN,
    R,
    X,
    Z,
    nearest,
    toward,
)

COLORS = {
    "gray": (87, 87, 87),
    "red": (173, 35, 35),
    "blue": (42, 75, 215),
    "green": (29, 105, 20),
    "brown": (129, 74, 25),
    "purple": (129, 38, 192),
    "cyan": (41, 208, 208),
    "yellow": (255, 238, 51),
}


@dataclass(frozen=True, eq=False)
class View:
    """What to render: objects as rows, and the positions of the camera and the lights."""

    objects: np.ndarray  # (n, COLUMNS)
    camera: np.ndarray  # (3,)
    lights: np.ndarray  # (3, 3)


def object_rows(coords: np.ndarray, attributes: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """Objects as rows for the kernels, (n, COLUMNS). Rotations of 0 to 360 are used as radians, as in CLEVR."""
    material, color, shape, size = attributes.T.astype(np.int64)
    rows = np.zeros((len(coords), COLUMNS))
    rows[:, SHAPE], rows[:, METAL] = shape, material
    rows[:, X : Z + 1] = coords
    rows[:, R] = np.array([RADIUS[s] for s in ATTRIBUTES["size"]])[size]
    rows[:, COS], rows[:, SIN] = np.cos(rotation), np.sin(rotation)
    rows[:, RED : BLUE + 1] = np.array([COLORS[c] for c in ATTRIBUTES["color"]])[color] / 255
    rows[:, BOUND] = rows[:, R] * np.array(BOUNDS)[shape]
    return rows


def render(view: View, width: int = 128, height: int | None = None) -> np.ndarray:
    """The 480×320 view resized to width × height (default: a square), as (height, width, 3) uint8."""
    height = width if height is None else height
    image = np.empty((height, width, 3), np.uint8)
    _render(view.objects, view.camera, axes(view.camera), view.lights, SRGB, image)
    return image


def _srgb_table(steps: int = 4096) -> np.ndarray:
    linear = (np.arange(steps) + 0.5) / steps
    encoded = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.round(encoded * 255).astype(np.uint8)


SRGB = _srgb_table()


@kernel
@no_type_check
def screen_rectangles(objects, camera, frame, width, height):
    """For each object the pixels that it can cover: first and last column and row, from its bounding sphere."""
    out = np.empty((len(objects), 4), np.int64)
    for i in range(len(objects)):
        o = objects[i]
        x, y, z = toward(o, camera[0], camera[1], camera[2])
        right = frame[0, 0] * x + frame[0, 1] * y + frame[0, 2] * z
        up = frame[1, 0] * x + frame[1, 1] * y + frame[1, 2] * z
        depth = frame[2, 0] * x + frame[2, 1] * y + frame[2, 2] * z
        near = max(depth - o[BOUND], 0.1)
        for axis in range(2):
            middle = right if axis == 0 else -up
            lo = min((middle - o[BOUND]) / near, (middle - o[BOUND]) / (depth + o[BOUND]))
            hi = max((middle + o[BOUND]) / near, (middle + o[BOUND]) / (depth + o[BOUND]))
            scale, half = (width / WIDTH, WIDTH / 2) if axis == 0 else (height / HEIGHT, HEIGHT / 2)
            out[i, 2 * axis] = int(np.floor((lo * FOCAL + half) * scale)) - 1
            out[i, 2 * axis + 1] = int(np.ceil((hi * FOCAL + half) * scale)) + 1
    return out


@kernel
@no_type_check
def camera_ray(frame, column, row, width, height):
    """The unit direction through a point of the image, in pixels of the output."""
    u = (column * WIDTH / width - WIDTH / 2) / FOCAL
    v = (HEIGHT / 2 - row * HEIGHT / height) / FOCAL
    dx = frame[2, 0] + u * frame[0, 0] + v * frame[1, 0]
    dy = frame[2, 1] + u * frame[0, 1] + v * frame[1, 1]
    dz = frame[2, 2] + u * frame[0, 2] + v * frame[1, 2]
    s = 1.0 / np.sqrt(dx * dx + dy * dy + dz * dz)
    return dx * s, dy * s, dz * s


@kernel
@no_type_check
def mark_instances(objects, camera, frame, mask):
    """Write the index of the object at the center of each pixel to `mask`; -1 is the ground."""
    height, width = mask.shape
    mask[:] = -1
    depth = np.full(mask.shape, FAR)  # of the nearest object so far
    rectangles = screen_rectangles(objects, camera, frame, width, height)
    for i in range(len(objects)):
        left, right, top, bottom = rectangles[i]
        for row in range(max(top, 0), min(bottom + 1, height)):
            for column in range(max(left, 0), min(right + 1, width)):
                dx, dy, dz = camera_ray(frame, column + 0.5, row + 0.5, width, height)
                _, t = nearest(objects[i : i + 1], -1, camera[0], camera[1], camera[2], dx, dy, dz)
                if t < depth[row, column]:
                    depth[row, column], mask[row, column] = t, i


@kernel
@no_type_check
def _render(objects, camera, frame, lights, srgb, image):
    height, width = image.shape[:2]
    rectangles = screen_rectangles(objects, camera, frame, width, height)
    scratch = np.empty(len(objects) + 1, np.int64)
    some = np.empty_like(objects)
    which = np.empty(len(objects), np.int64)
    cx, cy, cz = camera[0], camera[1], camera[2]
    for row in range(height):
        for column in range(width):
            count = 0  # objects that can cover this pixel
            for i in range(len(objects)):
                r = rectangles[i]
                if r[0] <= column <= r[1] and r[2] <= row <= r[3]:
                    some[count] = objects[i]
                    which[count] = i
                    count += 1
            turn = 2.399963 * ((row * 5 + column * 7) % 16)  # neighboring pixels sample the lights at other points
            red = green = blue = 0.0
            on_ground = 4
            if count:
                for sample in range(4):
                    sx = column + 0.25 + 0.5 * (sample % 2)
                    sy = row + 0.25 + 0.5 * (sample // 2)
                    dx, dy, dz = camera_ray(frame, sx, sy, width, height)
                    i, t = nearest(some[:count], -1, cx, cy, cz, dx, dy, dz)
                    if i >= 0:
                        on_ground -= 1
                        px, py, pz = cx + t * dx, cy + t * dy, cz + t * dz
                        a, b, c = object_color(
                            objects, which[i], px, py, pz, dx, dy, dz, lights, turn + 0.6 * sample, scratch
                        )
                        red, green, blue = red + min(a, 1.0), green + min(b, 1.0), blue + min(c, 1.0)
            if on_ground:  # smooth within a pixel: one sample is enough
                dx, dy, dz = camera_ray(frame, column + 0.5, row + 0.5, width, height)
                t = -cz / dz
                a, b, c = ground_color(objects, cx + t * dx, cy + t * dy, lights, turn, True, scratch)
                red, green, blue = red + on_ground * a, green + on_ground * b, blue + on_ground * c
            steps = len(srgb)
            image[row, column, 0] = srgb[min(int(red * 0.25 * steps), steps - 1)]
            image[row, column, 1] = srgb[min(int(green * 0.25 * steps), steps - 1)]
            image[row, column, 2] = srgb[min(int(blue * 0.25 * steps), steps - 1)]
