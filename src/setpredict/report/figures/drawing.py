"""One set on one pair of axes, drawn according to its kind: points, polygons, boxes, objects as text, or numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from setpredict.data.task import Batch, SetTask
from setpredict.metrics.candidates import NO_GROUPS, Groups
from setpredict.report.figures.palette import INK, MASK_COLORMAP, RIGHT, RING, SOFT, WRONG
from setpredict.report.tables.judged import ObjectRow, columns, judge_boxes, judge_objects, match_elements, true_objects
from setpredict.sets import Sets

MIN_MASK = 0.02
"""Points with a smaller mask are not drawn."""
MIN_BOX_MASK = 0.1
"""Boxes with a smaller mask are not drawn."""
MIN_NAMED_MASK = 0.3
"""Points with a smaller mask get no name."""
MANY = 60
"""Sets of more points than this are drawn with small dots, without names and without the target behind them."""
NAME_STYLE: dict[str, Any] = {"fontsize": 4.5, "clip_on": True, "parse_math": False}


def shown_as_text(task: SetTask) -> bool:
    """Whether elements are shown as text: objects, and other elements with categories that no picture shows."""
    return task.kind == "states" or (task.kind == "vectors" and bool(task.groups))


def target_is_behind(task: SetTask) -> bool:
    """Whether a predicted set is drawn over its target: points in their rings."""
    return task.kind in ("points", "polygons") and task.max_size <= MANY


def input_image(task: SetTask, batch: Batch, sample: int) -> np.ndarray | None:
    """The input image (H, W, 3), or None if inputs are not images."""
    if task.input_kind != "image" or not isinstance(batch.input, Tensor):
        return None
    return batch.input[sample].detach().float().cpu().clamp(0, 1).permute(1, 2, 0).numpy()


def draw_set(
    axes: Axes,
    task: SetTask,
    batch: Batch,
    sample: int,
    predicted: Sets | None,
    title: str = "",
    colors: Sequence[str] | None = None,
) -> None:
    """One predicted set with its target behind it, or the target itself (`predicted=None`).

    `colors` are the colors of points and boxes, one per element, instead of those for the mask and for right and wrong.
    """
    image = input_image(task, batch, sample)
    shown = batch.target if predicted is None else predicted
    if shown_as_text(task):
        draw_objects(axes, task, predicted, batch.target, sample)
    elif task.kind == "boxes":
        draw_boxes(axes, shown, batch.target, sample, image, task.groups, colors, task.categories)
    elif task.kind == "vectors":
        draw_numbers(axes, shown, sample, None if predicted is None else batch.target)
    else:
        target = None if predicted is None else _positions(task, batch.target)
        flipped = rows_first(task)
        draw_points(axes, _positions(task, shown), sample, target, flipped=flipped, image=image, colors=colors)
        if task.kind == "polygons":
            draw_outline(axes, batch.target, sample)
        if task.groups:
            name_points(axes, shown, sample, task, image)
    axes.set_title(title, fontsize=9)


def rows_first(task: SetTask) -> bool:
    """Whether the first feature is a row, counted downwards, and the second a column (MNIST)."""
    return task.feature_names[:2] == ("row", "column")


def draw_points(
    axes: Axes,
    sets: Sets,
    sample: int,
    target: Sets | None = None,
    *,
    flipped: bool = False,
    image: np.ndarray | None = None,
    colors: Sequence[str] | None = None,
) -> None:
    """One set of points, colored by mask (dark: present, light: absent), with the target as gray rings behind it.

    `flipped` points are (row, column), with rows downwards. Only the first two features are drawn. Points outside the
    frame are crosses on its edge. `colors`, one per element, replace the colors of the masks.
    """
    elements, mask = _numpy(sets, sample)
    low, high = (-0.1, 1.1) if image is None else (0.0, 1.0)
    position = _to_axes(flipped, image)
    visible = mask > MIN_MASK
    many = len(mask) > MANY
    if image is not None:
        axes.imshow(image, extent=(0, image.shape[1], image.shape[0], 0))
        axes.autoscale(False)
    if target is not None and not many:
        rings, present = _numpy(target, sample)
        x, y = position(rings[present > 0.5])
        axes.scatter(x, y, s=42, facecolors="none", edgecolors=RING, linewidths=1)
    drawn = elements.clip(low, high)
    outside = (drawn != elements)[:, :2].any(axis=1)
    size = 3 if many else 16
    for chosen, marker, width in ((visible & ~outside, "o", 0), (visible & outside, "x", 1.5)):
        x, y = position(drawn[chosen])
        if not len(x):
            continue
        if colors is None:
            dots = axes.scatter(x, y, c=1 - mask[chosen], s=size, cmap=MASK_COLORMAP, vmin=0, vmax=1, marker=marker)
        else:
            dots = axes.scatter(x, y, c=np.asarray(colors)[chosen].tolist(), s=size, marker=marker)
        dots.set(linewidth=width, clip_on=marker == "o")
    if image is None:
        axes.set(xlim=(low, high), ylim=(high, low) if flipped else (low, high), aspect="equal")
    axes.set(xticks=[], yticks=[])


def name_points(axes: Axes, sets: Sets, sample: int, task: SetTask, image: np.ndarray | None) -> None:
    """The categories of points beside them, where these are few."""
    elements, mask = _numpy(sets, sample)
    if len(mask) > MANY:
        return
    x, y = _to_axes(rows_first(task), image)(_numpy(_positions(task, sets), sample)[0])
    for i in np.flatnonzero(mask > MIN_NAMED_MASK):
        text = axes.text(x[i], y[i], f" {_names(elements[i], task.groups, task.categories)}", **NAME_STYLE)
        text.set(color=INK if image is None else "white", alpha=float(mask[i]), va="center")


def draw_outline(axes: Axes, target: Sets, sample: int) -> None:
    """The true polygon as a thin line through its corners, ordered by angle."""
    corners = target[sample].to_list()[0].cpu().numpy()[:, :2]
    if len(corners) < 3:
        return
    middle = corners.mean(axis=0)
    order = np.argsort(np.arctan2(*(corners - middle).T[::-1]))
    closed = corners[[*order, order[0]]]
    axes.plot(closed[:, 0], closed[:, 1], color=RING, linewidth=0.8, zorder=0)


def draw_boxes(
    axes: Axes,
    sets: Sets,
    target: Sets,
    sample: int,
    image: np.ndarray | None,
    groups: Groups = NO_GROUPS,
    colors: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Boxes on their image: right ones solid, wrong ones dashed, more transparent for smaller masks.

    `colors`, one per element, replace the colors of right and wrong boxes. `categories` are the names of each group,
    which are written at the box.
    """
    elements, mask = _numpy(sets, sample)
    width, height = (image.shape[1], image.shape[0]) if image is not None else (1, 1)
    right = judge_boxes(sets, target, sample, groups)
    if image is not None:
        axes.imshow(image, extent=(0, width, height, 0))
    for i, (box, score) in enumerate(zip(elements[:, :4], mask)):
        if score <= MIN_BOX_MASK:
            continue
        x0, y0, x1, y1 = box * (width, height, width, height)
        color, line = (RIGHT, "-") if right[i] else (WRONG, "--")
        frame = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, linestyle=line)
        color = color if colors is None else colors[i]
        frame.set(edgecolor=color, alpha=float(score), linewidth=1.2)
        axes.add_patch(frame)
        if groups and categories:
            name = _names(elements[i], groups, categories)
            label = axes.text(x0, y0, name, alpha=float(score), color="white", va="bottom", **NAME_STYLE)
            label.set_bbox({"facecolor": color, "edgecolor": "none", "pad": 0.6, "alpha": 0.8 * float(score)})
    axes.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[])


