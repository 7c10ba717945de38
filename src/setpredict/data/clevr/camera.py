"""CLEVR's camera: it looks at the origin from a place that differs from scene to scene.

Scene files do not say where it stood, but their objects' `3d_coords` and `pixel_coords` (with depth) tell.
"""

from __future__ import annotations

import math

import numpy as np

WIDTH, HEIGHT = 480, 320
FOCAL = 525.0
"""In pixels of the 480×320 frame; the center is its middle."""
USUAL_PLACE = (7.481, -6.508, 5.344)
JITTER = 0.5
RIGHT = (0.6563112735748291, 0.7544902563095093)
"""`directions.right` of every scene: of the usual place, whatever the jitter."""


def axes(place: np.ndarray) -> np.ndarray:
    """Right, up and forward (…, 3, 3), as rows, of cameras at `place` (…, 3) that look at the origin."""
    forward = -place / np.linalg.norm(place, axis=-1, keepdims=True)
    right = np.stack([forward[..., 1], -forward[..., 0], np.zeros_like(forward[..., 0])], axis=-1)
    right /= np.linalg.norm(right, axis=-1, keepdims=True)
    return np.stack([right, np.cross(right, forward), forward], axis=-2)


def to_camera(points: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Points (…, 3) in the camera's frame: right, up, depth."""
    return np.einsum("...ij,...j->...i", axes(place), points - place)


def project(points: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Column and row in the 480×320 frame, and depth, of points (…, 3).

    >>> project(np.zeros(3), np.array(USUAL_PLACE)).round(2).tolist()
    [240.0, 160.0, 11.26]
    """
    right, up, depth = np.moveaxis(to_camera(points, place), -1, 0)
    return np.stack([WIDTH / 2 + FOCAL * right / depth, HEIGHT / 2 - FOCAL * up / depth, depth], axis=-1)


PIXEL_ERROR = 0.3
"""Pixels are rounded to whole ones: standard deviation 1/√12."""
DEPTH_ERROR = 1e-3


def recover_cameras(coords: np.ndarray, pixels: np.ndarray, offsets: np.ndarray, steps: int = 4) -> np.ndarray:
    """Where each scene's camera stood, (S, 3): least squares on pixels and depths, by Gauss-Newton for all at once.

    A scene without objects gets the usual place.
    """
    S = len(offsets) - 1
    scene = np.repeat(np.arange(S), np.diff(offsets))  # (M,)
    places = np.tile(np.array(USUAL_PLACE), (S, 1))
    weight = np.array([1 / PIXEL_ERROR, 1 / PIXEL_ERROR, 1 / DEPTH_ERROR])
    for _ in range(steps):
        residual = (pixels - project(coords, places[scene])) * weight  # (M, 3)
        slope = np.empty((len(coords), 3, 3))  # (M, residual, place)
        for axis in range(3):
            nudge = np.zeros(3)
            nudge[axis] = 1e-5
            ahead, behind = project(coords, places[scene] + nudge), project(coords, places[scene] - nudge)
            slope[:, :, axis] = (ahead - behind) / 2e-5 * weight
        normal = _sums(scene, np.einsum("mri,mrj->mij", slope, slope), S) + 1e-6 * np.eye(3)
        side = _sums(scene, np.einsum("mri,mr->mi", slope, residual), S)
        places += np.linalg.solve(normal, side[:, :, None])[:, :, 0]
    return places


def _sums(scene: np.ndarray, values: np.ndarray, S: int) -> np.ndarray:
    """The sums (S, …) over the objects of each scene of values (M, …)."""
    columns = values.reshape(len(values), math.prod(values.shape[1:])).T  # without objects, too
    sums = [np.bincount(scene, weights=column, minlength=S) for column in columns]
    return np.stack(sums, axis=1).reshape(S, *values.shape[1:])
