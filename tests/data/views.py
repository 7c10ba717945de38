"""Views of scenes for tests: from a table of scenes, and which object is visible where."""

import numpy as np

from setpredict.data.clevr.camera import HEIGHT, WIDTH, axes
from setpredict.data.clevr.scene_files import SceneTable
from setpredict.data.render.light import LIGHTS
from setpredict.data.render.tracer import View, mark_instances, object_rows


def make_view(table: SceneTable, scene: int, camera: np.ndarray) -> View:
    """The view of one scene of a table, with the lights at their usual positions."""
    rows = table.rows(scene)
    objects = object_rows(table.coords[rows], table.attributes[rows], table.rotation[rows])
    return View(objects, np.asarray(camera, np.float64), LIGHTS)


def instance_mask(view: View, width: int = WIDTH, height: int = HEIGHT) -> np.ndarray:
    """The index of the object at the center of each pixel, (height, width) int16; -1 is the ground."""
    mask = np.empty((height, width), np.int16)
    mark_instances(view.objects, view.camera, axes(view.camera), mask)
    return mask
