"""Figures as files."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from setpredict.core.files import atomic


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure atomically, in the format of the file name's ending."""
    path = Path(path)
    FigureCanvasAgg(figure)
    with atomic(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip("."), dpi=150, bbox_inches="tight")
    return path
