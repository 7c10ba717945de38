"""A CSV log: rows of named numbers, one or more per step, whose columns may grow."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from setpredict.core.errors import UserError
from setpredict.core.files import write_text


class LogFile:
    """Appends rows to a CSV file; a new file, or the rows up to step `resumed_at` of the file that exists."""

    def __init__(self, path: Path, resumed_at: int = 0):
        self.path = path
        self.rows = [r for r in read_log(path) if int(float(r["step"])) <= resumed_at] if resumed_at else []
        self.columns = list(dict.fromkeys(c for row in self.rows for c in row))
        self._rewrite()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Append one row."""
        row = {"step": str(step), **{k: f"{v:.6g}" for k, v in values.items()}}
        self.rows.append(row)
        new = [c for c in row if c not in self.columns]
        if new:  # the header changes
            self.columns += new
            self._rewrite()
            return
        with open(self.path, "a", newline="", encoding="utf-8") as f:
            csv.DictWriter(f, self.columns).writerow(row)

    def _rewrite(self) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.columns)
        if self.columns:
            writer.writeheader()
        writer.writerows(self.rows)
        write_text(self.path, text.getvalue())


def read_log(path: Path) -> list[dict[str, str]]:
    """The rows of a log without empty cells; none if the file does not exist. An incomplete last row is dropped."""
    if not path.is_file():
        return []
    try:
        with open(path, newline="", encoding="utf-8") as f:
            rows = [{k: v for k, v in row.items() if k and v} for row in csv.DictReader(f) if None not in row.values()]
    except (UnicodeDecodeError, csv.Error) as e:
        raise UserError(f"{path} is damaged ({e}); rename it to go on without its curves") from None
    rows = [row for row in rows if "step" in row]
    wrong = [i for i, row in enumerate(rows) if not all(map(_is_number, row.values()))]
    if wrong and wrong[0] < len(rows) - 1:
        raise UserError(f"{path} is damaged (row {wrong[0] + 1}); rename it to go on without its curves")
    return rows[: wrong[0]] if wrong else rows


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
