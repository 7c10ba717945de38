"""The cost of a step on two processes, computation and communication by gloo: `python -m benchmarks.distributed`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results" / "distributed.json"
REPEATS = 8
CASES = {  # preset, method, training options that keep the benchmark short
    "multisets, DSPN": ("multisets", "dspn", {}),
    "mnist, iDSPN": ("mnist", "idspn", {}),
    "scenes-state small, DSPN": ("scenes-state", "dspn", {"batch_size": 16}),
}


def measure(case: str) -> dict[str, Any]:
    """The time of a step in this process, with and without summing gradients over the processes, in alternation."""
    from setpredict.build import make_loss, make_task
    from setpredict.model import SetPredictor
    from setpredict.presets import preset
    from setpredict.resolve import model_config
    from setpredict.training.devices import launch, make_fabric
    from setpredict.training.loop import TrainState, forward

    name, method, changes = CASES[case]
    experiment = preset(name, method, "small")
    experiment.train = replace(experiment.train, threads=1, workers=0, **changes)
    fabric = make_fabric(experiment.train)
    launch(fabric)
    task = make_task(experiment.data)
    state = TrainState.fresh(fabric, SetPredictor.from_config(model_config(experiment, task)), experiment.train)
    loader = task.loader("train", experiment.train.batch_size, rank=fabric.global_rank, world_size=fabric.world_size)
    batch, loss = next(iter(loader)), make_loss(experiment.loss, task)
    times: dict[bool, list[float]] = {True: [], False: []}
    for repeat in range(REPEATS + 1):
        for synced in (True, False):
            fabric.barrier()
            began = time.perf_counter()
            with fabric.no_backward_sync(state.module, enabled=not synced):
                parts, _ = forward(fabric, state, batch, loss, experiment.train, epoch=0, done=0.0)
                fabric.backward(parts["loss"])
            state.optimizer.zero_grad()
            if repeat:  # the first is a warm-up
                times[synced].append(time.perf_counter() - began)
    parameters = sum(p.numel() for p in state.model.parameters())
    step, computation = min(times[True]), min(times[False])
    return {
        "case": case,
        "processes": fabric.world_size,
        "batch_per_process": experiment.train.batch_size,
        "parameters": parameters,
        "step_ms": round(1000 * step, 2),
        "computation_ms": round(1000 * computation, 2),
        "communication_share": round(max(0.0, 1 - computation / step), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        result = measure(options.case)
        if int(os.environ.get("RANK", "0")) == 0:
            options.json.write_text(json.dumps(result))
        return
    rows = []
    for case in CASES:
        for processes in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                answer = Path(folder) / "answer.json"
                command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
                command += ["-m", "benchmarks.distributed", "--case", case, "--json", str(answer)]
                environment = {**os.environ, "OMP_NUM_THREADS": "1"}
                subprocess.run([sys.executable, *command], check=True, env=environment, stdout=subprocess.DEVNULL)
                rows.append(json.loads(answer.read_text()))
                print(rows[-1], flush=True)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, gloo"
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"machine": machine, "date": time.strftime("%Y-%m-%d"), "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
