"""Tables in a terminal of any width: nothing is cut off."""

import io

import pytest
from rich.console import Console

from setpredict.report.tables.text import terminal

HEADS = ["model", "hungarian ×1000", "AP0.5 %", "size accuracy %", "minutes", "steps"]
CELLS = [
    ["MLP", "2.668", "0.3 (0.8 ± 0.3)", "91.1", "30", "14,658"],
    ["DSPN (all), 10 steps", "0.986", "0.6 (53.7 ± 4.3)", "88.8", "30", "8,251"],
]


def printed(width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(terminal(HEADS, CELLS, "A table", width))
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("width", [45, 60, 80, 200])
def test_every_number_and_every_word_is_shown(width):
    text = printed(width)
    assert max(map(len, text.splitlines())) <= width
    for part in (word for texts in (*CELLS, (w for head in HEADS for w in head.split())) for word in texts):
        assert part in text


def test_a_wide_console_has_one_table_and_a_narrow_one_repeats_the_first_column():
    assert printed(200).count("MLP") == 1
    assert printed(45).count("MLP") == printed(45).count("model") > 1
    assert "size accuracy %" in printed(200)


def test_brackets_are_text():
    text = io.StringIO()
    table = terminal(["model", "x [mm]"], [["a [/b]", "[red]"]], "speed [m/s]", 60)
    Console(file=text, width=60).print(table)
    assert [part in text.getvalue() for part in ("x [mm]", "a [/b]", "[red]", "speed [m/s]")] == [True] * 4
