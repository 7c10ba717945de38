"""The parts of a model from its configuration: the input encoder and the decoder."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from setpredict.config import EncoderConfig, ModelConfig
from setpredict.core.errors import UserError
from setpredict.decoders import (
    DSPN,
    Decoder,
    DenseDecoder,
    ElementwiseDecoder,
    LSTMDecoder,
    MLPDecoder,
    SlotDecoder,
    TransformerDecoder,
    initial_set,
)
from setpredict.decoders.projection import simplexes, unit_box
from setpredict.encoders import (
    MLP,
    ConvEncoder,
    DeepSetEncoder,
    DenseHead,
    ElementLayout,
    ImageEncoder,
    RelationEncoder,
    ResNetEncoder,
    SetTokens,
    VectorTokens,
)


def make_parts(config: ModelConfig) -> tuple[nn.Module, nn.Module]:
    """The input encoder and the decoder of a model, with new weights from torch's global seed."""
    decoder = _decoder(config)
    if not isinstance(decoder, Decoder):
        missing = [n for n in ("steps", "needs", "set_encoder") if not hasattr(decoder, n)]
        raise UserError(f"the decoder {type(decoder).__name__} is not a Decoder: it has no {' and no '.join(missing)}")
    offered = ("vector", "tokens", "proposals") if config.input.dense else ("vector", "tokens")
    needs = (decoder.needs,) if isinstance(decoder.needs, str) else decoder.needs
    missing = [part for part in needs if part not in offered]
    if missing:
        name, has = type(decoder).__name__, " and ".join(offered)
        raise UserError(f"the decoder {name} needs {missing[0]}, but the input encoder offers {has}")
    return _input_encoder(config, needs, decoder.set_encoder), decoder


def _decoder(c: ModelConfig) -> nn.Module:
    d = c.decoder
    if ":" in d.kind:
        kind = own_class(d.kind, "decoder")
        takes = "channels" in inspect.signature(kind).parameters
        more = {"channels": _token_channels(c)} if takes else {}
        return kind(c.latent, c.max_size, c.features, c.variable, **more)
    shape: dict[str, Any] = {"max_size": c.max_size, "features": c.features}
    match d.kind:
        case "mlp":
            return MLPDecoder(c.latent, **shape, hidden=d.hidden, variable=c.variable, mask_bias=d.mask_bias)
        case "dense":
            return DenseDecoder()
        case "lstm" if not d.hidden:
            raise UserError("decoder.hidden must have the width of the lstm, got ()")
        case "lstm":
            return LSTMDecoder(c.latent, **shape, hidden=d.hidden[0], variable=c.variable, mask_bias=d.mask_bias)
        case "deep-sets" | "bilstm" if not d.hidden:
            raise UserError(f"decoder.hidden must have the width of {d.kind}, got ()")
        case "deep-sets" | "bilstm":
            _check_input_elements(c, f"decoder.kind {d.kind}")
            shape |= {"network": d.kind, "hidden": d.hidden[0], "variable": c.variable}
            return ElementwiseDecoder(c.input.size, **shape)
        case "slots" | "transformer":
            shape |= {"steps": d.solver.steps, "width": d.width, "hidden": d.hidden, "variable": c.variable}
            if d.kind == "slots":
                return SlotDecoder(_token_channels(c), **shape)
            if d.queries.startswith("input"):
                _check_input_elements(c, "decoder.queries input")
            return TransformerDecoder(_token_channels(c), **shape, heads=d.heads, queries=d.queries)
        case "dspn" if c.encoder.mask == "filter":
            raise UserError("encoder.mask 'filter' has no gradient for DSPN's soft masks; use 'feature' or 'weight'")
        case "dspn":
            mask = d.mask if c.variable else "none"
            encoder = _set_encoder(c, c.features, c.max_size, c.variable)
            options = {"scale": d.initial_scale, "hidden": d.hidden, "mask_bias": d.mask_bias}
            if d.initial == "sized" and not c.encoder.mask_sum:
                raise UserError("decoder.initial sized reads the size of a set from its code: add --encoder.mask-sum")
            if d.step_scale == "added" and d.initial != "input":
                raise UserError(
                    "decoder.step_scale added is for features that the input lacks: add --decoder.initial input"
                )
            if d.initial == "input":
                _check_input_elements(c, "decoder.initial input")
                options["inputs"] = c.feature_scale[: c.input.size] or (1.0,) * c.input.size
            if d.step_scale not in ("equal", "learned", "added"):
                raise UserError(f"decoder.step_scale must be one of equal, learned, added, got {d.step_scale!r}")
            return DSPN(
                encoder,
                **shape,
                initial=initial_set(
                    "learned" if d.initial == "auto" else d.initial, **shape, mask=mask, latent=c.latent, **options
                ),
                solver=d.solver,
                gradient=d.gradient,
                loss=d.loss,
                mask=mask,
                learned_steps=d.step_scale == "learned",
                held=c.input.size if d.initial == "input" and d.step_scale == "added" else 0,
                project=_projection(c),
                recompute=d.recompute,
            )
    kinds = "dspn, slots, transformer, mlp, lstm, dense, deep-sets, bilstm or module:Class"
    raise UserError(f"decoder.kind must be {kinds}, got {d.kind!r}")


