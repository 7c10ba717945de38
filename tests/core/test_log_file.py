"""CSV logs: columns that grow, incomplete rows, and resuming."""

from pathlib import Path

import pytest

from setpredict.core.errors import UserError
from setpredict.core.log_file import LogFile, read_log


def test_columns_may_appear_later(tmp_path: Path):
    log = LogFile(tmp_path / "log.csv")
    log.write(1, {"loss": 0.5})
    log.write(2, {"val": 2.0})
    log.write(3, {"loss": 1 / 3, "val": 1e-9})
    assert read_log(tmp_path / "log.csv") == [
        {"step": "1", "loss": "0.5"},
        {"step": "2", "val": "2"},
        {"step": "3", "loss": "0.333333", "val": "1e-09"},
    ]


def test_an_incomplete_last_row_is_dropped(tmp_path: Path):
    log = LogFile(tmp_path / "log.csv")
    for step in (1, 2):
        log.write(step, {"loss": 1.0, "lr": 0.5})
    with open(log.path, "a", encoding="utf-8") as f:
        f.write("3,0.")
    assert [row["step"] for row in read_log(log.path)] == ["1", "2"]


def test_a_missing_or_empty_log_has_no_rows(tmp_path: Path):
    assert read_log(tmp_path / "none.csv") == []
    assert read_log(LogFile(tmp_path / "new.csv").path) == []


def test_resuming_keeps_the_rows_up_to_a_step_and_starting_again_none(tmp_path: Path):
    log = LogFile(tmp_path / "log.csv")
    for step in (10, 20, 30):
        log.write(step, {"loss": 1.0})
    LogFile(log.path, resumed_at=20).write(25, {"lr": 1.0})
    assert [row["step"] for row in read_log(log.path)] == ["10", "20", "25"]
    assert read_log(LogFile(log.path).path) == []


def test_a_last_row_that_ends_within_a_number_is_dropped(tmp_path: Path):
    (tmp_path / "log.csv").write_text("step,loss\n1,0.5\n2,1.2e-")
    assert read_log(tmp_path / "log.csv") == [{"step": "1", "loss": "0.5"}]


@pytest.mark.parametrize("rows", [b"x1,0.5\n2,0.5\n", b"1,\xb5\n", b"1," + b"9" * 200_000 + b"\n"])
def test_a_damaged_log_is_named(tmp_path: Path, rows: bytes):
    path = tmp_path / "log.csv"
    path.write_bytes(b"step,loss\n" + rows)
    with pytest.raises(UserError, match=r"log.csv is damaged .* rename it to go on without its curves"):
        read_log(path)
