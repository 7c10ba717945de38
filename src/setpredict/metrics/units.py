"""Units of metrics as tables and pages show them: percent for AP and accuracies, thousandths for set distances."""

from __future__ import annotations

DISTANCES = ("chamfer", "hungarian")
EXACT = ("set_accuracy", "element_accuracy")
"""The metrics of elements that consist of categories only."""


def percent(name: str) -> bool:
    """Whether a metric is shown in percent.

    >>> percent("AP50"), percent("size_accuracy"), percent("size_error")
    (True, True, False)
    """
    return name.startswith("AP") or name.endswith("_accuracy")


def heading(name: str) -> str:
    """A metric's name with the unit of `shown`.

    >>> heading("AP50"), heading("size_accuracy"), heading("chamfer"), heading("steps_taken")
    ('AP50 %', 'size accuracy %', 'chamfer ×1000', 'steps taken')
    """
    unit = " %" if percent(name) else " ×1000" if name in DISTANCES else ""
    return name.replace("_", " ") + unit


def shown(name: str, value: float) -> str:
    """A metric's value as text, in the unit of `heading`; a dash for NaN.

    >>> shown("AP50", 0.98765), shown("chamfer", 0.00012345), shown("steps_taken", 7.25), shown("AP50", float("nan"))
    ('98.8', '0.123', '7.25', '–')
    """
    if value != value:
        return "–"
    if percent(name):
        return f"{100 * value:.1f}"
    return f"{1000 * value:.3f}" if name in DISTANCES else f"{value:.3g}"
