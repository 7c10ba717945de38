"""The outer loop: schedules, averaging, accumulation, clipping and the optimizer."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.utilities.exceptions import MisconfigurationException

from setpredict.build import make_loss, make_task
from setpredict.config import Experiment, TrainConfig
from setpredict.core.errors import NotFinite, UserError
from setpredict.model import SetPredictor
from setpredict.resolve import model_config
from setpredict.training import devices
from setpredict.training.devices import make_fabric
from setpredict.training.loop import TrainState, count_in, fit, fraction_done, initial_keys, update
from setpredict.training.optimizer import learning_rate, update_average
from tests.training.comparing import assert_close, differences, moments, parameters


def fresh_model(experiment: Experiment) -> SetPredictor:
    torch.manual_seed(0)
    return SetPredictor.from_config(model_config(experiment, make_task(experiment.data)))


def trained(experiment: Experiment, **changes) -> TrainState:
    train = replace(experiment.train, **changes)
    fabric, task = Fabric(accelerator="cpu", devices=1), make_task(experiment.data)
    state = TrainState.fresh(fabric, fresh_model(experiment), train)
    fit(fabric, state, task, train, make_loss(experiment.loss, task))
    return state


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tiny):
    first = parameters(trained(tiny).model)
    assert differences(first, parameters(trained(tiny).model)) == []
    assert differences(first, parameters(trained(tiny, seed=1).model))


def test_limits_by_steps_epochs_and_minutes(tiny):
    assert trained(tiny, max_steps=3).step == 3
    assert trained(tiny, max_steps=None, epochs=2).step == 16  # 64 samples in batches of 8
    assert trained(tiny, max_steps=None, max_minutes=1e-9).step == 1
    assert trained(tiny, max_steps=0).step == 0


def test_accumulated_batches_are_one_large_batch(tiny):
    """One step from two batches of 8 has the gradient of their mean, which Adam's first moment shows."""
    tiny.train = replace(tiny.train, max_steps=1, ema=0.0)
    accumulated, joint = trained(tiny, accumulate=2), trained(tiny, batch_size=16)
    assert accumulated.step == 1
    ours, theirs = (moments(state.model, state.optimizer) for state in (accumulated, joint))
    assert_close(ours, theirs, rtol=1e-4, atol=1e-8)


def test_accumulation_continues_across_epochs(tiny):
    """Five batches per epoch, two per step: the third step has one of each epoch, and training ends."""
    tiny.data = replace(tiny.data, train=40)
    assert trained(tiny, accumulate=2, max_steps=7).step == 7
    assert trained(tiny, accumulate=2, max_steps=None, epochs=2).step == 5


