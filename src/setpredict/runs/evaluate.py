"""Evaluation of a run or a shipped model on a complete split."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from lightning_fabric import Fabric
from rich.console import Console
from rich.progress import track

from setpredict.build import make_loss, make_task
from setpredict.config import DataConfig, TrainConfig
from setpredict.core.errors import UserError
from setpredict.runs.loaded import load
from setpredict.training.devices import make_fabric, together
from setpredict.training.evaluation import Evaluation, evaluate


def evaluate_run(
    name_or_path: str | Path,
    steps: Sequence[int | None] = (None,),
    split: str = "test",
    *,
    batch_size: int = 128,
    data: DataConfig | None = None,
    console: Console | None = None,
    allow_own_code: bool = False,
) -> list[Evaluation]:
    """Measure the best model of a run, or a shipped model, on a complete split.

    Args:
        name_or_path: The folder of a run, or the name of a shipped model, which is measured on the data of its card.
        steps: Numbers of inner steps, one row each (None: as trained).
        split: Which part of the data.
        batch_size: Samples decoded at once.
        data: Other data than the run's.
        console: Where a progress bar goes.
        allow_own_code: Import encoders and decoders of somebody's own, as `load` does.

    Returns:
        The rows. Those of a run on its own data are also written to its folder.
    """
    run = load(name_or_path, allow_own_code=allow_own_code)
    fabric = _any_fabric(run.experiment.train)
    fabric.launch()
    console = console if console and fabric.is_global_zero else Console(quiet=True)
    run.model.to(fabric.device)
    task = run.data if data is None else make_task(data)
    loss, workers, rows = make_loss(run.experiment.loss, task), run.experiment.train.workers, []
    with together(fabric, "Evaluate again."):
        for count in track(steps if run.steps else (None,), "evaluating", console=console, transient=True):
            rows.append(evaluate(fabric, run.model, task, loss, split, count, batch_size, workers))
        if fabric.is_global_zero and run.folder is not None and data is None:
            run.folder.write_evaluation(split, [asdict(row) for row in rows])
        fabric.barrier()
    return rows


def _any_fabric(train: TrainConfig) -> Fabric:
    """The devices of the training, or what this machine has: scores do not depend on them."""
    train.check()
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):  # not after training on them
        train = replace(train, devices=min(train.devices, os.cpu_count() or 1))
    try:
        return make_fabric(train)
    except UserError:
        return make_fabric(replace(train, accelerator="auto", devices=1))
