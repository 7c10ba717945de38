"""Which options apply to a preset and a method. `--help` leaves out the others; where they are given, they
are accepted, and `setpredict train` says that they have no effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from tyro.conf import Suppress

from setpredict.config import AugmentConfig, Experiment, GradientDescent

IMAGES = ("clevr", "scenes", "folder", "coco")
SETS = ("multisets", "numbering", "mnist", "folder")
VECTORS = ("polygons", "folder")
DATA: dict[str, tuple[str, ...]] = {
    "data.name": (),  # the preset sets it
    "data.folder": ("mnist", *IMAGES),
    "data.target": ("clevr", "scenes"),
    "data.boxes": ("clevr", "scenes"),
    "data.size": IMAGES,
    "data.points": ("multisets", "numbering"),
    "data.dim": ("multisets",),
    "data.distribution": ("multisets",),
    "data.classes": ("numbering",),
    "data.duplicates": ("multisets",),
    "data.variable": ("multisets",),
    "data.min_objects": ("scenes",),
    "data.max_objects": ("scenes",),
    "data.allow_outside": ("clevr", "folder", "coco"),
    "data.augmented": IMAGES,
    **{f"data.augment.{field.name}": IMAGES for field in fields(AugmentConfig)},
    "data.augment.rotate": ("multisets", "mnist", "folder"),
    "data.augment.shift": ("multisets", "mnist", "folder"),
    "input.size": (),  # the data set decides
    "input.pretrained": (),  # set by input.weights
    "input.dense": (),  # set by whatever needs a dense head
    "input.hidden": VECTORS,
    "input.max_size": SETS,
    "input.tokens": SETS,
    "input.shared": SETS,
    "input.variable": SETS,
    "loss.dense": IMAGES,
    "input.kind": IMAGES,
    "input.widths": IMAGES,
    "input.depth": IMAGES,
    "input.width": IMAGES,
    "input.stem": IMAGES,
    "input.tail": IMAGES,
    "input.weights": IMAGES,
    "input.weights_rate": IMAGES,
    "input.freeze": IMAGES,
    "input.stride": IMAGES,
    "input.warmup": IMAGES,
}
"""The data sets that an option is for; options that are not listed are for all."""
DECODERS: dict[str, tuple[str, ...]] = {
    **{f"decoder.solver.{field.name}": ("dspn",) for field in fields(GradientDescent)},
    "decoder.solver.steps": ("dspn", "slots", "transformer"),
    "decoder.gradient": ("dspn",),
    "decoder.loss": ("dspn",),
    "decoder.mask": ("dspn",),
    "decoder.initial": ("dspn",),
    "decoder.initial_scale": ("dspn",),
    "decoder.step_scale": ("dspn",),
    "decoder.project": ("dspn",),
    "decoder.recompute": ("dspn",),
    "input.tokens": ("dspn", "slots", "transformer", "deep-sets", "bilstm"),
    "decoder.queries": ("transformer",),
    "decoder.width": ("slots", "transformer"),
    "decoder.heads": ("transformer",),
    "decoder.hidden": ("dspn", "slots", "transformer", "mlp", "lstm", "deep-sets", "bilstm"),
    "decoder.mask_bias": ("dspn", "mlp", "lstm"),
    "loss.steps": ("dspn", "slots", "transformer"),
    "loss.repr_weight": ("dspn",),
}
"""The decoders that an option is for."""


def hidden_options(experiment: Experiment) -> set[str]:
    """The options that do not apply, by their names in `config.json`.

    >>> from setpredict.presets import preset
    >>> "data.dim" in hidden_options(preset("mnist")), "data.dim" in hidden_options(preset("multisets"))
    (True, False)
    """
    hidden = {name for name, sets in DATA.items() if experiment.data.name not in sets}
    kind = "dspn" if experiment.decoder.kind == "auto" else experiment.decoder.kind
    if ":" not in kind:  # nothing is known about a decoder of the user's own
        hidden |= {name for name, kinds in DECODERS.items() if kind not in kinds}
        if kind != "dspn" and experiment.data.name not in SETS:
            hidden.add("encoder")
    return hidden


def without_effect(words: Sequence[str], experiment: Experiment) -> list[str]:
    """The options among the words of a command that do not apply to its experiment.

    >>> from setpredict.presets import preset
    >>> without_effect(["--lr", "1", "--data.dim=3", "--decoder.heads", "2"], preset("mnist"))
    ['--data.dim', '--decoder.heads']
    """
    names = hidden_options(experiment) - {"data.name", "input.dense"}  # these two do what they say
    names = {name.replace("decoder.solver.", "decoder.") for name in names}
    found = []
    for word in words:
        option = word.partition("=")[0]
        name = option.removeprefix("--").replace("-", "_").replace(".no_", ".")  # --data.no-variable
        if option.startswith("--") and any(name == one or name.startswith(f"{one}.") for one in names):
            found.append(option)
    return found


def without_hidden(options: Any, hidden: set[str], prefix: str = "") -> Any:
    """A copy of a dataclass object, of a class made for it whose hidden fields tyro leaves out of the help."""
    cls = type(options)
    hints = get_type_hints(cls, include_extras=True)
    annotations, values = {}, {}
    for field in fields(cls):
        value, name, hint = getattr(options, field.name), prefix + field.name, hints[field.name]
        kind, *marks = get_args(hint) if get_origin(hint) is Annotated else [hint]
        if name in hidden:
            annotations[field.name] = Annotated[hint, Suppress]
        elif is_dataclass(kind):
            value = without_hidden(value, hidden, "" if isinstance(value, Experiment) else f"{name}.")
            annotations[field.name] = Annotated[(type(value), *marks)] if marks else type(value)  # pyright: ignore[reportInvalidTypeForm]
        values[field.name] = value
    made = type(cls.__name__, (cls,), {"__annotations__": annotations, "__doc__": cls.__doc__, "__module__": __name__})
    frozen = cls.__dataclass_params__.frozen  # pyright: ignore[reportAttributeAccessIssue]
    return dataclass(frozen=frozen, kw_only=True)(made)(**values)
