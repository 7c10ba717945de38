"""Scene files and cameras: valid files parse, errors are named."""

import json
from pathlib import Path

import numpy as np
import pytest

from setpredict.core.errors import UserError
from setpredict.data.clevr.camera import RIGHT, USUAL_PLACE, project, recover_cameras
from setpredict.data.clevr.scene_files import SceneTable, parse_scenes, read_scenes
from setpredict.data.render.sampler import sample_scene, scene_table
from setpredict.data.render.writer import scene_record


def write_scenes(path: Path, count: int = 3, change=None) -> Path:
    scenes = [scene_record(sample_scene(0, "t", i), "train", i, f"CLEVR_train_{i:06d}.png") for i in range(count)]
    if change:
        change(scenes)
    path.write_text(json.dumps({"info": {}, "scenes": scenes}))
    return path


@pytest.mark.parametrize(("folder", "split", "count"), [
    ("clevr-excerpt", "train", 100), ("clevr-excerpt", "val", 3), ("clevr-renders", "val", 250),
])  # fmt: skip
def test_real_scenes_parse_and_cameras_reproject(real_data: Path, folder: str, split: str, count: int):
    table = parse_scenes(real_data / folder / "scenes" / f"CLEVR_{split}_scenes.json")
    assert len(table) == count
    sizes = np.diff(table.offsets)
    assert 3 <= sizes.min() <= sizes.max() <= 10
    cameras = recover_cameras(table.coords, table.pixels, table.offsets)
    off = np.abs(project(table.coords, cameras[table.scene_of_object]) - table.pixels)
    assert off[:, :2].max() < 1  # pixels
    assert off[:, 2].max() < 0.01
    assert np.abs(cameras - USUAL_PLACE).max() < 0.6


def test_cameras_of_sampled_scenes_are_recovered():
    scenes = [sample_scene(3, "t", i, min_objects=1) for i in range(20)]
    scenes.append(sample_scene(3, "t", 99, min_objects=0, max_objects=0))
    table = scene_table(scenes)
    cameras = recover_cameras(table.coords, table.pixels, table.offsets)
    off = np.linalg.norm(cameras - np.stack([s.camera for s in scenes]), axis=1)
    sizes = np.diff(table.offsets)
    assert off[sizes >= 3].max() < 0.03
    assert np.array_equal(cameras[-1], USUAL_PLACE)  # no object: the usual position


def test_the_cache_is_the_parse_and_follows_the_file(tmp_path: Path, cache: Path):
    path = write_scenes(tmp_path / "CLEVR_train_scenes.json")
    first, second, parsed = read_scenes(path), read_scenes(path), parse_scenes(path)
    for name in SceneTable.__dataclass_fields__:
        assert np.array_equal(getattr(first, name), getattr(second, name))
        assert np.array_equal(getattr(parsed, name), getattr(second, name))
    assert len(list(cache.rglob("*.npz"))) == 1
    write_scenes(path, 2)
    assert len(read_scenes(path)) == 2


def test_select(tmp_path: Path):
    table = parse_scenes(write_scenes(tmp_path / "s.json", 4))
    some = table.select(np.array([3, 1]))
    assert list(some.image) == [table.image[3], table.image[1]]
    assert np.array_equal(some.coords[some.rows(0)], table.coords[table.rows(3)])
    assert np.array_equal(some.attributes[some.rows(1)], table.attributes[table.rows(1)])
    assert some.right == pytest.approx(np.tile(RIGHT, (2, 1)))


def break_color(scenes):
    scenes[1]["objects"][2]["color"] = "pink"


def break_coords(scenes):
    scenes[0]["objects"][1]["3d_coords"] = [1.0, "2", 3.0]


def break_pixels(scenes):
    scenes[0]["objects"][1]["pixel_coords"] = [1.0, 2.0]


def drop_material(scenes):
    del scenes[2]["objects"][0]["material"]


def drop_directions(scenes):
    del scenes[2]["directions"]


def put_nan(scenes):
    scenes[1]["objects"][0]["rotation"] = float("nan")


def put_digits(scenes):
    scenes[1]["objects"][0]["3d_coords"] = [0, 0, 10**400]


@pytest.mark.parametrize(("change", "message"), [
    (break_color, r"bad.json, scene 1, object 2: color 'pink' is unknown; expected one of cyan, blue, .*brown"),
    (break_coords, r"bad.json, scene 0, object 1, 3d_coords: expected finite .*\(3 of them\), got \[1.0, \"2\", 3.0\]"),
    (break_pixels, r"bad.json, scene 0, object 1, pixel_coords: expected finite .*\(3 of them\), got \[1.0, 2.0\]"),
    (put_digits, r"bad.json, scene 1, object 0, 3d_coords: expected finite numbers up to 1e37 .*, got \[0, 0, 1000"),
    (lambda scenes: scenes[0].update(objects=5), r"bad.json, scene 0: objects must be a list, got 5"),
    (drop_material, r"bad.json, scene 2, object 0: field 'material' is missing"),
    (drop_directions, r"bad.json, scene 2: field 'directions' is missing"),
    (put_nan, r"bad.json, scene 1, object 0, rotation: expected finite numbers .*\(1 of them\), got \[NaN\]"),
])  # fmt: skip
def test_errors_name_scene_object_and_field(tmp_path: Path, change, message: str):
    path = write_scenes(tmp_path / "bad.json", change=change)
    with pytest.raises(UserError, match=message):
        read_scenes(path)


def test_broken_files(tmp_path: Path, cache: Path):
    path = write_scenes(tmp_path / "scenes.json")
    path.write_text(path.read_text()[:-40])
    with pytest.raises(UserError, match=r"scenes.json is not valid JSON: .* at line 1, column"):
        read_scenes(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"scenes.json is not a text file"):
        read_scenes(path)
    path.write_text("[]")
    with pytest.raises(UserError, match=r"scenes.json has no list 'scenes'"):
        read_scenes(path)
    with pytest.raises(UserError, match=r"no.json not found: CLEVR has one scene file per split there"):
        read_scenes(tmp_path / "no.json")
    assert not list(cache.rglob("*.npz"))
    assert not list(cache.rglob("*.tmp"))


@pytest.mark.parametrize("keep", [0, 100, -30])
def test_a_damaged_cache_is_rebuilt(tmp_path: Path, cache: Path, keep: int):
    path = write_scenes(tmp_path / "CLEVR_train_scenes.json")
    first = read_scenes(path)
    (built,) = cache.rglob("*.npz")
    complete = built.read_bytes()
    built.write_bytes(complete[:keep])
    assert np.array_equal(read_scenes(path).coords, first.coords)
    assert len(built.read_bytes()) == len(complete)
    np.savez(built, offsets=np.arange(3))  # valid, but with other content
    assert np.array_equal(read_scenes(path).coords, first.coords)


def test_spellings_of_a_path_share_one_cache(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    path = write_scenes(tmp_path / "CLEVR_train_scenes.json")
    monkeypatch.chdir(tmp_path)
    for spelling in (path, Path(path.name)):
        read_scenes(spelling)
    assert len(list(cache.rglob("*.npz"))) == 1
