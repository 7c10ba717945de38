"""Studies and `reproduce`: a table on a small part of MNIST, interrupted and resumed, and the page made of it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from setpredict import reproduce as module
from setpredict.build import make_task
from setpredict.cli.main import run
from setpredict.config import DataConfig, Experiment, LastSteps, from_json
from setpredict.core.errors import UserError
from setpredict.model import SetPredictor
from setpredict.presets import SCALES, Scale, preset
from setpredict.report.row_pictures import row_pictures
from setpredict.report.tables.paper import TABLES
from setpredict.reproduce import reproduce
from setpredict.resolve import model_config
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import load
from setpredict.runs.shipped import shipped
from setpredict.studies import RATES, Row, Study, changed, configure, studies

ROOT = Path(__file__).parents[1]


def test_the_papers_numbers():
    assert TABLES["mnist"]["DSPN (all), 10 steps"]["chamfer"] == (0.09, 0.01)
    assert TABLES["clevr-box"]["DSPN (last), 20 steps"]["AP90"] == (12.3, 2.6)
    assert TABLES["clevr-state"]["DSPN (all), 30 steps"]["AP0.5"] == (66.8, 4.1)
    assert TABLES["clevr-state"]["iDSPN, 40 steps"]["AP0.125"] == (76.9, None)
    assert [len(rows) for rows in TABLES.values()] == [3, 8, 9]


def test_every_row_is_an_experiment_with_a_folder_of_its_own():
    found: list[tuple[Scale, Study]] = [(scale, study) for scale in SCALES for study in studies(scale).values()]
    for scale, study in found:
        assert len({row.slug for row in study.rows}) == len(study.rows)
        assert all("/" not in row.slug for row in study.rows)
        seen = [configure(study, row, scale, 0) for row in study.rows]
        assert all(a != b for i, a in enumerate(seen) for b in seen[:i])
        names = [row.name for row in study.rows]
        assert {row for group in study.groups.values() for row in group.values()} <= set(names)
        for i, row in enumerate(study.rows):
            assert row.after is None or row.after in names[:i], f"{row.name} starts from a row that is not before it"


def test_every_ablation_is_a_model():
    study = studies()["ablations"]
    task = make_task(configure(study, study.rows[0], "small", 0).data)
    for row in study.rows:
        SetPredictor.from_config(model_config(configure(study, row, "small", 0), task))


def test_published_ablations_are_models_of_the_same_size():
    runs = json.loads((ROOT / "results" / "ablations-small.json").read_text())["runs"]
    task = make_task(from_json(Experiment, runs[0]["config"]).data)
    for record in runs:
        model = SetPredictor.from_config(model_config(from_json(Experiment, record["config"]), task))
        assert sum(p.numel() for p in model.parameters()) == record["parameters"], record["row"]


def test_options_of_a_row_are_checked():
    found = changed(Experiment(), {"decoder.solver.steps": 3, "decoder.gradient": "last:2"}).decoder
    assert (found.solver.steps, found.gradient) == (3, LastSteps(2))
    with pytest.raises(UserError, match=r"did you mean experiment\.decoder\.solver\.steps"):
        changed(Experiment(), {"decoder.solver.step": 3})
    with pytest.raises(UserError, match="there is no row 'GAN'; rows are 'MLP'"):
        studies()["mnist"].row("GAN")


def test_a_table_is_of_one_data_set(tmp_path, monkeypatch):
    monkeypatch.setenv("SETPREDICT_DATA", str(tmp_path))
    old = {"row": "MLP", "seed": 0, "config": {"data": {"name": "clevr"}}}
    (tmp_path / "clevr-box-small.json").write_text(json.dumps({"runs": [old]}))
    with pytest.raises(UserError, match="has runs on clevr, and these would be on scenes: choose another --results"):
        reproduce("clevr-box", "small", 1, out=tmp_path / "runs", results=tmp_path)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "points-small.json").write_text('{"runs": [')
    with pytest.raises(UserError, match=r"points-small.json is not valid JSON: .* at line 1"):
        reproduce("points", "small", 1, rows=["MLP"], out=tmp_path / "runs", results=tmp_path)


def test_rows_of_an_earlier_file_are_kept(tmp_path):
    """A clone of the repository has the files of results, but no runs."""
    names = [row.name for row in studies()["mnist"].rows]
    old = [{"row": row, "seed": seed, "from": "file"} for row in (names[1], names[0], "removed") for seed in (0, 1)]
    (tmp_path / "mnist-small.json").write_text(json.dumps({"runs": old}))
    run = tmp_path / "runs" / "any"
    run.mkdir(parents=True)
    (run / "record.json").write_text(json.dumps({"row": names[0], "seed": 1, "from": "run"}))
    found = module.collect("mnist", "small", tmp_path / "runs", tmp_path / "mnist-small.json")["runs"]
    assert [(e["row"], e["seed"], e["from"]) for e in found] == [
        (names[0], 0, "file"),
        (names[0], 1, "run"),
        (names[1], 0, "file"),
        (names[1], 1, "file"),
    ]


@pytest.mark.slow
def test_mnist_at_small_scale_interrupted_and_resumed(real_data, tmp_path, monkeypatch):
    options = {"out": tmp_path / "runs", "results": tmp_path / "results", "max_steps": 3}
    options["data"] = DataConfig("mnist", train=64, val=8, test=16)
    trained, real = [], module.train_run

    def interrupted(experiment, folder, **rest):
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(folder)
        return real(experiment, folder, **rest)

    monkeypatch.setattr(module, "train_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reproduce("mnist", "small", 2, console=Console(quiet=True), **options)
    assert len(trained) == 3
    again = []
    monkeypatch.setattr(module, "train_run", lambda e, f, **rest: (again.append(f), real(e, f, **rest)))
    content = reproduce("mnist", "small", 2, rows=["LSTM", "DSPN (last)"], console=Console(quiet=True), **options)
    assert not set(trained) & set(again)
    assert len(again) == 3  # one seed of LSTM, two of DSPN; the MLP from before is in the table too
    assert [(r["row"], r["seed"]) for r in content["runs"]][:3] == [("MLP", 0), ("MLP", 1), ("LSTM", 0)]
    assert all(e["samples"] == 16 for r in content["runs"] for e in r["evaluations"])
    assert content["runs"][0]["curve"]["minutes"]
    saved = json.loads((tmp_path / "results" / "mnist-small.json").read_text())
    assert saved == json.loads(json.dumps(content))
    assert str(tmp_path) not in json.dumps(saved)
    monkeypatch.chdir(tmp_path)
    assert run(["results"]) == run(["results", "--check"]) == 0
    assert "DSPN (last), 20 steps" in (tmp_path / "RESULTS.md").read_text()


def test_learning_rates_are_tuned_with_equal_budgets(tmp_path):
    """Every rate starts from the same weights and trains as long; another seed uses what was found."""
    base = preset("multisets", "mlp")
    experiment = changed(base, {"data.train": 64, "data.val": 16, "data.test": 16, "train.max_minutes": 0.01})
    row, quiet = Row("MLP", "mlp", rates=(1e-9, 1e-3)), Console(quiet=True)
    tried = module.tune(experiment, row, tmp_path, quiet, None)
    assert [t["lr"] for t in tried] == [1e-9, 1e-3]
    assert all(t["minutes"] == 0.01 for t in tried)
    assert tried[1]["score"] < tried[0]["score"]
    configs = [RunFolder(tmp_path / f"mlp-lr{rate:g}").read_experiment() for rate in row.rates]
    assert configs[0].train.seed == configs[1].train.seed == 0
    assert replace(configs[0].train, lr=1e-3) == configs[1].train
    again = module.tune(changed(experiment, {"train.seed": 1}), row, tmp_path, quiet, None)
    assert again == tried


def test_a_limit_in_steps_is_shared_by_the_tuning(tmp_path):
    """A row of 60 minutes or 36 steps tries each rate for 5 minutes or 3 steps."""
    small = {"data.train": 16, "data.val": 4, "data.test": 4, "train.max_steps": 36, "train.max_minutes": 60.0}
    experiment = changed(preset("multisets", "mlp"), small)
    (tried,) = module.tune(experiment, Row("MLP", "mlp", rates=(1e-3,)), tmp_path, Console(quiet=True), None)
    assert (tried["minutes"], tried["max_steps"], tried["step"]) == (5.0, 3, 3)
    train = RunFolder(tmp_path / "mlp-lr0.001").read_experiment().train
    assert (train.max_minutes, train.max_steps) == (5.0, 3)


def test_a_learning_rate_that_diverges_is_not_chosen(tmp_path):
    base = preset("multisets", "mlp")
    small = {"data.train": 64, "data.val": 16, "data.test": 16, "train.max_steps": 60, "train.max_minutes": 5.0}
    experiment = changed(base, {**small, "train.clip_grad": None, "train.lr": 1e-3})
    row, quiet = Row("MLP", "mlp", rates=(1e-3, 1e6)), Console(quiet=True)
    tried = module.tune(experiment, row, tmp_path, quiet, None)
    assert tried[1] == {"lr": 1e6, "minutes": 5.0, "max_steps": 60, "step": None, "score": None}
    assert module.best_rate(row, tried) == 1e-3
    assert module.tune(experiment, row, tmp_path, quiet, None) == tried
    with pytest.raises(UserError, match="MLP: the training diverged with each of its learning rates"):
        module.best_rate(row, tried[1:])


def test_the_papers_scale_has_the_papers_settings():
    for table, name in (("clevr-state", "scenes-state"), ("clevr-box", "scenes-box")):
        study = studies("paper")[table]
        for row in study.rows:
            found, wanted = configure(study, row, "paper", 0), preset(name, row.method, "paper")
            assert replace(found.train, seed=wanted.train.seed, pictures=wanted.train.pictures) == wanted.train
            assert (found.input, found.encoder, found.decoder) == (wanted.input, wanted.encoder, wanted.decoder)
            assert not row.rates
            assert found.decoder.solver.steps in (row.steps or (found.decoder.solver.steps,))


def test_rows_of_images_start_from_one_encoder():
    for table in ("clevr-state", "clevr-box"):
        study = studies()[table]
        tuned = [row for row in study.rows if row.rates]
        assert {row.rates for row in tuned} == {RATES}
        assert all(row.encoder == study.rows[0].name for row in tuned if "no warm-up" not in row.name)
        for row in study.rows:
            found = configure(study, row, "small", 0)
            assert (found.input.kind, found.input.warmup, found.train.threads) == ("conv", 0, 1)


def test_dspn_and_lists_are_compared_in_equal_steps_too():
    """Their rows differ from those of an hour in nothing but what ends the training, with a rate that was tried."""
    for table, count in (("clevr-state", 2), ("clevr-box", 4)):
        study = studies()[table]
        limited = [row for row in study.rows if row.name.endswith("000 training steps")]
        assert len(limited) == count
        for row in limited:
            hour, found = (configure(study, r, "small", 0) for r in (study.row(row.name.partition(",")[0]), row))
            assert found.train.lr in RATES
            assert found.train.max_steps == (50_000 if row.method == "dspn" else 23_000)
            assert (found.train.max_minutes, row.encoder) == (None, study.rows[0].name)
            assert replace(found, train=replace(hour.train, pictures=False)) == hour


def test_rows_start_from_published_weights_where_the_run_is_not_found(tmp_path):
    """A clone of the repository has the weights of results/, but no runs; they tell nothing about the machine."""
    small = {"data.train": 32, "data.val": 8, "data.test": 8, "train.max_steps": 1, "train.val_every": 1}
    experiment = changed(preset("multisets", "mlp"), small)
    experiment.data.folder = str(tmp_path)
    row = studies()["clevr-box"].rows[1]
    assert row.encoder is not None
    run_here = RunFolder(tmp_path / "runs" / "clevr-box-small" / f"{studies()['clevr-box'].row(row.encoder).slug}-0")
    assert module.finish(experiment, run_here, Console(quiet=True))
    run_here.write_record({"row": row.encoder, "config": {"data": {"name": "scenes"}}})
    run_here.publish(module._weights(tmp_path / "results", run_here.path))
    empty = tmp_path / "empty"
    found = module._start_of(row, "clevr-box", "small", empty, 0, tmp_path / "results", "scenes")
    assert found is not None
    of_scenes = module._start_of(row, "clevr-box", "small", empty, 0, tmp_path / "results", "clevr")
    assert of_scenes is not None
    assert of_scenes.read_record() is None  # not what CLEVR's rows start from
    with pytest.raises(UserError, match="was trained on scenes, not on clevr: choose another --out"):
        module._start_of(row, "clevr-box", "small", tmp_path / "runs", 0, tmp_path / "results", "clevr")
    assert found.path == tmp_path / "results" / "weights" / "clevr-box-small" / run_here.path.name
    ours, theirs = (load(folder.path).model.state_dict() for folder in (run_here, found))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    texts = [path.read_text() for path in found.path.rglob("*.json")]
    assert len(texts) == 5
    assert not any(str(tmp_path) in text for text in texts)


def test_an_encoder_that_a_row_starts_from_is_trained_first(tmp_path, monkeypatch, capsys):
    """On a machine without runs and weights, the command of a row is all that is needed."""
    monkeypatch.chdir(tmp_path)  # where there is no results/weights
    small = {"data.size": 32, "data.train": 8, "data.val": 4, "data.test": 4, "input.warmup": 0}
    warm_up = Row("Warm-up", "dense", {"train.max_minutes": 0.5})
    home = Study("States", "scenes-state", (warm_up,), small)
    boxes = Study("Boxes", "scenes-box", (Row("MLP", "mlp", encoder="Warm-up", encoder_table="clevr-state"),), small)
    monkeypatch.setattr(module, "studies", lambda scale="small": {"clevr-state": home, "clevr-box": boxes})
    starts, train_run = [], module.train_run

    def spy(*args, init_from, **given) -> None:
        starts.append(init_from)
        train_run(*args, init_from=init_from, **given)

    monkeypatch.setattr(module, "train_run", spy)
    given = {"out": tmp_path / "runs", "results": tmp_path / "results", "max_steps": 1, "minutes": 9.0}
    content = reproduce("clevr-box", "small", 1, **given)
    assert "MLP starts from 'Warm-up', which is trained first." in capsys.readouterr().out
    assert [entry["row"] for entry in content["runs"]] == ["MLP"]
    first = json.loads((tmp_path / "results" / "clevr-state-small.json").read_text())["runs"]
    assert [(entry["row"], entry["config"]["train"]["max_minutes"]) for entry in first] == [("Warm-up", 0.5)]
    assert starts == [None, tmp_path / "runs" / "clevr-state-small" / "warm-up-0"]


def test_every_seed_has_the_learning_rate_of_the_first(tmp_path, monkeypatch):
    """Nothing is tried again, so that a training that diverged cannot end differently."""
    small = {"data.train": 16, "data.val": 4, "data.test": 4, "train.val_every": 1}
    study = Study("Points", "multisets", (Row("MLP", "mlp", rates=(0.1, 0.01)),), small)
    monkeypatch.setattr(module, "studies", lambda scale="small": {"points": study})
    given = {"out": tmp_path / "runs", "results": tmp_path, "max_steps": 1, "console": Console(quiet=True)}
    (first,) = reproduce("points", "small", 1, **given)["runs"]
    assert module._recorded(tmp_path / "points-small.json", "MLP") == first
    assert module._recorded(tmp_path / "points-small.json", "LSTM") is None
    worst = max(first["tuning"], key=lambda entry: entry["score"])
    worst["score"] = [-1.0, 0.0]  # as if it had been the best
    RunFolder(tmp_path / "runs" / "points-small" / "mlp-0").write_record(first)
    rates = []
    monkeypatch.setattr(module, "tune", None)
    monkeypatch.setattr(module, "finish", lambda given, *_: rates.append(given.train.lr) or len(rates) == 1)
    with pytest.raises(KeyboardInterrupt, match="The same command continues the table"):
        reproduce("points", "small", 2, **given)
    assert rates == [worst["lr"]] * 2


def test_a_seed_is_added_to_a_table_from_another_machine(tmp_path, monkeypatch):
    small = {"data.train": 16, "data.val": 4, "data.test": 4, "train.val_every": 1}
    study = Study("Points", "multisets", (Row("MLP", "mlp", rates=(0.1, 0.01)),), small)
    monkeypatch.setattr(module, "studies", lambda scale="small": {"points": study})
    given = {"results": tmp_path, "max_steps": 1, "console": Console(quiet=True)}
    (first,) = reproduce("points", "small", 1, out=tmp_path / "theirs", **given)["runs"]
    both = reproduce("points", "small", 2, first_seed=1, out=tmp_path / "ours", **given)["runs"]
    assert [path.name for path in (tmp_path / "ours" / "points-small").iterdir()] == ["mlp-1"]
    assert both[0] == first
    assert both[1]["command"].endswith("--runs 2 --max-steps 1 --minutes 5 --threads 1")
    assert [entry["config"]["train"]["seed"] for entry in both] == [0, 1]
    assert both[1]["config"]["train"]["lr"] == first["config"]["train"]["lr"]


def test_a_first_seed_beyond_the_runs_is_named(tmp_path, capsys):
    assert run(["reproduce", "points", "--runs", "2", "--first-seed", "2", "--out", str(tmp_path)]) == 2
    assert "--first-seed must be from 0 to 1 with --runs 2, got 2" in capsys.readouterr().err


def test_records_have_no_paths_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("SETPREDICT_DATA", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    places = {tmp_path / "data" / "a": "$SETPREDICT_DATA/a", tmp_path / "here" / "runs" / "b": "runs/b"}
    assert {place: module._portable(place) for place in places} == places
    assert module._portable(tmp_path / "data2" / "a") == f"{tmp_path}/data2/a"  # not below $SETPREDICT_DATA


def test_rows_of_images_are_drawn_side_by_side(tmp_path, monkeypatch):
    """A column per test sample; the target and every row below each other, from the records alone."""
    small = {"data.size": 32, "data.train": 8, "data.val": 4, "data.test": 4, "train.max_steps": 1, "input.warmup": 0}
    study = Study("Boxes", "scenes-box", (Row("MLP", "mlp"), Row("LSTM", "lstm")), small)
    path, entries, run = tmp_path / "boxes.png", [], None
    for row in study.rows:
        folder = RunFolder(tmp_path / f"{row.slug}-0")
        assert module.finish(study.experiment(row, "small", 0), folder, Console(quiet=True))
        folder.write_record({"row": row.name, "seed": 0})
        run = load(folder.path)
        module.draw_rows(run, entries, path)
        assert not path.exists()  # nothing to compare yet
        module.add_predictions(run)
        entries.append(folder.read_record())
    assert run is not None
    found = torch.tensor(entries[-1]["first_predictions"])
    expected = run.model.predict(run.data.test.batch(np.arange(4), 0).input)
    torch.testing.assert_close(found, expected.features_with_mask, rtol=0, atol=1e-4)
    drawn, real = [], module.row_pictures
    monkeypatch.setattr(module, "row_pictures", lambda run, rows: drawn.append(rows) or real(run, rows))
    again = entries[-1] | {"seed": 1, "first_predictions": None}
    module.draw_rows(run, [*entries, again, {"row": "DSPN", "seed": 0}], path)
    assert drawn == [{entry["row"]: entry["first_predictions"] for entry in entries}]
    with Image.open(path) as image:
        assert image.width > image.height / 2
    figure = row_pictures(run, {entry["row"]: entry["first_predictions"] for entry in entries})
    named = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert [name for name in named if name in ("target", "MLP", "LSTM", "DSPN")] == ["target", "MLP", "LSTM"]
    assert len(figure.axes) == 3 * 4


def test_boxes_at_medium_scale_start_from_the_encoder_of_the_states():
    state, box = (studies("medium")[table] for table in ("clevr-state", "clevr-box"))
    sizes = {(e.data.size, e.data.max_objects, e.input.widths) for e in (
        configure(study, row, "medium", 0) for study in (state, box) for row in study.rows
    )}  # fmt: skip
    assert len(sizes) == 1
    for row in box.rows:
        start = module._start_of(row, "clevr-box", "medium", Path("nowhere"), 0, Path("nowhere"), "scenes")
        expected = Path("nowhere/clevr-state-medium/warm-up-of-the-image-encoder-0")
        assert start is not None
        assert start.path == (shipped()["scenes-state"] if row.name == "iDSPN" else expected)
    with pytest.raises(UserError, match="--scale medium is for clevr-state and clevr-box, not for mnist"):
        module.find_study("mnist", "medium")
