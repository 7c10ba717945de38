"""What a newcomer sees in a real Chromium: points flying into place, words explained, input and answer together."""

from __future__ import annotations

import re
from typing import Any

import pytest

from setpredict.report.figures import palette
from setpredict.web.server import STATIC
from tests.web.page import PHONE, WIDE, Page

pytestmark = pytest.mark.web

CONTRAST = """
const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const behind = (e) => {
  for (let n = e; n; n = n.parentElement) {
    const c = parse(getComputedStyle(n).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c;
  }
  return [255, 255, 255];
};
"""
BORDERS = (
    CONTRAST
    + """
const weak = [];
for (const e of document.querySelectorAll('body *')) {
  if (!e.getClientRects().length) continue;
  const s = getComputedStyle(e);
  for (const side of ['Top', 'Right', 'Bottom', 'Left']) {
    const color = parse(s[`border${side}Color`]);
    if (parseFloat(s[`border${side}Width`]) === 0 || s[`border${side}Style`] === 'none' || color[3] === 0) continue;
    const best = Math.max(ratio(color, behind(e.parentElement)), ratio(color, behind(e)));
    if (best < 3) weak.push(`${e.tagName}.${e.className} ${side} ${best.toFixed(2)}`);
  }
}
return weak;
"""
)
TONES = (
    CONTRAST
    + """
const style = getComputedStyle(document.documentElement);
const tone = (name) => {
  const h = style.getPropertyValue(name).trim();
  return [1, 3, 5].map((i) => parseInt(h.slice(i, i + 2), 16));
};
return arguments[0].map((name) => ratio(tone(name), tone('--card')));
"""
)


def is_visible(page: Page, selector: str) -> bool:
    box, (width, height) = page.box(selector), page.run("return [innerWidth, innerHeight]")
    return 0 <= box["top"] < box["bottom"] <= height and 0 <= box["left"] < box["right"] <= width


def test_the_page_opens_on_points_and_plays_to_twice_the_trained_steps(page: Page):
    page.media(motion=True)
    page.open()
    page.until(lambda: page.texts("#panel-points .play") == ["Pause"])
    page.settled("points")
    assert page.find("[role=tab][aria-selected=true]").text == "Points"
    assert page.find("#panel-points .where").text.split("\n") == ["step 40 of 40", "twice the trained steps"]
    found = dict(zip(page.texts("#panel-points .answers strong"), page.texts("#panel-points .answers .found")))
    assert list(found) == ["iDSPN", "DSPN", "MLP"]
    assert found["iDSPN"] == "8 of 8 recovered"
    assert re.fullmatch(r"[0-7] of 8 recovered", found["MLP"]), "a list must fail somewhere, or there is nothing to see"
    lead = page.find("#panel-points .lead").text
    assert len(re.findall(r"[.!?](?:\s|$)", lead)) == 3, "three sentences"
    assert "list" in lead
    assert "downhill" in lead


def test_the_count_is_that_of_the_picture(tiny_page: Page):
    """Against brute force: pairs of points that are near each other, each point in at most one pair."""
    tiny_page.open("points")
    tiny_page.settled("points")
    count = tiny_page.driver.execute_async_script(
        "const done = arguments[1]; import('/static/workbench/recovered.js').then((m) => done(arguments[0].map("
        "([truth, predicted]) => m.pairUp(truth, predicted, predicted.map((_, i) => i)).size)))",
        cases := [
            [[[0.5, 0.5]], [[0.52, 0.52]]],
            [[[0.5, 0.5]], [[0.53, 0.52]]],
            [[[0.5, 0.5], [0.52, 0.5]], [[0.51, 0.5]]],
            [[[0.5, 0.5], [0.54, 0.5]], [[0.52, 0.5], [0.48, 0.5]]],
            [[[0.1, 0.1], [0.1, 0.1]], [[0.1, 0.1], [0.1, 0.1]]],
            [[[0.5, 0.5]], []],
        ],
    )
    assert count == [most_pairs(truth, predicted) for truth, predicted in cases] == [1, 0, 1, 2, 2, 0]
    with_category = tiny_page.driver.execute_async_script(
        "const done = arguments[0]; import('/static/workbench/recovered.js').then((m) => done([2, 3].map("
        "(coordinates) => m.pairUp([[0.5, 0.5, 1]], [[0.5, 0.5, 0.9]], [0], { coordinates }).size)))"
    )
    assert with_category == [1, 0]  # a category is no coordinate


