"""The generator: CLEVR's rules, CLEVR's layout, the same bytes on any number of workers, and no half-written files."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import setpredict
from setpredict.data.clevr.camera import RIGHT
from setpredict.data.sources.clevr import clevr
from setpredict.data.clevr.states import objects_to_state, state_to_objects
from setpredict.data.render.tracer import instance_mask
from setpredict.data.render.sampler import sample_scene, scene_table
from setpredict.data.sources.scenes import SceneOptions, generate, scenes


def digest(folder: Path) -> str:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.endswith(".lock"))
    return hashlib.sha256(b"".join(str(p.relative_to(folder)).encode() + p.read_bytes() for p in files)).hexdigest()


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


def test_attributes_and_sizes_are_spread():
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
    with pytest.raises(ValueError, match="no room for 40 objects"):
        sample_scene(0, "t", 0, least=40, most=40)
    with pytest.raises(ValueError, match="0 <= min <= max, got min 5 and max 2"):
        sample_scene(0, "t", 0, least=5, most=2)


def test_same_bytes_on_1_2_and_4_workers(tmp_path: Path):
    options = SceneOptions(tmp_path, train=70, val=5, size=16)
    digests = {
        digest(generate(replace(options, out=tmp_path / str(workers), workers=workers))) for workers in (1, 2, 4)
    }
    assert len(digests) == 1


def test_layout_and_loader(tmp_path: Path):
    out = generate(SceneOptions(tmp_path / "out", train=10, val=3, size=24, seed=3))
    found = sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file() and p.suffix != ".lock")
    images = [f"images/{s}/CLEVR_{s}_{i:06d}.png" for s, n in (("train", 10), ("val", 3)) for i in range(n)]
    names = ["generator.json", *images, "scenes/CLEVR_train_scenes.json", "scenes/CLEVR_val_scenes.json"]
    assert found == sorted(names)
    task = clevr(out, size=24, val=0.0)
    batch = next(iter(task.loader("test", 3)))
    assert isinstance(batch.input, torch.Tensor)
    written, memory = (t.train.batch(np.arange(10), 0).input for t in (task, scenes(size=24, seed=3)))
    assert isinstance(written, torch.Tensor)
    assert isinstance(memory, torch.Tensor)
    assert torch.equal(written, memory)
    for i, states in enumerate(batch.target.to_list()):  # the round trip through file and encoding is exact
        scene = sample_scene(3, "val", i)
        assert np.array_equal(states[:, :3].numpy(), (scene.coords / 3).astype(np.float32))
        again = objects_to_state(state_to_objects(states.numpy()))
        assert np.array_equal(again[:, 3:], states[:, 3:].numpy())
    record = json.loads((out / "scenes/CLEVR_val_scenes.json").read_text())["scenes"][0]
    for i, right in enumerate(record["relationships"]["right"]):
        assert all(i in record["relationships"]["left"][j] for j in right)


def test_size_does_not_change_the_scenes(tmp_path: Path):
    small = generate(SceneOptions(tmp_path / "a", train=4, val=0, size=8))
    states = generate(SceneOptions(tmp_path / "b", train=4, val=0, size=64, states_only=True))
    a, b = (json.loads((p / "scenes/CLEVR_train_scenes.json").read_text())["scenes"] for p in (small, states))
    assert a == b
    assert not list(states.rglob("*.png"))
    assert json.loads((small / "scenes/CLEVR_val_scenes.json").read_text())["scenes"] == []


def test_object_count_range(tmp_path: Path):
    out = generate(SceneOptions(tmp_path / "a", train=12, val=0, states_only=True, min_objects=1, max_objects=2))
    counts = {len(s["objects"]) for s in json.loads((out / "scenes/CLEVR_train_scenes.json").read_text())["scenes"]}
    assert counts == {1, 2}


def test_a_folder_that_is_not_ours_or_was_begun_otherwise(tmp_path: Path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.txt").write_text("meow")
    with pytest.raises(ValueError, match=r"photos is not empty \(cat.txt\) and was not begun by this command"):
        generate(SceneOptions(tmp_path / "photos", train=1, val=1))
    options = SceneOptions(tmp_path / "out", train=2, val=1, size=8)
    generate(options)
    before = digest(options.out)
    generate(options)  # nothing to do
    assert digest(options.out) == before
    with pytest.raises(ValueError, match="out was begun with seed 0, not 1; use another folder"):
        generate(replace(options, seed=1))
    with pytest.raises(ValueError, match="train must be at least 0, got -1"):
        generate(replace(options, train=-1))
    (options.out / "generator.json").write_text("[]")
    with pytest.raises(ValueError, match=r"generator.json does not say what .*out was begun with; use another folder"):
        generate(options)
    (options.out / "generator.json").write_text('{"seed": 0')
    with pytest.raises(ValueError, match=r"generator.json is not whole JSON: .* at line 1, column 11"):
        generate(options)


@pytest.mark.parametrize(("change", "message"), [
    ({"size": 0}, "size must be from 1 to 4096 pixels, got 0"),
    ({"size": 10**6}, "size must be from 1 to 4096 pixels, got 1000000"),
    ({"train": 10**12}, "train must be at most 10000000, got 1000000000000"),
    ({"val": -3}, "val must be at least 0, got -3"),
    ({"workers": 10**6}, "workers must be at most 256, got 1000000"),
    ({"seed": -1}, "seed must be at least 0, got -1"),
    ({"max_objects": 10**12, "min_objects": 10**12}, "a scene has at most 100 objects, got max 1000000000000"),
    ({"max_objects": -1}, "0 <= min <= max, got min 3 and max -1"),
])  # fmt: skip
def test_nonsense_numbers_are_named_before_anything_is_written(tmp_path: Path, change: dict, message: str):
    with pytest.raises(ValueError, match=message):
        generate(replace(SceneOptions(tmp_path / "out", train=1, val=0, size=8), **change))
    assert not (tmp_path / "out").exists()
    if "size" in change:
        with pytest.raises(ValueError, match=message):
            scenes(size=change["size"])


def test_killed_and_gone_on_with(tmp_path: Path):
    out = tmp_path / "out"
    code = (
        "from pathlib import Path; from setpredict.data.sources.scenes import SceneOptions, generate;"
        f"generate(SceneOptions(Path({str(out)!r}), train=130, val=2, size=48, workers=2))"
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    until = time.monotonic() + 60
    while not list(out.glob("parts/*.json")) and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    done = list(out.glob("parts/*.json"))
    assert done
    assert not (out / "scenes").exists()
    for part in done:  # whole, and their images too
        for scene in json.loads(part.read_text()):
            assert (out / "images/train" / scene["image_filename"]).stat().st_size > 0
    times = {p: p.stat().st_mtime_ns for p in done}
    first = json.loads(done[0].read_text())[0]["image_filename"]
    image_time = (out / "images/train" / first).stat().st_mtime_ns
    generate(SceneOptions(out, train=130, val=2, size=48))
    assert times
    assert (out / "images/train" / first).stat().st_mtime_ns == image_time  # not made again
    assert not list(out.rglob("*.tmp"))
    assert digest(out) == digest(generate(SceneOptions(tmp_path / "at once", train=130, val=2, size=48)))


def test_in_memory_task():
    task = scenes("box", size=16, train=20, val=4, test=4, max_objects=5)
    a, b = (next(iter(task.loader("train", 4, workers=w, epoch=2))) for w in (0, 2))
    assert isinstance(a.input, torch.Tensor)
    assert a.input.shape == (4, 3, 16, 16)
    assert a.target.elements.shape == (4, 5, 4)
    assert torch.equal(a.input, b.input)  # pyright: ignore[reportArgumentType]
    assert torch.equal(a.target.elements, b.target.elements)
    states = scenes(states_only=True, train=20)
    batch = next(iter(states.loader("train", 4)))
    assert batch.input is batch.target
    assert (states.input_kind, states.input_size, batch.target.elements.shape) == ("set", 18, (4, 10, 18))


def test_options_import_without_torch_or_numba():
    source = str(Path(setpredict.__file__).parent)  # the package itself may import what it likes
    code = (
        "import sys; package = type(sys)('setpredict'); sys.modules['setpredict'] = package;"
        f"package.__path__ = [{source!r}]; import setpredict.data.sources.scenes;"
        "sys.exit(', '.join({'torch', 'numba', 'numpy'} & set(sys.modules)) or 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_scenes_rendered_once_are_read_from_their_folder(tmp_path, cache):
    folder = tmp_path / "scenes"
    options: dict[str, Any] = {"size": 16, "max_objects": 4, "train": 6, "val": 2, "test": 3, "folder": folder}
    task = scenes("state", **options)
    assert [len(task.split(s)) for s in ("train", "val", "test")] == [6, 2, 3]
    assert (task.name, task.max_size, task.input_size) == ("scenes-state", 4, 16)
    first = task.train.batch(np.arange(6), 0)
    made = sorted((tmp_path / "scenes").rglob("*.png"))
    assert len(made) == 11
    before = [p.stat().st_mtime_ns for p in made]
    again = scenes("state", **options).train.batch(np.arange(6), 1)  # nothing is rendered anew, epochs are alike
    assert [p.stat().st_mtime_ns for p in made] == before
    assert isinstance(first.input, torch.Tensor)
    assert isinstance(again.input, torch.Tensor)
    assert torch.equal(first.input, again.input)
    assert torch.equal(first.target.elements, again.target.elements)
    assert scenes("box", **options).features == 4
    with pytest.raises(ValueError, match="was begun with train 8, not 9; use another folder"):
        scenes("state", **options | {"train": 7})  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="leave out the folder"):
        scenes("state", states_only=True, **options)


@pytest.mark.parametrize("target", ["state", "box"])
def test_scenes_rendered_once_without_val_or_test(tmp_path, cache, target):
    options: dict[str, Any] = {"size": 16, "max_objects": 4, "train": 2, "folder": tmp_path / "scenes"}
    task = scenes(target, val=0, test=0, **options)
    assert [len(task.split(s)) for s in ("train", "val", "test")] == [2, 0, 0]
    with pytest.raises(ValueError, match="train must be at least 1 to render scenes into a folder, got 0"):
        scenes(target, val=0, test=1, **(options | {"train": 0, "folder": tmp_path / "none"}))
    empty = generate(SceneOptions(tmp_path / "empty", train=0, val=1, size=8))
    with pytest.raises(ValueError, match=r"CLEVR_train_scenes.json has no scenes"):
        clevr(empty)
