"""SetPredictor: an input encoder and a decoder, saved and loaded as one model."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from setpredict.config import ConfigError, EncoderConfig, ModelConfig, from_dict, to_dict
from setpredict.decoders import DSPN, LSTMDecoder, MLPDecoder
from setpredict.encoders import MLP, DeepSetEncoder, RelationEncoder, ResNetEncoder
from setpredict.core.files import atomic, write_text
from setpredict.core.modes import evaluating
from setpredict.sets import NotFinite, Prediction, Sets


class SetPredictor(nn.Module):
    """input → vector z → set: any input encoder before any decoder.

    >>> from setpredict.config import ModelConfig
    >>> model = SetPredictor.from_config(ModelConfig(max_size=8, features=2))
    >>> model.predict([[[0.1, 0.2], [0.3, 0.4]]])
    Sets(1 sets of up to 8 elements with 2 features, sizes ...)
    """

    def __init__(self, input_encoder: nn.Module, decoder: nn.Module, config: ModelConfig | None = None):
        super().__init__()
        self.input_encoder, self.decoder, self.config = input_encoder, decoder, config

    @classmethod
    def from_config(cls, config: ModelConfig) -> SetPredictor:
        """Build the model that a configuration describes, with fresh weights from torch's global seed."""
        decoder = _decoder(config)
        return cls(_input_encoder(config, decoder), decoder, config)

    def forward(
        self,
        input: Tensor | Sets,
        target: Sets | None = None,
        *,
        steps: int | None = None,
        keys: Int[Tensor, " B"] | None = None,
    ) -> Prediction:
        """Every set on the way. With the target, its representation loss is there too, for the λ term of training."""
        z = self.encode(input)
        if not isinstance(self.decoder, DSPN):
            return self.decoder(z)
        prediction = self.decoder(z, steps=steps, keys=keys)
        if target is not None and self.decoder.encoder is not self.input_encoder:
            prediction.target_loss = self.decoder.target_loss(target, z)
        return prediction

    def encode(self, input: Tensor | Sets) -> Tensor:
        """The vector z (B, L) of each input."""
        if not isinstance(input, Sets):
            return self.input_encoder(input)
        if self.config:  # the code must not depend on how much padding a batch happens to have
            input = input.pad_to(self.config.input.max_size or self.config.max_size)
        fixed = isinstance(self.input_encoder, DeepSetEncoder | RelationEncoder) and (
            self.input_encoder.mask_role == "none"
        )
        if fixed and not bool(input.sizes.eq(input.elements.shape[1]).all()):
            room, least = input.elements.shape[1], int(input.sizes.min())
            raise ValueError(f"this model takes sets of exactly {room} elements, got one of {least}")
        return self.input_encoder(input.elements, None if fixed else input.mask)

    @torch.no_grad()
    def predict(self, input: Any, steps: int | None = None) -> Sets:
        """The predicted sets, without a target, in evaluation mode. `model(input)` has every step.

        Takes what the model was made for: images (B, 3, S, S) in [0, 1], vectors (B, L), or sets (`Sets`, or a ragged
        list of them). Other arrays and lists become tensors; all is moved to the model's device.
        """
        with evaluating(self):
            return self(self.prepare(input), steps=steps).final

    def prepare(self, input: Any) -> Tensor | Sets:
        """Any input as the tensor or Sets that this model takes, on its device, or an error that says what it takes."""
        weight = next(self.parameters())
        wants = self.config.input if self.config else None
        if isinstance(input, Sets) or (wants and wants.kind == "set"):
            size = (wants.max_size or self.config.max_size) if self.config and wants else None
            if isinstance(input, Sets):
                sets = input
            else:
                sets = Sets.from_list(input, max_size=size, features=wants.size if wants else None)
            if wants and (wants.kind != "set" or sets.elements.shape[2] != wants.size):
                raise ValueError(f"this model takes {_describe(wants)}, got {sets!r}")
            largest = int(sets.sizes.max()) if len(sets) else 0
            if size is not None and largest > size:
                raise ValueError(f"this model takes sets of up to {size} elements, got one of {largest}")
            if size is not None and sets.elements.shape[1] > size:  # more padding than there is room for
                sets = sets.permute(sets.mask.float().argsort(dim=1, descending=True, stable=True))
                sets = Sets(sets.elements[:, :size], sets.mask[:, :size])
            return sets.check_finite("input").to(weight.device, weight.dtype)
        given = input if isinstance(input, Tensor) else np.asarray(input)
        if wants and wants.kind == "image" and "int" in str(given.dtype):
            raise ValueError(f"images are numbers from 0 to 1, got {given.dtype}: divide by 255")
        tensor = given if isinstance(given, Tensor) else torch.from_numpy(given.astype(np.float32))
        if wants:
            shape = (wants.size,) if wants.kind == "vector" else (3, wants.size, wants.size)
            if tuple(tensor.shape[1:]) != shape:
                raise ValueError(f"this model takes {_describe(wants)}, got shape {tuple(tensor.shape)}")
        if not bool(torch.isfinite(tensor).all()):
            raise NotFinite("the input has values that are not finite")
        return tensor.to(weight.device, weight.dtype)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors`, each whole or not at all."""
        if self.config is None:
            raise ConfigError("this model was put together by hand, so no config.json can be written for it; build it "
                              "with SetPredictor.from_config, or give SetPredictor(…, config=…)")  # fmt: skip
        folder = Path(folder)
        with atomic(folder / "model.safetensors") as temporary:
            save_model(self, str(temporary))
        write_text(folder / "config.json", json.dumps(to_dict(self.config), indent=2) + "\n")

    @classmethod
    def from_pretrained(cls, folder: str | Path, device: str = "cpu", allow_own_code: bool = False) -> SetPredictor:
        """Load what `save_pretrained` wrote. Nothing in the files is executed, with one exception: an encoder of
        somebody's own (module:Class) is imported by name, and only if `allow_own_code` is set."""
        folder = Path(folder)
        config = read_config(folder / "config.json")
        if ":" in config.encoder.kind and not allow_own_code:
            raise ConfigError(f"{folder / 'config.json'} asks for the code {config.encoder.kind!r}; "
                              "if you trust it, pass allow_own_code=True")  # fmt: skip
        model = cls.from_config(config)
        load_weights(model, folder / "model.safetensors", keep_precision=True)
        return model.to(device)


def read_config(path: Path) -> ModelConfig:
    """The model's configuration from a JSON file, or an error that names what is wrong in it."""
    try:
        return from_dict(ModelConfig, json.loads(path.read_text(encoding="utf-8")), where=path.name)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there: is {path.parent} a saved model?") from None
    except json.JSONDecodeError as e:
        raise ConfigError(f"{path} is not valid JSON: {e}") from None


def load_weights(model: nn.Module, path: Path, keep_precision: bool = False) -> None:
    """Fill the model from a safetensors file, or say which keys or shapes do not fit and change nothing.

    Numbers become those of the model's precision, or, with `keep_precision`, the model takes the file's.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: is {path.parent} a saved model?")
    try:
        with safe_open(path, framework="pt") as file:
            slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118
            saved = {key: tuple(part.get_shape()) for key, part in slices.items()}
            double = any(part.get_dtype() == "F64" for part in slices.values())
    except SafetensorError as e:
        raise ConfigError(f"{path} is not a readable safetensors file: {e}") from None
    state = model.state_dict()
    own = {key: tuple(value.shape) for key, value in state.items()}
    storage = {key: value.data_ptr() for key, value in state.items()}
    known = {storage[key] for key in saved if key in own}
    missing = [key for key in own if key not in saved and storage[key] not in known]  # shared tensors are saved once
    unexpected = [key for key in saved if key not in own]
    differing = [f"{k} is {saved[k]}, not {own[k]}" for k in saved if k in own and saved[k] != own[k]]
    problems = [("missing: ", missing), ("not in this model: ", unexpected), ("of another shape: ", differing)]
    if any(keys for _, keys in problems):
        text = "; ".join(label + _few(keys) for label, keys in problems if keys)
        raise ConfigError(f"{path} does not fit the model: {text}")
    load_model(model.double() if keep_precision and double else model, str(path))


def _decoder(c: ModelConfig) -> nn.Module:
    d = c.decoder
    for name, value in (("latent", c.latent), ("max_size", c.max_size), ("features", c.features)):
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, got {value}")
    if d.kind == "lstm" and not d.hidden:
        raise ConfigError("decoder.hidden must name the lstm's width, got ()")
    shape: dict[str, Any] = {"max_size": c.max_size, "features": c.features}
    if d.kind == "mlp":
        return MLPDecoder(c.latent, **shape, hidden=d.hidden, variable=c.variable, mask_bias=d.mask_bias)
    if d.kind == "lstm":
        return LSTMDecoder(c.latent, **shape, hidden=d.hidden[0], variable=c.variable, mask_bias=d.mask_bias)
    if c.encoder.mask == "filter":
        raise ConfigError("encoder.mask 'filter' has no gradient for DSPN's soft masks; use 'feature' or 'weight'")
    return DSPN(
        _set_encoder(c, c.features, c.max_size, c.variable),
        **shape,
        steps=d.steps,
        step_size=d.step_size,
        loss=d.loss,
        momentum=d.momentum,
        nesterov=d.nesterov,
        clip_norm=d.clip_norm,
        mask=d.mask if c.variable else "none",
        initial=d.initial,
        initial_scale=d.initial_scale,
        initial_hidden=d.hidden,
        initial_mask=d.mask_bias if d.initial == "predicted" and d.mask_bias else None,
        latent=c.latent,
        penalty=d.penalty,
        project=unit_box if d.project == "unit" else None,
        stop_below=d.stop_below,
        backprop_steps=d.backprop_steps,
        implicit=d.implicit,
    )


def _input_encoder(c: ModelConfig, decoder: nn.Module) -> nn.Module:
    match c.input.kind:
        case "vector":
            return MLP(c.input.size, c.input.hidden, c.latent)
        case "image":
            return ResNetEncoder(c.latent, c.input.size, c.input.depth, c.input.width, c.input.tail)
        case "set" if c.input.shared and c.input.size != c.features:
            raise ConfigError(
                f"input.shared encodes the input with the output's set encoder, but input elements have {c.input.size} "
                f"features and output elements {c.features}; set input.shared to false"
            )
        case "set" if c.input.shared and c.input.variable and not c.variable and isinstance(decoder, DSPN):
            raise ConfigError(
                "input.shared encodes the input with the output's set encoder, which takes sets of one fixed size, but "
                "input.variable is true; set input.shared to false"
            )
        case "set" if c.input.shared and isinstance(decoder, DSPN):
            return decoder.encoder
    variable = c.variable if c.input.variable is None else c.input.variable
    return _set_encoder(c, c.input.size, c.input.max_size or c.max_size, variable)


def _set_encoder(c: ModelConfig, features: int, max_size: int, variable: bool) -> nn.Module:
    e = c.encoder
    kinds = {"mlp": DeepSetEncoder, "relation": RelationEncoder}
    if ":" in e.kind:
        return own_class(e.kind)(features, c.latent, max_size)
    if e.kind not in kinds:
        raise ConfigError(f"encoder.kind must be mlp, relation or module:Class, got {e.kind!r}")
    options = {f: getattr(e, f) for f in EncoderConfig.__dataclass_fields__ if f not in ("kind", "mask")}
    return kinds[e.kind](features, c.latent, max_size, mask=e.mask if variable else "none", **options)


def own_class(name: str) -> type[nn.Module]:
    """The class behind "package.module:Class"."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as e:
        raise ConfigError(f"encoder {name!r} cannot be imported: {e}") from e
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise ConfigError(f"encoder {name!r} must be an nn.Module class, got {found!r}")
    return found


def unit_box(elements: Tensor) -> Tensor:
    """Every feature clamped to [0, 1]."""
    return elements.clamp(0, 1)


def _describe(wants: Any) -> str:
    return {
        "vector": f"vectors of {wants.size} numbers, shape (B, {wants.size})",
        "image": f"images of shape (B, 3, {wants.size}, {wants.size})",
        "set": f"sets whose elements have {wants.size} features",
    }[wants.kind]


def _few(keys: Sequence[str], most: int = 5) -> str:
    return ", ".join(keys[:most]) + (f" and {len(keys) - most} more" if len(keys) > most else "")
