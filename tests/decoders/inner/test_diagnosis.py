"""The step-size recipe, and the verdicts on an inner loop that goes wrong."""

import pytest
import torch

from setpredict import DSPN, DeepSetEncoder, GradientDescent, MLPDecoder, diagnose, suggest_step_size


def small(steps=10, step_size=25.0, **options) -> DSPN:
    torch.manual_seed(0)
    return DSPN(DeepSetEncoder(2, 16, 8), solver=GradientDescent(steps, step_size), **options)


def test_the_numbers_are_the_loops():
    prediction = small()(torch.randn(4, 16))
    seen = diagnose(prediction)
    state = torch.cat([prediction.elements, prediction.mask[..., None]], -1).detach()
    first = (state[1] - state[0]).flatten(1).norm(dim=1).mean() / 24**0.5
    assert seen.moved[0] == pytest.approx(first.item())
    assert len(seen.repr_loss) == len(seen.displacement) == 11
    assert len(seen.grad_norm) == len(seen.moved) == 10
    assert "L_repr" in str(seen)
    assert len(str(seen).splitlines()) == 13


def test_verdicts():
    z = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    assert "hardly moves" in diagnose(small(step_size=1e-6)(z)).verdict
    assert "rises" in diagnose(small(step_size=1e5)(z)).verdict
    assert "explodes" in diagnose(small(step_size=1e30, mask="free", loss="squared", steps=9)(z)).verdict
    assert diagnose(small(step_size=8.0)(z)).healthy
    assert not diagnose(small(step_size=1e5)(z)).healthy
    dead = small()
    torch.nn.init.zeros_(dead.encoder.pool.weight)  # pyright: ignore
    assert "does not depend on the set" in diagnose(dead(z)).verdict
    assert "No steps" in diagnose(small()(z, steps=0)).verdict
    with pytest.raises(ValueError, match="its decoder has no inner loop"):
        diagnose(MLPDecoder(16, 8, 2)(z))


def test_the_suggested_step_moves_the_set_visibly_and_half_of_it_does_not():
    decoder, z = small(), torch.randn(16, 16)
    eta = suggest_step_size(decoder, z)
    moved = diagnose(decoder(z, solver=GradientDescent(step_size=eta))).moved
    less = diagnose(decoder(z, solver=GradientDescent(step_size=eta / 2))).moved
    assert sum(moved) / 10 >= 0.01 > sum(less) / 10


def test_an_encoder_that_sees_nothing_has_no_step_size():
    dead = small()
    torch.nn.init.zeros_(dead.encoder.pool.weight)  # pyright: ignore
    with pytest.raises(ValueError, match="does not move even with step size"):
        suggest_step_size(dead, torch.randn(4, 16))