def _projection(c: ModelConfig) -> Callable[[Tensor], Tensor] | None:
    """Where elements are kept after every step."""
    if c.decoder.project == "simplex" and not c.groups:
        raise UserError("decoder.project simplex is for categories, and the elements have none")
    kinds = {"unit": partial(unit_box, c.feature_scale), "simplex": partial(simplexes, c.groups.values())}
    if c.decoder.project not in ("none", *kinds):
        raise UserError(f"decoder.project must be one of none, {', '.join(kinds)}, got {c.decoder.project!r}")
    return None if c.decoder.project == "none" else kinds[c.decoder.project]()


def _check_input_elements(c: ModelConfig, option: str) -> None:
    """Raise a UserError if the elements of the input cannot be those that the output starts from."""
    size = c.input_capacity
    if c.input.kind != "set":
        raise UserError(f"{option} starts from the elements of an input set, but the input is a {c.input.kind}")
    if c.input.tokens == "vector":
        raise UserError(f"{option} starts from the elements of the input: add --input.tokens elements")
    if size > c.max_size or (size < c.max_size and not c.variable):
        raise UserError(f"{option} needs an output element for each of {size} input elements, got {c.max_size}")


def _token_channels(c: ModelConfig) -> int:
    """C, the numbers per token of the input."""
    if c.input.kind in ("conv", "resnet"):
        with torch.device("meta"):  # only its shape is asked for
            return _backbone(c, vector=False).map_channels
    return c.latent if c.input.kind == "vector" or c.input.tokens == "vector" else c.input.size


def _input_encoder(c: ModelConfig, needs: Sequence[str], shared: nn.Module | None) -> nn.Module:
    tokens = "tokens" in needs
    match c.input.kind:
        case "vector":
            encoder = MLP(c.input.size, c.input.hidden, c.latent)
            return VectorTokens(encoder) if tokens else encoder
        case "conv" | "resnet":
            return _image_encoder(c, tokens, vector=tuple(needs) != ("tokens",))
    if tokens:
        size = c.input.size, c.input_capacity, c.input_varies
        if c.input.tokens == "vector":
            return VectorTokens(_set_encoder(c, *size))
        return SetTokens(_set_encoder(c, *size) if "vector" in needs else None)
    if c.input.shared and c.input.size != c.features:
        raise UserError(
            f"input.shared encodes the input with the output's set encoder, but input elements have {c.input.size} "
            f"features and output elements {c.features}; set input.shared to false"
        )
    if c.input.shared and shared is not None:
        if c.input.variable and not c.variable:
            raise UserError(
                "input.shared encodes the input with the output's set encoder, which takes sets of one fixed size, but "
                "input.variable is true; set input.shared to false"
            )
        return shared
    return _set_encoder(c, c.input.size, c.input_capacity, c.input_varies)


def _backbone(c: ModelConfig, vector: bool) -> ConvEncoder | ResNetEncoder:
    i = c.input
    if i.kind == "conv":
        return ConvEncoder(c.latent, i.size, i.widths, i.stride, vector)
    options = {"pretrained": i.pretrained, "freeze": i.freeze, "vector": vector}
    return ResNetEncoder(c.latent, i.size, i.depth, i.width, i.tail, i.stem, i.stride, **options)


def _image_encoder(c: ModelConfig, tokens: bool, vector: bool) -> ImageEncoder:
    backbone = _backbone(c, vector)
    if not c.input.dense:
        return ImageEncoder(backbone, tokens=tokens)
    place = {"boxes": "box", "points": "point"}.get(c.elements, "none")
    groups = tuple((first, end) for first, end in c.groups.values())
    head = DenseHead(backbone.map_channels, ElementLayout(c.features, place, groups))  # pyright: ignore[reportArgumentType]
    return ImageEncoder(backbone, head, c.max_size, tokens)


def _set_encoder(c: ModelConfig, features: int, max_size: int, variable: bool) -> nn.Module:
    e = c.encoder
    if ":" in e.kind:
        return own_class(e.kind, "encoder")(features, c.latent, max_size)
    kinds = {"mlp": DeepSetEncoder, "relation": RelationEncoder}
    if e.kind not in kinds:
        raise UserError(f"encoder.kind must be mlp, relation or module:Class, got {e.kind!r}")
    options = {f: getattr(e, f) for f in EncoderConfig.__dataclass_fields__ if f not in ("kind", "mask")}
    return kinds[e.kind](features, c.latent, max_size, mask=e.mask if variable else "none", **options)


def own_class(name: str, what: str) -> type[nn.Module]:
    """The user's class "package.module:Class" of an encoder or decoder."""
    module, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        raise UserError(f"{what} {name!r} is no name of a class: expected package.module:Class")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as e:
        raise UserError(f"{what} {name!r} cannot be imported: {e}") from e
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise UserError(f"{what} {name!r} must be an nn.Module class, got {found!r}")
    return found
