"""Augmentation: boxes and points follow the pixels exactly, samples do not depend on their batch, nothing is lost."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from setpredict import Sets, UserError
from setpredict.build import make_task
from setpredict.config import AugmentConfig, DataConfig
from setpredict.data.augment import View, augmented, change_color, crop, draw_view, follow
from setpredict.data.batch import Batch

SIDE = 96


class Rectangles:
    """Images with one bright rectangle each, whose box is known to the pixel."""

    def __len__(self) -> int:
        return 64

    def batch(self, indices: np.ndarray, epoch: int) -> Batch:
        images, boxes = torch.zeros(len(indices), 3, SIDE, SIDE), []
        for image, i in zip(images, indices):
            left, top, width, height = np.random.default_rng(int(i)).integers([10, 10, 20, 20], [40, 40, 45, 45])
            image[:, top : top + height, left : left + width] = 1
            boxes.append([[left / SIDE, top / SIDE, (left + width) / SIDE, (top + height) / SIDE]])
        target = Sets.from_list(np.array(boxes, np.float32))
        centers = torch.zeros(len(indices), 1, 3)
        return Batch(images, target, torch.from_numpy(np.asarray(indices)), centers)


def pictures(batch: Batch) -> torch.Tensor:
    assert isinstance(batch.input, torch.Tensor)
    return batch.input


def bright_box(image: torch.Tensor) -> list[float]:
    rows, columns = (image[0] > 0.5).any(1).nonzero(), (image[0] > 0.5).any(0).nonzero()
    low, high = (columns.min(), rows.min()), (columns.max() + 1, rows.max() + 1)
    return [v.item() / SIDE for v in (*low, *high)]


@pytest.mark.parametrize("flip", ["none", "horizontal", "vertical", "both"])
def test_boxes_follow_the_pixels(flip):
    options = AugmentConfig(flip=flip, zoom=2.0, aspect=0.3, color=0.0)
    split = augmented(Rectangles(), options, "boxes", True, seed=3)
    plain = Rectangles().batch(np.arange(64), 0)
    batch = split.batch(np.arange(64), epoch=1)
    assert batch.centers is not None
    kept = 0
    for i in range(64):
        if not bool(batch.target.mask[i, 0]):
            assert pictures(batch)[i].mean() < pictures(plain)[i].mean(), i  # it has left the image, or nearly so
            continue
        kept += 1
        box = batch.target.elements[i, 0]
        seen = torch.tensor(bright_box(pictures(batch)[i]))
        assert (box - seen).abs().max() <= 1.5 / SIDE, f"sample {i}: box {box.tolist()}, pixels {seen.tolist()}"
        middle = (box[:2] + box[2:]) / 2
        torch.testing.assert_close(batch.centers[i, 0, :2], middle)
        torch.testing.assert_close(batch.centers[i, 0, 2], (box[2:] - box[:2]).prod().sqrt())
    assert kept > 40


def test_points_follow_and_leave():
    target = Sets.from_list([[[0.25, 0.5], [0.9, 0.9]]])
    view = View(torch.tensor([[0.0, 0.25]]), torch.tensor([[0.5, 0.5]]), torch.tensor([[True, False]]))
    moved, centers = follow(target, "points", view)
    assert moved.mask.tolist() == [[True, False]]
    torch.testing.assert_close(moved.elements[0, 0], torch.tensor([0.5, 0.5]))
    assert moved.elements[0, 1].eq(0).all()
    torch.testing.assert_close(centers[0, 0], torch.tensor([0.5, 0.5, 0.0]))


@pytest.mark.parametrize("outside", [False, True])
def test_sets_of_one_size_keep_it(outside: bool):
    class Shifted(Rectangles):
        def batch(self, indices: np.ndarray, epoch: int) -> Batch:
            batch = super().batch(indices, epoch)
            batch.target.elements.sub_(0.5 * outside)  # some are beyond the image already
            return batch

    split = augmented(Shifted(), AugmentConfig(zoom=3.0, color=0.0), "boxes", False, seed=3)
    free = augmented(Shifted(), AugmentConfig(zoom=3.0, color=0.0), "boxes", True, seed=3)
    batch, cropped, plain = (s.batch(np.arange(64), 1) for s in (split, free, Shifted()))
    gone = ~cropped.target.mask.any(dim=1)
    assert batch.target.mask.all()
    assert 5 < gone.sum() < 64
    assert torch.equal(pictures(batch)[~gone], pictures(cropped)[~gone])
    for given, image in zip(pictures(plain)[gone], pictures(batch)[gone]):
        assert min((given - image).abs().max(), (given.flip(2) - image).abs().max()) < 1e-3  # whole, maybe mirrored


def test_categories_stay_and_an_unchanged_view_changes_nothing():
    generator = torch.Generator().manual_seed(0)
    elements = torch.rand(2, 3, 6, generator=generator)
    elements[..., 2:4] += elements[..., :2]
    target = Sets(elements.clamp(0, 1), torch.ones(2, 3, dtype=torch.bool))
    whole = View(torch.zeros(2, 2), torch.ones(2, 2), torch.zeros(2, 2, dtype=torch.bool))
    moved, _ = follow(target, "boxes", whole)
    torch.testing.assert_close(moved.elements, target.elements)
    images = torch.rand(2, 3, 8, 8, generator=generator)
    torch.testing.assert_close(crop(images, whole), images)


def test_a_sample_is_a_function_of_seed_epoch_and_index():
    split = augmented(Rectangles(), AugmentConfig(), "boxes", True, seed=0)
    together, alone = split.batch(np.array([5, 9]), 2), split.batch(np.array([9]), 2)
    torch.testing.assert_close(pictures(together)[1], pictures(alone)[0])
    assert torch.equal(together.target.elements[1], alone.target.elements[0])
    reseeded = augmented(Rectangles(), AugmentConfig(), "boxes", True, seed=1)
    for other in (split.batch(np.array([9]), 3), reseeded.batch(np.array([9]), 2)):
        assert not torch.equal(pictures(other), pictures(alone))


def test_windows_are_within_the_zoom_and_the_image():
    numbers = torch.rand(1000, 7, generator=torch.Generator().manual_seed(0))
    view = draw_view(numbers, AugmentConfig(flip="none", zoom=2.0, aspect=0.0))
    assert view.size.min() >= 0.5 - 1e-6
    assert view.size.max() <= 2**0.5 + 1e-6
    small = view.size[:, 0] <= 1
    assert (view.corner[small] >= -1e-6).all()
    assert (view.corner[small] + view.size[small] <= 1 + 1e-6).all()
    assert not view.flip.any()


def test_colors_stay_in_range_and_gray_stays_gray():
    images = torch.rand(50, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    numbers = torch.rand(50, 5, generator=torch.Generator().manual_seed(1))
    changed = change_color(images, numbers, 0.5)
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert not torch.allclose(changed, images)
    assert torch.equal(change_color(images, numbers, 0.0), images)


def test_only_training_images_change(tmp_path):
    (tmp_path / "images").mkdir()
    for i in range(6):
        pixels = np.random.default_rng(i).integers(0, 255, (20, 20, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{i}.png")
    content = {
        "images": [{"id": i, "file_name": f"{i}.png", "width": 20, "height": 20} for i in range(6)],
        "annotations": [{"image_id": i, "category_id": 1, "bbox": [5, 5, 10, 10]} for i in range(6)],
        "categories": [{"id": 1, "name": "a"}],
    }
    (tmp_path / "train.json").write_text(json.dumps(content))
    data = DataConfig("coco", folder=str(tmp_path / "train.json"), size=32)
    plain, changed = make_task(replace(data, augmented=False)), make_task(data)
    for split in ("val", "test"):
        a, b = (pictures(task.split(split).batch(np.array([0]), 1)) for task in (plain, changed))
        assert torch.equal(a, b), split
    a, b = (pictures(task.train.batch(np.array([0]), 1)) for task in (plain, changed))
    assert not torch.equal(a, b)
    with pytest.raises(UserError, match="needs zoom from 1"):
        make_task(replace(data, augment=AugmentConfig(zoom=0.5)))
    with pytest.raises(UserError, match="needs zoom from 1"):
        make_task(replace(data, augment=AugmentConfig(zoom=float("inf"))))
    with pytest.raises(UserError, match="augmentation is for images, and multisets has sets"):
        make_task(DataConfig("multisets", augmented=True))
