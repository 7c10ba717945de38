"""The only factory: from configurations to the data set, the model's own, the loss, metrics and the optimizer."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torchmetrics import Metric

from setpredict.config import (
    AugmentConfig,
    DataConfig,
    DecoderConfig,
    Experiment,
    GradientDescent,
    InputConfig,
    LossConfig,
    ModelConfig,
    TrainConfig,
    from_dict,
    to_dict,
    with_changes,
)
from setpredict.core.errors import UserError
from setpredict.data import SetTask, load
from setpredict.data.augment import augmented
from setpredict.data.locate import open_path
from setpredict.data.rotate import Coordinates, rotated
from setpredict.data.task import SPLITS
from setpredict.encoders import ResNetEncoder
from setpredict.losses import OuterLoss, SetLoss, chamfer_loss, hungarian_loss
from setpredict.matching import PairCost
from setpredict.metrics import (
    BoxAveragePrecision,
    CocoAveragePrecision,
    ExactAccuracy,
    MatchedErrors,
    SetDistance,
    SetSizeAccuracy,
    StateAveragePrecision,
)
from setpredict.metrics.matched import Layout
from setpredict.presets import OWN, preset

NUMBER_SCALE = 5.0
"""Numbers from 0 to 1 differ little between elements; unscaled, they weigh little beside masks and categories."""
RATE, IMAGE_RATE = 3e-3, 1e-3
"""The learning rate for vectors and sets, and for images."""
IMAGE_LATENT, LATENT = 128, (128, 512)
"""The length of an image's code; the range of that of vectors and sets."""
WARMUP = 0.3
"""Fraction of the training of images with known places in which the dense head is trained alone."""
FROM_DENSE = GradientDescent(steps=5, step_size=2.5)
"""The inner loop from the proposals of a dense head, which are nearly right."""
MOST_SCALE = 1e4
"""The largest factor of features: float32 must hold their squares."""


def make_task(data: DataConfig) -> SetTask:
    """Load or generate the data set of a configuration."""
    return varied(_load_task(data, counts_of(data)), data)


def counts_of(data: DataConfig) -> dict[str, int]:
    """How many samples the splits shall have, of those that the configuration limits."""
    counts = {name: getattr(data, name) for name in SPLITS if getattr(data, name) is not None}
    for name, count in counts.items():
        if count < 0:
            raise UserError(f"--data.{name} must be at least 0, got {count}")
    return counts


def varied(task: SetTask, data: DataConfig) -> SetTask:
    """The data set with training samples that are changed at random, as the configuration says."""
    by_default = data.name in OWN and task.input_kind == "image"
    if data.augmented or (data.augmented is None and by_default):
        return augment(task, data.augment, data.seed)
    return rotate(task, data.augment, data.seed) if data.augment.rotate and data.augmented is not False else task


def _load_task(data: DataConfig, counts: dict[str, int]) -> SetTask:
    images: dict[str, Any] = {"target": data.target, "boxes": data.boxes, "size": data.size}
    match data.name:
        case "multisets":
            names = ("dim", "duplicates", "variable", "distribution")
            shape = {name: getattr(data, name) for name in names}
            return load("multisets", n=data.points, seed=data.seed, **shape, **counts)
        case "numbering":
            return load("numbering", n=data.points, classes=data.classes, seed=data.seed, **counts)
        case "polygons":
            return load("polygons", seed=data.seed, **counts)
        case "scenes":
            objects = {"min_objects": data.min_objects, "max_objects": data.max_objects}
            return load("scenes", seed=data.seed, folder=data.folder, **images, **objects, **counts)
        case "mnist":
            task = load("mnist", folder=data.folder, seed=data.seed)
        case "clevr":
            task = load("clevr", folder=data.folder, seed=data.seed, allow_outside=data.allow_outside, **images)
        case "memory":
            raise UserError("this run was trained on data in memory, which is not stored with it: pass it as `task`")
        case _ if data.folder is None:
            raise UserError(f"--data.folder is needed for the data set {data.name!r}")
        case "folder":
            task = open_path(data.folder, seed=data.seed, allow_outside=data.allow_outside, **images)
        case _:
            options = {"size": data.size, "seed": data.seed, "allow_outside": data.allow_outside}
            task = load(data.name, folder=data.folder, **options)
    return task.limited(**counts) if counts else task


