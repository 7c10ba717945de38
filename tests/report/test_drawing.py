"""What is drawn, not which pixels: positions, colors and texts are read back from the figures."""

import base64
import io
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from setpredict.data.sources.multisets import multisets
from setpredict.data.sources.scenes import scenes
from setpredict.data.task import Batch, SetTask
from setpredict.report.figures.by_step import losses_by_step
from setpredict.report.figures.contact_sheet import DPI, category_colors, contact_sheet
from setpredict.report.figures.curves import training_curves
from setpredict.report.figures.dark import darken
from setpredict.report.figures.drawing import draw_boxes, draw_points, draw_set, some_steps
from setpredict.report.figures.legend import picture_legend
from setpredict.report.figures.palette import DARK, DARK_CARD, INK, LINE_COLORS, MASK_COLORMAP, RIGHT, WRONG
from setpredict.report.figures.pictures import picture, validation_picture
from setpredict.report.figures.save import save
from setpredict.report.figures.sweep import Sweep, draw_sweeps
from setpredict.report.html import figure as html_figure
from setpredict.report.tables.judged import match_elements
from setpredict.report.watched import Watched
from setpredict.sets import Sets
from tests.report.trajectories import batch_of, trajectory_to


def axes():
    return Figure().subplots()


def clouds(drawn) -> list[np.ndarray]:
    return [np.asarray(c.get_offsets()) for c in drawn.collections if isinstance(c, PathCollection)]


def test_every_kind_of_set_has_a_picture(task: SetTask, tmp_path: Path):
    batch = batch_of(task)
    figure = validation_picture(task, batch, trajectory_to(batch))
    for ending in ("png", "pdf"):
        save(figure, tmp_path / f"a.{ending}")
    with Image.open(tmp_path / "a.png") as image:
        assert image.size[0] > 300
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_a_one_shot_decoder_and_an_empty_set_have_pictures(task: SetTask):
    batch = batch_of(task, 1)
    target = Sets(batch.target.elements * 0, batch.target.mask & False)
    batch = Batch(batch.input, target, batch.index)
    trajectory = trajectory_to(batch, 1)
    one = replace(trajectory, elements=trajectory.elements[-1:], mask=trajectory.mask[-1:], repr_loss=None)
    assert len(validation_picture(task, batch, one).axes) >= 2


def test_elements_of_many_numbers_are_a_heat_map():
    task = multisets(4, dim=5, val=3)
    task.kind = "vectors"
    batch = batch_of(task, 2)
    drawn = axes()
    draw_set(drawn, task, batch, 0, None)
    values = np.asarray(drawn.images[0].get_array())
    np.testing.assert_allclose(values[:, 0], 1)
    np.testing.assert_allclose(values[:, 1:], batch.target.elements[0])


def test_points_are_drawn_at_their_coordinates_and_colored_by_mask():
    sets = Sets(torch.tensor([[[0.1, 0.2], [0.3, 0.4], [0.9, 0.9]]]), torch.tensor([[1.0, 0.4, 0.0]]))
    drawn = axes()
    draw_points(drawn, sets, 0)
    np.testing.assert_allclose(clouds(drawn)[0], [[0.1, 0.2], [0.3, 0.4]])
    np.testing.assert_allclose(np.asarray(drawn.collections[0].get_array()), [0.0, 0.6], atol=1e-6)


def test_points_outside_the_frame_are_crosses_on_its_edge():
    sets = Sets(torch.tensor([[[0.1, 0.2], [3.0, 0.4], [-5.0, 9.0], [7.0, 7.0]]]), torch.tensor([[1.0, 0.4, 1.0, 0.0]]))
    drawn = axes()
    draw_points(drawn, sets, 0)
    inside, outside = drawn.collections
    np.testing.assert_allclose(np.asarray(inside.get_offsets()), [[0.1, 0.2]])
    np.testing.assert_allclose(np.asarray(outside.get_offsets()), [[1.1, 0.4], [-0.1, 1.1]])
    np.testing.assert_allclose(np.asarray(outside.get_array()), [0.6, 0.0], atol=1e-6)
    assert drawn.get_xlim() == drawn.get_ylim() == (-0.1, 1.1)


def test_points_outside_an_image_do_not_stretch_it():
    sets = Sets(torch.tensor([[[0.5, 0.25], [3.0, -1.0]]]), torch.ones(1, 2))
    drawn = axes()
    draw_points(drawn, sets, 0, image=np.zeros((20, 10, 3)))
    assert [np.asarray(c.get_offsets()).tolist() for c in drawn.collections] == [[[5, 5]], [[10, 0]]]
    assert (drawn.get_xlim(), drawn.get_ylim()) == ((0, 10), (20, 0))


