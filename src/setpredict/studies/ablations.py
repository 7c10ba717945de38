"""What the paper mentions without numbers, one thing changed at a time."""

from __future__ import annotations

from setpredict.studies.table import FIXED, Changes, Row, Study

UNSHARED = {"input.shared": False}
MOMENTUM = {"decoder.solver.momentum": 0.9, "decoder.solver.nesterov": True}
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


def ablations() -> Study:
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
