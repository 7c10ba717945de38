"""The only factory: from configurations to the data set, the parts of a model, the loss, metrics and the optimizer."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from setpredict.config import AugmentConfig, DataConfig, EncoderConfig, Experiment, LossConfig, ModelConfig, TrainConfig
from setpredict.core.errors import UserError
from setpredict.data import SetTask, load
from setpredict.data.augment import AugmentedSplit
from setpredict.data.locate import open_path
from setpredict.decoders import DSPN, Decoder, DenseDecoder, LSTMDecoder, MLPDecoder, initial_set
from setpredict.encoders import (
    MLP,
    ConvEncoder,
    DeepSetEncoder,
    DenseHead,
    ElementLayout,
    ImageEncoder,
    RelationEncoder,
    ResNetEncoder,
)
from setpredict.losses import OuterLoss, SetLoss, chamfer_loss, hungarian_loss
from setpredict.matching import PairCost
from setpredict.metrics import BoxAveragePrecision, SetDistance, SetSizeAccuracy, StateAveragePrecision

BOX_SCALE = 5.0
"""Boxes are fractions of the image; unscaled, they weigh little beside masks from 0 to 1."""
MOST_SCALE = 1e4
"""The largest factor of features: float32 must hold their squares."""


def make_task(data: DataConfig) -> SetTask:
    """Load or generate the data set of a configuration."""
    counts = {name: getattr(data, name) for name in ("train", "val", "test") if getattr(data, name) is not None}
    for name, count in counts.items():
        if count < 0:
            raise UserError(f"--data.{name} must be at least 0, got {count}")
    task = _load_task(data, counts)
    by_default = data.name in ("folder", "coco") and task.input_kind == "image"
    if data.augmented or (data.augmented is None and by_default):
        return augment(task, data.augment, data.seed)
    return task


def _load_task(data: DataConfig, counts: dict[str, int]) -> SetTask:
    images: dict[str, Any] = {"target": data.target, "boxes": data.boxes, "size": data.size}
    match data.name:
        case "multisets":
            shape = {"n": data.points, "dim": data.dim, "duplicates": data.duplicates, "variable": data.variable}
            return load("multisets", seed=data.seed, **shape, **counts)
        case "polygons":
            return load("polygons", seed=data.seed, **counts)
        case "scenes":
            objects = {"min_objects": data.min_objects, "max_objects": data.max_objects}
            return load("scenes", seed=data.seed, folder=data.folder, **images, **objects, **counts)
        case "mnist":
            task = load("mnist", folder=data.folder, seed=data.seed)
        case "clevr":
            task = load("clevr", folder=data.folder, seed=data.seed, allow_outside=data.allow_outside, **images)
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
    if not (options.zoom >= 1 and 0 <= options.aspect < 1 and 0 <= options.color < 1):
        raise UserError(f"--data.augment needs zoom from 1, aspect and color from 0 to below 1, got {options}")
    return replace(task, train=AugmentedSplit(task.train, options, task.kind, seed))


def model_config(experiment: Experiment, task: SetTask) -> ModelConfig:
    """The model of an experiment for a data set, which decides sizes and dimensions."""
    kind = task.input_kind
    if kind == "image":
        kind = experiment.input.kind if experiment.input.kind in ("conv", "resnet") else "conv"
    input = replace(experiment.input, kind=kind, size=task.input_size, dense=_wants_dense_head(experiment, task))
    if task.input_kind == "set":
        largest = task.max_input_size or task.max_size
        capacity = input.max_size or largest
        if capacity < largest:
            raise UserError(f"input.max_size must be at least {largest}, as the largest input set, got {capacity}")
        varies = task.variable if task.input_variable is None else task.input_variable
        varies = varies or capacity > largest if input.variable is None else input.variable
        # The output's encoder can take input sets that fit into it, if it has masks where they are padded.
        fits = capacity <= task.max_size if task.variable else capacity == task.max_size and not varies
        input.shared = input.shared and task.auto_encodes and task.input_size == task.features and fits
        if not input.shared:
            input.max_size, input.variable = capacity, varies
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
        factor = BOX_SCALE if task.kind == "boxes" else 1.0
    if not 0 < factor <= MOST_SCALE:
        raise UserError(f"--coordinates must be above 0 and at most {MOST_SCALE:g}, got {factor:g}")
    numbers = set(task.numbers)
    return () if factor == 1 else tuple(factor if i in numbers else 1.0 for i in range(task.features))


def _wants_dense_head(experiment: Experiment, task: SetTask) -> bool:
    """Whether anything needs a dense head; raises where the data cannot train one."""
    wants = {
        "--method dense": experiment.decoder.kind == "dense",
        "--decoder.initial dense": experiment.decoder.kind == "dspn" and experiment.decoder.initial == "dense",
        "--input.warmup": experiment.input.warmup > 0,
        "--loss.dense": experiment.loss.dense > 0,
    }
    asked = [option for option, wanted in wants.items() if wanted]
    if asked and not task.has_centers:
        raise UserError(
            f"{asked[0]} needs a dense head, and {task.name} does not say where in an image its elements are: it takes "
            "images with boxes, points or CLEVR's objects"
        )
    return bool(asked) or (experiment.input.dense and task.has_centers)


def make_parts(config: ModelConfig) -> tuple[nn.Module, nn.Module]:
    """The input encoder and the decoder of a model, with new weights from torch's global seed."""
    for name in ("latent", "max_size", "features"):
        if getattr(config, name) < 1:
            raise UserError(f"{name} must be at least 1, got {getattr(config, name)}")
    decoder = _decoder(config)
    if not isinstance(decoder, Decoder):
        missing = [n for n in ("steps", "needs", "set_encoder", "target_loss") if not hasattr(decoder, n)]
        raise UserError(f"the decoder {type(decoder).__name__} is not a Decoder: it has no {' and no '.join(missing)}")
    offered = ("vector", "proposals") if config.input.dense else ("vector",)
    needs = (decoder.needs,) if isinstance(decoder.needs, str) else decoder.needs
    missing = [part for part in needs if part not in offered]
    if missing:
        name, has = type(decoder).__name__, " and ".join(offered)
        raise UserError(f"the decoder {name} needs {missing[0]}, but the input encoder offers {has}")
    return _input_encoder(config, decoder), decoder


