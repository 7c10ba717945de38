"""DSPN that starts from noise of the right size: how many elements it has, and that the descent keeps them."""

import pytest
import torch

from setpredict import DSPN, Code, DeepSetEncoder, GradientDescent
from setpredict.build import make_task
from setpredict.config import DataConfig, DecoderConfig, EncoderConfig, Experiment, InputConfig, LossConfig
from setpredict.core.errors import UserError
from setpredict.decoders import SizedSet, initial_set
from setpredict.model import SetPredictor
from setpredict.resolve import model_config
from setpredict.sets import Sets

N = 342


def targets(*sizes: int) -> Sets:
    generator = torch.Generator().manual_seed(0)
    return Sets.from_list([torch.rand(n, 2, generator=generator) for n in sizes], max_size=N, features=2)


@pytest.mark.parametrize("mask", ["clamp", "free", "sigmoid"])
def test_the_code_of_a_set_says_its_size(mask):
    """For every possible size: rounding in the code must not cost an element."""
    sizes = list(range(N + 1))
    target = targets(*sizes)
    code = Code(DeepSetEncoder(2, 8, N, hidden=(4,), mask_sum=True)(target.elements, target.mask))
    state = SizedSet(N, 2, mask)(code)
    read = state[..., -1].sigmoid() if mask == "sigmoid" else state[..., -1]
    assert (read > 0.5).sum(dim=1).tolist() == sizes


def test_sizes_survive_autocast():
    """In bfloat16, 311 of 342 elements and 312 are the same mean."""
    target = targets(*range(N + 1))
    with torch.autocast("cpu", torch.bfloat16):
        code = Code(DeepSetEncoder(2, 8, N, hidden=(4,), mask_sum=True)(target.elements, target.mask))
    assert (SizedSet(N, 2, "clamp")(code)[..., -1] > 0.5).sum(dim=1).tolist() == list(range(N + 1))


def test_elements_are_noise_and_the_rest_is_padding():
    initial = SizedSet(6, 2, "clamp")
    state = initial(Code(torch.tensor([[0.0, 2.0], [5.0, 4.0]])))  # the means of the masks are 1/2 and 1
    torch.testing.assert_close(state[0, :3], torch.cat([initial.noise[:3], torch.ones(3, 1)], dim=1))
    assert state[0, 3:].eq(0).all()
    torch.testing.assert_close(state[1], torch.cat([initial.noise, torch.ones(6, 1)], dim=1))
    assert initial.noise.unique().numel() == 12


@pytest.mark.parametrize(("number", "size"), [(-3.0, 0), (0.0, 0), (4.0, 5), (100.0, 5)])
def test_sizes_that_no_set_has_are_clamped(number, size):
    """A predicted code can say anything."""
    state = SizedSet(5, 1, "clamp")(Code(torch.tensor([[0.0, number]])))
    assert state[..., -1].sum() == size


def test_a_sample_does_not_depend_on_its_batch():
    encoder = DeepSetEncoder(2, 8, N, hidden=(16,), mask_sum=True)
    decoder = DSPN(encoder, initial="sized", solver=GradientDescent(3, 1.0))
    target = targets(5, 100, 342)
    z = encoder(target.elements, target.mask)
    together = decoder(z).final
    for i in range(3):
        alone = decoder(z[i : i + 1]).final
        torch.testing.assert_close(alone.elements[0], together.elements[i], rtol=0, atol=1e-5)
        assert torch.equal(alone.sizes, together.sizes[i : i + 1])


@pytest.mark.parametrize("mask", ["clamp", "free", "sigmoid"])
def test_only_the_elements_that_are_present_move(mask):
    encoder = DeepSetEncoder(2, 8, 6, hidden=(16,), mask_sum=True)
    decoder = DSPN(encoder, initial="sized", mask=mask, solver=GradientDescent(3, 5.0, momentum=0.5))
    target = Sets.from_list([torch.rand(n, 2) for n in (0, 2, 6)], max_size=6, features=2)
    prediction = decoder(encoder(target.elements, target.mask))
    assert prediction.mask.eq(prediction.mask[0]).all()
    assert prediction.final.sizes.tolist() == [0, 2, 6]
    absent = prediction.mask[0] < 0.5
    assert prediction.elements[:, absent].eq(0).all()
    moved = (prediction.elements[1:] - prediction.elements[:-1]).abs().sum(dim=-1)  # (T, B, N)
    assert moved[:, ~absent].gt(0).all()
    generic = DSPN(encoder, initial=decoder.initial, mask=mask, solver=decoder.solver, fast=False)
    torch.testing.assert_close(generic(encoder(target.elements, target.mask)).elements, prediction.elements)


def experiment(**encoder) -> Experiment:
    data = DataConfig(name="multisets", points=4, variable=True, train=8, val=4, test=4)
    return Experiment(
        data, latent=8, encoder=EncoderConfig(hidden=(8,), **encoder), decoder=DecoderConfig(initial="sized")
    )


def test_a_model_is_saved_with_its_noise(tmp_path):
    chosen = experiment(mask_sum=True)
    model = SetPredictor.from_config(model_config(chosen, make_task(chosen.data))).eval()
    model.save_pretrained(tmp_path)
    again, input = SetPredictor.from_pretrained(tmp_path), [[[0.1, 0.2], [0.5, 0.5]]]
    torch.testing.assert_close(again.predict(input).elements, model.predict(input).elements)


def test_the_size_must_be_in_the_code():
    chosen = experiment()
    with pytest.raises(UserError, match="reads the size of a set from its code"):
        SetPredictor.from_config(model_config(chosen, make_task(chosen.data)))
    with pytest.raises(UserError, match="'sized' is for sets that differ in size"):
        initial_set("sized", 4, 2, "none")


def test_the_size_must_be_learned_where_the_input_is_not_the_set():
    chosen = experiment(mask_sum=True)
    chosen.input, chosen.loss = InputConfig("set", 2, shared=False), LossConfig(repr_weight=0.0)
    with pytest.raises(UserError, match=r"learns the size of sets by --loss\.repr-weight, which must be above 0"):
        model_config(chosen, make_task(chosen.data))
    chosen.loss = LossConfig(repr_weight=0.1)
    assert model_config(chosen, make_task(chosen.data)).decoder.initial == "sized"


def test_the_encoder_must_know_the_size():
    with pytest.raises(UserError, match="the encoder needs mask_sum=True"):
        DSPN(DeepSetEncoder(2, 16, 5), initial="sized")
