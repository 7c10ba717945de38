"""The outer loss of Algorithm 1."""

import pytest
import torch

from setpredict import Prediction, Sets, chamfer_loss, hungarian_loss, outer_loss
from setpredict.core.errors import NotFinite
from setpredict.losses import OuterLoss
from setpredict.losses.outer import _check_steps, named_set_loss


def a_prediction(T: int = 3, grad_from: int = 0) -> Prediction:
    g = torch.Generator().manual_seed(0)
    elements, mask = torch.randn(T + 1, 2, 4, 2, generator=g), torch.rand(T + 1, 2, 4, generator=g)
    return Prediction(elements, mask, grad_from=grad_from, target_loss=torch.tensor([1.0, 3.0]))


TARGET = Sets.from_list([[[0.0, 1.0]], [[1.0, 1.0], [2.0, 2.0]]], max_size=4)


def test_all_steps_are_averaged_and_lambda_weighs_the_representation():
    prediction = a_prediction()
    parts = outer_loss(prediction, TARGET, "hungarian", repr_weight=0.25)
    each = torch.stack([hungarian_loss(prediction.step(t), TARGET).mean() for t in range(4)])
    torch.testing.assert_close(parts["set"], each.mean())
    torch.testing.assert_close(parts["set_last"], each[-1])
    assert sorted(parts) == ["loss", "repr", "set", "set_last"]
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
    g = torch.Generator().manual_seed(0)
    prediction = Prediction(torch.randn(1, 2, 4, 2, generator=g), torch.rand(1, 2, 4, generator=g))
    parts = outer_loss(prediction, TARGET, "chamfer")
    torch.testing.assert_close(parts["set"], chamfer_loss(prediction.final, TARGET).mean())
    assert sorted(parts) == ["loss", "set", "set_last"]
    assert parts["loss"] is parts["set"]


def test_gradients_flow_through_the_loss_only():
    prediction = a_prediction()
    prediction.elements.requires_grad_()
    needs = {name: part.requires_grad for name, part in outer_loss(prediction, TARGET).items()}
    assert needs == {"loss": True, "set": True, "set_last": False, "repr": False}


@pytest.mark.parametrize("steps", ["all", "last"])
def test_the_object_passes_its_options_on(steps):
    prediction = a_prediction(grad_from=1)
    loss = OuterLoss(chamfer_loss, "chamfer", steps=steps, repr_weight=0.5)
    found, expected = loss(prediction, TARGET), outer_loss(prediction, TARGET, "chamfer", steps=steps, repr_weight=0.5)
    assert {k: v.item() for k, v in found.items()} == {k: v.item() for k, v in expected.items()}
    assert loss.set_loss(prediction.final, TARGET).tolist() == chamfer_loss(prediction.final, TARGET).tolist()


def test_the_objects_defaults_are_those_of_the_function():
    prediction = a_prediction()
    found, expected = OuterLoss(hungarian_loss, "hungarian")(prediction, TARGET), outer_loss(prediction, TARGET)
    assert {k: v.item() for k, v in found.items()} == {k: v.item() for k, v in expected.items()}


def test_a_set_loss_of_your_own():
    parts = outer_loss(a_prediction(), TARGET, lambda predicted, target: predicted.mask.sum(1) * 0 + 7)
    assert parts["set"].item() == 7


def test_unknown_options_are_named():
    """The checks themselves: with the type checker of the tests on, callers do not get that far."""
    with pytest.raises(ValueError, match="steps must be 'all' or 'last', got 'first'"):
        _check_steps("first")
    with pytest.raises(ValueError, match="set loss must be chamfer, hungarian or a function of two Sets, got 'chamfr'"):
        named_set_loss("chamfr")
    with pytest.raises((ValueError, TypeError), match="steps"):
        outer_loss(a_prediction(), TARGET, steps="first")  # pyright: ignore
    with pytest.raises((ValueError, TypeError), match="steps"):
        OuterLoss(chamfer_loss, "chamfer", steps="first")  # pyright: ignore
    with pytest.raises((ValueError, TypeError), match="chamfr"):
        outer_loss(a_prediction(), TARGET, "chamfr")  # pyright: ignore


def test_a_value_that_is_not_finite_is_named_by_step_and_sample():
    elements = torch.zeros(4, 2, 3, 1)
    elements[3, 1, 2] = float("nan")
    target = Sets.from_list([[[0.0]] * 3] * 2)
    with pytest.raises(NotFinite, match="step 3: predicted set 1, element 2 is nan"):
        outer_loss(Prediction(elements, torch.ones(4, 2, 3)), target)


def test_padding_that_a_mask_removes_does_not_matter():
    predicted = Sets(torch.rand(1, 2, 2), torch.rand(1, 2))
    mask = torch.tensor([[True, False]])
    clean = Sets(torch.tensor([[[1.0, 1.0], [0.0, 0.0]]]), mask)
    dirty = Sets(torch.tensor([[[1.0, 1.0], [7.0, 7.0]]]), mask)
    for loss in (hungarian_loss, chamfer_loss):
        assert torch.equal(loss(predicted, dirty), loss(predicted, clean))
