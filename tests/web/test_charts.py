"""The charts of the page in a real Chromium: named and colored as the cards, and where polygons jump."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest
import torch

from setpredict.data.sources.polygons import polygon
from setpredict.runs.loaded import load
from tests.web.page import WIDE, Page

pytestmark = pytest.mark.web


@pytest.mark.parametrize("tab", ["points", "scenes"])
def test_lines_have_the_names_and_colors_of_the_cards(page: Page, tab: str):
    page.open(tab)
    page.settled(tab)
    names = page.texts(f"#panel-{tab} .answers strong")
    legend = page.texts(f"#panel-{tab} .player .key")
    assert legend == [name for name in names if name != "MLP"]
    color = "return [...document.querySelectorAll(arguments[0])].map(e => getComputedStyle(e).stroke)"
    keys = page.run(color, f"#panel-{tab} .player .key path")
    assert len(set(keys)) == len(keys)
    assert keys == page.run(color, f"#panel-{tab} .answers strong path")[: len(keys)]
    assert keys == page.run(color, f"#panel-{tab} .player .chart path")


@pytest.mark.parametrize("page", [WIDE], ids=["wide"], indirect=True)
def test_losses_are_relative_to_step_0(page: Page):
    """All lines start at the same height, whatever the scale of their encoder, and end where the captions say."""
    page.open("points")
    page.settled("points")
    paths = page.run("return [...document.querySelectorAll('#panel-points .chart path')].map(e => e.getAttribute('d'))")
    assert {re.match(r"M([\d.]+,[\d.]+)L", path)[1] for path in paths} == {"46.0,22.0"}  # pyright: ignore[reportOptionalSubscript]
    slider = page.find("#panel-points .slider")
    page.slide(slider, 0)
    first = page.losses("points")
    page.slide(slider, 40)
    last = page.losses("points")
    label = page.find("#panel-points .chart").get_attribute("aria-label")
    for name, start, end in zip(("iDSPN", "DSPN"), first, last):
        shown = re.search(rf"(?<!i){name} ([\d.e+-]+)", label)
        assert shown is not None, label
        assert float(shown[1].rstrip(".")) == pytest.approx(end / start, rel=0.1)


@pytest.mark.parametrize("tab", ["points", "scenes"])
def test_labels_cover_no_line(page: Page, tab: str):
    """Losses of scenes hardly change: their lines are at the very top of the plot."""
    page.open(tab)
    page.settled(tab)
    bottoms = page.run(
        "return [...document.querySelectorAll(`#panel-${arguments[0]} .player .chart text`)]"
        ".filter(e => e.textContent.startsWith('trained')).map(e => e.getBoundingClientRect().bottom)",
        tab,
    )
    tops = page.run(
        "return [...document.querySelectorAll(`#panel-${arguments[0]} .player .chart path`)]"
        ".map(e => e.getBoundingClientRect().top)",
        tab,
    )
    assert bottoms
    assert tops
    assert max(bottoms) <= min(tops)


@pytest.mark.parametrize(("tab", "chart"), [("points", ".player .chart"), ("polygons", ".sweep .chart")])
def test_charts_are_drawn_in_pixels(page: Page, tab: str, chart: str):
    """Neither shrunk nor stretched: the style sheet gives them the height that they are drawn for."""
    page.open(tab)
    page.settled(tab)
    view = "return document.querySelector(arguments[0]).getAttribute('viewBox')"
    _, _, width, height = map(float, page.until(lambda: page.run(view, f"#panel-{tab} {chart}")).split())
    box = page.box(f"#panel-{tab} {chart}")
    assert (box["width"], box["height"]) == pytest.approx((width, height), abs=1)


def test_the_table_of_objects_fits(page: Page):
    page.open("scenes")
    page.settled("scenes")
    assert page.find("#panel-scenes td").text
    wide, shown = page.run(
        "const table = document.querySelector('#panel-scenes .table'); return [table.scrollWidth, table.clientWidth]"
    )
    assert wide <= shown


def test_polygons_show_the_error_at_every_angle_and_mark_jumps(page: Page):
    page.open("polygons")
    page.settled("polygons")
    page.until(lambda: "jump" in page.find("#panel-polygons .jumps").text, 90)
    text = page.find("#panel-polygons .jumps").text
    lines = page.all("#panel-polygons .sweep .chart > path:not(.flag)")
    assert len(lines) == len(page.all("#panel-polygons .sweep .key")) == 2
    marks = page.all("#panel-polygons .sweep .flag")
    assert len(marks) == len(re.findall(r"[\d.]+°", text)) >= 1
    jump = re.search(r"MLP jumps at ([\d.]+)°", text)
    assert jump is not None, text
    assert float(jump[1]) == pytest.approx(largest_jump("polygons-mlp", 4), abs=2)
    before = page.find("[name=angle]").get_property("value")
    page.run(
        "const chart = document.querySelector('.sweep .chart'), box = chart.getBoundingClientRect();"
        "chart.dispatchEvent(new MouseEvent('click', {clientX: box.left + 0.7 * box.width, bubbles: true}))"
    )
    assert page.find("[name=angle]").get_property("value") != before


@torch.no_grad()
def largest_jump(name: str, corners: int, count: int = 361) -> float:
    """The angle in degrees between which and the next the predicted set moves most."""
    angles = torch.linspace(0, 2 * math.pi / corners, count, dtype=torch.float64)
    inputs, _ = polygon(corners, angles.numpy())
    predicted = load(name).model.predict(inputs)
    sets = [elements[mask > 0.5] for elements, mask in zip(predicted.elements, predicted.mask)]
    moved = []
    for one, other in pairwise(sets):
        distances = torch.cdist(one, other)
        moved.append(max(distances.amin(0).max().item(), distances.amin(1).max().item()))
    return math.degrees(angles[int(torch.tensor(moved).argmax())].item())
