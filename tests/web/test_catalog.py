"""The models of a server: shipped ones and runs, from one loader."""

from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from setpredict.config import DataConfig
from setpredict.core.errors import UserError
from setpredict.data.sources.multisets import multisets
from setpredict.data.sources.scenes import scenes
from setpredict.runs.loaded import load
from setpredict.runs.shipped import shipped
from setpredict.runs.train import train_run
from setpredict.sets import Sets
from setpredict.web.catalog import Served, load_catalog
from setpredict.web.first_samples import choose_first_samples
from setpredict.web.inputs import encode_request
from setpredict.web.limits import BadInput
from setpredict.web.schema import DecodeRequest
from tests.training.tiny_experiment import tiny_experiment
from tests.web.served import tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "my run (2)"
    train_run(tiny_experiment(), folder, console=Console(quiet=True))
    return folder


def test_shipped_models_come_first_then_runs_by_names_that_are_safe_in_an_address(run: Path):
    models = load_catalog([run, run])
    assert list(models) == [*shipped(), "run-my-run-2", "run-my-run-2-again"]
    assert {name: served.name for name, served in models.items()} == {name: name for name in models}
    info = models["run-my-run-2"].info()
    assert (info.tab, info.method, info.trained_steps, info.samples, info.latent) == ("run", "DSPN", 2, 10, 8)
    assert (info.scores, info.date, info.note) == ({}, "", "")
    assert models["scenes-box"].info().latent == 0  # its decoder starts from proposals, which no vector has


def test_a_shipped_model_has_the_scores_of_its_card():
    served = load_catalog()["points-idspn"]
    info, card = served.info(), served.run.card
    assert card is not None
    assert (info.tab, info.method, info.date, info.parameters) == ("points", "iDSPN", card.date, card.parameters)
    assert info.scores["hungarian ×1000"] == f"{1000 * card.metrics['hungarian']:.3f}"
    assert info.samples == card.samples


@pytest.mark.parametrize("data", [DataConfig("mnist", "nowhere"), DataConfig("folder", "nowhere")])
def test_data_that_is_not_on_this_machine_is_no_error_and_not_downloaded(data: DataConfig):
    run = load("points-mlp")
    run.experiment.data = data
    served = Served("points-mlp", "points", run, "test")
    assert served.info().samples == 0
    with pytest.raises(UserError, match="is not on this machine"):
        served.sample(0)
    assert not Path("nowhere").exists()


def test_a_folder_that_is_not_a_run_is_named(tmp_path: Path):
    with pytest.raises(UserError, match="is not a run"):
        load_catalog([tmp_path])


def test_a_transformer_cannot_take_more_steps_than_it_has_layers():
    served = tiny("points-transformer", multisets(5, variable=True, test=7), "transformer")
    assert encode_request(DecodeRequest.model_validate({"sample": 0, "steps": 3}), served).steps == 3
    with pytest.raises(BadInput, match="has 3 layers and cannot take 4 steps"):
        encode_request(DecodeRequest.model_validate({"sample": 0, "steps": 4}), served)


def test_the_first_scene_is_the_one_that_its_models_predict_best(monkeypatch: pytest.MonkeyPatch):
    state, box = (tiny(f"scenes-{k}", scenes(k, size=64, max_objects=4, test=5)) for k in ("state", "box"))
    points = tiny("points-dspn", multisets(5, variable=True, test=7))

    for served in (state, box):
        assert served.source is not None
        third = served.source.batch(np.array([2]), 0).target

        def knows(input: torch.Tensor, answer: Sets = third) -> Sets:
            return Sets(answer.elements.expand(len(input), -1, -1), answer.mask.float().expand(len(input), -1))

        monkeypatch.setattr(served.model, "predict", knows)  # the third scene, whatever it sees
    choose_first_samples([state, points, box])
    assert (state.first_sample, box.first_sample, points.first_sample) == (2, 2, 0)


def test_models_of_a_tab_are_asked_about_the_same_scenes():
    box = tiny("scenes-box", scenes("box", size=64, max_objects=4, test=5))
    state = tiny("scenes-state", scenes("state", size=128, max_objects=7, test=6))
    choose_first_samples([box, state])
    assert box.info().samples == state.info().samples == 5
    assert state.sample(3).target.sizes.tolist() == box.sample(3).target.sizes.tolist()
    large, seen = (torch.as_tensor(served.sample(3).input) for served in (state, box))
    small = torch.nn.functional.avg_pool2d(large, 2)
    assert (small - seen).abs().mean() < 0.03, "the same image, in two sizes"
    np.testing.assert_array_equal(box.camera(3), state.camera(3))
