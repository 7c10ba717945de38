"""The outer loss of Algorithm 1."""

import pytest
import torch

from setpredict import Prediction, Sets, hungarian_loss, outer_loss


def a_prediction(T: int = 3, grad_from: int = 0) -> Prediction:
    torch.manual_seed(0)
    return Prediction(
        torch.randn(T + 1, 2, 4, 2), torch.rand(T + 1, 2, 4), grad_from=grad_from, target_loss=torch.tensor([1.0, 3.0])
    )


TARGET = Sets.from_list([[[0.0, 1.0]], [[1.0, 1.0], [2.0, 2.0]]], max_size=4)


def test_all_steps_are_averaged_and_lambda_weighs_the_representation():
    prediction = a_prediction()
    parts = outer_loss(prediction, TARGET, "hungarian", repr_weight=0.25)
    each = torch.stack([hungarian_loss(prediction.step(t), TARGET).mean() for t in range(4)])
    torch.testing.assert_close(parts["set"], each.mean())
    torch.testing.assert_close(parts["set_first"], each[0])
    torch.testing.assert_close(parts["set_last"], each[-1])
    assert parts["repr"].item() == 2
    torch.testing.assert_close(parts["loss"], each.mean() + 0.25 * 2)


def test_last_step_only():
    prediction = a_prediction()
    parts = outer_loss(prediction, TARGET, steps="last")
    torch.testing.assert_close(parts["set"], hungarian_loss(prediction.final, TARGET).mean())


def test_all_means_the_sets_that_carry_gradients():
    prediction = a_prediction(grad_from=2)
    parts = outer_loss(prediction, TARGET)
    each = [hungarian_loss(prediction.step(t), TARGET).mean() for t in (2, 3)]
    torch.testing.assert_close(parts["set"], torch.stack(each).mean())


def test_one_shot_decoders_have_one_set():
    prediction = Prediction(torch.randn(1, 2, 4, 2), torch.rand(1, 2, 4))
    parts = outer_loss(prediction, TARGET, "chamfer")
    assert "repr" not in parts
    assert parts["loss"] is parts["set"]


def test_a_loss_of_ones_own():
    parts = outer_loss(a_prediction(), TARGET, lambda predicted, target: predicted.mask.sum(1) * 0 + 7)
    assert parts["set"].item() == 7


def test_unknown_steps_are_refused():
    with pytest.raises((ValueError, TypeError), match="steps"):
        outer_loss(a_prediction(), TARGET, steps="first")  # pyright: ignore


def test_a_number_that_is_none_is_named_by_step_and_sample():
    elements = torch.zeros(4, 2, 3, 1)
    elements[3, 1, 2] = float("nan")
    target = Sets.from_list([[[0.0]] * 3] * 2)
    with pytest.raises(ValueError, match="step 3: predicted set 1, element 2 is nan"):
        outer_loss(Prediction(elements, torch.ones(4, 2, 3)), target)


def test_unknown_losses_are_refused():
    with pytest.raises((ValueError, TypeError), match="chamfr"):
        outer_loss(a_prediction(), TARGET, "chamfr")  # pyright: ignore
