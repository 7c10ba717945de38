"""The cases: the plain implementation and ours on the same weights and data, with a check that both agree."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import baseline, inputs
from benchmarks.case import Case, Workload, difference, gradients
from benchmarks.image_cases import image_encoder_step, image_step_small, resnet34_step
from benchmarks.machine import decoding_flops, training_flops
from setpredict.config import LastSteps
from setpredict.data.clevr.states import COORDINATE_SCALE, GROUPS
from setpredict.decoders import DSPN, MLPDecoder
from setpredict.encoders import DeepSetEncoder, RelationEncoder, ResNetEncoder
from setpredict.losses import chamfer_loss, hungarian_loss, outer_loss
from setpredict.metrics import state_average_precision
from setpredict.metrics.average_precision import STATE_THRESHOLDS
from setpredict.sets import Sets

K1: dict[str, Any] = {"initial": "fixed", "gradient": LastSteps(1)}
"""DSPN that differentiates its last step only, for which a learned initial set would get no gradient."""


def features_first(sets: Sets) -> Tensor:
    """The layout of the plain implementation, masks as the last feature."""
    return sets.features_with_mask.transpose(1, 2).contiguous()  # (B, C, N)


def mnist(batch: int = 32) -> Case:
    """The MNIST auto-encoder: training unrolled with Chamfer over all steps, by the last step only, and decoding."""
    torch.manual_seed(0)
    target = inputs.digits(batch)
    encoder = DeepSetEncoder(2, 64, 342)
    full, last = DSPN(encoder), DSPN(encoder, **K1)
    last.initial.load_state_dict(full.initial.state_dict())
    plain = baseline.PlainDSPN(baseline.PlainDeepSets(2, 64), 342, 2)
    copy_decoder(full, plain)
    longer = copy.deepcopy(plain)
    longer.steps = 20
    target_plain = features_first(target)

    def plain_step() -> Tensor:
        sets, masks = plain(plain.encoder(target_plain[:, :2], target_plain[:, 2]))
        return baseline.chamfer(stacked(sets, masks), target_plain)

    def full_step() -> Tensor:
        return outer_loss(full(encoder(target.elements, target.mask)), target, "chamfer")["loss"]

    def last_step() -> Tensor:
        return outer_loss(last(encoder(target.elements, target.mask)), target, "chamfer", steps="last")["loss"]

    with torch.no_grad():
        z = encoder(target.elements, target.mask)
    sizes, T = [3, 256, 256, 64], 10

    def check() -> float:
        ours, theirs = gradients(full_step(), encoder.network), gradients(plain_step(), plain.encoder.network)
        with torch.no_grad():
            decoded, later = (stacked(*decoder(z))[-1].transpose(1, 2) for decoder in (plain, longer))
            finals = [d(z).final.features_with_mask for d in (full, last)]
            finals.append(full(z, steps=20).final.features_with_mask)
        return difference([*ours, *finals], [*theirs, decoded, decoded, later])

    return Case(
        workloads={
            "mnist_plain": lambda: plain_step().backward(),
            "mnist_full": lambda: full_step().backward(),
            "mnist_k1": lambda: last_step().backward(),
            "mnist_decode_plain": lambda: _without_gradients(plain, z),
            "mnist_decode": lambda: _without_gradients(full, z),
            "mnist_evaluate_plain": lambda: [_without_gradients(decoder, z) for decoder in (plain, longer)],
            "mnist_evaluate": lambda: _without_gradients(full, z, steps=20),
        },
        ratios={
            "mnist_train_full": ("mnist_plain", "mnist_full"),
            "mnist_train_k1": ("mnist_plain", "mnist_k1"),
            "mnist_decode": ("mnist_decode_plain", "mnist_decode"),
            "mnist_evaluate": ("mnist_evaluate_plain", "mnist_evaluate"),
        },
        check=check,
        flops={
            "mnist_full": training_flops(batch, T, 342, sizes, encode=True),
            "mnist_decode": decoding_flops(batch, T, 342, sizes),
        },
    )


def clevr_decoder(batch: int = 32) -> Case:
    """Decoding CLEVR states with the relation network and the Hungarian loss over all steps, from a given vector."""
    case = _relation_decoder("clevr", "clevr_decoder", inputs.scenes(batch), 512)
    case.flops = {"clevr_full": training_flops(batch, 10, 100, [512, 512], encode=False)}
    return case


def small_set(batch: int = 32) -> Case:
    """The same for at most 6 objects and 128 hidden units, as in image presets, and decoding; on one thread."""
    case = _relation_decoder("small_set", "small_set", inputs.scenes(batch, size=6), 128)
    case.rounds, case.threads = 20, 1
    case.flops = {
        "small_set_full": training_flops(batch, 10, 36, [128, 128], encode=False),
        "small_set_decode": decoding_flops(batch, 10, 36, [128, 128]),
    }
    return case


def _relation_decoder(name: str, key: str, target: Sets, latent: int) -> Case:
    """Training steps unrolled and by the last step only, and decoding without gradients."""
    torch.manual_seed(0)
    N, D = target.elements.shape[1:]
    encoder = RelationEncoder(D, latent, N, hidden=(latent,))
    full, last = DSPN(encoder), DSPN(encoder, **K1)
    last.initial.load_state_dict(full.initial.state_dict())
    plain = baseline.PlainDSPN(baseline.PlainRelation(D, latent, latent), N, D)
    copy_decoder(full, plain)
    target_plain = features_first(target)
    with torch.no_grad():
        z = encoder(target.elements, target.mask)
    z.requires_grad_()

    def plain_step() -> Tensor:
        return baseline.hungarian(stacked(*plain(z)), target_plain)

    def full_step() -> Tensor:
        return outer_loss(full(z), target, "hungarian")["loss"]

    def last_step() -> Tensor:
        return outer_loss(last(z), target, "hungarian", steps="last")["loss"]

    def check() -> float:
        ours, theirs = gradients(full_step(), encoder.network), gradients(plain_step(), plain.encoder.network)
        with torch.no_grad():
            decoded = stacked(*plain(z.detach()))[-1].transpose(1, 2)
            finals = [d(z).final.features_with_mask for d in (full, last)]
        return difference([*ours, *finals], [*theirs, decoded, decoded])

    return Case(
        workloads={
            f"{name}_plain": lambda: plain_step().backward(),
            f"{name}_full": lambda: full_step().backward(),
            f"{name}_k1": lambda: last_step().backward(),
            f"{name}_decode_plain": lambda: _without_gradients(plain, z.detach()),
            f"{name}_decode": lambda: _without_gradients(full, z.detach()),
        },
        ratios={
            f"{key}_train_full": (f"{name}_plain", f"{name}_full"),
            f"{key}_train_k1": (f"{name}_plain", f"{name}_k1"),
            f"{key}_decode": (f"{name}_decode_plain", f"{name}_decode"),
        },
        check=check,
    )


def chamfer(batch: int = 32) -> Case:
    """11 × 32 pairs of sets of 342 points, forward and backward."""
    return _set_loss("chamfer", chamfer_loss, baseline.chamfer, inputs.digits(batch), 342, 2)


def hungarian(batch: int = 32) -> Case:
    """11 × 32 pairs of sets of 10 objects, forward and backward."""
    return _set_loss("hungarian", hungarian_loss, baseline.hungarian, inputs.scenes(batch), 10, 18)


def _set_loss(name: str, ours, plain, target: Sets, N: int, D: int) -> Case:
    torch.manual_seed(0)
    B = len(target)
    predicted = torch.rand(11, B, N, D + 1).requires_grad_()
    repeated = Sets(target.elements.repeat(11, 1, 1), target.mask.repeat(11, 1))
    target_plain = features_first(target)

    def our_loss() -> Tensor:
        flat = predicted.flatten(0, 1)
        return ours(Sets(flat[..., :-1], flat[..., -1]), repeated).mean()

    def plain_loss() -> Tensor:
        return plain(predicted.transpose(2, 3), target_plain)

    def check() -> float:
        sides = [[loss.detach(), *torch.autograd.grad(loss, [predicted])] for loss in (our_loss(), plain_loss())]
        return difference(*sides)

    workloads: dict[str, Workload] = {
        f"{name}_plain": lambda: plain_loss().backward(),
        name: lambda: our_loss().backward(),
    }
    return Case(workloads, {name: (f"{name}_plain", name)}, check, rounds=8 if name == "chamfer" else 30)


def average_precision(images: int = 15_000) -> Case:
    """15,000 images of 10 objects at six distances."""
    target = inputs.scenes(images)
    generator = torch.Generator().manual_seed(1)
    states = target.elements + 0.15 * torch.randn(target.elements.shape, generator=generator)
    scores = torch.rand(target.mask.shape, generator=generator).clamp(0.05, 0.95)  # with ties
    protocol: Any = {"coordinates": 3, "scale": COORDINATE_SCALE, "groups": GROUPS}
    arrays: Any = [t.numpy() for t in (states, scores, target.elements, target.mask)]

    def ours() -> Tensor:
        return state_average_precision(states, scores, target.elements, target.mask, **protocol)

    def plain() -> list[float]:
        states, scores, targets, present = arrays
        return baseline.average_precision(states, scores, targets, present, STATE_THRESHOLDS, list(GROUPS.values()))

    return Case(
        {"average_precision_plain": plain, "average_precision": ours},
        {"average_precision": ("average_precision_plain", "average_precision")},
        check=lambda: difference([ours()], [torch.tensor(plain(), dtype=torch.float64)]),
        rounds=1,
        tolerance=1e-9,
    )


def clevr_overhead(batch: int = 32) -> Case:
    """A complete training step with ResNet34 at 128 × 128 pixels: DSPN ÷ the MLP decoder, both ours."""
    torch.manual_seed(0)
    target = inputs.scenes(batch)
    images = torch.rand(batch, 3, 128, 128)
    network = ResNetEncoder(512, 128)
    dspn = DSPN(RelationEncoder(18, 512, 10, hidden=(512,)))
    mlp = MLPDecoder(512, 10, 18, hidden=(512, 512))

    def step(decoder: DSPN | MLPDecoder) -> None:
        z = network(images)
        prediction = decoder(z)
        if isinstance(decoder, DSPN):
            prediction.target_loss = decoder.target_loss(target, z)
        outer_loss(prediction, target, "hungarian")["loss"].backward()

    workloads: dict[str, Workload] = {"clevr_step_dspn": lambda: step(dspn), "clevr_step_mlp": lambda: step(mlp)}
    ratios = {"clevr_overhead": ("clevr_step_dspn", "clevr_step_mlp")}
    return Case(workloads, ratios, check=lambda: 0.0, rounds=3)


CASES: dict[str, Callable[[], Case]] = {
    "chamfer": chamfer,
    "hungarian": hungarian,
    "mnist": mnist,
    "clevr_decoder": clevr_decoder,
    "small_set": small_set,
    "image_step_small": image_step_small,
    "image_encoder_step": image_encoder_step,
    "average_precision": average_precision,
    "resnet34_step": resnet34_step,
    "clevr_overhead": clevr_overhead,
}


def copy_decoder(ours: DSPN, plain: baseline.PlainDSPN, reverse: bool = False) -> None:
    """Copy our decoder's weights to the plain one, or with `reverse` the plain one's to ours."""
    baseline.copy_encoder(ours.encoder, plain.encoder, reverse)  # pyright: ignore[reportArgumentType]
    values: Any = ours.initial.values
    with torch.no_grad():
        for a, b in ((values[:, :-1], plain.start.T), (values[:, -1], plain.start_mask)):
            a.copy_(b) if reverse else b.copy_(a)


def stacked(sets: list[Tensor], masks: list[Tensor]) -> Tensor:
    """The trajectory of the plain decoder as one tensor, masks as the last feature."""
    return torch.cat([torch.stack(sets), torch.stack(masks)[:, :, None]], dim=2)  # (T+1, B, C, N)


@torch.no_grad()
def _without_gradients(decoder: nn.Module, z: Tensor, **options: Any) -> object:
    return decoder(z, **options)
