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
    LossConfig,
    TrainConfig,
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
from setpredict.presets import OWN


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
            raise UserError(
                "this run was trained on data in memory, which is not stored with it: in Python, "
                "pass it to fit(…, resume=True) or to evaluate(run, task)"
            )
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
