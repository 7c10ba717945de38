"""Named experiments: values only. `preset(name, method, scale)` gives one of them. No torch here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

from setpredict.config import (
    DataConfig,
    DecoderConfig,
    EncoderConfig,
    Experiment,
    GradientDescent,
    Implicit,
    InputConfig,
    LossConfig,
    TrainConfig,
)
from setpredict.core.errors import UserError, did_you_mean

Method = Literal["dspn", "idspn", "slots", "transformer", "mlp", "lstm", "dense", "auto"]
Scale = Literal["paper", "medium", "small"]

PRESETS = (
    "polygons",
    "multisets",
    "numbering",
    "mnist",
    "clevr-box",
    "clevr-state",
    "scenes-box",
    "scenes-state",
    "folder",
)
OWN = ("folder", "coco", "memory")
"""The data sets that users bring."""
METHODS: tuple[Method, ...] = get_args(Method)
SCALES: tuple[Scale, ...] = get_args(Scale)

IDSPN = DecoderConfig(
    solver=GradientDescent(steps=20, step_size=1.0, momentum=0.9, nesterov=True, clip_norm=10.0),
    gradient=Implicit(),
    loss="squared",
    mask="free",
    initial="random",
)


NUMBERED: dict[str, Any] = {"initial": "input", "step_scale": "added", "project": "simplex"}
"""Outputs that add categories to the elements of the input: as in the iDSPN paper's numbering."""


def preset(name: str, method: Method = "auto", scale: Scale = "small") -> Experiment:
    """The experiment of that name, for a method, at the paper's scale or one for two CPU cores and under an hour.

    The method auto is dspn; for the user's own data, the data decide about it. Between the two scales, images have a
    medium one: those of the paper's size, for a CPU and hours.
    """
    if name not in PRESETS:
        near = did_you_mean(name, PRESETS)
        raise UserError(f"there is no preset {name!r}{near or ';'} presets are {', '.join(PRESETS)}")
    kind, _, target = name.partition("-")
    if scale not in scales_of(name):
        raise UserError(f"{name} has no scale {scale!r}; its scales are {', '.join(scales_of(name))}")
    data = DataConfig(name=kind)  # pyright: ignore[reportArgumentType]
    if target:
        data.target = target  # pyright: ignore[reportAttributeAccessIssue]
    make = {"mnist": _mnist, "clevr": _clevr, "scenes": _clevr, "folder": _folder, "numbering": _numbering}.get(
        kind, _toy
    )
    experiment = make(data, scale)
    if method == "idspn":
        _as_idspn(experiment, scale)
    elif method in ("slots", "transformer"):
        _with_attention(experiment, method, scale)
    elif method == "auto":
        experiment.decoder = replace(experiment.decoder, kind="auto" if name == "folder" else "dspn")
    elif method != "dspn":
        experiment.decoder = replace(experiment.decoder, kind=method)
    if method == "dense":
        experiment.loss, experiment.input = replace(experiment.loss, dense=1.0), replace(experiment.input, warmup=0.0)
    return experiment


def scales_of(name: str) -> tuple[Scale, ...]:
    """The scales of a preset; only images have a medium one."""
    images = name.startswith(("clevr", "scenes"))
    return tuple(scale for scale in SCALES if images or scale != "medium")


def _toy(data: DataConfig, scale: Scale) -> Experiment:
    """Points and polygons: the paper has no numbers for them, so both scales share a model."""
    loss = LossConfig("hungarian", masks="filter" if data.name == "multisets" else "feature")
    train = TrainConfig(lr=3e-3, schedule="cosine", ema=0.99, val_every=1000, threads=1)
    train.max_minutes = 5.0 if scale == "small" else None
    return Experiment(data, loss=loss, train=train)


def _numbering(data: DataConfig, scale: Scale) -> Experiment:
    """Section 4.1 of the iDSPN paper: the descent starts from the input multiset, whose elements get numbers."""
    data.points = 64 if scale == "paper" else 8
    train = TrainConfig(lr=1e-3, batch_size=128, epochs=50)
    if scale == "small":
        train = TrainConfig(
            lr=1e-3, batch_size=32, schedule="cosine", warmup_steps=100, clip_grad=1.0, ema=0.99, max_minutes=5.0
        )
        train.val_every, train.threads = 1000, 1
    return Experiment(
        data,
        encoder=EncoderConfig("mlp", hidden=(256,), pool="fspool-free", normalize=False),
        decoder=DecoderConfig(solver=GradientDescent(steps=20, step_size=1.0), loss="squared", **NUMBERED),
        loss=LossConfig("hungarian", cost="squared", masks="filter"),
        train=train,
    )


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
    """Boxes and states, on CLEVR or on generated scenes; small ones have fewer pixels and fewer objects."""
    if scale == "paper":
        return Experiment(
            data,
            latent=512,
            input=InputConfig("resnet"),
            encoder=EncoderConfig("relation", hidden=(512,)),
            decoder=DecoderConfig(hidden=(512, 512)),
            train=TrainConfig(lr=3e-4, workers=2),
        )
    input = InputConfig("conv", warmup=3000.0)
    if scale == "medium":
        input.widths = (32, 48, 96, 128, 64)
    else:
        data.size = 64
        if data.name == "scenes":
            data.min_objects, data.max_objects = 3, 6
    return Experiment(
        data,
        latent=256,
        input=input,
        encoder=EncoderConfig("relation", hidden=(128,)),
        decoder=DecoderConfig(hidden=(256, 256)),
        train=TrainConfig(
            lr=2e-3,
            batch_size=32,
            schedule="cosine",
            warmup_steps=100,
            clip_grad=1.0,
            ema=0.999,
            max_minutes=30.0 if scale == "small" else 120.0,
            val_every=1000,
            save_every=500,
            workers=1,
        ),
    )


