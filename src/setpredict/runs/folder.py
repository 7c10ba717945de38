"""RunFolder: the files of a run. The only module that spells their names."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from setpredict.config import Experiment, from_json, to_json
from setpredict.core.errors import UserError
from setpredict.core.files import atomic, read_json, remove_temporary, write_text
from setpredict.core.log_file import read_log
from setpredict.core.revision import hardware, revision
from setpredict.data.description import read_description, to_description
from setpredict.data.task import SetTask
from setpredict.model import CONFIG, WEIGHTS

DESCRIPTION = "task.json"
"""The description of the data; a shipped model has it too."""


class Origin(TypedDict):
    """The code and the machine that a run was started with."""

    revision: str
    hardware: str


class Summary(TypedDict):
    """The end of a training: optimizer steps, training seconds, the best validation score and what ended it."""

    step: int
    seconds: float
    best: list[float]
    ended_by: NotRequired[str]


NUMBERS = ("metrics", "errors", "accuracy", "score", "largest")
"""The fields of scores that hold numbers, which may be NaN."""


class Score(TypedDict):
    """One evaluation: the fields of `setpredict.training.evaluation.Evaluation`."""

    split: str
    steps: int | None
    samples: int
    metrics: dict[str, float]
    milliseconds: float
    score: list[float]
    selected_by: NotRequired[str]
    elements: NotRequired[dict[str, Any] | None]
    coco: NotRequired[dict[str, Any] | None]
    baselines: NotRequired[dict[str, Any]]
    too_large: NotRequired[int]


class Validation(Score):
    """The validation that the best weights come from, and its optimizer step."""

    step: int


class RunFolder:
    """The folder of a run: `*_path` properties, and typed reads and writes. Reads give None for a missing file, except
    those of the configuration and the description, without which a folder is not a run."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    def __str__(self) -> str:
        return str(self.path)

    @property
    def config_path(self) -> Path:
        return self.path / "config.json"

    @property
    def description_path(self) -> Path:
        return self.path / DESCRIPTION

    @property
    def origin_path(self) -> Path:
        return self.path / "origin.json"

    @property
    def log_path(self) -> Path:
        return self.path / "log.csv"

    @property
    def tensorboard_path(self) -> Path:
        return self.path / "tensorboard"

    @property
    def checkpoint_path(self) -> Path:
        return self.path / "last.ckpt"

    @property
    def previous_checkpoint_path(self) -> Path:
        return self.path / "previous.ckpt"

    @property
    def damaged_checkpoint_path(self) -> Path:
        """Where a damaged last checkpoint is kept when the run continues from the previous one."""
        return self.path / "damaged.ckpt"

    @property
    def lock_path(self) -> Path:
        """Held while the run is trained."""
        return self.path / "training.lock"

    @property
    def token_path(self) -> Path:
        """Proves that the run was trained here; only runs with code of the user's own have it."""
        return self.path / "token"

    @property
    def summary_path(self) -> Path:
        return self.path / "done.json"

    @property
    def best_path(self) -> Path:
        """The folder of the best model, for `SetPredictor.from_pretrained`."""
        return self.path / "best"

    @property
    def validation_path(self) -> Path:
        return self.best_path / "validation.json"

    @property
    def record_path(self) -> Path:
        return self.path / "record.json"

    @property
    def report_path(self) -> Path:
        return self.path / "report.html"

    @property
    def plots_path(self) -> Path:
        return self.path / "plots"

    @property
    def pictures_path(self) -> Path:
        return self.path / "pictures"

    def picture_path(self, step: int) -> Path:
        return self.pictures_path / f"step-{step:07d}.png"

    def evaluation_path(self, split: str) -> Path:
        return self.path / f"evaluation-{split}.json"

    @property
    def has_checkpoint(self) -> bool:
        """Whether training can be resumed."""
        return self.checkpoint_path.is_file() or self.previous_checkpoint_path.is_file()

    @property
    def has_model(self) -> bool:
        """Whether a validated model was saved."""
        return self.best_path.is_dir()

    @property
    def is_finished(self) -> bool:
        """Whether training reached its end."""
        return self.summary_path.is_file()

    def read_experiment(self) -> Experiment:
        """The configuration of the run."""
        if not self.config_path.is_file():
            raise UserError(f"{self} is not a run: {self.config_path.name} not found")
        return from_json(Experiment, read_json(self.config_path), str(self.config_path))

    def write_experiment(self, experiment: Experiment) -> None:
        _write(self.config_path, to_json(experiment))

    def read_description(self) -> SetTask:
        """The data set of the run without its samples."""
        if not self.description_path.is_file():
            raise UserError(f"{self} is not a run: {self.description_path.name} not found")
        return read_description(self.description_path)

    def write_description(self, task: SetTask) -> None:
        _write(self.description_path, to_description(task))

    def read_origin(self) -> Origin | None:
        return _read_if_present(self.origin_path)

    def write_origin(self) -> None:
        """Record the code and the machine of this process."""
        write_text(self.origin_path, json.dumps(here()) + "\n")

    def read_summary(self) -> Summary | None:
        return _read_if_present(self.summary_path)

    def write_summary(self, summary: Summary) -> None:
        write_text(self.summary_path, json.dumps(summary) + "\n")

    def read_validation(self) -> Validation | None:
        return _read_if_present(self.validation_path)

    def write_validation(self, validation: Mapping[str, Any]) -> None:
        _write(self.validation_path, validation)

    def read_evaluation(self, split: str = "test") -> list[Score] | None:
        """The last evaluation on a split, one row per number of inner steps."""
        return _nan_restored(_read_if_present(self.evaluation_path(split)))

    def write_evaluation(self, split: str, rows: Sequence[Mapping[str, Any]]) -> None:
        _write(self.evaluation_path(split), _nan_as_null(rows))

    def read_record(self) -> dict[str, Any] | None:
        """The row of a table that `setpredict reproduce` made of this run."""
        return _read_if_present(self.record_path)

    def write_record(self, record: Mapping[str, Any]) -> None:
        write_text(self.record_path, json.dumps(record) + "\n")

    def publish(self, to: RunFolder) -> None:
        """Write what others need to start from this run to another folder: its best weights and where they come from.

        No path of this machine is written.
        """
        experiment, record = self.read_experiment(), self.read_record()
        assert record is not None
        experiment.data.folder = None
        for path in sorted(self.best_path.iterdir()):
            with atomic(to.best_path / path.name) as temporary:
                shutil.copyfile(path, temporary)
        to.write_experiment(experiment)
        to.write_description(self.read_description())
        to.write_record(record)

    def remove_evaluations(self) -> None:
        """Delete the scores of the best weights, before others replace these."""
        for path in self.path.glob("evaluation-*.json"):
            path.unlink(missing_ok=True)

    def read_token(self) -> str | None:
        try:
            return self.token_path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None

    def write_token(self, token: str) -> None:
        write_text(self.token_path, token + "\n")

    def remove_temporary(self) -> list[Path]:
        """Delete temporary files of killed trainings; call it with the lock held. Others are deleted after an hour."""
        written = (
            self.config_path, self.description_path, self.origin_path, self.log_path, self.token_path,
            self.checkpoint_path, self.previous_checkpoint_path, self.summary_path, self.validation_path,
            self.best_path / CONFIG, self.best_path / WEIGHTS,
        )  # fmt: skip
        return remove_temporary(written, (self.path, self.best_path, self.pictures_path, self.plots_path))

    def read_log(self) -> list[dict[str, str]]:
        """The rows of the log, without empty cells."""
        return read_log(self.log_path)


def here() -> Origin:
    """The code and the machine of this process."""
    return {"revision": revision(), "hardware": hardware()}


def _read_if_present(path: Path) -> Any:
    return read_json(path) if path.is_file() else None


def _nan_as_null(values: Any) -> Any:
    """The same with None for numbers that JSON does not have (NaN and infinity)."""
    match values:
        case dict():
            return {name: _nan_as_null(value) for name, value in values.items()}
        case list() | tuple():
            return [_nan_as_null(value) for value in values]
        case float():
            return values if math.isfinite(values) else None
    return values


def _nan_restored(values: Any, number: bool = False) -> Any:
    """The same with NaN for null where a number must be."""
    match values:
        case dict():
            return {name: _nan_restored(value, number or name in NUMBERS) for name, value in values.items()}
        case list():
            return [_nan_restored(value, number) for value in values]
    return math.nan if number and values is None else values


def _write(path: Path, values: Any) -> None:
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
