"""The outer loop: change the weights so that decoding gives the right sets. Read it from top to bottom."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from jaxtyping import Int
from lightning_fabric import Fabric
from lightning_fabric.plugins import Precision
from lightning_fabric.wrappers import _FabricModule
from torch import Tensor

from setpredict.build import make_optimizer
from setpredict.config import TrainConfig
from setpredict.core import rng
from setpredict.core.errors import NotFinite
from setpredict.data.task import Batch, SetTask
from setpredict.losses.outer import OuterLoss
from setpredict.model import SetPredictor
from setpredict.sets import Prediction
from setpredict.training.devices import raise_anywhere
from setpredict.training.optimizer import learning_rate, update_average


@dataclass
class TrainState:
    """Everything that training changes; a checkpoint holds all of it."""

    model: SetPredictor
    optimizer: torch.optim.Optimizer
    average: SetPredictor | None = None
    step: int = 0
    position: int = 0
    """Batches that this process has trained on, in all epochs."""
    batches: int = 0
    """Batches of an epoch, in which `position` is counted."""
    seconds: float = 0.0
    best: tuple[float, ...] = (float("inf"),)
    """The best validation score so far; smaller is better."""
    stale: int = 0
    """Validations since then."""
    validated_at: int = -1
    """The step of the last validation."""
    warming: bool = False
    """Whether the last step trained the input encoder alone, by its dense head."""
    warmed_at: int = 0
    """The step after such a warm-up; 0 without one, and before."""
    lr_scale: float = 1.0
    rollbacks: int = 0
    module: _FabricModule = field(init=False)
    """The model as Fabric wraps it, for forward passes in training."""
    precision: Precision = field(init=False)
    """Fabric's precision plugin, which has a gradient scaler for float16."""

    @classmethod
    def fresh(cls, fabric: Fabric, model: SetPredictor, config: TrainConfig) -> TrainState:
        """The state before the first step."""
        average = copy.deepcopy(model).requires_grad_(False) if config.ema else None
        rate = model.config.input.weights_rate if model.config else 1.0
        state = cls(model, make_optimizer(model, config, rate), average)
        state.module, state.optimizer = fabric.setup(model, state.optimizer)
        state.precision = fabric.strategy.precision
        if average is not None:
            fabric.to_device(average)
        return state

    @property
    def best_weights(self) -> SetPredictor:
        """The model to evaluate and to save: the moving average if there is one."""
        return self.model if self.average is None else self.average


@dataclass
class Step:
    """One step of training, as `after_step` sees it."""

    parts: dict[str, Tensor]
    """The outer loss and its parts, by name."""
    prediction: Prediction
    batch: Batch
    done: float
    """Completed fraction of the training."""


AfterStep = Callable[[TrainState, Step], bool | None]


def fit(
    fabric: Fabric,
    state: TrainState,
    task: SetTask,
    train: TrainConfig,
    loss: OuterLoss,
    after_step: AfterStep = lambda state, step: None,
    warmup: float = 0,
) -> None:
    """Train until the epochs, steps or minutes of `train` are over, or `after_step` returns True.

    The first `warmup` steps, or that fraction of the training, train the input encoder by its dense head alone.

    Time spent in `after_step` (validation, checkpoints, logs) does not count as training time.
    """
    load = partial(task.loader, "train", train.batch_size, seed=train.seed, workers=train.workers)
    load = partial(load, rank=fabric.global_rank, world_size=fabric.world_size)
    count_in(state, len(load()), train.accumulate)
    state.module.train()
    state.optimizer.zero_grad()  # an abandoned step may have left gradients
    began, done = time.perf_counter(), fraction_done(fabric, state, train)
    while done < 1:
        epoch, start = divmod(state.position, state.batches)
        for batch in load(epoch=epoch, start=start):
            batch = batch.to(fabric.device)
            state.position += 1
            last = state.position % train.accumulate == 0
            begins = state.step < warmup if warmup >= 1 else done < warmup
            begin_phase(state, warming=begins and not state.warmed_at)  # not again if the limits were raised
            with fabric.no_backward_sync(state.module, enabled=not last):
                parts, prediction = forward(fabric, state, batch, loss, train, epoch, done)
                fabric.backward(parts["loss"] / train.accumulate)
            if not last:
                continue
            update(fabric, state, train, done)
            state.seconds += time.perf_counter() - began
            done = fraction_done(fabric, state, train)
            if after_step(state, Step(parts, prediction, batch, done)) or done >= 1:
                return
            began = time.perf_counter()


def begin_phase(state: TrainState, warming: bool) -> None:
    """After a warm-up, start a new optimizer, whose learning rate rises from 0 again.

    Adam divides by the size of past gradients, and the decoder had none: its first steps would be far too large.
    """
    if state.warming and not warming:
        state.optimizer.state.clear()
        state.warmed_at = state.step
    state.warming = warming


