"""What a run adds to the time of the model itself: `python -m benchmarks.training_loop`."""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console
from torch.nn.utils import clip_grad_norm_

from setpredict.build import make_loss, make_task
from setpredict.model import SetPredictor
from setpredict.presets import preset
from setpredict.resolve import model_config
from setpredict.runs.folder import RunFolder
from setpredict.runs.training_run import TrainingRun
from setpredict.training.devices import make_fabric
from setpredict.training.interrupt import StopRequest
from setpredict.training.log import ProgressLine, RunLog
from setpredict.training.loop import TrainState, fit

RESULTS = Path(__file__).parent / "results" / "training_loop.json"
CASES = {"polygons": 50, "mnist": 4}  # preset, steps per round


def compare(name: str, steps: int, rounds: int = 8) -> dict[str, float | str]:
    """The same steps in a bare loop (forward, loss, backward, Adam) and in a run, in alternation; the least times."""
    experiment = preset(name, "dspn", "small")
    train = experiment.train
    train.max_minutes, train.ema, train.val_every, train.save_every = None, 0.0, 10**9, 10**9
    fabric = make_fabric(train)
    task = make_task(experiment.data)
    batches = [batch for batch, _ in zip(task.loader("train", train.batch_size), range(steps))]
    loss = make_loss(experiment.loss, task)
    state = TrainState.fresh(fabric, SetPredictor.from_config(model_config(experiment, task)), train)
    bare, complete = [], []
    for r in range(rounds):
        began = time.perf_counter()
        for batch in batches:
            loss(state.model(batch.input, batch.target), batch.target)["loss"].backward()
            if train.clip_grad is not None:
                clip_grad_norm_(state.model.parameters(), train.clip_grad)
            state.optimizer.step()
            state.optimizer.zero_grad()
        bare.append(time.perf_counter() - began)
        train.max_steps = (r + 1) * steps
        with tempfile.TemporaryDirectory() as path:
            folder = RunFolder(path)
            run = TrainingRun(fabric, folder, experiment, task, loss, state, Console(quiet=True), val_every=10**9)
            run.validate = lambda: None  # validation and checkpoints are not part of a step
            run.save = lambda: None
            run.log, run.logged_at = RunLog(folder.log_path, folder.tensorboard_path), (state.step, state.seconds)
            with StopRequest(run.console) as run.stop, ProgressLine(run.console) as run.line:
                began = time.perf_counter()
                fit(fabric, state, task, train, loss, run.after_step)
                complete.append(time.perf_counter() - began)
            run.log.close()
    return {
        "case": name,
        "bare_ms": 1000 * min(bare) / steps,
        "run_ms": 1000 * min(complete) / steps,
        "overhead": min(complete) / min(bare) - 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.training_loop", description=__doc__)
    parser.add_argument("--json", type=Path, default=RESULTS, help="the file for the results")
    parser.add_argument("--rounds", type=int, default=8, help="how many times each side is timed")
    options = parser.parse_args()
    rows = []
    for name, steps in CASES.items():
        rows.append(compare(name, steps, options.rounds))
        print(rows[-1], flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    machine = f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    content = {"machine": machine, "date": time.strftime("%Y-%m-%d"), "rows": rows}
    options.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
