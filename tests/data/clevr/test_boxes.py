"""Boxes: the paper's heuristic against hand-computed numbers, exact ones against rendered masks."""

from pathlib import Path

import numpy as np
import pytest

from setpredict.data.clevr.boxes import exact_boxes, paper_boxes
from setpredict.data.clevr.camera import HEIGHT, RIGHT, WIDTH, recover_cameras
from setpredict.data.clevr.scene_files import SceneTable, parse_scenes
from setpredict.data.clevr.states import ATTRIBUTES
from setpredict.data.render.sampler import sample_scene, scene_table
from setpredict.data.render.tracer import View
from tests.data.views import instance_mask, make_view

FRAME = np.array([WIDTH, HEIGHT, WIDTH, HEIGHT])

# An object at (1, 2) whose center is at pixel (200, 100). Rotated: x' = 2.16529, y' = -2.16529 s + 2 c = -0.32107.
# Large: h = 6.9 · 0.7 · 15.32107 / 2 = 37.00038; small: h = 18.50019.
#   cube: times 13 / 9.67893 = 1.34312
#   cylinder: d = 9.07893; left and right times 11 / 9.67893 = 1.13649; up, large: times 1.70493 / (1.70493 − 0.62783)
BY_HAND = {
    ("sphere", "large"): (162.99962, 62.99962, 237.00038, 137.00038),
    ("sphere", "small"): (181.49981, 81.49981, 218.50019, 118.50019),
    ("cube", "large"): (150.30392, 50.30392, 249.69608, 149.69608),
    ("cube", "small"): (175.15196, 75.15196, 224.84804, 124.84804),
    ("cylinder", "large"): (157.94947, 46.50059, 242.05053, 158.56738),
    ("cylinder", "small"): (178.97473, 70.97238, 221.02527, 130.37069),
}


@pytest.mark.parametrize(("shape", "size"), list(BY_HAND))
def test_paper_boxes_by_hand(shape: str, size: str):
    z = 0.7 if size == "large" else 0.35
    attributes = [[0, 0, ATTRIBUTES["shape"].index(shape), ATTRIBUTES["size"].index(size)]]
    table = SceneTable(
        np.array([0, 1]),
        np.array([[1.0, 2.0, z]]),
        np.array([[200.0, 100.0, 11.0]]),
        np.array([30.0]),
        np.array(attributes, np.uint8),
        np.array([RIGHT]),
        np.array(["x.png"]),
    )
    (box,) = paper_boxes(table) * FRAME
    assert box == pytest.approx(BY_HAND[shape, size], abs=1e-4)


def check_against_masks(table: SceneTable, cameras: np.ndarray) -> None:
    boxes = exact_boxes(table, cameras) * FRAME
    for scene in range(len(table)):
        view = make_view(table, scene, cameras[scene])
        together = instance_mask(view)
        for i, box in enumerate(boxes[table.rows(scene)]):
            alone = instance_mask(View(view.objects[i : i + 1], view.camera, view.lights)) == 0
            for mask in (together == i, alone):  # visible pixels lie within the box; their centers are sampled
                rows, columns = np.nonzero(mask)
                seen = (columns.min() + 0.5, rows.min() + 0.5, columns.max() + 0.5, rows.max() + 0.5)
                assert box[0] - 0.15 <= seen[0]
                assert box[1] - 0.15 <= seen[1]
                assert box[2] + 0.15 >= seen[2]
                assert box[3] + 0.15 >= seen[3]
            edges = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
            assert np.abs(box - edges).max() < 2  # tight around the complete object


def test_exact_boxes_are_tight_on_real_scenes(real_data: Path):
    table = parse_scenes(real_data / "clevr-excerpt" / "scenes" / "CLEVR_train_scenes.json").select(np.arange(25))
    check_against_masks(table, recover_cameras(table.coords, table.pixels, table.offsets))


def test_exact_boxes_are_tight_on_sampled_scenes():
    scenes = [sample_scene(1, "t", i) for i in range(10)]
    check_against_masks(scene_table(scenes), np.stack([s.camera for s in scenes]))


def test_exact_boxes_with_recovered_cameras_are_the_same():
    scenes = [sample_scene(2, "t", i) for i in range(10)]
    table = scene_table(scenes)
    off = exact_boxes(table) - exact_boxes(table, np.stack([s.camera for s in scenes]))
    assert np.abs(off * FRAME).max() < 0.5


def test_exact_boxes_fit_original_images(real_data: Path):
    """Saturated color in an original image is an object: its extent is the box of an isolated object.

    The rounding of edges was fitted to these images, so this protects the fit; it is not an independent check.
    """
    from PIL import Image
    from scipy import ndimage

    folder = real_data / "clevr-excerpt"
    table = parse_scenes(folder / "scenes" / "CLEVR_train_scenes.json").select(np.arange(60))
    boxes = exact_boxes(table) * FRAME
    off = []
    for scene in range(len(table)):
        with Image.open(folder / "images" / "train" / table.image[scene]) as image:
            pixels = np.asarray(image.convert("RGB"), float)
        saturated = (pixels.max(2) - pixels.min(2)) / (pixels.max(2) + 1e-6) > 0.22
        mine = boxes[table.rows(scene)]
        for i, box in enumerate(mine):
            rubber, color = table.attributes[table.rows(scene)][i, :2] == (0, ATTRIBUTES["color"].index("gray"))
            inside = (box[:2] > 8).all() and (box[2:] < FRAME[2:] - 8).all()
            isolated = [np.any((o[:2] > box[2:] + 8) | (o[2:] < box[:2] - 8)) for j, o in enumerate(mine) if j != i]
            if not rubber or color or not inside or not all(isolated):
                continue
            left, top, right, bottom = (box + np.array([-5, -5, 6, 6])).astype(int)
            parts = np.empty((bottom - top, right - left), np.int32)
            ndimage.label(saturated[top:bottom, left:right], output=parts)
            largest = 1 + np.argmax(np.bincount(parts.ravel())[1:])
            rows, columns = np.nonzero(parts == largest)
            seen = (left + columns.min(), top + rows.min(), left + columns.max() + 1)
            off.append(np.abs(box[:3] - seen))  # not the bottom: a sphere colors the ground there
    assert len(off) > 20
    assert np.mean(off) < 0.7
    assert np.percentile(off, 95) < 2
