"""Every choice that makes a model, as typed dataclasses that a person can read, save and override. No torch here."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

T = TypeVar("T")


class ConfigError(ValueError):
    """A configuration that does not fit; the message names the field, its value and what was expected."""


@dataclass
class InputConfig:
    """What goes in, and the encoder that makes a vector of it."""

    kind: Literal["vector", "image", "set"] = "set"
    size: int = 2
    """Length of the vector, side of the square image in pixels, or features of the input set's elements."""
    hidden: tuple[int, ...] = (256, 256)
    """Vectors: hidden layers of their MLP."""
    depth: Literal[10, 18, 34] = 34
    """Images: ResNet10 (one block a stage), ResNet18 or ResNet34."""
    width: int = 64
    """Images: channels of the first ResNet stage; the paper's is 64."""
    tail: Literal["dspn", "idspn"] = "dspn"
    """Images: how the ResNet's map becomes a vector."""
    max_size: int = 0
    """Sets: room for so many input elements (0: as many as the data or the output has)."""
    shared: bool = True
    """Sets that are their own target: encode them with the decoder's own set encoder, as the paper does."""
    variable: bool | None = None
    """Sets: whether input sets differ in size (None: as the data or the output)."""


@dataclass
class EncoderConfig:
    """The set encoder g."""

    kind: str = "mlp"
    """mlp, relation, or your own as package.module:Class, called with (features, latent, max_size)."""
    hidden: tuple[int, ...] = (256, 256)
    pool: Literal["fspool", "fspool-free", "sum", "mean", "max"] = "fspool"
    pieces: int = 20
    """Pieces of FSPool's piecewise-linear weight."""
    mask: Literal["feature", "weight", "filter"] = "feature"
    """What becomes of the mask: one more feature (the paper), a factor, or a hard filter (not with DSPN)."""
    normalize: bool = True
    """Divide by the set size before pooling, as the paper does."""
    mask_sum: bool = False
    """Make the last latent number four times the mean of the masks."""


@dataclass
class DecoderConfig:
    """How a vector becomes a set."""

    kind: Literal["dspn", "mlp", "lstm"] = "dspn"
    steps: int = 10
    """T, the inner steps."""
    step_size: float = 25.0
    """η; 25 is the paper's 800 at its batch of 32."""
    loss: Literal["huber", "squared"] = "huber"
    """The representation loss."""
    momentum: float = 0.0
    nesterov: bool = False
    clip_norm: float | None = None
    """Largest norm of a sample's inner gradient."""
    mask: Literal["clamp", "sigmoid", "free"] = "clamp"
    """How masks are kept: clamped to [0, 1] (the paper), a sigmoid, or free (iDSPN)."""
    initial: Literal["learned", "fixed", "random", "predicted"] = "learned"
    """The initial set: a parameter, constant, drawn a sample, or an MLP's guess from the vector."""
    initial_scale: float = 0.1
    """Standard deviation of a random initial set."""
    penalty: float = 0.0
    """Weight of the distance from the initial set."""
    project: Literal["none", "unit"] = "none"
    """Keep elements in the unit box after each step."""
    stop_below: float | None = None
    """Stop a sample when its representation loss is below this."""
    backprop_steps: int | None = None
    """Differentiate the last k steps only (None: all)."""
    implicit: bool = False
    """iDSPN's scaling of the last step; needs backprop-steps 1."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of the mlp decoder and of a predicted initial set; the lstm takes the first."""
    mask_bias: float = 0.0
    """mlp, lstm and a predicted initial set: where masks begin (1 on MNIST; without it, outputs get stuck at 0)."""


@dataclass
class ModelConfig:
    """A whole model: what `config.json` beside saved weights says."""

    max_size: int
    """N, the most elements a set can have."""
    features: int
    """D, the features of an element."""
    variable: bool = True
    """Whether sets differ in size (masks are predicted)."""
    latent: int = 64
    """L, the length of the vector that is decoded."""
    input: InputConfig = field(default_factory=InputConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)


@dataclass
class LossConfig:
    """What training minimizes: the outer loss of Algorithm 1."""

    set: Literal["chamfer", "hungarian"] = "hungarian"
    cost: Literal["huber", "squared"] = "huber"
    """The cost of a pair of elements."""
    cross_entropy: bool = False
    """Score one-hot groups by cross-entropy instead (the data set names its groups)."""
    masks: Literal["feature", "filter"] = "feature"
    """Masks as one more feature of every element (the paper), or as a filter: padding is not matched."""
    mask_weight: float = 1.0
    """Hungarian with masks filter: weight of the mask's own loss."""
    steps: Literal["all", "last"] = "all"
    """Average over all sets Y0 … YT that carry gradients, or take YT."""
    repr_weight: float = 0.1
    """λ."""


