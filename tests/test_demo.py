"""The demo runs from end to end, and its sweep over angles measures errors and jumps."""

import json
import math

import pytest
import torch
from rich.console import Console

from setpredict.config import InputConfig, ModelConfig
from setpredict.data.sources.polygons import polygon
from setpredict.demo import run
from setpredict.model import SetPredictor
from setpredict.report.figures.sweep import hardest, turn
from setpredict.sets import Sets


@pytest.mark.parametrize(("task", "picture"), [("points", "sets.png"), ("polygons", "sweep.png")])
def test_the_demo_trains_compares_and_draws(task, picture, tmp_path):
    models = run(task, 0.3, tmp_path, 0, Console(quiet=True))
    assert [m.name for m in models] == ["MLP decoder", "DSPN", "iDSPN"]
    assert all(m.steps > 0 for m in models)
    assert (tmp_path / picture).stat().st_size > 5000
    written = json.loads((tmp_path / "results.json").read_text())
    assert [m["steps_trained"] for m in written["models"]] == [m.steps for m in models]
    errors = {m["name"]: list(m["error_x1000"]) for m in written["models"]}
    assert errors == {"MLP decoder": ["0"], "DSPN": ["10", "20"], "iDSPN": ["20", "40"]}  # T and 2T; one-shot: 0


class Exact(SetPredictor):
    """Predicts the exact corners: its error is 0 and it moves as fast as they do, unless it is to jump."""

    def __init__(self, corners: int, jump_at: float | None = None):
        config = ModelConfig(8, 2, input=InputConfig("vector", 8))
        super().__init__(torch.nn.Linear(1, 1), torch.nn.Identity(), config)
        self.corners, self.jump_at = corners, jump_at

    def predict(self, input, steps=None) -> Sets:
        angle = torch.atan2(input[:, 1].double(), input[:, 0].double()) / self.corners
        _, sets = polygon(self.corners, angle.numpy())
        if self.jump_at is not None:
            moved = sets.elements + 0.1 * (angle % (2 * math.pi / self.corners) > self.jump_at)[:, None, None]
            sets = Sets(moved.float(), sets.mask)
        return Sets(sets.elements, sets.mask.float())


def test_an_exact_model_has_no_error_and_no_jump():
    _, error, jump = turn(Exact(4), 4)
    assert error.max() < 1e-9
    assert jump.median().item() == pytest.approx(1, abs=0.01)
    assert jump.max() < 1.1


def test_a_jump_is_measured():
    found = hardest(Exact(4, jump_at=0.5), 4)
    angles = 721
    step = math.sin(2 * math.pi / 4 / (angles - 1) / 2)
    assert found["largest_jump"] == pytest.approx(0.1 * 2**0.5 / step, rel=0.05)
