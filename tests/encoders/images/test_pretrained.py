"""ResNets from files: both namings, what is normalized and frozen, and files that do not fit."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from setpredict.build import make_optimizer
from setpredict.config import TrainConfig
from setpredict.core.errors import UserError
from setpredict.encoders import ResNetEncoder
from setpredict.encoders.images.pretrained import load_pretrained
from setpredict.encoders.images.resnet import IMAGENET_MEAN, IMAGENET_STD


def resnet(**options) -> ResNetEncoder:
    return ResNetEncoder(16, image_size=64, depth=18, width=8, **options)


def imagenet_weights() -> dict[str, torch.Tensor]:
    """As torchvision and timm name them: a ResNet18's body and a classifier, all different from any fresh encoder."""
    torch.manual_seed(7)
    body = {n: torch.randn_like(w.float()) for n, w in resnet().state_dict().items() if not n.startswith("tail.")}
    body = {n: w.abs() if n.endswith("running_var") else w for n, w in body.items()}
    tracked = {n: torch.tensor(100) for n in body if n.endswith("num_batches_tracked")}
    return {**body, **tracked, "fc.weight": torch.randn(10, 64), "fc.bias": torch.randn(10)}


@pytest.mark.parametrize("kind", ["torchvision.pth", "timm.safetensors", "wrapped.pt", "parallel.pth"])
def test_weights_of_every_kind_of_file_are_loaded(kind, tmp_path):
    weights, path = imagenet_weights(), tmp_path / kind
    if kind == "timm.safetensors":  # timm saves without counts of batches
        save_file({n: w for n, w in weights.items() if not n.endswith("num_batches_tracked")}, path)
    elif kind == "wrapped.pt":
        torch.save({"epoch": 3, "state_dict": weights}, path)
    elif kind == "parallel.pth":
        torch.save({f"module.{n}": w for n, w in weights.items()}, path)
    else:
        torch.save(weights, path)
    encoder = resnet(pretrained=True)
    tail = {n: w.clone() for n, w in encoder.state_dict().items() if n.startswith("tail.")}
    load_pretrained(encoder, path)
    for name, value in encoder.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            assert torch.equal(value, tail[name] if name in tail else weights[name]), name


def test_images_are_normalized_and_statistics_stay():
    torch.manual_seed(0)
    plain, encoder = resnet(), resnet(pretrained=True)
    encoder.load_state_dict(plain.state_dict())
    images = torch.rand(4, 3, 64, 64)
    by_hand = (images - torch.tensor(IMAGENET_MEAN)[:, None, None]) / torch.tensor(IMAGENET_STD)[:, None, None]
    torch.testing.assert_close(encoder.eval()(images), plain.eval()(by_hand))
    before = {n: b.clone() for n, b in encoder.named_buffers()}
    encoder.train()(images)
    changed = {n.split(".")[0] for n, b in encoder.named_buffers() if not torch.equal(b, before[n])}
    assert changed == {"tail"}


@pytest.mark.parametrize(
    ("freeze", "fixed"), [("none", ()), ("stem", ("conv1", "bn1")), ("stages", ("conv1", "bn1", "layer"))]
)
def test_frozen_parts_do_not_change_and_others_learn_slowly(freeze, fixed):
    torch.manual_seed(0)
    encoder = resnet(pretrained=True, freeze=freeze)
    optimizer = make_optimizer(encoder, TrainConfig(lr=1e-3), weights_rate=0.1)
    before = {n: p.clone() for n, p in encoder.named_parameters()}
    encoder(torch.rand(4, 3, 64, 64)).square().sum().backward()
    for group in optimizer.param_groups:
        group["lr"] = group["factor"] * 1e-3
    optimizer.step()
    for name, parameter in encoder.named_parameters():
        moved = (parameter - before[name]).abs().max().item()
        if name.startswith(fixed):
            assert moved == 0, name
        else:  # Adam's first step is the learning rate
            assert moved == pytest.approx(1e-3 if name.startswith("tail") else 1e-4, rel=0.05), name


def test_files_that_do_not_fit_are_refused(tmp_path):
    weights, encoder = imagenet_weights(), resnet(pretrained=True)
    before = {n: w.clone() for n, w in encoder.state_dict().items()}
    deeper = ResNetEncoder(16, image_size=64, depth=34, width=8).state_dict()
    wide = ResNetEncoder(16, image_size=64, depth=18, width=16).state_dict()
    cases = {
        "deep.pth": (deeper, "this is a ResNet18, and .* holds a ResNet34: use --input.depth 34"),
        "wide.pth": (wide, r"conv1.weight in .* has the shape \(16, 3, 7, 7\), not \(8, 3, 7, 7\)"),
        "part.pth": ({n: w for n, w in weights.items() if n != "bn1.bias"}, "has no bn1.bias"),
        "nan.pth": ({**weights, "bn1.bias": weights["bn1.bias"] * float("nan")}, "not finite"),
        "bottleneck.pth": ({**weights, "layer1.0.conv3.weight": torch.zeros(1)}, "holds no ResNet18 or ResNet34"),
        "list.pth": ([1, 2], "holds list, not named tensors"),
        "module.pth": (nn.Linear(2, 2), "not a file of weights alone"),
    }
    for name, (content, reason) in cases.items():
        torch.save(content, tmp_path / name)
        with pytest.raises(UserError, match=reason):
            load_pretrained(encoder, tmp_path / name)
    (tmp_path / "text.pth").write_bytes(b"hello")
    for name, reason in (("text.pth", "not a file of weights alone"), ("none.pth", "none.pth not found")):
        with pytest.raises(UserError, match=reason):
            load_pretrained(encoder, tmp_path / name)
    assert all(torch.equal(w, before[n]) for n, w in encoder.state_dict().items())
