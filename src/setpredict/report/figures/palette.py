"""The colors of every figure and page: told apart in print and by color-blind readers (Okabe and Ito's set)."""

from __future__ import annotations

INK = "#222222"
FAINT = "#bbbbbb"
RIGHT = "#0072b2"
WRONG = "#c1121f"
"""Never the only sign: what is wrong is also bold or dashed."""
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222")
STYLES = ("-", "--", ":", "-.")
MASKS = "viridis"
"""A mask as a color, ordered by lightness: dark is present, light is absent."""
