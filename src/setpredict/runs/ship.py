"""From a finished run to a shipped model: weights, settings, and a card written from the run itself."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

from setpredict.config import TrainConfig, to_dict
from setpredict.core.files import write_text
from setpredict.runs.card import FOLDER, MOST_BYTES, Card
from setpredict.presets import METHODS, PRESETS, SCALES, Experiment, preset
from setpredict.report.tables.text import heading, shown
from setpredict.core.revision import origin

KEPT = ("config.json", "model.safetensors")


def export(run: Path, name: str | None = None, note: str = "", out: Path = FOLDER) -> Path:
    """Copy the best model of a run to `out/name` with its card; what was there before is replaced as a whole.

    A row of `setpredict reproduce` has the command on its card that made it. Scenes that lay in a folder are nowhere
    else: the score on the card is that on scenes which the generator makes anywhere.
    """
    from setpredict.runs.predict import load_run
    from setpredict.runs.loaded import TrainedRun
    from setpredict.runs.train import evaluate_run, read_experiment

    name = name or run.name
    if not name or not all(c.isalnum() or c in "-_" for c in name):
        raise ValueError(f"a shipped model's name has letters, digits and dashes, got {name!r}")
    experiment = read_experiment(run)
    model, task = load_run(run)
    done = _read(run / "done.json", "is not finished: train it to its end first")
    rows = _read(run / "evaluation-test.json", f"has no test score: setpredict evaluate {run}")
    record = _read(run / "record.json", "") if (run / "record.json").is_file() else None
    elsewhere = replace(experiment.data, folder=None)  # where it lay is nobody else's business
    if experiment.data.name == "scenes" and experiment.data.folder:
        rows = [asdict(row) for row in evaluate_run(run, data=elsewhere)]
    row = next((r for r in rows if r["steps"] in (None, experiment.decoder.steps)), None)
    if row is None:
        raise ValueError(f"{run} has no test score at the steps that it was trained with: setpredict evaluate {run}")
    size = (run / "best" / "model.safetensors").stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"{run} has {size / 1e6:.1f} MB of weights; a shipped model has at most {MOST_BYTES / 1e6} MB")
    card = Card(
        name=name,
        method=TrainedRun(run, experiment, task, model).method,
        task=task.name,
        data=to_dict(elsewhere),
        command=record["command"] if record else command_of(experiment, name),
        metrics=row["metrics"],
        samples=row["samples"],
        date=datetime.fromtimestamp((run / "done.json").stat().st_mtime, UTC).date().isoformat(),
        parameters=sum(p.numel() for p in model.parameters()),
        steps_trained=record["steps_trained"] if record else done["step"],
        minutes=round(record["minutes"] if record else done["seconds"] / 60, 1),
        **origin(run),
        note=note,
        loss=to_dict(experiment.loss),
        run=f"runs/{run.parent.name}/{run.name}" if record else f"runs/{name}",
    )
    folder, temporary = out / name, out / f".{name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    for file in KEPT:
        shutil.copyfile(run / "best" / file, temporary / file)
    shutil.copyfile(run / "task.json", temporary / "task.json")
    write_text(temporary / "card.json", json.dumps(asdict(card), indent=2, ensure_ascii=False) + "\n")
    write_text(temporary / "README.md", in_words(card))
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
    return folder


def in_words(card: Card) -> str:
    """The model card as Markdown."""
    scores = "\n".join(f"| {heading(k)} | {shown(k, v)} |" for k, v in card.metrics.items())
    note = f"\n{card.note}\n" if card.note else ""
    return (
        f"# {card.name}\n\n{card.method} on `{card.task}`, {card.parameters:,} parameters.\n{note}\n"
        f"| score on {card.samples:,} test samples | |\n| --- | ---: |\n{scores}\n\n"
        f"Trained on {card.date} for {card.minutes:g} minutes, {card.steps_trained:,} steps "
        f"({card.hardware}, code {card.revision}):\n\n```\n{card.command}\npython -m setpredict.runs.card "
        f"{quote(card.run or f'runs/{card.name}')} --name {card.name}\n```\n\n`setpredict evaluate {card.name}` "
        "measures the scores again.\n\n"
        "Data: made by this project, or MNIST (`mnist`); see `card.json` for every setting of it. The weights are "
        "safetensors and hold no code. Made to be looked at on the page of `setpredict serve`, for no other use.\n"
    )


def command_of(experiment: Experiment, name: str) -> str:
    """The shortest `setpredict train …` that gives this experiment.

    >>> experiment = preset("multisets", "idspn")
    >>> experiment.data.variable = True
    >>> command_of(experiment, "mine")
    'setpredict train multisets --method idspn --data.variable --name mine'
    """
    best: list[str] | None = None
    for preset_name in PRESETS:
        for method in METHODS:
            for scale in SCALES:
                start = preset(preset_name, method, scale)
                if (start.data.name, start.data.target) != (experiment.data.name, experiment.data.target):
                    continue
                words = [preset_name, "--method", method, *(["--scale", scale] if scale != "small" else [])]
                words += _options(to_dict(start), to_dict(experiment))
                if best is None or len(words) < len(best):
                    best = words
    return " ".join(["setpredict train", *(best or ["PRESET"]), "--name", name])


def _options(start: dict[str, Any], end: dict[str, Any], before: str = "") -> list[str]:
    flat = {f.name for f in fields(TrainConfig)}
    words: list[str] = []
    for key, value in end.items():
        if isinstance(value, dict):
            words += _options(start[key], value, "" if key == "train" and not before else f"{before}{key}.")
        elif value != start[key]:
            option = (before + key).replace("_", "-") if key not in flat or before else key.replace("_", "-")
            if isinstance(value, bool):
                at, _, last = option.rpartition(".")
                words.append(f"--{option}" if value else f"--{at}{'.' if at else ''}no-{last}")
            elif isinstance(value, list | tuple):
                words += [f"--{option}", *map(str, value)]
            else:
                words += [f"--{option}", str(value)]
    return words


def _read(path: Path, problem: str) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent} {problem}")
    return json.loads(path.read_text(encoding="utf-8"))
