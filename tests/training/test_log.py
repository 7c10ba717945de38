"""The log of a training: the progress line, CSV and TensorBoard."""

from pathlib import Path

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from setpredict.core.log_file import read_log
from setpredict.training.log import ProgressLine, RunLog


def test_rows_after_the_checkpoint_are_dropped_on_resume(tmp_path):
    csv, board = tmp_path / "log.csv", tmp_path / "board"
    log = RunLog(csv, board)
    for step in (1, 2, 3):
        log.write(step, {"loss": step / 3})
    log.write(3, {"val": 1.0})
    log.close()
    again = RunLog(csv, board, resumed_at=2)
    again.write(3, {"loss": 9.0})
    again.close()
    assert read_log(csv) == [
        {"step": "1", "loss": "0.333333"},
        {"step": "2", "loss": "0.666667"},
        {"step": "3", "loss": "9"},
    ]
    assert list(board.glob("events*"))


def test_a_training_beyond_its_limit_is_at_100_percent(capsys: pytest.CaptureFixture):
    with ProgressLine(Console(width=80)) as line:
        line.show(1.07, "step 9", line=True)
    assert capsys.readouterr().out.strip() == "100.0%  step 9"


def test_tensorboard_shows_percent_where_the_file_has_fractions(tmp_path: Path):
    log = RunLog(tmp_path / "log.csv", tmp_path / "board")
    log.write(1, {"val_AP50": 0.25, "val_size_accuracy": 0.5, "val_size_error": 0.75, "loss": 2.0})
    log.close()
    seen = EventAccumulator(str(tmp_path / "board")).Reload()
    values = {name: seen.Scalars(name)[0].value for name in seen.Tags()["scalars"]}
    assert values == {"val_AP50_percent": 25.0, "val_size_accuracy_percent": 50.0, "val_size_error": 0.75, "loss": 2.0}
    (row,) = read_log(tmp_path / "log.csv")
    assert (float(row["val_AP50"]), float(row["val_size_accuracy"])) == (0.25, 0.5)
