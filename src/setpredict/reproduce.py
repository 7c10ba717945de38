"""Tables of results: train every row for every seed, skip finished runs, record where every number comes from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from setpredict.build import make_task
from setpredict.config import DataConfig, Experiment, to_json
from setpredict.core.errors import UserError
from setpredict.core.files import read_json, write_text
from setpredict.core.paths import data_folder
from setpredict.core.revision import revision
from setpredict.metrics.units import DISTANCES, EXACT
from setpredict.presets import Scale
from setpredict.report.figures.save import save
from setpredict.report.row_pictures import first_predictions, row_pictures
from setpredict.report.tables.records import lay_out
from setpredict.report.tables.text import terminal
from setpredict.resolve import resolved
from setpredict.runs.evaluate import evaluate_run
from setpredict.runs.folder import RunFolder, here
from setpredict.runs.loaded import LoadedRun, load
from setpredict.runs.shipped import shipped
from setpredict.runs.train import train_run
from setpredict.runs.training_run import Diverged
from setpredict.studies import TUNING_MINUTES, Row, Study, configure, studies
from setpredict.training.evaluation import Evaluation

CONTINUE = "Stopped. The same command continues the table."
SHOWN = "first_predictions"
"""The field of a record that the picture of a table is drawn from."""


def reproduce(
    table: str,
    scale: Scale,
    runs: int,
    *,
    first_seed: int = 0,
    rows: Sequence[str] = (),
    out: Path = Path("runs"),
    results: Path = Path("results"),
    minutes: float | None = None,
    max_steps: int | None = None,
    threads: int | None = None,
    data: DataConfig | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Train and evaluate a table, or some of its rows; call it again to resume it after an interruption.

    Seeds are those from `first_seed` up to, but not including, `runs`.

    Returns the content of the file in `results`: every finished row, also those of earlier calls.
    """
    console = console or Console()
    revision()  # of the code that is loaded now, not of the files when the last row is finished
    study = find_study(table, scale)
    chosen = [study.row(name) for name in rows] or study.rows
    folder = _folder(out, table, scale)
    path = results / f"{table}-{scale}.json"
    _check_same_data(path, configure(study, chosen[0], scale, 0, data=data).data.name)
    console.print(f"{study.title} at scale {scale}, {runs} runs per row. {study.about}")
    pictured = None
    for row in chosen:
        for seed in range(first_seed, runs):
            experiment = configure(study, row, scale, seed, minutes, max_steps, threads, data)
            if experiment.data.name == "scenes" and experiment.data.folder:
                experiment.data.folder = str(out / Path(experiment.data.folder).name)
            run = RunFolder(folder / f"{row.slug}-{seed}")
            before = _start_of(row, table, scale, out, seed, results, experiment.data.name)
            if row.encoder and before is not None and before.read_record() is None:
                console.print(f"{row.name} starts from {row.encoder!r}, which is trained first.", markup=False)
                given = {"max_steps": max_steps, "threads": threads, "data": data, "console": console}
                _train_encoder(row, table, scale, minutes, out=out, results=results, **given)
            first = RunFolder(folder / f"{row.slug}-0").read_record() or (_recorded(path, row.name) if seed else None)
            tried = (first or {}).get("tuning") or tune(experiment, row, folder, console, before)
            if tried:
                experiment.train.lr = best_rate(row, tried)
            console.rule(f"{row.name}, seed {seed}")
            if not finish(experiment, run, console, before):
                raise KeyboardInterrupt(CONTINUE)
            is_new = run.read_record() is None
            if is_new:
                measured = evaluate_run(run.path, row.steps, console=console, trivial=False)
                command = f'setpredict reproduce {table} --scale {scale} --rows "{row.name}" --runs {seed + 1}'
                command += "" if max_steps is None else f" --max-steps {max_steps}"
                entry = record(row, seed, run, measured, command, before if row.after else None)
                run.write_record(entry | ({"tuning": tried} if tried else {}))
            is_start = seed == 0 and row.name in {r.encoder for r in study.rows if r.encoder_table in (None, table)}
            if is_start and (is_new or _weights(results, run.path).read_record() is None):
                run.publish(_weights(results, run.path))
            if run.read_description().input_kind == "image":
                pictured = load(run.path)
                add_predictions(pictured)
        write_text(path, json.dumps(collect(table, scale, folder, path), indent=1, ensure_ascii=False) + "\n")
    content = read_json(path)
    if pictured is not None:
        draw_rows(pictured, content["runs"], path.with_suffix(".png"))
    for name, heads, cells in lay_out(table, content["runs"]):
        console.print(terminal(heads, cells, f"{name}: ours, and the paper's in parentheses", console.width))
    console.print(f"Written: {path}; setpredict results puts it into RESULTS.md.", markup=False)
    return content


def find_study(table: str, scale: Scale) -> Study:
    """The table of that name; raises if it has no such scale."""
    found = studies(scale)
    if table not in found:
        raise UserError(f"--scale {scale} is for {' and '.join(found)}, not for {table}")
    return found[table]


