"""A training process of the soak test: trains or resumes in a folder. python -m tests.soak.worker FOLDER STEPS"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from setpredict.config import Experiment
from setpredict.core.errors import UserError
from setpredict.runs.folder import RunFolder
from setpredict.runs.train import train_run
from tests.training.tiny_experiment import tiny_experiment


def soak_experiment(steps: int) -> Experiment:
    """A tiny model that saves so often that many kills fall into a write."""
    experiment = tiny_experiment()
    often = replace(experiment.train, max_steps=steps, save_every=2, val_every=25, log_every=5)
    return replace(experiment, train=often)


def main(folder: Path, steps: int) -> int:
    try:
        train_run(
            soak_experiment(steps), folder, resume=RunFolder(folder).has_checkpoint, console=Console(file=sys.stdout)
        )
    except UserError as e:
        print(f"worker: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