def _decoder(c: ModelConfig) -> nn.Module:
    d = c.decoder
    if ":" in d.kind:
        return own_class(d.kind, "decoder")(c.latent, c.max_size, c.features, c.variable)
    shape: dict[str, Any] = {"max_size": c.max_size, "features": c.features}
    match d.kind:
        case "mlp":
            return MLPDecoder(c.latent, **shape, hidden=d.hidden, variable=c.variable, mask_bias=d.mask_bias)
        case "dense":
            return DenseDecoder()
        case "lstm" if not d.hidden:
            raise UserError("decoder.hidden must have the width of the lstm, got ()")
        case "lstm":
            return LSTMDecoder(c.latent, **shape, hidden=d.hidden[0], variable=c.variable, mask_bias=d.mask_bias)
        case "dspn" if c.encoder.mask == "filter":
            raise UserError("encoder.mask 'filter' has no gradient for DSPN's soft masks; use 'feature' or 'weight'")
        case "dspn":
            mask = d.mask if c.variable else "none"
            encoder = _set_encoder(c, c.features, c.max_size, c.variable)
            options = {"scale": d.initial_scale, "hidden": d.hidden, "mask_bias": d.mask_bias}
            return DSPN(
                encoder,
                **shape,
                initial=initial_set(d.initial, **shape, mask=mask, latent=c.latent, **options),
                solver=d.solver,
                gradient=d.gradient,
                loss=d.loss,
                mask=mask,
                learned_steps=d.step_scale == "learned",
                project=unit_box(c.feature_scale) if d.project == "unit" else None,
                recompute=d.recompute,
            )
    raise UserError(f"decoder.kind must be dspn, mlp, lstm, dense or module:Class, got {d.kind!r}")


