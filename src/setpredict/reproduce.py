"""Tables of results: train every row for every seed, skip what is done, keep all that makes a number traceable."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from setpredict.config import ConfigError, to_dict
from setpredict.core.paths import data_folder
from setpredict.core.files import write_text
from setpredict.model import SetPredictor
from setpredict.presets import DataConfig, Experiment, Scale, located
from setpredict.report.results import lay_out
from setpredict.report.tables.text import terminal
from setpredict.core.revision import origin, revision
from setpredict.studies import Row, configure, studies
from setpredict.training.evaluation import Evaluation
from setpredict.training.log import read_log
from setpredict.runs.train import evaluate_run, read_experiment, train_run


def reproduce(
    table: str,
    scale: Scale,
    runs: int,
    *,
    rows: Sequence[str] = (),
    out: Path = Path("runs"),
    results: Path = Path("results"),
    minutes: float | None = None,
    max_steps: int | None = None,
    threads: int | None = None,
    data: DataConfig | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Train and evaluate a table, or some rows of it; interrupted, it goes on where it stopped.

    Returns what the file in `results` then holds: every row that is done, those of earlier calls too.
    """
    console = console or Console()
    revision()  # of the code that is loaded now, not of what lies there when the last row is done
    study = studies()[table]
    chosen = [study.row(name) for name in rows] or study.rows
    folder = out / f"{table}-{scale}"
    path = results / f"{table}-{scale}.json"
    _refuse_other_data(path, configure(study, chosen[0], scale, 0, data=data).data.name)
    console.print(f"{study.title} at scale {scale}, {runs} runs a row. {study.about}")
    for row in chosen:
        for seed in range(runs):
            experiment = configure(study, row, scale, seed, minutes, max_steps, threads, data)
            if experiment.data.name == "scenes" and experiment.data.folder:
                experiment.data.folder = str(out / "scenes")
            run = folder / f"{row.slug}-{seed}"
            console.rule(f"{row.name}, seed {seed}")
            before = None if row.after is None else folder / f"{study.row(row.after).slug}-{seed}"
            if before is not None and not (before / "record.json").is_file():
                raise ConfigError(f'{row.name!r} goes on from {row.after!r}; train that first: --rows "{row.after}"')
            if not finish(experiment, run, console, before):
                raise KeyboardInterrupt
            if not (run / "record.json").is_file():
                counts = [None] if row.method in ("mlp", "lstm") else list(row.steps)
                seen = evaluate_run(run, counts, console=console)
                command = f'setpredict reproduce {table} --scale {scale} --rows "{row.name}" --runs {seed + 1}'
                write_text(run / "record.json", json.dumps(record(row, seed, run, seen, command, before)))
    content = collect(table, scale, folder, path)
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    for name, heads, cells in lay_out(table, content["runs"]):
        console.print(terminal(heads, cells, f"{name}: ours, and the paper's in brackets", console.width))
    console.print(f"Written: {path}; setpredict results puts it into RESULTS.md.")
    return content


def _refuse_other_data(path: Path, name: str) -> None:
    """One table is of one data set: generated scenes and CLEVR do not stand in the same file."""
    entries = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.is_file() else []
    others = {entry["config"]["data"]["name"] for entry in entries} - {name}
    if others:
        raise ConfigError(f"{path} has runs on {others.pop()}, and these would be on {name}: choose another --results")


def collect(table: str, scale: Scale, folder: Path, before: Path) -> dict[str, Any]:
    """All that is done of a table, in the table's order: runs in the folder, and what the file from before has else."""
    entries = json.loads(before.read_text(encoding="utf-8"))["runs"] if before.is_file() else []
    entries += [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*/record.json")]
    newest = {(entry["row"], entry["seed"]): entry for entry in entries}
    order = [row.name for row in studies()[table].rows]
    found = sorted((k for k in newest if k[0] in order), key=lambda k: (order.index(k[0]), k[1]))
    return {"table": table, "scale": scale, "runs": [newest[k] for k in found]}


def finish(experiment: Experiment, folder: Path, console: Console, before: Path | None = None) -> bool:
    """Train a run to its end, from where it stands, or from another run's weights; False if it was interrupted."""
    done = folder / "done.json"
    experiment = located(experiment)
    begun = done.is_file() or (folder / "last.ckpt").is_file()
    if begun and located(read_experiment(folder)) != experiment:
        raise ConfigError(f"{folder} was trained with other settings; choose another --out or remove it")
    if done.is_file():
        console.print(f"{folder} is done already.")
        return True
    resume = (folder / "last.ckpt").is_file()
    train_run(experiment, folder, resume=resume, init_from=None if resume else before, console=console)
    return done.is_file()


def record(
    row: Row, seed: int, folder: Path, seen: Sequence[Evaluation], command: str, before: Path | None = None
) -> dict[str, Any]:
    """All that makes a number traceable, with no path of this machine in it.

    What a run began with counts as its own: the minutes and steps of the run `before`, and its validations.
    """
    done = json.loads((folder / "done.json").read_text(encoding="utf-8"))
    config = to_dict(read_experiment(folder))
    if config["data"]["folder"]:
        place = config["data"]["folder"].replace(str(data_folder().absolute()), "$SETPREDICT_DATA")
        config["data"]["folder"] = place.replace(f"{Path.cwd()}/", "")
    model = SetPredictor.from_pretrained(folder / "best", allow_own_code=True)
    minutes, threads = config["train"]["max_minutes"], config["train"]["threads"] or torch.get_num_threads()
    if minutes:
        command += f" --minutes {minutes:g} --threads {threads}"
    line, spent, taken = curve(folder, seen[0].metrics), done["seconds"] / 60, done["step"]
    if before is not None:
        first = json.loads((before / "record.json").read_text(encoding="utf-8"))
        command = f"{first['command']} && {command}"
        line["minutes"] = [round(first["minutes"] + m, 2) for m in line["minutes"]]
        line = {k: first["curve"][k] + v for k, v in line.items()}
        spent, taken = spent + first["minutes"], taken + first["steps_trained"]
    return {
        "row": row.name,
        "seed": seed,
        "command": command,
        "evaluations": [asdict(e) for e in seen],
        "chosen": taken - done["step"] + json.loads((folder / "best" / "validation.json").read_text("utf-8"))["step"],
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps_trained": taken,
        "minutes": round(spent, 2),
        "after": row.after,
        "curve": line,
        "config": config,
        **origin(folder),
    }


def curve(folder: Path, metrics: Sequence[str] | dict[str, float]) -> dict[str, list[float]]:
    """The validations: training minutes, and each metric that tables have."""
    names = [n for n in metrics if n in ("chamfer", "hungarian") or n.startswith("AP")]
    rows = read_log(folder / "log.csv")
    minutes = {row["step"]: float(row["minutes"]) for row in rows if "minutes" in row}
    seen = [row for row in rows if f"val_{names[0]}" in row]
    found = {"minutes": [round(minutes[row["step"]], 2) for row in seen]}
    return found | {n: [float(row[f"val_{n}"]) for row in seen] for n in names}
