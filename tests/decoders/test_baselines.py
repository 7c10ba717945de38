"""The MLP and LSTM decoders against their descriptions in the paper."""

import pytest
import torch

from setpredict import Code, Decoder, LSTMDecoder, MLPDecoder
from setpredict.decoders import WithTargetLoss


def test_mlp_reads_its_outputs_as_elements():
    decoder, z = MLPDecoder(6, max_size=4, features=2, hidden=(5,), mask_bias=1.0), torch.randn(3, 6)
    outputs = decoder.layers(z).view(3, 4, 3)
    final = decoder(z).final
    assert torch.equal(final.elements, outputs[..., :2])
    assert torch.equal(final.mask, outputs[..., 2] + 1)
    assert decoder(z).grad_from == 0
    assert decoder(z).repr_loss is None


def test_lstm_starts_from_the_cell_state():
    decoder, z = LSTMDecoder(6, max_size=4, features=2, hidden=5), torch.randn(3, 6)
    cell = torch.nn.LSTMCell(1, 5)
    cell.load_state_dict({k.removesuffix("_l0"): v for k, v in decoder.lstm.state_dict().items()})
    h, c = torch.zeros(3, 5), decoder.cell(z)
    for i in range(4):
        h, c = cell(torch.zeros(3, 1), (h, c))
        torch.testing.assert_close(decoder(z).final.elements[:, i], decoder.output(h)[:, :2])


@pytest.mark.parametrize("kind", [MLPDecoder, LSTMDecoder])
def test_they_are_one_shot_decoders(kind):
    decoder, z = kind(6, max_size=4, features=2), torch.randn(3, 6)
    assert isinstance(decoder, Decoder)
    assert decoder.steps == 0
    assert torch.equal(decoder(Code(z), steps=7).elements, decoder(z).elements)
    assert not isinstance(decoder, WithTargetLoss)


@pytest.mark.parametrize("kind", [MLPDecoder, LSTMDecoder])
def test_fixed_sizes_and_single_samples(kind):
    final = kind(6, 4, 2, variable=False)(torch.randn(1, 6)).final
    assert final.elements.shape == (1, 4, 2)
    assert final.mask.eq(1).all()
