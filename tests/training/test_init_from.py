"""Runs that begin with the weights of another."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from setpredict.config import ConfigError
from setpredict.model import SetPredictor
from setpredict.runs.card import shipped
from setpredict.presets import preset
from setpredict.sets import Sets
from setpredict.runs.train import train_run


def go(experiment, folder: Path, **options):
    return train_run(experiment, folder, console=Console(quiet=True), **options)


def test_an_mlps_answer_becomes_the_guess_that_dspn_refines(tiny, run_folder):
    tiny.data = replace(tiny.data, variable=True)
    tiny.loss = replace(tiny.loss, masks="feature")
    tiny.decoder = replace(tiny.decoder, kind="mlp", mask_bias=1.0)
    go(tiny, run_folder)
    one_shot = SetPredictor.from_pretrained(run_folder / "best")
    tiny.decoder = replace(tiny.decoder, kind="dspn", initial="predicted")
    tiny.train = replace(tiny.train, max_steps=0, ema=0.0)
    other = run_folder.with_name("refined")
    go(tiny, other, init_from=run_folder)
    refined = SetPredictor.from_pretrained(other / "best")
    points = Sets.from_list(torch.rand(3, 4, 2))
    start = refined(points).step(0)
    assert torch.equal(start.elements, one_shot.predict(points).elements)
    assert torch.equal(start.mask, one_shot.predict(points).mask.clamp(0, 1))
    tiny.decoder = replace(tiny.decoder, hidden=(9,))
    with pytest.raises(ConfigError, match="cannot be the guess of this model"):
        go(tiny, run_folder.with_name("other"), init_from=run_folder)


def test_one_initial_set_for_all_becomes_the_guess_at_first(tiny, run_folder):
    tiny.data = replace(tiny.data, variable=True)
    tiny.loss = replace(tiny.loss, masks="feature")
    tiny.decoder = replace(tiny.decoder, initial="learned")
    go(tiny, run_folder)
    shared = SetPredictor.from_pretrained(run_folder / "best")
    tiny.decoder = replace(tiny.decoder, initial="predicted", mask_bias=1.0)
    tiny.train = replace(tiny.train, max_steps=0, ema=0.0)
    other = run_folder.with_name("guessing")
    go(tiny, other, init_from=run_folder)
    guessing = SetPredictor.from_pretrained(other / "best")
    points = Sets.from_list(torch.rand(3, 4, 2))
    for t in range(tiny.decoder.steps + 1):
        before, after = shared(points).step(t), guessing(points).step(t)
        assert torch.allclose(after.elements, before.elements, atol=1e-6)
        assert torch.allclose(after.mask, before.mask, atol=1e-6)
    tiny.train.max_steps = 2
    go(tiny, run_folder.with_name("trained"), init_from=run_folder)
    start = SetPredictor.from_pretrained(run_folder.with_name("trained") / "best")(points).step(0).elements
    assert not torch.allclose(start[0], start[1])  # the guess has begun to depend on z


def test_fine_tuning_starts_from_the_best_weights(tiny, run_folder):
    go(tiny, run_folder)
    best = SetPredictor.from_pretrained(run_folder / "best")
    tiny.train = replace(tiny.train, max_steps=0, ema=0.0)
    other = run_folder.with_name("tuned")
    go(tiny, other, init_from=run_folder)
    tuned = torch.load(other / "last.ckpt", weights_only=True)["model"]
    assert tuned.keys() == best.state_dict().keys()
    assert all(torch.equal(v, best.state_dict()[k]) for k, v in tuned.items())
    with pytest.raises(FileNotFoundError, match=r"there is no run .*nowhere; shipped models are"):
        go(tiny, run_folder.with_name("x"), init_from=run_folder.with_name("nowhere"))
    run_folder.with_name("young").mkdir()
    with pytest.raises(FileNotFoundError, match=r"best.config.json is not there"):
        go(tiny, run_folder.with_name("x"), init_from=run_folder.with_name("young"))


def test_fine_tuning_starts_from_a_shipped_model(run_folder):
    experiment = preset("multisets", "dspn", "small")
    experiment.data = replace(experiment.data, points=10, variable=True, train=32, val=4, test=4)
    experiment.train = replace(experiment.train, max_steps=0, ema=0.0, threads=1, pictures=False)
    go(experiment, run_folder, init_from=Path("points-dspn"))
    points = Sets.from_list(torch.rand(3, 4, 2))
    ours, theirs = (SetPredictor.from_pretrained(f) for f in (run_folder / "best", shipped()["points-dspn"]))
    assert torch.equal(ours.predict(points).elements, theirs.predict(points).elements)