def augment(task: SetTask, options: AugmentConfig, seed: int) -> SetTask:
    """The data set with training images that are changed at random."""
    if task.input_kind != "image":
        raise UserError(f"augmentation is for images, and {task.name} has {task.input_kind}s")
    if not (1 <= options.zoom < math.inf and 0 <= options.aspect < 1 and 0 <= options.color < 1):
        raise UserError(f"--data.augment needs zoom from 1, aspect and color from 0 to below 1, got {options}")
    return replace(task, train=augmented(task.train, options, task.kind, task.variable, seed))


def rotate(task: SetTask, options: AugmentConfig, seed: int) -> SetTask:
    """The data set with training sets that are rotated and moved at random, input and target alike."""
    names = [task.feature_names[i] for i in task.numbers]
    unknown = [name for name in options.rotate if name not in names]
    if unknown or len(set(options.rotate)) not in (2, 3):
        given = " ".join(options.rotate)
        raise UserError(
            f"--data.augment.rotate needs two or three different numbers of {', '.join(names)}, got {given}"
        )
    if task.input_kind != "set" or task.input_size != task.features:
        raise UserError(
            f"--data.augment.rotate is for inputs that are sets of elements like the target's, and {task.name} has "
            f"{task.input_kind}s of {task.input_size} for elements of {task.features}"
        )
    if not 0 <= options.shift < math.inf:
        raise UserError(f"--data.augment.shift must be a finite number from 0, got {options.shift:g}")
    columns = tuple(task.feature_names.index(name) for name in options.rotate)

    def coordinates(scale: tuple[float, ...] | None, offset: tuple[float, ...] | None) -> Coordinates:
        units = (
            torch.tensor([given[i] if given else other for i in columns])
            for given, other in ((scale, 1.0), (offset, 0.0))
        )
        return Coordinates(columns, *units)

    places = coordinates(task.input_scale, task.input_offset), coordinates(task.scale, task.offset)
    return replace(task, train=rotated(task.train, *places, options.shift, seed))


def resolved(experiment: Experiment, task: SetTask) -> Experiment:
    """The experiment with every option that was left to the data (None or "auto") decided.

    Where the places of the elements in images are known, a dense head warms up the image encoder and proposes the
    initial set, from which DSPN descends in few small steps; padding is then not matched, because proposals that are
    not objects need not become zeros. Elsewhere, codes are as long as sets need, and settings are the paper's.
    """
    dense = task.has_centers
    if experiment.decoder.kind == "auto":
        experiment = _with_method(experiment, dense)
    input, decoder, loss = experiment.input, experiment.decoder, experiment.loss
    latent, train = experiment.latent, experiment.train
    if latent is None:
        latent = IMAGE_LATENT if task.input_kind == "image" else _latent_for(task)
    if train.lr is None:
        train = replace(train, lr=IMAGE_RATE if task.input_kind == "image" else RATE)
    if input.warmup is None:
        input = replace(input, warmup=WARMUP if dense and decoder.kind != "dense" else 0.0)
    if decoder.initial == "auto":
        decoder = replace(decoder, initial="dense" if dense and decoder.kind == "dspn" else "learned")
        if decoder.initial == "dense" and decoder.solver == GradientDescent():
            decoder = replace(decoder, solver=FROM_DENSE, step_scale="learned")
    from_dense = decoder.kind == "dspn" and decoder.initial == "dense"
    if loss.dense is None:
        loss = replace(loss, dense=1.0 if from_dense or decoder.kind == "dense" else 0.0)
    if loss.masks is None:
        loss = replace(loss, masks="filter" if from_dense else "feature")
    return replace(experiment, latent=latent, input=input, decoder=decoder, loss=loss, train=train)


def _with_method(experiment: Experiment, dense: bool) -> Experiment:
    """DSPN from a dense head's proposals where the data have places in images; else iDSPN, which learns numbers faster.

    If options of the decoder were given, they are those of DSPN. All other options that were given stay.
    """
    given = replace(experiment.decoder, kind="dspn")
    if dense or given != DecoderConfig(initial="auto"):
        return replace(experiment, decoder=given)
    default, idspn = (to_dict(preset("folder", method)) for method in ("auto", "idspn"))
    return from_dict(Experiment, with_changes(idspn, default, to_dict(experiment)))


