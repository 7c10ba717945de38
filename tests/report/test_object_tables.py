"""Objects step by step as text: terminal, HTML and LaTeX."""

import io

import torch
from rich.console import Console

from setpredict.data.sources.scenes import scenes
from setpredict.report.tables.objects import html_table, latex_table, object_blocks, terminal_table
from setpredict.report.watched import Watched
from tests.report.trajectories import batch_of, trajectory_to


def blocks_of():
    task = scenes("state", size=16, max_objects=4, val=6)
    batch = batch_of(task, 2)
    watched = Watched(batch, trajectory_to(batch, 2), torch.zeros(3, 2))
    return task, batch, object_blocks(task, watched, 1, [0, 2])


def test_steps_come_first_and_the_target_last():
    _, batch, blocks = blocks_of()
    assert [name for name, _ in blocks] == ["step 0", "step 2", "target"]
    n = int(batch.target.sizes[1])
    assert [row.right for row in blocks[1][1]] == [True] * n
    assert not all(row.right for row in blocks[0][1])


def test_terminal():
    task, _, blocks = blocks_of()
    written = io.StringIO()
    Console(file=written, width=120, force_terminal=True, color_system="standard").print(terminal_table(task, blocks))
    wrong = blocks[0][1][0].cells[0]
    assert wrong.wrong
    assert f"31m{wrong.text}" in written.getvalue()
    assert "step 2" in written.getvalue()


def test_html_marks_wrong_cells_and_escapes():
    task, _, blocks = blocks_of()
    task.categories = task.categories | {"shape": tuple(f"<{c}>" for c in task.categories["shape"])}
    text = html_table(task, blocks)
    wrong = sum(c.wrong for _, rows in blocks for r in rows for c in r.cells)
    marks = sum(r.present == (r.target is None) for _, rows in blocks for r in rows)
    assert text.count("title='wrong'") == wrong + marks
    assert text.count("<tr>") == 1 + sum(len(rows) for _, rows in blocks)
    assert "<sphere>" not in html_table(task, object_blocks(task, _watched(task), 0, [0]))


def _watched(task):
    batch = batch_of(task, 1)
    return Watched(batch, trajectory_to(batch, 1), torch.zeros(2, 1))


def test_latex_has_red_cells_and_as_many_cells_as_columns():
    task, _, blocks = blocks_of()
    task.categories = task.categories | {"size": ("l_&%{}", "s_&%{}")}
    blocks = object_blocks(task, _watched(task), 0, [0, 1])
    text = latex_table(task, blocks, "a caption")
    rows = [line for line in text.splitlines() if line.endswith("\\\\")]
    assert [row.replace("\\&", "").count("&") for row in rows] == [6] * len(rows)
    assert "\\textcolor{red}{\\textbf{" in text
    assert "\\_\\&\\%\\{\\}" in text
    assert text.startswith("% a caption\n\\begin{tabular}{llllllr}")
