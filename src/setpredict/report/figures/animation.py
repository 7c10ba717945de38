"""Sets taking shape as a looping animation: one row per model, one column per sample, as GIF or WebP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from setpredict.core.errors import UserError
from setpredict.core.files import atomic
from setpredict.data.task import Batch, SetTask
from setpredict.report.figures.drawing import MANY, draw_set, input_image, shown_as_text, target_is_behind
from setpredict.report.figures.palette import GRAY, INK, RIGHT, WRONG
from setpredict.report.tables.judged import count_right, judge_points
from setpredict.sets import Prediction, Sets

ENDINGS = (".gif", ".webp")
MOST_BYTES = 2_000_000
"""A larger file is drawn smaller: pages and chats that show animations stop at a few megabytes."""
FRAMES = 50
MILLISECONDS = 70
"""Of each frame, except for the first and the last."""
PAUSES = (900, 2600)
"""Milliseconds of the first and the last frame."""
DPI = 150
TITLE, GAP = 0.26, 0.09
"""Inches of the line above a row of panels, and between panels."""
OBJECTS = {"states": "objects", "polygons": "corners"}
"""What the elements of a kind are called, where that is not the name of the kind."""


def moments(steps: int, frames: int = FRAMES) -> list[float]:
    """The times of the frames from step 0 to T, between steps too: closer together at the start, where sets move most.

    >>> moments(4, 3)
    [0.0, 1.41, 4.0]
    """
    return [round(steps * (i / (frames - 1)) ** 1.5, 2) for i in range(frames)]


def between(prediction: Prediction, time: float) -> Sets:
    """The set at a time between two steps, on the straight line between theirs; after T, the last set."""
    time = min(time, prediction.steps)
    t = int(time)
    if t == time:
        return prediction.step(t)
    now, then, part = prediction.step(t), prediction.step(t + 1), time - t
    return Sets(now.elements.lerp(then.elements, part), now.mask.lerp(then.mask, part))


def frame_times(task: SetTask, steps: int) -> list[float]:
    """The times of all frames of an animation up to a step; text changes only at steps, since words do not move."""
    times = moments(steps)
    return sorted({float(int(t)) for t in times}) if shown_as_text(task) else times


def frame(
    task: SetTask, batch: Batch, predictions: Mapping[str, Prediction], samples: Sequence[int], time: float
) -> Image.Image:
    """All models and samples at one time: a line of text, then a row of panels, for each model.

    Args:
        task: The data set that the batch comes from.
        batch: Inputs and targets.
        predictions: The trajectory that each model predicts for the batch, by the model's name.
        samples: The samples of the batch to draw, one column each.
        time: The step, or a time between two steps.
    """
    rows: list[tuple[str, Sets | None]] = []
    for name, prediction in predictions.items():
        now = between(prediction, time)
        rows.append((_title(name, prediction, time) + _score(task, now, batch.target, samples), now))
    if not target_is_behind(task):
        rows.append(("target", None))
    as_text = shown_as_text(task)
    wide, high = (2.6, max(0.14 * (task.max_size + 1), 0.8)) if as_text else (1.4, 1.4)
    heights = [high] * len(rows)
    if as_text and task.input_kind == "image":
        rows, heights = [("input", None), *rows], [1.2, *heights]
    width = len(samples) * (wide + GAP) + GAP
    height = sum(heights) + len(rows) * TITLE + GAP
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    bottom = height
    for (text, shown), size in zip(rows, heights):
        bottom -= TITLE + size
        figure.text(GAP / width, (bottom + size + 0.07) / height, text, fontsize=8, color=INK, parse_math=False)
        for column, sample in enumerate(samples):
            left = GAP + column * (wide + GAP)
            axes = figure.add_axes((left / width, bottom / height, wide / width, size / height))
            if text == "input":
                _draw_input(axes, task, batch, sample)
            else:
                draw_set(axes, task, batch, sample, shown, colors=_colors(task, shown, batch.target, sample))
            for edge in axes.spines.values():
                edge.set(color=GRAY, linewidth=0.8)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())


def check_ending(path: Path) -> None:
    """Raise a UserError for a file that is no animation."""
    if path.suffix.lower() not in ENDINGS:
        raise UserError(f"--animate must be a file that ends in {' or '.join(ENDINGS)}, got {path}")


def save_animation(images: Sequence[Image.Image], path: Path) -> Path:
    """Write frames as a loop that rests on the first and the last, with at most 2 MB: drawn smaller if need be."""
    times = [PAUSES[0], *[MILLISECONDS] * (len(images) - 2), PAUSES[1]]
    with atomic(path) as temporary:
        for scale in (1.0, 0.8, 0.65, 0.5, 0.4, 0.3):
            _write(images, times, scale, temporary, path.suffix.lower())
            if temporary.stat().st_size <= MOST_BYTES:
                return path
        raise UserError(f"{path} has more than {MOST_BYTES / 1e6:g} MB even when drawn small: choose fewer --samples")


def _write(images: Sequence[Image.Image], times: Sequence[int], scale: float, path: Path, ending: str) -> None:
    size = (round(scale * images[0].width), round(scale * images[0].height))
    scaled = [image if scale == 1 else image.resize(size, Image.Resampling.LANCZOS) for image in images]
    options = {"save_all": True, "duration": list(times), "loop": 0}
    if ending == ".webp":
        scaled[0].save(path, "WEBP", append_images=scaled[1:], quality=80, method=4, **options)
        return
    palette = _palette(scaled)  # one for all frames: else colors flicker
    indexed = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in scaled]
    indexed[0].save(path, "GIF", append_images=indexed[1:], optimize=False, **options)


def _palette(images: Sequence[Image.Image]) -> Image.Image:
    """255 colors for all frames, from the first, the middle and the last one."""
    chosen = [images[0], images[len(images) // 2], images[-1]]
    sheet = Image.new("RGB", (chosen[0].width, sum(image.height for image in chosen)))
    for i, image in enumerate(chosen):
        sheet.paste(image, (0, i * image.height))
    return sheet.quantize(255, Image.Quantize.MAXCOVERAGE)  # keeps white white


def _title(name: str, prediction: Prediction, time: float) -> str:
    """The model and its step; a one-shot decoder has none."""
    return f"{name}, step {min(int(time), prediction.steps)}" if prediction.steps else f"{name}, in one shot"


def _score(task: SetTask, sets: Sets, target: Sets, samples: Sequence[int]) -> str:
    """How many of the true elements of all samples were found; empty where elements are not judged one by one."""
    found = [count_right(task, sets, target, sample) for sample in samples]
    if task.max_size > MANY or any(n is None for n in found):
        return ""
    total = int(target.sizes[list(samples)].sum())
    return f": {sum(n or 0 for n in found)} of {total} {OBJECTS.get(task.kind, task.kind)} recovered"


def _colors(task: SetTask, shown: Sets | None, target: Sets, sample: int) -> list[str] | None:
    """Points in their rings are blue, others red, absent ones gray; other elements have colors of their own."""
    if shown is None or not target_is_behind(task):
        return None
    right = judge_points(task, shown, target, sample)
    present = (shown.mask[sample] > 0.5).tolist()
    return [RIGHT if r else WRONG if p else GRAY for r, p in zip(right, present)]


def _draw_input(axes: Axes, task: SetTask, batch: Batch, sample: int) -> None:
    image = input_image(task, batch, sample)
    if image is not None:
        axes.imshow(image)
    axes.set_axis_off()
