"""The same figure for a dark page: text, axes and lines in light colors, on no background of its own."""

from __future__ import annotations

from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from setpredict.report.figures.palette import DARK, DARK_CARD, MASK_COLORMAP

SHADES = {to_hex(colormaps[MASK_COLORMAP](i)): to_hex(colormaps[MASK_COLORMAP](255 - i)) for i in range(256)}
"""Masks in a legend, as in the picture: what was dark becomes light."""


def darken(figure: Figure) -> None:
    """Change the colors of a figure, in place, to those for a dark page."""
    figure.patch.set_facecolor("none")
    for artist in figure.findobj():
        if isinstance(artist, Axes):
            artist.patch.set_facecolor("none")
        elif isinstance(artist, Legend):
            artist.get_frame().set(facecolor=DARK_CARD, edgecolor="none")
        elif isinstance(artist, Collection):
            _darken_collection(artist)
        else:
            _darken_one(artist)


def _darken_one(artist: Artist) -> None:
    if isinstance(artist, Text | Line2D):
        artist.set_color(_dark(artist.get_color()))
    if isinstance(artist, Line2D):
        artist.set(
            markerfacecolor=_dark(artist.get_markerfacecolor()), markeredgecolor=_dark(artist.get_markeredgecolor())
        )
    elif isinstance(artist, Patch) and artist.get_edgecolor() is not None:
        artist.set_edgecolor(_dark(artist.get_edgecolor()))


def _darken_collection(drawn: Collection) -> None:
    """Points colored by their masks: what was dark, and present, becomes light."""
    if drawn.get_array() is not None:
        drawn.set_cmap(f"{MASK_COLORMAP}_r")
        return
    drawn.set_facecolor([_dark(color) for color in drawn.get_facecolor()])
    drawn.set_edgecolor([_dark(color) for color in drawn.get_edgecolor()])


def _dark(color) -> tuple[float, float, float, float] | str:
    if isinstance(color, str) and color in ("none", "auto"):
        return color
    opacity, plain = to_rgba(color)[3], to_hex(color)
    return (*to_rgba(DARK.get(plain) or SHADES.get(plain) or plain)[:3], opacity)
