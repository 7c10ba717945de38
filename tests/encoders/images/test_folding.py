"""Batch norms folded into convolutions at inference: the same codes as without, and never from old weights."""

import copy

import pytest
import torch
from torch import nn

from setpredict.encoders import ConvEncoder, ResNetEncoder
from setpredict.encoders.images import folding
from setpredict.encoders.images.encoder import ImageEncoder

ENCODERS = {
    "conv": lambda: ImageEncoder(ConvEncoder(16, 32)),
    "resnet, dspn": lambda: ImageEncoder(ResNetEncoder(16, 64, depth=10, width=8)),
    "resnet, idspn": lambda: ImageEncoder(ResNetEncoder(16, 128, depth=18, width=8, tail="idspn")),
    "resnet, small stem": lambda: ImageEncoder(ResNetEncoder(16, 64, depth=10, width=8, stem="small")),
}


def trained(name):
    """An encoder whose batch norms have statistics and weights of their own."""
    torch.manual_seed(0)
    encoder = ENCODERS[name]()
    for norm in encoder.modules():
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.uniform_(norm.weight, 0.5, 2)
            nn.init.normal_(norm.bias)
            nn.init.normal_(norm.get_buffer("running_mean"))
            nn.init.uniform_(norm.get_buffer("running_var"), 0.2, 3)
    return encoder.eval(), torch.rand(3, 3, encoder.backbone.image_size, encoder.backbone.image_size)


def codes(encoder, images, grad=False):
    with torch.set_grad_enabled(grad):
        features, vector = encoder.backbone.maps(images.contiguous(memory_format=encoder.layout))
        return torch.cat([features.detach().flatten(1), vector.detach()], dim=1)


@pytest.fixture
def norms_called(monkeypatch):
    """How many batch norms were computed on their own."""
    called, forward = [], nn.BatchNorm2d.forward
    monkeypatch.setattr(nn.BatchNorm2d, "forward", lambda norm, x: called.append(norm) or forward(norm, x))
    return called


@pytest.mark.parametrize("name", ENCODERS)
def test_folded_codes_are_those_of_the_layers(name, norms_called):
    encoder, images = trained(name)
    before = copy.deepcopy(encoder.state_dict())
    oracle = codes(encoder.double(), images.double(), grad=True)  # gradients on: nothing is folded
    unfolded = len(norms_called)
    encoder.float()
    found = codes(encoder, images)
    alone = {"resnet, idspn": 1}.get(name, 0)  # a batch norm that has no convolution before it
    assert unfolded > 3
    assert len(norms_called) - unfolded == alone
    assert float((found - oracle).norm() / oracle.norm()) < 1e-5
    after = encoder.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[key], before[key]) for key in before)


def measure_again(norm: nn.BatchNorm2d) -> None:
    """New statistics, without a training step."""
    norm.train()
    norm(10 + torch.randn(4, norm.num_features, 8, 8))
    norm.eval()


def step_of_a_fused_optimizer(encoder: nn.Module):
    """Change all weights, and no statistics."""
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.1, fused=True)
    for parameter in encoder.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()


def test_weights_that_changed_are_folded_again():
    encoder, images = trained("conv")
    old = codes(encoder, images)
    norm = next(m for m in encoder.modules() if isinstance(m, nn.BatchNorm2d))
    changes = [
        lambda: norm.get_buffer("running_mean").add_(1),
        lambda: norm.weight.mul_(2),
        lambda: encoder.load_state_dict({k: v * 1.1 for k, v in encoder.state_dict().items()}),
        lambda: setattr(norm, "bias", nn.Parameter(norm.bias + 1)),
        lambda: measure_again(norm),
        lambda: norm.weight.data.copy_(norm.weight * 3),  # which no version counts
        lambda: step_of_a_fused_optimizer(encoder),
    ]
    for change in changes:
        with torch.no_grad():
            change()
        new, oracle = codes(encoder, images), codes(encoder, images, grad=True)
        assert float((new - oracle).norm() / oracle.norm()) < 1e-5
        assert float((new - old).norm() / oracle.norm()) > 1e-3
        old = new


def test_training_mode_is_not_folded(norms_called):
    encoder, images = trained("conv")
    encoder.train()
    codes(encoder, images)
    assert norms_called


def test_hooks_still_see_the_layers():
    encoder, images = trained("conv")
    norm = next(m for m in encoder.modules() if isinstance(m, nn.BatchNorm2d))
    heard = []
    norm.register_forward_hook(lambda *_: heard.append(1))
    codes(encoder, images)
    assert heard == [1]


def test_folded_weights_are_made_once_and_forgotten_with_the_model(monkeypatch):
    encoder, images = trained("conv")
    made, fold = [], folding.fold
    monkeypatch.setattr(folding, "fold", lambda *layers: made.append(layers[0]) or fold(*layers))
    first = codes(encoder, images)
    count = len(made)
    assert torch.equal(codes(encoder, images), first)
    assert len(made) == count > 3
    kept = len(folding._folded)
    made.clear()
    del encoder
    assert len(folding._folded) == kept - count
