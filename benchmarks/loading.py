"""The share of a training step that waits for data: photos with boxes, augmented by one worker thread.

`python -m benchmarks.loading` prints it. The steps are those of `setpredict train folder`, with one thread; the photos
are random ones of 400×300 pixels in JPEG files.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from setpredict.build import make_loss, make_task
from setpredict.config import Experiment
from setpredict.data.task import SetTask
from setpredict.model import SetPredictor
from setpredict.presets import preset
from setpredict.resolve import model_config, resolved
from setpredict.training.devices import make_fabric
from setpredict.training.loop import TrainState, forward, update

SKIPPED = 3
"""Batches until the worker has started and kernels are compiled."""


def photos(folder: Path, count: int, seed: int = 0) -> None:
    """A data set of smooth random pictures, each with one to four boxes."""
    rng = np.random.default_rng(seed)
    (folder / "images").mkdir()
    lines = []
    for i in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (15, 20, 3), dtype=np.uint8))
        coarse.resize((400, 300), Image.Resampling.BICUBIC).save(folder / "images" / f"{i}.jpg", quality=90)
        corners = rng.integers(0, [300, 200], (rng.integers(1, 5), 2))
        boxes = np.concatenate([corners, corners + rng.integers(20, 100, corners.shape)], axis=1)
        lines.append(json.dumps({"input": f"images/{i}.jpg", "set": boxes.tolist()}))
    (folder / "train.jsonl").write_text("\n".join(lines) + "\n")


def waiting(count: int = 512, epochs: int = 3, workers: int = 1) -> tuple[float, float]:
    """Seconds of waiting for a batch and of a whole step, on average."""
    before = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as place, _cache(Path(place) / "cache"):
        photos(Path(place), count)
        experiment = preset("folder", "auto", "small")
        experiment.data = replace(experiment.data, folder=place)
        task = make_task(experiment.data)
        experiment = resolved(experiment, task)
        experiment.train = replace(experiment.train, workers=workers, threads=1)
        torch.set_num_threads(1)
        try:
            return _steps(experiment, task, epochs)
        finally:
            torch.set_num_threads(before)


def _steps(experiment: Experiment, task: SetTask, epochs: int) -> tuple[float, float]:
    """Train, and measure every step but the first ones of an epoch, whose worker thread is just starting."""
    train = experiment.train
    fabric = make_fabric(train)
    state = TrainState.fresh(fabric, SetPredictor.from_config(model_config(experiment, task)), train)
    loss, waits, steps = make_loss(experiment.loss, task), [], []
    state.module.train()
    for epoch in range(epochs):
        began = time.perf_counter()
        for i, batch in enumerate(task.loader("train", train.batch_size, workers=train.workers, epoch=epoch)):
            waited = time.perf_counter() - began
            parts, _ = forward(fabric, state, batch, loss, train, epoch, done=0.5)
            fabric.backward(parts["loss"])
            update(fabric, state, train, done=0.5)
            now = time.perf_counter()
            if i >= SKIPPED:
                waits.append(waited)
                steps.append(now - began)
            began = now
    return float(np.mean(waits)), float(np.mean(steps))


@contextmanager
def _cache(folder: Path):
    """A cache of its own, so that nothing stays behind."""
    old = os.environ.get("SETPREDICT_CACHE")
    os.environ["SETPREDICT_CACHE"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("SETPREDICT_CACHE")
        if old is not None:
            os.environ["SETPREDICT_CACHE"] = old


if __name__ == "__main__":
    wait, step = waiting()
    print(f"{100 * wait / step:.1f} % of a step ({1000 * step:.0f} ms) waits for data")
