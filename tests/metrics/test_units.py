"""Units of metrics: the heading names the unit in which the value is shown."""

import pytest

from setpredict.metrics.units import heading, percent, shown


@pytest.mark.parametrize(
    ("name", "value", "head", "text"),
    [
        ("AP50", 0.98765, "AP50 %", "98.8"),
        ("AP∞", 1.0, "AP∞ %", "100.0"),
        ("AP0.25", 0.0, "AP0.25 %", "0.0"),
        ("size_accuracy", 0.5, "size accuracy %", "50.0"),
        ("size_error", 1.23456, "size error", "1.23"),
        ("chamfer", 0.00012345, "chamfer ×1000", "0.123"),
        ("hungarian", 0.25, "hungarian ×1000", "250.000"),
        ("steps_taken", 12.0, "steps taken", "12"),
    ],
)
def test_heading_and_value(name, value, head, text):
    assert (heading(name), shown(name, value)) == (head, text)
    assert percent(name) == head.endswith("%")


@pytest.mark.parametrize("name", ["AP50", "chamfer", "size_error"])
def test_nan_is_a_dash(name):
    assert shown(name, float("nan")) == "–"
