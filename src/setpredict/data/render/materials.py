"""Ground, rubber and metal: the color of the light that leaves them."""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from setpredict.core.jit import kernel
from setpredict.data.render.light import (
    GROUND_AMBIENT,
    LIGHT_RADIUS,
    OBJECT_GAIN,
    POWER,
    falling_light,
    light_reaching,
    openness,
)
from setpredict.data.render.shapes import BLUE, GREEN, METAL, RED, R, X, Y, nearest, normal

METAL_GAIN = 1.0
SKY = 0.016
BACKDROP = 0.115
"""A screen behind the scene that is visible only in metal: CLEVR's ground curves up there."""
BACKDROP_X, BACKDROP_Y = -0.961, 0.276
LAMP = np.array([0.417, -0.183, 0.890])
"""Direction of a lamp high above and behind the camera that is visible only in metal."""
LAMP_GLOW, LAMP_WIDTH = 0.11, 0.08
GLOW, GLOW_WIDTH = 0.4, 0.02
CORE, CORE_WIDTH = 0.1, 0.003
BRUSHED = 0.3


# The next two functions repeat the loop over the lights: a common function made rendering measurably slower.
@kernel
@no_type_check
def ground_color(objects, px, py, lights, turn, shadows, scratch):
    """Light that leaves the ground at a point: direct light with soft shadows, and ambient light."""
    ambient = GROUND_AMBIENT * openness(objects, -1, px, py, 0.0, 0.0, 0.0, 1.0)
    red = green = blue = ambient
    for k in range(3):
        light = falling_light(lights[k], px, py, 0.0, 0.0, 0.0, 1.0)
        if light > 0.0:
            if shadows:
                light *= light_reaching(objects, -1, px, py, 0.0, lights[k], LIGHT_RADIUS[k], turn + k, scratch)
            red += light * POWER[k, 0]
            green += light * POWER[k, 1]
            blue += light * POWER[k, 2]
    return red, green, blue


@kernel
@no_type_check
def matte_color(objects, index, px, py, pz, nx, ny, nz, lights, turn, shadows, scratch):
    """Light that leaves rubber: Lambert's law."""
    o = objects[index]
    ambient = GROUND_AMBIENT
    if nz < 0.0:  # surfaces that face down receive light from the ground, which is dark under an object
        ambient *= 1.0 + 0.2 * nz * (2.0 - min(pz / o[R], 1.0))
    if shadows:
        ambient *= openness(objects, index, px, py, pz, nx, ny, nz)
    red = green = blue = ambient
    for k in range(3):
        light = falling_light(lights[k], px, py, pz, nx, ny, nz)
        if light > 0.0:
            if shadows:
                light *= light_reaching(objects, index, px, py, pz, lights[k], LIGHT_RADIUS[k], turn + k, scratch)
            red += light * POWER[k, 0]
            green += light * POWER[k, 1]
            blue += light * POWER[k, 2]
    gain = OBJECT_GAIN
    return red * o[RED] * gain, green * o[GREEN] * gain, blue * o[BLUE] * gain


@kernel
@no_type_check
def smoothstep(low, high, x):
    s = min(max((x - low) / (high - low), 0.0), 1.0)
    return s * s * (3.0 - 2.0 * s)


@kernel
@no_type_check
def sky(rx, ry, rz):
    """What metal reflects from above the ground, from direction r."""
    flat = max(np.sqrt(rx * rx + ry * ry), 1e-9)
    toward = (rx * BACKDROP_X + ry * BACKDROP_Y) / flat
    screen = smoothstep(0.35, 0.75, toward) * (1.0 - smoothstep(0.45, 0.85, rz)) * (1.0 - 0.4 * max(rz, 0.0))
    lamp = rx * LAMP[0] + ry * LAMP[1] + rz * LAMP[2]
    return SKY + BACKDROP * screen + LAMP_GLOW * LAMP_WIDTH / (2.0 * (1.0 - lamp) + LAMP_WIDTH) ** 2


