"""Resuming from the last checkpoint of a run, or from the previous one if the last is damaged."""

from __future__ import annotations

import os

import torch
from lightning_fabric import Fabric

from setpredict.core import rng
from setpredict.core.checksums import Damaged
from setpredict.core.errors import UserError
from setpredict.runs.folder import RunFolder
from setpredict.training.checkpoint import load_checkpoint
from setpredict.training.loop import TrainState


def restore(fabric: Fabric, folder: RunFolder, state: TrainState, seed: int) -> str | None:
    """Load the last checkpoint that is valid, in all processes.

    A damaged last checkpoint gets another name, so that it does not replace the previous one at the next save. A
    checkpoint holds the random state of the first process; the others draw their own from the seed.

    Returns:
        What to tell the user if that is not the last one; None otherwise.
    """
    last = folder.checkpoint_path
    said = None
    if last.is_file():
        try:
            load_checkpoint(last, state)
        except Damaged as e:
            said = _load_previous(folder, state, str(e))
    else:
        said = _load_previous(folder, state, f"{last} not found")
    fabric.barrier()  # all have read the files
    if said and last.is_file() and fabric.is_global_zero:
        os.replace(last, folder.damaged_checkpoint_path)
        said += f" The damaged one is now {folder.damaged_checkpoint_path.name}."
    seed_process(fabric, seed, state.step)
    return said


def seed_process(fabric: Fabric, seed: int, step: int) -> None:
    """Own classes may draw from torch's generator: in every process but the first, other numbers than in the rest."""
    if fabric.global_rank:
        torch.manual_seed(int(rng.key(seed, "process", fabric.global_rank, step)) % 2**63)


def _load_previous(folder: RunFolder, state: TrainState, problem: str) -> str:
    previous = folder.previous_checkpoint_path
    fresh = f"start a new run from its best weights, with --init-from {folder}" if folder.has_model else "start again"
    if not previous.is_file():
        raise UserError(f"{problem}, and there is no {previous.name}: {fresh}")
    try:
        load_checkpoint(previous, state)
    except Damaged as e:
        raise UserError(f"{problem}, and {e}: {fresh}") from None
    return f"{problem}: continuing from {previous.name}, step {state.step}."
