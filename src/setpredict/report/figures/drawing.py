"""One set on one pair of axes, drawn as its kind asks: points, polygons, boxes, objects in words, numbers."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from setpredict.data.task import Batch, SetTask
from setpredict.metrics.candidates import NO_GROUPS, Groups
from setpredict.report.tables.judged import ObjectRow, columns, judge_boxes, judge_objects, true_objects
from setpredict.report.figures.palette import FAINT, INK, MASKS, RIGHT, WRONG
from setpredict.sets import Sets

SHOWN = 0.02
"""Elements with less of a mask than this are not drawn."""


def in_words(task: SetTask) -> bool:
    """Whether elements are shown as words: objects, and anything else with categories that no picture shows."""
    return task.kind == "states" or (task.kind == "vectors" and bool(task.groups))


def input_image(task: SetTask, batch: Batch, sample: int) -> np.ndarray | None:
    """The input image (H, W, 3), if inputs are images."""
    if task.input_kind != "image" or not isinstance(batch.input, Tensor):
        return None
    return batch.input[sample].detach().float().cpu().clamp(0, 1).permute(1, 2, 0).numpy()


def draw_set(axes: Axes, task: SetTask, batch: Batch, sample: int, predicted: Sets | None, title: str = "") -> None:
    """One predicted set with its target behind it, or the target itself (`predicted=None`)."""
    image = input_image(task, batch, sample)
    if in_words(task):
        draw_objects(axes, task, predicted, batch.target, sample)
    elif task.kind == "boxes":
        shown = batch.target if predicted is None else predicted
        draw_boxes(axes, shown, batch.target, sample, image, task.groups)
    elif task.kind == "vectors":
        draw_numbers(axes, batch.target if predicted is None else predicted, sample)
    else:
        target = None if predicted is None else batch.target
        draw_points(axes, predicted or batch.target, sample, "", target, flipped=rows_first(task), image=image)
        if task.kind == "polygons":
            draw_outline(axes, batch.target, sample)
    axes.set_title(title, fontsize=9)


def rows_first(task: SetTask) -> bool:
    """Whether the first feature counts rows downwards (MNIST)."""
    return task.feature_names[:2] == ("row", "column")


def draw_points(
    axes: Axes,
    sets: Sets,
    sample: int,
    title: str = "",
    others: Sets | None = None,
    *,
    flipped: bool = False,
    image: np.ndarray | None = None,
) -> None:
    """One set of points, colored by mask (dark: present, light: absent); `others` as faint rings behind.

    `flipped` points are (row, column), rows downwards. Of more than two features the first two are drawn. Points that
    lie outside the frame are crosses on its edge.
    """
    elements, mask = _numpy(sets, sample)
    low, high = (-0.1, 1.1) if image is None else (0.0, 1.0)
    place = _place(flipped, image)
    shown = mask > SHOWN
    many = len(mask) > 60
    if image is not None:
        axes.imshow(image)
        axes.autoscale(False)
    if others is not None and not many:
        ring, there = _numpy(others, sample)
        x, y = place(ring[there > 0.5])
        axes.scatter(x, y, s=42, facecolors="none", edgecolors=FAINT, linewidths=1)
    drawn = elements.clip(low, high)
    outside = (drawn != elements)[:, :2].any(axis=1)
    size = 3 if many else 16
    for chosen, marker, width in ((shown & ~outside, "o", 0), (shown & outside, "x", 1.5)):
        x, y = place(drawn[chosen])
        if len(x):
            dots = axes.scatter(x, y, c=1 - mask[chosen], s=size, cmap=MASKS, vmin=0, vmax=1, marker=marker)
            dots.set(linewidth=width, clip_on=marker == "o")
    if image is None:
        axes.set(xlim=(low, high), ylim=(high, low) if flipped else (low, high), aspect="equal")
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize=9)


def draw_outline(axes: Axes, target: Sets, sample: int) -> None:
    """The true polygon as a thin line through its corners, in the order of their angle."""
    corners = target[sample].to_list()[0].cpu().numpy()[:, :2]
    if len(corners) < 3:
        return
    middle = corners.mean(axis=0)
    order = np.argsort(np.arctan2(*(corners - middle).T[::-1]))
    closed = corners[[*order, order[0]]]
    axes.plot(closed[:, 0], closed[:, 1], color=FAINT, linewidth=0.8, zorder=0)


def draw_boxes(
    axes: Axes, sets: Sets, target: Sets, sample: int, image: np.ndarray | None, groups: Groups = NO_GROUPS
) -> None:
    """Boxes on their image: right ones solid, wrong ones dashed, the fainter the smaller the mask."""
    elements, mask = _numpy(sets, sample)
    width, height = (image.shape[1], image.shape[0]) if image is not None else (1, 1)
    right = judge_boxes(sets, target, sample, groups)
    if image is not None:
        axes.imshow(image, extent=(0, width, height, 0))
    for box, score, good in zip(elements[:, :4], mask, right):
        if score <= 0.1:
            continue
        left, top, other, bottom = box * (width, height, width, height)
        color, line = (RIGHT, "-") if good else (WRONG, "--")
        frame = Rectangle((left, top), other - left, bottom - top, fill=False, edgecolor=color, linestyle=line)
        frame.set(alpha=float(score), linewidth=1.2)
        axes.add_patch(frame)
    axes.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[])


def draw_objects(axes: Axes, task: SetTask, predicted: Sets | None, target: Sets, sample: int) -> None:
    """Objects in words, a line each, in the order of the true ones; what is wrong is red and bold."""
    rows = true_objects(task, target, sample) if predicted is None else judge_objects(task, predicted, target, sample)
    heads = columns(task)
    widths = _widths(task)
    left = np.cumsum([0.0, *widths[:-1]]) / sum(widths)
    lines = max(task.max_size, len(rows)) + 1
    place = {"va": "center", "transform": axes.transAxes, "parse_math": False}
    for x, head in zip(left, heads):
        axes.text(x, 1 - 0.5 / lines, head, fontsize=5, color="#777777", **place)
    for line, row in enumerate(rows, start=1):
        y = 1 - (line + 0.5) / lines
        for x, cell in zip(left, row.cells):
            written = axes.text(x, y, cell.text, fontsize=5.5, **place)
            written.set(color=WRONG if cell.wrong else INK, weight="bold" if cell.wrong else "normal")
            written.set_alpha(_alpha(row))
    axes.set_axis_off()


def draw_numbers(axes: Axes, sets: Sets, sample: int) -> None:
    """Elements of any kind: a row each with its mask first, a column a feature."""
    elements, mask = _numpy(sets, sample)
    values = np.concatenate([mask[:, None], elements], axis=1)
    axes.imshow(values, aspect="auto", vmin=0, vmax=1, cmap=MASKS)
    axes.axvline(0.5, color="white", linewidth=1.5)
    axes.set(xticks=[], yticks=[])


def _place(flipped: bool, image: np.ndarray | None):
    """From elements (n, D) to columns x and y of the axes."""

    def place(elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = elements[:, 0]
        y = elements[:, 1] if elements.shape[1] > 1 else np.full_like(x, 0.5)
        if flipped:
            x, y = y, x
        return (x, y) if image is None else (x * image.shape[1], y * image.shape[0])

    return place


def _numpy(sets: Sets, sample: int) -> tuple[np.ndarray, np.ndarray]:
    mask = sets.mask[sample].detach().float().clamp(0, 1).cpu().numpy()
    return sets.elements[sample].detach().float().cpu().numpy(), mask


def _widths(task: SetTask) -> list[float]:
    """How wide each column of words is, in letters."""
    heads = columns(task)
    words = [max(len(w) for w in task.categories[n]) + 2 for n in (task.spoken or task.groups)]
    return ([6.0 * len(task.numbers) + 1] if len(heads) > len(words) else []) + [float(w) for w in words]


def _alpha(row: ObjectRow) -> float:
    """Objects that the model does not believe in are faint, never invisible."""
    return 0.3 + 0.7 * row.score


def some_steps(trained: int, most: int = 5) -> list[int]:
    """A few steps from 0 to T, closer together at the start, where most happens."""
    parts = torch.linspace(0, 1, most).square() * trained
    return sorted({round(float(p)) for p in parts})
