"""What the training loop adds to the model's own time. `python -m benchmarks.training_loop`."""

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

from setpredict.losses import outer_loss
from setpredict.model import SetPredictor
from setpredict.presets import make_task, preset
from setpredict.training.devices import make_fabric
from setpredict.training.interrupt import StopRequest
from setpredict.training.log import ProgressLine, RunLog
from setpredict.training.loop import TrainState, fit
from setpredict.runs.train import Run
from setpredict.training.set_loss import make_set_loss

RESULTS = Path(__file__).parent / "results" / "training_loop.json"
CASES = {"polygons": 50, "mnist": 4}  # preset, steps of one round


def compare(name: str, steps: int, rounds: int = 8) -> dict[str, float | str]:
    """The same steps by a bare loop (forward, loss, backward, Adam) and by a whole run, alternately; minima."""
    experiment = preset(name, "dspn", "small")
    train = experiment.train
    train.max_minutes, train.ema, train.val_every, train.save_every = None, 0.0, 10**9, 10**9
    fabric = make_fabric(train)
    task = make_task(experiment.data)
    batches = [batch for batch, _ in zip(task.loader("train", train.batch_size), range(steps))]
    set_loss = make_set_loss(experiment.loss, task)
    state = TrainState.fresh(fabric, SetPredictor.from_config(experiment.model(task)), train)
    bare, whole = [], []
    for r in range(rounds):
        began = time.perf_counter()
        for batch in batches:
            parts = outer_loss(state.model(batch.input, batch.target), batch.target, set_loss)
            parts["loss"].backward()
            if train.clip_grad is not None:
                clip_grad_norm_(state.model.parameters(), train.clip_grad)
            state.optimizer.step()
            state.optimizer.zero_grad()
        bare.append(time.perf_counter() - began)
        train.max_steps = (r + 1) * steps
        with tempfile.TemporaryDirectory() as folder:
            run = Run(fabric, Path(folder), experiment, task, state, Console(quiet=True))
            run.validate = lambda: None  # validation and checkpoints are work of their own
            run.save = lambda: None
            run.val_every = 10**9
            run.log, run.since = RunLog(Path(folder)), (state.step, state.seconds)
            with StopRequest(run.console) as run.stop, ProgressLine(run.console) as run.line:
                began = time.perf_counter()
                fit(fabric, state, task, train, experiment.loss, run.after_step)
                whole.append(time.perf_counter() - began)
            run.log.close()
    overhead = min(whole) / min(bare) - 1
    return {
        "case": name,
        "bare_ms": 1000 * min(bare) / steps,
        "run_ms": 1000 * min(whole) / steps,
        "overhead": overhead,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = []
    for name, steps in CASES.items():
        rows.append(compare(name, steps))
        print(rows[-1], flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    machine = f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    content = {"machine": machine, "date": time.strftime("%Y-%m-%d"), "rows": rows}
    options.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
