"""Progress bars: what a narrow terminal shows, and percentages that never exceed 100."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from setpredict.core import progress as module
from setpredict.core.progress import bar_columns, progress

NOTE = "step 123456  loss 0.01234  Y0 0.1234 → YT 0.01234  repr 1.2e-03  1234 samples/s"


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("note", ["", NOTE, "Reading [/v2] [red]"])
def test_the_bar_the_percentage_and_the_time_fit_in_one_line(width: int, note: str):
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    bars = Progress(*bar_columns("{task.fields[note]}"), console=console, expand=True)
    task = bars.add_task("", total=1.0, note=note)
    bars.update(task, completed=0.42)
    with console.capture() as captured:
        console.print(bars)
    (line,) = captured.get().splitlines()
    assert len(line) <= width
    assert line.startswith("━" * 8)
    assert " 42% " in line
    assert "-:--:-- left" in line  # nothing is known about the speed yet
    end = "left" if not note else "…" if note == NOTE and width < 120 else note[-8:]
    assert line.rstrip().endswith(end)


def test_lines_never_exceed_100_percent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    monkeypatch.setattr(module, "SECONDS", 0.0)
    with progress("reading", 10, done=4) as advance:
        advance(4)
        advance(4)
    assert capsys.readouterr().err.splitlines() == ["reading: 8 of 10 (80%)", "reading: 10 of 10 (100%)"]
