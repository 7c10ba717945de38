"""Old forms of `config.json` and of weights, brought to the present one."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

from setpredict.core.errors import UserError

VERSION = 2
"""1 (0.1.0, not written into the file): options of the inner loop flat in `decoder`, `backprop_steps` and `implicit`
instead of `gradient`. 2 (0.2.0): `decoder.solver`, `decoder.gradient`, `encoder.normalize`; `input.kind` names the
image encoder (resnet) instead of "image"."""

SOLVER = ("steps", "step_size", "momentum", "nesterov", "clip_norm", "penalty", "stop_below")


def migrate(values: Any, where: str = "config.json") -> Any:
    """The content of a `config.json` of any version, in the form of the present one and without its version.

    >>> migrate({"decoder": {"kind": "dspn", "steps": 20, "backprop_steps": 1, "implicit": True}})
    {'decoder': {'kind': 'dspn', 'solver': {'steps': 20}, 'gradient': 'implicit'}}
    """
    if not isinstance(values, dict):
        return values
    version = values.get("version", 1)
    if type(version) is not int or not 1 <= version <= VERSION:
        raise UserError(f"{where} has version {version!r}; this setpredict reads versions 1 to {VERSION}: update it")
    values = {k: v for k, v in values.items() if k != "version"}
    return _from_version_1(values) if version == 1 else values


def _from_version_1(values: dict[str, Any]) -> dict[str, Any]:
    values = dict(values)
    if isinstance(values.get("encoder"), dict):
        values["encoder"] = {"normalize" if k == "normalise" else k: v for k, v in values["encoder"].items()}
    if isinstance(values.get("input"), dict) and _has_images(values):
        values["input"] = {**values["input"], "kind": "resnet"}
    if isinstance(values.get("decoder"), dict):
        values["decoder"] = _decoder_from_version_1(values["decoder"])
    if "train" in values:  # an experiment
        values.setdefault("coordinates", 1.0)
    return values


def _has_images(values: dict[str, Any]) -> bool:
    """Whether the inputs are images, or may be: an experiment did not say it, and its data set decided."""
    data = values.get("data")
    name = data.get("name") if isinstance(data, dict) else None
    return values["input"].get("kind") == "image" or name in ("clevr", "scenes", "folder", "coco")


def _decoder_from_version_1(decoder: dict[str, Any]) -> dict[str, Any]:
    if "solver" in decoder:  # the present form, without its version
        return decoder
    moved = {*SOLVER, "backprop_steps", "implicit"}
    solver = {k: v for k, v in decoder.items() if k in SOLVER}
    last = decoder.get("backprop_steps")
    gradient = "implicit" if decoder.get("implicit") else "unrolled" if last is None else f"last:{last}"
    kept = {k: v for k, v in decoder.items() if k not in moved}
    return {**kept, "solver": solver, "gradient": gradient}


RENAMED = (
    (re.compile(r"\b(encoder|input_encoder)\.(elements|pairs)\."), r"\1.network."),
    (re.compile(r"\bdecoder\.initial\.guess\."), "decoder.initial.network."),
    (re.compile(r"^input_encoder\.(conv1|bn1|layer\d|tail)\."), r"input_encoder.backbone.\1."),
)


def renamed_weight(name: str, known: Container[str]) -> str:
    """The present name of a weight of an old file, given the names that the model knows."""
    if name in known:
        return name
    for pattern, new in RENAMED:
        name = pattern.sub(new, name)
    return name
