"""The tables that `setpredict reproduce` trains: the paper's, and ablations that it only mentions. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from setpredict.config import DataConfig, Experiment, from_dict, to_dict
from setpredict.core.errors import UserError
from setpredict.core.paths import data_folder
from setpredict.presets import Method, Scale, preset

Changes = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """One row of a table: a method, and the options that differ from its preset."""

    name: str
    method: Method = "dspn"
    changes: Changes = field(default_factory=dict)
    steps: tuple[int, ...] = (10, 20, 30)
    """Inner steps to evaluate at; one-shot decoders ignore them."""
    after: str | None = None
    """The row whose best weights, of the same seed, this one continues from."""
    encoder: str | None = None
    """The row whose image encoder, of seed 0, this one starts from."""
    encoder_table: str | None = None
    """The table that has that row (None: this one)."""
    rates: tuple[float, ...] = ()
    """Learning rates to choose among, by short trainings of seed 0 and their validation score (empty: the preset's)."""

    @property
    def slug(self) -> str:
        return "".join(c if c.isalnum() or c in "().-" else "-" for c in self.name.lower())


@dataclass(frozen=True)
class Study:
    """A table: its rows, the preset they start from, and a description."""

    title: str
    preset: str
    rows: tuple[Row, ...]
    changes: Changes = field(default_factory=dict)
    """Options of every row."""
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """One table per question: its answers, and the row that each is read from."""
    about: str = ""
    by_time: bool = False
    """With questions: draw validation scores by training time instead of the test score of every answer."""

    def row(self, name: str) -> Row:
        for row in self.rows:
            if name in (row.name, row.slug):
                return row
        raise UserError(f"there is no row {name!r}; rows are {', '.join(repr(r.name) for r in self.rows)}")

    def experiment(self, row: Row, scale: Scale, seed: int) -> Experiment:
        start = preset(self.preset, row.method, scale)
        return changed(start, {**self.changes, **row.changes, "train.seed": seed})


def changed(experiment: Experiment, changes: Changes) -> Experiment:
    """Another experiment, with some options changed, such as "decoder.solver.steps"; raises for unknown ones."""
    values = to_dict(experiment)
    for option, value in changes.items():
        *parts, last = option.split(".")
        group = values
        for part in parts:
            group = group[part]
        group[last] = value
    return from_dict(Experiment, values, "experiment")


FIXED = {"decoder.initial": "fixed"}
UNSHARED = {"input.shared": False}
MOMENTUM = {"decoder.solver.momentum": 0.9, "decoder.solver.nesterov": True}
LAST_STEP = {  # DSPN with momentum and the gradient of one step, for sets of hundreds of points
    **FIXED,
    "decoder.solver.steps": 12,
    "decoder.solver.step_size": 12.5,
    "decoder.solver.momentum": 0.5,
    "decoder.solver.nesterov": True,
    "decoder.gradient": "last:1",
    "decoder.mask_bias": 0.0,
    "loss.steps": "last",
    "loss.repr_weight": 0.0,
    "train.lr": 1e-3,
    "train.optimizer": "adamw",  # without weight decay the representation's scale grows until the steps diverge
    "train.weight_decay": 1.0,
}
PAPER = (
    Row("MLP", "mlp"),
    Row("LSTM", "lstm"),
    Row("DSPN (last)", "dspn", {"loss.steps": "last"}),
    Row("DSPN (all)", "dspn", {"loss.steps": "all"}),
    Row("iDSPN", "idspn", steps=(20, 40)),
)
BEFORE = {  # the published tables of renders were trained before there was a better image encoder
    "latent": 128,
    "coordinates": 1.0,
    "input.kind": "resnet",
    "input.depth": 10,
    "input.width": 16,
    "input.tail": "idspn",
    "input.warmup": 0,
}
SCENES = {  # rendered once for all rows, whose time is then spent on training
    "data.folder": "runs/scenes",
    "data.train": 59_000,
    "data.val": 1_000,
    "data.test": 2_000,
}
LARGER_SCENES = {  # 128 pixels, up to 10 objects
    "data.folder": "runs/scenes-128",
    "data.train": 29_000,
    "data.val": 1_000,
    "data.test": 2_000,
}
TUNING_MINUTES = 5.0
"""Training time per learning rate to choose among."""
RATES = (5e-4, 1e-3, 2e-3)
WARM_UP = "Warm-up of the image encoder"
ALONE = {"input.warmup": 0, "train.max_minutes": 60.0, "train.workers": 0, "train.threads": 1}
"""Every row of the tables of images trains for an hour on one core, without the dense head."""
FAVORED = {  # what the ablations favor, within the paper's ideas
    "decoder.initial": "fixed",
    "decoder.solver.momentum": 0.5,
    "decoder.solver.step_size": 12.5,
    "decoder.gradient": "last:5",
}
DENSE = {  # proposals that are not objects need not become zeros, as padding in the paper's set loss does
    "decoder.initial": "dense",
    "decoder.solver.steps": 5,
    "decoder.solver.step_size": 2.5,
    "decoder.step_scale": "learned",
    "loss.dense": 1.0,
    "loss.masks": "filter",
}


def _images(target: str) -> tuple[Row, ...]:
    """The rows of a table of images: all but the last start from one image encoder."""
    after = {"encoder": WARM_UP, "rates": RATES}
    rows = [
        Row(WARM_UP, "dense", {**ALONE, "train.max_minutes": 15.0}),
        Row("MLP", "mlp", ALONE, **after),
        Row("LSTM", "lstm", ALONE, **after),
        Row("DSPN (all)", "dspn", ALONE, **after),
        Row("iDSPN", "idspn", ALONE, (20, 40), **after),
        Row("DSPN (momentum, last-5 gradient)", "dspn", {**ALONE, **FAVORED}, **after),
        Row("Dense head", "dense", ALONE, **after),
        Row("DSPN from the dense head", "dspn", {**ALONE, **DENSE}, (0, 5, 10), **after),
    ]
    scratch = {**ALONE, "train.max_minutes": 45.0}
    if target == "state":
        rows += [
            Row("MLP, no warm-up", "mlp", scratch, rates=RATES),
            Row("DSPN (all), no warm-up", "dspn", scratch, rates=RATES),
            Row("iDSPN, no warm-up", "idspn", scratch, (20, 40), rates=RATES),
        ]
    return tuple(rows)


def _larger_images(target: str) -> tuple[Row, ...]:
    """The rows at medium scale: the best decoder of a vector, and the best with a dense head.

    Boxes start from the image encoder of the states. Colors change a little in training, and boxes are mirrored, so
    that fewer scenes are learned by heart.
    """
    varied = {"data.augmented": True, "data.augment.zoom": 1.0, "data.augment.aspect": 0.0, "data.augment.color": 0.2}
    alone = {**ALONE, **varied, "train.lr": 1e-3}
    after: dict[str, Any] = {"encoder": WARM_UP, "encoder_table": "clevr-state"}
    warm_up = Row(WARM_UP, "dense", {**alone, "train.lr": 2e-3})
    head = {"input.warmup": 0.3} if target == "box" else {}  # a head for boxes is new to this encoder
    rows = (
        Row("iDSPN", "idspn", {**alone, "train.max_minutes": 120.0}, (20, 40), **after),
        Row("DSPN from the dense head", "dspn", {**alone, **DENSE, **head}, (0, 5, 10), **after),
    )
    return (warm_up, *rows) if target == "state" else rows


ABLATIONS: dict[str, dict[str, Changes]] = {
    "Set loss over": {"all steps": {}, "the last step": {"loss.steps": "last"}},
    "Inner momentum (the step size shrinks with it)": {
        "momentum 0": {},
        "momentum 0.5": {"decoder.solver.momentum": 0.5, "decoder.solver.step_size": 12.5},
        "momentum 0.9, Nesterov": {**MOMENTUM, "decoder.solver.step_size": 2.5},
    },
    "Masks": {"clamped": {}, "sigmoid": {"decoder.mask": "sigmoid"}, "free": {"decoder.mask": "free"}},
    "Representation loss": {"Huber": {}, "squared": {"decoder.loss": "squared"}},
    "Weight λ of the representation loss (the input has an encoder of its own)": {
        "λ = 0": {**UNSHARED, "loss.repr_weight": 0.0},
        "λ = 0.1": UNSHARED,
        "λ = 1": {**UNSHARED, "loss.repr_weight": 1.0},
    },
    "Mean of the masks as a latent number": {"without": {}, "with": {"encoder.mask_sum": True}},
    "Initial set": {
        "learned": {},
        "fixed": FIXED,
        "random": {"decoder.initial": "random"},
        "predicted by an MLP": {"decoder.initial": "predicted"},
    },
    "Steps that are differentiated (from a fixed initial set)": {
        "all 10": FIXED,
        "last 5": {**FIXED, "decoder.gradient": "last:5"},
        "last 2": {**FIXED, "decoder.gradient": "last:2"},
        "last 1": {**FIXED, "decoder.gradient": "last:1"},
    },
    "Stopping below a representation loss (the base model)": {
        "never": {},
        **{f"{s:g}": {"decoder.solver.stop_below": s, "train.max_steps": 0} for s in (1e-6, 1e-5, 1e-4, 1e-3)},
    },
    "Pooling": {
        "FSPool": {},
        "FSPool, one weight per rank": {"encoder.pool": "fspool-free"},
        "sum": {"encoder.pool": "sum"},
        "mean": {"encoder.pool": "mean"},
        "max": {"encoder.pool": "max"},
    },
}


def _ablations() -> Study:
    """A row that occurs in several tables is trained once."""
    rows, groups = [Row("base", steps=(10, 20))], {}
    for question, choices in ABLATIONS.items():
        groups[question] = {}
        for name, changes in choices.items():
            row = next((r for r in rows if r.changes == changes), None)
            if row is None:
                untrained = changes.get("train.max_steps") == 0
                row = Row(f"{question}: {name}", "dspn", changes, (10, 20), after="base" if untrained else None)
                rows.append(row)
            groups[question][name] = row.name
    return Study(
        "Ablations",
        "multisets",
        tuple(rows),
        {
            "data.points": 10,
            "data.variable": True,
            "loss.masks": "feature",
            "train.max_steps": 2000,  # not minutes: the same numbers on a busy machine
            "train.max_minutes": None,
        },
        groups,
        "What the paper mentions without numbers: sets of 1 to 10 random points, auto-encoded through 64 numbers by "
        "DSPN in 2,000 steps, one thing changed at a time.",
    )


def _image_parts(preset_name: str, scenes: Changes) -> Study:
    """What each part of the image path contributes, at equal time."""
    equal = {"train.max_minutes": 12.0, "train.workers": 0, "train.threads": 1, "input.warmup": 0.3}
    narrow = {"input.kind": "resnet", "input.depth": 10, "input.width": 16, "input.tail": "idspn"}
    rows = (
        Row("iDSPN", "idspn", steps=(20,)),
        Row("ResNet10 of 16 channels", "idspn", narrow, (20,)),
        Row("no warm-up", "idspn", {"input.warmup": 0}, (20,)),
        Row("dense loss kept", "idspn", {"loss.dense": 0.1}, (20,)),
        Row("dense head alone", "dense", {"input.warmup": 0}),
        Row("DSPN from the dense head", "dspn", DENSE, (0, 5)),
        Row("the same, padding matched", "dspn", {**DENSE, "loss.masks": "feature"}, (0, 5)),
    )
    groups = {
        "Image encoder": {"conv": "iDSPN", "ResNet10 of 16 channels": "ResNet10 of 16 channels"},
        "Warm-up": {"for 30 % of the time": "iDSPN", "none": "no warm-up"},
        "Loss of the dense head after the warm-up": {"none": "iDSPN", "a tenth": "dense loss kept"},
        "Initial set": {
            "random (iDSPN)": "iDSPN",
            "dense head, no descent": "dense head alone",
            "dense head, DSPN": "DSPN from the dense head",
            "dense head, DSPN, padding matched": "the same, padding matched",
        },
    }
    about = "States of generated scenes after 12 minutes of training on one core, one thing changed at a time."
    return Study("Parts of the image path", preset_name, rows, {**scenes, **equal}, groups, about, by_time=True)


def studies(scale: Scale = "small") -> dict[str, Study]:
    """The tables of a scale by name. CLEVR's are trained on generated scenes where CLEVR itself is not found."""
    clevr = (data_folder() / "CLEVR_v1.0").is_dir()
    kind = "clevr" if clevr else "scenes"
    rendered = {"small": SCENES, "medium": LARGER_SCENES, "paper": {}}
    scenes = {} if clevr else rendered[scale]
    rows = _larger_images if scale == "medium" else _images
    images = {
        "clevr-state": Study(
            "Objects and their state (Table 3)", f"{kind}-state", rows("state"), scenes, about=_STATES
        ),
        "clevr-box": Study("Bounding boxes (Table 2)", f"{kind}-box", rows("box"), scenes, about=_BOXES),
    }
    if scale == "medium":
        return images
    renders = {"data.folder": str(data_folder() / "clevr-renders"), **BEFORE}
    digits = tuple(replace(r, steps=(10, 20)) for r in PAPER if r.method != "idspn")
    ours = tuple(r for r in PAPER if r.name in ("DSPN (all)", "iDSPN"))
    tuned = {"loss.steps": "last", "train.lr": 0.003, "train.ema": 0.999}
    predicted = {"decoder.initial": "predicted", "decoder.solver.steps": 5, "train.lr": 0.005, "train.ema": 0.999}
    digits += (
        Row("DSPN, last-step gradient", "dspn", LAST_STEP, (12, 24)),
        Row("DSPN (all, then last)", "dspn", tuned, (10, 20), after="DSPN (all)"),
        Row("DSPN (then predicted initial set)", "dspn", predicted, (0, 5, 10), after="DSPN (all, then last)"),
    )
    return {
        "mnist": Study("MNIST auto-encoding (Table 1)", "mnist", digits, about=_MNIST),
        **images,
        "renders-state": Study("State, CLEVR-style renders", "clevr-state", ours, renders, about=_RENDERS),
        "renders-box": Study("Boxes, CLEVR-style renders", "clevr-box", ours, renders, about=_RENDERS),
        "ablations": _ablations(),
        "images": _image_parts(f"{kind}-state", scenes),
    }


def configure(
    study: Study,
    row: Row,
    scale: Scale,
    seed: int,
    minutes: float | None = None,
    max_steps: int | None = None,
    threads: int | None = None,
    data: DataConfig | None = None,
) -> Experiment:
    """The experiment of a row, within the caller's limits."""
    experiment = study.experiment(row, scale, seed)
    given = {"max_minutes": minutes, "max_steps": max_steps, "threads": threads}
    experiment.train = replace(experiment.train, pictures=False, **{k: v for k, v in given.items() if v is not None})
    if data is not None:
        experiment.data = replace(data, name=experiment.data.name, target=experiment.data.target)
    return experiment


_MNIST = (
    "A digit is the set of its bright pixels (32 to 342 points). It is encoded to 64 numbers and decoded again; the "
    "Chamfer loss of the decoded set is measured over all 10,000 test digits, in the unit of the paper's table."
)
_STATES = (
    "From an image to the objects in it: position, size, color, material and shape. Average precision at a distance; "
    "all four attributes must be correct."
)
_BOXES = "From an image to the bounding boxes of the objects in it. Average precision at an IoU."
_RENDERS = "The small models, trained and tested on a few thousand CLEVR-style renders."
