"""Boxes around CLEVR's objects, which the data set does not have: the paper's heuristic, and exact ones.

Both are (left, top, right, bottom) as parts of the 480×320 image.
"""

from __future__ import annotations

import numpy as np

from setpredict.data.clevr.camera import FOCAL, HEIGHT, WIDTH, axes, recover_cameras
from setpredict.data.clevr.scene_files import SceneTable
from setpredict.data.clevr.states import ATTRIBUTES, RADIUS, ROUNDING

FEATURE_NAMES = ("left", "top", "right", "bottom")
SHAPE = list(ATTRIBUTES).index("shape")
SIZE = list(ATTRIBUTES).index("size")
SPHERE, CUBE, CYLINDER = (ATTRIBUTES["shape"].index(s) for s in ("sphere", "cube", "cylinder"))


def paper_boxes(table: SceneTable) -> np.ndarray:
    """The boxes that the paper's tables were measured with, (M, 4): a heuristic from each object's two centers.

    The rotated x' is used again to rotate y, as it was in the release: kept, so that results can be compared.
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
    """The boxes of the objects' outlines as the camera sees them, (M, 4), cut off at the image's edges.

    Objects are whole: what another one hides is inside the box. `cameras` (S, 3) are recovered if not given.
    """
    if cameras is None:
        cameras = recover_cameras(table.coords, table.pixels, table.offsets)
    place = cameras[table.scene_of_object]  # (M, 3)
    radius = np.array([RADIUS[s] for s in ATTRIBUTES["size"]])[table.attributes[:, SIZE]]  # (M,)
    boxes = np.empty((len(place), 4))
    for kind, frame in ((SPHERE, _center), (CUBE, _corners), (CYLINDER, _rims)):
        everyone = np.flatnonzero(table.attributes[:, SHAPE] == kind)
        for which in np.array_split(everyone, len(everyone) // CHUNK + 1):
            # Every shape is the hull of spheres (the rounding of its edges) around the points of a frame.
            points, rounding = frame(radius[which], table.rotation[which])  # (m, P, 3), (m,)
            points += (table.coords[which] - place[which])[:, None]
            centers = points @ axes(place[which]).swapaxes(1, 2)  # (m, P, 3), in the camera's frame
            boxes[which] = _outline(centers, rounding[:, None])
    boxes = boxes * FOCAL + (WIDTH / 2, HEIGHT / 2, WIDTH / 2, HEIGHT / 2)
    return np.clip(boxes / (WIDTH, HEIGHT, WIDTH, HEIGHT), 0, 1)


CHUNK = 4096
RIM = 64
"""Points on the rim of a cylinder: nowhere more than 0.06 pixels off the circle."""


def _center(radius: np.ndarray, rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((len(radius), 1, 3)), radius


def _corners(radius: np.ndarray, rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rounding = ROUNDING["cube"] * radius
    signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, 1, 8)
    x, y, z = signs * (radius - rounding)[:, None]  # (m, 8) each
    c, s = np.cos(rotation)[:, None], np.sin(rotation)[:, None]  # CLEVR applied its 0 to 360 as radians
    return np.stack([c * x - s * y, s * x + c * y, z], axis=-1), rounding


def _rims(radius: np.ndarray, rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rounding = ROUNDING["cylinder"] * radius
    angle = np.linspace(0, 2 * np.pi, RIM, endpoint=False)
    rim = np.stack([np.cos(angle), np.sin(angle), np.ones(RIM)], axis=1)  # (RIM, 3)
    rims = np.concatenate([rim, rim * (1, 1, -1)])
    return rims * (radius - rounding)[:, None, None], rounding


def _outline(centers: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """The extent (m, 4), at unit focal length, of spheres around points (m, P, 3) of the camera's frame.

    The two planes through the camera that touch a sphere of radius r at across x and depth z have the slopes
    (x z ± r √(x² + z² − r²)) / (z² − r²).
    """
    across, depth = centers[..., :2] * (1, -1), centers[..., 2:]  # (m, P, 2), (m, P, 1)
    r = radius[..., None]
    middle, root = across * depth, r * np.sqrt(across**2 + depth**2 - r**2)
    below = depth**2 - r**2
    return np.concatenate([((middle - root) / below).min(axis=1), ((middle + root) / below).max(axis=1)], axis=1)
