"""Every experiment as a typed value: its data, model, loss and outer loop. No torch here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from setpredict.config import (
    ConfigError,
    DecoderConfig,
    EncoderConfig,
    InputConfig,
    LossConfig,
    ModelConfig,
    TrainConfig,
)

if TYPE_CHECKING:
    from setpredict.data.task import SetTask

Method = Literal["dspn", "idspn", "mlp", "lstm"]
Scale = Literal["paper", "small"]


@dataclass
class DataConfig:
    """Which data set, and what of it."""

    name: Literal["multisets", "polygons", "mnist", "clevr", "scenes", "folder", "coco"] = "multisets"
    folder: str | None = None
    """mnist, clevr: where it lies (None: below $SETPREDICT_DATA). folder, coco: where it lies, always needed; folder
    takes whatever `setpredict data check` does. scenes: render into this folder once, and read from there, instead of
    new scenes in every epoch."""
    target: Literal["state", "box"] = "state"
    """clevr, scenes: objects with attributes, or bounding boxes."""
    boxes: Literal["paper", "exact"] = "paper"
    """clevr, scenes: the paper's heuristic boxes, or boxes projected from the geometry."""
    size: int = 128
    """clevr, scenes, folder: side of the square image."""
    points: int = 8
    """multisets: the most elements a set has."""
    dim: int = 2
    """multisets: features of an element."""
    duplicates: bool = False
    """multisets: draw some elements more than once."""
    variable: bool = False
    """multisets: sets of 1 to the most elements."""
    min_objects: int = 3
    max_objects: int = 10
    """scenes: how many objects."""
    train: int | None = None
    """Samples in an epoch (None: all there are; multisets, polygons and scenes are endless)."""
    val: int | None = None
    """Samples to validate on (None: all that are set aside)."""
    test: int | None = None
    """Samples to test on (None: all there are)."""
    seed: int = 0
    """Of generated data, and of which samples are set aside for validation."""