def _latent_for(task: SetTask) -> int:
    """Room for twice as many numbers as the largest set has, so that an encoder need not lose any: a power of two."""
    wanted = 2 * task.max_size * task.features
    return min(max(1 << (wanted - 1).bit_length(), LATENT[0]), LATENT[1])


def model_config(experiment: Experiment, task: SetTask) -> ModelConfig:
    """The model of an experiment for a data set, which decides sizes and dimensions."""
    experiment = resolved(experiment, task)
    assert experiment.latent is not None
    kind = task.input_kind
    if kind == "image":
        kind = experiment.input.kind if experiment.input.kind in ("conv", "resnet") else "conv"
    input = replace(experiment.input, kind=kind, size=task.input_size, dense=_wants_dense_head(experiment, task))
    _check_weights(input)
    input.pretrained, input.weights = input.pretrained or input.weights is not None, None
    if task.input_kind == "set":
        largest = task.input_capacity
        capacity = input.max_size or largest
        if capacity < largest:
            raise UserError(f"input.max_size must be at least {largest}, as the largest input set, got {capacity}")
        varies = task.input_varies or capacity > largest if input.variable is None else input.variable
        # The output's encoder can take input sets that fit into it, if it has masks where they are padded.
        fits = capacity <= task.max_size if task.variable else capacity == task.max_size and not varies
        input.shared = input.shared and task.auto_encodes and task.input_size == task.features and fits
        if not input.shared:
            input.max_size, input.variable = capacity, varies
        input.tokens = input.tokens or ("vector" if task.auto_encodes else "elements")
    _check_sized(experiment, input)
    return ModelConfig(
        max_size=task.max_size,
        features=task.features,
        variable=task.variable,
        latent=experiment.latent,
        input=input,
        encoder=experiment.encoder,
        decoder=experiment.decoder,
        elements=task.kind,
        groups=dict(task.groups),
        feature_scale=feature_scale(experiment, task),
    )


def feature_scale(experiment: Experiment, task: SetTask) -> tuple[float, ...]:
    """The factor of each feature in the decoder and the set loss; empty where all are 1."""
    factor = experiment.coordinates
    if factor is None:
        factor = NUMBER_SCALE if task.kind == "boxes" or experiment.data.name in OWN else 1.0
    if not 0 < factor <= MOST_SCALE:
        raise UserError(f"--coordinates must be above 0 and at most {MOST_SCALE:g}, got {factor:g}")
    numbers = set(task.numbers)
    return () if factor == 1 else tuple(factor if i in numbers else 1.0 for i in range(task.features))


def _check_weights(input: InputConfig) -> None:
    if input.weights is not None and input.kind != "resnet":
        raise UserError("--input.weights are of a ResNet: add --input.kind resnet")
    if input.freeze != "none" and input.weights is None and not input.pretrained:
        raise UserError("--input.freeze keeps weights from a file: add --input.weights")
    if not 0 <= input.weights_rate <= 1:
        raise UserError(f"--input.weights-rate must be from 0 to 1, got {input.weights_rate:g}")


def _check_sized(experiment: Experiment, input: InputConfig) -> None:
    """The size that z has is exact where the set itself is encoded, and else learned by the λ term alone."""
    decoder = experiment.decoder
    is_sized = decoder.kind == "dspn" and decoder.initial == "sized"
    if is_sized and not (input.kind == "set" and input.shared) and not experiment.loss.repr_weight:
        raise UserError("--decoder.initial sized learns the size of sets by --loss.repr-weight, which must be above 0")


def _wants_dense_head(experiment: Experiment, task: SetTask) -> bool:
    """Whether anything needs a dense head; raises where the data cannot train one."""
    wants = {
        "--method dense": experiment.decoder.kind == "dense",
        "--decoder.initial dense": experiment.decoder.kind == "dspn" and experiment.decoder.initial == "dense",
        "--input.warmup": bool(experiment.input.warmup),
        "--loss.dense": bool(experiment.loss.dense),
    }
    asked = [option for option, wanted in wants.items() if wanted]
    if asked and not task.has_centers:
        raise UserError(
            f"{asked[0]} needs a dense head, and {task.name} does not say where in an image its elements are: it takes "
            "images with boxes, points or CLEVR's objects"
        )
    return bool(asked) or (experiment.input.dense and task.has_centers)


