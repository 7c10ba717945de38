"""DSPN: the paper's properties, its numbers, every variant, and the errors that users meet."""

import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from setpredict import (
    DSPN,
    Code,
    DeepSetEncoder,
    GradientDescent,
    Implicit,
    LastSteps,
    NotFinite,
    RelationEncoder,
    Sets,
    hungarian_loss,
    outer_loss,
)
from setpredict.core.errors import UserError
from setpredict.decoders import RandomSet, initial_set
from setpredict.encoders.pooling import Pooling

SOLVER = [f.name for f in fields(GradientDescent)]

IDSPN = {
    "steps": 6,
    "step_size": 1.0,
    "loss": "squared",
    "momentum": 0.9,
    "nesterov": True,
    "clip_norm": 10.0,
    "mask": "free",
    "initial": "random",
    "gradient": Implicit(),
}


def make(encoder=DeepSetEncoder, *, N=5, D=2, L=8, seed=0, hidden=(16,), pool: Pooling = "fspool", **options) -> DSPN:
    torch.manual_seed(seed)
    mask = "none" if options.get("mask") == "none" else options.pop("mask_role", "feature")
    built = encoder(D, L, N, hidden=hidden, pool=pool, mask=mask)
    solver = GradientDescent(**{"steps": 4, **{k: options.pop(k) for k in SOLVER if k in options}})
    if options.get("initial") == "predicted":
        options["initial"] = initial_set("predicted", N, D, options.get("mask", "clamp"), latent=L, hidden=(4,))
    return DSPN(built, N, D, solver=solver, **options).double()


def close(got: torch.Tensor, expected: torch.Tensor, what: str, atol: float = 1e-10) -> None:
    torch.testing.assert_close(got, expected, atol=atol, rtol=0, msg=lambda m: f"{what}: {m}")


def vectors(B=3, L=8, seed=1) -> torch.Tensor:
    return torch.randn(B, L, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


VARIANTS = [
    {},
    {"mask": "none"},
    {"mask": "sigmoid"},
    {"mask_role": "weight"},
    {"loss": "squared", "momentum": 0.5},
    {"momentum": 0.8, "nesterov": True, "clip_norm": 0.01},
    {"initial": "random"},
    {"initial": "predicted"},
    {"initial": "fixed", "penalty": 0.01},
    {"project": lambda e: e.clamp(0, 1)},
    {"stop_below": 0.1},
    {"initial": "fixed", "gradient": LastSteps(2)},
    IDSPN,
    {**IDSPN, "pool": "fspool-free"},
    {"encoder": RelationEncoder, "step_size": 100.0},
    {"encoder": RelationEncoder, "pool": "max", "mask": "none"},
]


def start_for(decoder: DSPN, B: int, seed: int = 5) -> Sets:
    generator = torch.Generator().manual_seed(seed)
    shape = (B, decoder.max_size, decoder.features)
    elements = torch.rand(shape, generator=generator, dtype=torch.float64)
    return Sets(elements, torch.rand(shape[:2], generator=generator, dtype=torch.float64))


@pytest.mark.parametrize("options", VARIANTS)
def test_permuting_the_start_permutes_every_step(options):
    decoder, z = make(**options), vectors()
    start, order = start_for(decoder, 3), torch.randperm(5, generator=torch.Generator().manual_seed(2))
    straight = decoder(z, start=start)
    moved = decoder(z, start=start.permute(order))
    close(moved.elements, straight.elements[:, :, order], "elements")
    close(moved.mask, straight.mask[:, :, order], "mask")
    close(moved.repr_loss, straight.repr_loss, "repr_loss")


@pytest.mark.parametrize("options", VARIANTS)
def test_a_batch_is_its_samples_alone(options):
    decoder, z = make(**options).eval(), vectors(4)
    together = decoder(z)
    for i in range(4):
        alone = decoder(z[i : i + 1])
        close(alone.elements[:, 0], together.elements[:, i], f"elements of sample {i}", atol=1e-12)
        close(alone.mask[:, 0], together.mask[:, i], f"mask of sample {i}", atol=1e-12)


@pytest.mark.parametrize("training", [True, False])
def test_random_starts_belong_to_their_sample(training):
    decoder, z, keys = make(initial="random").train(training), vectors(4), torch.tensor([5, 6, 7, 5])
    together = decoder(z, keys=keys)
    order = torch.tensor([2, 0])
    alone = decoder(z[order], keys=keys[order])
    close(alone.elements, together.elements[:, order], "elements", atol=1e-12)
    assert torch.equal(together.elements[0, 0], together.elements[0, 3])
    assert not torch.equal(together.elements[0, 0], together.elements[0, 1])


def test_without_keys_training_draws_and_evaluation_does_not():
    decoder, z = make(initial="random"), vectors(2)
    a, b = decoder(z).elements[0], decoder(z).elements[0]
    assert not torch.equal(a, b)
    assert not torch.equal(a[0], a[1])
    decoder.eval()
    a = decoder(z).elements[0]
    assert torch.equal(a, decoder(z).elements[0])
    assert torch.equal(a[0], a[1])


def test_evaluation_of_a_random_initial_set_is_saved_with_the_weights():
    one, two = (RandomSet(5, 2, None, draw_mask=True, seed=seed) for seed in (0, 1))
    assert not torch.equal(one.evaluation, two.evaluation)
    two.load_state_dict(one.state_dict())
    code = Code(torch.zeros(2, 4))
    assert torch.equal(one.eval()(code), two.eval()(code))


def test_version_1_drew_its_evaluation_set_from_this_formula():
    """The mixing function of 0.1.0, in Python's own integers."""

    def mix(x: int) -> int:
        for shift, factor in ((30, 0x3F58476D1CE4E5B9), (27, 0x14D049BB133111EB)):
            x = (x ^ (x >> shift)) * factor % 2**64
        return x ^ (x >> 31)

    bits = [mix(i * 0x1E3779B97F4A7C15 % 2**64) for i in range(12)]
    u, v = np.array([b >> 11 for b in bits]).reshape(2, 6) / 2**53
    normal = np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v)
    got = RandomSet(2, 2, None, draw_mask=True, scale=0.5).version_1()
    torch.testing.assert_close(got, torch.from_numpy(0.5 * normal).view(2, 3).float())