@dataclass
class Experiment:
    """All that decides a run; `runs/NAME/config.json` holds it."""

    data: DataConfig = field(default_factory=DataConfig)
    latent: int = 64
    """L, the length of the vector that is decoded."""
    input: InputConfig = field(default_factory=InputConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    train: Annotated[TrainConfig, tyro.conf.arg(name="")] = field(default_factory=TrainConfig)

    def model(self, task: SetTask) -> ModelConfig:
        """The model for a data set: sizes and dimensions are the data's."""
        input = replace(self.input, kind=task.input_kind, size=task.input_size)
        if task.input_kind == "set":
            most = task.max_input_size or task.max_size
            room = input.max_size or most
            if room < most:
                raise ConfigError(f"input.max_size must be at least {most}, as the largest input set, got {room}")
            varies = task.variable if task.input_variable is None else task.input_variable
            varies = varies or room > most if input.variable is None else input.variable
            # The output's encoder takes the input sets too if they fit in it, and it has masks where they are padded.
            fits = room <= task.max_size if task.variable else room == task.max_size and not varies
            input.shared = input.shared and task.auto_encodes and task.input_size == task.features and fits
            if not input.shared:
                input.max_size, input.variable = room, varies
        return ModelConfig(task.max_size, task.features, task.variable, self.latent, input, self.encoder, self.decoder)


def located(experiment: Experiment) -> Experiment:
    """The same, with its data folder as a whole path: a run may be looked at from another working directory."""
    if experiment.data.folder is None:
        return experiment
    folder = Path(experiment.data.folder).expanduser().absolute()
    return replace(experiment, data=replace(experiment.data, folder=str(folder)))


def make_task(data: DataConfig) -> SetTask:
    """Load or generate the data set of a configuration."""
    from setpredict.data import load
    from setpredict.data.locate import open_path

    counts = {name: getattr(data, name) for name in ("train", "val", "test") if getattr(data, name) is not None}
    for name, count in counts.items():
        if count < 0:
            raise ConfigError(f"--data.{name} must be at least 0, got {count}")
    match data.name:
        case "multisets":
            shape = {"n": data.points, "dim": data.dim, "duplicates": data.duplicates, "variable": data.variable}
            return load("multisets", seed=data.seed, **shape, **counts)
        case "polygons":
            return load("polygons", seed=data.seed, **counts)
        case "scenes":
            many = {"min_objects": data.min_objects, "max_objects": data.max_objects}
            look: dict[str, Any] = {"target": data.target, "boxes": data.boxes, "size": data.size}
            return load("scenes", seed=data.seed, folder=data.folder, **look, **many, **counts)
        case "mnist":
            task = load("mnist", folder=data.folder, seed=data.seed)
        case "clevr":
            look = {"target": data.target, "boxes": data.boxes, "size": data.size}
            task = load("clevr", folder=data.folder, seed=data.seed, **look)
        case _ if data.folder is None:
            raise ConfigError(f"--data.folder is needed for the data set {data.name!r}")
        case "folder":
            look = {"target": data.target, "boxes": data.boxes, "size": data.size}
            task = open_path(data.folder, seed=data.seed, **look)
        case _:
            task = load(data.name, folder=data.folder, size=data.size, seed=data.seed)
    return task.limited(**counts) if counts else task


PRESETS = ("polygons", "multisets", "mnist", "clevr-box", "clevr-state", "scenes-box", "scenes-state", "folder")
METHODS: tuple[Method, ...] = ("dspn", "idspn", "mlp", "lstm")
SCALES: tuple[Scale, ...] = ("paper", "small")

IDSPN = DecoderConfig(
    steps=20,
    step_size=1.0,
    loss="squared",
    momentum=0.9,
    nesterov=True,
    clip_norm=10.0,
    mask="free",
    initial="random",
    backprop_steps=1,
    implicit=True,
)


def preset(name: str, method: Method = "dspn", scale: Scale = "small") -> Experiment:
    """The experiment of that name, for a method, at the paper's scale or one for two CPU cores and under an hour."""
    if name not in PRESETS:
        raise ConfigError(f"no preset is called {name!r}; there are {', '.join(PRESETS)}")
    kind, _, target = name.partition("-")
    data = DataConfig(name=kind)  # pyright: ignore[reportArgumentType]
    if target:
        data.target = target  # pyright: ignore[reportAttributeAccessIssue]
    make = {"mnist": _mnist, "clevr": _clevr, "scenes": _clevr, "folder": _folder}.get(kind, _toy)
    experiment = make(data, scale)
    if method == "idspn":
        _as_idspn(experiment, scale)
    elif method != "dspn":
        experiment.decoder = replace(experiment.decoder, kind=method)
    return experiment


def _toy(data: DataConfig, scale: Scale) -> Experiment:
    """Points and polygons: the paper has no numbers for them, so both scales share a model."""
    loss = LossConfig("hungarian", masks="filter" if data.name == "multisets" else "feature")
    train = TrainConfig(lr=3e-3, schedule="cosine", ema=0.99, val_every=1000, threads=1)
    train.max_minutes = 5.0 if scale == "small" else None
    return Experiment(data, loss=loss, train=train)


def _mnist(data: DataConfig, scale: Scale) -> Experiment:
    decoder = DecoderConfig(hidden=(256, 256), mask_bias=1.0)
    experiment = Experiment(data, decoder=decoder, loss=LossConfig("chamfer"), train=TrainConfig(lr=0.01))
    if scale == "small":
        data.val = 960
        experiment.train = TrainConfig(
            lr=0.01, batch_size=8, schedule="cosine", warmup_steps=50, clip_grad=1.0, ema=0.99, max_minutes=50.0
        )
        experiment.train.val_every, experiment.train.save_every = 1000, 500
    return experiment


def _clevr(data: DataConfig, scale: Scale) -> Experiment:
    """Boxes and states, on CLEVR or on generated scenes."""
    if scale == "paper":
        return Experiment(
            data,
            latent=512,
            encoder=EncoderConfig("relation", hidden=(512,)),
            decoder=DecoderConfig(hidden=(512, 512)),
            train=TrainConfig(lr=3e-4, workers=2),
        )
    data.size = 64
    if data.name == "scenes":
        data.min_objects, data.max_objects = 3, 6
    return Experiment(
        data,
        latent=128,
        input=InputConfig(depth=10, width=16, tail="idspn"),
        encoder=EncoderConfig("relation", hidden=(128,)),
        decoder=DecoderConfig(hidden=(256, 256)),
        train=TrainConfig(
            lr=2e-3,
            batch_size=32,
            schedule="cosine",
            warmup_steps=100,
            clip_grad=1.0,
            ema=0.999,
            max_minutes=30.0,
            val_every=1000,
            save_every=500,
            workers=1,
        ),
    )


def _folder(data: DataConfig, scale: Scale) -> Experiment:
    """Somebody's own data: the middle of the road."""
    wide = scale == "paper"
    train = TrainConfig(
        lr=1e-3, schedule="cosine", warmup_steps=50, clip_grad=1.0, ema=0.99, max_minutes=None if wide else 50.0
    )
    return Experiment(
        data,
        latent=512 if wide else 128,
        input=InputConfig(depth=34 if wide else 18, width=64 if wide else 16),
        train=train,
    )


def _as_idspn(experiment: Experiment, scale: Scale) -> None:
    """The follow-up's decoder, encoder and settings in place of the paper's."""
    experiment.decoder = replace(IDSPN, hidden=experiment.decoder.hidden)
    experiment.loss = replace(experiment.loss, steps="last", repr_weight=0.0)
    if scale == "paper":
        experiment.latent = 512 if experiment.data.name in ("clevr", "scenes") else experiment.latent
        experiment.decoder.steps = 40
        experiment.encoder = EncoderConfig("mlp", hidden=(512,), pool="fspool-free", normalize=False)
        experiment.input = replace(experiment.input, depth=18, tail="idspn")
        train = TrainConfig(batch_size=128, lr=1e-3, schedule="step", few_steps_until=0.5)
        experiment.train = replace(train, workers=experiment.train.workers)
        return
    if experiment.data.name == "mnist":  # the paper's decoder, with momentum and one step's gradient
        keep = DecoderConfig(hidden=experiment.decoder.hidden, steps=12, step_size=12.5, initial="fixed")
        experiment.decoder = replace(keep, momentum=0.5, nesterov=True, backprop_steps=1)
        # without weight decay the representation's scale grows until the inner steps no longer converge
        experiment.train = replace(experiment.train, lr=1e-3, optimizer="adamw", weight_decay=1.0)
        return
    hidden = experiment.encoder.hidden[:1]
    experiment.encoder = EncoderConfig("mlp", hidden=(max(256, *hidden),), pool="fspool-free", normalize=False)
    experiment.train = replace(experiment.train, lr=min(experiment.train.lr, 3e-3))
