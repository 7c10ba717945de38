"""Figures in the pages are those in the files that commands wrote."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def demo_table(name: str) -> str:
    """The table of a demo, from the file that `setpredict demo` wrote."""
    rows = ["| decoder | after T steps | after 2T steps | parameters | steps trained |", "| --- |" + " ---: |" * 4]
    for model in json.loads((ROOT / "results" / name).read_text())["models"]:
        once, twice = model["error_x1000"].values()
        later = "–" if once == twice else f"{twice:.3f}"
        numbers = [f"{once:.3f}", later, f"{model['parameters']:,}", f"{model['steps_trained']:,}"]
        rows.append(f"| {model['name']} | " + " | ".join(numbers) + " |")
    return "\n".join(rows) + "\n"


def sweep_table() -> str:
    """How hard the hardest spot is, for the square."""
    heads = ["decoder", "median error ×1000", "largest error ×1000", "part of the circle with 10 × the median"]
    rows = ["| " + " | ".join([*heads, "largest jump"]) + " |", "| --- |" + " ---: |" * 4]
    for model in json.loads((ROOT / "results" / "polygons.json").read_text())["models"]:
        s = model["sweep"]["4"]
        errors = [f"{1000 * s['median_error']:.4f}", f"{1000 * s['largest_error']:.2f}"]
        numbers = [*errors, f"{100 * s['hard_fraction']:.1f} %", f"{s['largest_jump']:.0f}"]
        rows.append(f"| {model['name']} | " + " | ".join(numbers) + " |")
    return "\n".join(rows) + "\n"


def distributed_table() -> str:
    content = json.loads((ROOT / "benchmarks" / "results" / "distributed.json").read_text())
    rows = ["| model | processes | parameters | step | of it communication |", "| --- |" + " ---: |" * 4]
    for r in content["rows"]:
        share = f"{100 * r['communication_share']:.0f} %" if r["processes"] > 1 else "–"
        numbers = [str(r["processes"]), f"{r['parameters']:,}", f"{r['step_ms']:.0f} ms", share]
        rows.append(f"| {r['case']} | " + " | ".join(numbers) + " |")
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    ("page", "table"),
    [
        ("README.md", lambda: demo_table("demo.json")),
        ("docs/polygons.md", sweep_table),
        ("docs/scale.md", distributed_table),
    ],
)
def test_the_tables_are_those_of_the_files(page, table):
    assert table() in (ROOT / page).read_text(), f"{page} should hold:\n{table()}"


def test_every_link_between_pages_leads_somewhere():
    import re

    for page in [ROOT / "README.md", ROOT / "RESULTS.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_results_are_those_of_the_files():
    from setpredict.report.results import differences

    assert differences(ROOT / "results", ROOT / "RESULTS.md", ROOT / "docs" / "images") == ""
