"""The ray tracer: its images look like CLEVR's, and rays end on surfaces."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from setpredict.data.clevr.camera import WIDTH, recover_cameras, to_camera
from setpredict.data.clevr.scene_files import parse_scenes
from setpredict.data.render.light import LIGHTS
from setpredict.data.render.sampler import CAMERA, sample_scene
from setpredict.data.render.shapes import CUBE, CYLINDER, SPHERE, distance, hit_rounded, normal, span
from setpredict.data.render.tracer import View, object_rows, render
from tests.data.views import instance_mask, make_view

# The lights and materials were fitted to 40 other scenes of the excerpt.
NOT_FITTED = [
    1, 2, 4, 7, 9, 11, 12, 15, 18, 19, 20, 21, 22, 23, 25, 27, 28, 29, 31, 32,
    33, 34, 35, 37, 38, 39, 40, 41, 42, 43,
]  # fmt: skip


def test_close_to_the_original_images(real_data: Path):
    """The lights' jitter is unknown, so pixels cannot agree exactly; ground and objects must agree on average."""
    folder = real_data / "clevr-excerpt"
    table = parse_scenes(folder / "scenes" / "CLEVR_train_scenes.json").select(np.array(NOT_FITTED))
    cameras = recover_cameras(table.coords, table.pixels, table.offsets)
    everywhere, objects = [], []
    for scene in range(len(table)):
        with Image.open(folder / "images" / "train" / table.image[scene]) as image:
            theirs = np.asarray(image.convert("RGB").resize((120, 80), Image.Resampling.BOX), float)
        view = make_view(table, scene, cameras[scene])
        ours = render(view, 120, 80).astype(float)
        everywhere.append(np.abs(ours - theirs).mean())
        seen = instance_mask(view, 120, 80)
        for i in range(len(view.objects)):
            objects.append(ours[seen == i].mean(0) - theirs[seen == i].mean(0))
    assert np.mean(everywhere) < 5  # of 255
    assert np.abs(objects).mean() < 4
    assert np.abs(np.mean(objects, axis=0)).max() < 2  # no color cast


def test_order_of_objects_does_not_matter():
    scene = sample_scene(0, "t", 3, min_objects=6, max_objects=6)
    view = scene.view
    other = View(view.objects[::-1].copy(), view.camera, view.lights)
    assert np.abs(render(view, 48).astype(int) - render(other, 48)).max() <= 1  # sums in another order
    order = np.array([-1, *range(6)])
    turned = np.array([-1, *range(5, -1, -1)])
    assert np.array_equal(turned[instance_mask(other) + 1], order[instance_mask(view) + 1])


def test_an_empty_scene_is_gray_ground():
    view = sample_scene(0, "t", 0, min_objects=0, max_objects=0).view
    image = render(view, 32)
    assert (instance_mask(view) == -1).all()
    assert 60 < image.min() < image.max() < 220
    assert np.ptp(image.astype(int), axis=2).max() < 25


def test_objects_cast_shadows_and_show_their_color():
    coords = np.array([[0.0, 0.0, 0.7]])
    red = object_rows(coords, np.array([[0, 4, 0, 0]], np.uint8), np.zeros(1))
    view = View(red, CAMERA, LIGHTS)
    with_it, without = render(view, 96), render(View(red[:0], CAMERA, LIGHTS), 96)
    mask = instance_mask(view, 96, 96) == 0
    shade = without.astype(int).sum(2) - with_it.astype(int).sum(2)
    assert shade[~mask].max() > 60  # a shadow
    assert shade[~mask].min() > -12  # and nothing gets brighter
    r, g, b = with_it[mask].mean(0)
    assert r > 2 * max(g, b)


def test_metal_reflects_its_neighbor():
    coords = np.array([[0.0, 0.0, 0.7], [1.4, -0.2, 0.35]])
    attributes = np.array([[1, 6, 0, 0], [0, 4, 0, 1]], np.uint8)  # gray metal, small red rubber
    view = View(object_rows(coords, attributes, np.zeros(2)), CAMERA, LIGHTS)
    alone = View(view.objects[:1], CAMERA, LIGHTS)
    ball = instance_mask(view, 96, 96) == 0
    redness = [i.astype(int)[..., 0] - i.astype(int)[..., 2] for i in (render(view, 96), render(alone, 96))]
    assert (redness[0] - redness[1])[ball].max() > 25


@pytest.mark.parametrize("shape", [SPHERE, CUBE, CYLINDER])
def test_rays_end_on_the_surface(shape: int):
    random = np.random.default_rng(0)
    coords = np.array([[0.0, 0.0, 0.0]])
    row = object_rows(coords, np.array([[0, 0, shape, 0]], np.uint8), np.array([0.3]))[0]
    hits = 0
    for _ in range(300):
        origin = random.normal(size=3)
        origin *= 4 / np.linalg.norm(origin)
        direction = random.uniform(-0.9, 0.9, 3) - origin
        t = hit_rounded(shape, *origin, *direction)
        enter, leave = span(shape, *origin, *direction)
        if t > 1e20:
            continue
        hits += 1
        assert enter - 1e-9 <= t <= leave
        point = origin + t * direction
        gap = np.linalg.norm(point) - 1 if shape == SPHERE else distance(shape, *point)
        assert abs(gap) < 3e-3
        c, s = np.cos(0.3), np.sin(0.3)
        world = np.array([c * point[0] - s * point[1], s * point[0] + c * point[1], point[2]])
        n = np.array(normal(row, *(world * 0.7)))
        assert np.linalg.norm(n) == pytest.approx(1)
        wd = np.array([c * direction[0] - s * direction[1], s * direction[0] + c * direction[1], direction[2]])
        assert n @ wd < 1e-2 * np.linalg.norm(wd)  # it faces the ray
    assert hits > 200


def test_centers_are_where_the_scene_says():
    scene = sample_scene(0, "t", 1)
    depth = to_camera(scene.coords, scene.camera)[:, 2]
    front = int(np.argmin(depth))
    column, row = (int(v) for v in scene.pixels[front, :2])
    assert instance_mask(scene.view)[row, column] == front
    assert instance_mask(scene.view).shape[1] == WIDTH
