"""ResNets that were trained elsewhere: reading their weights, in torchvision's or timm's files."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
from torch import Tensor

from setpredict.core.errors import UserError, first_line
from setpredict.core.weights import read_weights
from setpredict.encoders.images.resnet import BLOCKS, ResNetEncoder

WRAPPERS = ("state_dict", "model", "model_state_dict")
"""Where training scripts put the weights in a larger dictionary."""
PREFIXES = ("module.", "model.", "backbone.", "resnet.")
"""What training scripts put before the name of every weight."""


def load_pretrained(encoder: ResNetEncoder, path: str | Path) -> None:
    """Give the stem and the stages of a ResNet the weights of a file, or raise an error and change nothing.

    A .safetensors file, or a .pth or .pt file, which is read without executing anything in it. Names are those of
    torchvision and timm; the file's classifier is ignored, and the encoder's own tail stays as it is.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"--input.weights: {path} not found")
    weights = _without_prefix(_read(path))
    own = {n: w for n, w in encoder.state_dict().items() if not n.startswith("tail.")}
    found = {n: w for n, w in weights.items() if n.startswith(("conv1.", "bn1.", "layer"))}
    depth = _depth(found)
    if depth != encoder.depth:
        there = (
            f"a ResNet{depth}: use --input.depth {depth}" if depth else "no ResNet18 or ResNet34 of torchvision or timm"
        )
        raise UserError(f"--input.weights: this is a ResNet{encoder.depth}, and {path} holds {there}")
    for name, mine in own.items():
        if name.endswith("num_batches_tracked"):
            continue
        if name not in found:
            raise UserError(f"--input.weights: {path} has no {name}")
        if found[name].shape != mine.shape:
            shapes = f"{tuple(found[name].shape)}, not {tuple(mine.shape)}"
            raise UserError(
                f"--input.weights: {name} in {path} has the shape {shapes}; ImageNet's have --input.width 64"
            )
        if not bool(torch.isfinite(found[name]).all()):
            raise UserError(f"--input.weights: {name} in {path} has values that are not finite")
    encoder.load_state_dict({n: w for n, w in found.items() if n in own}, strict=False)


def _read(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        return read_weights(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as e:
        raise UserError(f"--input.weights: {path} is not a file of weights alone: {first_line(e)[:200]}") from None
    for wrapper in WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    if not isinstance(content, dict) or not all(isinstance(w, Tensor) for w in content.values()):
        raise UserError(f"--input.weights: {path} holds {type(content).__name__}, not named tensors")
    return content


def _without_prefix(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    for prefix in PREFIXES:
        if weights and all(name.startswith(prefix) for name in weights):
            weights = {name.removeprefix(prefix): w for name, w in weights.items()}
    return weights


def _depth(weights: dict[str, Tensor]) -> int | None:
    """Which of our ResNets these weights belong to; None for others, such as ResNet50."""
    blocks = tuple(len({n.split(".")[1] for n in weights if n.startswith(f"layer{i}.")}) for i in (1, 2, 3, 4))
    bottleneck = any(".conv3." in name for name in weights)
    return None if bottleneck else next((depth for depth, count in BLOCKS.items() if count == blocks), None)
