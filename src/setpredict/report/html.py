"""The parts of a self-contained HTML page: figures as data URLs, tables, sections, one style sheet."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from setpredict.report.figures.dark import darken
from setpredict.report.figures.palette import DARK, DARK_CARD, WRONG

STYLE = (
    """
:root { color-scheme: light dark; --paper: #fbfaf7; --ink: #23231f; --soft: #6c6b64; --line: #dedbd2; --card: #fff;
  --wrong: WRONG; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #171816; --ink: #e8e6df; --soft: #a09e95; --line: #34352f; --card: DARK_CARD;
    --wrong: DARK_WRONG; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 66rem; padding: 2rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p { max-width: 44rem; } .soft, caption, figcaption { color: var(--soft); font-size: .9rem; }
figure { margin: 0 0 1rem; } figcaption { margin-top: .3rem; }
img { max-width: 100%; height: auto; display: block; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; padding: .5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; background: var(--card); }
caption { text-align: left; padding: .3rem 0; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; } td:first-child { min-width: 6rem; }
@media (max-width: 40rem) {
  body { padding: 1rem .75rem 3rem; } th, td { padding: .25rem .3rem; } table { font-size: .82rem; }
  th.number { white-space: normal; } td { overflow-wrap: anywhere; }
}
td.heat { text-align: center; min-width: 2.6rem; }
td[title=wrong] { color: var(--wrong) !important; }
details { margin: .6rem 0; } summary { cursor: pointer; }
""".replace("DARK_WRONG", DARK[WRONG])
    .replace("DARK_CARD", DARK_CARD)
    .replace("WRONG", WRONG)
)


def page(title: str, body: Sequence[str]) -> str:
    """A complete document."""
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n<link rel='icon' href='data:,'>\n"
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


def figure(drawn: Figure, caption: str) -> str:
    """A figure as a PNG inside the page, for light and for dark pages; the caption is also its alternative text."""
    light = _png(drawn)
    darken(drawn)
    return (
        f"<figure><picture><source media='(prefers-color-scheme: dark)' srcset='{_png(drawn)}'>"
        f"<img alt='{escape(caption, quote=True)}' src='{light}'></picture>"
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _png(drawn: Figure) -> str:
    """A data URL of a figure without background."""
    FigureCanvasAgg(drawn)
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=110, bbox_inches="tight", transparent=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "", first_left: int = 1) -> str:
    """A table of plain cells; the first `first_left` columns are left-aligned text, the others numbers."""

    def cell(tag: str, column: int, text: str) -> str:
        kind = "" if column < first_left else " class='number'"
        scope = " scope='col'" if tag == "th" else ""
        return f"<{tag}{scope}{kind}>{escape(text)}</{tag}>"

    head = "".join(cell("th", i, h) for i, h in enumerate(heads))
    body = "".join("<tr>" + "".join(cell("td", i, c) for i, c in enumerate(row)) + "</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<div class='wide'><table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def section(title: str, *parts: str) -> str:
    """A section with a heading; empty if all its parts are."""
    body = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>" if body else ""


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{escape(text)}</p>"
