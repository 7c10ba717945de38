"""Sensitivity: loops that amplify rounding errors are told from those that converge."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from setpredict.config import GradientDescent, TrainConfig
from setpredict.core.errors import NotFinite
from setpredict.metrics.sensitivity import CHANGE, Sensitivity, sensitivity
from setpredict.presets import preset
from setpredict.report.quality import warning
from setpredict.runs.evaluate import evaluate_run
from setpredict.runs.folder import RunFolder
from setpredict.runs.train import train_run
from setpredict.sets import Sets
from setpredict.training.evaluation import Evaluation


def as_sets(values: torch.Tensor) -> Sets:
    return Sets(values[..., None], torch.ones(values.shape))


def test_a_contraction_is_not_chaotic_and_its_movement_is_exact():
    z = torch.rand(5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.5
    seen = sensitivity(lambda z: Sets(z[..., None] / 2, torch.ones(z.shape, dtype=z.dtype)), z)
    assert (seen.samples, seen.moved, seen.is_chaotic) == (5, 0, False)
    assert 0 < seen.largest <= CHANGE * float(z.norm(dim=1).max()) / 2


def test_the_logistic_map_is_chaotic():
    z = torch.rand(6, 4, generator=torch.Generator().manual_seed(2))

    def decode(z: torch.Tensor) -> Sets:
        for _ in range(60):  # doubles differences in every step
            z = 4 * z * (1 - z)
        return as_sets(z)

    seen = sensitivity(decode, z)
    assert seen.moved == 6
    assert seen.largest > 0.1


def test_elements_that_change_places_are_the_same_set():
    calls = []

    def decode(z: torch.Tensor) -> Sets:
        calls.append(z)
        order = [0, 1, 2, 3] if len(calls) == 1 else [2, 0, 3, 1]
        return as_sets(torch.arange(4.0).expand(len(z), 4)[:, order])

    assert sensitivity(decode, torch.ones(3, 2)).largest == 0


def test_evaluation_says_so(tmp_path: Path):
    experiment = preset("multisets", "idspn")
    experiment.data = replace(experiment.data, train=64, val=16, test=16)
    experiment.train = TrainConfig(max_steps=2, batch_size=8, pictures=False, threads=1)
    train_run(experiment, tmp_path / "calm")
    wild = replace(experiment, decoder=replace(experiment.decoder, solver=GradientDescent(steps=60, step_size=3000.0)))
    train_run(wild, tmp_path / "wild")
    calm = evaluate_run(tmp_path / "calm", trivial=False)
    jumps = evaluate_run(tmp_path / "wild", trivial=False)
    assert warning(calm) == ""
    assert jumps[0].sensitivity
    assert jumps[0].sensitivity.is_chaotic
    assert warning(jumps).startswith("A change of the latent vector by a millionth moves")
    stored = json.loads(next((tmp_path / "wild").glob("*test*.json")).read_text())
    again = Evaluation.from_dict((stored["rows"] if isinstance(stored, dict) else stored)[0])
    assert again.sensitivity == jumps[0].sensitivity


def test_a_list_valued_decoder_has_none(tmp_path: Path):
    experiment = preset("multisets", "mlp")
    experiment.data = replace(experiment.data, train=64, val=16, test=16)
    experiment.train = TrainConfig(max_steps=1, batch_size=8, pictures=False, threads=1)
    train_run(experiment, tmp_path / "run")
    assert evaluate_run(tmp_path / "run", trivial=False)[0].sensitivity is None


def test_a_text_names_the_number_of_samples():
    assert str(Sensitivity(32, 3, 0.57)).endswith("moves 3 of 32 predictions visibly, by up to 0.57")


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_changed_prediction_that_is_not_finite_has_moved(value: float):
    calls = []

    def decode(z: torch.Tensor) -> Sets:
        calls.append(z)
        found = as_sets(torch.arange(4.0).repeat(len(z), 1))
        if len(calls) == 2:
            found.elements[1, 2] = value
            found.mask[2, 0] = value
        return found

    seen = sensitivity(decode, torch.ones(5, 2))
    assert seen == Sensitivity(5, 2, math.inf)
    assert str(seen).endswith("moves 2 of 5 predictions visibly, some of them to NaN or infinity")


def test_a_prediction_that_is_not_finite_without_a_change_is_an_error():
    with pytest.raises(NotFinite):
        sensitivity(lambda z: as_sets(torch.full((len(z), 4), torch.nan)), torch.ones(5, 2))


def test_a_stored_infinity_is_reported_alike(tmp_path: Path):
    row = Evaluation("test", 10, 32, sensitivity=Sensitivity(32, 1, math.inf))
    run = RunFolder(tmp_path)
    run.write_evaluation("test", [asdict(row)])
    stored = run.read_evaluation()
    assert stored is not None
    assert warning([Evaluation.from_dict(stored[0])]) == warning([row])
    assert "moves 1 of 32 predictions visibly, some of them to NaN or infinity: the inner loop" in warning([row])
