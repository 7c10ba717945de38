"""Training in a run's folder, which survives interruption: validation, checkpoints, logs and resuming."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from lightning_fabric import Fabric
from rich.console import Console
from rich.markup import escape

from setpredict.build import make_loss, make_metrics, make_task, model_config
from setpredict.config import Experiment
from setpredict.core.errors import NotFinite, UserError
from setpredict.core.modes import evaluating
from setpredict.data.task import SPLITS, Batch, SetTask
from setpredict.decoders import diagnose
from setpredict.losses.outer import OuterLoss
from setpredict.model import SetPredictor
from setpredict.runs.folder import RunFolder
from setpredict.runs.init_from import load_initial_weights
from setpredict.sets import Prediction
from setpredict.training.checkpoint import load_checkpoint, save_checkpoint
from setpredict.training.devices import any_rank, make_fabric
from setpredict.training.evaluation import Evaluation, evaluate
from setpredict.training.interrupt import StopRequest
from setpredict.training.log import ProgressLine, RunLog
from setpredict.training.loop import Step, TrainState, fit, share_buffers

MOST_ROLLBACKS = 3
Draw = Callable[[SetTask, Batch, Prediction, Path], object]


class Diverged(UserError):
    """Training met a value that is not finite."""


def train_run(
    experiment: Experiment,
    folder: str | Path,
    *,
    resume: bool = False,
    init_from: str | Path | None = None,
    draw: Draw | None = None,
    console: Console | None = None,
) -> Evaluation | None:
    """Train in a folder, from the start or from its last checkpoint.

    Args:
        experiment: All settings. A resumed run keeps its data and model; loss and training options may change.
        folder: The folder of the run.
        resume: Continue from the folder's checkpoint.
        init_from: A run, or the name of a shipped model, whose weights are the initial ones.
        draw: `draw(task, batch, prediction, path)` draws the picture of a validation.
        console: Where messages and the progress bar go.

    Returns:
        The last validation, None if there was none.
    """
    if resume and init_from is not None:
        raise UserError("--resume continues with the run's own weights: remove --init-from")
    experiment.train.check()
    fabric = make_fabric(experiment.train)
    console, run = console or Console(), RunFolder(folder)
    _check_folder(run, resume)
    experiment = experiment.located()
    before = run.read_experiment().located() if resume else experiment
    _check_same_model(experiment, before, run)
    fabric.launch()
    if fabric.global_rank > 0:
        console = Console(quiet=True)
    task = make_task(experiment.data)
    for split in SPLITS:
        if not len(task.split(split)):
            raise UserError(f"the {split} split of {task.name} is empty; training needs samples in all three splits")
    loss = make_loss(experiment.loss, task)
    make_metrics(task, loss)  # what does not fit is reported before step 1
    torch.manual_seed(experiment.train.seed)
    model = SetPredictor.from_config(model_config(experiment, task))
    if init_from is not None:
        load_initial_weights(model, init_from)
    state = TrainState.fresh(fabric, model, experiment.train)
    if resume:
        load_checkpoint(run.checkpoint_path, state)
        if experiment.loss != before.loss:  # scores by another loss cannot be compared
            state.best, state.stale = (float("inf"),), 0
        run.summary_path.unlink(missing_ok=True)
    if fabric.is_global_zero:
        if not resume:
            run.write_description(task)
            run.write_origin()
        run.write_experiment(experiment)
    fabric.barrier()
    return TrainingRun(fabric, run, experiment, task, loss, state, console, draw).go()


@dataclass
class TrainingRun:
    """A run while it is trained."""

    fabric: Fabric
    folder: RunFolder
    experiment: Experiment
    task: SetTask
    loss: OuterLoss
    state: TrainState
    console: Console
    draw: Draw | None = None
    log: RunLog | None = None
    line: ProgressLine = field(init=False)
    last: Evaluation | None = None
    """The last validation."""
    validated_at: int = -1
    stop: StopRequest = field(init=False)
    stopped: bool = False
    """Whether any process was asked to stop; all know."""
    warned: set[str] = field(default_factory=set)
    val_every: int = 1
    logged_at: tuple[int, float] = (0, 0.0)
    """Step and training seconds of the last row of the log, for the samples per second."""
    shown_at: float = 0.0
    """When the progress bar was last updated."""

    def go(self) -> Evaluation | None:
        """Train to the end, or until a request to stop."""
        train = self.experiment.train
        batches = len(self.task.loader("train", train.batch_size, world_size=self.fabric.world_size))
        self.val_every = train.val_every or max(round(batches / train.accumulate), 1)
        self._open_log()
        if self.state.step == 0:
            self.save()
        with StopRequest(self.console) as self.stop, ProgressLine(self.console) as self.line:
            while True:
                try:
                    fit(self.fabric, self.state, self.task, train, self.loss, self.after_step)
                    break
                except NotFinite as e:
                    self.roll_back(e)
            if not self.stopped and (self.last is None or self.validated_at != self.state.step):
                self.validate()
            self.save()
        if self.log:
            self.log.close()
            if not self.stopped:
                step, seconds, best = self.state.step, self.state.seconds, list(self.state.best)
                self.folder.write_summary({"step": step, "seconds": seconds, "best": best})
        self.fabric.barrier()  # the other processes look for the summary too
        if self.stopped:
            self.console.print(
                f"Stopped after step {self.state.step}; nothing is lost. Resume with:\n"
                f"  setpredict train --resume {self.folder}",
                markup=False,
            )
        return self.last

    def after_step(self, state: TrainState, step: Step) -> bool:
        """Log, validate and save at their intervals; True ends the training."""
        train = self.experiment.train
        done = step.done >= 1
        if state.step % train.log_every == 0 or done:
            self.report(step)
        if time.monotonic() - self.shown_at >= 0.2:
            self.shown_at = time.monotonic()
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

    def report(self, step: Step) -> None:
        """Log the numbers of a step; warn, with advice, when the inner loop does not work."""
        state, prediction = self.state, step.prediction
        values = {name: part.item() for name, part in step.parts.items() if name in ("loss", "repr")}
        values["set_YT"] = step.parts["set_last"].item()
        if prediction.steps:
            with torch.no_grad():
                first = self.loss.set_loss(prediction.step(0).detach(), step.batch.target)
            values["set_Y0"] = first.mean().item()
        if prediction.repr_loss is not None:
            values["inner_repr"] = prediction.repr_loss[-1].mean().item()
            values["inner_grad"] = 0.0 if prediction.grad_norm is None else prediction.grad_norm.mean().item()
            seen = diagnose(prediction.detach())
            if not seen.healthy and seen.verdict not in self.warned:
                self.warned.add(seen.verdict)
                self.line.say(f"[yellow]Step {state.step}: {seen.verdict}[/]")
        steps, seconds = state.step - self.logged_at[0], state.seconds - self.logged_at[1]
        self.logged_at = (state.step, state.seconds)
        samples = steps * self.experiment.train.batch_size * self.experiment.train.accumulate * self.fabric.world_size
        values["samples_per_s"] = samples / max(seconds, 1e-9)
        values["lr"] = state.optimizer.param_groups[0]["lr"]
        values["minutes"] = state.seconds / 60
        if self.log:
            self.log.write(state.step, values)
        note = f"step {state.step}  loss {values['loss']:.5f}"
        if "set_Y0" in values:
            note += f"  Y0 {values['set_Y0']:.4f} → YT {values['set_YT']:.5f}"
        if "inner_repr" in values:
            note += f"  repr {values['inner_repr']:.2e}"
        self.line.show(step.done, f"{note}  {values['samples_per_s']:.0f} samples/s", line=True)

    def validate(self) -> None:
        """Evaluate on the validation split; save the weights if they are the best so far."""
        state, train = self.state, self.experiment.train
        share_buffers(self.fabric, state)
        seen = evaluate(self.fabric, state.best_weights, self.task, self.loss, "val", workers=train.workers)
        self.last, self.validated_at = seen, state.step
        better = tuple(seen.score) < tuple(state.best)
        state.stale = 0 if better else state.stale + 1
        if better:
            state.best = tuple(seen.score)
        if self.fabric.is_global_zero:
            if self.log:
                self.log.write(
                    state.step, {"minutes": state.seconds / 60} | {f"val_{k}": v for k, v in seen.metrics.items()}
                )
            if better:
                state.best_weights.save_pretrained(self.folder.best_path)
                self.folder.write_validation({"step": state.step, **asdict(seen)})
            if train.pictures and self.draw is not None:
                self.save_picture(self.draw)
        self.fabric.barrier()
        text = "  ".join(f"{k} {v:.5g}" for k, v in seen.metrics.items())
        self.line.say(f"step {state.step}  validation: {text}{'  (best so far)' if better else ''}")

    def save_picture(self, draw: Draw) -> None:
        """Draw the current predictions for some validation samples."""
        batch = next(iter(self.task.loader("val", 6))).to(self.fabric.device)
        model = self.state.best_weights
        with torch.no_grad(), evaluating(model):
            prediction = model(batch.input)
        try:
            draw(self.task, batch, prediction, self.folder.picture_path(self.state.step))
        except Exception as e:  # a failed picture must not stop the training
            self.line.say(f"[yellow]No picture of step {self.state.step}: {escape(' '.join(str(e).split()))}[/]")

    def save(self) -> None:
        """Write the checkpoint."""
        if self.fabric.is_global_zero:
            save_checkpoint(self.folder.checkpoint_path, self.state)
        self.fabric.barrier()

    def roll_back(self, error: NotFinite) -> None:
        """After a value that is not finite: continue from the last checkpoint with half the learning rate, or raise."""
        state, checkpoint = self.state, self.folder.checkpoint_path
        seen, rollbacks, scale = f"At step {state.step + 1}, {error}.", state.rollbacks, state.lr_scale
        again = self.experiment.train.on_divergence == "rollback"
        if not again or rollbacks >= MOST_ROLLBACKS:
            tried = f" {rollbacks} rollbacks did not help: look at the data of that step." if rollbacks else ""
            advice = "Lower --lr, set --clip-grad 1, or use --on-divergence rollback."
            raise Diverged(f"{seen}{tried} The last good checkpoint is {checkpoint}. {advice}") from error
        load_checkpoint(checkpoint, state)
        state.rollbacks, state.lr_scale = rollbacks + 1, scale / 2
        self.save()
        self._open_log()
        self.line.say(f"[yellow]{seen} Back to step {state.step} with the learning rate × {state.lr_scale:g}.[/]")

    def _open_log(self) -> None:
        """Start the log, or continue it at the current step."""
        if self.log:
            self.log.close()
        if self.fabric.is_global_zero:
            self.log = RunLog(self.folder.log_path, self.folder.tensorboard_path, self.state.step)
        self.logged_at = (self.state.step, self.state.seconds)


def _check_folder(folder: RunFolder, resume: bool) -> None:
    if resume and not folder.has_checkpoint:
        raise UserError(f"{folder} cannot be resumed: {folder.checkpoint_path.name} not found")
    if not resume and folder.has_checkpoint:
        raise UserError(f"{folder} is already a run. Continue it with --resume {folder}, or choose another --name.")
    if not resume and (folder.is_finished or folder.has_model):
        raise UserError(f"{folder} is already a run, without its checkpoint. Choose another --name.")


def _check_same_model(ours: Experiment, theirs: Experiment, folder: RunFolder) -> None:
    """A resumed run keeps its data and model; the loss and the training options may change."""
    for name in ("data", "latent", "input", "encoder", "decoder"):
        if getattr(ours, name) != getattr(theirs, name):
            raise UserError(
                f"--resume {folder} continues with the same data and model, but {name} was changed: "
                f"start a new run from its weights instead, with --init-from {folder}"
            )
