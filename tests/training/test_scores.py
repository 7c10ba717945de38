"""The claim of the paper on random multisets: for the same time, a set decoder beats a list-valued one."""

import pytest

from setpredict.data.multisets import multisets
from setpredict.demo import contenders, error, train


@pytest.mark.slow
def test_set_decoders_beat_the_mlp_for_the_same_time():
    task, errors = multisets(), {}
    for contender in contenders():
        train(contender, task, seconds=20.0, seed=0, after_step=lambda state, step: None)
        errors[contender.name] = error(contender.model, task, 2 * contender.decoder.steps)
    assert errors["DSPN"] < errors["MLP decoder"]
    assert errors["iDSPN"] < errors["MLP decoder"] / 3
    assert errors["iDSPN"] < 0.8  # ×1000; two cores at rest reach 0.2
