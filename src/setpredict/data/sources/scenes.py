"""Scenes sampled by CLEVR's rules and rendered: in memory while training, or written to disk in CLEVR's layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from setpredict.config import SceneOptions
from setpredict.core.errors import UserError
from setpredict.data.batch import Batch
from setpredict.data.clevr.targets import Boxes, ObjectTarget, Target, object_centers
from setpredict.data.io.images import images_to_float
from setpredict.data.render.sampler import check_counts, check_side, sample_scene, scene_table
from setpredict.data.render.tracer import render
from setpredict.data.render.writer import write_scenes
from setpredict.data.sources.clevr import clevr
from setpredict.data.task import SetTask
from setpredict.sets import Sets


def scenes(
    target: Target = "state",
    boxes: Boxes = "paper",
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
    """Scenes that are generated while training, with new training scenes in each epoch. With a `folder`, scenes are
    rendered into it once and read from there in every epoch and by every later run.

    Images are rendered in the loader: use as many `workers` as there are cores. With `states_only`
    nothing is rendered and each set is its own input, to auto-encode states or boxes. `boxes` are by default those of
    the paper's protocol, a heuristic; "exact" ones are the bounding boxes of the objects' outlines.
    """
    objects = ObjectTarget(target, boxes)
    check_side(size)
    check_counts(min_objects, max_objects)
    if folder is not None:
        if states_only:
            raise UserError("with states_only nothing is rendered: leave out the folder")
        if train < 1:
            raise UserError(f"train must be at least 1 to render scenes into a folder, got {train}")
        out = write_scenes(
            SceneOptions(Path(folder).expanduser(), train + val, test, size, seed, min_objects, max_objects)
        )
        part = val / (train + val)
        stored = clevr(out, target, boxes, size=size, seed=seed, val=part, max_objects=max_objects)
        return replace(stored, name=f"scenes-{target}")

    def split(name: str, count: int) -> SceneSplit:
        return SceneSplit(count, name, seed, objects, None if states_only else size, min_objects, max_objects)

    description = objects.description
    return SetTask(
        name=f"scenes-{target}",
        input_kind="set" if states_only else "image",
        input_size=description["features"] if states_only else size,
        max_size=max_objects,
        variable=min_objects != max_objects,
        train=split("train", train),
        val=split("val", val),
        test=split("test", test),
        has_centers=not states_only,
        auto_encodes=states_only,
        **description,
    )


@dataclass(frozen=True)
class SceneSplit:
    """A split of scenes that are sampled and rendered on demand."""

    count: int
    split: str
    seed: int
    target: ObjectTarget
    size: int | None
    """Side length of the images; None: each set is its own input."""
    min_objects: int
    max_objects: int

    def __len__(self) -> int:
        return self.count

    def sets(self, indices: np.ndarray) -> Sets:
        """Only the targets of the first epoch, without rendering."""
        return replace(self, size=None).batch(indices, 0).target

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        indices = np.asarray(indices, dtype=np.int64)
        counts = (self.min_objects, self.max_objects)
        scenes = [sample_scene(self.seed, self.split, int(i), epoch, *counts) for i in indices]
        cameras = np.stack([s.camera for s in scenes])  # (B, 3)
        table = scene_table(scenes)
        objects = self.target.encode(table, cameras)
        target = objects.padded(np.arange(len(scenes)), self.max_objects)
        if self.size is None:
            return Batch(target, target, torch.from_numpy(indices))
        images = np.stack([render(s.view, self.size) for s in scenes])  # (B, H, W, 3)
        centers = object_centers(table).padded(np.arange(len(scenes)), self.max_objects).elements
        pixels = images_to_float(images.transpose(0, 3, 1, 2))
        return Batch(pixels, target, torch.from_numpy(indices), centers)
