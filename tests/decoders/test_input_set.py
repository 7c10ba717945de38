"""DSPN that starts from its input: where it starts, and that equal elements are told apart."""

import pytest
import torch

from setpredict import DSPN, Code, DeepSetEncoder, GradientDescent
from setpredict.build import make_task
from setpredict.config import DataConfig, DecoderConfig, EncoderConfig, Experiment, Implicit
from setpredict.decoders import InputSet
from setpredict.encoders.pooling import Pooling
from setpredict.model import SetPredictor
from setpredict.resolve import model_config
from setpredict.sets import Sets


def code(B: int = 2, P: int = 3, C: int = 2) -> Code:
    mask = torch.arange(P) < torch.tensor([[P], [P - 1]])
    return Code(torch.randn(B, 8), tokens=torch.rand(B, P, C), token_mask=mask)


@pytest.mark.parametrize("mask", ["clamp", "sigmoid", "free", "none"])
def test_the_first_features_are_the_input(mask):
    given, initial = code(), InputSet(4, 5, (2.0, 1.0), mask, scale=0.5).eval()
    state = initial(given)
    assert given.tokens is not None
    assert given.token_mask is not None
    assert state.shape == (2, 4, 5 + (mask != "none"))
    torch.testing.assert_close(state[:, :3, :2], given.tokens * torch.tensor([2.0, 1.0]))
    assert state[:, 3, :2].eq(0).all()
    assert initial.rest is not None
    torch.testing.assert_close(state[:, :, 2:5], initial.rest.evaluation.expand(2, -1, -1))
    if mask != "none":
        read = state[..., -1].sigmoid() if mask == "sigmoid" else state[..., -1]
        wanted = torch.nn.functional.pad(given.token_mask.float(), (0, 1))
        torch.testing.assert_close(read, wanted, rtol=0, atol=1e-3)


def test_the_input_may_have_all_features():
    given = code(C=5)
    state = InputSet(3, 5, (1.0,) * 5, "none")(given)
    assert given.tokens is not None
    torch.testing.assert_close(state, given.tokens)


def test_random_features_depend_on_the_key_alone():
    given, initial, keys = code(), InputSet(3, 5, (1.0, 1.0), "none").train(), torch.tensor([7, 9])
    both = initial(given, keys)
    torch.testing.assert_close(initial(given[1:], keys[1:])[0], both[1])
    assert not torch.allclose(both[0, :, 2:], both[1, :, 2:])


def test_sorting_tells_equal_elements_apart_without_noise():
    """Multiset-equivariance (iDSPN, section 3): FSPool's gradient differs for equal elements; a sum's does not."""
    given = Code(torch.randn(1, 8), tokens=torch.ones(1, 3, 2))
    pools: tuple[tuple[Pooling, bool], ...] = (("fspool-free", True), ("sum", False))
    for pool, differ in pools:
        torch.manual_seed(0)
        encoder = DeepSetEncoder(4, 8, 3, hidden=(16,), pool=pool, mask="none")
        initial = InputSet(3, 4, (1.0, 1.0), "none", scale=0.0)
        decoder = DSPN(encoder, initial=initial, solver=GradientDescent(5, 1.0), mask="none")
        final = decoder(given).final.elements[0]
        assert (not torch.allclose(final, final[:1].expand_as(final), atol=1e-6)) == differ, pool


def test_a_model_of_numbering_trains_every_weight():
    data = DataConfig("numbering", points=4, classes=2)
    solver = GradientDescent(3, 1.0, momentum=0.9, nesterov=True, clip_norm=40.0)
    decoder = DecoderConfig(solver=solver, gradient=Implicit(), loss="squared", mask="free", initial="input")
    experiment = Experiment(data, latent=8, encoder=EncoderConfig(hidden=(8,), pool="fspool-free"), decoder=decoder)
    task = make_task(data)
    model = SetPredictor.from_config(model_config(experiment, task))
    assert model.decoder.needs == ("vector", "tokens")
    assert not model.shares_encoder
    batch = next(iter(task.loader("train", 3)))
    prediction = model(batch.input, batch.target)
    assert prediction.elements.shape == (4, 3, 4, 6)
    (prediction.final.elements.square().sum() + prediction.target_loss.sum()).backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None]
    assert isinstance(batch.input, Sets)
    torch.testing.assert_close(prediction.elements[0][..., :2], batch.input.elements)
    model.eval()
    alone = model(batch.input[1:2]).final.elements[0]
    torch.testing.assert_close(alone, model(batch.input).final.elements[1], rtol=1e-4, atol=1e-5)
