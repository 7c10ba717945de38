"""`setpredict plot --animate`: what moves where, the files, and what is counted as recovered."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from setpredict.cli.main import run as command
from setpredict.core.errors import UserError
from setpredict.data.sources.multisets import multisets
from setpredict.data.task import SetTask
from setpredict.report.figures import animation
from setpredict.report.figures.animation import between, frame, frame_times, moments, save_animation
from setpredict.report.figures.palette import RIGHT, WRONG
from setpredict.report.tables.judged import NEAR_POINT, count_right, judge_points
from setpredict.sets import Sets
from tests.report.trajectories import batch_of, trajectory_to


def noise_frames(count: int, size: int = 400) -> list[Image.Image]:
    """Frames that no format compresses well."""
    random = np.random.default_rng(0)
    return [Image.fromarray(random.integers(0, 256, (size, size, 3), dtype=np.uint8)) for _ in range(count)]


def test_frames_start_at_the_first_set_and_end_at_the_last():
    times = moments(20)
    assert (times[0], times[-1], len(times)) == (0.0, 20.0, animation.FRAMES)
    assert np.all(np.diff(times) >= 0)
    assert np.diff(times)[0] < np.diff(times)[-1]


def test_sets_between_steps_lie_on_the_line_between_them(task: SetTask):
    trajectory = trajectory_to(batch_of(task), steps=3)
    middle = between(trajectory, 1.25)
    expected = 0.75 * trajectory.elements[1] + 0.25 * trajectory.elements[2]
    torch.testing.assert_close(middle.elements, expected)
    torch.testing.assert_close(middle.mask, 0.75 * trajectory.mask[1] + 0.25 * trajectory.mask[2])
    for time, t in ((0.0, 0), (2.0, 2), (3.0, 3), (99.5, 3)):  # a model with fewer steps than another waits at its last
        torch.testing.assert_close(between(trajectory, time).elements, trajectory.elements[t])


def test_every_kind_of_set_has_frames_of_one_size(task: SetTask):
    batch = batch_of(task)
    trajectories = {"ours": trajectory_to(batch, 2), "another": trajectory_to(batch, 1)}
    images = [frame(task, batch, trajectories, [0, 3], time) for time in (0.0, 1.5, 2.0)]
    assert len({image.size for image in images}) == 1
    assert np.any(np.asarray(images[0]) != np.asarray(images[-1]))
    assert frame_times(task, 2)[-1] == 2.0


def colors_of(image: Image.Image) -> set[str]:
    counts = image.getcolors(1 << 20)
    assert counts
    return {"#{:02x}{:02x}{:02x}".format(*color) for _, color in counts if isinstance(color, tuple)}


def test_recovered_points_are_blue_and_others_red():
    task = multisets(4, val=6)
    batch = batch_of(task)
    trajectory = trajectory_to(batch, 2)
    first, last = (colors_of(frame(task, batch, {"ours": trajectory}, [0, 1], time)) for time in (0.0, 2.0))
    assert WRONG in colors_of(frame(task, batch, {"ours": replace(trajectory, mask=trajectory.mask * 0 + 1)}, [0], 0.0))
    assert RIGHT in last - first
    assert WRONG not in last


def test_points_are_recovered_as_by_brute_force():
    """All matchings are tried: the count is that of the one whose sum of distances is smallest."""
    task, random = multisets(4, val=6), torch.Generator().manual_seed(0)
    target = Sets.from_list(torch.rand(20, 4, 2, generator=random))
    predicted = Sets(target.elements + 0.03 * torch.randn(20, 4, 2, generator=random), torch.ones(20, 4))
    seen = set()
    for sample in range(20):
        distances = torch.cdist(predicted.elements[sample].double(), target.elements[sample].double()).numpy()
        best = min(permutations(range(4)), key=lambda order: sum(distances[i, j] for j, i in enumerate(order)))
        near = {i for j, i in enumerate(best) if distances[i, j] <= NEAR_POINT}
        assert judge_points(task, predicted, target, sample) == [i in near for i in range(4)]
        assert count_right(task, predicted, target, sample) == len(near)
        seen.add(len(near))
    assert len(seen) > 2


def test_absent_points_are_not_recovered():
    task = multisets(4, variable=True, val=6)
    target = batch_of(task).target
    absent = Sets(target.elements, torch.full_like(target.mask, 0.4, dtype=torch.float))
    assert [count_right(task, absent, target, i) for i in range(4)] == [0] * 4
    assert [count_right(task, target, target, i) for i in range(4)] == target.sizes.tolist()


@pytest.mark.parametrize("ending", [".gif", ".webp"])
def test_an_animation_loops_with_a_pause_at_the_end(ending: str, tmp_path: Path):
    images = noise_frames(5, 40)
    with Image.open(save_animation(images, tmp_path / f"a{ending}")) as opened:
        assert (getattr(opened, "n_frames", 1), opened.info["loop"]) == (5, 0)
        times = []
        for i in range(5):
            opened.seek(i)
            opened.load()
            times.append(opened.info["duration"])
    assert times == [animation.PAUSES[0], *[animation.MILLISECONDS] * 3, animation.PAUSES[1]]


def test_a_large_animation_is_drawn_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(animation, "MOST_BYTES", 400_000)
    path = save_animation(noise_frames(5), tmp_path / "a.gif")
    assert path.stat().st_size <= 400_000
    with Image.open(path) as opened:
        assert 100 < opened.width < 400


def test_an_animation_that_is_too_large_leaves_the_former_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(animation, "MOST_BYTES", 1000)
    (tmp_path / "a.gif").write_bytes(b"former")
    with pytest.raises(UserError, match="even when drawn small"):
        save_animation(noise_frames(3, 100), tmp_path / "a.gif")
    assert (tmp_path / "a.gif").read_bytes() == b"former"
    assert [path.name for path in tmp_path.iterdir()] == ["a.gif"]


def test_two_models_are_animated(runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(animation, "FRAMES", 4)
    out = tmp_path / "a.gif"
    options = ["--baseline", str(runs["mlp"]), "--samples", "0", "1", "--animate", str(out)]
    assert command(["plot", str(runs["dspn"]), *options]) == 0
    with Image.open(out) as opened:
        assert opened.height > opened.width  # two samples side by side, and two models with a line of text each
        assert getattr(opened, "n_frames", 1) > 1


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("dspn", ["--animate", "a.png"], "--animate must be a file that ends in .gif or .webp, got a.png"),
        ("mlp", ["--animate", "a.gif"], "mlp decodes in one shot, so nothing moves"),
        ("dspn", ["--animate", "a.gif", "--out", "b"], "--out b is the folder for figures"),
        ("dspn", ["--animate", "a.gif", "--steps", "5000"], "--steps must be from 0 to 1000"),
    ],
)
def test_animate_names_the_wrong_option(
    model: str, options, message: str, runs: dict[str, Path], capsys: pytest.CaptureFixture
):
    assert command(["plot", str(runs[model]), *options]) == 2
    assert message in capsys.readouterr().err