def test_the_mnist_model_has_the_published_number_of_parameters():
    decoder = DSPN(DeepSetEncoder(2, 64, 342), 342, 2)
    assert sum(p.numel() for p in decoder.parameters()) == 85_634


def test_step_size_25_summed_is_800_averaged_over_32():
    """One step of the authors' release: the loss averaged over batch and latent, by plain autograd."""
    decoder, z = make(N=10, L=16, steps=1), vectors(32, 16)
    y = decoder.initial(Code(z)).detach().clone().requires_grad_()
    code = decoder.encoder(y[..., :-1], y[..., -1].clamp(0, 1))
    (gradient,) = torch.autograd.grad(nn.functional.smooth_l1_loss(code, z), y)
    stepped = y - 800 * gradient
    got = decoder(z)
    torch.testing.assert_close(got.elements[1], stepped[..., :-1])
    torch.testing.assert_close(got.mask[1], stepped[..., -1].clamp(0, 1))


def plain_dspn(decoder: DSPN, z: torch.Tensor) -> list[torch.Tensor]:
    """Algorithm 1 written the plain way: autograd.grad with create_graph in a loop."""
    y = decoder.initial(Code(z))
    y = torch.cat([y[..., :-1], y[..., -1:].clamp(0, 1)], -1)
    sets = [y]
    for _ in range(decoder.steps):
        loss = nn.functional.smooth_l1_loss(decoder.encoder(y[..., :-1], y[..., -1]), z, reduction="none")
        (gradient,) = torch.autograd.grad(loss.mean(1).sum(), y, create_graph=True)
        y = y - decoder.solver.step_size * gradient
        y = torch.cat([y[..., :-1], y[..., -1:].clamp(0, 1)], -1)
        sets.append(y)
    return sets


