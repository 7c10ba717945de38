"""Evaluation of a run, a shipped model or any model on a complete split, beside trivial predictions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import torch
from lightning_fabric import Fabric
from rich.console import Console

from setpredict.build import make_loss, make_task
from setpredict.config import DataConfig, LossConfig, TrainConfig
from setpredict.config.inner import check_has_steps
from setpredict.core.errors import UserError
from setpredict.core.modes import evaluating
from setpredict.core.progress import progress
from setpredict.core.threads import threads_restored
from setpredict.data.like import adapted, open_like
from setpredict.data.plain import in_order, some_target_sets
from setpredict.data.sources.memory import memory
from setpredict.data.task import SetTask, Split
from setpredict.decoders import Decoder
from setpredict.losses.outer import OuterLoss
from setpredict.metrics.baselines import Baseline, baselines
from setpredict.metrics.sensitivity import Sensitivity, sensitivity
from setpredict.model import SetPredictor
from setpredict.runs.loaded import LoadedRun, load
from setpredict.training.devices import launch, make_fabric, together
from setpredict.training.evaluation import Evaluation, batch_size_for, evaluate_steps
from setpredict.training.scores import check_features

BASELINE_SAMPLES = 1024
"""Training sets that trivial predictions are made from."""
SENSITIVITY_SAMPLES = 32
"""Samples whose codes are changed a little, to see whether predictions jump."""
Data = SetTask | DataConfig | str | Path | tuple[Any, Any]
"""A data set, its options, its path, or (inputs, sets) in memory."""


def evaluate(
    model: SetPredictor | LoadedRun | str | Path,
    task: Data | None = None,
    *,
    split: str = "test",
    steps: int | None = None,
    loss: LossConfig | Literal["chamfer", "hungarian"] | None = None,
    batch_size: int = 128,
    trivial: bool = True,
) -> Evaluation:
    """Measure a model on a split of a data set, in this process.

    Args:
        model: A model; a run, its folder, or the name of a shipped model.
        task: The data set, its path, or (inputs, sets) for a run (None: the run's own). For a run, features, categories
            and units are converted to those that it was trained with; for any other model they must be the same.
        split: Which part of the data set. Data at a path without a test split of its own is its own test split.
        steps: Inner steps (None: as trained).
        loss: The set distance (None: that of the run's training; for any other model, the Hungarian one).
        batch_size: Samples decoded at once.
        trivial: Measure trivial predictions from the training split too.

    >>> from setpredict.data import load
    >>> seen = evaluate("points-idspn", load("multisets", train=64, test=16))
    >>> seen.samples, seen.score < seen.baselines["best constant set"].score
    (16, True)
    """
    if isinstance(model, str | Path):
        model = load(model)
    run = model if isinstance(model, LoadedRun) else None
    network = model.model if isinstance(model, LoadedRun) else model
    if task is None and run is None:
        raise TypeError("evaluate needs a task for a model that is not a run")
    data = open_data(run, task) if run else task
    if not isinstance(data, SetTask):
        raise TypeError(f"evaluate needs a SetTask for a model that is not a run, got {type(data).__name__}")
    loss = LossConfig(set=loss) if isinstance(loss, str) else loss
    criterion = make_loss(loss or (run.experiment.loss if run else LossConfig()), data)
    check_has_steps(network.steps, [steps], run.name if run else "this model")
    device = next(network.parameters()).device
    chosen = [device.index] if device.type == "cuda" and device.index is not None else 1
    fabric = Fabric(accelerator=device.type, devices=chosen)
    others = trivial_predictions(_training_sets(run, task, data), criterion, data.variable) if trivial else {}
    measure = partial(evaluate_steps, fabric, network, data, criterion, split, [steps], batch_size, baselines=others)
    return _rows(measure, network, data, split, [steps])[0]


@threads_restored()
def evaluate_run(
    name_or_path: str | Path,
    steps: Sequence[int | None] = (None,),
    split: str = "test",
    *,
    batch_size: int | None = None,
    data: Data | None = None,
    console: Console | None = None,
    allow_own_code: bool = False,
    trivial: bool = True,
    strict: bool = False,
) -> list[Evaluation]:
    """Measure the best model of a run, or a shipped model, on a complete split, on the devices of its training.

    Args:
        name_or_path: The folder of a run, or the name of a shipped model, which is measured on the data of its card.
        steps: Numbers of inner steps, one row each (None: as trained). A one-shot decoder has one row.
        split: Which part of the data.
        batch_size: Samples decoded at once (None: 128, or on a GPU as many as in a training step, if these are fewer).
        data: Other data than the run's: a path, options, or a task.
        console: Where messages go.
        allow_own_code: Import encoders and decoders of somebody's own, as `load` does.
        trivial: Measure trivial predictions from the training split too (in the first row).
        strict: Raise if numbers of steps are given for a one-shot decoder.

    Returns:
        The rows. Those of a run on its own data are also written to its folder,
        beside the row with the trained steps.
    """
    run = load(name_or_path, allow_own_code=allow_own_code)
    if strict:
        check_has_steps(run.steps, steps, name_or_path)
    steps = steps if run.steps else (None,)
    fabric = _any_fabric(run.experiment.train)
    launch(fabric, run.experiment.train.threads)
    console = console if console and fabric.is_global_zero else Console(quiet=True)
    run.model.to(fabric.device)
    batch_size = batch_size or batch_size_for(fabric.device, run.experiment.train)
    task = open_data(run, data)
    if isinstance(data, str | Path) and not len(task.train) and _is_own(data, run):
        seen = f"{data} has no test split: these are all its samples, and the model was trained on most of them."
        console.print(seen, style="yellow", markup=False, highlight=False)
    loss, workers = make_loss(run.experiment.loss, task), run.experiment.train.workers
    with together(fabric, "Evaluate again."):
        others = trivial_predictions(_training_sets(run, data, task), loss, task.variable) if trivial else {}
        measured = (fabric, run.model, task, loss, split, steps, batch_size, workers)
        rows = _rows(partial(evaluate_steps, *measured, baselines=others), run.model, task, split, steps)
        if fabric.is_global_zero and run.folder is not None and data is None:
            try:
                run.folder.write_evaluation(split, _with_trained_steps([asdict(row) for row in rows], run, split))
            except OSError as e:  # a folder that is only read
                console.print(f"The scores are not stored with the run: {e}", style="yellow", markup=False)
        fabric.barrier()
    if rows[0].too_large:
        console.print(
            f"{rows[0].too_large} of {rows[0].samples} sets have more than {run.task.max_size} elements, the most that "
            "this model predicts: the others count as missed.",
            style="yellow", highlight=False, soft_wrap=True,
        )  # fmt: skip
    return rows


def _with_trained_steps(rows: list[dict[str, Any]], run: LoadedRun, split: str) -> Sequence[Mapping[str, Any]]:
    """The rows to store: reports read the first one, which stays that with the trained steps if there is one."""
    if rows[0]["steps"] in (None, run.steps):
        return rows
    before = [row for row in run.own_folder.read_evaluation(split) or [] if row["steps"] == run.steps]
    return [*before, *(row for row in rows if not before or row["steps"] != run.steps)]


def open_data(run: LoadedRun, data: Data | None) -> SetTask:
    """The data to measure a run on: its own (None), or another data set in its features, categories and units."""
    if data is None:
        return run.data
    if isinstance(data, tuple):
        data = memory(data, val=data, test=data)
    if isinstance(data, SetTask):
        return adapted(data, run.task)
    own = run.experiment.data
    if isinstance(data, DataConfig):
        return make_task(data)
    return open_like(data, run.task, target=own.target, boxes=own.boxes, seed=own.seed, allow_outside=own.allow_outside)


def _is_own(data: str | Path, run: LoadedRun) -> bool:
    """Whether a path is where the run's own data are."""
    own = run.experiment.data.folder
    return own is not None and Path(data).expanduser().resolve() == Path(own).resolve()


def _rows(
    measure: Callable[..., list[Evaluation]],
    model: SetPredictor,
    task: SetTask,
    split: str,
    steps: Sequence[int | None],
) -> list[Evaluation]:
    """The rows of `measure` (`evaluate_steps` with its arguments), in detail and with the sensitivity."""
    if model.config is not None:
        check_features(task, model.config.features)
    samples = len(task.split(split))
    if not samples:
        raise UserError(f"the {split} split of {task.name} is empty")
    with progress(f"Evaluating {task.name}", samples * len(steps)) as advance:
        rows = measure(details=True, advance=advance)
    for row, count in zip(rows, steps):
        row.sensitivity = _sensitivity(model, task.split(split), count)
    return rows


@torch.no_grad()
def _sensitivity(model: SetPredictor, split: Split, steps: int | None) -> Sensitivity | None:
    """Whether the inner loop amplifies tiny changes of the code, for the first samples; None without such a loop."""
    if not model.steps or "vector" not in cast(Decoder, model.decoder).needs:
        return None
    with evaluating(model):
        weight = next(model.parameters())
        batch = next(iter(in_order(split, SENSITIVITY_SAMPLES)))
        code = model.encode(batch.input.to(weight.device, weight.dtype))
        return sensitivity(lambda z: model.decode(replace(code, vector=z), steps=steps).final, code.vector)


def trivial_predictions(training: Split | None, loss: OuterLoss, variable: bool) -> Mapping[str, Baseline]:
    """The trivial predictions from some samples of a training split, by name; none without samples."""
    if training is None or not len(training):
        return {}
    return baselines(some_target_sets(training, BASELINE_SAMPLES), loss.set_loss, variable)


def _training_sets(run: LoadedRun | None, given: Data | None, task: SetTask) -> Split | None:
    """The training split of the task; for data that are only for testing, at a path or in memory, that of the run."""
    if run is None or not isinstance(given, str | Path | tuple):
        return task.train
    try:
        return run.data.train
    except (UserError, OSError):  # the data of the training need not be there any more
        return None


def _any_fabric(train: TrainConfig) -> Fabric:
    """The devices of the training, or what this machine has: scores do not depend on them."""
    train.check()
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):  # not after training on them
        train = replace(train, devices=min(train.devices, os.cpu_count() or 1))
    try:
        return make_fabric(train)
    except UserError:
        return make_fabric(replace(train, accelerator="auto", devices=1))
