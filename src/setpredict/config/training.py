"""The options of training: the outer loss and the outer loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from setpredict.core.errors import UserError

MOST_RATE = 1e6
"""The largest learning rate and weight decay: float32 must hold what the optimizer makes of them."""
MOST_PROCESSES = 1024
"""Processes or threads on one machine."""


@dataclass
class LossConfig:
    """What training minimizes: the outer loss of Algorithm 1."""

    set: Literal["chamfer", "hungarian"] = "hungarian"
    """L_set, the loss between sets."""
    cost: Literal["huber", "squared"] = "huber"
    """The cost of a pair of elements."""
    cross_entropy: bool = False
    """Score one-hot groups by cross-entropy instead (the data set names its groups)."""
    masks: Literal["feature", "filter"] | None = "feature"
    """Masks as one more feature of every element (the paper), or as a filter: padding is not matched (None: chosen for
    the data)."""
    mask_weight: float = 1.0
    """Hungarian with masks filter: weight of the mask's own loss."""
    steps: Literal["all", "last"] = "all"
    """Average over all sets Y0 … YT that carry gradients, or take YT."""
    repr_weight: float = 0.1
    """λ, the weight of the representation loss of the true set."""
    dense: float | None = 0.0
    """Images: weight of the dense head's own loss beside the set loss (None: chosen for the data)."""


@dataclass
class TrainConfig:
    """The outer loop."""

    epochs: int = 100
    """Passes over the training split."""
    max_steps: int | None = None
    """Stop after this many optimizer steps (None: the epochs decide)."""
    max_minutes: float | None = None
    """Stop after this much training time, validation not counted (None: the epochs decide)."""
    batch_size: int = 32
    """Samples per process and step."""
    accumulate: int = 1
    """Batches whose gradients are added up before an optimizer step."""
    optimizer: Literal["adam", "adamw"] = "adam"
    """The optimizer."""
    lr: float | None = 1e-3
    """The learning rate (None: chosen for the data)."""
    weight_decay: float = 0.0
    """The optimizer's weight decay."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises from 0."""
    schedule: Literal["constant", "cosine", "step"] = "constant"
    """How the learning rate falls."""
    decay_at: tuple[float, ...] = (0.9,)
    """Schedule step: fractions of the training after which the learning rate is divided by ten."""
    clip_grad: float | None = None
    """Largest norm of the outer gradient."""
    ema: float = 0.0
    """Decay of the weights' moving average, which is then evaluated and saved (0: none)."""
    few_steps_until: float = 0.0
    """Fraction of the training with half the inner steps (iDSPN uses 0.5)."""
    patience: int | None = None
    """Stop after this many validations in a row without a better score."""
    val_every: int | None = None
    """Optimizer steps between validations (None: one epoch, or more where validation would take over a tenth of the
    time)."""
    save_every: int = 1000
    """Optimizer steps between checkpoints; one is also written at each validation and at the end."""
    log_every: int = 50
    """Optimizer steps between rows of the log."""
    pictures: bool = True
    """Draw some predictions after each validation."""
    on_divergence: Literal["stop", "rollback"] = "stop"
    """When the loss or a gradient is not finite: stop, or return to the last checkpoint with half the learning rate."""
    seed: int = 0
    """Seed of the weights, the order of the samples and random initial sets."""
    workers: int = 0
    """Threads that load data ahead."""
    threads: int | None = None
    """Threads of PyTorch on a CPU (None: its own choice)."""
    accelerator: str = "auto"
    """auto, cpu, gpu or mps."""
    devices: int = 1
    """Processes on this machine; torchrun sets it itself."""
    precision: Literal["32-true", "16-mixed", "bf16-mixed"] = "32-true"
    """Precision of the input encoder; the inner loop and the losses stay in float32."""

    def check(self) -> None:
        """Raise a UserError for values that no training can have, before anything is written."""
        positive = "batch_size accumulate log_every save_every val_every patience devices threads"
        for smallest, names in ((0, "epochs max_steps workers warmup_steps seed"), (1, positive)):
            for name in names.split():
                value = getattr(self, name)
                if value is not None and value < smallest:
                    raise UserError(f"{_option(name)} must be at least {smallest}, got {value}")
        for name in ("lr", "weight_decay"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= MOST_RATE:
                raise UserError(f"{_option(name)} must be from 0 to {MOST_RATE:g}, got {value:g}")
        if self.seed >= 2**63:
            raise UserError(f"--seed must be below 2^63, got {self.seed}")
        for name in ("devices", "threads", "workers"):
            if (getattr(self, name) or 0) > MOST_PROCESSES:
                raise UserError(f"{_option(name)} must be at most {MOST_PROCESSES}, got {getattr(self, name)}")
        for name, value in (("max_minutes", self.max_minutes), ("clip_grad", self.clip_grad)):
            if value is not None and not value > 0:
                raise UserError(f"{_option(name)} must be above 0, got {value:g}")
        for name, values in (("few_steps_until", [self.few_steps_until]), ("decay_at", self.decay_at)):
            if not all(0 <= value <= 1 for value in values):
                raise UserError(f"{_option(name)} must be from 0 to 1, got {' '.join(map(str, values))}")
        if not 0 <= self.ema < 1:
            raise UserError(f"--ema must be from 0 to below 1, got {self.ema:g}")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
