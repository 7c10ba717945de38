"""`setpredict evaluate`: scores of a model beside trivial predictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from setpredict.config.inner import check_steps
from setpredict.core.errors import UserError
from setpredict.core.progress import is_first_process

if TYPE_CHECKING:
    from rich.console import Console


def evaluate(
    run: Positional[Path],
    steps: tuple[int, ...] = (),
    split: Literal["test", "val", "train", "all"] = "test",
    data_folder: Annotated[Path | None, arg(name="data.folder")] = None,
    batch_size: int | None = None,
    allow_own_code: bool = False,
) -> None:
    """Measure a model on a complete split, beside trivial predictions that every model should beat.

    Args:
        run: The run's folder, or the name of a shipped model such as points-idspn.
        steps: Numbers of inner steps, one row per number, such as 10 20 30 (none: as trained).
        split: Models are selected on val and reported on test; all is for data that the model has not seen.
        data_folder: Other data than the model's own: whatever `setpredict data check` opens, or a folder with
            val.jsonl or test.jsonl alone. Without a test split, the validation file is used, or else all of it.
        batch_size: Samples decoded at once (None: 128, or on a GPU as many as in a training step, if these are fewer).
        allow_own_code: Import the run's own classes (module:Class). Runs that you trained here need no permission.
    """
    from rich.console import Console

    console = Console()
    verdict = print_evaluation(run, console, steps, split, data_folder, batch_size, allow_own_code)
    if is_first_process() and verdict:
        console.print(verdict, style="bold", highlight=False)


def print_evaluation(
    run: Path,
    console: Console,
    steps: tuple[int, ...] = (),
    split: str = "test",
    data: Path | None = None,
    batch_size: int | None = None,
    allow_own_code: bool = False,
) -> str:
    """Evaluate and print all tables; returns the verdict."""
    from setpredict.report.quality import print_tables, verdict
    from setpredict.runs.evaluate import evaluate_run
    from setpredict.runs.loaded import load

    check_steps(steps)
    if batch_size is not None and batch_size < 1:
        raise UserError(f"--batch-size must be at least 1, got {batch_size}")
    given = {"batch_size": batch_size, "console": console, "allow_own_code": allow_own_code}
    rows = evaluate_run(run, steps or (None,), split, data=data, strict=True, **given)
    if not is_first_process():
        return ""
    where = f"{run} on {data}" if data else str(run)
    print_tables(rows, load(run, allow_own_code=allow_own_code).task, f"{where}, {split} split", console)
    said = verdict(rows[0])
    return f"After {rows[0].steps} steps: {said}" if said and steps and rows[0].steps is not None else said