@pytest.mark.parametrize("encoder", [DeepSetEncoder, RelationEncoder])
def test_values_and_gradients_are_those_of_the_plain_algorithm(encoder):
    decoder, target = make(encoder, step_size=5.0), start_for(make(), 3, seed=9)
    z = vectors().requires_grad_()
    ours = outer_loss(decoder(z), target)["loss"]
    got = torch.autograd.grad(ours, [z, *decoder.parameters()])
    sets = plain_dspn(decoder, z)
    plain = torch.stack([hungarian_loss(Sets(y[..., :-1], y[..., -1]), target).mean() for y in sets]).mean()
    expected = torch.autograd.grad(plain, [z, *decoder.parameters()])
    torch.testing.assert_close(ours, plain)
    names = ["z", *(name for name, _ in decoder.named_parameters())]
    for name, a, b in zip(names, got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-12, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.5, "clip_norm": 0.05},
        {"momentum": 0.5, "nesterov": True, "mask": "sigmoid"},
        {"mask": "none", "loss": "squared", "penalty": 0.1},
        {"initial": "predicted"},
    ],
)
def test_gradients_through_the_loop_match_finite_differences(options):
    decoder = make(N=3, L=4, hidden=(5,), steps=2, step_size=1.0, **options)
    parameters = dict(decoder.named_parameters())
    names = list(parameters)

    def run(z, *values):
        out = torch.func.functional_call(decoder, dict(zip(names, values)), (z,))
        return out.elements, out.mask

    values = [p.detach().requires_grad_() for p in parameters.values()]
    assert torch.autograd.gradcheck(run, (vectors(2, 4).requires_grad_(), *values), eps=1e-6, atol=1e-6)


def test_last_step_derivative_by_hand():
    """k = 1: YT = Yc − η ∂L/∂Y(Yc; z, g), with Yc, the set before, a constant."""
    decoder = make(initial="fixed", gradient=LastSteps(1), steps=3)
    z = vectors().requires_grad_()
    prediction = decoder(z)
    weight = torch.randn(prediction.elements[-1].shape, generator=torch.Generator().manual_seed(4)).double()
    got = torch.autograd.grad((prediction.elements[-1] * weight).sum(), [z, *decoder.encoder.parameters()])
    before = torch.cat([prediction.elements[-2], prediction.mask[-2, ..., None]], -1).detach().requires_grad_()
    loss = nn.functional.smooth_l1_loss(decoder.encoder(before[..., :-1], before[..., -1]), z, reduction="none")
    (gradient,) = torch.autograd.grad(loss.mean(1).sum(), before, create_graph=True)
    last = (before.detach() - 25 * gradient)[..., :-1]
    expected = torch.autograd.grad((last * weight).sum(), [z, *decoder.encoder.parameters()])
    names = ["z", *(name for name, _ in decoder.encoder.named_parameters())]
    for name, a, b in zip(names, got, expected, strict=True):
        torch.testing.assert_close(a, b, msg=lambda m, name=name: f"{name}: {m}")
    assert prediction.grad_from == 3


@given(seed=st.integers(0, 99), steps=st.integers(0, 5))
def test_clamped_masks_stay_between_0_and_1(seed, steps):
    decoder = make(seed=seed, step_size=1000.0)
    prediction = decoder(vectors(seed=seed), steps=steps)
    assert prediction.steps == steps
    assert prediction.mask.min() >= 0
    assert prediction.mask.max() <= 1


def test_steps_can_differ_per_call():
    decoder, z = make(), vectors()
    few, many = decoder(z, steps=2), decoder(z, steps=7)
    torch.testing.assert_close(few.elements, many.elements[:3])
    assert decoder(z, steps=0).final.elements.shape == (3, 5, 2)


def test_fixed_sizes_have_full_masks():
    prediction = make(mask="none")(vectors())
    assert prediction.mask.eq(1).all()
    assert prediction.final.sizes.tolist() == [5, 5, 5]