def test_digits_are_upright():
    sets = Sets(torch.tensor([[[0.1, 0.8]]]), torch.ones(1, 1))
    drawn = axes()
    draw_points(drawn, sets, 0, flipped=True)
    np.testing.assert_allclose(clouds(drawn)[0], [[0.8, 0.1]])
    assert drawn.yaxis_inverted()


def test_boxes_are_scaled_to_the_image_and_wrong_ones_dashed():
    task = scenes("box", size=16, max_objects=4, val=3)
    batch = batch_of(task, 1)
    elements = batch.target.elements.clone()
    elements[0, 0] = torch.tensor([0.0, 0.0, 0.01, 0.01])
    drawn = axes()
    draw_set(drawn, task, batch, 0, Sets(elements, batch.target.mask.float()))
    boxes = [p for p in drawn.patches if isinstance(p, Rectangle)]
    assert len(boxes) == int(batch.target.sizes[0])
    left, top, right, bottom = (16 * elements[0, 1]).tolist()
    np.testing.assert_allclose(boxes[1].get_bbox().extents, [left, top, right, bottom], rtol=1e-5)
    assert [b.get_linestyle() for b in boxes[:2]] == ["--", "-"]
    assert [to_hex(b.get_edgecolor()) for b in boxes[:2]] == [WRONG, RIGHT]


def test_wrong_attributes_are_red_and_bold():
    task = scenes("state", size=16, max_objects=4, val=3)
    batch = batch_of(task, 1)
    elements = batch.target.elements.clone()
    first, end = task.groups["shape"]
    category = int(elements[0, 0, first:end].argmax())
    elements[0, 0, first:end] = 0
    elements[0, 0, first + (category + 1) % 3] = 1
    drawn = axes()
    draw_set(drawn, task, batch, 0, Sets(elements, batch.target.mask.float()))
    wrong = [t for t in drawn.texts if t.get_color() == WRONG]
    assert [t.get_text() for t in wrong] == [task.categories["shape"][(category + 1) % 3]]
    assert wrong[0].get_fontweight() == "bold"


def test_a_picture_has_one_row_per_sample_and_one_column_per_step():
    task = multisets(4, val=6)
    batch = batch_of(task, 3)
    trajectory = trajectory_to(batch, 4)
    figure = picture(task, batch, trajectory, [0, 4], [2, 0], {"other": trajectory.step(0)}, ["a", "b"], "all")
    assert figure.get_suptitle() == "all"
    titles = [a.get_title() for a in figure.axes]
    assert titles == ["$Y^{(0)}$", "$Y^{(4)}$", "other", "target", "", "", "", ""]
    np.testing.assert_allclose(clouds(figure.axes[1])[1], batch.target.elements[2], atol=1e-6)
    np.testing.assert_allclose(clouds(figure.axes[7])[0], batch.target.elements[0], atol=1e-6)


def test_losses_by_step_are_medians_and_mark_the_trained_step():
    batch = batch_of(multisets(4, val=6), 3)
    trajectory = trajectory_to(batch, 4)
    loss = torch.tensor([[1.0, 2.0, 9.0]]).expand(5, 3) / torch.arange(1, 6)[:, None]
    figure = losses_by_step({"A": (Watched(batch, trajectory, loss), 2)})
    line, trained = figure.axes[0].lines
    np.testing.assert_allclose(np.asarray(line.get_ydata()), 2 / np.arange(1, 6))
    assert np.asarray(trained.get_xdata()).tolist() == [2, 2]
    one_shot = replace(trajectory, elements=trajectory.elements[-1:], mask=trajectory.mask[-1:], repr_loss=None)
    assert len(losses_by_step({"MLP": (Watched(batch, one_shot, loss[:1]), 0)}).axes) == 1


