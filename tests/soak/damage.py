"""Damaged files of a run: each must be refused in one line, or make no difference."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import torch
from rich.console import Console

from setpredict.core.errors import UserError
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import load
from setpredict.runs.train import train_run
from tests.soak.tally import Tally
from tests.soak.worker import soak_experiment
from tests.training.comparing import differences


def damage(path: Path, rng: random.Random) -> str:
    """Change a file in one of the ways in which disks, copies and people do; returns which."""
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    kind = rng.choice(["flip", "flip", "flip", "flips", "cut", "cut end", "zeros", "append", "empty", "swap"])
    match kind:
        case "flip":
            data[at] ^= 1 << rng.randrange(8)
        case "flips":
            for _ in range(20):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case "cut":
            del data[at:]
        case "cut end":
            del data[-rng.randrange(1, min(100, len(data)) + 1) :]
        case "zeros":
            data[at : at + 512] = bytes(len(data[at : at + 512]))
        case "append":
            data += rng.randbytes(rng.randrange(1, 200))
        case "empty":
            data.clear()
        case "swap":
            other = rng.randrange(len(data))
            data[at], data[other] = data[other], data[at]
    path.write_bytes(data)
    return f"{kind} at {at} of {path.name}"


def resumed(run: RunFolder, steps: int) -> dict:
    """The checkpoint after a few more steps."""
    train_run(soak_experiment(steps), run.path, resume=True, console=Console(quiet=True))
    return torch.load(run.checkpoint_path, weights_only=True)


class Damage:
    """Copies of one finished run, each with one damaged file."""

    def __init__(self, source: Path, folder: Path, steps: int):
        self.source, self.folder, self.steps = source, folder, steps + 6
        self.weights = dict(load(source).model.state_dict())
        shutil.copytree(source, folder)
        self.continued = resumed(RunFolder(folder), self.steps)
        shutil.rmtree(folder)

    def try_one(self, rng: random.Random, tally: Tally) -> None:
        """Damage a file of a fresh copy, use the copy, and count how that ended."""
        shutil.copytree(self.source, self.folder)
        run = RunFolder(self.folder)
        weights = next(run.best_path.glob("*.safetensors"))
        numbers = [run.checkpoint_path, run.previous_checkpoint_path, weights]
        text = [run.config_path, run.description_path, run.log_path, run.summary_path, run.best_path / "config.json"]
        binary = rng.random() < 0.75
        path = rng.choice(numbers if binary else text)
        before = path.read_bytes()
        what = damage(path, rng)
        if path.read_bytes() == before:  # zeros where zeros were
            shutil.rmtree(self.folder)
            return
        tally.add("damaged" if binary else "damaged text")
        try:
            changed = self._use(run, path, weights)
        except UserError as e:
            tally.add("refused" if binary else "text refused")
            if "\n" in str(e):
                tally.wrong("tracebacks", f"{what}: more than one line: {e}")
        except Exception as e:
            tally.wrong("tracebacks", f"{what}: {type(e).__name__}: {e}")
        else:
            if binary and changed:
                tally.wrong("damage used", f"{what}: {', '.join(changed[:3])}")
            elif binary:
                tally.add("recovered")
        shutil.rmtree(self.folder)

    def _use(self, run: RunFolder, path: Path, weights: Path) -> list[str]:
        """What differs from the undamaged run."""
        if path in (run.checkpoint_path, run.previous_checkpoint_path):
            return differences(resumed(run, self.steps), self.continued, ignore=("seconds",))
        found = load(run.path).model
        found.predict([[[0.1, 0.2]] * 4])
        run.read_log()
        run.read_summary()
        return differences(dict(found.state_dict()), self.weights) if path == weights else []
