"""Predictions in files that other programs read: COCO's results format, and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from setpredict.core.errors import UserError
from setpredict.core.files import write_text
from setpredict.data.io.coco_files import annotation_files
from setpredict.data.locate import annotation_file
from setpredict.data.sources.coco import read_ids
from setpredict.data.task import SetTask
from setpredict.runs.loaded import LoadedRun
from setpredict.runs.predict import Answer


@dataclass
class CocoIds:
    """The ids of images and categories in results: those of annotation files, or numbers from 1."""

    images: dict[str, Any] = field(default_factory=dict)
    """By file name, and by the part of the path that the annotations name."""
    categories: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    """The annotation files."""
    new: dict[str, int] = field(default_factory=dict)
    """Numbers of images that no annotation file has, by path."""
    used: dict[Any, Path] = field(default_factory=dict)
    """Which image each id was given for."""

    def image(self, name: str) -> Any:
        """The id of an image file; a new number if no annotation file has it."""
        path = Path(name)
        parts = (path.as_posix(), *("/".join(path.parts[k:]) for k in range(len(path.parts))))
        known = next((part for part in parts if part in self.images), None)
        if known is None:
            return self.new.setdefault(path.as_posix(), self._largest + len(self.new) + 1)
        number = self.images[known]
        before = self.used.setdefault(number, path)
        if before.resolve() != path.resolve():
            raise UserError(
                f"{before} and {path} both have the id {number} in {self.source}: predict only the images of one "
                "annotation file, and name that file with --annotations"
            )
        return number

    @cached_property
    def _largest(self) -> int:
        """The largest number among the ids of the annotation files."""
        return max((i for i in self.images.values() if isinstance(i, int)), default=0)


def find_ids(run: LoadedRun, annotations: Path | None) -> CocoIds:
    """The ids in an annotation file, or in those that the run was trained with, where they are still there."""
    names = run.task.categories[next(iter(run.task.groups))] if run.task.groups else ()
    ids = CocoIds(categories={name: number for number, name in enumerate(names, start=1)})
    files = [annotations] if annotations else _own_annotations(run)
    for file in files:
        images, categories = read_ids(file)
        ids.images |= images
        known = {name: number for number, name in categories.items()}
        if names and annotations and (missing := [n for n in names if n not in known]):
            raise UserError(
                f"{file} has no category {missing[0]!r}, which the model predicts; it has {', '.join(known)}"
            )
        ids.categories |= {name: known[name] for name in names if name in known}
        if not names and known:
            ids.categories[""] = next(iter(known.values()))
    ids.source = ", ".join(map(str, files))
    return ids


def _own_annotations(run: LoadedRun) -> list[Path]:
    if run.folder is None or run.experiment.data.folder is None:
        return []
    place = annotation_file(Path(run.experiment.data.folder))
    return [] if place is None else [file for file in annotation_files(place) if file is not None]


def write_coco(path: Path, answers: Sequence[Answer], task: SetTask, ids: CocoIds) -> None:
    """Write boxes in COCO's results format: a list of image_id, category_id, bbox (x, y, width, height) and score."""
    write_text(path, json.dumps(coco_results(answers, task, ids)) + "\n")


def coco_results(answers: Sequence[Answer], task: SetTask, ids: CocoIds) -> list[dict[str, Any]]:
    """One record per box; coordinates are pixels of the image."""
    check_boxes(task, "--coco")
    records = []
    for answer in answers:
        image = ids.image(answer.input)
        extra = {"file_name": answer.input} if Path(answer.input).as_posix() in ids.new else {}
        assert answer.places is not None
        for i, (left, top, right, bottom) in enumerate(answer.places.tolist()):
            name = next(iter(answer.fields[i].categories.values()), "")
            records.append(
                {
                    "image_id": image,
                    "category_id": ids.categories.get(name, 1),
                    "bbox": [round(v, 3) for v in (left, top, max(right - left, 0.0), max(bottom - top, 0.0))],
                    "score": round(float(answer.scores[i]), 6),
                    **extra,
                }
            )
    return records


def check_boxes(task: SetTask, option: str) -> None:
    """Raise if elements are not boxes in images."""
    if task.kind != "boxes" or task.input_kind != "image":
        raise UserError(f"{option} is for boxes in images, but this model predicts {task.kind} for {task.input_kind}s")


def write_csv(path: Path, answers: Sequence[Answer], task: SetTask) -> None:
    """Write one line per element: the input, the score, and numbers and categories by name."""
    names = [task.feature_names[i] for i in task.numbers] + list(task.spoken or task.groups)
    decimals = {task.feature_names[i]: places for i, places in zip(task.numbers, task.decimals)}
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["input", "score", *names])
    for answer in answers:
        for i in range(len(answer)):
            values = answer.fields[i].numbers | answer.fields[i].categories
            cells = [_cell(values[name], decimals.get(name, 0)) for name in names]
            writer.writerow([answer.input, f"{float(answer.scores[i]):.4f}", *cells])
    write_text(path, text.getvalue())


def _cell(value: float | str, decimals: int) -> str:
    """Text, or a number with six more decimals than tell its values apart, also where it is large: a time, say."""
    return value if isinstance(value, str) else f"{round(value, decimals + 6):.15g}"
