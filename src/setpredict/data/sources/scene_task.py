"""Generated scenes as a task: sampled and rendered when a batch asks for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from setpredict.data import clevr_boxes, clevr_state
from setpredict.data.io.images import images_to_float
from setpredict.data.render.tracer import render
from setpredict.data.ragged import RaggedArray
from setpredict.data.render.sampler import check_counts, check_side, sample_scene, scene_table
from setpredict.data.task import Batch, SetTask


def scene_task(
    counts: dict[str, int],
    target: str,
    boxes: str,
    size: int,
    seed: int,
    min_objects: int,
    max_objects: int,
    states_only: bool,
) -> SetTask:
    """See `scenes`."""
    if target not in ("state", "box"):
        raise ValueError(f"target must be state or box, got {target!r}")
    if boxes not in ("paper", "exact"):
        raise ValueError(f"boxes must be paper or exact, got {boxes!r}")
    check_side(size)
    check_counts(min_objects, max_objects)
    box = target == "box"
    features = len(clevr_boxes.FEATURE_NAMES) if box else clevr_state.FEATURES

    def split(name: str) -> SceneSplit:
        kind = boxes if box else "state"
        image_size = None if states_only else size
        return SceneSplit(counts[name], name, seed, kind, image_size, min_objects, max_objects)

    return SetTask(
        name=f"scenes-{target}",
        input_kind="set" if states_only else "image",
        input_size=features if states_only else size,
        max_size=max_objects,
        features=features,
        variable=min_objects != max_objects,
        kind="boxes" if box else "states",
        train=split("train"),
        val=split("val"),
        test=split("test"),
        feature_names=clevr_boxes.FEATURE_NAMES if box else clevr_state.FEATURE_NAMES,
        groups={} if box else clevr_state.GROUPS,
        categories={} if box else clevr_state.ATTRIBUTES,
        spoken=() if box else clevr_state.SPOKEN,
        scale=None if box else clevr_state.SCALE,
        auto_encodes=states_only,
    )


@dataclass(frozen=True)
class SceneSplit:
    count: int
    split: str
    seed: int
    target: str
    """state, paper or exact."""
    size: int | None
    """None: the set is its own input."""
    min_objects: int
    max_objects: int

    def __len__(self) -> int:
        return self.count

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        indices = np.asarray(indices, dtype=np.int64)
        counts = (self.min_objects, self.max_objects)
        scenes = [sample_scene(self.seed, self.split, int(i), epoch, *counts) for i in indices]
        table = scene_table(scenes)
        if self.target == "state":
            rows = clevr_state.encode_states(table.coords, table.attributes)
        elif self.target == "paper":
            rows = clevr_boxes.paper_boxes(table).astype(np.float32)
        else:
            rows = clevr_boxes.exact_boxes(table, np.stack([s.camera for s in scenes])).astype(np.float32)
        target = RaggedArray(rows, table.offsets).padded(np.arange(len(scenes)), self.max_objects)
        if self.size is None:
            return Batch(target, target, torch.from_numpy(indices))
        images = np.stack([render(s.view, self.size) for s in scenes])  # (B, H, W, 3)
        return Batch(images_to_float(images.transpose(0, 3, 1, 2)), target, torch.from_numpy(indices))
