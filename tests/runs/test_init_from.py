"""Runs that start from the weights of another."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from setpredict.core.errors import UserError
from setpredict.model import SetPredictor
from setpredict.presets import preset
from setpredict.runs.folder import RunFolder
from setpredict.runs.loaded import load
from setpredict.runs.train import train_run
from setpredict.sets import Prediction, Sets
from tests.training.comparing import assert_close, differences


def go(experiment, folder: Path, **options) -> RunFolder:
    train_run(experiment, folder, console=Console(quiet=True), **options)
    return RunFolder(folder)


@torch.no_grad()
def predict(run: RunFolder, points: Sets) -> Prediction:
    return load(run.path).model(points)


def as_values(sets: Sets) -> dict[str, torch.Tensor]:
    return {"elements": sets.elements, "mask": sets.mask}


@pytest.fixture
def variable(tiny):
    tiny.data = replace(tiny.data, variable=True)
    tiny.loss = replace(tiny.loss, masks="feature")
    return tiny


def untrained(experiment) -> None:
    experiment.train = replace(experiment.train, max_steps=0, ema=0.0)


def test_the_output_of_an_mlp_becomes_the_initial_set_that_dspn_refines(variable, run_folder):
    variable.decoder = replace(variable.decoder, kind="mlp", mask_bias=1.0)
    mlp = go(variable, run_folder)
    variable.decoder = replace(variable.decoder, kind="dspn", initial="predicted")
    untrained(variable)
    refined = go(variable, run_folder.with_name("refined"), init_from=run_folder)
    points = Sets.from_list(torch.rand(3, 4, 2))
    start, answer = predict(refined, points).step(0), predict(mlp, points).final
    assert_close(as_values(start), as_values(Sets(answer.elements, answer.mask.clamp(0, 1))), rtol=0, atol=1e-6)
    variable.decoder = replace(variable.decoder, hidden=(9,))
    with pytest.raises(UserError, match=r"tiny does not fit this model: decoder.initial.network.*another shape"):
        go(variable, run_folder.with_name("other"), init_from=run_folder)


def test_a_shared_initial_set_is_predicted_for_every_input_at_first(variable, run_folder):
    variable.decoder = replace(variable.decoder, initial="learned")
    shared = go(variable, run_folder)
    variable.decoder = replace(variable.decoder, initial="predicted", mask_bias=1.0)
    untrained(variable)
    predicting = go(variable, run_folder.with_name("predicting"), init_from=run_folder)
    points = Sets.from_list(torch.rand(3, 4, 2))
    before, after = predict(shared, points), predict(predicting, points)
    values = [{"elements": p.elements, "mask": p.mask} for p in (after, before)]
    assert_close(*values, rtol=0, atol=1e-6)
    variable.train.max_steps = 2
    trained = go(variable, run_folder.with_name("trained"), init_from=run_folder)
    start = predict(trained, points).step(0).elements
    assert not torch.allclose(start[0], start[1]), "the predicted initial set does not depend on the input"


def test_an_initial_set_of_another_size_raises(variable, run_folder):
    go(variable, run_folder)
    variable.decoder = replace(variable.decoder, initial="predicted")
    variable.data = replace(variable.data, points=5)
    with pytest.raises(UserError, match="tiny does not fit this model: the predicted set has 15 numbers"):
        go(variable, run_folder.with_name("larger"), init_from=run_folder)


def test_a_random_initial_set_leaves_the_predicted_one_fresh(variable, run_folder):
    variable.decoder = replace(variable.decoder, initial="random")
    go(variable, run_folder)
    variable.decoder = replace(variable.decoder, initial="predicted")
    untrained(variable)
    other = go(variable, run_folder.with_name("predicting"), init_from=run_folder)
    ours, theirs = (load(f).model.input_encoder.state_dict() for f in (other.path, run_folder))
    assert differences(dict(ours), dict(theirs)) == []


def test_fine_tuning_starts_from_the_best_weights(tiny, run_folder):
    best = load(go(tiny, run_folder).path).model.state_dict()
    untrained(tiny)
    other = go(tiny, run_folder.with_name("tuned"), init_from=run_folder)
    tuned = torch.load(other.checkpoint_path, weights_only=True)["model"]
    assert differences(dict(tuned), dict(best)) == []


def test_missing_runs_and_runs_of_other_models_are_named(tiny, run_folder):
    with pytest.raises(UserError, match=r"run .*nowhere not found; shipped models are"):
        go(tiny, run_folder, init_from=run_folder.with_name("nowhere"))
    run_folder.with_name("young").mkdir(parents=True)
    with pytest.raises(UserError, match=r"young is not a run: config.json not found"):
        go(tiny, run_folder, init_from=run_folder.with_name("young"))
    with pytest.raises(UserError, match=r"points-dspn does not fit the model: .*of another shape"):
        go(tiny, run_folder, init_from="points-dspn")
    assert not run_folder.exists()


def test_fine_tuning_starts_from_a_shipped_model(run_folder):
    experiment = preset("multisets", "dspn", "small")
    experiment.data = replace(experiment.data, points=10, variable=True, train=32, val=4, test=4)
    experiment.train = replace(experiment.train, max_steps=0, ema=0.0, threads=1, pictures=False)
    ours = SetPredictor.from_pretrained(go(experiment, run_folder, init_from=Path("points-dspn")).best_path)
    points = Sets.from_list(torch.rand(3, 4, 2))
    expected = load("points-dspn").model.predict(points)
    assert differences(as_values(ours.predict(points)), as_values(expected)) == []
