"""RESULTS.md is what the files say, and `--check` fails if it is not."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from setpredict.cli.main import run
from setpredict.report.results import data_used, drawn, reached, tables, time_to
from setpredict.report.tables.records import lay_out, origins


def entry(row: str, values: list[float], seed: int = 0, steps: int | None = 10) -> dict:
    """A run with these Chamfer losses in its validations, one per minute, and the last of them in the test too."""
    return {
        "row": row,
        "seed": seed,
        "command": f'setpredict reproduce mnist --rows "{row}"',
        "evaluations": [{"steps": steps, "samples": 10000, "metrics": {"chamfer": values[-1], "size_error": 1.0}}],
        "config": {"data": {"name": "mnist", "folder": None}},
        "chosen": 7,
        "parameters": 85634,
        "steps_trained": 1000 + seed,
        "minutes": 2.0 + seed,
        "curve": {"minutes": [float(i + 1) for i in range(len(values))], "chamfer": values},
        "hardware": "a machine",
        "revision": "abc",
    }


RUNS = [
    entry("MLP", [0.004, 0.002], steps=None),
    entry("DSPN (all)", [0.0002, 0.0001]),
    entry("DSPN (all)", [0.0008, 0.0003], seed=1),
]
PLAIN = entry("DSPN, plain", [0.001] * 8 + [0.0003]) | {
    "compares": "DSPN (all)",
    "command": "python -m benchmarks.plain",
    "goal": 0.0003,
    "machine": {"load": 1.5},
    "ours": RUNS[2],
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "mnist-small.json").write_text(
        json.dumps({"table": "mnist", "scale": "small", "runs": RUNS})
    )
    return tmp_path


def test_mean_and_deviation_are_beside_the_papers_numbers():
    ((_, heads, cells),) = lay_out("mnist", RUNS)
    assert heads == ["model", "chamfer ×1000", "minutes", "training steps", "runs"]
    assert cells == [
        ["MLP", "2.000 (0.21 ± 0.18)", "2", "1,000", "1"],
        ["DSPN (all), 10 steps", "0.200 ± 0.141 (0.09 ± 0.01)", "2", "1,000", "2"],
    ]


def test_headings_stand_above_the_first_row_that_was_trained():
    def run(row: str) -> dict:
        metrics = {"AP∞": 0.5, "size_accuracy": 1.0}
        return entry(row, [0.1], steps=None) | {"evaluations": [{"steps": None, "samples": 9, "metrics": metrics}]}

    rows = ["MLP", "Slot Attention", "Transformer", "iDSPN, no warm-up"]
    ((_, heads, cells),) = lay_out("clevr-state", [run(row) for row in rows])
    assert [line[0] for line in cells] == ["MLP", "Beyond the paper:", *rows[1:3], "Without the warm-up:", rows[3]]
    assert {len(line) for line in cells} == {len(heads)}
    ((_, _, cells),) = lay_out("clevr-state", [run(row) for row in rows[1:3]])
    assert [line[0] for line in cells] == rows[1:3]


def test_an_ablation_shows_the_unchanged_model_in_each_of_its_tables():
    entries = [entry("base", [0.3]), entry("Pooling: sum", [0.4])]
    found = lay_out("ablations", entries)
    assert [(name, [c[0] for c in cells]) for name, _, cells in found] == [
        ("Pooling", ["FSPool, 10 steps", "sum, 10 steps"])
    ]


def test_decoders_by_size_have_a_column_per_size(tmp_path):
    sizes = [("MLP", 2, 8, 0.3), ("MLP", 8, 2, 0.1), ("DSPN", 2, 8, 0.002)]
    runs = [
        entry(f"{name}, n = {n}, d = {d}", [value * (1 + seed)], seed)
        | {"config": {"data": {"name": "multisets", "folder": None, "points": n, "dim": d}}}
        for name, n, d, value in sizes
        for seed in range(2)
    ]
    ((_, heads, cells),) = lay_out("multisets", runs)
    assert heads == ["model", "n = 2, d = 8", "n = 8, d = 2", "runs"]
    assert cells == [["MLP", "450.000 ± 212.132", "150.000 ± 70.711", "2"], ["DSPN", "3.000 ± 1.414", "–", "2"]]
    figure = drawn({"table": "multisets", "scale": "small", "runs": runs})
    assert figure is not None
    assert [axes.get_title() for axes in figure.axes] == ["d = 2", "d = 8"]
    lines = [line for line in figure.axes[1].lines if line.get_linestyle() != "None"]
    means = {line.get_label(): np.asarray(line.get_ydata())[0] for line in lines}
    assert means == pytest.approx({"MLP": 450.0, "DSPN": 3.0})


def test_a_single_answer_has_no_figure(place):
    content = {"table": "ablations", "scale": "small", "runs": [entry("base", [0.3])]}
    (place / "results" / "ablations-small.json").write_text(json.dumps(content))
    assert run(["results"]) == run(["results", "--check"]) == 0
    assert "results-ablations-small.svg" not in (place / "RESULTS.md").read_text()


def test_headlines_come_first_and_other_tables_are_folded(place):
    names = {"ablations": [entry("base", [0.3]), entry("Pooling: sum", [0.4])], "points": [entry("MLP", [0.7])]}
    for table, runs in names.items():
        content = {"table": table, "scale": "small", "runs": runs}
        (place / "results" / f"{table}-small.json").write_text(json.dumps(content))
    (place / "results" / "ablations-small.md").write_text("A remark.\n\n<!-- details -->\n\nAnother one.")
    assert run(["results"]) == 0
    text = (place / "RESULTS.md").read_text()
    heads = [line for line in text.splitlines() if line.startswith("##")]
    assert [head.split()[1] for head in heads] == ["MNIST", "More", "Points,", "Ablations,", "How"]
    shown = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert [part in shown for part in ("| MLP", "What the paper mentions", "A remark.", "results-ablations")] == [
        True, False, False, False,
    ]  # fmt: skip
    assert text.count("A remark.") == text.count("Another one.") == text.count("**Pooling**") == 1


def test_runs_that_steps_limited_are_drawn_by_steps_and_have_no_minutes():
    def ended_by(name: str, seed: int, minutes: float | None, steps: int | None) -> dict:
        limits = {"max_minutes": minutes, "max_steps": steps, "val_every": 600}
        config = {"data": {"name": "scenes", "folder": None}, "train": limits}
        return entry(name, [0.2, 0.1], seed, steps=None) | {"config": config}

    minutes = [ended_by(name, 0, 60.0, None) for name in ("MLP", "DSPN (all)")]
    steps = [ended_by("MLP", 1, 60.0, 1001), ended_by("MLP, 23,000 training steps", 0, None, 23_000)]
    figure = drawn({"table": "clevr-box", "scale": "small", "runs": [*minutes, *steps]})
    assert figure is not None
    by_time, by_steps = ([line.get_label() for line in axes.lines] for axes in figure.axes)
    assert by_time == ["MLP", "DSPN (all)"]
    assert by_steps == ["MLP", "DSPN (all)", "MLP", "MLP, 23,000 training steps"]
    steps_of = [np.asarray(line.get_xdata()).tolist() for line in figure.axes[1].lines[:3]]
    assert steps_of == [[600, 1000], [600, 1000], [600, 1001]]
    figure = drawn({"table": "clevr-box", "scale": "small", "runs": minutes})
    assert figure is not None
    assert len(figure.axes) == 1
    assert drawn({"table": "clevr-box", "scale": "small", "runs": steps[1:]}) is None
    ((_, heads, cells),) = lay_out("clevr-box", [*minutes, *steps])
    found = {line[0]: line[heads.index("minutes")] for line in cells}
    assert found == {
        "MLP": "2",
        "DSPN (all)": "2",
        "In as many training steps as DSPN:": "",
        "MLP, 23,000 training steps": "–",
    }
    ((_, heads, cells),) = lay_out("clevr-box", steps[1:])
    assert cells[0][heads.index("minutes")] == "2"


def test_times_to_a_goal_are_compared():
    assert [reached(e, 0.0003) for e in RUNS] == [None, 1.0, 2.0]
    assert "took 2.0 minutes" in time_to(PLAIN)
    assert "plain implementation 9.0, 4.5 times as long, in 1,001 and 1,000 steps" in time_to(PLAIN)
    assert time_to(PLAIN | {"goal": 1e-9}) == ""


def test_page_figure_and_check(place, capsys):
    assert run(["results", "--check"]) == 2
    assert "RESULTS.md not found" in capsys.readouterr().err
    (place / "results" / "plain-mnist-small.json").write_text(json.dumps(PLAIN))
    (place / "results" / "mnist-small.md").write_text("A remark.\n\n<!-- details -->\n\nAnother one.")
    (place / "results" / "summary.md").write_text("What was found.")
    (place / "results" / "mnist-small.png").write_bytes(b"")
    assert run(["results"]) == run(["results", "--check"]) == 0
    page, figure = place / "RESULTS.md", place / "docs" / "images" / "results-mnist-small.svg"
    text, drawn = page.read_text(), figure.read_text()
    for part in (
        "Data: mnist, tested on 10,000",
        "![The first test samples, as each row predicts them](results/mnist-small.png)",
        "0.200 ± 0.141 (0.09 ± 0.01)",
        "A remark.",
        "4.5 times",
        "(docs/images/results-mnist-small.svg)",
    ):
        assert part in text
    story, _, folded = text.partition("<details>")
    assert [part in story for part in ("What was found.", "A remark.", "Another one.")] == [True, True, False]
    assert "Another one." in folded
    assert "DSPN, plain" in drawn
    assert run(["results"]) == 0
    assert figure.read_text() == drawn
    page.write_text(text.replace("0.200", "0.100"))
    assert run(["results", "--check"]) == 2
    assert "0.100 ± 0.141" in capsys.readouterr().err
    page.write_text(text + "More.\n")
    assert run(["results", "--check"]) == 2


def test_seeds_that_differ_in_nothing_else_share_a_line():
    other = entry("DSPN (all)", [0.1], seed=2) | {"revision": "def"}
    last = RUNS[2] | {"command": "the last seed's"}
    table = origins([*RUNS[:2], last, other])
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert [(line[0], line[1], line[-1]) for line in lines[2:]] == [
        ("MLP", "0", "abc"),
        ("DSPN (all)", "0; 1", "abc"),
        ("DSPN (all)", "2", "def"),
    ]
    assert lines[3][3:6] == ["7 of 1,000; 7 of 1,001", "2.0; 3.0", "`the last seed's`"]


def test_the_data_is_named():
    scenes = {"name": "scenes", "min_objects": 3, "max_objects": 6, "size": 64}
    told = {table: data_used(table, [RUNS[0] | {"config": {"data": scenes}}]) for table in ("clevr-state", "images")}
    assert all("3 to 6 objects, 64×64 pixels" in text for text in told.values())
    assert "The paper's numbers, in parentheses, are CLEVR's" in told["clevr-state"]
    assert "The paper's numbers" not in told["images"]
    renders = {"name": "clevr", "folder": "$SETPREDICT_DATA/clevr-renders"}
    assert "from $SETPREDICT_DATA/clevr-renders" in data_used("clevr-state", [RUNS[0] | {"config": {"data": renders}}])


def test_without_files_there_is_no_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["results"]) == 2
    assert "setpredict reproduce mnist makes one" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_files_of_other_names_are_no_tables(tmp_path: Path):
    for name in ("points-small", "points-old", "mnist-paper", "notes", "mnist-small"):
        (tmp_path / f"{name}.json").write_text("{}")
    assert [path.stem for path in tables(tmp_path)] == ["mnist-small", "mnist-paper", "points-small"]