def draw_objects(axes: Axes, task: SetTask, predicted: Sets | None, target: Sets, sample: int) -> None:
    """Objects as text, one per line, in the order of the true ones; wrong values are red and bold."""
    rows = true_objects(task, target, sample) if predicted is None else judge_objects(task, predicted, target, sample)
    widths = _column_widths(task)
    left = np.cumsum([0.0, *widths[:-1]]) / sum(widths)
    lines = max(task.max_size, len(rows)) + 1
    style = {"va": "center", "transform": axes.transAxes, "parse_math": False}
    for x, name in zip(left, columns(task)):
        axes.text(x, 1 - 0.5 / lines, name, fontsize=5, color=SOFT, **style)
    for line, row in enumerate(rows, start=1):
        y = 1 - (line + 0.5) / lines
        for x, cell in zip(left, row.cells):
            text = axes.text(x, y, cell.text, fontsize=5.5, **style)
            text.set(color=WRONG if cell.wrong else INK, weight="bold" if cell.wrong else "normal")
            text.set_alpha(_opacity(row))
    axes.set_axis_off()


def draw_numbers(axes: Axes, sets: Sets, sample: int, target: Sets | None = None) -> None:
    """Elements of any kind as a heat map: one row per element, with its mask first, and one column per feature.

    With a target, each predicted element is in the row of the true one that it is matched with.
    """
    elements, mask = _numpy(sets, sample)
    if target is not None:
        matched = match_elements(sets, target, sample)
        elements, mask = (values[matched.order] for values in _numpy(matched.predicted, 0))
    values = np.concatenate([mask[:, None], elements], axis=1)
    axes.imshow(values, aspect="auto", vmin=0, vmax=1, cmap=MASK_COLORMAP)
    axes.axvline(0.5, color="white", linewidth=1.5)
    axes.set(xticks=[], yticks=[])


def some_steps(trained: int, most: int = 5) -> list[int]:
    """At most `most` steps from 0 to T, closer together at the start, where sets move most."""
    parts = torch.linspace(0, 1, most).square() * trained
    return sorted({round(float(p)) for p in parts})


def _positions(task: SetTask, sets: Sets) -> Sets:
    """The same sets with only their coordinates: the first two features, or the first if the second is no number."""
    return Sets(sets.elements[..., : 2 if 1 in task.numbers else 1], sets.mask)


def _to_axes(flipped: bool, image: np.ndarray | None) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """A function from elements (n, D) to x (n,) and y (n,) on the axes."""

    def position(elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = elements[:, 0]
        y = elements[:, 1] if elements.shape[1] > 1 else np.full_like(x, 0.5)
        if flipped:
            x, y = y, x
        return (x, y) if image is None else (x * image.shape[1], y * image.shape[0])

    return position


def _names(element: np.ndarray, groups: Groups, categories: Mapping[str, Sequence[str]]) -> str:
    """The most likely category of each group."""
    return " ".join(categories[group][int(element[first:end].argmax())] for group, (first, end) in groups.items())


def _numpy(sets: Sets, sample: int) -> tuple[np.ndarray, np.ndarray]:
    mask = sets.mask[sample].detach().float().clamp(0, 1).cpu().numpy()
    return sets.elements[sample].detach().float().cpu().numpy(), mask


def _column_widths(task: SetTask) -> list[float]:
    """The width of each column of a table of objects, in characters."""
    names = columns(task)
    words = [max(len(w) for w in task.categories[n]) + 2 for n in (task.spoken or task.groups)]
    return ([6.0 * len(task.numbers) + 1] if len(names) > len(words) else []) + [float(w) for w in words]


def _opacity(row: ObjectRow) -> float:
    """Objects with a small mask are faint, but never invisible."""
    return 0.3 + 0.7 * row.score
