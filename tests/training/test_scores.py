"""The claim of the paper on random multisets: a set decoder beats a list-valued one, and how good it gets."""

import pytest
from lightning_fabric import Fabric

from setpredict.data.sources.multisets import multisets
from setpredict.demo import contenders, error, train
from setpredict.model import SetPredictor
from setpredict.presets import preset
from setpredict.training.loop import TrainState, fit

pytestmark = pytest.mark.slow


def test_set_decoders_beat_the_mlp_for_the_same_time():
    task, errors = multisets(), {}
    for contender in contenders():
        train(contender, task, seconds=25.0, seed=0, after_step=lambda state, step: None)
        errors[contender.name] = error(contender.model, task, 2 * contender.decoder.steps)
    assert errors["DSPN"] < errors["MLP decoder"]
    assert errors["iDSPN"] < errors["MLP decoder"]


def test_idspn_reaches_its_score_in_500_steps():
    experiment, task = preset("multisets", "idspn"), multisets()
    experiment.train.max_minutes, experiment.train.max_steps = None, 500
    fabric = Fabric(accelerator="cpu", devices=1)
    state = TrainState.fresh(fabric, SetPredictor.from_config(experiment.model(task)), experiment.train)
    fit(fabric, state, task, experiment.train, experiment.loss)
    assert error(state.best_weights, task, 40) < 0.6  # Hungarian error × 1000; the MLP has 2.7 after 3,000 steps