def test_sweeps_have_a_row_per_model_and_a_line_and_marks_per_seed():
    """No legend is needed, so none hides anything: rows are named, and each has its color."""
    angles = torch.linspace(0, 1, 5, dtype=torch.float64)

    def found(jumps: list[float]) -> Sweep:
        return Sweep(angles, angles + 1e-3, angles[1:], torch.tensor(jumps), torch.full((len(jumps),), 0.2))

    seeds = [found([0.25, 0.5]), found([])]
    figure = draw_sweeps({name: {3: seeds, 4: seeds} for name in ("a", "b", "c")})
    assert figure.legends == []
    assert [a.get_legend() for a in figure.axes] == [None] * 12
    assert [a.get_title() for a in figure.axes[:2]] == ["3 corners", "4 corners"]
    for row, name in enumerate("abc"):
        above, below = figure.axes[4 * row], figure.axes[4 * row + 2]
        assert above.get_ylabel() == f"{name}\nerror (d²/2)"
        assert {line.get_color() for line in [*above.lines, *below.lines]} == {LINE_COLORS[row]}
        assert len(above.lines) == len(seeds)
        marks = [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in below.lines]
        np.testing.assert_allclose(marks[0][0], np.degrees([0.25, 0.5]))
        assert [set(y.tolist()) for _, y in marks] == [{0.0}, set()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FigureCanvasAgg(figure).draw()


def test_steps_to_show_begin_at_0_and_end_at_T():
    assert some_steps(10) == [0, 1, 2, 6, 10]
    assert some_steps(0) == [0]
    assert some_steps(1) == [0, 1]


def test_coordinates_are_the_leading_numbers():
    task = multisets(2, dim=3, val=3)
    task.groups, task.categories = {"kind": (1, 3)}, {"kind": ("a", "b")}
    batch = batch_of(task, 1)
    drawn = axes()
    draw_set(drawn, task, batch, 0, None)
    np.testing.assert_allclose(clouds(drawn)[0][:, 0], batch.target.elements[0, :, 0], atol=1e-6)
    np.testing.assert_allclose(clouds(drawn)[0][:, 1], 0.5)


def test_given_colors_replace_those_of_masks_and_of_right_and_wrong():
    colors = ["#111111", "#222222", "#333333"]
    sets = Sets(torch.tensor([[[0.1, 0.2], [3.0, 0.4], [0.9, 0.9]]]), torch.ones(1, 3))
    drawn = axes()
    draw_points(drawn, sets, 0, colors=colors)
    inside, outside = (np.asarray(c.get_facecolor()) for c in drawn.collections)
    assert ([to_hex(c) for c in inside], [to_hex(c) for c in outside]) == (["#111111", "#333333"], ["#222222"])
    boxes = Sets(torch.tensor([[[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]]]), torch.ones(1, 2))
    drawn = axes()
    draw_boxes(drawn, boxes, boxes, 0, None, colors=colors)
    assert [to_hex(p.get_edgecolor()) for p in drawn.patches] == colors[:2]


def test_a_contact_sheet_has_text_below_its_images(task: SetTask, tmp_path: Path):
    with Image.open(contact_sheet(task, tmp_path / "a.png", 5)) as sheet:
        columns, rows = 4, 2
        image = task.input_kind == "image"
        assert sheet.size == (DPI * 3 * columns, DPI * rows * (4.6 if image and task.kind == "states" else 3.2))
        assert np.asarray(sheet.convert("L")).std() > 5


def test_categories_have_colors():
    task = multisets(3, dim=3, val=3)
    batch = batch_of(task, 1)
    assert category_colors(task, batch, 0) is None
    task.groups, task.categories = {"kind": (1, 3)}, {"kind": ("a", "b")}
    batch.target.elements[0, :, 1:] = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    assert category_colors(task, batch, 0) == [LINE_COLORS[1], LINE_COLORS[0], LINE_COLORS[1]]


def contrast(image: Image.Image, background: str) -> float:
    """The largest contrast ratio (WCAG) between a color of a figure without background and a color behind it."""

    def luminance(color: np.ndarray) -> np.ndarray:
        linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
        return linear @ np.array([0.2126, 0.7152, 0.0722])

    pixels = np.asarray(image.convert("RGBA")).reshape(-1, 4) / 255
    solid = np.unique(pixels[pixels[:, 3] == 1][:, :3], axis=0)
    light = np.concatenate([luminance(solid), [luminance(np.array(to_rgb(background)))]])
    return (light.max() + 0.05) / (light.min() + 0.05)


def test_a_figure_in_a_page_suits_light_and_dark_pages(task: SetTask):
    batch = batch_of(task)
    text = html_figure(validation_picture(task, batch, trajectory_to(batch)), "A caption")
    light, dark = (re.search(rf"{name}='data:image/png;base64,(.*?)'", text) for name in (" src", "srcset"))
    for found, background in ((light, "#ffffff"), (dark, DARK_CARD)):
        assert found
        image = Image.open(io.BytesIO(base64.b64decode(found[1])))
        assert np.asarray(image.convert("RGBA"))[0, 0, 3] == 0  # no background of its own
        if task.input_kind != "image":  # else black pixels of images are there too
            assert contrast(image, background) > 7


def test_text_and_lines_are_light_on_a_dark_page():
    figure = Figure()
    drawn = figure.subplots()
    drawn.set_title("title")
    (ink,) = drawn.plot([0, 1], color=INK)
    (blue,) = drawn.plot([1, 0], color=LINE_COLORS[2])
    dots = drawn.scatter([0, 1], [0, 1], c=[0.0, 1.0], cmap=MASK_COLORMAP)
    darken(figure)
    assert to_hex(drawn.title.get_color()) == to_hex(ink.get_color()) == DARK[INK]
    assert to_hex(blue.get_color()) == LINE_COLORS[2]
    assert to_hex(drawn.spines["left"].get_edgecolor()) == DARK["#000000"]
    assert dots.get_cmap().name == f"{MASK_COLORMAP}_r"


def test_masks_in_a_dark_legend_have_the_colors_of_the_picture():
    figure = Figure()
    legend = figure.legend(handles=picture_legend(multisets(4, variable=True, val=3)))
    darken(figure)
    shown = {t.get_text(): to_hex(h.get_color()) for t, h in zip(legend.get_texts(), legend.legend_handles)}  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    reversed_map = colormaps[f"{MASK_COLORMAP}_r"]
    assert shown["mask 1"] == to_hex(reversed_map(0.0))
    assert shown["0.1"] == to_hex(reversed_map(0.9))


def test_percentages_end_at_100_and_single_values_are_no_curve():
    log = [{"step": str(i), "loss": f"{1 / i}", "val_size_accuracy": "1.0", "val_AP50": "0.3"} for i in (1, 2, 3)]
    figure = training_curves({"a": log})
    assert figure
    limits = {a.get_title(): a.get_ylim() for a in figure.axes}
    assert limits["validation size accuracy %"][1] == 100
    assert 30 < limits["validation AP50 %"][1] < 100
    only = [log[0], {"step": "2", "loss": "0.5"}]
    figure = training_curves({"a": only})
    assert figure
    assert [a.get_title() for a in figure.axes] == ["training loss"]
    assert training_curves({"a": only[:1]}) is None


def test_rows_of_a_predicted_heat_map_are_those_of_the_target():
    task = multisets(4, dim=5, variable=True, val=3)
    task.kind = "vectors"
    target = Sets(torch.rand(1, 4, 5), torch.tensor([[True, True, True, False]]))
    batch = Batch(target, target, torch.zeros(1, dtype=torch.int64))
    shuffled = [2, 3, 0, 1]
    predicted = Sets(target.elements[:, shuffled] + 0.01, target.mask[:, shuffled].float())
    drawn = axes()
    draw_set(drawn, task, batch, 0, predicted)
    values = np.asarray(drawn.images[0].get_array())
    np.testing.assert_allclose(values[:, 0], [1, 1, 1, 0])
    np.testing.assert_allclose(values[:3, 1:], target.elements[0, :3] + 0.01, atol=1e-6)


def test_surplus_rows_follow_the_best_first():
    target = Sets(torch.tensor([[[0.9], [0.0], [0.0]]]), torch.tensor([[True, False, False]]))
    predicted = Sets(torch.tensor([[[0.1], [0.2], [0.8]]]), torch.tensor([[0.2, 0.6, 0.9]]))
    matched = match_elements(predicted, target, 0)
    assert (matched.order, matched.target) == ([2, 1, 0], [0, None, None])


def test_points_have_the_names_of_their_categories_beside_them():
    task = multisets(3, dim=4, val=3)
    task.groups, task.categories = {"kind": (2, 4)}, {"kind": ("acorn", "beech")}
    batch = batch_of(task, 1)
    elements = torch.tensor([[[0.1, 0.2, 1.0, 0.0], [0.5, 0.6, 0.1, 0.9], [0.7, 0.7, 0.0, 1.0]]])
    drawn = axes()
    draw_set(drawn, task, batch, 0, Sets(elements, torch.tensor([[1.0, 0.8, 0.1]])))
    names = {t.get_text().strip(): t.get_position() for t in drawn.texts}
    assert {name: [round(float(v), 3) for v in at] for name, at in names.items()} == {
        "acorn": [0.1, 0.2],
        "beech": [0.5, 0.6],
    }


def legend_texts(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_a_picture_says_what_its_colors_mean(task: SetTask):
    batch = batch_of(task, 2)
    figure = picture(task, batch, trajectory_to(batch), [0, 2], [0, 1])
    told = " ".join(legend_texts(figure))
    expected = {"boxes": "right: IoU", "states": "wrong", "points": "target", "polygons": "target", "vectors": "mask"}
    assert expected[task.kind] in told
    FigureCanvasAgg(figure).draw()
    below = figure.legends[0].get_window_extent().y1
    assert below <= min(a.get_window_extent().y0 for a in figure.axes) + 1, "the legend hides nothing"


def test_a_contact_sheet_names_the_colors_of_categories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    task = multisets(3, dim=4, val=3)
    task.groups, task.categories = {"kind": (2, 4)}, {"kind": ("acorn", "beech")}
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **_: (drawn.append(self), Path(file).touch()))
    contact_sheet(task, tmp_path / "a.png", 2)
    assert legend_texts(drawn[0]) == ["acorn", "beech"]
    patches = drawn[0].legends[0].legend_handles
    assert [to_hex(patch.get_facecolor()) for patch in patches] == list(LINE_COLORS[:2])  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
