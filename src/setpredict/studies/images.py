"""The tables of images: states and boxes of scenes, at small and medium scale, and what each part contributes."""

from __future__ import annotations

from typing import Any

from setpredict.presets import Method
from setpredict.studies.table import Changes, Row, Study

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
FEWER, MORE = 23_000, 50_000
"""About as many training steps as DSPN takes in its hour, and as list decoders take."""
CHOSEN_RATES: dict[str, dict[Method, float]] = {
    "box": {"mlp": 2e-3, "lstm": 1e-3, "dspn": 2e-3},
    "state": {"lstm": 2e-3, "dspn": 2e-3},
}
"""The learning rates that the rows of an hour have chosen, for DSPN and the lists that come near it in that time."""
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


def image_rows(target: str) -> tuple[Row, ...]:
    """The rows of a table of images: the paper's, then beyond it; all with a warm-up start from one image encoder."""
    after = {"encoder": WARM_UP, "rates": RATES}
    rows = [
        Row(WARM_UP, "dense", {**ALONE, "train.max_minutes": 15.0}),
        Row("MLP", "mlp", ALONE, **after),
        Row("LSTM", "lstm", ALONE, **after),
        Row("DSPN (all)", "dspn", ALONE, **after),
        Row("iDSPN", "idspn", ALONE, (20, 40), **after),
        Row("DSPN (momentum, last-5 gradient)", "dspn", {**ALONE, **FAVORED}, **after),
        *_in_equal_steps(target),
        Row("Dense head", "dense", ALONE, **after, heading="Beyond the paper:"),
        Row("DSPN from the dense head", "dspn", {**ALONE, **DENSE}, (0, 5, 10), **after),
        Row("Slot Attention", "slots", ALONE, (3,), **after),
        Row("Transformer", "transformer", ALONE, (3,), **after),
    ]
    scratch = {**ALONE, "train.max_minutes": 45.0}
    if target == "state":
        rows += [
            Row("MLP, no warm-up", "mlp", scratch, rates=RATES, heading="Without the warm-up:"),
            Row("DSPN (all), no warm-up", "dspn", scratch, rates=RATES),
            Row("iDSPN, no warm-up", "idspn", scratch, (20, 40), rates=RATES),
        ]
    return tuple(rows)


def _in_equal_steps(target: str) -> list[Row]:
    """DSPN and list decoders again in the same number of training steps, of which each costs DSPN twice the time."""
    names: dict[Method, str] = {"mlp": "MLP", "lstm": "LSTM", "dspn": "DSPN (all)"}

    def row(method: Method, steps: int, rate: float, name: str) -> Row:
        changes = {**ALONE, "train.max_minutes": None, "train.max_steps": steps, "train.lr": rate}
        heading = f"In as many training steps as {'DSPN' if steps == FEWER else 'list decoders'}:"
        return Row(f"{names[method]}, {name}", method, changes, encoder=WARM_UP, heading=heading)

    rates = CHOSEN_RATES[target]
    rows = [row(m, FEWER, rate, f"{FEWER:,} training steps") for m, rate in rates.items() if m != "dspn"]
    longer = [row("dspn", MORE, rates["dspn"], f"{MORE:,} training steps")]
    if target == "box":  # five minutes may favor rates that are too large for an hour
        rows.append(row("dspn", FEWER, rates["dspn"] / 2, "half the learning rate"))
        longer.append(row("dspn", MORE, rates["dspn"] / 2, f"half the learning rate, {MORE:,} training steps"))
    return rows + longer


def larger_image_rows(target: str) -> tuple[Row, ...]:
    """The rows at medium scale: the best decoder of a vector, and the best with a dense head.

    Boxes start from the image encoder of the states, and iDSPN from that of the model that was shipped, so that it does
    not have to be trained again. Colors change a little in training, and boxes are mirrored, so that fewer scenes are
    learned by heart.
    """
    varied = {"data.augmented": True, "data.augment.zoom": 1.0, "data.augment.aspect": 0.0, "data.augment.color": 0.2}
    alone = {**ALONE, **varied, "train.lr": 1e-3}
    after: dict[str, Any] = {"encoder": WARM_UP, "encoder_table": "clevr-state"}
    warm_up = Row(WARM_UP, "dense", {**alone, "train.lr": 2e-3})
    head = {"input.warmup": 0.3} if target == "box" else {}  # a head for boxes is new to this encoder
    rows = (
        Row("iDSPN", "idspn", {**alone, "train.max_minutes": 120.0}, (20, 40), shipped="scenes-state"),
        Row("DSPN from the dense head", "dspn", {**alone, **DENSE, **head}, (0, 5, 10), **after),
    )
    return (warm_up, *rows) if target == "state" else rows


def image_parts(preset_name: str, scenes: Changes) -> Study:
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
        "Warm-up": {"for 30% of the time": "iDSPN", "none": "no warm-up"},
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