def test_stopping_reports_the_steps_taken():
    decoder, z = make(step_size=1.0, momentum=0.5, steps=60), vectors()
    whole = decoder(z)
    threshold = float(whole.repr_loss[10].median())  # pyright: ignore
    assert whole.steps_taken is None
    stopped = decoder(z, solver=replace(decoder.solver, stop_below=threshold))
    for i in range(3):
        taken = int(stopped.steps_taken[i])  # pyright: ignore
        assert torch.equal(stopped.elements[taken:, i], stopped.elements[taken, i].expand(61 - taken, 5, 2))
        assert taken == 60 or stopped.repr_loss[taken, i] < threshold  # pyright: ignore
        torch.testing.assert_close(stopped.elements[: taken + 1, i], whole.elements[: taken + 1, i])


@pytest.mark.parametrize("fast", [True, False])
def test_stopping_without_gradients_gives_the_same(fast):
    decoder, z = make(step_size=1.0, momentum=0.5, steps=60, fast=fast), vectors()
    threshold = float(decoder(z).repr_loss[10].median())  # pyright: ignore
    decoder.solver = replace(decoder.solver, stop_below=threshold)
    expected = decoder(z)
    with torch.no_grad():
        got = decoder(z)
    assert len(set(expected.steps_taken.tolist())) > 1
    assert torch.equal(got.steps_taken, expected.steps_taken)
    torch.testing.assert_close(got.elements, expected.elements)
    torch.testing.assert_close(got.repr_loss, expected.repr_loss)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("options", [{}, IDSPN, {"initial": "predicted"}])
def test_decoding_without_gradients(context, options):
    decoder, z = make(**options).eval(), vectors()
    expected = decoder(z)
    with context():
        got = decoder(z)
    torch.testing.assert_close(got.elements, expected.elements)
    assert not got.elements.requires_grad


def test_autocast_keeps_the_inner_loop_in_float32():
    decoder, z = make().float(), vectors().float()
    plain = decoder(z)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = decoder(z)
        from_half = decoder(z.bfloat16())
    assert torch.equal(cast.elements, plain.elements)
    assert from_half.elements.dtype == torch.float32
    torch.testing.assert_close(from_half.elements, plain.elements, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_in_half_precision_raise(dtype):
    decoder = DSPN(DeepSetEncoder(features=2, latent=8, max_size=4), max_size=4, features=2).to(dtype)
    with pytest.raises(ValueError, match=r"use torch.autocast"):
        decoder(torch.zeros(1, 8, dtype=dtype))


def test_more_steps_in_training_mode_without_gradients():
    """Nothing is trained there, so that the initial set needs no gradient."""
    decoder = DSPN(DeepSetEncoder(features=2, latent=8, max_size=4), solver=GradientDescent(4), gradient=LastSteps(4))
    with torch.no_grad():
        assert decoder(torch.zeros(1, 8), steps=8).steps == 8
    with pytest.raises(UserError, match="gets no gradient"):
        decoder(torch.zeros(1, 8), steps=8)


def test_a_trained_initial_set_without_gradient_raises():
    for initial in ("learned", "predicted"):
        with pytest.raises(ValueError, match="gets no gradient: only the last 1 of 4 steps"):
            make(initial=initial, gradient=LastSteps(1))
        decoder = make(initial=initial, gradient=LastSteps(4))
        with pytest.raises(ValueError, match="only the last 4 of 9"):
            decoder(vectors(), steps=9)
        decoder.eval()(vectors(), steps=9)


class Bad(nn.Module):
    def __init__(self, norm: nn.Module):
        super().__init__()
        self.layer, self.norm = nn.Linear(3, 8), norm

    def forward(self, elements, mask):
        x = self.layer(torch.cat([elements, mask[..., None]], -1))
        return self.norm(x.transpose(1, 2)).sum(-1)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 8)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, elements, mask):
        self.calls += 1
        return self.layer(torch.cat([elements, mask[..., None]], -1)).sum(1)


def test_encoders_that_change_their_buffers_are_named():
    decoder = DSPN(Bad(nn.BatchNorm1d(8)), 5, 2)
    with pytest.raises(ValueError, match=r"'norm' \(BatchNorm1d\) changes its running statistics"):
        decoder(torch.randn(3, 8))
    assert decoder.eval()(torch.randn(3, 8)).final.elements.isfinite().all()
    DSPN(Bad(nn.InstanceNorm1d(8)), 5, 2)(torch.randn(3, 8))
    for context in (torch.enable_grad, torch.no_grad):
        with context(), pytest.raises(ValueError, match=r"\(Counter\) changes its buffer calls"):
            DSPN(Counter(), 5, 2)(torch.randn(3, 8))