@pytest.mark.parametrize(
    ("changes", "steps"), [({"batch_size": 16}, 4), ({"accumulate": 2}, 4), ({"batch_size": 4}, 16)]
)
def test_other_batches_continue_at_the_same_fraction(tiny, changes, steps):
    """One of two epochs is over after 8 steps, and the other one is left, in steps of another size."""
    train = replace(tiny.train, max_steps=8, epochs=2)
    fabric, task = Fabric(accelerator="cpu", devices=1), make_task(tiny.data)
    state, loss = TrainState.fresh(fabric, fresh_model(tiny), train), make_loss(tiny.loss, task)
    fit(fabric, state, task, train, loss)
    rest = replace(train, max_steps=None, **changes)
    count_in(state, 64 // rest.batch_size, rest.accumulate)
    assert fraction_done(fabric, state, rest) == 0.5
    fit(fabric, state, task, rest, loss)
    assert (state.step, fraction_done(fabric, state, rest)) == (8 + steps, 1.0)


def test_an_abandoned_step_leaves_no_gradient(tiny):
    for p in (clean := trained(tiny, max_steps=0)).model.parameters():
        p.grad = torch.ones_like(p)
    again, task = trained(tiny, max_steps=0), make_task(tiny.data)
    for state in (clean, again):
        train = replace(tiny.train, max_steps=2)
        fit(Fabric(accelerator="cpu"), state, task, train, make_loss(tiny.loss, task))
    assert differences(parameters(clean.model), parameters(again.model)) == []


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
@pytest.mark.filterwarnings("ignore:.*bfloat16.*", "ignore:.*16-mixed.*")
def test_mixed_precision_leaves_sets_and_their_loss_exact(tiny, precision, monkeypatch):
    seen = []
    tiny.data = replace(tiny.data, variable=True)
    tiny.loss = replace(tiny.loss, masks="feature")
    train = replace(tiny.train, precision=precision, accelerator="cpu", max_steps=1)
    fabric, task = make_fabric(train), make_task(tiny.data)
    state = TrainState.fresh(fabric, fresh_model(tiny), train)
    encode = state.model.encode
    monkeypatch.setattr(state.model, "encode", lambda input: (seen.append(input.elements.dtype), encode(input))[1])
    loss = make_loss(tiny.loss, task)
    fit(fabric, state, task, train, loss, lambda _, step: seen.append(step.parts["loss"].dtype))
    assert seen == [torch.float32] * 2
    for p in state.model.parameters():  # a gradient that is not finite is noticed; on a CPU there is no scaler
        p.grad = torch.full_like(p, float("nan"))
    with pytest.raises(NotFinite, match="outer gradient"):
        update(fabric, state, train, 0.0)


@pytest.mark.parametrize("scale", [65536.0, 0.5])
def test_a_gradient_that_overflows_at_every_scale_is_noticed(tiny, scale: float):
    fabric = make_fabric(tiny.train)
    state = TrainState.fresh(fabric, fresh_model(tiny), tiny.train)
    state.precision = SimpleNamespace(scaler=torch.amp.GradScaler("cpu", init_scale=scale))  # pyright: ignore
    for p in state.model.parameters():
        p.grad = torch.full_like(p, float("inf"))  # which a scaler is for, unless its scale is very small already
    if scale < 1:
        with pytest.raises(NotFinite, match="whatever the scale of the loss"):
            update(fabric, state, tiny.train, 0.0)
    else:
        update(fabric, state, tiny.train, 0.0)
        assert state.step == 1


def test_devices_that_are_not_there_are_an_error_in_one_line(tiny, monkeypatch):
    def refuse(**_):
        raise MisconfigurationException("\n  No supported gpu backend found!\nmore")

    monkeypatch.setattr(devices, "Fabric", refuse)
    with pytest.raises(UserError, match=r"--devices 4 is not possible here: No supported gpu backend found!$"):
        make_fabric(replace(tiny.train, devices=4))


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
    model.num_batches_tracked.fill_(9)  # pyright: ignore
    update_average(average, model, decay=0.9, step=1000)
    expected = {
        "weight": torch.full((3,), 0.9 * 1 + 0.1 * 5),
        "bias": torch.full((3,), 0.1 * 5),
        "running_mean": torch.full((3,), 0.1 * 7),
        "running_var": torch.ones(3),
        "num_batches_tracked": torch.tensor(9),
    }
    assert_close(average.state_dict(), expected, rtol=1e-6, atol=1e-6)


def test_the_moving_average_keeps_infinite_buffers():
    model = torch.nn.Linear(2, 2)
    model.register_buffer("mask", torch.tensor([0.0, float("-inf")]))
    average = copy.deepcopy(model)
    update_average(average, model, decay=0.9, step=1000)
    assert average.get_buffer("mask").tolist() == [0.0, float("-inf")]


def test_half_the_inner_steps_at_first(tiny):
    tiny.decoder.solver = replace(tiny.decoder.solver, steps=6)
    seen = []
    train = replace(tiny.train, max_steps=4, few_steps_until=0.5)
    fabric, task = Fabric(accelerator="cpu", devices=1), make_task(tiny.data)
    state, loss = TrainState.fresh(fabric, fresh_model(tiny), train), make_loss(tiny.loss, task)
    fit(fabric, state, task, train, loss, lambda state, step: seen.append(step.prediction.steps))
    assert seen == [3, 3, 6, 6]


def adamw_by_hand(experiment: Experiment, train: TrainConfig) -> tuple[SetPredictor, dict[str, torch.Tensor]]:
    """AdamW with clipped gradients and a warm-up, from their formulas; returns the model and its first moments."""
    task, model = make_task(experiment.data), fresh_model(experiment)
    loss, clipped = make_loss(experiment.loss, task), 0
    assert train.clip_grad is not None
    assert train.max_steps is not None
    assert train.lr is not None
    first = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    second = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for step, batch in enumerate(task.loader("train", train.batch_size, seed=train.seed), start=1):
        if step > train.max_steps:
            break
        lr = train.lr * min(1.0, step / train.warmup_steps)
        value = loss(model(batch.input, batch.target), batch.target)["loss"]
        gradients = dict(zip(first, torch.autograd.grad(value, list(model.parameters()))))
        norm = sum((g**2).sum() for g in gradients.values()) ** 0.5
        factor = min(1.0, train.clip_grad / float(norm))
        clipped += factor < 1
        with torch.no_grad():
            for name, p in model.named_parameters():
                gradient = factor * gradients[name]
                first[name] = 0.9 * first[name] + 0.1 * gradient
                second[name] = 0.999 * second[name] + 0.001 * gradient**2
                p.mul_(1 - lr * train.weight_decay)
                mean, square = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
                p.sub_(lr * mean / (square.sqrt() + 1e-8))
    assert clipped == train.max_steps, "the test is about gradients that are clipped"
    return model, first


def test_clipping_and_adamw_follow_their_formulas(tiny):
    """With an MLP decoder: in an auto-encoding DSPN some gradients are 0 but for rounding, which Adam amplifies."""
    tiny.decoder = replace(tiny.decoder, kind="mlp")
    tiny.train = replace(tiny.train, max_steps=4, ema=0.0, lr=0.01, warmup_steps=3, clip_grad=0.01)
    tiny.train = replace(tiny.train, optimizer="adamw", weight_decay=0.5)
    model, first = adamw_by_hand(tiny, tiny.train)

    def compare(state: TrainState) -> None:
        assert_close(moments(state.model, state.optimizer), first, rtol=1e-3, atol=1e-6)
        assert_close(parameters(state.model), parameters(model), rtol=1e-4, atol=1e-5)

    compare(trained(tiny))
    for other in ({"clip_grad": None}, {"optimizer": "adam"}, {"weight_decay": 0.0}, {"warmup_steps": 0}):
        with pytest.raises(AssertionError, match="Tensor-likes are not close"):
            compare(trained(tiny, **other))


def test_every_seed_epoch_and_sample_has_its_own_initial_set():
    keys = [initial_keys(seed, epoch, torch.arange(1000)) for seed in (0, 1) for epoch in range(3)]
    assert all(k.dtype == torch.int64 for k in keys)
    assert len(set(torch.cat(keys).tolist())) == 6000
    alone = initial_keys(1, 2, torch.tensor([17]))
    assert alone.item() == keys[-1][17].item()  # whatever the batch


def test_initial_sets_of_training_come_from_the_keys(tiny, monkeypatch):
    seen = []
    fabric, task = Fabric(accelerator="cpu", devices=1), make_task(tiny.data)
    train = replace(tiny.train, max_steps=9, seed=5)  # 8 steps per epoch
    state = TrainState.fresh(fabric, fresh_model(tiny), train)
    decode = state.model.decoder.forward
    monkeypatch.setattr(state.model.decoder, "forward", lambda *a, **k: (seen.append(k["keys"]), decode(*a, **k))[1])
    batches = []
    fit(fabric, state, task, train, make_loss(tiny.loss, task), lambda _, step: batches.append(step.batch.index))
    expected = [initial_keys(5, i // 8, index) for i, index in enumerate(batches)]
    assert differences(seen, expected) == []
