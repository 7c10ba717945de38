"""The demo runs from end to end, and its sweep over angles measures errors and jumps."""

import json
import math

import pytest
import torch
from rich.console import Console

from setpredict.build import make_loss
from setpredict.config import InputConfig, LossConfig, ModelConfig
from setpredict.data.sources.multisets import multisets
from setpredict.data.sources.polygons import polygon
from setpredict.demo import Budget, compile_kernels, contenders, run
from setpredict.model import SetPredictor
from setpredict.report.figures.sweep import LEAST, sweep
from setpredict.sets import Sets


@pytest.mark.parametrize(("task", "picture"), [("points", "sets.png"), ("polygons", "sweep.png")])
def test_the_demo_trains_compares_and_draws(task, picture, tmp_path):
    models = run(task, Budget(0.3), tmp_path, [0], Console(quiet=True))
    assert [m.name for m in models] == ["MLP decoder", "DSPN", "iDSPN"]
    assert all(m.steps > 0 for m in models)
    assert (tmp_path / picture).stat().st_size > 5000
    written = json.loads((tmp_path / "results.json").read_text())
    assert [m["steps_trained"] for m in written["models"]] == [m.steps for m in models]
    errors = {m["name"]: list(m["error_x1000"]) for m in written["models"]}
    assert errors == {"MLP decoder": ["0"], "DSPN": ["10", "20"], "iDSPN": ["20", "40"]}  # T and 2T; one-shot: 0


def test_several_seeds_of_a_number_of_steps_are_averaged(tmp_path):
    models = run("polygons", Budget(2, "steps"), tmp_path, [3, 4], Console(quiet=True))
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["command"] == "setpredict demo --task polygons --steps 2 --seed 3 --seeds 2"
    assert (written["seeds"], written["steps_each"]) == ([3, 4], 2)
    for model, entry in zip(models, written["models"]):
        assert [t.steps for t in model.trained] == [2, 2]
        for steps, (first, second) in model.errors().items():
            assert first != second
            assert entry["error_x1000"][str(steps)] == pytest.approx((first + second) / 2, abs=1e-4)
            assert entry["errors_x1000"][str(steps)] == pytest.approx([first, second], abs=1e-4)
        assert {corners: len(seeds) for corners, seeds in entry["sweep"].items()} == {"3": 2, "4": 2, "6": 2}


def test_compiling_changes_nothing():
    contender, task = contenders()[-1], multisets()
    kind = InputConfig("set", 2)
    torch.manual_seed(0)
    model = SetPredictor.from_config(ModelConfig(8, 2, False, 64, kind, contender.encoder, contender.decoder))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    compile_kernels(model, task, make_loss(LossConfig("hungarian", masks="filter"), task))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_steps_give_the_same_numbers_again(tmp_path):
    first, second = (run("points", Budget(2, "steps"), tmp_path, [0], Console(quiet=True)) for _ in range(2))
    assert [m.errors() for m in first] == [m.errors() for m in second]


class Exact(SetPredictor):
    """Predicts the exact corners: its error is 0 and it moves as fast as they do, but for a shift at some angle."""

    def __init__(self, corners: int, shift_at: float | None = None, over: float = 0.0):
        config = ModelConfig(8, 2, input=InputConfig("vector", 8))
        super().__init__(torch.nn.Linear(1, 1), torch.nn.Identity(), config)
        self.corners, self.shift_at, self.over = corners, shift_at, over

    def predict(self, input, steps=None) -> Sets:
        angle = torch.atan2(input[:, 1].double(), input[:, 0].double()) / self.corners
        _, sets = polygon(self.corners, angle.numpy())
        if self.shift_at is not None:
            after = angle % (2 * math.pi / self.corners) - self.shift_at
            shift = 0.1 * (after / self.over).clamp(0, 1) if self.over else 0.1 * (after > 0)
            sets = Sets((sets.elements + shift[:, None, None]).float(), sets.mask)
        return Sets(sets.elements, sets.mask.float())


def test_an_exact_model_has_no_error_and_no_jump():
    found = sweep(Exact(4), 4)
    assert found.error.max() < 1e-9
    assert found.speed.median().item() == pytest.approx(1, abs=0.01)
    assert found.speed.max() < 1.1
    assert len(found.jumps) == 0


def test_a_jump_is_found_where_it_is():
    found = sweep(Exact(4, shift_at=0.5), 4, count=91)
    inside = found.jumps < 2 * math.pi / 4 - 1e-3  # at the end of the period, the shift ends as abruptly
    assert found.jumps[inside].tolist() == pytest.approx([0.5], abs=1e-4)
    assert found.distances[inside].tolist() == pytest.approx([0.1 * 2**0.5], rel=1e-3)
    step = math.sin(2 * math.pi / 4 / 90 / 2)
    assert found.speed.max().item() == pytest.approx(0.1 * 2**0.5 / step, rel=0.1)
    largest = [jump["degrees"] for jump in found.summary()["largest_jumps"]]
    assert any(degrees == pytest.approx(math.degrees(0.5), abs=0.01) for degrees in largest)


def test_a_steep_but_continuous_output_does_not_jump():
    """Between two of the angles it moves as far as the output that jumps."""
    found = sweep(Exact(4, shift_at=0.5, over=0.01), 4, count=91)
    assert found.speed[: int(90 * 0.6 / (math.pi / 2))].max() * math.sin(math.pi / 4 / 90) > LEAST
    assert not ((found.jumps > 0.4) & (found.jumps < 0.6)).any()
