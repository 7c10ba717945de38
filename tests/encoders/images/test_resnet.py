"""ResNet: torchvision's parameter names and shapes, the paper's tail, image sizes."""

import pytest
import torch

from setpredict.encoders import ResNetEncoder


@pytest.mark.parametrize(("depth", "parameters"), [(18, 11_689_512), (34, 21_797_672)])
def test_the_trunk_is_the_well_known_resnet(depth, parameters):
    encoder = ResNetEncoder(latent=512, depth=depth)
    trunk = {k: v for k, v in encoder.named_parameters() if not k.startswith("tail.")}
    classifier = 512 * 1000 + 1000  # the published counts include it
    assert sum(v.numel() for v in trunk.values()) == parameters - classifier
    assert trunk["layer2.0.downsample.0.weight"].shape == (128, 64, 1, 1)
    assert trunk["layer4.1.bn2.bias"].shape == (512,)
    assert "conv1.weight" in trunk
    assert "bn1.running_mean" in encoder.state_dict()
    last = {18: 1, 34: 2}[depth]
    assert f"layer4.{last}.conv2.weight" in trunk
    assert f"layer4.{last + 1}.conv2.weight" not in trunk


@pytest.mark.parametrize("tail", ["dspn", "idspn"])
@pytest.mark.parametrize("size", [64, 96, 128, 200, 256])
def test_any_square_size_from_64(size, tail):
    latent = 144  # divisible by 1, 4, 9 and 16 places
    encoder = ResNetEncoder(latent, size, depth=18, width=4, tail=tail)
    assert encoder(torch.rand(2, 3, size, size)).shape == (2, latent)


def test_the_papers_tail_at_128_pixels():
    tail = ResNetEncoder(latent=512, image_size=128, depth=18).tail
    assert tail is not None
    assert [tuple(p.shape) for p in tail.parameters() if p.ndim == 4] == [(512, 512, 3, 3), (512, 512, 2, 2)]


def test_wrong_sizes_are_named():
    with pytest.raises(ValueError, match="at least 64 pixels, got 32"):
        ResNetEncoder(512, 32)
    with pytest.raises(ValueError, match="18 or 34, got 50"):
        ResNetEncoder(512, depth=50)
    with pytest.raises(ValueError, match="takes 64×64 images, got 128×64"):
        ResNetEncoder(8, 64, 18, 4)(torch.rand(1, 3, 128, 64))
    with pytest.raises(ValueError, match="510 is not a multiple of 4"):
        ResNetEncoder(510, 128, 18, 4, tail="idspn")
