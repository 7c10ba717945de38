"""The scenes of a tab: the same for all its models, beginning with one that they predict well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch

from setpredict.report.tables.judged import count_right
from setpredict.web.catalog import Served
from setpredict.web.scene_pictures import scene_split

CANDIDATES = 16
"""The first samples of the split; rendering and decoding them takes less than a second."""


def choose_first_samples(models: Iterable[Served]) -> None:
    """Give the models that share a tab of scenes the same scenes, and set their `first_sample`; others begin with 0."""
    tabs: dict[str, list[Served]] = {}
    for served in models:
        if served.tab != "run" and scene_split(served.source) is not None:
            tabs.setdefault(served.tab, []).append(served)
    for sharing in tabs.values():
        _share_scenes(sharing)
        count = min(CANDIDATES, *(len(served.source or ()) for served in sharing))
        if count:
            best = int(np.sum([_found(served, count) for served in sharing], axis=0).argmax())
            for served in sharing:
                served.first_sample = best


def _share_scenes(models: Sequence[Served]) -> None:
    """Let all models be asked about the same scenes, with as many objects as every one of them can predict."""
    splits = [split for served in models if (split := scene_split(served.source)) is not None]
    common = {
        "seed": splits[0].seed,
        "split": splits[0].split,
        "count": min(len(served.source or ()) for served in models),
        "min_objects": max(split.min_objects for split in splits),
        "max_objects": min(split.max_objects for split in splits),
    }
    if common["min_objects"] <= common["max_objects"]:
        for served, split in zip(models, splits, strict=True):
            served.source = replace(split, **common)


@torch.no_grad()
def _found(served: Served, count: int) -> np.ndarray:
    """For each of the first samples the fraction of elements that are right; more elements count a little more."""
    assert served.source is not None
    batch = served.source.batch(np.arange(count), 0)
    predicted = served.model.predict(batch.input)
    scores = []
    for i in range(count):
        right = count_right(served.task, predicted, batch.target, i) or 0
        true, shown = int(batch.target.sizes[i]), int((predicted.mask[i] > 0.5).sum())
        scores.append(right / max(true, shown, 1) + 0.04 * right)
    return np.array(scores)
