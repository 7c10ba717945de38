"""The files of a run: reads and writes agree, and problems are named."""

import json
import math
from pathlib import Path

import pytest

import setpredict
from setpredict.build import make_task
from setpredict.core.errors import UserError
from setpredict.data.description import to_description
from setpredict.runs.folder import RunFolder, here
from setpredict.runs.loaded import load

SOURCE = Path(setpredict.__file__).parent


@pytest.fixture
def run(run_folder) -> RunFolder:
    run_folder.mkdir(parents=True)
    return RunFolder(run_folder)


def test_what_is_written_is_read(run, tiny):
    row = {"split": "test", "steps": 2, "samples": 3, "metrics": {"AP∞": 0.5}, "milliseconds": 1.5, "score": [1.0, 2.0]}
    run.write_experiment(tiny)
    run.write_origin()
    run.write_summary({"step": 3, "seconds": 1.5, "best": [0.25]})
    run.write_validation({"step": 3, **row})
    run.write_evaluation("val", [row])
    run.write_record({"command": "x"})
    task = make_task(tiny.data)
    run.write_description(task)
    assert run.read_experiment() == tiny
    assert run.read_origin() == here()
    assert run.read_summary() == {"step": 3, "seconds": 1.5, "best": [0.25]}
    assert run.read_validation() == {"step": 3, **row}
    assert run.read_evaluation("val") == [row]
    assert run.read_evaluation("test") is None
    assert run.read_record() == {"command": "x"}
    assert to_description(run.read_description()) == to_description(task)


def test_an_empty_folder(run):
    assert (run.is_finished, run.has_checkpoint, run.has_model) == (False, False, False)
    assert run.read_log() == []
    reads = {"origin": run.read_origin, "summary": run.read_summary, "validation": run.read_validation}
    assert {name: read() for name, read in reads.items()} == dict.fromkeys(reads)
    with pytest.raises(UserError, match=r"tiny is not a run: config.json not found"):
        run.read_experiment()
    with pytest.raises(UserError, match=r"tiny is not a run: task.json not found"):
        run.read_description()


@pytest.mark.parametrize("text", ["{", "\xff"])
def test_broken_files_are_named(run, text):
    run.config_path.write_bytes(text.encode("latin1"))
    run.summary_path.write_bytes(text.encode("latin1"))
    for read, name in ((run.read_experiment, "config.json"), (run.read_summary, "done.json")):
        with pytest.raises(UserError, match=f"{name} is not (valid JSON|a text file)"):
            read()


def test_unknown_options_are_named(run):
    run.config_path.write_text(json.dumps({"version": 2, "latnet": 3}))
    with pytest.raises(UserError, match=r"config.json.latnet is not a known field; did you mean .*latent"):
        run.read_experiment()


def test_runs_that_cannot_be_loaded_are_named(run, tiny):
    with pytest.raises(UserError, match=r"run nowhere not found; shipped models are digits-dspn"):
        load("nowhere")
    with pytest.raises(UserError, match=r"tiny is not a run: config.json not found"):
        load(run.path)
    run.write_experiment(tiny)
    with pytest.raises(UserError, match=r"tiny has no validated model yet: .*best not found"):
        load(run.path)


def test_no_other_module_spells_the_names_of_a_runs_files():
    names = ("last.ckpt", "done.json", "origin.json", "record.json", "log.csv", "validation.json", "evaluation-")
    names += ('tensorboard"', 'report.html"', '/ "plots"', '/ "pictures"', '/ "best"')
    found = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path in SOURCE.rglob("*.py")
        for name in names
        if path != SOURCE / "runs" / "folder.py" and name in path.read_text(encoding="utf-8")
    ]
    assert found == []


def test_scores_are_valid_json_and_numbers_that_are_not_finite_are_nan_again(run):
    elements = {"matched": 0, "errors": {"x": math.nan}}
    row = {"steps": None, "metrics": {"AP": math.nan, "size": 1.0}, "elements": elements, "score": (-0.5, math.inf)}
    run.write_evaluation("test", [row | {"coco": None, "baselines": {"mean": {"elements": elements}}}])
    json.loads(run.evaluation_path("test").read_text(), parse_constant=pytest.fail)
    (found,) = run.read_evaluation()
    assert math.isnan(found["metrics"]["AP"])
    assert math.isnan(found["baselines"]["mean"]["elements"]["errors"]["x"])
    assert (found["steps"], found["coco"], found["metrics"]["size"], found["score"][0]) == (None, None, 1.0, -0.5)
