"""Right and wrong elements and attributes of a prediction."""

from typing import NamedTuple

import numpy as np
import pytest
import torch

from setpredict.data.clevr.states import ATTRIBUTES, encode_states
from setpredict.data.sources.scenes import scenes
from setpredict.data.task import SetTask
from setpredict.report.tables.judged import columns, judge_boxes, judge_objects, true_objects
from setpredict.sets import Sets
from tests.report.trajectories import batch_of


class StateObject(NamedTuple):
    position: tuple[float, float, float]
    material: str
    color: str
    shape: str
    size: str


RED_CUBE = StateObject((1.0, 2.0, 0.7), "metal", "red", "cube", "large")
BALL = StateObject((-2.0, 0.0, 0.35), "rubber", "blue", "sphere", "small")


@pytest.fixture
def state_task() -> SetTask:
    return scenes("state", max_objects=3, states_only=True)


def sets(*objects: StateObject, masks: list[float] | None = None) -> Sets:
    positions = np.array([o.position for o in objects])
    attributes = np.array([[ATTRIBUTES[name].index(getattr(o, name)) for name in ATTRIBUTES] for o in objects])
    elements = torch.from_numpy(encode_states(positions, attributes))[None]
    mask = torch.ones(1, len(objects)).bool() if masks is None else torch.tensor([masks])
    return Sets(elements, mask)


def test_attributes_are_in_the_order_of_the_task(state_task: SetTask):
    assert columns(state_task) == ["x, y, z", "size", "color", "material", "shape"]


def test_a_perfect_prediction_in_another_order_has_nothing_wrong(state_task: SetTask):
    rows = judge_objects(state_task, sets(BALL, RED_CUBE, masks=[1.0, 1.0]), sets(RED_CUBE, BALL), 0)
    assert [row.right for row in rows] == [True, True]
    assert [row.element for row in rows] == [1, 0]
    assert [c.text for c in rows[0].cells] == ["1.00, 2.00, 0.70", "large", "red", "metal", "cube"]


def test_wrong_attributes_are_found_one_by_one(state_task: SetTask):
    predicted = StateObject((1.1, 2.0, 0.7), "metal", "green", "cube", "small")
    (row,) = judge_objects(state_task, sets(predicted, masks=[0.9]), sets(RED_CUBE), 0)
    assert [c.wrong for c in row.cells] == [False, True, True, False, False]
    assert row.present
    assert not row.right


@pytest.mark.parametrize(("off", "wrong"), [(0.49, False), (0.51, True)])
def test_a_position_is_right_within_half_a_unit(state_task: SetTask, off: float, wrong: bool):
    predicted = StateObject((1.0 + off, 2.0, 0.7), "metal", "red", "cube", "large")
    (row,) = judge_objects(state_task, sets(predicted, masks=[1.0]), sets(RED_CUBE), 0)
    assert row.cells[0].wrong is wrong


def test_missed_objects_stay_in_the_table_and_surplus_ones_come_last(state_task: SetTask):
    rows = judge_objects(state_task, sets(RED_CUBE, BALL, masks=[0.1, 0.9]), sets(RED_CUBE), 0)
    assert [(r.target, r.present, r.right) for r in rows] == [(0, False, False), (None, True, False)]
    assert all(c.wrong for c in rows[1].cells)


def test_an_empty_target_and_an_empty_prediction(state_task: SetTask):
    nothing = Sets(torch.zeros(1, 2, 18), torch.zeros(1, 2).bool())
    assert true_objects(state_task, nothing, 0) == []
    assert judge_objects(state_task, Sets(torch.zeros(1, 2, 18), torch.zeros(1, 2)), nothing, 0) == []
    assert len(judge_objects(state_task, sets(BALL, masks=[0.8]), nothing, 0)) == 1


def test_the_target_itself_is_right(task: SetTask):
    if not task.groups:
        pytest.skip("elements without categories")
    target = batch_of(task).target
    for sample in range(len(target)):
        rows = judge_objects(task, Sets(target.elements, target.mask.float()), target, sample)
        assert [row.right for row in rows] == [True] * int(target.sizes[sample])


def test_each_true_box_is_matched_once_with_the_surest():
    target = Sets(torch.tensor([[[0.0, 0.0, 0.5, 0.5]]]), torch.ones(1, 1).bool())
    boxes = torch.tensor([[[0.0, 0.0, 0.5, 0.45], [0.0, 0.0, 0.5, 0.5], [0.6, 0.6, 1.0, 1.0], [0.0, 0.0, 0.5, 0.5]]])
    predicted = Sets(boxes, torch.tensor([[0.6, 0.9, 0.8, 0.2]]))
    assert judge_boxes(predicted, target, 0) == [False, True, False, False]
    assert judge_boxes(predicted, Sets(boxes[:, :1], torch.zeros(1, 1).bool()), 0) == [False] * 4


def test_a_box_of_another_category_is_wrong():
    box = [0.1, 0.1, 0.5, 0.5]
    target = Sets.from_list([[[*box, 0.0, 1.0]]])
    predicted = Sets(torch.tensor([[[*box, 0.9, 0.1], [*box, 0.2, 0.8]]]), torch.tensor([[0.9, 0.8]]))
    assert judge_boxes(predicted, target, 0) == [True, False]
    assert judge_boxes(predicted, target, 0, {"category": (4, 6)}) == [False, True]
