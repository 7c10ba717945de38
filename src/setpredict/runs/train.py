"""A run: training in a folder of its own that survives interruption, with validation, checkpoints and logs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch
from lightning_fabric import Fabric
from rich.console import Console
from rich.markup import escape
from rich.progress import track

from setpredict.config import ConfigError, LossConfig, TrainConfig, from_dict, to_dict
from setpredict.data.task import Batch, SetTask
from setpredict.decoders import DSPN, diagnose
from setpredict.core.files import write_text
from setpredict.model import SetPredictor
from setpredict.runs.card import Card
from setpredict.core.modes import evaluating
from setpredict.presets import DataConfig, Experiment, located, make_task
from setpredict.core.revision import hardware, revision
from setpredict.sets import NotFinite, Prediction
from setpredict.data.description import to_card
from setpredict.training.checkpoint import load_checkpoint, save_checkpoint
from setpredict.training.devices import any_rank, make_fabric
from setpredict.training.evaluation import Evaluation, evaluate, make_meters
from setpredict.runs.init_from import init_from as begin_with
from setpredict.training.interrupt import StopRequest
from setpredict.training.log import ProgressLine, RunLog
from setpredict.training.loop import Step, TrainState, fit, share_buffers
from setpredict.training.set_loss import make_set_loss

MOST_ROLLBACKS = 3
Draw = Callable[[SetTask, Batch, Prediction, Path], object]


class Diverged(ValueError):
    """Training met a value that is not finite."""


def read_experiment(folder: Path) -> Experiment:
    """The configuration of a run."""
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a run: there is no config.json in it")
    try:
        return from_dict(Experiment, json.loads(path.read_text(encoding="utf-8")), where=str(path))
    except json.JSONDecodeError as e:
        raise ConfigError(f"{path} is not valid JSON: {e}") from None


def train_run(
    experiment: Experiment,
    folder: Path,
    *,
    resume: bool = False,
    init_from: Path | None = None,
    draw: Draw | None = None,
    console: Console | None = None,
) -> Evaluation | None:
    """Train in `folder`, from the start or from its last checkpoint; the last validation is returned.

    `draw(task, batch, prediction, path)` makes the picture that is left behind after each validation.
    """
    if resume and init_from is not None:
        raise ConfigError("--resume goes on with the run's own weights: leave --init-from out")
    experiment.train.check()
    fabric = make_fabric(experiment.train)
    console = console or Console()
    _refuse_folder(folder, resume)
    experiment = located(experiment)
    before = located(read_experiment(folder)) if resume else experiment
    _refuse_other_model(experiment, before, folder)
    fabric.launch()
    if fabric.global_rank > 0:
        console = Console(quiet=True)
    task = make_task(experiment.data)
    for split in ("train", "val", "test"):
        if not len(task.split(split)):
            raise ConfigError(f"the {split} split of {task.name} is empty; training needs samples in all three")
    make_set_loss(experiment.loss, task)  # what does not fit is told before step 1
    make_meters(task, experiment.loss)
    torch.manual_seed(experiment.train.seed)
    model = SetPredictor.from_config(experiment.model(task))
    if init_from is not None:
        begin_with(model, Path(init_from))
    state = TrainState.fresh(fabric, model, experiment.train)
    if resume:
        load_checkpoint(folder / "last.ckpt", state)
        if experiment.loss != before.loss:  # scores by another loss do not compare
            state.best, state.stale = (float("inf"),), 0
        (folder / "done.json").unlink(missing_ok=True)
    if fabric.is_global_zero:
        if not resume:
            write_text(folder / "task.json", json.dumps(to_card(task), indent=2) + "\n")
            write_text(folder / "origin.json", json.dumps({"revision": revision(), "hardware": hardware()}) + "\n")
        write_text(folder / "config.json", json.dumps(to_dict(experiment), indent=2) + "\n")
    fabric.barrier()
    run = Run(fabric, folder, experiment, task, state, console, draw)
    return run.go()


def evaluate_run(
    folder: Path,
    steps: Sequence[int | None] = (None,),
    split: str = "test",
    *,
    batch_size: int = 128,
    data: DataConfig | None = None,
    console: Console | None = None,
) -> list[Evaluation]:
    """Measure the best model of a run on a whole split, each number of inner steps a row; the rows are saved too.

    A shipped model is measured on the data of its card; then, or on other `data`, nothing is saved.
    """
    weights, finished = folder / "best", not (folder / "card.json").is_file()
    if finished:
        experiment = read_experiment(folder)
    else:
        card, weights = Card.read(folder), folder
        data, loss = from_dict(DataConfig, card.data, "card.data"), from_dict(LossConfig, card.loss, "card.loss")
        experiment = Experiment(data, loss=loss)
    if not (weights / "model.safetensors").is_file():
        raise FileNotFoundError(f"{folder} has no validated model yet: {weights} is missing")
    fabric = _any_fabric(experiment.train)
    fabric.launch()
    console = console if console and fabric.is_global_zero else Console(quiet=True)
    model = SetPredictor.from_pretrained(weights, str(fabric.device), allow_own_code=finished)
    if not isinstance(model.decoder, DSPN):
        steps = (None,)
    task, workers, rows = make_task(data or experiment.data), experiment.train.workers, []
    for count in track(steps, "evaluating", console=console, transient=True):
        rows.append(evaluate(fabric, model, task, experiment.loss, split, count, batch_size, workers))
    if fabric.is_global_zero and finished and data is None:
        text = json.dumps([asdict(r) for r in rows], indent=2, ensure_ascii=False)
        write_text(folder / f"evaluation-{split}.json", text + "\n")
    fabric.barrier()
    return rows


def _any_fabric(train: TrainConfig) -> Fabric:
    """The devices of the training, or what this machine has: scores do not depend on them."""
    try:
        return make_fabric(train)
    except ConfigError:
        return make_fabric(replace(train, accelerator="auto", devices=1))


@dataclass
class Run:
    """The parts of a run while it goes on."""

    fabric: Fabric
    folder: Path
    experiment: Experiment
    task: SetTask
    state: TrainState
    console: Console
    draw: Draw | None = None
    log: RunLog | None = None
    line: ProgressLine = field(init=False)
    last: Evaluation | None = None
    stop: StopRequest = field(init=False)
    stopped: bool = False
    """Whether any process was asked to stop; all know."""
    warned: set[str] = field(default_factory=set)
    val_every: int = 1
    validated_at: int = -1
    since: tuple[int, float] = (0, 0.0)
    """Step and training seconds at the last line of the log, for the samples a second."""
    shown: float = 0.0
    """When the progress bar last moved."""

    def go(self) -> Evaluation | None:
        train = self.experiment.train
        batches = len(self.task.loader("train", train.batch_size, world_size=self.fabric.world_size))
        self.val_every = train.val_every or max(round(batches / train.accumulate), 1)
        if self.fabric.is_global_zero:
            self.log = RunLog(self.folder, self.state.step)
        self.since = (self.state.step, self.state.seconds)
        if self.state.step == 0:
            self.save()
        with StopRequest(self.console) as self.stop, ProgressLine(self.console) as self.line:
            while True:
                try:
                    fit(self.fabric, self.state, self.task, train, self.experiment.loss, self.after_step)
                    break
                except NotFinite as e:
                    self.roll_back(e)
            if not self.stopped and (self.last is None or self.validated_at != self.state.step):
                self.validate()
            self.save()
        if self.log:
            self.log.close()
            if not self.stopped:
                summary = {"step": self.state.step, "seconds": self.state.seconds, "best": list(self.state.best)}
                write_text(self.folder / "done.json", json.dumps(summary) + "\n")
        self.fabric.barrier()  # the other processes look for done.json too
        if self.stopped:
            self.console.print(
                f"Stopped after step {self.state.step}; nothing is lost. Go on with:\n"
                f"  setpredict train --resume {self.folder}",
                markup=False,
            )
        return self.last

    def after_step(self, state: TrainState, step: Step) -> bool:
        """Log, validate and save when it is time; True ends the training."""
        train = self.experiment.train
        done = step.done >= 1
        if state.step % train.log_every == 0 or done:
            self.report(step)
        if self.line_is_due():
            self.line.show(step.done, f"step {state.step}  loss {step.parts['loss'].item():.5f}", line=False)
        if state.step % self.val_every == 0 or done:
            self.validate()
            self.save()
            if train.patience is not None and state.stale >= train.patience:
                self.line.say(f"No better score in {state.stale} validations: stopped early at step {state.step}.")
                return True
        elif state.step % train.save_every == 0:
            self.save()
        self.stopped = not done and any_rank(self.fabric, self.stop.asked)
        return self.stopped

    def line_is_due(self) -> bool:
        now = time.monotonic()
        if now - self.shown < 0.2:
            return False
        self.shown = now
        return True

    def report(self, step: Step) -> None:
        """The numbers of a step to the log, and a warning with advice when the inner loop goes wrong."""
        state, prediction = self.state, step.prediction
        values = {name: part.item() for name, part in step.parts.items() if name in ("loss", "repr")}
        values["set_YT"] = step.parts["set_last"].item()
        if prediction.repr_loss is not None:
            with torch.no_grad():
                first = make_set_loss(self.experiment.loss, self.task)(prediction.step(0).detach(), step.batch.target)
            values["set_Y0"] = first.mean().item()
            values["inner_repr"] = prediction.repr_loss[-1].mean().item()
            values["inner_grad"] = 0.0 if prediction.grad_norm is None else prediction.grad_norm.mean().item()
            seen = diagnose(prediction.detach())
            if not seen.healthy and seen.verdict not in self.warned:
                self.warned.add(seen.verdict)
                self.line.say(f"[yellow]Step {state.step}: {seen.verdict}[/]")
        steps, seconds = state.step - self.since[0], state.seconds - self.since[1]
        self.since = (state.step, state.seconds)
        samples = steps * self.experiment.train.batch_size * self.experiment.train.accumulate * self.fabric.world_size
        values["samples_per_s"] = samples / max(seconds, 1e-9)
        values["lr"] = state.optimizer.param_groups[0]["lr"]
        values["minutes"] = state.seconds / 60
        if self.log:
            self.log.write(state.step, values)
        note = f"step {state.step}  loss {values['loss']:.5f}"
        if "set_Y0" in values:
            note += f"  Y0 {values['set_Y0']:.4f} → YT {values['set_YT']:.5f}  repr {values['inner_repr']:.2e}"
        self.line.show(step.done, f"{note}  {values['samples_per_s']:.0f} samples/s", line=True)

    def validate(self) -> None:
        """Measure on the validation split; keep the weights if they are the best so far."""
        state, train = self.state, self.experiment.train
        share_buffers(self.fabric, state)
        seen = evaluate(self.fabric, state.best_weights, self.task, self.experiment.loss, "val", workers=train.workers)
        self.last, self.validated_at = seen, state.step
        better = tuple(seen.score) < tuple(state.best)
        state.stale = 0 if better else state.stale + 1
        if better:
            state.best = tuple(seen.score)
        if self.fabric.is_global_zero:
            if self.log:
                seen_at = {"minutes": state.seconds / 60}
                self.log.write(state.step, seen_at | {f"val_{k}": v for k, v in seen.metrics.items()})
            if better:
                state.best_weights.save_pretrained(self.folder / "best")
                text = json.dumps({"step": state.step, **asdict(seen)}, indent=2, ensure_ascii=False)
                write_text(self.folder / "best" / "validation.json", text + "\n")
            if train.pictures and self.draw is not None:
                self.leave_picture(self.draw)
        self.fabric.barrier()
        words = "  ".join(f"{k} {v:.5g}" for k, v in seen.metrics.items())
        self.line.say(f"step {state.step}  validation: {words}{'  (best so far)' if better else ''}")

    def leave_picture(self, draw: Draw) -> None:
        """Some validation samples, as the model now predicts them."""
        batch = next(iter(self.task.loader("val", 6))).to(self.fabric.device)
        model = self.state.best_weights
        with torch.no_grad(), evaluating(model):
            prediction = model(batch.input)
        try:
            draw(self.task, batch, prediction, self.folder / "pictures" / f"step-{self.state.step:07d}.png")
        except Exception as e:  # whatever it is, no picture is worth a training
            self.line.say(f"[yellow]No picture of step {self.state.step}: {escape(' '.join(str(e).split()))}[/]")

    def save(self) -> None:
        if self.fabric.is_global_zero:
            save_checkpoint(self.folder / "last.ckpt", self.state)
        self.fabric.barrier()

    def roll_back(self, error: NotFinite) -> None:
        """After a value that is not finite: go on from the last checkpoint with half the learning rate, or stop."""
        state, checkpoint = self.state, self.folder / "last.ckpt"
        seen, rollbacks, scale = f"At step {state.step + 1}, {error}.", state.rollbacks, state.lr_scale
        again = self.experiment.train.on_divergence == "rollback"
        if not again or rollbacks >= MOST_ROLLBACKS:
            tried = f" {rollbacks} rollbacks did not help: look at the data of that step." if rollbacks else ""
            advice = "Lower --lr, set --clip-grad 1, or use --on-divergence rollback."
            raise Diverged(f"{seen}{tried} The last good checkpoint is {checkpoint}. {advice}") from error
        load_checkpoint(checkpoint, state)
        state.rollbacks, state.lr_scale = rollbacks + 1, scale / 2
        self.save()
        if self.log:
            self.log.close()
            self.log = RunLog(self.folder, state.step)
        self.since = (state.step, state.seconds)
        self.line.say(f"[yellow]{seen} Back to step {state.step} with the learning rate × {state.lr_scale:g}.[/]")


def _refuse_folder(folder: Path, resume: bool) -> None:
    if resume and not (folder / "last.ckpt").is_file():
        raise FileNotFoundError(f"{folder} has no checkpoint to resume from (last.ckpt)")
    if not resume and (folder / "last.ckpt").exists():
        raise FileExistsError(f"{folder} is a run already. Go on with --resume {folder}, or choose another --name.")
    if not resume and any((folder / name).exists() for name in ("done.json", "best")):
        raise FileExistsError(f"{folder} is a run already, without its checkpoint. Choose another --name.")


def _refuse_other_model(ours: Experiment, theirs: Experiment, folder: Path) -> None:
    """A run goes on with its data and model; the loss and the outer loop may change."""
    for name in ("data", "latent", "input", "encoder", "decoder"):
        if getattr(ours, name) != getattr(theirs, name):
            raise ConfigError(
                f"--resume {folder} goes on with the same data and model, but {name} is changed: "
                f"start a new run from its weights instead, with --init-from {folder}"
            )
