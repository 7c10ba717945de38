"""`fit`: train on data in memory with the same trainer as the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from setpredict.build import counts_of, varied
from setpredict.core.errors import UserError
from setpredict.data.sources.memory import memory
from setpredict.data.task import SetTask
from setpredict.presets import METHODS, Method, preset
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import LoadedRun, load
from setpredict.runs.train import train_run
from setpredict.studies import changed


def fit(
    data: Any,
    *,
    val: Any = 0.1,
    test: Any = None,
    method: Method = "auto",
    minutes: float | None = None,
    folder: str | Path = "runs/fit",
    options: Mapping[str, Any] | None = None,
    resume: bool = False,
    console: Console | None = None,
) -> LoadedRun:
    """Train a model on data in memory, with schedules, validation and checkpoints, and return the run.

    Args:
        data: (inputs, sets); or a `torch.utils.data.Dataset`, or any sequence, of (input, set); or a `SetTask`.
        val: The same for validation, or the fraction of the training samples to use for it.
        test: The same for the final test (None: as val).
        method: dspn, idspn, mlp, lstm, slots, transformer, dense, or auto: dspn for images with boxes or points, which
            starts from a dense head's proposals, and idspn for everything else.
        minutes: Training time (None: 15).
        folder: Where the run is written: checkpoints, log and the best model.
        options: Other options by their names in config.json, such as {"train.lr": 1e-3, "decoder.solver.steps": 20}.
        resume: Continue a run in the folder, with the same data; of `minutes` and `options`, those that are given
            replace the run's own.
        console: Where progress goes (None: the terminal).

    `run.model.predict(run.task.normalize_input(inputs))` predicts sets, and `run.task.denormalize` converts their
    elements to the units of the data; `setpredict.load(folder)` loads the run again.

    >>> import tempfile, torch
    >>> inputs, sets = 100 + 20 * torch.rand(40, 3), [torch.rand(4, 2) for _ in range(40)]
    >>> run = fit((inputs, sets), folder=f"{tempfile.mkdtemp()}/run", options={"train.max_steps": 2},
    ...           console=Console(quiet=True))
    >>> run.model.predict(run.task.normalize_input(inputs[:5]))
    Sets(5 sets of up to 4 elements with 2 features, sizes ...)
    """
    if method not in METHODS:
        raise UserError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    experiment = RunFolder(folder).read_experiment() if resume else preset("folder", method)
    if resume and method != "auto" and preset("folder", method).decoder.method != experiment.decoder.method:
        raise UserError(f"{folder} is a run of {experiment.decoder.method}: resume it without method={method!r}")
    experiment.data.name = "memory"
    given = dict(options or {})
    if minutes is not None:
        given["train.max_minutes"] = minutes
    experiment = changed(experiment, given)
    task = data if isinstance(data, SetTask) else memory(data, val=val, test=test, seed=experiment.data.seed)
    task = task.limited(**counts_of(experiment.data))
    with torch.random.fork_rng(devices=[]):  # its seeds are not for the caller's random numbers
        train_run(experiment, folder, resume=resume, console=console, task=varied(task, experiment.data))
        run = load(folder, allow_own_code=True)  # it has just been trained here
    run.data = task
    return run
