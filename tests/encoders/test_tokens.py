"""Codes with tokens: what input encoders offer, and that nothing is computed that the decoder does not need."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from setpredict import Code, DeepSetEncoder, ResNetEncoder
from setpredict.build import make_task
from setpredict.config import DecoderConfig, EncoderConfig, GradientDescent, InputConfig, ModelConfig
from setpredict.core.errors import UserError
from setpredict.encoders import MLP, ConvEncoder, ImageEncoder, PositionEmbedding, SetTokens, VectorTokens
from setpredict.encoders.tokens import padded_tokens, present
from setpredict.model import SetPredictor
from setpredict.presets import preset
from setpredict.resolve import model_config
from setpredict.sets import Sets

SLOTS = DecoderConfig("slots", GradientDescent(steps=2), width=8, hidden=(8,))
TRANSFORMER = DecoderConfig("transformer", GradientDescent(steps=2), width=8, heads=2, hidden=(8,))


def config(input: InputConfig, decoder: DecoderConfig, **options) -> ModelConfig:
    return ModelConfig(4, 3, latent=8, input=input, decoder=decoder, encoder=EncoderConfig(hidden=(8,)), **options)


def test_sets_are_their_own_tokens():
    encoder = DeepSetEncoder(3, 8, 4)
    elements, mask = torch.rand(2, 4, 3), torch.tensor([[True] * 4, [True, False, False, False]])
    code = SetTokens(encoder)(elements, mask)
    assert code.tokens is elements
    assert code.token_mask is not None
    assert torch.equal(code.token_mask, mask)
    assert torch.equal(code.vector, encoder(elements, mask))
    assert SetTokens()(elements).vector.shape == (2, 0)
    assert SetTokens()(elements).token_mask is None


@pytest.mark.parametrize("decoder", [SLOTS, TRANSFORMER])
def test_sets_can_be_one_token(decoder):
    """Through a vector, the order and the number of elements are not seen; with elements as tokens, they are."""
    torch.manual_seed(0)
    sets = InputConfig("set", 3, max_size=6, shared=False, variable=False, tokens="vector")
    model = SetPredictor.from_config(config(sets, decoder))
    elements = torch.rand(2, 6, 3)
    code = model.encode(Sets(elements, torch.ones(2, 6, dtype=torch.bool)))
    assert code.tokens is not None
    assert code.tokens.shape == (2, 1, 8)
    assert torch.equal(code.tokens[:, 0], code.vector)
    assert model(Sets(elements, torch.ones(2, 6, dtype=torch.bool))).final.elements.shape == (2, 4, 3)


def test_elements_cannot_be_queries_and_hidden():
    sets = InputConfig("set", 3, shared=False, variable=False, tokens="vector")
    with pytest.raises(UserError, match=r"decoder\.queries input starts from the elements.*--input\.tokens elements"):
        SetPredictor.from_config(config(sets, replace(TRANSFORMER, queries="input")))


def test_sets_that_are_their_own_target_are_not_copied():
    experiment = preset("multisets", "transformer")
    assert model_config(experiment, make_task(experiment.data)).input.tokens == "vector"
    experiment = preset("numbering", "transformer")
    assert model_config(experiment, make_task(experiment.data)).input.tokens == "elements"


def test_a_vector_is_one_token():
    encoder = MLP(5, [6], 8)
    code = VectorTokens(encoder)(torch.rand(2, 5))
    assert code.tokens is not None
    assert torch.equal(code.tokens[:, 0], code.vector)


@pytest.mark.parametrize("stride", [4, 8, 16])
@pytest.mark.parametrize("kind", ["conv", "resnet"])
def test_the_tokens_of_an_image_are_its_map_with_positions(kind, stride):
    torch.manual_seed(0)
    if kind == "conv":
        backbone = ConvEncoder(8, 64, (8, 8, 12, 16), stride).eval()
    else:
        backbone = ResNetEncoder(8, 64, depth=10, width=8, stride=stride).eval()
    encoder, images = ImageEncoder(backbone, tokens=True).eval(), torch.rand(2, 3, 64, 64)
    code, (features, vector) = encoder(images), backbone.maps(images)
    side = 64 // stride
    assert encoder.positions is not None
    assert code.tokens.shape == (2, side * side, backbone.map_channels)
    row, column = side - 1, 1
    x, y = column / (side - 1), row / (side - 1)
    place = encoder.positions.place(torch.tensor([x, y, 1 - x, 1 - y]))
    torch.testing.assert_close(code.tokens[:, row * side + column], features[:, :, row, column] + place)
    torch.testing.assert_close(code.vector, vector)


def test_positions_tell_equal_cells_apart():
    tokens = PositionEmbedding(6)(torch.zeros(1, 6, 3, 4))[0]
    assert tokens.shape == (12, 6)
    assert len({tuple(t.tolist()) for t in tokens}) == 12


@pytest.mark.parametrize("kind", ["conv", "resnet"])
def test_without_a_vector_the_network_ends_with_the_map(kind):
    """The same map, from the same weights, by fewer layers."""
    options: dict[str, Any] = {"depth": 10, "width": 8} if kind == "resnet" else {"widths": (8, 8, 12, 16)}
    cls = ResNetEncoder if kind == "resnet" else ConvEncoder
    full, short = cls(8, 64, **options).eval(), cls(8, 64, **options, vector=False).eval()
    kept = short.state_dict()
    assert not [name for name in kept if name.startswith("tail")]
    assert len(kept) < len(full.state_dict())
    short.load_state_dict({name: w for name, w in full.state_dict().items() if name in kept})
    images = torch.rand(2, 3, 64, 64)
    features, vector = short.maps(images)
    torch.testing.assert_close(features, full.maps(images)[0])
    assert vector.shape == (2, 0)


INPUTS = {
    "set": (InputConfig("set", 3), Sets.from_list(torch.rand(2, 4, 3))),
    "vector": (InputConfig("vector", 5, hidden=(8,)), torch.rand(2, 5)),
    "conv": (InputConfig("conv", 32, widths=(8, 8, 8)), torch.rand(2, 3, 32, 32)),
    "resnet": (InputConfig("resnet", 64, depth=10, width=8), torch.rand(2, 3, 64, 64)),
}


@pytest.mark.parametrize("decoder", [SLOTS, TRANSFORMER], ids=["slots", "transformer"])
@pytest.mark.parametrize("kind", INPUTS)
def test_every_input_goes_with_every_decoder_and_every_weight_is_trained(kind, decoder, tmp_path):
    input, given = INPUTS[kind]
    model = SetPredictor.from_config(config(input, decoder))
    prediction = model(given)
    (prediction.final.elements.square().sum() + prediction.final.mask.square().sum()).backward()
    unused = [name for name, p in model.named_parameters() if p.grad is None]
    assert not unused, "several processes would wait for these gradients for ever"
    code = model.encode(given)
    assert code.tokens is not None
    assert (code.vector.shape[1] > 0) == (kind == "vector")
    model.save_pretrained(tmp_path)
    loaded = SetPredictor.from_pretrained(tmp_path)
    assert torch.equal(loaded.predict(given).elements, model.predict(given).elements)
    assert model.max_steps == (2 if decoder is TRANSFORMER else None)


def test_tokens_are_made_only_where_they_are_needed():
    for input, given in INPUTS.values():
        model = SetPredictor.from_config(config(input, DecoderConfig("mlp", hidden=(8,))))
        assert model.encode(given).tokens is None


def test_codes_are_cut_and_joined():
    code = Code(torch.rand(3, 0), tokens=torch.rand(3, 4, 2), token_mask=torch.rand(3, 4) > 0.5)
    again = Code.cat([code[:1], code[1:]])
    assert code.tokens is not None
    assert again.tokens is not None
    assert torch.equal(again.tokens, code.tokens)
    assert again.token_mask is not None
    assert code.token_mask is not None
    assert torch.equal(again.token_mask, code.token_mask)
    assert again.proposals is None


def test_padding_of_tokens():
    code = Code(torch.zeros(2, 0), tokens=torch.rand(2, 2, 3))
    tokens, mask = padded_tokens(code, 4)
    assert mask.tolist() == [[True, True, False, False]] * 2
    assert tokens[:, 2:].eq(0).all()
    with pytest.raises(ValueError, match="the input has 2 elements, more than the 1 of the output"):
        padded_tokens(code, 1)
    empty = torch.tensor([[True, False], [False, False]])
    assert present(torch.zeros(2, 2, 3), empty).tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize("option", ["decoder.initial", "decoder.queries"])
def test_the_input_as_a_start_needs_a_set_that_fits(option):
    decoder = DecoderConfig(initial="input") if option == "decoder.initial" else DecoderConfig("transformer")
    decoder.queries = "input"
    for input, message in (
        (InputConfig("vector", 5), f"{option} input starts from the elements of an input set, but the input is a vec"),
        (InputConfig("set", 3, max_size=9), f"{option} input needs an output element for each of 9 input elements"),
    ):
        with pytest.raises(UserError, match=message):
            SetPredictor.from_config(config(input, decoder))
    with pytest.raises(UserError, match="needs an output element for each of 2 input elements, got 4"):
        SetPredictor.from_config(config(InputConfig("set", 3, max_size=2), decoder, variable=False))
    if option == "decoder.initial":
        with pytest.raises(UserError, match="needs input elements of 1 to 3 features, got 5"):
            SetPredictor.from_config(config(InputConfig("set", 5), decoder))