def _folder(data: DataConfig, scale: Scale) -> Experiment:
    """The user's own data: moderate settings; the data decides what images begin with."""
    wide = scale == "paper"
    train = TrainConfig(lr=None, batch_size=16, schedule="cosine", warmup_steps=50, clip_grad=1.0, ema=0.99)
    if not wide:  # the minutes alone end it
        train = replace(train, epochs=10**6, max_minutes=15.0)
    return Experiment(
        data,
        latent=512 if wide else None,
        input=InputConfig("resnet" if wide else "conv", warmup=None),
        decoder=DecoderConfig(initial="auto"),
        loss=LossConfig(masks=None, dense=None),
        train=train,
    )


def _with_attention(experiment: Experiment, method: Method, scale: Scale) -> None:
    """Slot Attention in its paper's sizes; a transformer in DETR's at the paper's scale, else in smaller ones."""
    data = experiment.data.name
    if method == "slots":
        experiment.decoder = DecoderConfig("slots", GradientDescent(steps=3), width=64, hidden=(128,))
        experiment.loss = replace(experiment.loss, steps="last")
        rate = 4e-4
    else:
        large = scale == "paper" and data in ("clevr", "scenes")
        sizes = {"width": 256, "heads": 8, "hidden": (2048,)} if large else {"width": 64, "heads": 4, "hidden": (256,)}
        experiment.decoder = DecoderConfig("transformer", GradientDescent(steps=6 if large else 3), **sizes)
        rate = 1e-4 if large else 1e-3
    if data == "numbering":
        experiment.decoder.queries = "input+random"
        experiment.loss = replace(experiment.loss, cross_entropy=True)
    experiment.train = replace(
        experiment.train, lr=rate if scale == "paper" else min(experiment.train.lr or 1e-3, 1e-3)
    )
    warm = max(experiment.train.warmup_steps, 100)
    experiment.train = replace(experiment.train, warmup_steps=warm, clip_grad=experiment.train.clip_grad or 1.0)


def _as_multisets_of_the_release(experiment: Experiment) -> None:
    """Section 4.2 of the iDSPN paper, whose release learns Y0 and regularizes the distance from it."""
    experiment.latent, experiment.input = 512, replace(experiment.input, shared=False)
    solver = replace(IDSPN.solver, clip_norm=None, penalty=0.1, penalty_reduction="mean")
    experiment.decoder = replace(experiment.decoder, solver=solver, initial="learned-normal")
    # 40 epochs of 64,000 sets there; epochs have 32,000 sets here
    experiment.train = TrainConfig(batch_size=128, lr=1e-3, epochs=80, workers=experiment.train.workers)


def _as_idspn(experiment: Experiment, scale: Scale) -> None:
    """The follow-up paper's decoder, encoder and settings in place of the paper's."""
    data = experiment.data.name
    experiment.decoder = replace(IDSPN, hidden=experiment.decoder.hidden)
    if data == "numbering":
        experiment.decoder = replace(experiment.decoder, solver=replace(IDSPN.solver, clip_norm=40.0), **NUMBERED)
    experiment.loss = replace(experiment.loss, steps="last", repr_weight=0.0)
    if scale == "paper":
        experiment.latent = 512 if data in ("clevr", "scenes") else experiment.latent
        steps = 20 if data == "numbering" else 40
        experiment.decoder.solver = replace(experiment.decoder.solver, steps=steps)
        experiment.encoder = EncoderConfig("mlp", hidden=(512,), pool="fspool-free", normalize=False, init="torch")
        experiment.input = replace(experiment.input, depth=18, tail="idspn")
        train = TrainConfig(batch_size=128, lr=1e-3, schedule="step", few_steps_until=0.5)
        experiment.train = replace(train, workers=experiment.train.workers)
        if data == "multisets":
            _as_multisets_of_the_release(experiment)
        elif data == "numbering":
            experiment.encoder.hidden = (256,)
            experiment.train = TrainConfig(batch_size=128, lr=1e-3, epochs=50)
        return
    hidden = experiment.encoder.hidden[:1]
    experiment.encoder = EncoderConfig("mlp", hidden=(max(256, *hidden),), pool="fspool-free", normalize=False)
    if experiment.train.lr is not None:
        experiment.train = replace(experiment.train, lr=min(experiment.train.lr, 3e-3))
    if data in OWN:  # large sets need many steps to come to rest, and few of them to learn most of it
        experiment.decoder.solver = replace(experiment.decoder.solver, steps=40)
        experiment.train = replace(experiment.train, few_steps_until=0.75)
    if data == "mnist":  # on hundreds of points, a gradient of one step lets the representation's scale grow for ever
        experiment.train = replace(experiment.train, lr=1e-3, optimizer="adamw", weight_decay=1.0)