def most_pairs(truth: list[list[float]], predicted: list[list[float]]) -> int:
    if not truth:
        return 0
    (x, y), rest = truth[0], truth[1:]
    near = [i for i, (a, b) in enumerate(predicted) if ((a - x) ** 2 + (b - y) ** 2) ** 0.5 <= 0.03]
    return max([most_pairs(rest, predicted), *(1 + most_pairs(rest, predicted[:i] + predicted[i + 1 :]) for i in near)])


@pytest.mark.parametrize("tab", ["points", "digits", "polygons", "scenes"])
@pytest.mark.parametrize("page", [PHONE], ids=["phone"], indirect=True)
def test_on_a_phone_input_and_answer_are_visible_together(page: Page, tab: str):
    page.open(tab)
    page.settled(tab)
    shown = ".input canvas" if tab == "scenes" else ".pad"
    assert is_visible(page, f"#panel-{tab} {shown}")
    assert is_visible(page, f"#panel-{tab} .answers canvas")
    lines = page.run(
        "return [...document.querySelectorAll(arguments[0])].map(e => "
        "[e.textContent, e.scrollWidth <= e.clientWidth + 1, e.getBoundingClientRect().height < 30])",
        f"#panel-{tab} .found, #panel-{tab} .facts, #panel-{tab} .where span",
    )
    assert [line for line in lines if not (line[1] and line[2])] == [], "captions are one line and not cut"


def test_keyboard_help_is_for_keyboards(tiny_page: Page):
    tiny_page.open("points")
    tiny_page.settled("points")
    is_phone = tiny_page.run("return innerWidth") < 500
    assert tiny_page.run("return matchMedia('(pointer: coarse)').matches") == is_phone
    assert tiny_page.find("#panel-points .keyboard").is_displayed() != is_phone


def test_nothing_moves_when_a_caption_grows(page: Page):
    page.open("digits")
    page.settled("digits")
    places = (
        "return [...document.querySelectorAll('#panel-digits canvas, #panel-digits .player, #panel-digits .slider')]"
        ".map(e => JSON.stringify(e.getBoundingClientRect()))"
    )
    slider, before = page.find("#panel-digits .slider"), page.run(places)
    for step in range(int(slider.get_attribute("max")) + 1):
        page.slide(slider, step)
        assert page.run(places) == before, f"step {step}"
    for part, text in (("found", "342 of 342 recovered"), ("facts", "342 points · loss 1.23e-10")):
        page.run("for (const e of document.querySelectorAll(arguments[0])) e.textContent = arguments[1]",
                 f"#panel-digits .{part}", text)  # fmt: skip
    assert page.run(places) == before
    page.find("#panel-digits [data-do=clear]").click()
    page.until(lambda: not any(page.texts("#panel-digits .answers .facts")))
    assert page.run(places) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_rings_and_borders_are_seen(page: Page, scheme: str):
    page.media(scheme)
    for tab in ("points", "scenes"):
        page.open(tab)
        page.settled(tab)
        assert page.run(BORDERS) == []
    names = ["--ring", "--accent", "--wrong", "--a", "--b", "--c", "--line"]
    assert all(ratio >= 3 for ratio in page.run(TONES, names)), dict(zip(names, page.run(TONES, names)))


def test_every_word_that_needs_it_is_explained_by_one_tap(page: Page):
    page.open("points")
    page.settled("points")
    card = page.find("#term")
    for word in ("DSPN", "iDSPN", "MLP", "loss", "mask", "recovered"):
        (button, *_) = page.all(f"#panel-points button.term[data-term={word}]")
        page.run("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()
        page.until(card.is_displayed)
        assert card.find_element("css selector", "strong").text == word
        assert len(card.text) > 80
        assert is_visible(page, "#term")
        page.press("\ue00c")  # Escape
        page.until(lambda: not card.is_displayed())


def test_the_page_has_the_colors_of_the_figures():
    style = (STATIC / "style.css").read_text(encoding="utf-8")
    light, dark = (
        dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", part)) for part in style.split("prefers-color-scheme")
    )
    assert [light[c] for c in "abc"] == list(palette.LINE_COLORS[:3])
    assert (light["accent"], light["wrong"], light["ink"]) == (palette.RIGHT, palette.WRONG, palette.INK)
    assert (dark["accent"], dark["wrong"], dark["ink"]) == tuple(
        palette.DARK[c] for c in (palette.RIGHT, palette.WRONG, palette.INK)
    )


def test_reduced_motion_shows_the_last_step_at_once(driver: Any, tiny_address: str):
    page = Page(driver, tiny_address)
    page.resize(*WIDE)
    page.media()
    page.open("points")
    page.until(lambda: all(page.texts("#panel-points .answers .facts")) and page.texts("#panel-points .answers .facts"))
    assert page.texts("#panel-points .play") == ["Play"]
    assert page.find("#panel-points .where span").text == "step 6 of 6"
