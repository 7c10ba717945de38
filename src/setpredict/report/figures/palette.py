"""The colors of every figure and page: distinct in print and to color-blind readers (the palette of Okabe and Ito)."""

from __future__ import annotations

from typing import Any

INK = "#222222"
SOFT = "#777777"
"""Text of minor importance."""
GRAY = "#bbbbbb"
RING = "#8a8a8a"
"""Targets behind a prediction: 3.5:1 on white."""
RIGHT = "#0072b2"
WRONG = "#c1121f"
"""Never the only mark of an error: wrong elements are also bold or dashed."""
LINE_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222")
DARK = {"#000000": "#e8e6df", INK: "#e8e6df", SOFT: "#a09e95", RIGHT: "#4c9fd6", WRONG: "#ff8a8f"}
"""The colors of text, axes and lines on a dark page, where they differ."""
DARK_CARD = "#20211e"
LINE_STYLES = ("-", "--", ":", "-.")
MASK_COLORMAP = "viridis"
"""A mask as a color, ordered by lightness: dark is present, light is absent."""


def line_style(i: int) -> dict[str, Any]:
    """Color and style of the line with index i."""
    return {"color": LINE_COLORS[i % len(LINE_COLORS)], "linestyle": LINE_STYLES[i % len(LINE_STYLES)]}
