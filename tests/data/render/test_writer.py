"""The generator: CLEVR's layout, the same bytes for any number of workers, and no partial files."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from setpredict.config import SceneOptions
from setpredict.core.errors import UserError
from setpredict.data.render import writer
from setpredict.data.render.sampler import sample_scene
from setpredict.data.render.writer import write_scenes
from setpredict.data.sources.clevr import clevr
from setpredict.data.sources.scenes import scenes
from tests.data.state_objects import objects_to_state, state_to_objects


def digest(folder: Path) -> str:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.endswith(".lock"))
    return hashlib.sha256(b"".join(str(p.relative_to(folder)).encode() + p.read_bytes() for p in files)).hexdigest()


def test_same_bytes_on_1_2_and_4_workers(tmp_path: Path):
    options = SceneOptions(tmp_path, train=70, val=5, size=16)
    digests = {
        digest(write_scenes(replace(options, out=tmp_path / str(workers), workers=workers))) for workers in (1, 2, 4)
    }
    assert len(digests) == 1


def test_a_complete_folder_is_only_read(tmp_path: Path, monkeypatch):
    """It may be on a disk that cannot be written to."""
    options = SceneOptions(tmp_path / "out", train=3, val=2, size=16)
    write_scenes(options)
    monkeypatch.setattr(writer, "build_lock", None)
    assert write_scenes(options) == options.out
    with pytest.raises(UserError, match="was begun with size 16, not 17"):
        write_scenes(replace(options, size=17))
    (options.out / "scenes" / "CLEVR_val_scenes.json").unlink()
    with pytest.raises(TypeError):  # it wants the lock
        write_scenes(options)


def test_layout_and_loader(tmp_path: Path):
    out = write_scenes(SceneOptions(tmp_path / "out", train=10, val=3, size=24, seed=3))
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
    small = write_scenes(SceneOptions(tmp_path / "a", train=4, val=0, size=8))
    states = write_scenes(SceneOptions(tmp_path / "b", train=4, val=0, size=64, states_only=True))
    a, b = (json.loads((p / "scenes/CLEVR_train_scenes.json").read_text())["scenes"] for p in (small, states))
    assert a == b
    assert not list(states.rglob("*.png"))
    assert json.loads((small / "scenes/CLEVR_val_scenes.json").read_text())["scenes"] == []


def test_object_count_range(tmp_path: Path):
    out = write_scenes(SceneOptions(tmp_path / "a", train=12, val=0, states_only=True, min_objects=1, max_objects=2))
    counts = {len(s["objects"]) for s in json.loads((out / "scenes/CLEVR_train_scenes.json").read_text())["scenes"]}
    assert counts == {1, 2}


def test_a_folder_with_other_content_or_other_options_is_an_error(tmp_path: Path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.txt").write_text("meow")
    with pytest.raises(UserError, match=r"photos is not empty \(cat.txt\) and was not begun by this command"):
        write_scenes(SceneOptions(tmp_path / "photos", train=1, val=1))
    options = SceneOptions(tmp_path / "out", train=2, val=1, size=8)
    write_scenes(options)
    before = digest(options.out)
    write_scenes(options)  # nothing to do
    assert digest(options.out) == before
    with pytest.raises(UserError, match="out was begun with seed 0, not 1; use another folder"):
        write_scenes(replace(options, seed=1))
    with pytest.raises(UserError, match="train must be at least 0, got -1"):
        write_scenes(replace(options, train=-1))
    (options.out / "generator.json").write_text("[]")
    with pytest.raises(UserError, match=r"generator.json does not contain the options of .*out; use another folder"):
        write_scenes(options)
    (options.out / "generator.json").write_text('{"seed": 0')
    with pytest.raises(UserError, match=r"generator.json is not valid JSON: .* at line 1, column 11"):
        write_scenes(options)


@pytest.mark.parametrize(("change", "message"), [
    ({"size": 0}, "size must be from 1 to 4096 pixels, got 0"),
    ({"size": 10**6}, "size must be from 1 to 4096 pixels, got 1000000"),
    ({"train": 10**12}, "train must be at most 10000000, got 1000000000000"),
    ({"val": -3}, "val must be at least 0, got -3"),
    ({"workers": 10**6}, "workers must be at most 256, got 1000000"),
    ({"seed": -1}, "seed must be at least 0, got -1"),
    ({"max_objects": 10**12, "min_objects": 10**12}, "a scene can have at most 100 objects, got max 1000000000000"),
    ({"max_objects": -1}, "0 <= min <= max, got min 3 and max -1"),
])  # fmt: skip
def test_impossible_numbers_are_errors_before_anything_is_written(tmp_path: Path, change: dict, message: str):
    with pytest.raises(UserError, match=message):
        write_scenes(replace(SceneOptions(tmp_path / "out", train=1, val=0, size=8), **change))
    assert not (tmp_path / "out").exists()
    if "size" in change:
        with pytest.raises(UserError, match=message):
            scenes(size=change["size"])


def test_killed_and_resumed(tmp_path: Path):
    out = tmp_path / "out"
    code = (
        "from pathlib import Path; from setpredict.config import SceneOptions;"
        "from setpredict.data.render.writer import write_scenes;"
        f"write_scenes(SceneOptions(Path({str(out)!r}), train=130, val=2, size=48, workers=2))"
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
    for part in done:  # complete, and so are their images
        for scene in json.loads(part.read_text()):
            assert (out / "images/train" / scene["image_filename"]).stat().st_size > 0
    first = json.loads(done[0].read_text())[0]["image_filename"]
    image_time = (out / "images/train" / first).stat().st_mtime_ns
    write_scenes(SceneOptions(out, train=130, val=2, size=48))
    assert (out / "images/train" / first).stat().st_mtime_ns == image_time  # not rendered again
    assert not list(out.rglob("*.tmp"))
    assert digest(out) == digest(write_scenes(SceneOptions(tmp_path / "at once", train=130, val=2, size=48)))