def forward(
    fabric: Fabric,
    state: TrainState,
    batch: Batch,
    loss: OuterLoss,
    train: TrainConfig,
    epoch: int,
    done: float,
) -> tuple[dict[str, Tensor], Prediction]:
    """Algorithm 1 for one batch: encode, decode, and the outer loss with its parts."""
    trained = state.model.steps
    steps = max(1, trained // 2) if trained and done < train.few_steps_until else None
    keys = initial_keys(train.seed, epoch, batch.index)
    problem, parts, prediction = None, None, None
    try:
        given = {"steps": steps, "keys": keys, "centers": batch.centers}
        prediction = state.module(batch.input, batch.target, **given, warmup=state.warming)
        parts = warmup_loss(prediction) if state.warming else loss(prediction, batch.target)
        if not bool(torch.isfinite(parts["loss"])):
            problem = NotFinite(f"the loss is {parts['loss'].item()}")
    except NotFinite as e:
        problem = e
    raise_anywhere(fabric, problem)
    assert parts is not None
    assert prediction is not None
    return parts, prediction


def warmup_loss(prediction: Prediction) -> dict[str, Tensor]:
    """The dense head's loss alone."""
    if prediction.dense_loss is None:
        raise ValueError("a warm-up needs a model with a dense head and batches with centers")
    loss = prediction.dense_loss.mean()
    return {"loss": loss, "dense": loss.detach(), "set_last": loss.detach()}


def initial_keys(seed: int, epoch: int, index: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
    """One key per sample for its random initial set, which depends on the seed, the epoch and the sample alone."""
    keys = rng.item_keys(rng.key(seed, "initial", epoch), index.cpu().numpy())
    return torch.from_numpy(keys.view(np.int64)).to(index.device)


def update(fabric: Fabric, state: TrainState, train: TrainConfig, done: float) -> None:
    """One step of the outer optimizer; NotFinite if a gradient is not finite."""
    for group in state.optimizer.param_groups:
        group["lr"] = (
            group.get("factor", 1.0) * state.lr_scale * learning_rate(train, state.step - state.warmed_at, done)
        )
    if train.clip_grad is not None:
        limit = {"max_norm": train.clip_grad, "error_if_nonfinite": False}
        norm = fabric.clip_gradients(state.module, state.optimizer, **limit)
    else:
        norm = torch.nn.utils.get_total_norm([p.grad for p in state.model.parameters() if p.grad is not None])
    # With a scaler, overflow is normal: it skips the step and tries a smaller scale.
    scaler = getattr(state.precision, "scaler", None)
    if scaler is None and not bool(torch.isfinite(torch.as_tensor(norm))):
        state.optimizer.zero_grad()
        raise NotFinite(f"the norm of the outer gradient is {float(torch.as_tensor(norm))}")
    state.optimizer.step()
    state.optimizer.zero_grad()
    if scaler is not None and scaler.get_scale() < 1:  # from 65536: no scale is small enough
        raise NotFinite("the outer gradient is not finite, whatever the scale of the loss")
    state.step += 1
    if state.average is not None:
        update_average(state.average, state.model, train.ema, state.step)


def share_buffers(fabric: Fabric, state: TrainState) -> None:
    """Copy the first process's batch-norm statistics to all: each process has updated them with its own batches."""
    if fabric.world_size == 1:
        return
    for model in (state.model, state.average):
        for buffer in model.buffers() if model is not None else ():
            torch.distributed.broadcast(buffer, src=0)


def count_in(state: TrainState, batches: int, accumulate: int) -> None:
    """Count the position in epochs of this many batches.

    A training may be resumed with larger batches or more processes; it has still trained on the same fraction of its
    epochs, in steps of `accumulate` batches.
    """
    if not state.batches:  # a new one, or the checkpoint of an older version, which only had the steps
        state.position = state.step * accumulate
    elif state.batches != batches or state.position % accumulate:
        state.position = round(state.position * batches / state.batches / accumulate) * accumulate
    state.batches = batches


def fraction_done(fabric: Fabric, state: TrainState, train: TrainConfig) -> float:
    """Completed fraction of the training, by whichever limit comes first; the same in all processes."""
    done = [state.position / (train.epochs * state.batches) if train.epochs > 0 else 1.0]
    if train.max_steps is not None:
        done.append(state.step / train.max_steps if train.max_steps > 0 else 1.0)
    if train.max_minutes is not None:
        seconds = state.seconds
        if fabric.world_size > 1:  # clocks differ; the first process's counts
            seconds = fabric.broadcast(seconds)
        done.append(seconds / max(train.max_minutes * 60, 1e-9))
    return max(done)
