"""Training in a run's folder, from the start or from its last checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import torch
from lightning_fabric import Fabric
from rich.console import Console

from setpredict.build import make_loss, make_metrics, make_task
from setpredict.config import Experiment, ModelConfig
from setpredict.core.errors import UserError
from setpredict.core.lock import check_unlocked, process_lock
from setpredict.core.threads import threads_restored
from setpredict.core.weights import build_without_data, bytes_of
from setpredict.data.description import changed_since
from setpredict.data.inside_out import inside_out_boxes
from setpredict.data.task import SPLITS, SetTask
from setpredict.encoders import ResNetEncoder
from setpredict.encoders.images.pretrained import load_pretrained
from setpredict.model import SetPredictor
from setpredict.resolve import model_config, resolved
from setpredict.runs.folder import RunFolder
from setpredict.runs.init_from import load_initial_weights
from setpredict.runs.own_code import allow_own_code as allow
from setpredict.runs.own_code import make_importable, own_kinds, record_training
from setpredict.runs.restore import restore, seed_process
from setpredict.runs.training_run import Draw, TrainingRun, resume_command
from setpredict.training.devices import launch, make_fabric, together
from setpredict.training.evaluation import Evaluation
from setpredict.training.loop import TrainState, count_in, fraction_done

Announce = Callable[[Experiment, SetTask, SetPredictor], object]


@threads_restored()
def train_run(
    experiment: Experiment,
    folder: str | Path,
    *,
    resume: bool = False,
    init_from: str | Path | None = None,
    draw: Draw | None = None,
    console: Console | None = None,
    announce: Announce | None = None,
    allow_own_code: bool = False,
    task: SetTask | None = None,
) -> Evaluation | None:
    """Train in a folder, from the start or from its last checkpoint.

    Args:
        experiment: All settings. A resumed run keeps its data and model; loss and training options may change.
        folder: The folder of the run.
        resume: Continue from the folder's checkpoint.
        init_from: A run, or the name of a shipped model, whose weights are the initial ones.
        draw: `draw(task, batch, prediction, path)` draws the picture of a validation.
        console: Where messages and the progress bar go.
        announce: `announce(experiment, task, model)` is called before the first step, with all values resolved.
        allow_own_code: Import encoders and decoders of somebody's own (module:Class) that the resumed run, or the one
            that weights come from, asks for. Those of a new run are imported anyway.
        task: The data, instead of those that the experiment names.

    Returns:
        The last validation, None if there was none.
    """
    if resume and init_from is not None:
        raise UserError("--resume continues with the run's own weights: remove --init-from")
    experiment.train.check()
    fabric = make_fabric(experiment.train)
    console, run = console or Console(), RunFolder(folder)
    check_unlocked(run.lock_path, str(run))
    _check_folder(run, resume)
    experiment = experiment.located()
    before = run.read_experiment().located() if resume else experiment
    _check_same_model(experiment, before, run)
    kinds = own_kinds(experiment)
    if resume:
        allow(run, kinds, allow_own_code)
    elif kinds:
        make_importable(Path.cwd())
    launch(fabric, experiment.train.threads)
    if fabric.global_rank > 0:
        console = Console(quiet=True)
    task = task or make_task(experiment.data)
    if resume:
        _check_same_data(run, task)
    for split in SPLITS:
        if not len(task.split(split)):
            raise UserError(f"the {split} split of {task.name} is empty; training needs samples in all three splits")
    if swapped := inside_out_boxes(task):
        console.print(swapped, style="yellow", markup=False, highlight=False)
    experiment = resolved(experiment, task)
    config = model_config(experiment, task)
    loss = make_loss(experiment.loss, task, config.feature_scale)
    make_metrics(task, loss)  # what does not fit is reported before step 1
    if not kinds:
        _check_memory(config)
    torch.manual_seed(experiment.train.seed)
    model = SetPredictor.from_config(config)
    if experiment.input.weights is not None and not resume:
        load_pretrained(cast(ResNetEncoder, model.get_submodule("input_encoder.backbone")), experiment.input.weights)
    if init_from is not None:
        load_initial_weights(model, init_from, allow_own_code)
    state = TrainState.fresh(fabric, model, experiment.train)
    advice = f"The last checkpoint is intact. Resume with: {resume_command(run, experiment)}"
    with together(fabric, advice), _locked(fabric, run):
        if fabric.is_global_zero:
            _check_folder(run, resume)  # again: another training may have ended meanwhile
            run.remove_temporary()
        training = TrainingRun(fabric, run, experiment, task, loss, state, console, draw)
        if resume:
            finished = run.is_finished  # before any process changes that
            said = restore(fabric, run, state, experiment.train.seed)
            if said:
                console.print(said, style="yellow", markup=False, highlight=False)
            training.saved_at = state.step
            if finished:
                _check_unfinished(fabric, run, state, experiment, before, task, console)
            if experiment.loss != before.loss:  # scores by another loss cannot be compared
                state.best, state.stale, state.validated_at = (float("inf"),), 0, -1
        else:
            seed_process(fabric, experiment.train.seed, state.step)
        if fabric.is_global_zero:
            run.summary_path.unlink(missing_ok=True)
            if not resume:
                run.write_description(task)
                run.write_origin()
            run.write_experiment(experiment)
            record_training(run, kinds)
        fabric.barrier()
        if announce is not None and fabric.is_global_zero:
            announce(experiment, task, model)
        return training.go()


@contextmanager
def _locked(fabric: Fabric, run: RunFolder) -> Iterator[None]:
    """The first process, which writes all files, holds the lock of the run."""
    if fabric.is_global_zero:
        with process_lock(run.lock_path, str(run)):
            yield
    else:
        yield


def _check_same_data(run: RunFolder, task: SetTask) -> None:
    """Raise if the data have changed since the run began, so that its numbers or splits mean something else."""
    if changed := changed_since(run.read_description(), task):
        raise UserError(
            f"the data of {run} have changed: {changed}. Start a new run from its weights: --init-from {run}"
        )


def _check_folder(folder: RunFolder, resume: bool) -> None:
    if resume and not folder.has_checkpoint:
        raise UserError(f"{folder} cannot be resumed: {folder.checkpoint_path.name} not found")
    if not resume and folder.has_checkpoint:
        raise UserError(f"{folder} is already a run. Continue it with --resume {folder}, or choose another --name.")
    if not resume and (folder.is_finished or folder.has_model):
        raise UserError(f"{folder} is already a run, without its checkpoint. Choose another --name.")


def _check_unfinished(
    fabric: Fabric,
    run: RunFolder,
    state: TrainState,
    experiment: Experiment,
    before: Experiment,
    task: SetTask,
    console: Console,
) -> None:
    """Say that a run to resume was finished; raise if its new options leave nothing to train."""
    batches = len(task.loader("train", experiment.train.batch_size, world_size=fabric.world_size))
    count_in(state, batches, experiment.train.accumulate)
    at = f"{run} was finished at step {state.step}, after {state.seconds / 60:.1f} minutes"
    if fraction_done(fabric, state, experiment.train) < 1:
        console.print(f"{at}: its training continues.", markup=False, highlight=False)
    elif experiment == before:
        console.print(f"{at}: there is nothing left to train.", markup=False, highlight=False)
    else:
        raise UserError(
            f"{at}: nothing was changed. To train it further, raise its limits (--epochs, --max-steps, --max-minutes), "
            f"or start a new run from its weights, with --init-from {run}"
        )


def _check_memory(config: ModelConfig) -> None:
    """Raise a UserError for a model whose weights alone do not fit into the memory of this machine."""
    size = bytes_of(build_without_data(partial(SetPredictor.from_config, config)))
    if hasattr(os, "sysconf") and size > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise UserError(
            f"a model of these sizes has {size / 1e9:,.0f} GB of weights, more than this machine has memory"
        )


def _check_same_model(ours: Experiment, theirs: Experiment, folder: RunFolder) -> None:
    """A resumed run keeps its data and model; the loss and the training options may change."""
    for name in ("data", "latent", "coordinates", "input", "encoder", "decoder"):
        if getattr(ours, name) != getattr(theirs, name):
            raise UserError(
                f"--resume {folder} continues with the same data and model, but {name} was changed: "
                f"start a new run from its weights instead, with --init-from {folder}"
            )
