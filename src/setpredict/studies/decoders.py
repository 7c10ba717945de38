"""The tables that tell decoders apart: numbering, random multisets of every size, and the points of the demo."""

from __future__ import annotations

from setpredict.presets import Method, Scale
from setpredict.studies.table import Row, Study

AUTO_ENCODERS: dict[str, Method] = {
    "MLP": "mlp",
    "LSTM": "lstm",
    "DSPN": "dspn",
    "iDSPN": "idspn",
    "Transformer": "transformer",
}
STEPS: dict[Method, int] = {"mlp": 0, "lstm": 0, "dspn": 10, "idspn": 20, "transformer": 3, "slots": 3}
"""The steps that a decoder is trained with at small scale; one-shot decoders have none."""
BY_STEPS = {"train.max_minutes": None, "train.threads": 1}
"""A limit in steps, not minutes: the same numbers on a busy machine."""


def numbering(scale: Scale) -> Study:
    """Section 4.1 of the iDSPN paper: which decoders can tell equal inputs apart?"""
    elementwise = {"decoder.queries": "learned", "decoder.hidden": [256], "decoder.solver.steps": 10}
    rows = (
        Row("DSPN", "dspn", steps=(20,)),
        Row("iDSPN", "idspn", steps=(20, 40)),
        Row("Transformer, random position embedding", "transformer", steps=(3,)),
        Row("Transformer, no position embedding", "transformer", {"decoder.queries": "input"}, (3,)),
        Row("Deep Sets", "transformer", {**elementwise, "decoder.kind": "deep-sets"}),
        Row("BiLSTM", "transformer", {**elementwise, "decoder.kind": "bilstm"}),
    )
    limit = {**BY_STEPS, "train.max_steps": 3000} if scale == "small" else {}
    about = (
        "The input is a multiset of classes, the output numbers the members of every class 0, 1, 2, … in no "
        "particular order: equal inputs must get different outputs. The scores are the percentages of sets with every "
        "element right, and of elements that are right."
    )
    return Study("Numbering the members of a class", "numbering", rows, limit, about=about)


def multisets(scale: Scale) -> Study:
    """Section 4.2 of the iDSPN paper: sets of n elements with d features through one vector and back."""
    if scale == "small":
        sizes, width, latent = (2, 8, 32), 128, 256
        limit = {**BY_STEPS, "train.max_steps": 1000, "train.val_every": 500}
        loops = dict.fromkeys(AUTO_ENCODERS, (None,))
    else:
        sizes, width, latent = (2, 4, 8, 16, 32), 512, 512
        limit = {"data.train": 64_000, "train.epochs": 40, "train.batch_size": 128, "train.lr": 1e-3}
        loops = {name: (10, 20, 40) if "DSPN" in name else (None,) for name in AUTO_ENCODERS}
    rows = [
        Row(
            f"{name if steps is None else f'{name} (T = {steps})'}, n = {n}, d = {d}",
            method,
            {"data.points": n, "data.dim": d, **({} if steps is None else {"decoder.solver.steps": steps})},
            (steps or STEPS[method],),
        )
        for name, method in AUTO_ENCODERS.items()
        for steps in loops[name]
        for n in sizes
        for d in sizes
    ]
    everywhere = {"data.distribution": "normal", "latent": latent, "encoder.hidden": [width], "loss.cost": "squared"}
    about = (
        "Sets of n elements with d features, all standard normal, are encoded to one vector and decoded again: half "
        "the mean squared error of matched elements, × 1000. Predicting zeros costs 500."
    )
    return Study("Random multisets", "multisets", tuple(rows), {**everywhere, **limit}, about=about, by_size=True)


def points() -> Study:
    """The points of `setpredict demo`, by every decoder of a vector."""
    decoders: dict[str, Method] = {**AUTO_ENCODERS, "Slot Attention": "slots"}
    rows = [Row(name, method, steps=(STEPS[method],)) for name, method in decoders.items()]
    about = (
        "The points of `setpredict demo`: eight random points of the unit square through 64 numbers and back, one "
        "minute of training on one core for every decoder."
    )
    return Study("Points", "multisets", tuple(rows), {"train.max_minutes": 1.0, "train.threads": 1}, about=about)
