"""The log of a training: CSV and TensorBoard."""

from setpredict.core.log_file import read_log
from setpredict.training.log import RunLog


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