def test_bad_vectors_are_named():
    z = vectors().clone()
    z[1, 3] = float("nan")
    with pytest.raises(NotFinite, match="sample 1 is nan at position 3"):
        make()(z)
    with pytest.raises(ValueError, match=r"code has shape \(3, 8\), the vectors to decode \(3, 7\)"):
        make()(vectors(L=7))


def test_sizes_come_from_the_encoder_or_must_be_given():
    assert DSPN(DeepSetEncoder(3, 8, 7)).initial(Code(torch.zeros(2, 8))).shape == (2, 7, 4)
    with pytest.raises(ValueError, match="max_size must be given: the set encoder Counter does not say it"):
        DSPN(Counter())


def test_an_initial_set_of_ones_own():
    class Corner(nn.Module):
        def __init__(self, size: int = 5, batch: int = 3):
            super().__init__()
            self.size, self.batch = size, batch

        def forward(self, code, keys=None):
            return code.vector.new_full((self.batch, self.size, 3), 0.25)

    prediction = make(initial=Corner())(vectors())
    assert prediction.elements[0].eq(0.25).all()
    for size, batch in ((1, 3), (4, 3), (6, 3), (5, 1)):
        with pytest.raises(ValueError, match=rf"must have shape \(3, 5, 3\), got \({batch}, {size}, 3\)"):
            make(initial=Corner(size, batch))(vectors())


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="nesterov=True needs a momentum"):
        make(nesterov=True)
    with pytest.raises(ValueError, match="momentum must be from 0 to below 1, got 2"):
        make(momentum=2.0)
    with pytest.raises(ValueError, match="step_size must be above 0, got nan"):
        make(step_size=float("nan"))
    with pytest.raises(ValueError, match="hidden layers need at least 1 unit, got 8 0"):
        DeepSetEncoder(features=2, latent=8, max_size=5, hidden=(8, 0))
    with pytest.raises(ValueError, match=r"start must have elements of shape \(3, 5, 2\), got \(3, 4, 2\)"):
        make()(vectors(), start=Sets(torch.zeros(3, 4, 2), torch.zeros(3, 4)))


def test_the_target_of_an_autoencoder_has_no_representation_loss():
    decoder, target = make(), start_for(make(), 3)
    z = decoder.encoder(target.elements, target.mask)
    assert decoder.target_loss(target, z).abs().max() == 0


def test_every_parameter_gets_a_gradient():
    """Unused parameters make distributed training hang."""
    for options in VARIANTS:
        decoder = make(**options)
        prediction = decoder(vectors())
        (prediction.elements[prediction.grad_from :].square().sum() + prediction.mask.square().sum()).backward()
        assert all(p.grad is not None for p in decoder.parameters()), options


def test_unknown_names_are_errors():
    """In a process of its own: here, the types of arguments are checked first."""
    made = {
        "DSPN(DeepSetEncoder(2, 16, 5), loss='sqaured')": "loss must be one of huber, squared, got 'sqaured'",
        "GradientDescent(penalty_reduction='average')": "penalty_reduction must be sum or mean, got 'average'",
        "DeepSetEncoder(2, 16, 5, init='kaiming')": "init must be one of xavier, torch, got 'kaiming'",
        "ElementwiseDecoder(3, 5, 2, 'deepsets')": "network must be one of deep-sets, bilstm, got 'deepsets'",
        "ResNetEncoder(64, stem='tiny')": "stem must be imagenet or small, got 'tiny'",
    }
    code = f"""
from setpredict import *
from setpredict.decoders.elementwise import ElementwiseDecoder
from setpredict.encoders import ResNetEncoder
for text in {list(made)!r}:
    try:
        eval(text)
    except ValueError as e:
        print(e)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == list(made.values())
