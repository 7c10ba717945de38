"""Write generated scenes in CLEVR's or COCO's layout: in parallel, resumable, the same bytes for any number of workers.

Scenes are made in chunks. The images of a chunk are written first, then a file with its scenes, which marks the chunk
as done. At the end these files are merged into one file per split.
"""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from setpredict.config import SceneOptions
from setpredict.core.errors import UserError
from setpredict.core.files import atomic, read_json, write_text
from setpredict.core.paths import build_lock
from setpredict.core.progress import progress
from setpredict.data.clevr.camera import RIGHT
from setpredict.data.clevr.states import ATTRIBUTES
from setpredict.data.render.coco_records import coco_annotations, coco_record, coco_width
from setpredict.data.render.sampler import SampledScene, check_counts, check_side, sample_scene
from setpredict.data.render.tracer import render

CHUNK = 64
MOST_SCENES, MOST_WORKERS = 10_000_000, 256
VERSION = 1
"""Of sampler and renderer: a folder begun by another version cannot be resumed."""
CLOSE = 0.2
"""CLEVR counts an object as left of another only if it is farther left by more than this."""

_right = np.array([*RIGHT, 0.0])
_front = np.array([RIGHT[1], -RIGHT[0], 0.0])
DIRECTIONS = {
    "right": _right,
    "behind": -_front,
    "above": np.array([0.0, 0.0, 1.0]),
    "below": np.array([0.0, 0.0, -1.0]),
    "left": -_right,
    "front": _front,
}


def write_scenes(options: SceneOptions) -> Path:
    """Generate the scenes that are still missing in `options.out`; returns the folder."""
    _check_options(options)
    out = Path(options.out)
    note = out / "generator.json"
    if note.exists():
        _check_begun(options, note)
        if not (out / "parts").exists() and all(_final(options, split).exists() for split in ("train", "val")):
            return out  # nothing is missing; the folder may be read-only
    with build_lock(note):
        _begin_or_resume(options, note)
        for split, count in (("train", options.train), ("val", options.val)):
            _write_split(options, out, split, count)
        shutil.rmtree(out / "parts", ignore_errors=True)
    return out


def _final(options: SceneOptions, split: str) -> Path:
    """The file that is written when a split is complete."""
    out = Path(options.out)
    return out / f"{split}.json" if options.coco else out / "scenes" / f"CLEVR_{split}_scenes.json"


def _check_options(options: SceneOptions) -> None:
    for name, most in (("train", MOST_SCENES), ("val", MOST_SCENES), ("workers", MOST_WORKERS), ("seed", None)):
        value = getattr(options, name)
        if value < 0:
            raise UserError(f"{name} must be at least 0, got {value}")
        if most is not None and value > most:
            raise UserError(f"{name} must be at most {most}, got {value}")
    check_side(options.size)
    check_counts(options.min_objects, options.max_objects)
    if options.coco and options.states_only:
        raise UserError("COCO annotations are about images: leave out states_only")
    if Path(options.out).exists() and not Path(options.out).is_dir():
        raise UserError(f"{options.out} is a file, expected a folder")


def _begin_or_resume(options: SceneOptions, note: Path) -> None:
    """Save the options, or raise if the folder was begun with other ones."""
    if note.exists():
        _check_begun(options, note)
    else:
        others = [p.name for p in note.parent.iterdir() if p.name != f".{note.name}.lock"]
        if others:
            raise UserError(f"{note.parent} is not empty ({others[0]}) and was not begun by this command")
        write_text(note, json.dumps(_noted(options), indent=1))
    for leftover in note.parent.rglob(".*.tmp"):  # of a killed process; we hold the lock
        leftover.unlink(missing_ok=True)


def _check_begun(options: SceneOptions, note: Path) -> None:
    """Raise if the folder was begun with other options."""
    begun = read_json(note)
    if not isinstance(begun, dict):
        raise UserError(f"{note} does not contain the options of {note.parent}; use another folder")
    begun = {"coco": False} | begun  # folders of older versions
    for name, value in _noted(options).items():
        if begun.get(name) != value:
            raise UserError(f"{note.parent} was begun with {name} {begun.get(name)}, not {value}; use another folder")


def _noted(options: SceneOptions) -> dict[str, Any]:
    """The options that decide about the scenes."""
    return {k: v for k, v in asdict(options).items() if k not in ("out", "workers")} | {"version": VERSION}


def _write_split(options: SceneOptions, out: Path, split: str, count: int) -> None:
    final = _final(options, split)
    if final.exists():
        return
    images = out / "images" if options.coco else out / "images" / split
    images.mkdir(parents=True, exist_ok=True)
    chunks = [range(begin, min(begin + CHUNK, count)) for begin in range(0, count, CHUNK)]
    parts = {chunk.start: out / "parts" / f"{split}-{chunk.start:06d}.json" for chunk in chunks}
    todo = [chunk for chunk in chunks if not parts[chunk.start].exists()]
    done = count - sum(len(chunk) for chunk in todo)
    # The kernels and Pillow release the GIL, so threads use all cores.
    pool = ThreadPoolExecutor(options.workers or os.cpu_count() or 1)
    try:
        with progress(f"Generating {split} scenes", count, done) as advance:
            futures = [pool.submit(_write_chunk, options, images, split, c, parts[c.start], advance) for c in todo]
            for future in as_completed(futures):
                future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    scenes = [scene for chunk in chunks for scene in read_json(parts[chunk.start], most=None)]
    info = {"split": split, "version": "setpredict", "note": "generated by setpredict scenes; not CLEVR"}
    content = coco_annotations(scenes) if options.coco else {"scenes": scenes}
    write_text(final, json.dumps({"info": info, **content}))


def _write_chunk(options: SceneOptions, images: Path, split: str, chunk: range, part: Path, advance) -> None:
    records = []
    for index in chunk:
        scene = sample_scene(options.seed, split, index, 0, options.min_objects, options.max_objects)
        name = f"{split}_{index:06d}.png" if options.coco else f"CLEVR_{split}_{index:06d}.png"
        width, height = coco_width(options.size) if options.coco else options.size, options.size
        if not options.states_only:
            with atomic(images / name) as temporary:
                Image.fromarray(render(scene.view, width, height)).save(temporary, "PNG", compress_level=6)
        record = coco_record(scene, name, width, height) if options.coco else scene_record(scene, split, index, name)
        records.append(record)
        advance(1)
    write_text(part, json.dumps(records))


def scene_record(scene: SampledScene, split: str, index: int, image: str) -> dict:
    """A scene in the form of CLEVR's scene files."""
    objects = []
    for coords, attributes, rotation, pixels in zip(
        scene.coords.tolist(), scene.attributes.tolist(), scene.rotation.tolist(), scene.pixels.tolist()
    ):
        words = {name: values[i] for (name, values), i in zip(ATTRIBUTES.items(), attributes)}
        pixel_coords = [int(pixels[0]), int(pixels[1]), pixels[2]]
        objects.append({**words, "rotation": rotation, "3d_coords": coords, "pixel_coords": pixel_coords})
    return {
        "image_index": index,
        "image_filename": image,
        "split": split,
        "objects": objects,
        "relationships": relationships(scene.coords),
        "directions": {name: direction.tolist() for name, direction in DIRECTIONS.items()},
    }


def relationships(coords: np.ndarray) -> dict[str, list[list[int]]]:
    """For each direction on the ground and each object: the indices of the objects in that direction from it."""
    result = {}
    for name in ("right", "behind", "front", "left"):
        along = coords @ DIRECTIONS[name]
        result[name] = [np.flatnonzero(along - a > CLOSE).tolist() for a in along]
    return result