def _input_encoder(c: ModelConfig, decoder: Decoder) -> nn.Module:
    match c.input.kind:
        case "vector":
            return MLP(c.input.size, c.input.hidden, c.latent)
        case "conv" | "resnet":
            return _image_encoder(c)
    if c.input.shared and c.input.size != c.features:
        raise UserError(
            f"input.shared encodes the input with the output's set encoder, but input elements have {c.input.size} "
            f"features and output elements {c.features}; set input.shared to false"
        )
    if c.input.shared and decoder.set_encoder is not None:
        if c.input.variable and not c.variable:
            raise UserError(
                "input.shared encodes the input with the output's set encoder, which takes sets of one fixed size, but "
                "input.variable is true; set input.shared to false"
            )
        return decoder.set_encoder
    variable = c.variable if c.input.variable is None else c.input.variable
    return _set_encoder(c, c.input.size, c.input.max_size or c.max_size, variable)


def _image_encoder(c: ModelConfig) -> ImageEncoder:
    i = c.input
    if i.kind == "conv":
        backbone = ConvEncoder(c.latent, i.size, i.widths, i.stride)
    else:
        backbone = ResNetEncoder(c.latent, i.size, i.depth, i.width, i.tail, i.stem, i.stride)
    if not i.dense:
        return ImageEncoder(backbone)
    place = {"boxes": "box", "points": "point"}.get(c.elements, "none")
    groups = tuple((first, end) for first, end in c.groups.values())
    head = DenseHead(backbone.map_channels, ElementLayout(c.features, place, groups))  # pyright: ignore[reportArgumentType]
    return ImageEncoder(backbone, head, c.max_size)


def _set_encoder(c: ModelConfig, features: int, max_size: int, variable: bool) -> nn.Module:
    e = c.encoder
    if ":" in e.kind:
        return own_class(e.kind, "encoder")(features, c.latent, max_size)
    kinds = {"mlp": DeepSetEncoder, "relation": RelationEncoder}
    if e.kind not in kinds:
        raise UserError(f"encoder.kind must be mlp, relation or module:Class, got {e.kind!r}")
    options = {f: getattr(e, f) for f in EncoderConfig.__dataclass_fields__ if f not in ("kind", "mask")}
    return kinds[e.kind](features, c.latent, max_size, mask=e.mask if variable else "none", **options)


def own_class(name: str, what: str) -> type[nn.Module]:
    """The user's class "package.module:Class" of an encoder or decoder."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as e:
        raise UserError(f"{what} {name!r} cannot be imported: {e}") from e
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise UserError(f"{what} {name!r} must be an nn.Module class, got {found!r}")
    return found


def unit_box(scale: Sequence[float]) -> Callable[[Tensor], Tensor]:
    """Clamp every feature to [0, 1], in the decoder's units."""
    return lambda elements: elements.clamp(min=0).minimum(elements.new_tensor(scale or 1.0))


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
        weight = getattr(loss, name)
        if not 0 <= weight < float("inf"):
            raise UserError(f"loss.{name} must be 0 or more, got {weight:g}")
    if loss.cross_entropy and not task.groups:
        raise UserError(f"loss.cross_entropy is for categories, and the elements of {task.name} have none")
    cost = PairCost(loss.cost, groups=task.groups if loss.cross_entropy else None)
    set_loss: SetLoss = partial(chamfer_loss, cost=cost, masks=loss.masks)
    if loss.set == "hungarian":
        set_loss = partial(hungarian_loss, cost=cost, masks=loss.masks, mask_weight=loss.mask_weight)
    return OuterLoss(set_loss, loss.set, loss.steps, loss.repr_weight, loss.dense, feature_scale)


def make_metrics(task: SetTask, loss: OuterLoss) -> dict[str, Metric]:
    """The set distance that training minimizes, and what the kind of the data set calls for."""
    metrics: dict[str, Metric] = {loss.name: SetDistance(loss.set_loss)}
    if task.kind == "boxes":
        metrics["AP"] = BoxAveragePrecision(groups=task.groups)
    elif task.kind == "states":
        first = min((start for start, _ in task.groups.values()), default=task.features)
        scale = 1.0 if task.scale is None else tuple(task.scale[:first])
        metrics["AP"] = StateAveragePrecision(coordinates=first, scale=scale, groups=task.groups)
    if task.variable:
        metrics["size"] = SetSizeAccuracy()
    return metrics


def make_optimizer(model: nn.Module, train: TrainConfig) -> torch.optim.Optimizer:
    """Adam or AdamW over all parameters; training sets the learning rate anew at every step."""
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    return kinds[train.optimizer](model.parameters(), lr=train.lr, weight_decay=train.weight_decay)
