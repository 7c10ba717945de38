"""`setpredict plot --animate`: the samples of a model, or of two, taking shape in a loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from setpredict.core.errors import UserError
from setpredict.core.progress import track
from setpredict.report.figures.animation import check_ending, frame, frame_times, save_animation
from setpredict.report.plot import check_drawable_steps, load_models, name_beside
from setpredict.report.watched import first_samples, watch
from setpredict.runs.loaded import LoadedRun


@torch.no_grad()
def animate_run(
    name: str | Path,
    path: Path,
    samples: Sequence[int] | None = None,
    steps: Sequence[int] = (),
    baseline: str | Path | None = None,
    split: str = "test",
    console: Console | None = None,
    allow_own_code: bool = False,
    data: str | Path | None = None,
) -> Path:
    """Write some samples of a model taking shape, as a looping GIF or WebP of at most 2 MB; returns the file.

    Args:
        name: The folder of a run, or the name of a shipped model.
        path: The file, which ends in .gif or .webp.
        samples: Indices of the samples in the split, side by side (None: the first four).
        steps: The largest is the last step (none: each model stops at its trained steps).
        baseline: Another run or shipped model on the same data, drawn below.
        split: train, val, test or all.
        console: Where the file is printed (None: nowhere).
        allow_own_code: Import encoders and decoders of somebody's own, as `load` does.
        data: The path of other data than the run's.
    """
    check_ending(path)
    check_drawable_steps(steps)
    run, other = load_models(name, baseline, data, allow_own_code)
    if not run.steps and not (other and other.steps):
        raise UserError(f"{run.name} decodes in one shot, so nothing moves: animate a model that takes steps")
    last = max(steps) if steps else None
    samples = first_samples(run, split) if samples is None else samples
    watched = watch(run, samples, split, _last_step(run, last))
    predictions = {run.method: watched.prediction}
    if other is not None:
        predictions[name_beside(run, other)] = other.model(watched.batch.input, steps=_last_step(other, last))
    times = frame_times(run.task, max(p.steps for p in predictions.values()))
    images = [
        frame(run.task, watched.batch, predictions, range(len(samples)), time) for time in track(times, "frames", 1)
    ]
    save_animation(images, path)
    (console or Console(quiet=True)).print(f"Written: {path}", soft_wrap=True, markup=False)
    return path


def _last_step(run: LoadedRun, last: int | None) -> int | None:
    """The number of steps to decode with (None: as trained); a one-shot decoder has none."""
    if last is None or not run.steps:
        return None
    return min(last, run.model.max_steps or last)