def _folder(out: Path, table: str, scale: Scale) -> Path:
    return out / f"{table}-{scale}"


def _weights(results: Path, run: Path) -> RunFolder:
    """Where the weights are kept that several rows start from, so that others can be added on another machine."""
    return RunFolder(results / "weights" / run.parent.name / run.name)


def _start_of(row: Row, table: str, scale: Scale, out: Path, seed: int, results: Path, data: str) -> RunFolder | None:
    """What a row starts from: a run in `out`, its published weights or a shipped model; an encoder's may not exist yet.

    The weights published here are those of generated scenes, not of CLEVR: the data must be the same.
    """
    if row.shipped is not None:
        return RunFolder(shipped()[row.shipped])
    name = row.after or row.encoder
    if name is None:
        return None
    table = row.encoder_table or table
    own = find_study(table, scale).row(name)
    start = RunFolder(_folder(out, table, scale) / f"{own.slug}-{seed if row.after else 0}")
    published = [_weights(folder, start.path) for folder in (results, Path("results"))] if row.encoder else []
    other = _trained_on(start)
    if other not in (None, data):
        raise UserError(f"{start} was trained on {other}, not on {data}: choose another --out")
    found = next((folder for folder in (start, *published) if _trained_on(folder) == data), None)
    if found is None and row.after:
        command = f'setpredict reproduce {table} --scale {scale} --rows "{name}" --runs {seed + 1}'
        raise UserError(f"{row.name!r} starts from {name!r}; train that first: {command} --out {out}")
    return found or start


def _trained_on(run: RunFolder) -> str | None:
    """The name of the data set of a finished run; None if it is not finished."""
    record = run.read_record()
    return None if record is None else record["config"]["data"]["name"]


def _train_encoder(row: Row, table: str, scale: Scale, minutes: float | None, **given: Any) -> None:
    """Train the row whose image encoder another starts from: for its own time, or less if that is what there is."""
    assert row.encoder is not None
    home = row.encoder_table or table
    own = configure(find_study(home, scale), find_study(home, scale).row(row.encoder), scale, 0).train.max_minutes
    if minutes is not None and own is not None:
        minutes = min(minutes, own)
    reproduce(home, scale, 1, rows=[row.encoder], minutes=minutes, **given)


def _recorded(path: Path, row: str) -> dict[str, Any] | None:
    """The record of a row's first seed in the file of a table, which may have been trained on another machine."""
    entries = read_json(path)["runs"] if path.is_file() else []
    return next((entry for entry in entries if (entry["row"], entry["seed"]) == (row, 0)), None)


def tune(
    experiment: Experiment, row: Row, folder: Path, console: Console, before: RunFolder | None
) -> list[dict[str, Any]]:
    """Train a row for a few minutes with each of its learning rates; returns their validation scores.

    Every row has the same time and the same choices, and every seed uses what was found with seed 0. Where the steps of
    the row are limited too, so that a faster machine does not train it longer, these trainings have the same share of
    them. A training that diverges has no score.
    """
    tried = []
    whole = experiment.train.max_minutes or TUNING_MINUTES
    limits: dict[str, Any] = {"minutes": min(TUNING_MINUTES, whole)}
    if experiment.train.max_steps is not None:
        limits["max_steps"] = math.ceil(experiment.train.max_steps * limits["minutes"] / whole)
    for rate in row.rates:
        minutes = limits["minutes"]
        short = replace(experiment.train, lr=rate, max_minutes=minutes, max_steps=limits.get("max_steps"), seed=0)
        run = RunFolder(folder / f"{row.slug}-lr{rate:g}")
        console.rule(f"{row.name}, learning rate {rate:g} for {minutes:g} minutes")
        try:
            if not finish(replace(experiment, train=short), run, console, before):
                raise KeyboardInterrupt(CONTINUE)
        except Diverged as e:
            console.print(f"Learning rate {rate:g} is too high: {e}", markup=False)
            tried.append({"lr": rate, **limits, "step": None, "score": None})
            continue
        validation = run.read_validation()
        assert validation is not None
        tried.append({"lr": rate, **limits, "step": validation["step"], "score": validation["score"]})
    return tried


def best_rate(row: Row, tried: Sequence[Mapping[str, Any]]) -> float:
    """The learning rate with the best validation score."""
    scored = [entry for entry in tried if entry["score"] is not None]
    if not scored:
        raise UserError(f"{row.name}: the training diverged with each of its learning rates")
    return min(scored, key=lambda entry: entry["score"])["lr"]


def _check_same_data(path: Path, name: str) -> None:
    """A table has one data set: generated scenes and CLEVR do not mix in one file."""
    entries = read_json(path)["runs"] if path.is_file() else []
    others = {entry["config"]["data"]["name"] for entry in entries} - {name}
    if others:
        raise UserError(f"{path} has runs on {others.pop()}, and these would be on {name}: choose another --results")


