"""Objects as text, step by step, with wrong values in red: for the terminal, for a web page, and for LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rich.table import Table
from rich.text import Text

from setpredict.data.task import SetTask
from setpredict.report.figures.palette import WRONG
from setpredict.report.tables.judged import Cell, ObjectRow, columns, judge_objects, true_objects
from setpredict.report.watched import Watched

Blocks = list[tuple[str, list[ObjectRow]]]
"""One block per step: its name, and one row per object."""


def object_blocks(task: SetTask, watched: Watched, sample: int, steps: Sequence[int]) -> Blocks:
    """The predicted objects of some steps, then the true ones."""
    prediction, target = watched.prediction, watched.batch.target
    blocks = [(f"step {t}", judge_objects(task, prediction.step(t), target, sample)) for t in steps]
    return [*blocks, ("target", true_objects(task, target, sample))]


def terminal_table(task: SetTask, blocks: Blocks, title: str = "") -> Table:
    """A table for the terminal."""
    table = Table(title=title or None, title_justify="left")
    for head in ("", *columns(task), "mask"):
        table.add_column(Text(head), justify="right" if head == "mask" else "left")
    for name, rows in blocks:
        for i, row in enumerate(rows):
            cells = [Text(c.text, style="bold red" if c.wrong else "") for c in row.cells]
            mask = Text(f"{row.score:.2f}", style="bold red" if _wrong_mask(row) else "")
            style = "" if row.present else "dim"
            table.add_row(name if i == 0 else "", *cells, mask, style=style, end_section=i == len(rows) - 1)
    return table


def html_table(task: SetTask, blocks: Blocks) -> str:
    """A table for a web page, with its own style; wrong cells are red and bold and have a title for screen readers."""
    heads = "".join(f"<th scope='col'>{escape(h)}</th>" for h in ("step", *columns(task), "mask"))
    body = []
    for name, rows in blocks:
        cells = [[*row.cells, Cell(f"{row.score:.2f}", _wrong_mask(row))] for row in rows]
        for i, line in enumerate(cells):
            head = f"<th scope='rowgroup' rowspan='{len(cells)}'>{escape(name)}</th>" if i == 0 else ""
            body.append("<tr>" + head + "".join(map(_html_cell, line)) + "</tr>")
    return f"<table class='objects'><thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def latex_table(task: SetTask, blocks: Blocks, caption: str = "") -> str:
    """A table for LaTeX with the packages `booktabs` and `xcolor`."""
    heads = " & ".join(_latex(h) for h in ("step", *columns(task), "mask"))
    lines = ["\\begin{tabular}{" + "l" * (len(columns(task)) + 1) + "r}", "\\toprule", heads + " \\\\"]
    for name, rows in blocks:
        lines.append("\\midrule")
        for i, row in enumerate(rows):
            cells = [*row.cells, Cell(f"{row.score:.2f}", _wrong_mask(row))]
            lines.append(" & ".join([_latex(name) if i == 0 else "", *map(_latex_cell, cells)]) + " \\\\")
    lines += ["\\bottomrule", "\\end{tabular}"]
    return (f"% {caption}\n" if caption else "") + "\n".join(lines) + "\n"


def _wrong_mask(row: ObjectRow) -> bool:
    """Whether the object is a missed or a surplus one."""
    return row.present == (row.target is None)


def _html_cell(cell: Cell) -> str:
    if not cell.wrong:
        return f"<td>{escape(cell.text)}</td>"
    return f"<td style='color:{WRONG};font-weight:bold' title='wrong'>{escape(cell.text)}</td>"


LATEX = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)
"""What LaTeX writes its special characters as."""


def _latex_cell(cell: Cell) -> str:
    return f"\\textcolor{{red}}{{\\textbf{{{_latex(cell.text)}}}}}" if cell.wrong else _latex(cell.text)


def _latex(text: str) -> str:
    return text.translate(LATEX)
