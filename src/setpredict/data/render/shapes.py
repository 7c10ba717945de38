"""Intersections of rays with spheres, cubes and cylinders with rounded edges, in each object's own frame.

An object is a row of numbers (the columns below); its own frame has its center at the origin and its radius as unit.
All kernels are serial and release the GIL: run them in threads, one scene per thread.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from setpredict.core.jit import kernel
from setpredict.data.clevr.states import ROUNDING

# The columns of an object.
SHAPE, METAL, X, Y, Z, R, COS, SIN, RED, GREEN, BLUE, BOUND = range(12)
COLUMNS = 12
SPHERE, CUBE, CYLINDER = 0, 1, 2  # as in ATTRIBUTES of data/clevr/states.py
FAR = 1e30

CUBE_ROUNDING = ROUNDING["cube"]
CYLINDER_ROUNDING = ROUNDING["cylinder"]
BOUNDS = (1.0, 1.59, 1.40)
"""Radius of the bounding sphere of each shape, in radii (that of a rounded cube is below √3)."""


@kernel
@no_type_check
def toward(o, px, py, pz):
    """The vector from a point to the center of object `o`."""
    return o[X] - px, o[Y] - py, o[Z] - pz


@kernel
@no_type_check
def to_own_frame(o, px, py, pz, dx, dy, dz):
    """A ray's origin and direction in the frame of object `o`; its parameter t stays the same."""
    s = 1.0 / o[R]
    px, py, pz = (px - o[X]) * s, (py - o[Y]) * s, (pz - o[Z]) * s
    dx, dy, dz = dx * s, dy * s, dz * s
    c, n = o[COS], o[SIN]
    return c * px + n * py, c * py - n * px, pz, c * dx + n * dy, c * dy - n * dx, dz


@kernel
@no_type_check
def span(shape, px, py, pz, dx, dy, dz):
    """The parameters where a line enters and leaves the shape with sharp edges; enter > leave if it misses it."""
    lo, hi = -FAR, FAR
    if shape != SPHERE:
        inverse = 1.0 / dz if abs(dz) > 1e-12 else 1e12
        t0, t1 = (-1.0 - pz) * inverse, (1.0 - pz) * inverse
        lo, hi = min(t0, t1), max(t0, t1)
        if shape == CUBE:
            inverse = 1.0 / dx if abs(dx) > 1e-12 else 1e12
            t0, t1 = (-1.0 - px) * inverse, (1.0 - px) * inverse
            lo, hi = max(lo, min(t0, t1)), min(hi, max(t0, t1))
            inverse = 1.0 / dy if abs(dy) > 1e-12 else 1e12
            t0, t1 = (-1.0 - py) * inverse, (1.0 - py) * inverse
            return max(lo, min(t0, t1)), min(hi, max(t0, t1))
        pz, dz = 0.0, 0.0  # a cylinder is a circle between the two planes
    a = dx * dx + dy * dy + dz * dz + 1e-18
    b = px * dx + py * dy + pz * dz
    disc = b * b - a * (px * px + py * py + pz * pz - 1.0)
    if disc <= 0.0:
        return FAR, -FAR
    root = np.sqrt(disc)
    return max(lo, (-b - root) / a), min(hi, (-b + root) / a)


@kernel
@no_type_check
def distance(shape, x, y, z):
    """The signed distance of a point outside (or on the surface) from the rounded cube or cylinder."""
    if shape == CUBE:
        b = CUBE_ROUNDING
        ex, ey = max(abs(x) - (1.0 - b), 0.0), max(abs(y) - (1.0 - b), 0.0)
        ez = max(abs(z) - (1.0 - b), 0.0)
        return np.sqrt(ex * ex + ey * ey + ez * ez) - b
    b = CYLINDER_ROUNDING
    er = max(np.sqrt(x * x + y * y) - (1.0 - b), 0.0)
    ez = max(abs(z) - (1.0 - b), 0.0)
    return np.sqrt(er * er + ez * ez) - b


@kernel
@no_type_check
def hit_rounded(shape, px, py, pz, dx, dy, dz):
    """The parameter t > 0 at which a ray enters the shape with rounded edges, or FAR.

    Sphere tracing: starting at the surface of the sharp shape, step by the distance to the rounded shape.
    """
    t, leave = span(shape, px, py, pz, dx, dy, dz)
    if t >= leave or t <= 0.0:
        return FAR
    if shape == SPHERE:
        return t
    speed = np.sqrt(dx * dx + dy * dy + dz * dz)
    gap = FAR
    for _ in range(32):
        x, y, z = px + t * dx, py + t * dy, pz + t * dz
        if max(abs(x), abs(y), abs(z)) > 1.001:
            return FAR
        gap = distance(shape, x, y, z)
        if gap < 1e-3:
            return t
        t += gap / speed
    return t if gap < 2e-3 else FAR


@kernel
@no_type_check
def normal(o, px, py, pz):
    """The outward normal of object `o` at a point of its surface, both in world coordinates."""
    s = 1.0 / o[R]
    wx, wy, z = (px - o[X]) * s, (py - o[Y]) * s, (pz - o[Z]) * s
    c, n = o[COS], o[SIN]
    x, y = c * wx + n * wy, c * wy - n * wx
    if o[SHAPE] == CUBE:
        inner = 1.0 - CUBE_ROUNDING
        x = max(abs(x) - inner, 0.0) * np.sign(x)
        y = max(abs(y) - inner, 0.0) * np.sign(y)
        z = max(abs(z) - inner, 0.0) * np.sign(z)
    elif o[SHAPE] == CYLINDER:
        inner = 1.0 - CYLINDER_ROUNDING
        radius = np.sqrt(x * x + y * y)
        out = max(radius - inner, 0.0) / max(radius, 1e-9)
        x, y = x * out, y * out
        z = max(abs(z) - inner, 0.0) * np.sign(z)
    length = max(np.sqrt(x * x + y * y + z * z), 1e-12)
    x, y, z = x / length, y / length, z / length
    return c * x - n * y, n * x + c * y, z


@kernel
@no_type_check
def nearest(objects, skip, px, py, pz, dx, dy, dz):
    """The first object except `skip` that a ray of unit direction hits: its index (or -1) and t."""
    best, index = FAR, -1
    for i in range(len(objects)):
        if i == skip:
            continue
        o = objects[i]
        qx, qy, qz = toward(o, px, py, pz)
        along = qx * dx + qy * dy + qz * dz
        if along + o[BOUND] <= 0.0:
            continue
        if qx * qx + qy * qy + qz * qz - along * along > o[BOUND] * o[BOUND]:
            continue
        ax, ay, az, bx, by, bz = to_own_frame(o, px, py, pz, dx, dy, dz)
        t = hit_rounded(int(o[SHAPE]), ax, ay, az, bx, by, bz)
        if t < best:
            best, index = t, i
    return index, best
