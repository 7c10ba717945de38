"""What the page does with answers that come late, in a real Chromium: only the newest action counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from setpredict.data.sources.multisets import multisets
from tests.web.conftest import checked
from tests.web.page import WIDE, Page
from tests.web.served import Running, tiny
from tests.web.test_own_runs import drawn

pytestmark = pytest.mark.web
HOLD = """
const ask = window.fetch;
window.held = [];
window.fetch = (...request) => new Promise((go) => window.held.push(go)).then(() => ask(...request));
"""
RELEASE = "window.fetch = ask; for (const go of window.held.splice(0)) go();"


@pytest.fixture
def wide(driver: Any, tiny_address: str):
    yield from checked(Page(driver, tiny_address), WIDE)


def hold(page: Page) -> None:
    """From now on, requests wait."""
    page.run(HOLD.replace("const ask", "window.ask"))


def release(page: Page) -> None:
    """The requests that wait are sent, and later ones do not wait."""
    page.run(RELEASE.replace("= ask", "= window.ask"))


def test_an_answer_is_left_out_after_the_points_were_cleared(wide: Page):
    wide.open("points")
    wide.settled("points")
    hold(wide)
    wide.click("#panel-points [data-do=random]")
    wide.click("#panel-points [data-do=clear]")
    release(wide)
    wide.until(lambda: wide.find("#panel-points .answers").get_attribute("aria-busy") == "false")
    assert wide.texts("#panel-points .answers .facts") == ["", ""]
    assert all(wide.ink(canvas) == 0 for canvas in wide.all("#panel-points .answers canvas"))


def test_a_broken_file_does_not_keep_the_next_scene_from_being_shown(wide: Page):
    wide.open("scenes")
    wide.settled("scenes")
    hold(wide)
    wide.drop("#panel-scenes", "broken.png", b"\x89PNG\r\n\x1a\nno image", "image/png")
    wide.until(lambda: wide.run("return window.held.length") > 0)
    wide.click("#panel-scenes .after")
    release(wide)
    number = wide.find("#panel-scenes .chooser input").get_attribute("value")
    wide.until(lambda: wide.texts("#panel-scenes .seen-facts")[0].startswith(f"Scene {number} "))
    assert not wide.find("#problem").is_displayed()
    wide.driver.get_log("browser")  # Chromium logs the answer 422 to the broken file


def test_points_are_judged_by_the_set_that_was_asked(wide: Page):
    wide.open("points")
    wide.settled("points")
    total = {text.partition(" of ")[2] for text in wide.texts("#panel-points .answers .found")}
    hold(wide)
    wide.click("#panel-points [data-do=remove]")
    wide.run("window.dispatchEvent(new Event('resize'))")  # the old answers are drawn again
    assert {text.partition(" of ")[2] for text in wide.texts("#panel-points .answers .found")} == total
    release(wide)
    wide.until(lambda: {t.partition(" of ")[2] for t in wide.texts("#panel-points .answers .found")} != total)


def test_a_number_of_steps_is_kept_that_was_chosen_while_an_answer_was_on_its_way(wide: Page):
    wide.open("points")
    wide.settled("points")
    hold(wide)
    wide.click("#panel-points [data-do=random]")
    wide.run(
        "const f = document.querySelector('#panel-points .steps'); f.value = 9; f.dispatchEvent(new Event('change'))"
    )
    placed = wide.find("#panel-points .pad").get_attribute("data-points")
    release(wide)
    wide.until(lambda: wide.texts("#panel-points .where span")[0].endswith("of 9"))
    assert wide.find("#panel-points .pad").get_attribute("data-points") == placed
    total = len(json.loads(placed))
    assert all(t.endswith(f"of {total} recovered") for t in wide.texts("#panel-points .answers .found"))


def test_another_run_is_not_drawn_over_by_the_one_before(driver: Any):
    runs = {"run-a": multisets(5, variable=True, test=7), "run-b": drawn("vectors", 5)}
    with Running({name: tiny(name, task) for name, task in runs.items()}) as address:
        page = Page(driver, address)
        page.resize(*WIDE)
        page.media()
        page.errors()  # forget those of other pages
        page.open("run")
        page.settled("run")
        hold(page)
        page.click("#panel-run .after")
        page.run(
            "const s = document.querySelector('#panel-run select'); s.value = 'run-b';"
            "s.dispatchEvent(new Event('change'))"
        )
        assert page.texts("#panel-run .seen-facts") == [""]
        release(page)
        page.settled("run")
        assert page.texts("#panel-run .seen-facts")[0].endswith("3 numbers")
        assert page.all("#panel-run tbody tr"), "the table of the second run"
    assert page.errors() == []


def test_a_problem_can_be_closed(wide: Page):
    wide.open("points")
    wide.settled("points")
    wide.drop("#panel-points", "bad.json", b"{", "application/json")
    wide.until(lambda: "bad.json is not JSON" in wide.find("#problem").text)
    wide.find("#problem .close").click()
    assert not wide.find("#problem").is_displayed()
    assert wide.run("return document.activeElement.id") == "main"


def test_an_explanation_has_the_focus_and_gives_it_back(wide: Page):
    wide.open("points")
    wide.settled("points")
    button = wide.find("#panel-points .lead button.term")
    button.click()
    assert wide.run("return document.activeElement.id") == "term"
    wide.find("#term .close").click()
    assert not wide.find("#term").is_displayed()


def test_a_second_finger_and_the_right_button_place_no_point(wide: Page):
    from selenium.webdriver import ActionChains

    wide.open("points")
    wide.settled("points")
    pad = wide.find("#panel-points .pad")
    before = pad.get_attribute("data-points")
    ActionChains(wide.driver).move_to_element_with_offset(pad, 20, 60).context_click().perform()
    assert pad.get_attribute("data-points") == before


def test_a_second_finger_does_not_end_a_stroke(wide: Page):
    """Pointer events as browsers send them for fingers: the first is primary, a second is not."""
    wide.open("points")
    wide.settled("points")
    seen = []
    for fingers in (1, 2):
        wide.click("#panel-points [data-do=clear]")
        seen.append(
            wide.run(
                "const pad = document.querySelector('#panel-points .pad'), box = pad.getBoundingClientRect();"
                "pad.setPointerCapture = () => {};"
                "const send = (name, x, y, isPrimary) => pad.dispatchEvent(new PointerEvent(name, { isPrimary,"
                "  bubbles: true, clientX: box.left + x * box.width, clientY: box.top + y * box.height }));"
                "send('pointerdown', 0.3, 0.3, true);"
                "if (arguments[0] > 1) for (const name of ['down', 'up']) send(`pointer${name}`, 0.9, 0.9, false);"
                "send('pointermove', 0.5, 0.8, true); send('pointerup', 0.5, 0.8, true);"
                "send('pointermove', 0.1, 0.1, true); return JSON.parse(pad.dataset.points)",
                fingers,
            )
        )
    assert seen[0] == seen[1]
    assert seen[0][0] == pytest.approx([0.5, 0.8], abs=0.1)


@pytest.mark.parametrize("left", [True, False])
def test_nothing_is_played_on_a_tab_that_was_left(wide: Page, left: bool):
    wide.open("points")
    wide.settled("points")
    hold(wide)
    wide.media(motion=True)
    try:
        wide.click("#panel-points [data-do=random]")
        if left:
            wide.click("#tab-polygons")
        release(wide)
        wide.until(lambda: wide.find("#panel-points .answers").get_attribute("aria-busy") == "false")
        assert wide.find("#panel-points .play").get_attribute("textContent") == ("Play" if left else "Pause")
    finally:
        wide.media()


def test_without_a_number_of_steps_there_are_as_many_as_in_training(wide: Page):
    wide.open("points")
    wide.settled("points")
    field = "const f = document.querySelector('#panel-points .steps');"
    seen = []
    for value in ("5", ""):
        wide.run(f"{field} f.value = '{value}'; f.dispatchEvent(new Event('change'))")
        seen.append(wide.run(f"{field} return f.value"))
    assert seen == ["5", "3"]


def test_a_late_answer_does_not_hide_the_problem_of_a_file(wide: Page):
    wide.open("points")
    wide.settled("points")
    hold(wide)
    wide.click("#panel-points [data-do=random]")
    wide.drop("#panel-points", "bad.json", b"{", "application/json")
    wide.until(lambda: "bad.json is not JSON" in wide.find("#problem").text)
    release(wide)
    wide.until(lambda: wide.find("#panel-points .answers").get_attribute("aria-busy") == "false")
    assert "bad.json is not JSON" in wide.find("#problem").text
