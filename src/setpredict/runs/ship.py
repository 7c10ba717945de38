"""Make a finished run a shipped model: weights, settings, and a card written from the run itself.

python -m setpredict.runs.ship RUN… [--name NAME] [--note TEXT] [--also NAME=FOLDER …] [--out FOLDER]
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import tyro

from setpredict.config import to_dict
from setpredict.core.errors import UserError
from setpredict.runs.card import Card
from setpredict.runs.command import command_of
from setpredict.runs.evaluate import evaluate_run, open_data
from setpredict.runs.folder import DESCRIPTION, here
from setpredict.runs.loaded import LoadedRun, load
from setpredict.runs.predict import accepts
from setpredict.runs.shipped import FOLDER, MOST_BYTES

ENOUGH = 100
"""Samples in a test split that need no others beside them."""


def ship_run(
    run: str | Path, name: str | None = None, note: str = "", out: Path = FOLDER, also: Mapping[str, Path] | None = None
) -> Path:
    """Write the best model of a run to the folder `out/name` with its card; an earlier one is replaced as a whole.

    Args:
        run: The folder of a finished run, evaluated on the test split.
        name: The name of the model (None: the name of the run).
        note: A sentence for the card.
        out: The folder of shipped models.
        also: Other data, none of it seen in training, whose scores are on the card too.
    """
    loaded = load(run)
    name = name or loaded.name
    if not name or not all(c.isalnum() or c in "-_" for c in name):
        raise UserError(f"the name of a shipped model must be letters, digits and dashes, got {name!r}")
    card = replace(make_card(loaded, name, note), elsewhere=scores_elsewhere(loaded, also or {}))
    folder, temporary = out / name, out / f".{name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        loaded.model.save_pretrained(temporary)
        size = max(file.stat().st_size for file in temporary.iterdir())  # the weights
        if size > MOST_BYTES:
            raise UserError(
                f"{run} has {size / 1e6:.1f} MB of weights; a shipped model has at most {MOST_BYTES / 1e6:g} MB"
            )
        shutil.copyfile(loaded.own_folder.description_path, temporary / DESCRIPTION)
        card.write(temporary)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def make_card(run: LoadedRun, name: str, note: str = "") -> Card:
    """The card of a finished and evaluated run.

    A row of `setpredict reproduce` has the command on its card that made it. Scenes rendered into a folder exist
    nowhere else, so the score on the card is measured on scenes that the generator makes anywhere.
    """
    folder, experiment = run.own_folder, run.experiment
    summary, rows, record = folder.read_summary(), folder.read_evaluation("test"), folder.read_record()
    if summary is None:
        raise UserError(f"{folder} is not finished: train it to its end first")
    if rows is None:
        raise UserError(f"{folder} has no test score: setpredict evaluate {folder}")
    data = replace(experiment.data, folder=None)  # a path on this machine means nothing elsewhere
    found: list[Any] = list(rows)
    if experiment.data.name == "scenes" and experiment.data.folder:
        found = [asdict(row) for row in evaluate_run(folder.path, data=data, trivial=False)]
    row = next((r for r in found if r["steps"] in (None, run.steps)), None)
    if row is None:
        raise UserError(f"{folder} has no test score with the steps of its training: setpredict evaluate {folder}")
    return Card(
        name=name,
        method=run.method,
        task=run.task.name,
        data=to_dict(data),
        command=record["command"] if record else command_of(experiment, name),
        metrics=row["metrics"],
        samples=row["samples"],
        date=datetime.fromtimestamp(folder.summary_path.stat().st_mtime, UTC).date().isoformat(),
        parameters=run.model.parameter_count,
        steps_trained=record["steps_trained"] if record else summary["step"],
        minutes=round(record["minutes"] if record else summary["seconds"] / 60, 1),
        **(folder.read_origin() or here()),
        note=note,
        loss=to_dict(experiment.loss),
        accepts=accepts(run.task),
        run=f"runs/{folder.path.resolve().parent.name}/{run.name}" if record else f"runs/{name}",
    )


def scores_elsewhere(run: LoadedRun, also: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """The scores of a run on all samples of other data sets, or on their test splits if they have one."""
    found = {}
    for name, path in also.items():
        (row,) = evaluate_run(run.own_folder.path, split=_unseen(run, path), data=path, trivial=False)
        found[name] = {"samples": row.samples, "metrics": row.metrics}
    return found


def _unseen(run: LoadedRun, path: Path) -> str:
    """Small data sets are measured as a whole; of larger ones, the test split is enough."""
    data = open_data(run, path)
    return "test" if len(data.test) >= ENOUGH else "all"


def main(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    note: str = "",
    name: str | None = None,
    also: tuple[str, ...] = (),
    out: Annotated[Path, tyro.conf.arg(help_behavior_hint="(default: this package)")] = FOLDER,
) -> None:
    """Make finished runs shipped models, each by the name of its folder.

    Args:
        runs: The folders of the runs, evaluated on the test split.
        note: A sentence for the model card, such as what the model is still bad at.
        name: Another name for the model, for one run.
        also: Other data that the model has not seen, as NAME=FOLDER, to be measured for the card.
        out: The folder to write to.
    """
    if not runs:
        raise UserError("name at least one run")
    if name and len(runs) > 1:
        raise UserError(f"--name {name} is for one run, got {len(runs)}")
    wrong = [text for text in also if not all(text.partition("="))]
    if wrong:
        raise UserError(f"--also takes NAME=FOLDER, got {wrong[0]!r}")
    others = {text.partition("=")[0]: Path(text.partition("=")[2]) for text in also}
    for run in runs:
        folder = ship_run(run, name, note, out, others)
        size = sum(f.stat().st_size for f in folder.iterdir())
        print(f"{folder.name}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    try:
        tyro.cli(main, prog="python -m setpredict.runs.ship")
    except UserError as e:
        sys.exit(f"setpredict.runs.ship: {e}")
