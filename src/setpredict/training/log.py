"""The log of a training: a progress bar for the terminal, a CSV file and TensorBoard for later."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from setpredict.core.log_file import LogFile
from setpredict.core.progress import bar_columns
from setpredict.metrics.units import percent


class RunLog:
    """Writes named numbers per step to a CSV file and to TensorBoard. Rows after step `resumed_at` are dropped.

    Average precisions and accuracies are fractions in the file, for programs, and percent in TensorBoard, for people.
    """

    def __init__(self, csv_path: Path, tensorboard_folder: Path, resumed_at: int = 0):
        from torch.utils.tensorboard import SummaryWriter

        self.file = LogFile(csv_path, resumed_at)
        self.board = SummaryWriter(str(tensorboard_folder), purge_step=resumed_at + 1 if resumed_at else None)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """One row of the CSV file, and one point per value in TensorBoard."""
        self.file.write(step, values)
        for name, value in values.items():
            if percent(name.removeprefix("val_")):
                name, value = f"{name}_percent", 100 * value
            self.board.add_scalar(name, value, step)

    def close(self) -> None:
        self.board.close()


class ProgressLine:
    """A live progress bar in a terminal; plain lines now and then where the output goes to a file."""

    def __init__(self, console: Console):
        self.console = console
        self.bar = Progress(*bar_columns("{task.fields[note]}"), console=console, transient=True, expand=True)
        self.task = self.bar.add_task("training", total=1.0, note="")

    def __enter__(self) -> ProgressLine:
        if self.console.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def show(self, done: float, note: str, line: bool) -> None:
        """Update the bar; with `line`, also print a line where there is no terminal."""
        done = min(done, 1.0)  # the last step may end after the limit
        self.bar.update(self.task, completed=done, note=note)
        if line and not self.console.is_terminal:
            self.console.print(f"{100 * min(done, 1.0):5.1f}%  {note}", highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self.console.print(text, highlight=False, soft_wrap=True)
