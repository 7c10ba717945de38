"""A run while it is trained: validation, checkpoints, the log, rolling back and stopping."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from lightning_fabric import Fabric
from rich.console import Console
from rich.markup import escape

from setpredict.config import Experiment
from setpredict.core.errors import NotFinite, UserError
from setpredict.core.modes import evaluating
from setpredict.data.task import Batch, SetTask
from setpredict.decoders import diagnose
from setpredict.losses.outer import OuterLoss
from setpredict.metrics.units import heading, shown
from setpredict.runs.folder import RunFolder
from setpredict.runs.restore import restore
from setpredict.sets import Prediction
from setpredict.training.checkpoint import check_state, save_checkpoint
from setpredict.training.devices import any_rank, raise_anywhere
from setpredict.training.evaluation import Evaluation, batch_size_for, evaluate
from setpredict.training.interrupt import StopRequest
from setpredict.training.limits import ended_by
from setpredict.training.log import ProgressLine, RunLog
from setpredict.training.loop import Step, TrainState, fit, share_buffers

MOST_ROLLBACKS = 3
VALIDATION_SHARE = 0.1
"""How much of the time validation may take where --val-every is not given."""
Draw = Callable[[SetTask, Batch, Prediction, Path], object]


class Diverged(UserError):
    """Training met a value that is not finite."""


def resume_command(folder: RunFolder, experiment: Experiment) -> str:
    """How to resume a run: on the command line, or in Python if its data are in memory."""
    in_memory = experiment.data.name == "memory"
    return f'fit(data, folder="{folder}", resume=True)' if in_memory else f"setpredict train --resume {folder}"


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
    stop: StopRequest = field(init=False)
    stopped: bool = False
    """Whether any process was asked to stop; all know."""
    warned: set[str] = field(default_factory=set)
    val_every: int = 1
    logged_at: tuple[int, float] = (0, 0.0)
    """Step and training seconds of the last row of the log, for the samples per second."""
    shown_at: float = 0.0
    """When the progress bar was last updated."""
    validated_seconds: float = 0.0
    """Training seconds before the last validation."""
    validation_seconds: float = 0.0
    """How long the last validation took."""
    saved_at: int | None = None
    """The step of the last checkpoint."""

    def go(self) -> Evaluation | None:
        """Train to the end, or until a request to stop."""
        train = self.experiment.train
        batches = len(self.task.loader("train", train.batch_size, world_size=self.fabric.world_size))
        self.val_every = train.val_every or max(round(batches / train.accumulate), 1)
        self._open_log()
        if self.state.step == 0:
            self.save()
        try:
            with StopRequest(self.console) as self.stop, ProgressLine(self.console) as self.line:
                while not self.finish():
                    pass
        except KeyboardInterrupt:
            checkpoint = self.folder.checkpoint_path
            raise KeyboardInterrupt(
                f"Stopped at once. The last checkpoint, {checkpoint} of step {self.saved_at}, is intact. Resume with:\n"
                f"  {resume_command(self.folder, self.experiment)}"
            ) from None
        finally:
            if self.log:
                self.log.close()
        if self.log and not self.stopped:
            step, seconds, best = self.state.step, self.state.seconds, list(self.state.best)
            ended = ended_by(train, step, seconds, self.state.position / max(self.state.batches, 1))
            self.folder.write_summary({"step": step, "seconds": seconds, "best": best, "ended_by": ended})
            self.console.print(
                f"Training ended by {ended}, at step {step}, after {seconds / 60:.1f} minutes.", highlight=False
            )
        self.fabric.barrier()  # the other processes look for the summary too
        if self.stopped:
            self.console.print(
                f"Stopped after step {self.state.step}; nothing is lost. Resume with:\n"
                f"  {resume_command(self.folder, self.experiment)}",
                markup=False,
            )
        return self.last

    def finish(self) -> bool:
        """Train, validate and save; False if a value was not finite, and training must continue from a checkpoint."""
        try:
            train, warmup = self.experiment.train, self.experiment.input.warmup or 0
            fit(self.fabric, self.state, self.task, train, self.loss, self.after_step, warmup)
            if not self.stopped and self.state.validated_at != self.state.step:
                self.validate()
            self.save()
        except NotFinite as e:
            self.roll_back(e)
            return False
        return True

    def after_step(self, state: TrainState, step: Step) -> bool:
        """Log, validate and save at their intervals; True ends the training."""
        train = self.experiment.train
        done = step.done >= 1
        if state.step % train.log_every == 0 or done:
            self.report(step)
        if time.monotonic() - self.shown_at >= 0.2:
            self.shown_at = time.monotonic()
            self.line.show(step.done, f"step {state.step}  loss {step.parts['loss'].item():.5f}", line=False)
        if done:
            return True  # `finish` validates and saves
        if state.step % self.val_every == 0 and self.validation_is_due():
            self.validate()
            if train.patience is not None and state.stale >= train.patience:
                self.line.say(f"No better score in {state.stale} validations: stopped early at step {state.step}.")
                return True
            self.save()
        elif state.step % train.save_every == 0:
            self.save()
        self.stopped = any_rank(self.fabric, self.stop.asked)
        return self.stopped

    def validation_is_due(self) -> bool:
        """At every multiple of --val-every; without it, so seldom that validation takes a tenth of the time at most."""
        due = self.experiment.train.val_every is not None
        due = due or self.state.seconds - self.validated_seconds >= (1 / VALIDATION_SHARE - 1) * self.validation_seconds
        return any_rank(self.fabric, due)

    def report(self, step: Step) -> None:
        """Log the numbers of a step; warn, with advice, when the inner loop does not work."""
        state, prediction = self.state, step.prediction
        values = {name: part.item() for name, part in step.parts.items() if name in ("loss", "repr", "dense")}
        values["set_YT"] = step.parts["set_last"].item()
        if prediction.steps:
            with torch.no_grad():
                first = self.loss.scaled_set_loss(prediction.step(0).detach(), step.batch.target)
            values["set_Y0"] = first.mean().item()
        if prediction.repr_loss is not None:
            values["inner_repr"] = prediction.repr_loss[-1].mean().item()
        if prediction.repr_loss is not None and prediction.grad_norm is not None:
            values["inner_grad"] = prediction.grad_norm.mean().item() if prediction.steps else 0.0
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
        began = time.perf_counter()
        share_buffers(self.fabric, state)
        given = {"batch_size": batch_size_for(self.fabric.device, train), "workers": train.workers}
        seen = evaluate(self.fabric, state.best_weights, self.task, self.loss, "val", **given)
        self.last, state.validated_at = seen, state.step
        better = tuple(seen.score) < tuple(state.best)
        state.stale = 0 if better or state.warming else state.stale + 1  # no decoder is trained in a warm-up
        if better:
            state.best = tuple(seen.score)
        if self.fabric.is_global_zero:
            if self.log:
                self.log.write(
                    state.step, {"minutes": state.seconds / 60} | {f"val_{k}": v for k, v in seen.metrics.items()}
                )
            if better:
                self.folder.remove_evaluations()
                state.best_weights.save_pretrained(self.folder.best_path)
                self.folder.write_validation({"step": state.step, **asdict(seen)})
            if train.pictures and self.draw is not None:
                self.save_picture(self.draw)
        self.fabric.barrier()
        self.validated_seconds, self.validation_seconds = state.seconds, time.perf_counter() - began
        text = "  ".join(f"{heading(k)} {shown(k, v)}" for k, v in seen.metrics.items())
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
        """Write the checkpoint, and keep the one before; NotFinite instead if weights are not finite."""
        raise_anywhere(self.fabric, check_state(self.state))
        if self.fabric.is_global_zero:
            again = self.saved_at == self.state.step  # another step's is worth more than the same one twice
            previous = None if again else self.folder.previous_checkpoint_path
            save_checkpoint(self.folder.checkpoint_path, self.state, previous)
        self.saved_at = self.state.step
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
        said = restore(self.fabric, self.folder, state, self.experiment.train.seed)
        if said:
            self.line.say(escape(said))
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
