"""Predictions are the same to the bit in any batch and with any number of threads, for every shipped model."""

import numpy as np
import pytest
import torch

from setpredict import DecoderConfig, EncoderConfig, GradientDescent, InputConfig, ModelConfig, Sets
from setpredict.model import SetPredictor
from setpredict.runs.loaded import load
from setpredict.runs.shipped import shipped

SAMPLES, SIZES, THREADS = 64, (1, 7, 32, 64), (1, 2)
SMALL = EncoderConfig(hidden=(32, 24))
THREE_STEPS = GradientDescent(steps=3)
FRESH = {
    "relation": ModelConfig(6, 2, encoder=EncoderConfig("relation", hidden=(16,)), decoder=DecoderConfig()),
    "relation of boxes": ModelConfig(
        10, 4, latent=128, input=InputConfig("vector", 7),
        encoder=EncoderConfig("relation", hidden=(64,), mask_sum=True), decoder=DecoderConfig(),
    ),
    "deep relation": ModelConfig(
        6, 8, input=InputConfig("vector", 7), encoder=EncoderConfig("relation", hidden=(16, 16)),
        decoder=DecoderConfig(solver=THREE_STEPS),
    ),
    "a latent of 63": ModelConfig(9, 2, latent=63, encoder=SMALL, decoder=DecoderConfig(solver=THREE_STEPS)),
    "the mean of the masks": ModelConfig(
        9, 2, encoder=EncoderConfig(hidden=(32,), mask_sum=True), decoder=DecoderConfig(solver=THREE_STEPS)
    ),
    "two elements": ModelConfig(2, 2, encoder=SMALL, decoder=DecoderConfig(solver=THREE_STEPS)),
    "sigmoid": ModelConfig(9, 2, encoder=SMALL, decoder=DecoderConfig(solver=THREE_STEPS, mask="sigmoid")),
    "predicted": ModelConfig(
        5, 2, input=InputConfig("vector", 7), encoder=SMALL,
        decoder=DecoderConfig(solver=THREE_STEPS, initial="predicted"),
    ),
    "slots": ModelConfig(5, 2, input=InputConfig("set", 2), decoder=DecoderConfig("slots", THREE_STEPS, width=16)),
    "transformer": ModelConfig(
        5, 2, input=InputConfig("set", 2), decoder=DecoderConfig("transformer", THREE_STEPS, width=16, heads=2)
    ),
    "transformer on one token": ModelConfig(
        5, 2, input=InputConfig("vector", 7), decoder=DecoderConfig("transformer", THREE_STEPS, width=16, heads=2)
    ),
    "slots on one token": ModelConfig(
        5, 2, input=InputConfig("set", 2, tokens="vector"), decoder=DecoderConfig("slots", THREE_STEPS, width=16)
    ),
    "slots on an image": ModelConfig(
        5, 2, input=InputConfig("conv", 32, widths=(8, 16)), decoder=DecoderConfig("slots", THREE_STEPS, width=16)
    ),
    "from a dense head": ModelConfig(
        5, 4, input=InputConfig("conv", 32, widths=(8, 16), dense=True), elements="boxes", encoder=SMALL,
        decoder=DecoderConfig(solver=THREE_STEPS, initial="dense"),
    ),
    "lstm": ModelConfig(5, 2, encoder=SMALL, decoder=DecoderConfig("lstm", hidden=(32,))),
}  # fmt: skip


@pytest.fixture
def set_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def example_inputs(model: SetPredictor) -> Sets | torch.Tensor:
    """Random inputs of the model's kind; sets have every size."""
    config, rng = model.config, np.random.default_rng(0)
    assert config is not None
    size = config.input.size
    if config.input.kind in ("conv", "resnet"):
        return torch.from_numpy(rng.random((SAMPLES, 3, size, size), dtype=np.float32))
    if config.input.kind == "vector":
        return torch.from_numpy(rng.random((SAMPLES, size), dtype=np.float32))
    most = config.input.max_size or config.max_size
    sizes = rng.integers(1, most + 1, SAMPLES) if config.variable else [most] * SAMPLES
    return Sets.from_list([rng.random((n, size), dtype=np.float32) for n in sizes], max_size=most)


def check_independence(model: SetPredictor, set_threads) -> None:
    inputs, steps = example_inputs(model), 2 if model.config.max_size > 100 else None  # pyright: ignore
    set_threads(1)
    expected = model.predict(inputs, steps)
    for threads in THREADS:
        set_threads(threads)
        for size in SIZES:
            part = slice(max(0, SAMPLES - size - 2), max(0, SAMPLES - size - 2) + size)
            found = model.predict(inputs[part], steps)
            for name in ("elements", "mask"):
                a, b = getattr(found, name), getattr(expected, name)[part]
                which = f"{name} of {size} samples with {threads} threads"
                assert torch.equal(a, b), f"{which} differ from those in a batch by up to {(a - b).abs().max():g}"


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_models_predictions_are_independent(name: str, set_threads):
    check_independence(load(name).model, set_threads)


@pytest.mark.parametrize("name", FRESH)
def test_a_fresh_models_predictions_are_independent(name: str, set_threads):
    torch.manual_seed(0)
    check_independence(SetPredictor.from_config(FRESH[name]), set_threads)
