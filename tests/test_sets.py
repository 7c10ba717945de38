"""Sets and Prediction: padding, ragged lists, permutation, and errors."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from setpredict import NotFinite, Prediction, Sets, UserError

ragged = st.lists(
    st.lists(st.tuples(st.floats(-5, 5, width=32), st.floats(-5, 5, width=32)), max_size=5), min_size=1, max_size=4
)


@given(ragged)
def test_to_list_undoes_from_list(sets):
    back = Sets.from_list(sets, features=2).to_list()
    assert [s.tolist() for s in back] == [[list(e) for e in s] for s in sets]


def test_from_list_takes_lists_arrays_and_tensors():
    rows = [[0.5, 1.0], [2.0, 3.0]]
    made = [Sets.from_list([x]) for x in (rows, np.array(rows, np.float32), torch.tensor(rows))]
    for sets in made:
        assert sets.elements.dtype == torch.float32
        assert torch.equal(sets.elements, made[0].elements)
    assert Sets.from_list([np.array(rows)]).elements.dtype == torch.float64


def test_padding_is_zeros_and_masked_out():
    sets = Sets.from_list([[[1.0]], [[2.0], [3.0], [4.0]], []], max_size=5)
    assert sets.elements.shape == (3, 5, 1)
    assert sets.sizes.tolist() == [1, 3, 0]
    assert sets.elements[~sets.mask].abs().sum() == 0


@pytest.mark.parametrize(
    ("sets", "options", "message"),
    [
        ([], {}, "at least one set"),
        ([[]], {}, "features=D"),
        ([[[1.0]], [[1.0, 2.0]]], {}, "1 in set 0 and 2 in set 1"),
        ([[[1.0], [2.0]]], {"max_size": 1}, "set 0 has 2 elements, more than max_size=1"),
        ([[[1.0], [float("nan")]]], {}, "set 0, element 1 is nan"),
        ([[[1.0, 2.0], [3.0]]], {}, "set 0 is not a list of equally long lists"),
        ([[1.0, 2.0]], {}, r"set 0 must have shape \(n, D\)"),
        ([[[1.0, 2.0]]], {"features": 3}, "2 in set 0 and features=3"),
    ],
)
def test_bad_lists_are_named(sets, options, message):
    with pytest.raises(UserError, match=message):
        Sets.from_list(sets, **options)


def test_text_is_not_numbers():
    with pytest.raises(UserError, match="set 0 is not a list of equally long lists of numbers"):
        Sets.from_list([[["a", "b"]]])
    with pytest.raises(UserError, match="set 0 holds complex128, expected numbers"):
        Sets.from_list([np.array([[1j]])])


def test_permute_changes_order_only():
    sets = Sets.from_list([[[1.0], [2.0]], [[3.0]]], max_size=3)
    order = torch.tensor([[2, 0, 1], [1, 2, 0]])
    moved = sets.permute(order)
    assert moved.elements[0, :, 0].tolist() == [0, 1, 2]
    assert moved.mask.tolist() == [[False, True, True], [False, False, True]]
    assert torch.equal(sets.permute(torch.tensor([2, 0, 1])).elements[1], sets.elements[1][[2, 0, 1]])
    with pytest.raises(ValueError, match="every index from 0 to 2 once"):
        sets.permute(torch.tensor([0, 0, 1]))


def test_soft_masks_are_thresholded_after_clamping():
    sets = Sets(torch.arange(4.0).view(1, 4, 1), torch.tensor([[-3.0, 0.4, 0.6, 7.0]]))
    assert sets.to_list()[0][:, 0].tolist() == [2, 3]
    assert sets.to_list(threshold=0.3)[0][:, 0].tolist() == [1, 2, 3]
    assert sets.sizes.tolist() == [2]


def test_padding_to_a_larger_size_adds_masked_zeros():
    sets = Sets.from_list([[[2.0], [3.0]], [[4.0]]])
    padded = sets.pad_to(4)
    assert padded.elements[..., 0].tolist() == [[2, 3, 0, 0], [4, 0, 0, 0]]
    assert padded.mask.tolist() == [[True, True, False, False], [True, False, False, False]]
    assert sets.pad_to(2) is sets
    with pytest.raises(ValueError, match="cannot pad sets of 2 elements to max_size=1"):
        sets.pad_to(1)


def test_wrong_shapes_and_types_raise():
    with pytest.raises(ValueError, match=r"\(B, N, D\)"):
        Sets(torch.zeros(2, 3), torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"mask must have shape \(B, N\) = \(2, 3\)"):
        Sets(torch.zeros(2, 3, 1), torch.zeros(2, 4))
    with pytest.raises(TypeError, match="bool or floating"):
        Sets(torch.zeros(2, 3, 1), torch.zeros(2, 3, dtype=torch.long))
    with pytest.raises(TypeError, match="floating point"):
        Sets(torch.zeros(2, 3, 1, dtype=torch.long), torch.zeros(2, 3))


def test_moving_keeps_a_bool_mask_bool():
    hard = Sets.from_list([[[1.0]]]).to(torch.float64)
    assert hard.elements.dtype == torch.float64
    assert hard.mask.dtype == torch.bool
    soft = Sets(torch.zeros(1, 1, 1), torch.ones(1, 1)).to(torch.float64)
    assert soft.mask.dtype == torch.float64
    assert Sets.from_list([[[1.0]]]).to("meta").mask.is_meta


def test_indexing_gives_batches():
    sets = Sets.from_list([[[1.0]], [[2.0]], [[3.0]]])
    assert sets[-1].elements.flatten().tolist() == [3]
    assert sets[1].elements.shape == (1, 1, 1)
    assert len(sets[:2]) == 2
    with pytest.raises(IndexError, match="index 3"):
        sets[3]


def test_moving_a_prediction_moves_all_of_its_parts():
    prediction = Prediction(
        torch.zeros(3, 2, 4, 1), torch.ones(3, 2, 4), torch.zeros(3, 2), torch.zeros(2, 2), torch.zeros(2).long()
    )
    moved = prediction.to(torch.float64)
    assert moved.final.elements.dtype == torch.float64
    assert moved.steps_taken is not None
    assert moved.steps_taken.dtype == torch.int64
    assert prediction.steps == 2
    assert prediction.displacement.shape == (3, 2)


def test_displacement_is_the_distance_from_the_initial_set_with_masks():
    elements = torch.tensor([0.0, 3.0]).view(2, 1, 1, 1)
    prediction = Prediction(elements, torch.tensor([1.0, 5.0]).view(2, 1, 1))
    assert prediction.displacement.tolist() == [[0.0], [5.0]]


def test_infinite_masks_are_named():
    sets = Sets(torch.zeros(1, 2, 1), torch.tensor([[0.0, float("inf")]]))
    with pytest.raises(NotFinite, match="the mask of set 0, element 1 is inf"):
        sets.check_finite()


def test_float64_is_kept_where_it_was_given_or_asked_for():
    assert Sets.from_list([[[0.1]]], dtype=torch.float64).elements.item() == 0.1
    assert Sets.from_list([[[0.1]]]).elements.dtype == torch.float32
    assert Sets.from_list([np.array([[0.1]])]).elements.item() == 0.1


@pytest.mark.parametrize("index", [1, np.int64(1), torch.tensor(1), -1])
def test_one_set_by_any_kind_of_index(index):
    sets = Sets.from_list([[[0.1]], [[0.2], [0.3]]])
    assert sets[index].sizes.tolist() == [2]
