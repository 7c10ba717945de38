"""Generated scenes as COCO annotations: the bounding box of every object, with its shape as the category."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from setpredict.data.clevr.boxes import SHAPE, exact_boxes
from setpredict.data.clevr.camera import HEIGHT, WIDTH
from setpredict.data.clevr.states import ATTRIBUTES
from setpredict.data.render.sampler import SampledScene, scene_table

CATEGORIES = [{"id": i, "name": name} for i, name in enumerate(ATTRIBUTES["shape"], start=1)]


def coco_width(height: int) -> int:
    """The width of an image of this height, in the proportions of CLEVR's images.

    >>> coco_width(128)
    192
    """
    return round(height * WIDTH / HEIGHT)


def coco_record(scene: SampledScene, name: str, width: int, height: int) -> dict[str, Any]:
    """An image with its annotations, still without ids."""
    boxes = exact_boxes(scene_table([scene]), scene.camera[None]) * (width, height, width, height)  # (n, 4)
    annotations = []
    for (left, top, right, bottom), shape in zip(boxes.tolist(), scene.attributes[:, SHAPE].tolist()):
        box = [round(v, 2) for v in (left, top, right - left, bottom - top)]
        annotations.append({"category_id": CATEGORIES[shape]["id"], "bbox": box, "area": round(box[2] * box[3], 2)})
    return {"file_name": name, "width": width, "height": height, "annotations": annotations}


def coco_annotations(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The records of a split as the content of an annotation file; ids count from 1."""
    images, annotations = [], []
    for number, record in enumerate(records, start=1):
        images.append({"id": number, **{k: v for k, v in record.items() if k != "annotations"}})
        for annotation in record["annotations"]:
            annotations.append({"id": len(annotations) + 1, "image_id": number, **annotation, "iscrowd": 0})
    return {"images": images, "annotations": annotations, "categories": CATEGORIES}
