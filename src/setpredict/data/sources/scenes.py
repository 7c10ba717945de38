"""Our own CLEVR: scenes sampled by its rules and rendered, endless in memory or written to disk in its layout.

Nothing heavy is imported until a scene is made, so that the command line can show the options at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

if TYPE_CHECKING:
    from setpredict.data.task import SetTask


@dataclass(frozen=True)
class SceneOptions:
    """What to generate, and where."""

    out: Positional[Path]
    """The folder to write to; interrupted generation goes on there."""
    train: int = 70_000
    """Scenes for training."""
    val: int = 15_000
    """Scenes for validation (the tests of CLEVR's users run on them)."""
    size: int = 128
    """Side of the square images, in pixels."""
    seed: int = 0
    min_objects: int = 3
    max_objects: int = 10
    workers: int = 0
    """Threads; 0 means one for each core. The result does not depend on it."""
    states_only: bool = False
    """Write the scene files without rendering any image."""


def generate(options: SceneOptions) -> Path:
    """Write scenes in CLEVR's layout, so that `clevr(out)` reads them; returns the folder."""
    from setpredict.data.render.writer import write_scenes

    return write_scenes(options)


def scenes(
    target: Literal["state", "box"] = "state",
    boxes: Literal["paper", "exact"] = "exact",
    *,
    size: int = 128,
    seed: int = 0,
    min_objects: int = 3,
    max_objects: int = 10,
    states_only: bool = False,
    train: int = 70_000,
    val: int = 1_000,
    test: int = 1_000,
    folder: str | Path | None = None,
) -> SetTask:
    """Scenes made while training, without a disk: each epoch of `train` scenes is new. Or, with a `folder`, rendered
    into it once and read from there in every epoch and by every later run.

    Images are rendered in the loader (about 15 ms each): use as many `workers` as there are cores. With
    `states_only` nothing is rendered and the set is its own input, to auto-encode states or boxes.
    """
    if folder is not None:
        if states_only:
            raise ValueError("states_only renders nothing: leave out the folder")
        if train < 1:
            raise ValueError(f"train must be at least 1 to render scenes into a folder, got {train}")
        out = generate(SceneOptions(Path(folder).expanduser(), train + val, test, size, seed, min_objects, max_objects))
        from setpredict.data.sources.clevr import clevr

        stored = clevr(out, target, boxes, size=size, seed=seed, val=val / (train + val), most=max_objects)
        return replace(stored, name=f"scenes-{target}")
    from setpredict.data.sources.scene_task import scene_task

    counts = {"train": train, "val": val, "test": test}
    return scene_task(counts, target, boxes, size, seed, min_objects, max_objects, states_only)
