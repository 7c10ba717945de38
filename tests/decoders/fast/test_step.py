"""The fast inner step against the generic one (its oracle), finite differences, and in every mode of torch."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from setpredict import DSPN, GradientDescent, Implicit, LastSteps
from setpredict.decoders.fast.objective import FastObjective, has_fast_step
from setpredict.decoders.fast.step import FastStep
from setpredict.decoders.inner.objective import ReprObjective
from setpredict.encoders import DeepSetEncoder, RelationEncoder

ENCODERS = {
    "deep": lambda: DeepSetEncoder(2, 16, 9, hidden=(24, 20)),
    "one layer": lambda: DeepSetEncoder(2, 16, 9, hidden=(24,)),
    "three layers": lambda: DeepSetEncoder(3, 70, 8, hidden=(12, 14, 10)),  # a latent above SHORT
    "free weights": lambda: DeepSetEncoder(2, 18, 9, hidden=(24, 20), pool="fspool-free", normalize=False),
    "no mask": lambda: DeepSetEncoder(2, 16, 9, hidden=(24, 20), mask="none"),
    "relation": lambda: RelationEncoder(2, 33, 5, hidden=(24,)),
    "mask sum": lambda: DeepSetEncoder(2, 16, 9, hidden=(24, 20), mask_sum=True),
    "relation, mask sum": lambda: RelationEncoder(2, 16, 4, hidden=(24,), mask_sum=True),
    "wide relation": lambda: RelationEncoder(2, 33, 5, hidden=(32, 16)),  # layers that fill vectors
    "samples": lambda: DeepSetEncoder(3, 32, 7, hidden=(48,)),  # these three by kernels that take whole samples
    "samples of pairs": lambda: RelationEncoder(2, 48, 5, hidden=(32,)),
    "samples, free weights": lambda: DeepSetEncoder(2, 16, 1, hidden=(16,), pool="fspool-free", normalize=False),
    "whole vectors": lambda: DeepSetEncoder(2, 32, 9, hidden=(16, 48)),  # all layers by kernels
    "one element": lambda: DeepSetEncoder(3, 16, 1, hidden=(24,)),
    "two elements": lambda: DeepSetEncoder(3, 16, 2, hidden=(24,), pool="fspool-free", normalize=False),
    "three elements": lambda: RelationEncoder(3, 16, 3, hidden=(24,)),
    "many elements": lambda: DeepSetEncoder(2, 16, 70, hidden=(24, 20)),
    "deep relation": lambda: RelationEncoder(2, 16, 4, hidden=(24, 20), mask="none"),
}


def case(name, dtype, kind: Any = "huber", B=5, shared=False):
    torch.manual_seed(3)
    encoder = ENCODERS[name]().to(dtype)
    D = encoder.features + (encoder.mask_role == "feature")
    y = torch.rand(1 if shared else B, encoder.max_size, D, dtype=dtype).requires_grad_()
    z = torch.randn(B, encoder.latent, dtype=dtype).requires_grad_()  # some differences above 1, some below

    def read(state):
        return (state, None) if encoder.mask_role == "none" else (state[..., :-1], state[..., -1])

    return encoder, y, z, ReprObjective(encoder, z, kind, read)


def derivatives(value_and_grad, y, z, encoder, B=5):
    """Losses, gradients and the derivatives of a random combination of both for the set, z and every parameter."""
    loss, grad = value_and_grad(y.expand(B, -1, -1))
    torch.manual_seed(4)
    total = (loss * torch.randn_like(loss)).sum() + 100 * (grad * torch.randn_like(grad)).sum()
    return [loss, grad, *torch.autograd.grad(total, [y, z, *encoder.parameters()])]


def assert_close(ours, oracle, tolerance, names=None):
    """Close in norm; a failure names which of the tensors differ and by how much."""
    names = names or [f"tensor {i}" for i in range(len(oracle))]
    ours, oracle = [t.detach() for t in ours], [t.detach() for t in oracle]
    errors = {n: float((a - b).norm() / b.norm()) for n, a, b in zip(names, ours, oracle, strict=True) if b.norm() > 0}
    wrong = {n: error for n, error in errors.items() if not error <= tolerance}
    assert not wrong, f"relative errors above {tolerance}: {wrong}"
    for n, a, b in zip(names, ours, oracle, strict=True):
        assert b.norm() > 0 or a.norm() == 0, f"{n} must be 0"


def names_of(encoder):
    """What `derivatives` returns."""
    return ["losses", "gradients", "of y", "of z", *(f"of {name}" for name, _ in encoder.named_parameters())]


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["huber", "squared"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("name", ENCODERS)
def test_values_and_all_derivatives_are_the_generic_ones(name, dtype, tolerance, kind, shared, recompute):
    encoder, y, z, generic = case(name, dtype, kind, shared=shared)
    fast = FastObjective(encoder, z, kind, encoder.max_size, recompute)
    oracle = derivatives(generic.value_and_grad, y, z, encoder)
    assert_close(derivatives(fast.value_and_grad, y, z, encoder), oracle, tolerance, names_of(encoder))
    with torch.no_grad():
        assert_close([fast.losses(y.expand(5, -1, -1))], oracle[:1], tolerance)


SMALL = {
    "deep": lambda: DeepSetEncoder(1, 3, 4, hidden=(5, 4)),
    "free weights": lambda: DeepSetEncoder(1, 3, 4, hidden=(5,), pool="fspool-free"),
    "relation": lambda: RelationEncoder(1, 3, 3, hidden=(5,)),
}


@pytest.mark.parametrize("name", SMALL)
def test_finite_differences(name):
    torch.manual_seed(0)
    encoder = SMALL[name]().double()
    y = torch.rand(2, encoder.max_size, 2, dtype=torch.float64).requires_grad_()
    z = torch.randn(2, 3, dtype=torch.float64).requires_grad_()
    layers = FastObjective(encoder, z, "squared", encoder.max_size, False)

    def step(y, z, weights, *parameters):
        return FastStep.apply(layers.plan, y, z, weights, *parameters)

    weights = layers.weights.detach().requires_grad_()
    assert torch.autograd.gradcheck(step, (y, z, weights, *layers.layers), eps=1e-7, atol=1e-5, nondet_tol=1e-12)


@pytest.mark.parametrize("name", ["deep", "whole vectors"])
@pytest.mark.parametrize("chunk", [1, 20])
def test_chunks_do_not_change_anything(monkeypatch, chunk, name):
    encoder, y, z, _ = case(name, torch.float64)
    whole = derivatives(FastObjective(encoder, z, "huber", 9, False).value_and_grad, y, z, encoder)
    monkeypatch.setattr("setpredict.decoders.fast.network.CHUNK_ROWS", chunk)
    monkeypatch.setattr("setpredict.decoders.fast.network.THREAD_ROWS", 1)
    parts = derivatives(FastObjective(encoder, z, "huber", 9, False).value_and_grad, y, z, encoder)
    assert_close(parts, whole, 1e-12)


def test_torch_path_of_gpus_is_the_kernels_path(monkeypatch):
    for name in ("deep", "many elements", "wide relation", "whole vectors", "samples", "samples of pairs"):
        for shared in (False, True):
            encoder, y, z, _ = case(name, torch.float64, shared=shared)
            kernel = derivatives(
                FastObjective(encoder, z, "huber", encoder.max_size, False).value_and_grad, y, z, encoder
            )
            with monkeypatch.context() as patch:
                for module in ("pool", "sample_step"):
                    patch.setattr(f"setpredict.decoders.fast.{module}.has_kernel", lambda x: False)
                for module in ("first_layer", "linear"):
                    patch.setattr(f"setpredict.decoders.fast.{module}.has_row_kernel", lambda rows: False)
                objective = FastObjective(encoder, z, "huber", encoder.max_size, False)
                assert_close(derivatives(objective.value_and_grad, y, z, encoder), kernel, 1e-12)


def decoded(decoder, z):
    prediction = decoder(z)
    loss = prediction.elements[prediction.grad_from :].square().sum() + prediction.mask.square().sum()
    parameters = [p for p in decoder.parameters() if p.requires_grad]
    return prediction, [g for g in torch.autograd.grad(loss, [z, *parameters], allow_unused=True) if g is not None]


OPTIONS = [
    {},
    {"loss": "squared", "solver": GradientDescent(4, 0.5)},
    {"solver": GradientDescent(4, 3.0, momentum=0.9, nesterov=True, clip_norm=0.1)},
    {"gradient": LastSteps(1), "initial": "fixed"},
    {"gradient": LastSteps(2), "initial": "random"},
    {"gradient": Implicit(), "initial": "random", "mask": "free"},
    {"solver": GradientDescent(4, 3.0, penalty=0.1, stop_below=0.1)},
    {"recompute": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", ["deep", "relation", "samples of pairs"])
def test_decoding_and_training_are_the_generic_ones(name, options):
    torch.manual_seed(0)
    encoder = ENCODERS[name]().double()
    options = {"solver": GradientDescent(4, 3.0)} | options
    decoder = DSPN(encoder, encoder.max_size, 2, **options).double().eval()
    z = torch.randn(6, encoder.latent, dtype=torch.float64).requires_grad_()
    generic = copy.deepcopy(decoder)
    generic.fast = False
    (ours, grads), (oracle, expected) = decoded(decoder, z), decoded(generic, z)
    assert (ours.elements - ours.elements[0]).abs().max() > 1e-4  # it moved
    assert (ours.steps_taken is None) == (oracle.steps_taken is None) == (decoder.solver.stop_below is None)
    if ours.steps_taken is not None:
        assert torch.equal(ours.steps_taken, oracle.steps_taken)
    for part in ("elements", "mask", "repr_loss", "grad_norm"):
        assert_close([getattr(ours, part)], [getattr(oracle, part)], 1e-10, [part])
    assert_close(grads, expected, 1e-9)


@pytest.mark.parametrize("name", ["deep", "samples", "samples of pairs"])
def test_no_grad_and_inference_mode_give_the_same_and_keep_nothing(name):
    encoder, _, z, _ = case(name, torch.float32)
    decoder = DSPN(encoder, solver=GradientDescent(3))
    oracle = decoder(z).elements.detach()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            result = decoder(z.detach()).elements
        assert result.grad_fn is None
        assert torch.equal(result, oracle)


def test_steps_without_gradients_keep_nothing():
    encoder, _, z, _ = case("deep", torch.float32)
    decoder = DSPN(encoder, solver=GradientDescent(50), gradient=LastSteps(1), initial="fixed")
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        decoder(z)
    fifty, kept[:] = sum(kept), []
    decoder.solver = GradientDescent(2)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        decoder(z)
    assert fifty == sum(kept)


@pytest.mark.parametrize("name", ["deep", "samples"])
def test_only_differentiated_steps_save_tensors_for_backward(name):
    encoder, _, z, _ = case(name, torch.float32)

    def saved(gradient, context: Any = torch.enable_grad):
        decoder, kept = DSPN(encoder, solver=GradientDescent(3), gradient=gradient, initial="fixed"), []
        with context(), torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.nbytes) or t, lambda t: t):
            decoder(z)
        return sum(kept)

    one, two, three = (saved(LastSteps(k)) for k in (1, 2, 3))
    assert 0 < one < two < three
    assert two - one == pytest.approx(one, rel=0.2)  # every differentiated step saves about as much
    assert saved(LastSteps(3), torch.no_grad) == 0


def test_recompute_keeps_less():
    sizes = []
    for recompute in (False, True):
        encoder, y, z, _ = case("deep", torch.float32)
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, k=kept: k.append(t.nbytes) or t, lambda t: t):
            FastObjective(encoder, z, "huber", 9, recompute).value_and_grad(y)
        sizes.append(sum(kept))
    weights = sum(p.nbytes for p in encoder.parameters())
    assert sizes[1] - weights < (sizes[0] - weights) / 2


@pytest.mark.parametrize("values", [torch.nan, torch.inf, 0.0, 1e30])
@pytest.mark.parametrize("name", ["deep", "samples", "samples of pairs"])
def test_unusual_values_do_not_crash(name, values):
    encoder, y, z, generic = case(name, torch.float32)
    y = y.detach()
    y[1] = values
    losses, grads = FastObjective(encoder, z, "huber", encoder.max_size, False).value_and_grad(y)
    oracle = generic.losses(y)
    torch.testing.assert_close(losses[[0, 2, 3, 4]], oracle[[0, 2, 3, 4]])
    assert torch.isfinite(grads[[0, 2, 3, 4]]).all()
    assert bool(torch.isfinite(losses[1])) == bool(torch.isfinite(oracle[1]))


def test_what_is_not_ours_takes_the_generic_path():
    encoder, y, z, _ = case("deep", torch.float32)

    class Own(DeepSetEncoder):
        pass

    def fast(encoder, mask="clamp", state=y):
        return has_fast_step(encoder, state, z, mask)

    assert fast(encoder)
    assert not fast(Own(2, 16, 9))
    assert not fast(encoder, mask="sigmoid")
    assert not fast(DeepSetEncoder(2, 16, 9, pool="max"))
    assert not fast(DeepSetEncoder(2, 16, 9, mask="weight"))
    assert fast(DeepSetEncoder(2, 16, 9, mask_sum=True))
    assert not fast(DeepSetEncoder(2, 16, 9, mask="none", mask_sum=True), mask="none", state=y[..., :2])
    assert not fast(DeepSetEncoder(2, 16, 9).double())
    assert not fast(nn.Linear(3, 16))
    exchanged = copy.deepcopy(encoder)
    exchanged.network[1] = nn.Tanh()
    assert not fast(exchanged)
    hooked = copy.deepcopy(encoder)
    hooked.network[0].register_forward_hook(lambda *_: None)
    assert not fast(hooked)
    inside = []
    torch.func.grad(lambda v: inside.append(fast(encoder, state=v)) or v.sum())(y.detach())
    assert inside == [False]


def test_a_hook_still_hears_the_inner_loop():
    encoder, _, z, _ = case("deep", torch.float32)
    heard = []
    encoder.register_forward_hook(lambda *_: heard.append(1))
    DSPN(encoder, solver=GradientDescent(3))(z)
    assert len(heard) == 4


def test_frozen_encoder():
    encoder, _, z, _ = case("deep", torch.float64)
    decoder = DSPN(encoder.requires_grad_(False), solver=GradientDescent(2)).double()
    generic = copy.deepcopy(decoder)
    generic.fast = False
    assert_close(decoded(decoder, z)[1], decoded(generic, z)[1], 1e-10)


@pytest.mark.parametrize("name", ["samples", "samples of pairs"])
def test_a_sample_does_not_depend_on_its_batch(name):
    encoder, y, z, _ = case(name, torch.float32)
    whole = FastObjective(encoder, z, "huber", encoder.max_size, False).value_and_grad(y)
    for i in range(len(y)):
        one = FastObjective(encoder, z[i : i + 1], "huber", encoder.max_size, False).value_and_grad(y[i : i + 1])
        assert torch.equal(one[0][0], whole[0][i])
        assert torch.equal(one[1][0], whole[1][i])


@pytest.mark.parametrize("shared", [False, True])
def test_threads_do_not_change_anything(monkeypatch, shared):
    for name in ("deep", "relation", "samples", "samples of pairs"):
        encoder, y, z, _ = case(name, torch.float64, shared=shared)
        one = derivatives(FastObjective(encoder, z, "huber", encoder.max_size, False).value_and_grad, y, z, encoder)
        for module in ("network", "sample_step"):
            monkeypatch.setattr(f"setpredict.decoders.fast.{module}.THREAD_ROWS", 1)
        before = torch.get_num_threads()
        torch.set_num_threads(3)
        try:
            objective = FastObjective(encoder, z, "huber", encoder.max_size, False)
            assert_close(derivatives(objective.value_and_grad, y, z, encoder), one, 1e-12)
            with torch.inference_mode():
                fast = objective.value_and_grad(y.detach().expand(5, -1, -1))
                assert_close([*fast, objective.losses(y.detach().repeat(5 // len(y), 1, 1))], [*one[:2], one[0]], 1e-12)
        finally:
            torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["deep", "one layer", "samples", "samples of pairs", "whole vectors"])
def test_strides_do_not_matter(name):
    """Of the set, of z and of the cotangent: transposed tensors have the same numbers elsewhere in memory."""
    encoder, y, z, _ = case(name, torch.float32)
    v = torch.randn(y.shape)

    def results(y, z, v):
        loss, grad = FastObjective(encoder, z, "huber", encoder.max_size, False).value_and_grad(y)
        return [loss, grad, *torch.autograd.grad(grad, [y, z, *encoder.parameters()], v)]

    strided = [t.detach().mT.contiguous().mT.requires_grad_(t.requires_grad) for t in (y, z, v)]
    assert not any(t.is_contiguous() for t in strided)
    for a, b in zip(results(*strided), results(y, z, v), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", ["deep", "samples"])
def test_second_derivatives_are_refused_where_they_would_lack_terms(name):
    encoder = ENCODERS[name]()
    model, x = DSPN(encoder, solver=GradientDescent(2, 1.0)), torch.rand(3, encoder.latent, requires_grad=True)
    model(x).elements.sum().backward()
    with pytest.raises(RuntimeError, match=r"cannot be differentiated twice: use DSPN\(..., fast=False\)"):
        torch.autograd.grad(model(x).elements.square().sum(), x, create_graph=True)
    model.fast = False
    (first,) = torch.autograd.grad(model(x).elements.square().sum(), x, create_graph=True)
    assert torch.autograd.grad(first.square().sum(), x)[0].norm() > 0


def test_where_the_loss_has_a_kink_the_gradient_is_the_generic_one():
    """Masks begin at one half, so the fourth number of a set of a quarter of the elements is off by 1 exactly."""
    encoder = DeepSetEncoder(2, 17, 8, hidden=(16,), mask_sum=True).double()
    fast, generic = (DSPN(encoder, solver=GradientDescent(1, 5.0), fast=fast).double() for fast in (True, False))
    generic.initial = fast.initial
    for size in range(9):
        z = torch.cat([torch.linspace(-0.3, 0.3, 16).double(), torch.tensor([4 * size / 8]).double()])[None]
        ours, theirs = (
            torch.autograd.grad(p.mask.sum() + p.elements.sum(), list(fast.initial.parameters()))
            for p in (fast(z), generic(z))
        )
        assert_close(ours, theirs, 1e-12)