def collect(table: str, scale: Scale, folder: Path, before: Path) -> dict[str, Any]:
    """All finished runs of a table, in its order: those in the folder, and others that the earlier file has."""
    entries = read_json(before)["runs"] if before.is_file() else []
    found = [RunFolder(path).read_record() for path in sorted(folder.iterdir())] if folder.is_dir() else []
    entries += [record for record in found if record is not None]
    newest = {(entry["row"], entry["seed"]): entry for entry in entries}
    order = [row.name for row in find_study(table, scale).rows]
    keys = sorted((k for k in newest if k[0] in order), key=lambda k: (order.index(k[0]), k[1]))
    return {"table": table, "scale": scale, "runs": [newest[k] for k in keys]}


def add_predictions(run: LoadedRun) -> None:
    """Add to the record of a run what it predicts for the first test samples, unless it has that."""
    entry = run.own_folder.read_record()
    assert entry is not None
    if SHOWN not in entry:
        run.own_folder.write_record(entry | {SHOWN: first_predictions(run)})


def draw_rows(run: LoadedRun, entries: Sequence[Mapping[str, Any]], path: Path) -> None:
    """A picture of the first test samples, those of `run`, as each row predicts them whose record says so.

    Of several seeds, it shows the first.
    """
    rows: dict[str, Any] = {}
    for entry in entries:
        if SHOWN in entry:
            rows.setdefault(entry["row"], entry[SHOWN])
    if len(rows) > 1:
        save(row_pictures(run, rows), path)


def finish(experiment: Experiment, folder: RunFolder, console: Console, before: RunFolder | None = None) -> bool:
    """Train a run to its end, from its checkpoint or from another run's weights; False if it was interrupted."""
    experiment = experiment.located()
    if folder.is_finished or folder.has_checkpoint:
        stored = folder.read_experiment().located()  # with what was left to the data decided
        if stored != experiment and stored != resolved(experiment, make_task(experiment.data)):
            raise UserError(f"{folder} was trained with other settings; choose another --out or remove it")
        experiment = stored
    if folder.is_finished:
        console.print(f"{folder} is already finished.", markup=False)
        return True
    resume = folder.has_checkpoint
    init_from = None if resume or before is None else before.path
    train_run(experiment, folder.path, resume=resume, init_from=init_from, console=console)
    return folder.is_finished


def record(
    row: Row,
    seed: int,
    folder: RunFolder,
    measured: Sequence[Evaluation],
    command: str,
    before: RunFolder | None = None,
) -> dict[str, Any]:
    """Everything that makes a number traceable, without a path of this machine.

    The minutes, steps and validations of the run that it started from, `before`, are included.
    """
    run, summary, validation = load(folder.path), folder.read_summary(), folder.read_validation()
    assert summary is not None
    assert validation is not None
    config = to_json(run.experiment)
    if config["data"]["folder"]:
        config["data"]["folder"] = _portable(Path(config["data"]["folder"]))
    minutes, threads = config["train"]["max_minutes"], config["train"]["threads"] or torch.get_num_threads()
    if minutes:
        command += f" --minutes {minutes:g} --threads {threads}"
    line, spent, taken = curve(folder, measured[0].metrics), summary["seconds"] / 60, summary["step"]
    first = None if before is None else before.read_record()
    if first is not None:
        command = f"{first['command']} && {command}"
        line["minutes"] = [round(first["minutes"] + m, 2) for m in line["minutes"]]
        line["steps"] = [first["steps_trained"] + step for step in line["steps"]]
        line = {k: first["curve"][k] + v for k, v in line.items()}
        spent, taken = spent + first["minutes"], taken + first["steps_trained"]
    return {
        "row": row.name,
        "seed": seed,
        "command": command,
        "evaluations": [asdict(e) for e in measured],
        "chosen": taken - summary["step"] + validation["step"],
        "parameters": run.model.parameter_count,
        "steps_trained": taken,
        "minutes": round(spent, 2),
        "after": row.after,
        "curve": line,
        "config": config,
        **here(),
        **(folder.read_origin() or {}),
    }


def _portable(place: Path) -> str:
    """A path below $SETPREDICT_DATA or the current folder, without that part of it, which only this machine has."""
    if place.is_relative_to(data_folder().absolute()):
        return (Path("$SETPREDICT_DATA") / place.relative_to(data_folder().absolute())).as_posix()
    return (place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place).as_posix()


def curve(folder: RunFolder, metrics: Sequence[str] | dict[str, float]) -> dict[str, list[float]]:
    """The validations: training minutes and steps, and each metric that tables show."""
    names = [n for n in metrics if n in DISTANCES or n in EXACT or n.startswith("AP")]
    validations = [row for row in folder.read_log() if f"val_{names[0]}" in row]
    found: dict[str, list[float]] = {
        "minutes": [round(float(row["minutes"]), 2) for row in validations],
        "steps": [int(row["step"]) for row in validations],
    }
    return found | {n: [float(row[f"val_{n}"]) for row in validations] for n in names}
