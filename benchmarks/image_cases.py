"""Cases with images: ours in `channels_last` with the fast inner step, and the plain implementation."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import inputs
from benchmarks.case import Case, Workload, difference, gradients
from benchmarks.machine import decoding_flops, training_flops
from setpredict.config import GradientDescent, Implicit
from setpredict.decoders import DSPN
from setpredict.encoders import ConvEncoder, DeepSetEncoder, RelationEncoder, ResNetEncoder
from setpredict.encoders.images.dense import DenseHead, ElementLayout
from setpredict.encoders.images.encoder import ImageEncoder
from setpredict.losses import outer_loss
from setpredict.model import SetPredictor
from setpredict.sets import Sets
from setpredict.training.optimizer import update_average

IDSPN: dict[str, Any] = {
    "initial": "random",
    "solver": GradientDescent(20, 1.0, momentum=0.9, nesterov=True, clip_norm=10.0),
    "gradient": Implicit(),
    "loss": "squared",
    "mask": "free",
}


class Trained:
    """A model with its optimizer and moving average, in the way of the small image presets."""

    def __init__(self, model: SetPredictor, images: Tensor, target: Sets, centers: Tensor, steps: Any):
        self.model, self.average = model, copy.deepcopy(model)
        self.images, self.target, self.centers, self.steps = images, target, centers, steps
        self.optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        self.keys = torch.arange(len(images))

    def loss(self) -> Tensor:
        prediction = self.model(self.images, self.target, keys=self.keys, centers=self.centers)
        assert prediction.dense_loss is not None
        return outer_loss(prediction, self.target, "hungarian", steps=self.steps)["loss"] + prediction.dense_loss.mean()

    def step(self) -> None:
        self.loss().backward()
        clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        update_average(self.average, self.model, 0.999, 1000)


def image_step_small(batch: int = 32) -> Case:
    """A complete training step of the small preset on 64-pixel scenes: encoder, decoder, losses, optimizer, average.

    The plain side is the same model with convolutions in the contiguous format and the generic inner step.
    """
    torch.manual_seed(0)
    target, images, centers = inputs.scenes(batch, size=6), torch.rand(batch, 3, 64, 64), torch.rand(batch, 6, 3)
    dspn = DSPN(RelationEncoder(18, 256, 6, hidden=(128,)))
    idspn = DSPN(DeepSetEncoder(18, 256, 6, hidden=(256,), pool="fspool-free", normalize=False), **IDSPN)
    sides: dict[str, tuple[Trained, Trained]] = {}
    for name, decoder, steps in (("dspn", dspn, "all"), ("idspn", idspn, "last")):
        head = DenseHead(96, ElementLayout(18))
        ours = SetPredictor(ImageEncoder(ConvEncoder(256, 64), head, 6), decoder)
        plain = plain_copy(ours)
        sides[name] = Trained(plain, images, target, centers, steps), Trained(ours, images, target, centers, steps)

    def check() -> float:
        return max(
            difference(*(gradients(side.loss(), side.model.input_encoder) for side in (ours, plain)))
            for plain, ours in sides.values()
        )

    workloads: dict[str, Workload] = {}
    for name, (plain, ours) in sides.items():
        workloads |= {f"image_{name}_plain": plain.step, f"image_{name}": ours.step}
    ratios = {
        "image_step_small": ("image_dspn_plain", "image_dspn"),
        "image_step_small_idspn": ("image_idspn_plain", "image_idspn"),
    }
    convolutions, network = convolution_flops(sides["dspn"][1].model.input_encoder, images), [19, 256, 256]
    flops = {
        "image_dspn": convolutions + training_flops(batch, 10, 36, [128, 256], encode=False),
        "image_idspn": convolutions
        + decoding_flops(batch, 20, 6, network)
        + training_flops(batch, 1, 6, network, encode=False),  # the implicit gradient: that of one step
    }
    return Case(workloads, ratios, check, flops=flops, threads=1)


def image_encoder_step(batch: int = 32) -> Case:
    """The small image encoder at 128 × 128 pixels, forward and backward, in both memory formats."""
    return _formats("image_encoder_step", ImageEncoder(ConvEncoder(256, 128)), 128, batch, rounds=5)


def resnet34_step(batch: int = 32) -> Case:
    """A training step with ResNet34 at 128 × 128 pixels and DSPN, in both memory formats."""
    decoder, encoder = DSPN(RelationEncoder(18, 512, 10, hidden=(512,))), ImageEncoder(ResNetEncoder(512, 128))
    case = _formats("resnet34_step", encoder, 128, batch, rounds=2, decoder=decoder)
    convolutions = convolution_flops(encoder, torch.rand(batch, 3, 128, 128))
    case.flops = {"resnet34_step": convolutions + training_flops(batch, 10, 100, [512, 512], encode=False)}
    return case


def _formats(
    key: str, ours: ImageEncoder, size: int, batch: int, rounds: int, decoder: nn.Module | None = None
) -> Case:
    """The same weights in `channels_last` and in the contiguous format."""
    torch.manual_seed(0)
    target, images = inputs.scenes(batch), torch.rand(batch, 3, size, size)
    plain = contiguous(copy.deepcopy(ours))

    def loss(encoder: ImageEncoder, decoder: nn.Module | None, images: Tensor, target: Sets) -> Tensor:
        code = encoder(images)
        if decoder is None:
            return code.vector.square().mean()
        return outer_loss(decoder(code), target, "hungarian")["loss"]

    def check() -> float:
        """On two images in float64: rounding errors of so many layers with batch norms are large in float32."""
        given = copy.deepcopy(decoder).double() if decoder else None, images[:2].double(), target[:2].to(torch.float64)
        sides = [copy.deepcopy(encoder).double() for encoder in (ours, plain)]
        return difference(*(gradients(loss(encoder, *given), encoder) for encoder in sides))

    workloads: dict[str, Workload] = {
        f"{key}_plain": lambda: loss(plain, decoder, images, target).backward(),
        key: lambda: loss(ours, decoder, images, target).backward(),
    }
    return Case(workloads, {key: (f"{key}_plain", key)}, check, rounds, tolerance=1e-6)


def convolution_flops(encoder: nn.Module, images: Tensor) -> float:
    """FLOPs of the image encoder, forward and backward, counted on two images."""
    with FlopCounterMode(display=False) as counter:
        copy.deepcopy(encoder)(images[:2]).vector.sum().backward()
    return counter.get_total_flops() * len(images) / 2


def plain_copy(model: SetPredictor) -> SetPredictor:
    """A copy with convolutions in the contiguous format and without the hand-derived step."""
    plain = copy.deepcopy(model)
    assert isinstance(plain.input_encoder, ImageEncoder)
    assert isinstance(plain.decoder, DSPN)
    contiguous(plain.input_encoder)
    plain.decoder.fast = False
    return plain


def contiguous(encoder: ImageEncoder) -> ImageEncoder:
    """The encoder itself, with weights and images in torch's default memory format."""
    encoder.layout = torch.contiguous_format
    return encoder.to(memory_format=torch.contiguous_format)  # pyright: ignore[reportCallIssue]
