"""The outer loop: change the weights so that decoding gives the right sets. Read it from top to bottom."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from setpredict.config import LossConfig, TrainConfig
from setpredict.data.task import Batch, SetTask
from setpredict.decoders import DSPN
from setpredict.losses import SetLoss, chamfer_loss, hungarian_loss, outer_loss
from setpredict.matching import PairCost
from setpredict.model import SetPredictor
from setpredict.sets import NotFinite
from setpredict.training.optimiser import learning_rate, make_optimiser, update_average


@dataclass
class TrainState:
    """Everything that training changes."""

    model: SetPredictor
    optimiser: torch.optim.Optimizer
    average: SetPredictor | None = None
    step: int = 0
    seconds: float = 0.0
    module: nn.Module = field(init=False)
    """The model as Fabric wraps it, for forward passes."""

    @classmethod
    def fresh(cls, fabric: Fabric, model: SetPredictor, config: TrainConfig) -> TrainState:
        average = copy.deepcopy(model).requires_grad_(False) if config.ema else None
        state = cls(model, make_optimiser(model, config), average)
        state.module, state.optimiser = fabric.setup(model, state.optimiser)
        if average is not None:
            fabric.to_device(average)
        return state

    @property
    def best_weights(self) -> SetPredictor:
        """What to evaluate and to save: the moving average if there is one."""
        return self.model if self.average is None else self.average


def fit(
    fabric: Fabric,
    state: TrainState,
    task: SetTask,
    train: TrainConfig,
    loss: LossConfig,
    after_step: Callable[[TrainState, dict[str, Tensor], float], bool | None] | None = None,
) -> None:
    """Train until the epochs, steps or minutes of `train` are over, or `after_step` returns True.

    `after_step(state, parts, done)` gets the named parts of the outer loss and the fraction of the training done.
    """
    set_loss = make_set_loss(loss, task)
    place = {"rank": fabric.global_rank, "world_size": fabric.world_size}
    batches = len(task.loader("train", train.batch_size, seed=train.seed, **place))
    state.module.train()
    while (done := fraction_done(state, train, batches)) < 1:
        epoch, start = divmod(state.step * train.accumulate, batches)
        for batch in task.loader("train", train.batch_size, seed=train.seed, epoch=epoch, start=start, **place):
            began = time.perf_counter()
            last = (start := start + 1) % train.accumulate == 0
            with fabric.no_backward_sync(state.module, enabled=not last):
                parts = forward(state.module, batch.to(fabric.device), set_loss, loss, train, epoch, done)
                fabric.backward(parts["loss"] / train.accumulate)
            if last:
                step(fabric, state, train, done)
            state.seconds += time.perf_counter() - began
            if last:
                done = fraction_done(state, train, batches)
                if (after_step is not None and after_step(state, parts, done)) or done >= 1:
                    return


def forward(
    module: nn.Module, batch: Batch, set_loss: SetLoss, loss: LossConfig, train: TrainConfig, epoch: int, done: float
) -> dict[str, Tensor]:
    """Algorithm 1 for one batch: encode, decode, and the outer loss with its parts."""
    decoder = getattr(module, "decoder", None)
    steps = None
    if isinstance(decoder, DSPN) and done < train.few_steps_until:
        steps = max(1, decoder.steps // 2)
    keys = batch.index + epoch * 1_000_003 + train.seed  # a random initial set belongs to its sample and epoch
    prediction = module(batch.input, batch.target, steps=steps, keys=keys)
    parts = outer_loss(prediction, batch.target, set_loss, steps=loss.steps, repr_weight=loss.repr_weight)
    if not bool(torch.isfinite(parts["loss"])):
        raise NotFinite(f"the loss is {parts['loss'].item()}")
    return parts


def step(fabric: Fabric, state: TrainState, train: TrainConfig, done: float) -> None:
    """One step of the outer optimiser."""
    for group in state.optimiser.param_groups:
        group["lr"] = learning_rate(train, state.step, done)
    if train.clip_grad is not None:
        fabric.clip_gradients(state.module, state.optimiser, max_norm=train.clip_grad)
    state.optimiser.step()
    state.optimiser.zero_grad()
    state.step += 1
    if state.average is not None:
        update_average(state.average, state.model, train.ema, state.step)


def fraction_done(state: TrainState, train: TrainConfig, batches: int) -> float:
    """How much of the training lies behind, by whichever limit comes first."""
    done = [state.step * train.accumulate / (train.epochs * batches)]
    if train.max_steps is not None:
        done.append(state.step / max(train.max_steps, 1))
    if train.max_minutes is not None:
        done.append(state.seconds / max(train.max_minutes * 60, 1e-9))
    return max(done)


def make_set_loss(loss: LossConfig, task: SetTask) -> SetLoss:
    """The set loss that a configuration names, with the data set's one-hot groups if they are scored as such."""
    cost = PairCost(loss.cost, groups=task.groups if loss.cross_entropy else None)
    if loss.set == "chamfer":
        return partial(chamfer_loss, cost=cost, masks=loss.masks)
    return partial(hungarian_loss, cost=cost, masks=loss.masks, mask_weight=loss.mask_weight)
