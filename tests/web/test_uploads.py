"""Images and sets of the user in a real Chromium: uploaded or dropped, good, large and broken ones."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from PIL import Image

from setpredict.data.clevr.camera import HEIGHT, WIDTH
from tests.hostile_images import noise, saved
from tests.web.page import WIDE, Page

pytestmark = pytest.mark.web


def photo(width: int, height: int, form: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(buffer, form)
    return buffer.getvalue()


def aspect(page: Page, selector: str) -> float:
    box = page.box(selector)
    return box["width"] / box["height"]


def test_scenes_have_the_aspect_ratio_of_the_camera_and_a_legend(page: Page):
    page.open("scenes")
    page.settled("scenes")
    for canvas in ("input", "answers"):
        assert aspect(page, f"#panel-scenes .{canvas} canvas") == pytest.approx(WIDTH / HEIGHT, rel=0.01)
    legend = " ".join(page.texts("#panel-scenes .marks li"))
    assert "correct" in legend
    assert "wrong" in legend
    assert "ground truth" not in legend
    page.click("#panel-scenes [name=truth]")
    assert "ground truth" in " ".join(page.texts("#panel-scenes .marks li"))
    found = [tuple(map(int, t.split()[:3:2])) for t in page.texts("#panel-scenes .answers .found")]
    assert found[0][0] >= 0.6 * found[0][1], f"a good scene to begin with: {found}"
    side = page.texts("#panel-scenes .seen-facts")[0]
    assert side.endswith("pixels")


def test_an_image_is_uploaded_or_dropped_and_keeps_its_shape(page: Page, tmp_path: Path):
    page.open("scenes")
    page.settled("scenes")
    (tmp_path / "tall.png").write_bytes(photo(200, 300))
    page.find("#panel-scenes input[type=file]").send_keys(str(tmp_path / "tall.png"))
    page.until(lambda: page.texts("#panel-scenes .seen-facts")[0].startswith("tall.png"))
    page.settled("scenes")
    assert aspect(page, "#panel-scenes .answers canvas") == pytest.approx(2 / 3, rel=0.02)
    assert not any(page.texts("#panel-scenes .answers .found")), "nobody knows the truth of an upload"
    assert "nobody knows" in " ".join(page.texts("#panel-scenes .marks li"))
    assert page.all("#panel-scenes tbody tr")
    page.drop("#panel-scenes", "wide.jpg", photo(400, 200, "JPEG"), "image/jpeg")
    page.until(lambda: page.texts("#panel-scenes .seen-facts")[0].startswith("wide.jpg"))
    assert aspect(page, "#panel-scenes .answers canvas") == pytest.approx(2, rel=0.02)
    page.click("#panel-scenes .after")
    page.until(lambda: all(page.texts("#panel-scenes .answers .found")))
    assert aspect(page, "#panel-scenes .answers canvas") == pytest.approx(WIDTH / HEIGHT, rel=0.01)


@pytest.mark.parametrize("tiny_page", [WIDE], ids=["wide"], indirect=True)
def test_a_photo_of_many_megabytes_is_made_smaller_before_it_is_sent(tiny_page: Page, tmp_path: Path):
    page, large = tiny_page, saved(noise(1300, 1000), "PNG")
    assert len(large) > 3_000_000
    page.open("scenes")
    page.settled("scenes")
    (tmp_path / "photo.png").write_bytes(large)
    page.find("#panel-scenes input[type=file]").send_keys(str(tmp_path / "photo.png"))
    page.until(lambda: page.texts("#panel-scenes .seen-facts")[0].startswith("photo.png"))
    page.settled("scenes")


BROKEN = [
    ("cut.png", photo(64, 64)[:60], "cut.png: image is not a valid PNG image: "),
    ("not.png", b"hello, I am text", "not.png: image is not a PNG, JPEG or WebP image: it begins with b'hello, I'"),
    ("head.png", photo(64, 64)[:12], "head.png: image is not a valid PNG image: "),
    ("empty.webp", b"", "empty.webp: image: String should have at least 1 character"),
    ("big.bin", b"\0" * 700_000, "big.bin (0.7 MB) is not an image that this browser can read"),
]


@pytest.mark.parametrize(("name", "content", "reason"), BROKEN, ids=[name for name, *_ in BROKEN])
@pytest.mark.parametrize("tiny_page", [WIDE], ids=["wide"], indirect=True)
def test_a_bad_image_names_the_problem(tiny_page: Page, name: str, content: bytes, reason: str):
    page = tiny_page
    page.open("scenes")
    page.settled("scenes")
    before = page.texts("#panel-scenes .seen-facts")
    page.drop("#panel-scenes", name, content, "image/png")
    page.until(lambda: page.find("#problem").is_displayed())
    text = page.find("#problem").text
    assert reason in text
    assert "object at 0x" not in text
    assert page.texts("#panel-scenes .seen-facts") == before, "the former scene and its answers stay"
    page.click("#panel-scenes .after")
    page.until(lambda: not page.find("#problem").is_displayed())
    refused = [e for e in page.errors() if "422" not in e]  # Chromium logs every response of 4xx
    assert refused == []


def test_a_set_is_uploaded_as_json(tiny_page: Page):
    page = tiny_page
    page.open("points")
    page.settled("points")
    page.drop("#panel-points", "three.json", b"[[0.1, 0.2], [0.5, 0.5], [0.9, 0.3]]", "application/json")
    pad = page.find("#panel-points .pad")
    page.until(lambda: json.loads(pad.get_attribute("data-points")) == [[0.1, 0.2], [0.5, 0.5], [0.9, 0.3]])
    page.until(lambda: page.texts("#panel-points .found")[0].endswith("of 3 recovered"))
    page.drop("#panel-points", "named.json", b'{"set": [[0.25, 0.75]]}', "application/json")
    page.until(lambda: json.loads(pad.get_attribute("data-points")) == [[0.25, 0.75]])
    wrong = {
        b"[[0.1, 0.2": "bad.json is not JSON: ",
        b"7": "bad.json has no set: expected a list of elements such as [[0.2,0.2],[0.7,0.7]].",
        b'[[0.1, 0.2], [0.1, "a"]]': 'bad.json: element 1 is [0.1,"a"]; expected 2 numbers',
        b"[[0.1, 3.5]]": "bad.json: element 0 contains 3.5; numbers are from 0 to 1.",
        json.dumps([[0.5, 0.5]] * 6).encode(): "bad.json has 6 points; at most 5 can be decoded.",
    }
    for content, reason in wrong.items():
        page.drop("#panel-points", "bad.json", content, "application/json")
        page.until(lambda reason=reason: reason in page.find("#problem").text)
        assert json.loads(pad.get_attribute("data-points")) == [[0.25, 0.75]]
