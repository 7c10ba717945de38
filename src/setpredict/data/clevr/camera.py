"""CLEVR's camera: it looks at the origin from a position that is jittered in each scene.

Scene files do not contain the position, but it can be recovered from `3d_coords` and `pixel_coords` (with depth).
"""

from __future__ import annotations

import math

import numpy as np

WIDTH, HEIGHT = 480, 320
FOCAL = 525.0
"""In pixels of the 480×320 image; the optical center is the center of the image."""
USUAL_PLACE = (7.481, -6.508, 5.344)
JITTER = 0.5
RIGHT = (0.6563112735748291, 0.7544902563095093)
"""`directions.right` of every scene: that of the usual position, without the jitter."""


def axes(position: np.ndarray) -> np.ndarray:
    """Right, up and forward (…, 3, 3), as rows, of cameras at `position` (…, 3) that look at the origin."""
    forward = -position / np.linalg.norm(position, axis=-1, keepdims=True)
    right = np.stack([forward[..., 1], -forward[..., 0], np.zeros_like(forward[..., 0])], axis=-1)
    right /= np.linalg.norm(right, axis=-1, keepdims=True)
    return np.stack([right, np.cross(right, forward), forward], axis=-2)


def to_camera(points: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Points (…, 3) in the camera's frame: right, up, depth."""
    return np.einsum("...ij,...j->...i", axes(position), points - position)


def project(points: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Column and row in the 480×320 image, and depth, of points (…, 3).

    >>> project(np.zeros(3), np.array(USUAL_PLACE)).round(2).tolist()
    [240.0, 160.0, 11.26]
    """
    right, up, depth = np.moveaxis(to_camera(points, position), -1, 0)
    return np.stack([WIDTH / 2 + FOCAL * right / depth, HEIGHT / 2 - FOCAL * up / depth, depth], axis=-1)


PIXEL_ERROR = 0.3
"""Pixel positions are rounded to integers: standard deviation 1/√12."""
DEPTH_ERROR = 1e-3


def recover_cameras(coords: np.ndarray, pixels: np.ndarray, offsets: np.ndarray, steps: int = 4) -> np.ndarray:
    """The position of each scene's camera, (S, 3): least squares on pixels and depths, Gauss-Newton for all at once.

    Objects are given as in a `SceneTable`. A scene without objects gets the usual position.
    """
    S = len(offsets) - 1
    scene = np.repeat(np.arange(S), np.diff(offsets))  # (M,)
    positions = np.tile(np.array(USUAL_PLACE), (S, 1))
    weight = np.array([1 / PIXEL_ERROR, 1 / PIXEL_ERROR, 1 / DEPTH_ERROR])
    for _ in range(steps):
        residual = (pixels - project(coords, positions[scene])) * weight  # (M, 3)
        jacobian = np.empty((len(coords), 3, 3))  # (M, residual, position)
        for axis in range(3):
            step = np.zeros(3)
            step[axis] = 1e-5
            ahead, behind = project(coords, positions[scene] + step), project(coords, positions[scene] - step)
            jacobian[:, :, axis] = (ahead - behind) / 2e-5 * weight
        normal = _scene_sums(scene, np.einsum("mri,mrj->mij", jacobian, jacobian), S) + 1e-6 * np.eye(3)
        side = _scene_sums(scene, np.einsum("mri,mr->mi", jacobian, residual), S)
        positions += np.linalg.solve(normal, side[:, :, None])[:, :, 0]
    return positions


def _scene_sums(scene: np.ndarray, values: np.ndarray, S: int) -> np.ndarray:
    """Sums (S, …) of values (M, …) over the objects of each scene."""
    columns = values.reshape(len(values), math.prod(values.shape[1:])).T  # M may be 0
    sums = [np.bincount(scene, weights=column, minlength=S) for column in columns]
    return np.stack(sums, axis=1).reshape(S, *values.shape[1:])
