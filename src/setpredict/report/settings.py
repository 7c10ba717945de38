"""The settings of runs: a short table before training, and HTML tables of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from setpredict.config import Experiment, to_dict
from setpredict.data.task import SPLITS, SetTask
from setpredict.model import SetPredictor
from setpredict.report.html import table
from setpredict.training.limits import limits_of


def print_settings(folder: Path, console: Console, experiment: Experiment, task: SetTask, model: SetPredictor) -> None:
    """What matters of a training, in a few lines; all settings are in config.json."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in short_settings(experiment, task, model).items():
        table.add_row(name, Text(text))
    table.add_row("Run", Text(f"{folder} (all settings: config.json)"))
    console.print(table, highlight=False)


def short_settings(experiment: Experiment, task: SetTask, model: SetPredictor) -> dict[str, str]:
    """Data, model, loss and training of a run as text, with the values that the data decided."""
    config, train, loss = model.config, experiment.train, experiment.loss
    counts = ", ".join(f"{len(task.split(split)):,} {split}" for split in SPLITS)
    same = "; test is val" if task.test is task.val else ""
    given = {"image": f"{task.input_size}×{task.input_size} images", "vector": f"vectors of {task.input_size}"}
    inputs = given.get(task.input_kind, f"sets with {task.input_size} features")
    names = ", ".join(f"{len(task.categories[g])} for {g}" for g in task.groups)
    elements = f"{'up to' if task.variable else 'always'} {task.max_size} {task.kind} with {task.features} features"
    kind = f", {config.input.kind} encoder" if config and task.input_kind == "image" else ""
    steps = f", {model.steps} steps" if model.steps else ""
    size = model.parameter_count
    rate = f"{train.optimizer}, lr {train.lr:g} {train.schedule}, batch {train.batch_size}"
    units = {"--epochs": "epochs", "--max-steps": "steps", "--max-minutes": "minutes"}
    numbers = {option: f"{n:,}" if isinstance(n, int) else f"{n:,g}" for option, n in limits_of(train).items()}
    limits = [f"{number} {units[option]}" for option, number in numbers.items()]
    limits += [f"{train.patience} validations without a better score"] if train.patience is not None else []
    over = {"all": ", over all steps", "last": " of the last step"}[loss.steps] if model.steps else ""
    return {
        "Data": f"{task.name}: {counts}{same}",
        "Sets": f"{inputs} → {elements}{f' ({names})' if names else ''}",
        "Model": f"{experiment.decoder.method}{steps}{kind}, latent {experiment.latent}, {size:,} parameters",
        "Loss": f"{loss.set} ({loss.cost}){over}",
        "Training": f"{rate}; until {' or '.join(limits)}",
        "Selects": f"the best model on val, by {_selection(task, loss.set)}",
    }


def _selection(task: SetTask, loss: str) -> str:
    return "mean AP" if task.kind in ("boxes", "states") else f"the {loss} distance"


def settings_tables(experiment: Experiment) -> str:
    """All settings of a run, one folded table per part."""
    parts = []
    for name, values in to_dict(experiment).items():
        rows = flatten(values) if isinstance(values, dict) else flatten({name: values})
        body = table(["setting", "value"], [list(row) for row in rows.items()], "", 2)
        parts.append(f"<details><summary>{escape(name)}</summary>{body}</details>")
    return "\n".join(parts)


def differing_settings(experiments: Sequence[Experiment]) -> list[list[str]]:
    """One row per setting that is not the same in all experiments: its name, then its values."""
    flat = [flatten(to_dict(experiment)) for experiment in experiments]
    keys = [k for k in dict.fromkeys(k for each in flat for k in each) if len({each.get(k) for each in flat}) > 1]
    return [[key, *(each.get(key, "") for each in flat)] for key in keys]


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as text by dotted name.

    >>> flatten({"a": {"b": 1}, "c": (2, 3)})
    {'a.b': '1', 'c': '2 3'}
    """
    result = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            result |= flatten(value, f"{prefix}{key}.")
        else:
            result[prefix + key] = " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return result
