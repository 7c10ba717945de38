"""MNIST trained by the plain implementation, for the curve beside ours in RESULTS.md.

`python -m benchmarks.plain_training [--minutes 90] [--until 0.0003]` takes the settings of `setpredict reproduce mnist
--rows "DSPN (all)" --minutes 90`: the same first weights, data, optimiser, schedule and moving average. It stops at the
goal.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from rich.progress import Progress
from torch.nn.utils import clip_grad_norm_

from benchmarks import baseline
from benchmarks.cases import copy_decoder, features_first, stacked
from benchmarks.machine import describe
from setpredict.data.task import SetTask
from setpredict.decoders import DSPN
from setpredict.files import write_text
from setpredict.model import SetPredictor
from setpredict.presets import Experiment, make_task
from setpredict.revision import revision
from setpredict.studies import configure, studies
from setpredict.training.evaluation import evaluate
from setpredict.training.optimiser import learning_rate, make_optimiser, update_average

RESULTS = Path(__file__).parents[1] / "results" / "plain-mnist-small.json"
ROW = "DSPN (all)"


def train(experiment: Experiment, task: SetTask, minutes: float, until: float) -> dict[str, Any]:
    """The training loop that one writes first, validated as often as ours."""
    config = experiment.train
    torch.manual_seed(config.seed)
    model = SetPredictor.from_config(experiment.model(task))
    assert isinstance(model.decoder, DSPN)
    plain = baseline.PlainDSPN(baseline.PlainDeepSets(2, experiment.latent), task.max_size, 2)
    copy_decoder(model.decoder, plain)
    average, optimiser = copy.deepcopy(plain), make_optimiser(plain, config)
    seconds, step, curve = 0.0, 0, {"minutes": [], "chamfer": []}
    with Progress(transient=True) as bar:
        line = bar.add_task("plain", total=minutes)
        while True:
            for batch in task.loader("train", config.batch_size, seed=config.seed):
                began = time.perf_counter()
                for group in optimiser.param_groups:
                    group["lr"] = learning_rate(config, step, seconds / (60 * minutes))
                target = features_first(batch.target)
                sets, masks = plain(plain.encoder(target[:, :2], target[:, 2]))
                baseline.chamfer(stacked(sets, masks), target).backward()
                clip_grad_norm_(plain.parameters(), config.clip_grad or float("inf"))
                optimiser.step()
                optimiser.zero_grad()
                step += 1
                update_average(average, plain, config.ema, step)
                seconds += time.perf_counter() - began
                bar.update(line, completed=seconds / 60, description=f"plain, step {step}")
                if step % (config.val_every or 500) == 0 or seconds > 60 * minutes:
                    copy_decoder(model.decoder, average, back=True)
                    seen = evaluate(Fabric(accelerator="cpu"), model, task, experiment.loss, "val")
                    curve["minutes"].append(round(seconds / 60, 2))
                    curve["chamfer"].append(seen.metrics["chamfer"])
                    bar.console.print(f"step {step}  {seconds / 60:.1f} min  chamfer {seen.metrics['chamfer']:.6f}")
                    if seen.metrics["chamfer"] <= until or seconds > 60 * minutes:
                        return {"curve": curve, "steps_trained": step, "minutes": round(seconds / 60, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plain_training", description=__doc__)
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--until", type=float, default=0.0003, help="stop at this validation Chamfer loss")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    study = studies()["mnist"]
    experiment = configure(study, study.row(ROW), "small", 0, minutes=given.minutes, threads=given.threads)
    found = train(experiment, make_task(experiment.data), given.minutes, given.until)
    command = f"python -m benchmarks.plain_training --minutes {given.minutes:g} --threads {given.threads}"
    about = {"row": "DSPN (all), plain implementation", "compares": ROW, "command": command}
    content = about | found | {"machine": describe(), "revision": revision()}
    write_text(given.out, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
