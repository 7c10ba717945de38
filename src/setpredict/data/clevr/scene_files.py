"""CLEVR's scene files as flat arrays: parsed once, validated field by field."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from setpredict.core.errors import UserError
from setpredict.core.files import read_json
from setpredict.core.paths import cache_folder, fingerprint
from setpredict.core.progress import track
from setpredict.data.clevr.states import ATTRIBUTES
from setpredict.data.io.cache import cached
from setpredict.data.io.json_text import FINITE, is_number, short


@dataclass(eq=False)
class SceneTable:
    """S scenes with M objects in total; the objects of scene s are the rows offsets[s] to offsets[s + 1] - 1."""

    offsets: np.ndarray  # (S + 1,)
    coords: np.ndarray  # (M, 3), 3d_coords
    pixels: np.ndarray  # (M, 3), column and row in the 480×320 image, and depth
    rotation: np.ndarray  # (M,), as in the file
    attributes: np.ndarray  # (M, 4), indices into ATTRIBUTES
    right: np.ndarray  # (S, 2), the direction on the ground that is right in the image
    image: np.ndarray  # (S,), file names

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def rows(self, scene: int) -> slice:
        return slice(int(self.offsets[scene]), int(self.offsets[scene + 1]))

    @property
    def scene_of_object(self) -> np.ndarray:  # (M,)
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def select(self, scenes: np.ndarray) -> SceneTable:
        """A table of these scenes, in this order."""
        sizes = np.diff(self.offsets)[scenes]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(self.offsets[:-1][scenes] - offsets[:-1], sizes) + np.arange(offsets[-1])
        objects = (self.coords[rows], self.pixels[rows], self.rotation[rows], self.attributes[rows])
        return SceneTable(offsets, *objects, self.right[scenes], self.image[scenes])


def read_scenes(path: Path) -> SceneTable:
    """The scenes of a CLEVR file, from the cache if the file is unchanged since it was parsed."""
    if not path.exists():
        raise UserError(f"{path} not found: CLEVR has one scene file per split there")
    parsed = cache_folder() / "clevr" / f"scenes-{path.stem}-{fingerprint([path], 'v1')}.npz"
    return cached(parsed, lambda temporary: _write_table(temporary, parse_scenes(path)), _read_table)


def _write_table(path: Path, table: SceneTable) -> None:
    with open(path, "wb") as file:
        np.savez(file, **{f.name: getattr(table, f.name) for f in fields(table)})


def _read_table(path: Path) -> SceneTable:
    with open(path, "rb") as file, np.load(file) as arrays:
        return SceneTable(**arrays)


def parse_scenes(path: Path) -> SceneTable:
    """Parse and validate a CLEVR scene file; errors name the file, the scene, the object and the field."""
    content = read_json(path, most=None)
    scenes = content.get("scenes") if isinstance(content, dict) else None
    if not isinstance(scenes, list):
        raise UserError(f"{path} has no list 'scenes'")
    offsets, coords, pixels, rotation, attributes, right, image = [0], [], [], [], [], [], []
    for i, scene in enumerate(track(scenes, f"Reading {path.name}")):
        where = f"{path}, scene {i}"
        image.append(str(_field(scene, "image_filename", where)))
        directions = _field(scene, "directions", where)
        right.append(_numbers(_field(directions, "right", f"{where}, directions"), 3, f"{where}, directions.right")[:2])
        objects = _field(scene, "objects", where)
        if not isinstance(objects, list):
            raise UserError(f"{where}: objects must be a list, got {short(objects)}")
        for j, o in enumerate(objects):
            here = f"{where}, object {j}"
            coords.append(_numbers(_field(o, "3d_coords", here), 3, f"{here}, 3d_coords"))
            pixels.append(_numbers(_field(o, "pixel_coords", here), 3, f"{here}, pixel_coords"))
            rotation.extend(_numbers([_field(o, "rotation", here)], 1, f"{here}, rotation"))
            attributes.append([_category(o, name, here) for name in ATTRIBUTES])
        offsets.append(len(coords))
    return SceneTable(
        np.array(offsets),
        np.array(coords, np.float64).reshape(-1, 3),
        np.array(pixels, np.float64).reshape(-1, 3),
        np.array(rotation, np.float64),
        np.array(attributes, np.uint8).reshape(-1, len(ATTRIBUTES)),
        np.array(right, np.float64).reshape(-1, 2),
        np.array(image, dtype=np.str_),
    )


def _field(record: Any, name: str, where: str) -> Any:
    if not isinstance(record, dict) or name not in record:
        raise UserError(f"{where}: field {name!r} is missing")
    return record[name]


def _numbers(value: Any, count: int, where: str) -> list[float]:
    if not isinstance(value, list) or len(value) != count or not all(is_number(v) for v in value):
        raise UserError(f"{where}: expected {FINITE} ({count} of them), got {short(value)}")
    return value


def _category(record: Any, name: str, where: str) -> int:
    value = _field(record, name, where)
    if value not in ATTRIBUTES[name]:
        raise UserError(f"{where}: {name} {value!r} is unknown; expected one of {', '.join(ATTRIBUTES[name])}")
    return ATTRIBUTES[name].index(value)
