"""Light in a CLEVR scene: three area lights with soft shadows, and ambient light.

The constants are fitted to original CLEVR images: the lights to the bare ground (mean error 2 of 255), the others to
objects of known position and color.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from setpredict.core.jit import kernel
from setpredict.data.render.shapes import BOUND, CUBE, SHAPE, R, span, to_own_frame, toward

LIGHTS = np.array([[6.45, -2.91, 4.26], [-4.67, -4.01, 3.01], [-1.17, 2.65, 5.82]])
"""Usual positions of the key, fill and back light; they face the origin."""
POWER = np.array([[5.20, 4.83, 4.16], [1.30, 1.41, 1.75], [2.30, 2.30, 2.27]])
"""RGB on the ground, including its albedo."""
LIGHT_RADIUS = np.array([0.33, 0.33, 0.33])
GROUND_AMBIENT = 0.136
OBJECT_GAIN = 1.23
"""The albedo of the ground is below one: a white object is brighter by this factor."""
COVER = 0.6
"""The fraction of ambient light that an object hides."""
SAMPLES = 8


def _disc(samples: int) -> np.ndarray:
    """Points spread evenly over the unit disc (a sunflower)."""
    i = np.arange(samples)
    radius, angle = np.sqrt((i + 0.5) / samples), i * np.pi * (3 - np.sqrt(5))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


DISC = _disc(SAMPLES)


@kernel
@no_type_check
def light_reaching(objects, skip, px, py, pz, light, radius, turn, candidates):
    """The visible fraction of a round light from a point: 1 in full light, 0 in the umbra.

    `turn` is an angle that rotates the sample points; `candidates` is a buffer for object indices.
    """
    lx, ly, lz = light[0] - px, light[1] - py, light[2] - pz
    length2 = lx * lx + ly * ly + lz * lz
    count = 0
    for i in range(len(objects)):
        if i == skip:
            continue
        qx, qy, qz = toward(objects[i], px, py, pz)
        s = (qx * lx + qy * ly + qz * lz) / length2
        s = min(max(s, 0.0), 1.0)
        ex, ey, ez = qx - s * lx, qy - s * ly, qz - s * lz
        reach = objects[i, BOUND] + radius * s
        if ex * ex + ey * ey + ez * ez < reach * reach:
            candidates[count] = i
            count += 1
    if count == 0:
        return 1.0
    # Two directions that span the light's disc, which faces the origin.
    norm = 1.0 / np.sqrt(light[0] ** 2 + light[1] ** 2 + light[2] ** 2)
    nx, ny, nz = light[0] * norm, light[1] * norm, light[2] * norm
    flat = 1.0 / np.sqrt(nx * nx + ny * ny)
    ux, uy = -ny * flat, nx * flat
    vx, vy, vz = -nz * uy, nz * ux, nx * uy - ny * ux
    c, n = np.cos(turn) * radius, np.sin(turn) * radius
    seen = 0
    for k in range(SAMPLES):
        a = c * DISC[k, 0] - n * DISC[k, 1]
        b = n * DISC[k, 0] + c * DISC[k, 1]
        dx, dy, dz = lx + a * ux + b * vx, ly + a * uy + b * vy, lz + b * vz
        blocked = False
        for j in range(count):
            o = objects[candidates[j]]
            qx, qy, qz, ex, ey, ez = to_own_frame(o, px, py, pz, dx, dy, dz)
            if o[SHAPE] == CUBE:  # its edges are rounded: a slightly smaller one with sharp edges casts the same shadow
                qx, qy, qz, ex, ey, ez = 1.06 * qx, 1.06 * qy, 1.06 * qz, 1.06 * ex, 1.06 * ey, 1.06 * ez
            enter, leave = span(int(o[SHAPE]), qx, qy, qz, ex, ey, ez)
            if enter < min(leave, 1.0) and leave > 0.0:
                blocked = True
                break
        if not blocked:
            seen += 1
    return seen / SAMPLES


@kernel
@no_type_check
def openness(objects, skip, px, py, pz, nx, ny, nz):
    """The fraction of ambient light that other objects do not hide from a point with this normal.

    Each object is treated as a ball. A black ball hides cos · (radius / distance)² of the half-space above the point;
    since objects also reflect light, the fourth power fits CLEVR's images better.
    """
    left = 1.0
    for i in range(len(objects)):
        if i == skip:
            continue
        qx, qy, qz = toward(objects[i], px, py, pz)
        d2 = qx * qx + qy * qy + qz * qz
        r2 = objects[i, R] ** 2 * 1.15
        if d2 > 40.0 * r2:
            continue
        d2 = max(d2, r2)
        d = np.sqrt(d2)
        cos = (qx * nx + qy * ny + qz * nz) / d
        # A ball partly below the tangent plane still hides some light: shift by its apparent half-angle.
        size = np.sqrt(r2 / d2)
        cos = (cos + size) / (1.0 + size)
        if cos > 0.0:
            left *= 1.0 - COVER * cos * (r2 / d2) ** 2
    return left


@kernel
@no_type_check
def falling_light(light, px, py, pz, nx, ny, nz):
    """The light from an area light that faces the origin: cos at the surface · cos at the light / distance²."""
    lx, ly, lz = light[0] - px, light[1] - py, light[2] - pz
    surface = lx * nx + ly * ny + lz * nz
    if surface <= 0.0:
        return 0.0
    emitter = lx * light[0] + ly * light[1] + lz * light[2]
    if emitter <= 0.0:
        return 0.0
    length = np.sqrt(light[0] ** 2 + light[1] ** 2 + light[2] ** 2)
    d2 = lx * lx + ly * ly + lz * lz
    return surface * emitter / (length * d2 * d2)
