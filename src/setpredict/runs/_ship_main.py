"""`python -m setpredict.runs.card RUN…`: make finished runs the shipped models of their names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro

from setpredict.runs.card import FOLDER
from setpredict.runs.ship import export


def main(
    runs: tyro.conf.Positional[tuple[Path, ...]],
    note: str = "",
    name: str | None = None,
    out: Annotated[Path, tyro.conf.arg(help_behavior_hint="(default: this package)")] = FOLDER,
) -> None:
    """Ship finished runs: each is known by its folder's name, or one by another name.

    Args:
        runs: The runs' folders; evaluated on the test split.
        note: A sentence for the model card, such as what the model is still bad at.
        name: What the model is called, for one run.
        out: Where to.
    """
    if not runs:
        raise ValueError("which runs?")
    if name and len(runs) > 1:
        raise ValueError(f"--name {name} is for one run, got {len(runs)}")
    for run in runs:
        folder = export(run, name, note, out)
        size = sum(f.stat().st_size for f in folder.iterdir())
        print(f"{folder.name}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    try:
        tyro.cli(main, prog="python -m setpredict.runs.card")
    except (ValueError, OSError) as e:
        sys.exit(f"setpredict.runs.card: {e}")