@kernel
@no_type_check
def glow(px, py, pz, rx, ry, rz, lights):
    """The reflection of the lights in slightly rough metal, from direction r: a bright core and a long tail."""
    red = green = blue = 0.0
    for k in range(3):
        lx, ly, lz = lights[k, 0] - px, lights[k, 1] - py, lights[k, 2] - pz
        d2 = lx * lx + ly * ly + lz * lz
        cos = (lx * rx + ly * ry + lz * rz) / np.sqrt(d2)
        off = 2.0 * (1.0 - cos)
        light = (GLOW * GLOW_WIDTH / (off + GLOW_WIDTH) ** 2 + CORE * CORE_WIDTH / (off + CORE_WIDTH) ** 2) / d2
        red += POWER[k, 0] * light
        green += POWER[k, 1] * light
        blue += POWER[k, 2] * light
    return red, green, blue


@kernel
@no_type_check
def brushed(o, px, py, pz, dx, dy, dz, lights):
    """The fan of light on the flat top of metal, brushed in circles: bright where the half vector is radial."""
    tx, ty = py - o[Y], o[X] - px
    length = max(np.sqrt(tx * tx + ty * ty), 1e-6)
    tx, ty = tx / length, ty / length
    light = 0.0
    for k in range(3):
        lx, ly, lz = lights[k, 0] - px, lights[k, 1] - py, lights[k, 2] - pz
        d2 = lx * lx + ly * ly + lz * lz
        s = 1.0 / np.sqrt(d2)
        hx, hy, hz = lx * s - dx, ly * s - dy, lz * s - dz
        across = (hx * tx + hy * ty) / np.sqrt(hx * hx + hy * hy + hz * hz)
        light += POWER[k, 1] / d2 * np.exp(-across * across * 60.0)
    return BRUSHED * light


@kernel
@no_type_check
def seen_in_mirror(objects, index, px, py, pz, rx, ry, rz, lights, turn, scratch):
    """What a metal surface reflects from direction r: an object, the ground or the dark sky; one bounce."""
    i, t = nearest(objects, index, px, py, pz, rx, ry, rz)
    if i >= 0:
        o = objects[i]
        qx, qy, qz = px + t * rx, py + t * ry, pz + t * rz
        nx, ny, nz = normal(o, qx, qy, qz)
        if o[METAL] == 0.0:
            return matte_color(objects, i, qx, qy, qz, nx, ny, nz, lights, turn, False, scratch)
        cos = rx * nx + ry * ny + rz * nz
        bx, by, bz = rx - 2.0 * cos * nx, ry - 2.0 * cos * ny, rz - 2.0 * cos * nz
        light = sky(bx, by, bz) if bz > 0.0 else 1.4 * GROUND_AMBIENT
        return light * o[RED], light * o[GREEN], light * o[BLUE]
    above = smoothstep(-0.2, 0.03, rz)  # slight roughness blurs the horizon
    red = green = blue = above * sky(rx, ry, rz) if above > 0.0 else 0.0
    if above < 1.0:
        t = -pz / min(rz, -0.06)
        a, b, c = ground_color(objects, px + t * rx, py + t * ry, lights, turn, t < 3.0, scratch)
        red, green, blue = red + (1.0 - above) * a, green + (1.0 - above) * b, blue + (1.0 - above) * c
    return red, green, blue


@kernel
@no_type_check
def object_color(objects, index, px, py, pz, dx, dy, dz, lights, turn, scratch):
    """Light that an object sends to the camera."""
    o = objects[index]
    nx, ny, nz = normal(o, px, py, pz)
    if o[METAL] == 0.0:
        return matte_color(objects, index, px, py, pz, nx, ny, nz, lights, turn, True, scratch)
    cos = dx * nx + dy * ny + dz * nz
    rx, ry, rz = dx - 2.0 * cos * nx, dy - 2.0 * cos * ny, dz - 2.0 * cos * nz
    red, green, blue = seen_in_mirror(objects, index, px, py, pz, rx, ry, rz, lights, turn, scratch)
    a, b, c = glow(px, py, pz, rx, ry, rz, lights)
    if nz > 0.999:
        fan = brushed(o, px, py, pz, dx, dy, dz, lights)
        a, b, c = 0.3 * a + fan, 0.3 * b + fan, 0.3 * c + fan
    red, green, blue = red + a, green + b, blue + c
    return red * o[RED] * METAL_GAIN, green * o[GREEN] * METAL_GAIN, blue * o[BLUE] * METAL_GAIN