def make_loss(loss: LossConfig, task: SetTask, feature_scale: tuple[float, ...] = ()) -> OuterLoss:
    """The outer loss that training minimizes, with the data set's one-hot groups if they are scored as such.

    It sees each feature enlarged by its factor in `feature_scale`, as the decoder does.
    """
    if loss.set == "chamfer" and loss.masks == "filter" and task.variable:
        raise UserError(
            "loss.masks 'filter' with the chamfer loss does not train masks, and the sets here differ in size; "
            "use loss.masks 'feature'"
        )
    for name in ("repr_weight", "mask_weight", "dense"):
        weight = getattr(loss, name) or 0.0
        if not 0 <= weight < float("inf"):
            raise UserError(f"loss.{name} must be 0 or more, got {weight:g}")
    if loss.cross_entropy and not task.groups:
        raise UserError(f"loss.cross_entropy is for categories, and the elements of {task.name} have none")
    cost = PairCost(loss.cost, groups=task.groups if loss.cross_entropy else None)
    masks = loss.masks or "feature"
    set_loss: SetLoss = partial(chamfer_loss, cost=cost, masks=masks)
    if loss.set == "hungarian":
        set_loss = partial(hungarian_loss, cost=cost, masks=masks, mask_weight=loss.mask_weight)
    return OuterLoss(set_loss, loss.set, loss.steps, loss.repr_weight, loss.dense or 0.0, feature_scale)


def make_metrics(task: SetTask, loss: OuterLoss) -> dict[str, Metric]:
    """The set distance that training minimizes, and what the kind of the data set calls for."""
    metrics: dict[str, Metric] = {loss.name: SetDistance(loss.set_loss)}
    if task.kind == "boxes":
        metrics["AP"] = BoxAveragePrecision(groups=task.groups)
    elif task.kind == "states":
        first = min((start for start, _ in task.groups.values()), default=task.features)
        scale = 1.0 if task.scale is None else tuple(task.scale[:first])
        metrics["AP"] = StateAveragePrecision(coordinates=first, scale=scale, groups=task.groups)
    elif task.groups and not task.numbers:
        metrics["exact"] = ExactAccuracy(task.groups)
    if task.variable:
        metrics["size"] = SetSizeAccuracy()
    return metrics


def make_element_metrics(task: SetTask) -> dict[str, Metric]:
    """The errors of matched elements in the data's own units, and COCO's AP for boxes.

    Boxes that are fractions of the image are measured in percent of its sides.
    """
    boxes, numbers = task.kind == "boxes", tuple(task.numbers)
    scale = (100.0,) * task.features if boxes and task.scale is None else task.scale
    position = numbers if not boxes and len(numbers) in (2, 3) else ()
    distances = {"distance": position} if position else {}
    layout = Layout(numbers, task.feature_names, dict(task.groups), scale, distances, boxes)
    metrics: dict[str, Metric] = {"elements": MatchedErrors(layout)}
    return metrics | ({"coco": CocoAveragePrecision(task.groups)} if boxes else {})


def make_optimizer(model: nn.Module, train: TrainConfig, weights_rate: float = 1.0) -> torch.optim.Optimizer:
    """Adam or AdamW over all parameters; training sets the learning rate anew at every step.

    Weights from ImageNet are a group of their own, whose learning rate is multiplied by `weights_rate`.
    """
    assert train.lr is not None
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    encoders = [m for m in model.modules() if isinstance(m, ResNetEncoder) and m.pretrained]
    given = [p for encoder in encoders for part in encoder.body for p in part.parameters()]
    known = {id(p) for p in given}
    groups: list[dict[str, Any]] = [{"params": [p for p in model.parameters() if id(p) not in known], "factor": 1.0}]
    if given:
        groups.append({"params": given, "factor": weights_rate})
    return kinds[train.optimizer](groups, lr=train.lr, weight_decay=train.weight_decay)
