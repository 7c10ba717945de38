"""The tables that `setpredict reproduce` trains: the paper's, and ablations that it only mentions. No torch here."""

from __future__ import annotations

from dataclasses import replace

from setpredict.config import DataConfig, Experiment
from setpredict.core.paths import data_folder
from setpredict.presets import Scale
from setpredict.studies.ablations import ablations
from setpredict.studies.decoders import multisets, numbering, points
from setpredict.studies.images import (
    LARGER_SCENES,
    RATES,
    SCENES,
    TUNING_MINUTES,
    image_parts,
    image_rows,
    larger_image_rows,
)
from setpredict.studies.table import FIXED, Row, Study, changed

__all__ = ["RATES", "TUNING_MINUTES", "Row", "Study", "changed", "configure", "studies"]

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
ATTENTION = Row("Slot Attention", "slots", steps=(3,)), Row("Transformer", "transformer", steps=(6,))
"""Beyond the paper, in the sizes of their own papers."""
BEFORE = {  # the published tables of renders were trained before there was a better image encoder
    "latent": 128,
    "coordinates": 1.0,
    "input.kind": "resnet",
    "input.depth": 10,
    "input.width": 16,
    "input.tail": "idspn",
    "input.warmup": 0,
}


def studies(scale: Scale = "small") -> dict[str, Study]:
    """The tables of a scale by name. CLEVR's are trained on generated scenes where CLEVR itself is not found."""
    clevr = (data_folder() / "CLEVR_v1.0").is_dir()
    kind = "clevr" if clevr else "scenes"
    rendered = {"small": SCENES, "medium": LARGER_SCENES, "paper": {}}
    scenes = {} if clevr else rendered[scale]
    rows = {"small": image_rows, "medium": larger_image_rows, "paper": lambda target: (*PAPER, *ATTENTION)}[scale]
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
        Row("DSPN (all), 3 epochs", "dspn", {"train.epochs": 3, "train.max_minutes": None}, (10, 20)),
        Row("DSPN, last-step gradient", "dspn", LAST_STEP, (12, 24)),
        Row("DSPN (all, then last)", "dspn", tuned, (10, 20), after="DSPN (all)"),
        Row("DSPN (then predicted initial set)", "dspn", predicted, (0, 5, 10), after="DSPN (all, then last)"),
    )
    return {
        "mnist": Study("MNIST auto-encoding (Table 1)", "mnist", digits, about=_MNIST),
        **images,
        "renders-state": Study("State, CLEVR-style renders", "clevr-state", ours, renders, about=_RENDERS),
        "renders-box": Study("Boxes, CLEVR-style renders", "clevr-box", ours, renders, about=_RENDERS),
        "points": points(),
        "numbering": numbering(scale),
        "multisets": multisets(scale),
        "ablations": ablations(),
        "images": image_parts(f"{kind}-state", scenes),
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
    "A digit, the set of its bright pixels (32 to 342 points), is encoded to 64 numbers and decoded again. The Chamfer "
    "loss is in the unit of the paper's table."
)
_STATES = (
    "From an image to its objects: position, size, color, material and shape. Average precision at a distance, with "
    "all four attributes right."
)
_BOXES = "From an image to the bounding boxes of its objects. Average precision at an IoU."
_RENDERS = "The small models, trained on a few thousand CLEVR-style renders and tested on 250."
