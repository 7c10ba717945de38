"""iDSPN with a learned initial set and the regularizer, against the formulas of its release in plain code."""

import pytest
import torch
from torch import Tensor

from setpredict import DSPN, DeepSetEncoder, GradientDescent, Implicit, UserError
from setpredict.encoders import MLP
from setpredict.presets import preset

SOLVER = GradientDescent(5, 1.0, momentum=0.9, nesterov=True, penalty=0.1, penalty_reduction="mean")


def make(**options) -> DSPN:
    torch.manual_seed(0)
    encoder = DeepSetEncoder(2, 8, 4, hidden=(16,), pool="fspool-free", mask="none", normalize=False, init="torch")
    given = {"solver": SOLVER, "initial": "learned-normal", **options}
    return DSPN(encoder, gradient=Implicit(), loss="squared", mask="none", **given).double()


def values(decoder: DSPN) -> Tensor:
    """The learned initial set."""
    return decoder.initial.get_parameter("values")


def release(decoder: DSPN, z: Tensor, y0: Tensor) -> tuple[Tensor, Tensor]:
    """Y_T by torch's SGD, and what its backward differentiates: minus the objective's gradient at Y_{T−1}."""

    def gradient(y: Tensor, create_graph: bool) -> Tensor:
        loss = 0.5 * ((decoder.encoder(y) - z) ** 2).sum(dim=0).mean()
        loss = loss + 0.1 * 0.5 * ((y - y0) ** 2).sum(dim=0).mean()
        return torch.autograd.grad(loss, y, create_graph=create_graph)[0]

    y = y0.detach().clone().requires_grad_()
    optimizer, found = torch.optim.SGD([y], lr=1.0, momentum=0.9, nesterov=True), y
    for t in range(5):
        before = y.detach().clone().requires_grad_()
        found = gradient(before, create_graph=t == 4)
        y.grad = found.detach()
        optimizer.step()
    return y.detach(), -found


def test_sets_and_gradients_are_those_of_the_release():
    decoder, z = make(), torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    inputs = [values(decoder), z, *decoder.encoder.parameters()]
    ours = decoder(z).final.elements
    expected, differentiated = release(decoder, z, values(decoder).expand(3, -1, -1))
    torch.testing.assert_close(ours, expected)
    cotangent = torch.randn_like(ours)
    found = torch.autograd.grad(ours, inputs, cotangent)
    for a, b in zip(found, torch.autograd.grad(differentiated, inputs, cotangent), strict=True):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(found[0], 0.1 / 8 * cotangent.sum(dim=0))  # 4 elements with 2 features


@pytest.mark.parametrize("initial", ["learned", "learned-normal", "predicted"])
def test_a_learned_initial_set_needs_the_penalty(initial):
    make(initial=initial)
    with pytest.raises(UserError, match=r"the initial set gets no gradient.*a penalty"):
        make(initial=initial, solver=GradientDescent(5, 1.0))


def test_the_mean_is_over_the_numbers_in_a_set():
    z = torch.randn(3, 8, dtype=torch.float64)
    summed = GradientDescent(5, 0.1, penalty=0.1 / 8)
    mean = GradientDescent(5, 0.1, penalty=0.1, penalty_reduction="mean")
    torch.testing.assert_close(make(solver=summed)(z).elements, make(solver=mean)(z).elements)
    with pytest.raises(UserError, match="penalty must be 0 or more, got -1"):
        GradientDescent(penalty=-1)


def test_initial_values():
    torch.manual_seed(0)
    normal = values(DSPN(DeepSetEncoder(2, 8, 2000), initial="learned-normal", mask="free"))
    assert normal.shape == (2000, 3)
    assert normal.mean(dim=0).abs().max() < 0.01
    assert (normal.std(dim=0) - 0.1).abs().max() < 0.01
    clamped = values(DSPN(DeepSetEncoder(2, 8, 4), initial="learned-normal"))
    assert clamped[:, 2].tolist() == [0.5] * 4
    torch.manual_seed(0)
    layer = MLP(3, [16], 2, init="torch")[0]
    torch.manual_seed(0)
    assert torch.equal(layer.weight, torch.nn.Linear(3, 16).weight)  # pyright: ignore[reportArgumentType]
    assert bool((MLP(3, [16], 2)[0].bias == 0).all())  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]


def test_the_preset_has_the_settings_of_the_release():
    """exp2_scripts/run_single.sh and the defaults of train_exp2.py."""
    paper = preset("multisets", "idspn", "paper")
    decoder, train = paper.decoder, paper.train
    assert (paper.latent, paper.encoder.hidden, paper.encoder.init, paper.input.shared) == (512, (512,), "torch", False)
    assert decoder.solver == GradientDescent(20, 1.0, 0.9, True, None, 0.1, None, "mean")
    assert (decoder.initial, decoder.initial_scale, decoder.gradient) == ("learned-normal", 0.1, Implicit())
    assert (train.optimizer, train.lr, train.schedule, train.batch_size) == ("adam", 1e-3, "constant", 128)
    assert (train.few_steps_until, train.ema, train.clip_grad, train.max_minutes) == (0, 0, None, None)
    assert 32_000 * train.epochs == 64_000 * 40
    assert (paper.loss.set, paper.loss.cost, paper.loss.steps, paper.loss.repr_weight) == (
        "hungarian",
        "huber",
        "last",
        0,
    )