@dataclass
class TrainConfig:
    """The outer loop."""

    epochs: int = 100
    max_steps: int | None = None
    """Stop after so many optimizer steps (None: the epochs decide)."""
    max_minutes: float | None = None
    """Stop after so much training time, validation not counted (None: the epochs decide)."""
    batch_size: int = 32
    """Samples of one process in one step."""
    accumulate: int = 1
    """Batches whose gradients are added up before an optimizer step."""
    optimizer: Literal["adam", "adamw"] = "adam"
    lr: float = 1e-3
    weight_decay: float = 0.0
    warmup_steps: int = 0
    """Steps over which the learning rate rises from 0."""
    schedule: Literal["constant", "cosine", "step"] = "constant"
    decay_at: tuple[float, ...] = (0.9,)
    """Schedule step: fractions of the training after which the learning rate is divided by ten."""
    clip_grad: float | None = None
    """Largest norm of the outer gradient."""
    ema: float = 0.0
    """Decay of the weights' moving average, which is then evaluated and saved (0: none)."""
    few_steps_until: float = 0.0
    """Fraction of the training with half the inner steps (iDSPN uses 0.5)."""
    patience: int | None = None
    """Stop after so many validations in a row without a better score."""
    val_every: int | None = None
    """Optimizer steps between validations (None: an epoch)."""
    save_every: int = 1000
    """Optimizer steps between checkpoints; one is also written at each validation and at the end."""
    log_every: int = 50
    """Optimizer steps between lines of the log."""
    pictures: bool = True
    """Draw some predictions after each validation."""
    on_divergence: Literal["stop", "rollback"] = "stop"
    """When loss or gradient is not finite: stop, or go back to the last checkpoint with half the learning rate."""
    seed: int = 0
    workers: int = 0
    """Threads that load data ahead."""
    threads: int | None = None
    """Threads of the tensor library on a CPU (None: its own choice)."""
    accelerator: str = "auto"
    """auto, cpu, gpu, mps."""
    devices: int = 1
    """Processes on this machine; torchrun decides it itself."""
    precision: Literal["32-true", "16-mixed", "bf16-mixed"] = "32-true"
    """Of the input encoder; the inner loop and the losses stay in float32."""

    def check(self) -> None:
        """Refuse numbers that no training can have, before it writes anything."""
        above = "batch_size accumulate log_every save_every val_every patience devices threads"
        for smallest, names in ((0, "epochs max_steps workers warmup_steps seed"), (1, above)):
            for name in names.split():
                value = getattr(self, name)
                if value is not None and value < smallest:
                    raise ConfigError(f"--{name.replace('_', '-')} must be at least {smallest}, got {value}")
        if not 0 <= self.lr < float("inf"):
            raise ConfigError(f"--lr must be 0 or more, got {self.lr:g}")
        for name, value in (("max_minutes", self.max_minutes), ("clip_grad", self.clip_grad)):
            if value is not None and not value > 0:
                raise ConfigError(f"--{name.replace('_', '-')} must be above 0, got {value:g}")
        for name, values in (("few_steps_until", [self.few_steps_until]), ("decay_at", self.decay_at)):
            if not all(0 <= value <= 1 for value in values):
                raise ConfigError(f"--{name.replace('_', '-')} must be from 0 to 1, got {' '.join(map(str, values))}")
        if not 0 <= self.weight_decay < float("inf"):
            raise ConfigError(f"--weight-decay must be 0 or more, got {self.weight_decay:g}")
        if not 0 <= self.ema < 1:
            raise ConfigError(f"--ema must be from 0 to below 1, got {self.ema:g}")


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain values for JSON."""
    return dataclasses.asdict(config)


def from_dict(kind: type[T], values: Any, where: str = "config") -> T:
    """A configuration from plain values; unknown, missing or mistyped fields are named.

    >>> from_dict(InputConfig, {"kind": "image", "sise": 128})
    Traceback (most recent call last):
    setpredict.config.ConfigError: config.sise is no known field; did you mean config.size?
    """
    if not isinstance(values, dict):
        raise ConfigError(f"{where} must be an object of named fields, got {values!r}")
    hints = typing.get_type_hints(kind)
    known = {f.name: f for f in dataclasses.fields(kind)}  # pyright: ignore[reportArgumentType]
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {where}.{near[0]}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"{where}.{name} is no known field; {hint}")
    for name, f in known.items():
        if name not in values and f.default is f.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{where}.{name} is missing")
    return kind(**{name: _value(hints[name], value, f"{where}.{name}") for name, value in values.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    """The value if it fits the type: a nested config, a choice, a tuple, an optional or a plain value."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return from_dict(hint, value, where)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value not in args:
            raise ConfigError(f"{where} must be one of {', '.join(map(str, args))}, got {value!r}")
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        (inner,) = [a for a in args if a is not type(None)]
        return _value(inner, value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} must be a list, got {value!r}")
        return tuple(_value(args[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{where} must be an object, got {value!r}")
        return {k: _value(args[1], v, f"{where}[{k!r}]") for k, v in value.items()}
    plain: type = hint
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, plain) or (isinstance(value, bool) and plain is not bool):
        raise ConfigError(f"{where} must be {plain.__name__}, got {value!r}")
    return value
