"""The page in a real Chromium, by pointer and by keyboard, wide and on a phone."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from setpredict.web.catalog import load_catalog
from tests.web.page import WIDE, Page
from tests.web.served import Running

pytestmark = pytest.mark.web
Keys = pytest.importorskip("selenium.webdriver", reason="make test-web installs selenium").Keys


def test_draw_a_digit_and_drag_through_its_steps(page: Page):
    page.open("digits")
    page.settled("digits")
    pad = page.find("#panel-digits .pad")
    page.find("#panel-digits [data-do=clear]").click()
    page.until(lambda: page.ink(pad) == 0)
    assert all(page.ink(c) == 0 for c in page.all("#panel-digits .answers canvas"))
    page.drag(pad, (0.35, 0.25), (0.65, 0.25), (0.6, 0.45), (0.5, 0.65), (0.45, 0.85))  # a seven
    page.settled("digits")
    assert page.ink(pad) > 100
    assert "points → 64 numbers" in page.find("#panel-digits .count").text
    canvas = page.all("#panel-digits .answers canvas")[0]
    assert page.ink(canvas) > 100
    slider = page.find("#panel-digits .slider")
    losses = []
    for step in (0, 3, int(slider.get_attribute("max")) // 2):
        page.slide(slider, step)
        assert canvas.get_attribute("data-step") == str(step)
        losses.append(page.losses("digits")[0])
    assert losses[0] > losses[1] > losses[2], f"the representation loss falls: {losses}"


def test_play_pause_and_more_steps(page: Page):
    page.open("points")
    page.settled("points")
    slider, play = page.find("#panel-points .slider"), page.find("#panel-points .play")
    page.slide(slider, 0)
    play.click()
    page.until(lambda: int(slider.get_property("value")) > 1)
    assert play.text == "Pause"
    play.click()
    stopped = slider.get_property("value")
    time.sleep(0.5)
    assert slider.get_property("value") == stopped
    steps = page.find("#panel-points .steps")
    page.run("arguments[0].value = 70; arguments[0].dispatchEvent(new Event('change'))", steps)
    page.until(lambda: slider.get_attribute("max") == "70")
    page.slide(slider, 70)
    assert "step 70 of 70" in page.find("#panel-points .where").text


def test_points_are_placed_and_dragged(page: Page):
    page.open("points")
    page.settled("points")
    pad = page.find("#panel-points .pad")
    page.find("#panel-points [data-do=clear]").click()
    page.run("arguments[0].scrollIntoView({block: 'center'})", pad)
    for position in ((0.3, 0.3), (0.7, 0.35), (0.5, 0.75)):
        page.drag(pad, position)
    page.settled("points")
    points = json.loads(pad.get_attribute("data-points"))
    assert len(points) == 3
    assert points[0] == pytest.approx([0.267, 0.267], abs=0.02)
    page.drag(pad, (0.3, 0.3), (0.35, 0.5), (0.4, 0.6))
    page.until(lambda: json.loads(pad.get_attribute("data-points"))[0] == pytest.approx([0.384, 0.616], abs=0.03))
    assert len(json.loads(pad.get_attribute("data-points"))) == 3
    page.until(lambda: page.texts("#panel-points .answers .facts")[0].startswith("3 points"))
    page.until(lambda: page.texts("#panel-points .answers .found")[0] == "3 of 3 recovered")
    assert len(page.texts("#panel-points .answers .found")) == 3


def test_the_page_by_keyboard_alone(page: Page):
    page.open("polygons")
    page.settled("polygons")
    page.run("document.getElementById('tab-polygons').focus()")
    page.press(Keys.ARROW_LEFT)
    assert page.run("return document.activeElement.id") == "tab-digits"
    page.press(Keys.ARROW_LEFT)
    assert page.run("return document.activeElement.id") == "tab-points"
    page.settled("points")
    page.press(Keys.TAB, Keys.TAB, Keys.TAB)  # over the two explained words
    assert page.run("return document.activeElement.className") == "pad"
    page.find("#panel-points [data-do=clear]").send_keys(Keys.ENTER)
    page.run("document.querySelector('#panel-points .pad').focus()")
    page.press(Keys.ENTER, Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_UP, Keys.ENTER)
    pad = page.find("#panel-points .pad")
    assert json.loads(pad.get_attribute("data-points")) == [[0.5, 0.5], [pytest.approx(0.4), pytest.approx(0.45)]]
    assert "Point 2 placed" in page.run("return document.getElementById('live').textContent")
    page.press(Keys.ENTER, Keys.ARROW_UP, Keys.ENTER)  # pick up, move, put down
    assert json.loads(pad.get_attribute("data-points"))[1] == [pytest.approx(0.4), pytest.approx(0.4)]
    page.press(Keys.DELETE)
    assert len(json.loads(pad.get_attribute("data-points"))) == 1
    page.settled("points")
    slider = page.find("#panel-points .slider")
    before = int(slider.get_property("value"))
    page.run("arguments[0].focus()", slider)
    page.press(Keys.ARROW_LEFT)
    page.until(lambda: int(slider.get_property("value")) == before - 1)
    assert f"step {before - 1} of" in slider.get_attribute("aria-valuetext")


def test_the_dial_turns_polygons(page: Page):
    page.open("polygons")
    page.settled("polygons")
    canvas = page.all("#panel-polygons .answers canvas")[0]
    before = page.run("return arguments[0].toDataURL()", canvas)
    page.slide(page.find("[name=angle]"), 140)
    page.slide(page.find("[name=corners]"), 6)
    page.until(lambda: page.find("#panel-polygons .answers .facts").text.startswith("6 corners"))
    assert page.run("return arguments[0].toDataURL()", canvas) != before
    assert page.find(".angle").text == "140°"
    dial = page.find("#panel-polygons .pad")
    page.run("arguments[0].scrollIntoView({block: 'center'})", dial)
    page.drag(dial, (0.9, 0.5), (0.5, 0.1))
    assert float(page.find("[name=angle]").get_property("value")) == pytest.approx(90, abs=3)
    turn = page.find("[data-do=turn]")
    page.run("arguments[0].click()", turn)
    page.until(lambda: float(page.find("[name=angle]").get_property("value")) > 93)
    page.run("arguments[0].click()", turn)


def test_scenes_show_objects_and_what_is_wrong(page: Page):
    page.open("scenes")
    page.settled("scenes")
    canvases = page.all("#panel-scenes .answers canvas")
    assert all(page.ink(c) > 1000 for c in canvases)
    head = [h.text for h in page.all("#panel-scenes th")]
    assert head == ["", "x, y, z", "size", "color", "material", "shape", "mask"]
    rows = page.all("#panel-scenes tbody tr")
    assert 3 <= len(rows) <= 12
    marked = [c.text for c in page.all("#panel-scenes td.wrong")]
    assert all(text.startswith("×") for text in marked)
    page.slide(page.find("#panel-scenes .slider"), 0)
    plain = page.run("return arguments[0].toDataURL()", canvases[0])
    page.click("#panel-scenes [name=truth]")
    assert page.run("return arguments[0].toDataURL()", canvases[0]) != plain
    number = page.find("#panel-scenes .chooser input")
    first = int(number.get_property("value"))
    page.click("#panel-scenes .after")
    page.until(lambda: number.get_property("value") == str(first + 1))
    page.settled("scenes")


def test_without_a_run_the_page_says_how_to_add_one(page: Page):
    page.open("run")
    page.until(lambda: page.find("#panel-run .none").is_displayed())
    assert "setpredict serve --run" in page.find("#panel-run .none").text
    page.driver.get(f"{page.address}/docs")
    page.until(lambda: "POST /api/{model}/decode" in page.find("main").text)


def test_your_run_shows_its_validation_samples(driver: Any, tmp_path: Path):
    from rich.console import Console

    from setpredict.config import DataConfig, DecoderConfig, EncoderConfig, Experiment, GradientDescent, TrainConfig
    from setpredict.report.page import write_reports
    from setpredict.runs.train import train_run

    experiment = Experiment(
        DataConfig("multisets", points=4, train=64, test=20),
        latent=8,
        encoder=EncoderConfig(hidden=(8,)),
        decoder=DecoderConfig(solver=GradientDescent(steps=2)),
        train=TrainConfig(max_steps=2, batch_size=8, threads=1),
    )
    train_run(experiment, tmp_path / "my run", console=Console(quiet=True))
    with Running(load_catalog([tmp_path / "my run"])) as address:
        page = Page(driver, address)
        page.resize(*WIDE)
        page.media()
        page.open()  # with a run, the page opens there
        page.settled("run")
        assert "my-run (DSPN on multisets)" in page.find("#panel-run select").text
        assert page.ink(page.find("#panel-run .answers canvas")) > 50
        page.click("#panel-run .after")
        page.settled("run")
    (report,) = write_reports([tmp_path / "my run"])
    driver.get_log("browser")
    driver.get(report.as_uri())
    assert "my run" in page.find("h1").text
    assert page.run("return [...document.images].every((i) => i.complete && i.naturalWidth > 0)")
    assert page.errors() == []
