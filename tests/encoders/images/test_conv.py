"""The small residual encoder: its maps, its memory format, and the image encoder around a backbone."""

import pytest
import torch

from setpredict import UserError
from setpredict.encoders import ConvEncoder, DenseHead, ElementLayout, ImageEncoder, ResNetEncoder


@pytest.mark.parametrize(
    ("size", "stride", "side"), [(64, 8, 8), (128, 8, 16), (128, 16, 8), (64, 4, 16), (100, 8, 13)]
)
def test_the_map_has_one_cell_per_stride(size, stride, side):
    encoder = ConvEncoder(10, size, (4, 6, 8, 10), stride).eval()
    features, vector = encoder.maps(torch.rand(2, 3, size, size))
    assert features.shape == (2, encoder.map_channels, side, side)
    assert vector.shape == (2, 10)


@pytest.mark.parametrize(("stem", "strides"), [("imagenet", {4: 32, 8: 16, 16: 8}), ("small", {4: 32, 8: 16, 16: 8})])
def test_a_resnet_has_maps_of_every_stride(stem, strides):
    for stride, side in strides.items():
        encoder = ResNetEncoder(8, 128, 10, 4, stem=stem, stride=stride).eval()
        features, vector = encoder.maps(torch.rand(1, 3, 128, 128))
        assert features.shape == (1, encoder.map_channels, side, side), stride
        assert vector.shape == (1, 8)


def test_positions_are_seen():
    """The same patch at two places has two codes, even through a convolution that looks the same everywhere."""
    torch.manual_seed(0)
    encoder = ConvEncoder(16, 32, (8, 8)).eval()
    here, there = torch.zeros(2, 1, 3, 32, 32)
    here[..., 4:8, 4:8] = 1
    there[..., 20:24, 20:24] = 1
    assert not torch.allclose(encoder(here), encoder(there), atol=1e-3)


@pytest.mark.parametrize("backbone", [ConvEncoder, ResNetEncoder])
def test_the_memory_format_changes_rounding_only(backbone, monkeypatch):
    results = []
    for layout in (torch.contiguous_format, torch.channels_last):
        monkeypatch.setattr(ImageEncoder, "memory_format", layout)
        torch.manual_seed(0)
        encoder = ImageEncoder(backbone(8, 64)).eval()
        weight = next(p for p in encoder.parameters() if p.ndim == 4 and p.shape[1] > 1)
        assert weight.is_contiguous(memory_format=layout)
        results.append(encoder(torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))).vector)
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


def test_narrow_convolutions_keep_the_ordinary_format():
    """channels_last with fewer than 8 channels corrupts memory in torch 2.13."""
    assert ImageEncoder(ConvEncoder(8, 32, (4, 8))).layout == torch.contiguous_format
    assert ImageEncoder(ConvEncoder(8, 32, (8, 8))).layout == torch.channels_last


def test_a_code_has_proposals_only_with_a_head():
    backbone = ConvEncoder(8, 32, (4, 6, 8), 4)
    assert ImageEncoder(backbone)(torch.rand(2, 3, 32, 32)).proposals is None
    head = DenseHead(backbone.map_channels, ElementLayout(4, "box"))
    code = ImageEncoder(backbone, head, 5)(torch.rand(2, 3, 32, 32))
    assert code.proposals is not None
    assert code.proposals.elements.shape == (2, 5, 4)
    assert code.dense is not None


def test_bad_options_are_named():
    with pytest.raises(UserError, match="at least 16 pixels, got 8"):
        ConvEncoder(8, 8)
    with pytest.raises(UserError, match="two or more channel counts above 0, got 4 0"):
        ConvEncoder(8, 64, (4, 0))
    with pytest.raises(UserError, match="stride must be a power of two from 4 to 16"):
        ConvEncoder(8, 64, (4, 4, 4), stride=32)
    with pytest.raises(ValueError, match="takes 64×64 images, got 32×64"):
        ConvEncoder(8, 64)(torch.rand(1, 3, 32, 64))
