"""What a run tells: a progress bar for the person, a CSV file and TensorBoard for later."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from setpredict.core.files import write_text


class RunLog:
    """Rows of named numbers, one a step. What lies beyond the step that a run resumes from is dropped."""

    def __init__(self, folder: Path, resumed_at: int = 0):
        from torch.utils.tensorboard import SummaryWriter

        self.path = folder / "log.csv"
        self.columns: list[str] = []
        rows = [r for r in read_log(self.path) if int(float(r["step"])) <= resumed_at] if resumed_at else []
        for row in rows:
            self.columns += [c for c in row if c not in self.columns]
        self.rows = rows
        self._rewrite()
        self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=resumed_at + 1 if resumed_at else None)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        row = {"step": str(step), **{k: f"{v:.6g}" for k, v in values.items()}}
        self.rows.append(row)
        new = [c for c in row if c not in self.columns]
        if new:  # a column that was not there before: the header changes
            self.columns += new
            self._rewrite()
        else:
            with open(self.path, "a", newline="", encoding="utf-8") as f:
                csv.DictWriter(f, self.columns).writerow(row)
        for name, value in values.items():
            self.board.add_scalar(name, value, step)

    def close(self) -> None:
        self.board.close()

    def _rewrite(self) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.columns)
        if self.columns:
            writer.writeheader()
        writer.writerows(self.rows)
        write_text(self.path, text.getvalue())


def read_log(path: Path) -> list[dict[str, str]]:
    """The rows of a log, without the empty cells; none if there is no log. A half-written last row is left out."""
    if not path.is_file():
        return []
    with open(path, newline="", encoding="utf-8") as f:
        rows = [{k: v for k, v in row.items() if k and v} for row in csv.DictReader(f) if None not in row.values()]
    return [r for r in rows if "step" in r]


class ProgressLine:
    """One live line for a person at a terminal, plain lines now and then where the output goes to a file."""

    def __init__(self, console: Console):
        self.console = console
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self.task = self.bar.add_task("training", total=1.0, note="")

    def __enter__(self) -> ProgressLine:
        if self.console.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def show(self, done: float, note: str, line: bool) -> None:
        """Move the bar; `line` also leaves a line behind where there is no terminal."""
        self.bar.update(self.task, completed=min(done, 1.0), note=note)
        if line and not self.console.is_terminal:
            self.console.print(f"{100 * done:5.1f} %  {note}", highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        (self.bar.console if self.console.is_terminal else self.console).print(text, highlight=False, soft_wrap=True)
