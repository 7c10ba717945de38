"""The inner loop as a pure function: its formulas, and its derivatives against hand-written ones."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from setpredict import DSPN, DeepSetEncoder, GradientDescent, Implicit, LastSteps, Unrolled, UserError, descend
from setpredict.decoders import Objective
from setpredict.decoders.inner.solver import clip

torch.manual_seed(0)
A = torch.randn(4, 4, dtype=torch.float64)
A = A @ A.T / 8 + torch.eye(4, dtype=torch.float64)  # a quadratic bowl with mixed curvature


def bowl(theta: Tensor):
    """½ (y−θ)ᵀA(y−θ) + Σ cos y per sample: not quadratic, so second derivatives depend on y."""

    def loss(y: Tensor) -> Tensor:
        d = y - theta
        return 0.5 * torch.einsum("bi,ij,bj->b", d, A, d) + torch.cos(y).sum(1)

    return loss


def plain_gradient(theta: Tensor, y: Tensor) -> Tensor:
    return (y - theta) @ A - torch.sin(y)


START = torch.randn(3, 4, dtype=torch.float64)
THETA = torch.randn(3, 4, dtype=torch.float64)


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.7, False), (0.7, True)])
def test_the_updates_are_torchs_sgd(momentum, nesterov):
    found = descend(bowl(THETA), START, GradientDescent(5, 0.1, momentum=momentum, nesterov=nesterov))
    y = START.clone().requires_grad_()
    optimizer = torch.optim.SGD([y], lr=0.1, momentum=momentum, nesterov=nesterov)
    for t in range(5):
        torch.testing.assert_close(found.losses[t], bowl(THETA)(y).detach())
        optimizer.zero_grad()
        bowl(THETA)(y).sum().backward()
        torch.testing.assert_close(found.grad_norms[t], y.grad.norm(dim=1))  # pyright: ignore
        optimizer.step()
        torch.testing.assert_close(found.states[t + 1], y.detach())
    torch.testing.assert_close(found.losses[5], bowl(THETA)(y).detach())
    assert found.steps_taken.tolist() == [5, 5, 5]


def test_clipping_is_per_sample():
    far = torch.stack([START[0], START[1] * 100, START[2]])
    found = descend(bowl(THETA), far, GradientDescent(1, 1.0, clip_norm=0.5))
    step = found.states[0] - found.states[1]
    gradient = plain_gradient(THETA, far)
    norm = gradient.norm(dim=1, keepdim=True)
    torch.testing.assert_close(step, gradient * (0.5 / norm).clamp(max=1))
    torch.testing.assert_close(found.grad_norms[0], norm[:, 0])


@pytest.mark.parametrize("norm", [0.37, 3.3, 10.0])
def test_what_is_below_the_norm_is_not_clipped_to_the_bit(norm: float):
    gradient = torch.nn.functional.normalize(torch.randn(64, 3, 2).flatten(1), dim=1).view(64, 3, 2) * norm / 3
    assert torch.equal(clip(gradient, norm), gradient)


def test_projection_comes_before_the_first_and_after_every_step():
    found = descend(bowl(THETA), START * 10, GradientDescent(3, 0.3), project=lambda y: y.clamp(-1, 1))
    assert found.states.abs().max() <= 1
    assert torch.equal(found.states[0], (START * 10).clamp(-1, 1))


def test_the_penalty_pulls_back_to_the_start():
    found = descend(bowl(THETA), START, GradientDescent(2, 0.1, penalty=3.0))
    one = START - 0.1 * plain_gradient(THETA, START)
    two = one - 0.1 * (plain_gradient(THETA, one) + 3 * (one - START))
    torch.testing.assert_close(found.states[2], two)
    torch.testing.assert_close(found.losses[2], bowl(THETA)(two))  # the loss that is reported stays the objective


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.6},
        {"momentum": 0.6, "nesterov": True},
        {"clip_norm": 0.8},
        {"penalty": 0.5, "momentum": 0.5, "clip_norm": 1.0, "nesterov": True},
    ],
)
@pytest.mark.parametrize("gradient", [Unrolled(), LastSteps(1), LastSteps(2)])
def test_gradients_match_finite_differences(options, gradient):
    """With k steps, against the same loop whose first T − k steps are cut off by hand."""

    def last(theta: Tensor, start: Tensor) -> Tensor:
        return descend(bowl(theta), start, GradientDescent(4, 0.2, **options), gradient).states[-1]

    if gradient == Unrolled():
        assert torch.autograd.gradcheck(last, (THETA.clone().requires_grad_(), START.clone().requires_grad_()))
        return
    frozen = THETA.clone()  # steps before the cut use constants

    def by_hand(theta: Tensor) -> Tensor:
        y, v = START, torch.zeros_like(START)
        for t in range(4):
            g = plain_gradient(frozen if t < 4 - gradient.k else theta, y) + options.get("penalty", 0) * (y - START)
            if "clip_norm" in options:
                g = g * (options["clip_norm"] / g.norm(dim=1, keepdim=True)).clamp(max=1)
            v = options.get("momentum", 0) * v + g
            y = y - 0.2 * (g + options["momentum"] * v if options.get("nesterov") else v)
        return y

    theta = THETA.clone().requires_grad_()
    torch.testing.assert_close(last(theta, START), by_hand(theta))
    weight = torch.randn(3, 4, dtype=torch.float64)
    (ours,) = torch.autograd.grad((last(theta, START) * weight).sum(), theta)
    (plain,) = torch.autograd.grad((by_hand(theta) * weight).sum(), theta)
    torch.testing.assert_close(ours, plain)


def test_all_steps_is_full_backpropagation():
    grads = []
    for gradient in (Unrolled(), LastSteps(4), LastSteps(9)):
        theta, start = THETA.clone().requires_grad_(), START.clone().requires_grad_()
        found = descend(bowl(theta), start, GradientDescent(4, 0.2, momentum=0.5), gradient)
        assert found.grad_from == 0
        grads.append(torch.autograd.grad((found.states**2).sum(), (theta, start)))
    for other in grads[1:]:
        assert all(torch.equal(a, b) for a, b in zip(grads[0], other))


def test_only_the_last_k_sets_carry_gradients():
    theta = THETA.clone().requires_grad_()
    found = descend(bowl(theta), START, GradientDescent(5, 0.2), LastSteps(2))
    assert found.grad_from == 4
    assert torch.autograd.grad(found.states[:4].sum(), theta, allow_unused=True, retain_graph=True)[0].eq(0).all()
    for t in (4, 5):
        assert torch.autograd.grad(found.states[t].sum(), theta, retain_graph=True)[0].ne(0).any()


def test_implicit_differentiates_minus_the_gradient():
    """iDSPN: the value has step size, momentum and clipping, the derivative is that of −g at the last set but one."""
    theta = THETA.clone().requires_grad_()
    solver = GradientDescent(3, 0.1, momentum=0.9, nesterov=True, clip_norm=0.5)
    found = descend(bowl(theta), START, solver, Implicit())
    plain = descend(bowl(THETA), START, solver)
    torch.testing.assert_close(found.states, plain.states)
    weight = torch.randn(3, 4, dtype=torch.float64)
    (ours,) = torch.autograd.grad((found.states[-1] * weight).sum(), theta)
    torch.testing.assert_close(ours, weight @ A)  # ∂(−g)/∂θ = A
    assert found.grad_from == 3


def test_stopped_samples_no_longer_change():
    goal = torch.tensor([[0.0], [0.0]], dtype=torch.float64)
    start = torch.tensor([[1.0], [64.0]], dtype=torch.float64)

    def loss(y: Tensor) -> Tensor:
        return ((y - goal) ** 2).sum(1) / 2

    found = descend(loss, start, GradientDescent(20, 0.5, stop_below=0.1))
    assert found.steps_taken.tolist() == [2, 8]  # 1 → ½ → ¼ (0.03 < 0.1);  64 → … → ¼
    assert found.states[2:, 0].eq(0.25).all()
    assert found.states[8:, 1].eq(0.25).all()
    assert found.states.shape[0] == found.losses.shape[0] == 21
    with torch.no_grad():  # leaves the loop when all have stopped, with the same answer
        early = descend(loss, start, GradientDescent(20, 0.5, stop_below=0.1))
    assert torch.equal(early.states, found.states)
    assert torch.equal(early.losses, found.losses)
    assert torch.equal(early.grad_norms, found.grad_norms)
    assert torch.equal(early.steps_taken, found.steps_taken)


@dataclass
class Counted:
    """A bowl that records how many samples it was evaluated for."""

    goal: Tensor
    asked: list[int]

    def losses(self, y: Tensor) -> Tensor:
        self.asked.append(len(y))
        return ((y - self.goal) ** 2).sum(1) / 2

    def value_and_grad(self, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.losses(y), y - self.goal

    def subset(self, samples: Tensor) -> "Counted":
        return Counted(self.goal[samples], self.asked)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.3, "nesterov": True}, {"penalty": 0.01, "clip_norm": 3.0}])
def test_stopped_samples_cost_nothing_without_gradients(options):
    goal, start = torch.tensor([[0.0], [1.0], [2.0]]).double(), torch.tensor([[1.0], [16.0], [2.1]]).double()
    bowl = Counted(goal, [])
    found = descend(bowl, start, GradientDescent(20, 0.5, stop_below=0.1, **options))
    assert bowl.asked == [3] * 21
    bowl.asked.clear()
    with torch.no_grad():
        fewer = descend(bowl, start, GradientDescent(20, 0.5, stop_below=0.1, **options))
    torch.testing.assert_close(fewer.states, found.states)
    torch.testing.assert_close(fewer.losses, found.losses)
    assert torch.equal(fewer.steps_taken, found.steps_taken)
    last = int(found.steps_taken.max())
    assert bowl.asked == [3, *(int((found.steps_taken >= t).sum()) for t in range(1, last + 1)), 3]
    assert 1 in bowl.asked


def test_no_steps():
    found = descend(bowl(THETA), START, GradientDescent(0, 1.0))
    assert torch.equal(found.states, START[None])
    assert found.losses.shape == (1, 3)
    assert found.grad_norms.shape == (0, 3)


def test_samples_of_any_shape():
    images = torch.randn(2, 3, 5, 5, dtype=torch.float64)
    solver = GradientDescent(2, 0.5, clip_norm=1e9, momentum=0.1)
    found = descend(lambda x: (x**2).sum((1, 2, 3)) / 2, images, solver)
    assert found.states.shape == (3, 2, 3, 5, 5)
    torch.testing.assert_close(found.states[1], images / 2)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_every_grad_mode_gives_the_same_values(context):
    expected = descend(bowl(THETA), START, GradientDescent(3, 0.2))
    with context():
        got = descend(bowl(THETA), START.clone(), GradientDescent(3, 0.2))
    assert torch.equal(expected.states, got.states)


def test_an_objective_with_its_own_derivative_is_used():
    class Known:
        calls = 0

        def losses(self, y: Tensor) -> Tensor:
            return (y**2).sum(1) / 2

        def value_and_grad(self, y: Tensor) -> tuple[Tensor, Tensor]:
            self.calls += 1
            return self.losses(y), y

        def subset(self, samples: Tensor) -> "Known":
            return self

    known = Known()
    assert isinstance(known, Objective)
    found = descend(known, START, GradientDescent(3, 0.5))
    assert known.calls == 3
    torch.testing.assert_close(found.states[-1], START / 8)


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="steps must be 0 or more, got -1"):
        GradientDescent(steps=-1)
    with pytest.raises(ValueError, match="needs at least 1 step, got 0"):
        LastSteps(0)


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, float("nan")])
def test_a_norm_to_clip_at_is_above_zero(clip_norm):
    with pytest.raises(ValueError, match="clip_norm must be above 0"):
        GradientDescent(clip_norm=clip_norm)


def test_the_gradient_norm_is_the_objectives_alone():
    plain = descend(bowl(THETA), START, GradientDescent(1, 0.1))
    drawn = descend(bowl(THETA), START, GradientDescent(3, 0.1, penalty=5.0))
    at = [torch.func.grad(lambda y: bowl(THETA)(y).sum())(y).flatten(1).norm(dim=1) for y in drawn.states[:-1]]
    assert torch.equal(plain.grad_norms[0], drawn.grad_norms[0])
    torch.testing.assert_close(drawn.grad_norms, torch.stack(at))


def quadratic(theta: torch.Tensor):
    """A loss per sample whose gradient depends on `theta`, as that of an encoder on its weights."""
    return lambda y: ((y - theta) ** 2 * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)).sum(dim=1)


def test_the_implicit_derivative_is_that_of_the_scaled_gradient():
    theta = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64, requires_grad=True)
    start = torch.zeros(2, 3, dtype=torch.float64)
    found = descend(quadratic(theta), start, GradientDescent(6, 0.1), Implicit(), scale=scale).states[-1]
    by_theta, by_scale = torch.autograd.grad(found.sum(), [theta, scale])
    # −s · ∂²L/∂Y∂θ = s · 2w, summed over two samples: the feature with a scale of 0 stays, whatever theta is
    assert by_theta.tolist() == pytest.approx([2 * 2 * 1, 0, 2 * 0.5 * 2 * 3])
    before = descend(quadratic(theta.detach()), start, GradientDescent(5, 0.1), scale=scale.detach()).states[-1]
    slope = 2 * torch.tensor([1.0, 2.0, 3.0]) * (before - theta.detach())
    assert by_scale.tolist()[0::2] == pytest.approx((-slope.sum(dim=0)).tolist()[0::2])


def test_features_that_stay_do_not_count_in_the_norm_that_is_clipped():
    theta = torch.tensor([30.0, 40.0, 5.0], dtype=torch.float64)
    start, solver = torch.zeros(1, 3, dtype=torch.float64), GradientDescent(3, 0.1, momentum=0.5, clip_norm=1.0)
    scale = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    weights = torch.tensor([1.0, 3.0], dtype=torch.float64)
    alone = descend(lambda y: ((y - theta[::2]) ** 2 * weights).sum(dim=1), start[:, ::2], solver)
    found = descend(quadratic(theta), start, solver, scale=scale)
    torch.testing.assert_close(found.states[..., ::2], alone.states)
    assert found.states[..., 1].eq(0).all()


@pytest.mark.parametrize("gradient", [Implicit(), LastSteps(1), LastSteps(3)])
def test_samples_that_have_stopped_still_train_the_encoder(gradient):
    """They stay where they are; their derivative is that of the differentiated steps from there."""
    theta = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
    start = torch.tensor([[0.4, -0.9, 1.9], [5.0, 5.0, 5.0]], dtype=torch.float64)
    solver = GradientDescent(6, 0.05, stop_below=0.1)
    found = descend(quadratic(theta), start, solver, gradient)
    assert found.steps_taken[0] == 0
    assert torch.equal(found.states[-1, 0].detach(), start[0])
    slopes = torch.autograd.grad(found.states[-1, 0].sum(), theta)[0]
    curvature = 2 * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    if isinstance(gradient, Implicit):
        expected = curvature
    else:
        expected = 1 - (1 - 0.05 * curvature) ** gradient.k
    torch.testing.assert_close(slopes, expected)


def test_unrolled_samples_that_have_stopped_have_the_derivative_of_their_own_path():
    theta = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
    start = torch.tensor([[0.4, -0.9, 1.9]], dtype=torch.float64, requires_grad=True)
    found = descend(quadratic(theta), start, GradientDescent(4, 0.05, stop_below=0.1))
    by_theta, by_start = torch.autograd.grad(found.states[-1].sum(), [theta, start], allow_unused=True)
    assert by_theta is None or by_theta.eq(0).all()
    assert by_start.eq(1).all()


def test_a_sample_may_be_one_number():
    start = torch.tensor([3.0, -4.0])
    found = descend(lambda y: y**2 / 2, start, GradientDescent(steps=2, step_size=0.5, clip_norm=2.0))
    assert found.states.tolist() == [[3.0, -4.0], [2.0, -3.0], [1.0, -2.0]]
    assert found.grad_norms.tolist() == [[3.0, 4.0], [2.0, 3.0]]


def test_an_objective_has_one_loss_per_sample():
    with pytest.raises(ValueError, match=r"one loss per sample, \(B,\), got shape \(\)"):
        descend(lambda y: (y**2).mean(), torch.ones(2, 2), GradientDescent(3, 0.5))


def test_gradients_have_names_and_steps_are_whole_numbers():
    decoder = DSPN(DeepSetEncoder(2, 8, max_size=3), initial="random", gradient="implicit")
    assert decoder.gradient == Implicit()
    solver = GradientDescent()
    object.__setattr__(solver, "steps", np.int64(2))  # not as arguments, whose types tests check
    solver.__post_init__()
    assert type(solver.steps) is int
    object.__setattr__(solver, "steps", 1.5)
    with pytest.raises(UserError, match=r"steps must be a whole number, got 1\.5"):
        solver.__post_init__()
    with pytest.raises(UserError, match="held must be from 0 to the number of features, 2, got -1"):
        DSPN(DeepSetEncoder(2, 8, max_size=3), held=-1)
