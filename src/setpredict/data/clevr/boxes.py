"""Bounding boxes of CLEVR's objects, which the data set does not contain: the paper's heuristic, and exact ones.

Both are (left, top, right, bottom) as fractions of the 480×320 image.
"""

from __future__ import annotations

import numpy as np

from setpredict.data.clevr.camera import FOCAL, HEIGHT, WIDTH, axes, recover_cameras
from setpredict.data.clevr.scene_files import SceneTable
from setpredict.data.clevr.states import ATTRIBUTES, RADIUS, ROUNDING

SHAPE = list(ATTRIBUTES).index("shape")
SIZE = list(ATTRIBUTES).index("size")
SPHERE, CUBE, CYLINDER = (ATTRIBUTES["shape"].index(s) for s in ("sphere", "cube", "cylinder"))


def paper_boxes(table: SceneTable) -> np.ndarray:
    """The boxes of the paper's tables, (M, 4): a heuristic from each object's 3D position and pixel position.

    y is rotated with the already rotated x, as in the paper's code: kept, so that results are comparable.
    """
    c, s = table.right[table.scene_of_object].T  # (M,)
    x, y, z = table.coords.T
    x = x * c + y * s
    y = x * -s + y * c
    h = 6.9 * z * (15 - y) / 2
    up, down, left, right = h.copy(), h.copy(), h.copy(), h.copy()
    shape = table.attributes[:, SHAPE]
    cube, cylinder = shape == CUBE, shape == CYLINDER
    for side in (up, down, left, right):
        side[cube] *= (13 / (10 + y))[cube]
    d, k = 9.4 + y, 6.4
    up[cylinder] *= (z * (k / d + 1) / (z * (k / d + 1) - z * (k - z) / d))[cylinder]
    down[cylinder] = (up * (k - z + d) / (k + z + d))[cylinder]
    left[cylinder] = right[cylinder] = (h * 11 / (10 + y))[cylinder]
    column, row = table.pixels[:, 0], table.pixels[:, 1]
    boxes = np.stack([column - left, row - down, column + right, row + up], axis=1)
    return boxes / (WIDTH, HEIGHT, WIDTH, HEIGHT)


def exact_boxes(table: SceneTable, cameras: np.ndarray | None = None) -> np.ndarray:
    """The boxes of the objects' outlines as seen by the camera, (M, 4), clipped to the image.

    Boxes include the parts of an object that other objects hide. `cameras` (S, 3) are recovered if not given.
    """
    if cameras is None:
        cameras = recover_cameras(table.coords, table.pixels, table.offsets)
    camera = cameras[table.scene_of_object]  # (M, 3)
    radius = np.array([RADIUS[s] for s in ATTRIBUTES["size"]])[table.attributes[:, SIZE]]  # (M,)
    boxes = np.empty((len(camera), 4))
    for shape, skeleton in ((SPHERE, _center), (CUBE, _corners), (CYLINDER, _rims)):
        indices = np.flatnonzero(table.attributes[:, SHAPE] == shape)
        for part in np.array_split(indices, len(indices) // CHUNK + 1):
            # Every shape is the convex hull of spheres (its rounded edges) around the points of a skeleton.
            points, rounding = skeleton(radius[part], table.rotation[part])  # (m, P, 3), (m,)
            points += (table.coords[part] - camera[part])[:, None]
            centers = points @ axes(camera[part]).swapaxes(1, 2)  # (m, P, 3), in the camera's frame
            boxes[part] = _outline(centers, rounding[:, None])
    boxes = boxes * FOCAL + (WIDTH / 2, HEIGHT / 2, WIDTH / 2, HEIGHT / 2)
    return np.clip(boxes / (WIDTH, HEIGHT, WIDTH, HEIGHT), 0, 1)


CHUNK = 4096
RIM = 64
"""Points on the rim of a cylinder: at most 0.06 pixels off the circle."""


def _center(radius: np.ndarray, rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((len(radius), 1, 3)), radius


def _corners(radius: np.ndarray, rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rounding = ROUNDING["cube"] * radius
    signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, 1, 8)
    x, y, z = signs * (radius - rounding)[:, None]  # (m, 8) each
    c, s = np.cos(rotation)[:, None], np.sin(rotation)[:, None]  # CLEVR used its 0 to 360 as radians
    return np.stack([c * x - s * y, s * x + c * y, z], axis=-1), rounding


def _rims(radius: np.ndarray, rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rounding = ROUNDING["cylinder"] * radius
    angle = np.linspace(0, 2 * np.pi, RIM, endpoint=False)
    rim = np.stack([np.cos(angle), np.sin(angle), np.ones(RIM)], axis=1)  # (RIM, 3)
    rims = np.concatenate([rim, rim * (1, 1, -1)])
    return rims * (radius - rounding)[:, None, None], rounding


def _outline(centers: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """The bounding boxes (m, 4), at unit focal length, of spheres around points (m, P, 3) in the camera's frame.

    The two planes through the camera that are tangent to a sphere of radius r at lateral offset x and depth z have the
    slopes (x z ± r √(x² + z² − r²)) / (z² − r²).
    """
    x, z = centers[..., :2] * (1, -1), centers[..., 2:]  # (m, P, 2), (m, P, 1)
    r = radius[..., None]
    middle, root = x * z, r * np.sqrt(x**2 + z**2 - r**2)
    denominator = z**2 - r**2
    low, high = (middle - root) / denominator, (middle + root) / denominator
    return np.concatenate([low.min(axis=1), high.max(axis=1)], axis=1)
