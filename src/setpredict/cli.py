"""The command line. Options are typed dataclasses and functions; heavy imports wait until a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import tyro


def demo(
    task: Literal["points", "polygons"] = "points",
    seconds: float = 33.0,
    out: Path = Path("runs/demo"),
    seed: int = 0,
) -> None:
    """See it work: three decoders learn the same sets for the same time.

    Args:
        task: Random point sets to auto-encode, or polygons from their angle (the paper's opening example).
        seconds: Training time of each decoder.
        out: Where the picture and the numbers go.
        seed: Of the data and the weights.
    """
    from rich.console import Console

    from setpredict.demo import run as run_demo

    if not seconds > 0:
        raise ValueError(f"--seconds must be above 0, got {seconds:g}")
    run_demo(task, seconds, out, seed, Console())


COMMANDS = {"demo": demo}


def run(arguments: Sequence[str]) -> int:
    """Run one command; a mistake in its input is one line, not a traceback."""
    try:
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="setpredict",
            description="Predict sets: unordered collections of points, boxes or objects.",
            args=arguments,
            config=(tyro.conf.OmitArgPrefixes,),
        )
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    except (ValueError, TypeError, OSError) as e:
        if os.environ.get("SETPREDICT_DEBUG"):
            raise
        print(f"setpredict: {e}", file=sys.stderr)
        return 2
    return 0
