"""The paper's tables again: train every row for every seed, skip what is done, print ours beside theirs."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console

from setpredict.config import ConfigError, to_dict
from setpredict.data.places import data_folder
from setpredict.files import write_text
from setpredict.presets import DataConfig, Experiment, Method, Scale, preset
from setpredict.report.paper import TABLES
from setpredict.report.pictures import save_validation_picture
from setpredict.report.tables import heading, markdown, percent, published, summary, terminal
from setpredict.revision import revision
from setpredict.training.evaluation import Evaluation
from setpredict.training.run import evaluate_run, read_experiment, train_run

TableName = Literal["mnist", "clevr-box", "clevr-state"]


@dataclass(frozen=True)
class TableRow:
    """One line of a table: a method, and over which steps its set loss is taken."""

    name: str
    method: Method
    loss_steps: Literal["all", "last"] | None = None


ROWS = (
    TableRow("MLP", "mlp"),
    TableRow("LSTM", "lstm"),
    TableRow("DSPN (last)", "dspn", "last"),
    TableRow("DSPN (all)", "dspn", "all"),
    TableRow("iDSPN", "idspn"),
)


def reproduce(
    table: TableName,
    scale: Scale,
    runs: int,
    *,
    out: Path = Path("runs"),
    results: Path = Path("results"),
    steps: Sequence[int] = (10, 20, 30),
    minutes: float | None = None,
    max_steps: int | None = None,
    data: DataConfig | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Train and evaluate a table; interrupted, it goes on where it stopped. Returns what results/ holds."""
    console = console or Console()
    name, note = source(table)
    console.print(f"Table {table} at scale {scale}, {runs} runs a row, on {note}.")
    entries: list[dict[str, Any]] = []
    for row in ROWS:
        for seed in range(runs):
            experiment = configure(name, row, scale, seed, minutes, max_steps, data)
            folder = out / f"{table}-{scale}" / f"{row.name.lower().replace(' ', '-')}-{seed}"
            console.rule(f"{row.name}, seed {seed}")
            if not finish(experiment, folder, console):
                raise KeyboardInterrupt
            counts = [None] if row.method in ("mlp", "lstm") else list(steps)
            seen = evaluate_run(folder, counts, console=console)
            entries.append({"row": row.name, "seed": seed, **record(folder, seen)})
    content = {"table": table, "scale": scale, "data": note, "runs": entries}
    heads, cells = lay_out(table, entries)
    write_text(results / f"{table}-{scale}.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    write_text(results / f"{table}-{scale}.md", f"Data: {note}.\n\n" + markdown(heads, cells))
    console.print(terminal(heads, cells, f"{table}, {scale}: ours, and the paper's in brackets"))
    console.print(f"Written: {results / f'{table}-{scale}.json'} and .md")
    return content


def source(table: TableName) -> tuple[str, str]:
    """The preset to use, and its data in words: CLEVR where it is, else scenes of our own."""
    if table == "mnist":
        return "mnist", "MNIST, all test digits"
    if (data_folder() / "CLEVR_v1.0").is_dir():
        return table, "CLEVR v1.0"
    return table.replace("clevr", "scenes"), "generated scenes (no CLEVR_v1.0 in $SETPREDICT_DATA), not CLEVR itself"


def configure(
    name: str,
    row: TableRow,
    scale: Scale,
    seed: int,
    minutes: float | None,
    max_steps: int | None,
    data: DataConfig | None,
) -> Experiment:
    experiment = preset(name, row.method, scale)
    experiment.train = replace(experiment.train, seed=seed)
    if row.loss_steps:
        experiment.loss = replace(experiment.loss, steps=row.loss_steps)
    if minutes is not None:
        experiment.train.max_minutes = minutes
    if max_steps is not None:
        experiment.train.max_steps = max_steps
    if data is not None:
        experiment.data = replace(data, name=experiment.data.name, target=experiment.data.target)
    return experiment


def finish(experiment: Experiment, folder: Path, console: Console) -> bool:
    """Train a run to its end, from where it stands; False if it was interrupted."""
    done = folder / "done.json"
    if done.is_file():
        if to_dict(read_experiment(folder)) != to_dict(experiment):
            raise ConfigError(f"{folder} was trained with other settings; choose another --out or remove it")
        console.print(f"{folder} is done already.")
        return True
    resume = (folder / "last.ckpt").is_file()
    train_run(experiment, folder, resume=resume, draw=save_validation_picture, console=console)
    return done.is_file()


def record(folder: Path, seen: Sequence[Evaluation]) -> dict[str, Any]:
    """All that makes a number traceable."""
    done = json.loads((folder / "done.json").read_text(encoding="utf-8"))
    return {
        "evaluations": [asdict(e) for e in seen],
        "steps_trained": done["step"],
        "minutes": round(done["seconds"] / 60, 2),
        "config": to_dict(read_experiment(folder)),
        "hardware": f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}",
        "revision": revision(),
    }


def lay_out(table: TableName, entries: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Heads and cells: mean ± std over the seeds, the paper's numbers in brackets."""
    theirs = TABLES[table]
    names = [n for n in entries[0]["evaluations"][0]["metrics"] if n == "chamfer" or n.startswith("AP")]
    grouped: dict[str, dict[str, list[float]]] = {}
    minutes: dict[str, list[float]] = {}
    for entry in entries:
        for e in entry["evaluations"]:
            label = entry["row"] if e["steps"] is None else f"{entry['row']}, {e['steps']} steps"
            minutes.setdefault(label, []).append(entry["minutes"])
            for n in names:
                grouped.setdefault(label, {}).setdefault(n, []).append(e["metrics"][n])
    cells = []
    for label, values in grouped.items():
        paper = theirs.get(label, {})
        row = [label]
        for n in names:
            given = published(paper.get(n))
            row.append(summary(values[n], n) + (f" ({given})" if given else ""))
        cells.append([*row, f"{sum(minutes[label]) / len(minutes[label]):.1f}", str(len(minutes[label]))])
    heads = [f"{heading(n)}{' %' if percent(n) else ''}" for n in names]
    return ["model", *heads, "minutes", "runs"], cells
