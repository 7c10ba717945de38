"""Sampled scenes: CLEVR's rules, and draws that depend on the key alone."""

import numpy as np
import pytest

from setpredict.core.errors import UserError
from setpredict.data.clevr.camera import RIGHT
from setpredict.data.render.sampler import sample_scene, scene_table
from tests.data.views import instance_mask


@pytest.mark.parametrize("index", range(25))
def test_rules(index: int):
    scene = sample_scene(0, "rules", index)
    n = len(scene.coords)
    assert 3 <= n <= 10
    assert np.abs(scene.coords[:, :2]).max() <= 3
    radius = np.where(scene.attributes[:, 3] == 0, 0.7, 0.35)
    assert np.array_equal(scene.coords[:, 2], radius)
    right = np.array(RIGHT)
    front = np.array([right[1], -right[0]])
    for i in range(n):
        for j in range(i):
            between = scene.coords[i, :2] - scene.coords[j, :2]
            assert np.linalg.norm(between) - radius[i] - radius[j] >= 0.25
            assert abs(between @ right) >= 0.4
            assert abs(between @ front) >= 0.4
    seen = np.bincount(instance_mask(scene.view, 240, 160).ravel() + 1, minlength=n + 1)[1:]
    assert seen.min() >= 50
    assert np.abs(scene.camera - (7.481, -6.508, 5.344)).max() <= 0.5


def test_attributes_and_sizes_are_uniform():
    table = scene_table([sample_scene(0, "spread", i) for i in range(150)])
    assert len(np.unique(np.diff(table.offsets))) == 8
    for column, count in enumerate((2, 8, 3, 2)):
        share = np.bincount(table.attributes[:, column], minlength=count) / len(table.attributes)
        assert np.abs(share - 1 / count).max() < 0.1


def test_scenes_depend_on_their_key_alone():
    a, b = sample_scene(0, "train", 7), sample_scene(0, "train", 7)
    assert np.array_equal(a.coords, b.coords)
    for other in (sample_scene(1, "train", 7), sample_scene(0, "val", 7), sample_scene(0, "train", 7, epoch=1)):
        assert not np.array_equal(a.camera, other.camera)


def test_too_many_objects():
    with pytest.raises(UserError, match="could not place 40 visible objects in 400 attempts; use fewer than 40"):
        sample_scene(0, "t", 0, min_objects=40, max_objects=40)
    with pytest.raises(UserError, match="0 <= min <= max, got min 5 and max 2"):
        sample_scene(0, "t", 0, min_objects=5, max_objects=2)
