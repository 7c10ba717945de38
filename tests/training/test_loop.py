"""The outer loop: schedules, averaging, accumulation, and agreement of two processes with one."""

import copy
from dataclasses import replace

import pytest
import torch
from lightning_fabric import Fabric

from setpredict.config import TrainConfig
from setpredict.model import SetPredictor
from setpredict.presets import make_task
from setpredict.sets import NotFinite
from setpredict.training.devices import make_fabric
from setpredict.training.loop import TrainState, fit, update
from setpredict.training.optimizer import learning_rate, update_average


def trained(experiment, **changes) -> TrainState:
    train = replace(experiment.train, **changes)
    fabric = Fabric(accelerator="cpu", devices=1)
    torch.manual_seed(0)
    task = make_task(experiment.data)
    state = TrainState.fresh(fabric, SetPredictor.from_config(experiment.model(task)), train)
    fit(fabric, state, task, train, experiment.loss)
    return state


def weights(state: TrainState) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in state.model.parameters()])


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tiny):
    first = weights(trained(tiny))
    assert torch.equal(first, weights(trained(tiny)))
    assert not torch.equal(first, weights(trained(tiny, seed=1)))


def test_limits_by_steps_epochs_and_minutes(tiny):
    assert trained(tiny, max_steps=3).step == 3
    assert trained(tiny, max_steps=None, epochs=2).step == 16  # 64 samples in batches of 8
    assert trained(tiny, max_steps=None, max_minutes=1e-9).step == 1
    assert trained(tiny, max_steps=0).step == 0


def test_accumulated_batches_are_one_large_batch(tiny):
    """One step from two batches of 8 has the gradient of their mean, which Adam's first moment shows."""
    tiny.train = replace(tiny.train, max_steps=1, ema=0.0)
    accumulated, whole = trained(tiny, accumulate=2), trained(tiny, batch_size=16)
    assert accumulated.step == 1
    for a, b in zip(accumulated.model.parameters(), whole.model.parameters()):
        ours, theirs = accumulated.optimizer.state[a]["exp_avg"], whole.optimizer.state[b]["exp_avg"]
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-8)


def test_accumulation_goes_on_across_epochs(tiny):
    """Five batches an epoch, two a step: the third step has one of each epoch, and training ends."""
    tiny.data = replace(tiny.data, train=40)
    assert trained(tiny, accumulate=2, max_steps=7).step == 7
    assert trained(tiny, accumulate=2, max_steps=None, epochs=2).step == 5


def test_a_step_that_was_given_up_leaves_no_gradient(tiny):
    for p in (clean := trained(tiny, max_steps=0)).model.parameters():
        p.grad = torch.ones_like(p)
    again = trained(tiny, max_steps=0)
    for state in (clean, again):
        fit(Fabric(accelerator="cpu"), state, make_task(tiny.data), replace(tiny.train, max_steps=2), tiny.loss)
    assert torch.equal(weights(clean), weights(again))


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
@pytest.mark.filterwarnings("ignore:.*bfloat16.*", "ignore:.*16-mixed.*")
def test_mixed_precision_leaves_sets_and_their_loss_exact(tiny, precision, monkeypatch):
    seen = []
    tiny.data = replace(tiny.data, variable=True)
    tiny.loss = replace(tiny.loss, masks="feature")
    train = replace(tiny.train, precision=precision, accelerator="cpu", max_steps=1)
    fabric, task = make_fabric(train), make_task(tiny.data)
    state = TrainState.fresh(fabric, SetPredictor.from_config(tiny.model(task)), train)
    encode = state.model.encode
    monkeypatch.setattr(state.model, "encode", lambda input: (seen.append(input.elements.dtype), encode(input))[1])
    fit(fabric, state, task, train, tiny.loss, lambda _, step: seen.append(step.parts["loss"].dtype))
    assert seen == [torch.float32] * 2
    for p in state.model.parameters():  # a gradient that is not finite is noticed; on a CPU there is no scaler
        p.grad = torch.full_like(p, float("nan"))
    with pytest.raises(NotFinite, match="outer gradient"):
        update(fabric, state, train, 0.0)


def test_the_learning_rate_schedule():
    step = TrainConfig(lr=1.0, schedule="step", decay_at=(0.5, 0.9))
    assert [learning_rate(step, 0, d) for d in (0.0, 0.49, 0.5, 0.95)] == pytest.approx([1, 1, 0.1, 0.01])
    warm = TrainConfig(lr=2.0, warmup_steps=4)
    assert [learning_rate(warm, s, 0.0) for s in range(5)] == [0.5, 1.0, 1.5, 2.0, 2.0]


def test_the_moving_average_is_its_formula():
    model = torch.nn.BatchNorm1d(3)
    average = copy.deepcopy(model)
    for p in model.parameters():
        torch.nn.init.constant_(p, 5.0)
    model.running_mean.fill_(7.0)  # pyright: ignore
    update_average(average, model, decay=0.9, step=1000)
    torch.testing.assert_close(average.weight, torch.full((3,), 0.9 * 1 + 0.1 * 5))
    torch.testing.assert_close(average.running_mean, torch.full((3,), 0.1 * 7))
    model.num_batches_tracked.fill_(9)  # pyright: ignore
    update_average(average, model, decay=0.9, step=1000)
    assert average.num_batches_tracked.item() == 9  # pyright: ignore


def test_half_the_inner_steps_at_first(tiny):
    tiny.decoder.steps = 6
    seen = []
    train = replace(tiny.train, max_steps=4, few_steps_until=0.5)
    fabric = Fabric(accelerator="cpu", devices=1)
    task = make_task(tiny.data)
    state = TrainState.fresh(fabric, SetPredictor.from_config(tiny.model(task)), train)
    fit(fabric, state, task, train, tiny.loss, lambda state, step: seen.append(step.prediction.steps))
    assert seen == [3, 3, 6, 6]


def test_clipping_and_adamw_run(tiny):
    assert trained(tiny, clip_grad=0.1, optimizer="adamw", weight_decay=0.1, warmup_steps=3).step == 12
