"""Evaluation mode for a while: every layer gets its own mode back, whichever thread leaves last."""

import threading

import torch
from torch import nn

from setpredict import InputConfig, ModelConfig, SetPredictor
from setpredict.config import DecoderConfig
from setpredict.core.modes import evaluating


def test_every_layer_gets_its_own_mode_back():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2))
    model.train()
    model[1].eval()
    with evaluating(model):
        assert not any(module.training for module in model.modules())
        with evaluating(model):
            pass
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == [True, True, False]


def test_the_last_of_several_threads_restores_the_modes():
    model, entered, left = nn.BatchNorm1d(2), threading.Event(), threading.Event()

    def other():
        with evaluating(model):
            entered.set()
            left.wait(10)
            seen.append(model.training)

    seen: list[bool] = []
    thread = threading.Thread(target=other)
    with evaluating(model):
        thread.start()
        assert entered.wait(10)
    seen.append(model.training)  # the other thread is still inside
    left.set()
    thread.join()
    assert seen == [False, False]
    assert model.training


def test_predictions_of_several_threads_do_not_change_a_model_in_training_mode():
    torch.manual_seed(0)
    config = ModelConfig(4, 2, input=InputConfig("conv", 32, widths=(8, 16)), decoder=DecoderConfig("mlp", hidden=(8,)))
    model, images = SetPredictor.from_config(config), torch.rand(6, 3, 32, 32)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    expected, found = model.predict(images).elements, []
    threads = [
        threading.Thread(target=lambda: found.extend(model.predict(images).elements for _ in range(8)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 32
    assert all(torch.equal(elements, expected) for elements in found)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
