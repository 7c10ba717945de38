"""The generated tables of the documentation: every option and public name, and numbers from files."""

import dataclasses
import inspect
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

import setpredict
from setpredict.config import DataConfig, DecoderConfig, EncoderConfig, InputConfig, LossConfig, TrainConfig
from setpredict.core.errors import UserError
from setpredict.report import doc_tables
from setpredict.report.doc_tables.measured import distributed_table, methods_table, sweep_table
from setpredict.report.doc_tables.names import first_sentence
from setpredict.report.doc_tables.options import field_docs

CONFIGS = [DataConfig, InputConfig, EncoderConfig, DecoderConfig, LossConfig, TrainConfig]


def cells(table: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


@pytest.mark.parametrize("config", CONFIGS)
def test_every_option_is_documented(config: type):
    for name, _, text in cells(doc_tables.option_table(config, "x")):
        assert text.endswith("."), f"{name}: {text!r}"


def test_options_of_the_solver_are_flat_and_defaults_are_readable():
    rows = {name: (default, text) for name, default, text in cells(doc_tables.option_table(DecoderConfig, "decoder"))}
    assert rows["`decoder.step_size`"][0] == "25"
    assert rows["`decoder.nesterov`"][0] == "off"
    assert rows["`decoder.clip_norm`"][0] == "none"
    assert rows["`decoder.gradient`"][0] == "unrolled"
    assert rows["`decoder.hidden`"][0] == "256 256"
    assert rows["`decoder.loss`"][1].endswith("Choices: `huber`, `squared`.")
    expected = [f.name for f in dataclasses.fields(DecoderConfig) if f.name != "solver"]
    expected += [f.name for f in dataclasses.fields(setpredict.config.GradientDescent)]
    assert sorted(rows) == sorted(f"`decoder.{name}`" for name in expected)


@dataclass
class Inner:
    deep: int
    """A | sign,
    and a second line."""


@dataclass
class Outer:
    inner: Inner
    plain: bool = True


def test_nested_required_and_undocumented_options():
    assert field_docs(Inner) == {"deep": "A | sign, and a second line."}
    assert doc_tables.option_table(Outer).splitlines()[2:] == [
        "| `inner.deep` | required | A \\| sign, and a second line. |",
        "| `plain` | on |  |",
    ]


@pytest.mark.parametrize("name", setpredict.__all__)
def test_every_public_name_has_its_parameters_and_a_sentence(name: str):
    (row,) = [
        line for line in doc_tables.public_names_table().splitlines() if f"`{doc_tables.signature(name)}`" in line
    ]
    assert row.endswith((". |", "? |")), f"the docstring of {name} has no first sentence: {row}"
    value = getattr(setpredict, name)
    if "(" in doc_tables.signature(name):
        for parameter in inspect.signature(value).parameters:
            assert parameter in row


def test_the_first_sentence_ends_before_the_next():
    def documented():
        """From L_repr(Y, z) to sets of (n, D), e.g. points. More
        of it.

        A paragraph."""

    assert first_sentence(documented) == "From L_repr(Y, z) to sets of (n, D), e.g. points."


def run(row: str, decoder: dict, errors: dict[int | None, float], minutes: float) -> dict:
    evaluations = [{"steps": steps, "metrics": {"chamfer": error}} for steps, error in errors.items()]
    return {"row": row, "config": {"decoder": decoder}, "evaluations": evaluations, "minutes": minutes}


def test_methods_are_compared_by_their_best_row_at_the_trained_steps(tmp_path: Path):
    def write(name: str, runs: list[dict]) -> None:
        (tmp_path / name).write_text(json.dumps({"runs": runs}))

    clock = {"train": {"max_minutes": 60.0}}
    runs = [
        run("MLP", {"kind": "mlp"}, {None: 4e-5}, 10),
        run("MLP", {"kind": "mlp"}, {None: 6e-5}, 12),
        run("first", {"steps": 10}, {10: 9e-5, 20: 1e-5}, 5),
        run("better", {"steps": 5}, {0: 1e-6, 5: 2e-5}, 60),
        run("no iDSPN", {"steps": 5, "backprop_steps": 1}, {5: 1e-6}, 30),
    ]
    for one in runs:
        one["config"] |= clock
    runs[1]["config"] |= {
        "train": {"max_minutes": 60.0, "max_steps": 9}
    }  # trained for as many steps on a faster machine
    write("mnist-small.json", runs)
    (digits,) = cells(methods_table(tmp_path))
    assert digits == [
        "MNIST digits, through 64 numbers and back", "chamfer ×1000",
        "0.050 ± 0.014 (10 min)", "–", "**0.020** (60 min)", "–", "–", "–",
    ]  # fmt: skip
    scenes = [
        {**run("Dense head", {"kind": "dense"}, {None: 0.9}, 60)},
        run("MLP", {"kind": "mlp"}, {None: 0.04}, 60),
        run("LSTM", {"kind": "lstm"}, {None: 0.4}, 60),
    ]
    for one in scenes:
        one["evaluations"][0]["metrics"] = {"AP∞": one["evaluations"][0]["metrics"]["chamfer"]}
        one |= {"steps_trained": 2000}
    write("clevr-state-small.json", scenes)
    assert cells(methods_table(tmp_path))[1][2:] == ["4.0 (2,000 steps)", "**40.0** (2,000 steps)", *"––––"]
    (tmp_path / "mnist-small.json").unlink()
    models = [{"name": "MLP decoder", "error_x1000": {"0": 0.5}, "steps_trained": 100}]
    dspn = {"error_x1000": {"10": 0.25, "20": 9.0}, "error_std_x1000": {"10": 0.1, "20": 8.0}}
    models += [{"name": "DSPN", **dspn, "steps_trained": 50}]
    (tmp_path / "polygons.json").write_text(json.dumps({"models": models}))
    points = run("MLP", {"kind": "mlp"}, {None: 0.001}, 2)
    points["evaluations"][0]["metrics"] = {"hungarian": 0.001}
    write("points-small.json", [points | {"steps_trained": 7}])
    first, second, _ = cells(methods_table(tmp_path))
    assert first[2:] == ["**1.000** (7 steps)", *"–––––"]
    assert second[2:] == ["0.500 (100 steps)", "–", "**0.250 ± 0.100** (50 steps)", *"–––"]


def test_polygons_have_means_over_seeds_and_the_place_of_each(tmp_path: Path):
    def seen(median: float, jumps: int, hardest: float) -> dict:
        largest = [{"degrees": hardest, "distance": 0.3}, {"degrees": 1.0, "distance": 0.1}][:jumps]
        errors = {"median_error": median, "largest_error": 0.01, "hardest_degrees": hardest}
        return {**errors, "jumps": jumps, "largest_jumps": largest}

    models = [
        {"name": "MLP decoder", "sweep": {"3": [seen(1e-5, 0, 110.2), seen(3e-5, 0, 56.4)]}},
        {"name": "DSPN", "sweep": {"3": [seen(1e-5, 2, 7.0), seen(1e-5, 4, 9.0)]}},
    ]
    (tmp_path / "a.json").write_text(json.dumps({"models": models}))
    assert cells(sweep_table(tmp_path / "a.json")) == [
        ["3", "MLP decoder", "0.020 ± 0.014", "10.0 ± 0.0", "110°, 56°", "0, 0", "–"],
        ["3", "DSPN", "0.010 ± 0.000", "10.0 ± 0.0", "7°, 9°", "2, 4", "0.30"],
    ]


def test_one_process_communicates_nothing(tmp_path: Path):
    rows = [
        {"case": "a", "processes": n, "parameters": 1234, "step_ms": 56.7, "communication_share": 0.114} for n in (1, 2)
    ]
    (tmp_path / "a.json").write_text(json.dumps({"rows": rows}))
    assert cells(distributed_table(tmp_path / "a.json")) == [
        ["a", "1", "1,234", "57 ms", "–"],
        ["a", "2", "1,234", "57 ms", "11%"],
    ]


PAGE = "before\n\n<!-- begin: options-loss -->\n{table}<!-- end: options-loss -->\n\nafter <!-- a comment -->\n"


def test_a_page_is_updated_between_its_markers(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(table="old\n"))
    assert doc_tables.update(page)
    text = page.read_text()
    assert text == PAGE.format(table=f"\n{doc_tables.option_table(LossConfig, 'loss')}\n")
    assert not doc_tables.update(page)
    assert page.read_text() == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<!-- begin: nothing -->\n<!-- end: nothing -->", "'nothing' is unknown; known are options-data"),
        ("<!-- begin: options-loss -->\n<!-- end: demo -->", "'options-loss' ends with 'demo'"),
        ("<!-- begin: options-loss -->\n", "every <!-- begin: NAME --> needs"),
        ("<!-- end: options-loss -->\n", "every <!-- begin: NAME --> needs"),
    ],
)
def test_wrong_markers_are_named(tmp_path: Path, text: str, problem: str):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(UserError, match=r"page\.md") as error:
        doc_tables.update(page)
    assert problem in str(error.value)
    assert page.read_text() == text


def test_the_command_checks_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(PAGE.format(table="old\n"))
    (tmp_path / "README.md").write_text("no tables")
    assert doc_tables.main(["--check"]) == 1
    assert "docs/a.md is out of date" in capsys.readouterr().out
    assert doc_tables.main([]) == 0
    assert capsys.readouterr().out == "Written: docs/a.md\n"
    assert doc_tables.main(["--check"]) == 0
    assert doc_tables.main(["--what"]) == 2
    (tmp_path / "README.md").write_text("<!-- begin: x -->\n<!-- end: x -->\n")
    assert doc_tables.main(["--check"]) == 2
