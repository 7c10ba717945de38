"""Element-wise baselines: equivariant Deep Sets, which cannot tell equal elements apart, and a BiLSTM, which can."""

import pytest
import torch

from setpredict.config import DecoderConfig, InputConfig, ModelConfig
from setpredict.core.errors import UserError
from setpredict.decoders import ElementwiseDecoder
from setpredict.decoders.elementwise import DeepSets
from setpredict.encoders import Code
from setpredict.model import SetPredictor

NETWORKS = ["deep-sets", "bilstm"]


def coded(tokens: torch.Tensor, mask: torch.Tensor | None = None) -> Code:
    return Code(tokens.new_zeros(len(tokens), 0), tokens=tokens, token_mask=mask)


@pytest.fixture
def tokens() -> torch.Tensor:
    torch.manual_seed(0)
    found = torch.rand(3, 5, 4)
    found[:, 3] = found[:, 0]  # a duplicate
    return found


@pytest.mark.parametrize(("network", "equal"), [("deep-sets", True), ("bilstm", False)])
def test_who_treats_equal_elements_alike(tokens, network, equal):
    decoder = ElementwiseDecoder(4, 5, 2, network)
    found = decoder(coded(tokens)).final.elements
    assert torch.allclose(found[:, 3], found[:, 0], atol=1e-6) == equal
    order = torch.tensor([4, 2, 0, 1, 3])
    permuted = decoder(coded(tokens[:, order])).final.elements
    assert torch.allclose(permuted, found[:, order], atol=1e-6) == equal


def test_deep_sets_by_the_formula(tokens):
    decoder = ElementwiseDecoder(4, 5, 2, hidden=8, variable=True)
    mask = torch.tensor([[True, True, True, False, False]] * 3)
    found = decoder(coded(tokens, mask)).final
    network = decoder.network
    assert isinstance(network, DeepSets)
    for sample in range(3):
        rows = tokens[sample, :3]
        for own, others in zip(network.own, network.others):
            mean = rows.mean(dim=0)
            rows = torch.stack([(own(row) + others(mean)).relu() for row in rows])
        wanted = rows @ decoder.output.weight.T + decoder.output.bias
        torch.testing.assert_close(found.elements[sample, :3], wanted[:, :2])
        torch.testing.assert_close(found.mask[sample, :3], wanted[:, 2])


def test_a_bilstm_is_two_lstms(tokens):
    decoder = ElementwiseDecoder(4, 5, 2, "bilstm", hidden=6)
    lstm, states = decoder.network.lstm, []
    for suffix, order in (("", range(5)), ("_reverse", reversed(range(5)))):
        cell = torch.nn.LSTMCell(4, 3)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(cell, name, getattr(lstm, f"{name}_l0{suffix}"))
        state, seen = (torch.zeros(3, 3), torch.zeros(3, 3)), {}
        for i in order:
            state = cell(tokens[:, i], state)
            seen[i] = state[0]
        states.append(torch.stack([seen[i] for i in range(5)], dim=1))
    wanted = decoder.output(torch.cat(states, dim=-1))
    torch.testing.assert_close(decoder(coded(tokens)).final.elements, wanted)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_model_from_its_configuration_trains_every_weight(network):
    config = ModelConfig(
        6, 10, variable=False, input=InputConfig("set", 4), decoder=DecoderConfig(network, hidden=(8,))
    )
    model = SetPredictor.from_config(config)
    given = torch.rand(2, 6, 4)
    found = model(given)
    assert found.final.elements.shape == (2, 6, 10)
    found.final.elements.square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []
    alone = torch.cat([model(given[i : i + 1]).final.elements for i in range(2)])
    torch.testing.assert_close(alone, found.final.elements)


def test_what_they_cannot_take():
    for decoder, input, message in (
        (DecoderConfig("deep-sets"), InputConfig("vector", 5), "decoder.kind deep-sets starts from the elements of an"),
        (DecoderConfig("bilstm", hidden=()), InputConfig("set", 5), "decoder.hidden must have the width of bilstm"),
        (DecoderConfig("bilstm", hidden=(3,)), InputConfig("set", 5), "a BiLSTM needs an even width"),
    ):
        with pytest.raises(UserError, match=message):
            SetPredictor.from_config(ModelConfig(6, 2, input=input, decoder=decoder))
