"""Processes, devices and precision, through Lightning Fabric."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from lightning_fabric import Fabric
from lightning_fabric.utilities.exceptions import MisconfigurationException
from torchmetrics import Metric

from setpredict.config import TrainConfig
from setpredict.core.errors import NotFinite, UserError, first_line

M = TypeVar("M", bound=Metric)


def make_fabric(train: TrainConfig) -> Fabric:
    """The devices and precision of a training. Under torchrun, its processes are used."""
    if train.threads:
        torch.set_num_threads(train.threads)
    under_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    devices = int(os.environ["LOCAL_WORLD_SIZE"]) if under_torchrun else train.devices
    nodes = int(os.environ["WORLD_SIZE"]) // devices if under_torchrun else 1
    accelerator = train.accelerator
    if accelerator == "auto" and not torch.cuda.is_available():
        accelerator = "cpu"  # Apple GPUs lack the float64 operations that some parts need; ask for mps by name
    strategy = "ddp" if devices * nodes > 1 else "auto"
    try:
        fabric = Fabric(
            accelerator=accelerator, devices=devices, num_nodes=nodes, strategy=strategy, precision=train.precision
        )
    except (MisconfigurationException, RuntimeError, ImportError, ValueError) as e:
        problem = f"--accelerator {accelerator} with --devices {devices} is not possible here: {first_line(e)}"
        raise UserError(problem) from e
    # Autocast rounds where it computes. Fabric would round the inputs too, and with them the sets to be matched.
    fabric.strategy.precision.convert_input = lambda data: data  # pyright: ignore[reportAttributeAccessIssue]
    return fabric


def launch(fabric: Fabric, threads: int | None = None) -> None:
    """Start the processes, and make sure that each ends its connections to the others before the interpreter exits.

    Fabric does so for NCCL only; threads of gloo that still run abort the process, after all its work is done. It also
    chooses a number of threads for several processes; `threads`, if given, are what was asked for.
    """
    fabric.launch()
    if threads:
        torch.set_num_threads(threads)
    if fabric.world_size > 1:
        atexit.register(_disconnect)


def _disconnect() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def shared(metric: M, fabric: Fabric) -> M:
    """The metric on the device of a process, with the batches of all processes of this fabric, and no others.

    A process that has trained with others may measure alone later on.
    """
    metric.distributed_available_fn = lambda: fabric.world_size > 1
    return metric.to(fabric.device)


def any_rank(fabric: Fabric, flag: bool) -> bool:
    """Whether the flag is set in any process."""
    if fabric.world_size == 1:
        return flag
    total = fabric.all_reduce(torch.tensor(float(flag), device=fabric.device), reduce_op="sum")
    return bool(torch.as_tensor(total) > 0)


def raise_anywhere(fabric: Fabric, problem: NotFinite | None) -> None:
    """Raise the problem of one process in all of them, so that none waits for the others."""
    if any_rank(fabric, problem is not None):
        raise problem or NotFinite("another process met a value that is not finite")


class LostProcess(UserError):
    """Another process of the same training or evaluation ended."""


@contextmanager
def together(fabric: Fabric, advice: str) -> Iterator[None]:
    """Turn the errors of a communication whose other side has ended into one line, with advice."""
    try:
        yield
    except RuntimeError as e:
        if fabric.world_size == 1 or not _is_connection_error(e):
            raise
        raise LostProcess(f"another of the {fabric.world_size} processes ended. {advice}") from e


def _is_connection_error(error: RuntimeError) -> bool:
    """gloo raises a plain RuntimeError with the place in its source, NCCL and the store have classes of their own."""
    return isinstance(error, torch.distributed.DistError) or "gloo/transport" in str(error)
