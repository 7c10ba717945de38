"""The dense head: its targets invert to the set, its loss is its formula, its proposals are the best cells."""

import math

import pytest
import torch
import torch.nn.functional as F

from setpredict import DecoderConfig, EncoderConfig, GradientDescent, InputConfig, ModelConfig, SetPredictor, Sets
from setpredict.encoders.images.dense import (
    DenseHead,
    DenseOutput,
    ElementLayout,
    assign_cells,
    cell_centers,
)


def places(target: Sets, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    if kind == "box":
        low, high = target.elements[..., :2], target.elements[..., 2:4]
        return (low + high) / 2, (high - low).prod(dim=-1).sqrt()
    return target.elements[..., :2], torch.zeros(target.mask.shape)


def perfect(layout: ElementLayout, target: Sets, h: int, w: int) -> DenseOutput:
    """The output that says exactly where each element is and what it is, written by hand."""
    logits = torch.full((len(target), h, w), -12.0)
    values, offsets = torch.zeros(len(target), h, w, layout.features), torch.zeros(len(target), h, w, 2)
    for b, elements in enumerate(target.to_list()):
        for element in elements:
            box = layout.place == "box"
            x, y = ((element[:2] + element[2:4]) / 2 if box else element[:2]).tolist()
            row, column = int(y * h), int(x * w)
            logits[b, row, column] = 12.0
            cell = values[b, row, column]
            offsets[b, row, column] = torch.tensor([x * w - column - 0.5, y * h - row - 0.5])
            if box:
                cell[2:4] = ((element[2:4] - element[:2]) * torch.tensor([w, h])).log()
            at = 4 if box else 2
            cell[at:] = element[at:]
            for start, stop in layout.groups:
                cell[start:stop] = 40 * element[start:stop]
    return DenseOutput(logits, offsets, values)


LAYOUTS = [
    ElementLayout(4, "box"),
    ElementLayout(7, "box", ((4, 7),)),
    ElementLayout(2, "point"),
    ElementLayout(6, "point", ((3, 6),)),
]


def example(layout: ElementLayout) -> Sets:
    generator = torch.Generator().manual_seed(0)
    sets = []
    for centers in ([(0.1, 0.2), (0.8, 0.4), (0.45, 0.93)], [(0.55, 0.5)], []):
        elements = torch.zeros(len(centers), layout.features)
        for element, (x, y) in zip(elements, centers):
            size = 0.05 + 0.05 * torch.rand(2, generator=generator)
            place = [x - size[0], y - size[1], x + size[0], y + size[1]] if layout.place == "box" else [x, y]
            element[: len(place)] = torch.tensor(place)
            element[len(place) :] = torch.rand(layout.features - len(place), generator=generator)
            for start, stop in layout.groups:
                element[start:stop] = F.one_hot(torch.randint(stop - start, (), generator=generator), stop - start)
        sets.append(elements)
    return Sets.from_list(sets, max_size=4, features=layout.features)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_targets_invert_to_the_set(layout):
    target, head = example(layout), DenseHead(3, layout)
    output = perfect(layout, target, 6, 9)
    found = head.proposals(output, 4)
    assert found.sizes.tolist() == target.sizes.tolist()
    for got, wanted in zip(found.to_list(), target.to_list()):
        order, expected = got[:, 0].argsort(), wanted[:, 0].argsort()
        torch.testing.assert_close(got[order], wanted[expected], atol=1e-4, rtol=0)
    loss = head.loss(output, target, *places(target, layout.place))
    assert loss.max() < 1e-3, loss


def test_the_loss_is_its_formula():
    """One image, two boxes: presence by the focal loss, places in cells and log sizes by Huber, kinds by entropy."""
    torch.manual_seed(0)
    layout = ElementLayout(6, "box", ((4, 6),))
    target = Sets.from_list([[[0.1, 0.1, 0.3, 0.4, 1.0, 0.0], [0.5, 0.6, 0.9, 0.8, 0.0, 1.0]]])
    logits, offsets, values, h, w = torch.randn(1, 4, 5), torch.randn(1, 4, 5, 2), torch.randn(1, 4, 5, 6), 4, 5
    centers, sizes = places(target, "box")
    total, p = torch.zeros(()), logits[0].sigmoid()
    occupied = {(1, 1): 0, (2, 3): 1}  # (row, column) → element
    for row in range(h):
        for column in range(w):
            if (row, column) in occupied:
                total -= p[row, column].log()
            else:
                total -= (1 - p[row, column]).log()
    for (row, column), i in occupied.items():
        left, top, right, bottom, *_ = target.elements[0, i].tolist()
        x, y = (left + right) / 2 * w - column - 0.5, (top + bottom) / 2 * h - row - 0.5
        wanted = torch.tensor([x, y, math.log((right - left) * w), math.log((bottom - top) * h)])
        cell = values[0, row, column]
        said = torch.cat([offsets[0, row, column], cell[2:4]])
        total += F.smooth_l1_loss(said, wanted, beta=0.1, reduction="sum")
        total += F.cross_entropy(cell[None, 4:], torch.tensor([i]))
    got = DenseHead(3, layout).loss(DenseOutput(logits, offsets, values), target, centers, sizes)
    torch.testing.assert_close(got, (total / 2).reshape(1))


def test_of_two_elements_in_a_cell_the_larger_counts():
    centers = torch.tensor([[[0.1, 0.1], [0.15, 0.1], [0.2, 0.2], [0.9, 0.9]]])
    mask = torch.tensor([[True, True, False, True]])
    found = assign_cells(mask, centers, torch.tensor([[0.2, 0.3, 0.9, 0.1]]), 2, 2)
    assert found.element.tolist() == [1, 3]
    ties = assign_cells(mask, centers, torch.ones(1, 4), 2, 2)
    assert ties.element.tolist() == [0, 3]


def test_no_image_depends_on_its_batch():
    torch.manual_seed(0)
    layout = LAYOUTS[1]
    target, head = example(layout), DenseHead(3, layout)
    output = head(torch.randn(3, 3, 6, 6))
    centers, sizes = places(target, "box")
    together = head.loss(output, target, centers, sizes)
    for i in range(3):
        part = DenseOutput(*(x[[i]] for x in output))
        alone = head.loss(part, target[i], centers[[i]], sizes[[i]])
        torch.testing.assert_close(alone, together[[i]], msg=lambda m, i=i: f"image {i}: {m}")


def test_cells_that_mean_the_same_object_are_one_proposal():
    head = DenseHead(3, ElementLayout(2, "point"))
    logits, offsets = torch.full((1, 5, 5), -3.0), torch.zeros(1, 5, 5, 2)
    logits[0, 1, 1], logits[0, 1, 2], logits[0, 2, 1], logits[0, 4, 4] = 0.1, -0.5, 2.0, 1.0
    offsets[0, 1, 2, 0] = -0.7  # this cell claims nearly the place of its neighbor; the one below does not
    offsets.requires_grad_()
    found = head.proposals(DenseOutput(logits.requires_grad_(), offsets, torch.zeros(1, 5, 5, 2)), 30)
    assert found.elements.shape == (1, 30, 2)
    kept = found.elements[0][found.mask[0] > 0.5]
    grid = cell_centers(5, 5, like=logits)
    torch.testing.assert_close(kept, torch.stack([grid[1, 1], grid[2, 1], grid[4, 4]]))
    presence = logits.sigmoid()[0]
    expected = torch.stack([presence[1, 1] + presence[1, 2], presence[2, 1], presence[4, 4]])
    torch.testing.assert_close(found.mask[0][:3], expected)
    found.elements.sum().backward(retain_graph=True)
    assert offsets.grad is not None
    assert offsets.grad[0, 1, 1].ne(0).all()
    found.mask.sum().backward()
    assert logits.grad is not None
    assert logits.grad[0, 1, 1] > 0
    assert logits.grad[0, 1, 2] > 0


def test_of_overlapping_boxes_the_surest_stays():
    layout = ElementLayout(4, "box")
    target = Sets.from_list([[[0.1, 0.1, 0.5, 0.5], [0.45, 0.45, 0.95, 0.95]]])
    output = perfect(layout, target, 8, 8)
    row, column = 2, 3  # beside the first box's cell (2, 2), with nearly the same box
    output.logits[0, row, column] = 5.0
    output.offsets[0, row, column] = torch.tensor([-0.9, 0.0])
    output.values[0, row, column, 2:4] = torch.tensor([3.2, 3.2]).log()
    found = DenseHead(3, layout).proposals(output, 6)
    assert found.sizes.tolist() == [2]


@pytest.mark.parametrize("place", ["point", "box"])
def test_proposals_are_in_full_precision_under_autocast(place):
    """DSPN descends from them, and half precision has 1/256 of the image as its unit."""
    config = ModelConfig(
        5, 4 if place == "box" else 2, input=InputConfig("conv", 32, widths=(8, 16), dense=True),
        encoder=EncoderConfig(hidden=(8,)), elements="boxes" if place == "box" else "points",
        decoder=DecoderConfig(solver=GradientDescent(steps=2), initial="dense"),
    )  # fmt: skip
    model = SetPredictor.from_config(config)
    with torch.autocast("cpu", torch.bfloat16):
        code, prediction = model.encode(torch.rand(2, 3, 32, 32)), model(torch.rand(2, 3, 32, 32))
    assert code.proposals is not None
    assert code.proposals.elements.dtype == prediction.elements.dtype == torch.float32


def test_an_image_without_elements_has_a_presence_loss_only():
    head, target = DenseHead(3, ElementLayout(4, "box")), Sets.from_list([[], []], max_size=2, features=4)
    torch.manual_seed(0)
    output = head(torch.randn(2, 3, 4, 4))
    loss = head.loss(output, target, *places(target, "box"))
    p = output.logits.sigmoid()
    torch.testing.assert_close(loss, -(1 - p).log().sum(dim=(1, 2)))


def test_states_have_their_numbers_as_they_are():
    layout = ElementLayout(5, "none", ((3, 5),))
    values = torch.randn(1, 2, 2, 5)
    elements = DenseHead(3, layout).elements(DenseOutput(torch.zeros(1, 2, 2), torch.zeros(1, 2, 2, 2), values))
    assert torch.equal(elements[..., :3], values[..., :3])
    torch.testing.assert_close(elements[..., 3:], values[..., 3:].softmax(-1))


@pytest.mark.parametrize("side", [8, 64, 100])
def test_a_box_as_large_as_the_image_is_proposed(side):
    layout = ElementLayout(4, "box")
    target = Sets.from_list([[[0.0, 0.0, 1.0, 1.0]]])
    found = DenseHead(3, layout).proposals(perfect(layout, target, side, side), 1)
    torch.testing.assert_close(found.elements, target.elements, rtol=0, atol=1e-5)


def test_the_most_certain_cell_comes_first():
    """Also where both are certain: their probabilities are 1 in float32."""
    layout = ElementLayout(2, "point")
    output = perfect(layout, Sets.from_list([[[0.1, 0.1], [0.9, 0.9]]]), 8, 8)
    output.logits[0, 7, 7], output.logits[0, 0, 0] = 30.0, 20.0
    found = DenseHead(3, layout).proposals(output, 2)
    assert found.mask.tolist() == [[1.0, 1.0]]
    torch.testing.assert_close(found.elements[0, 0], torch.tensor([0.9, 0.9]))
