"""Our renders beside the images of the same scenes, in one picture: does the generator look like CLEVR?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from setpredict.data.clevr.camera import recover_cameras
from setpredict.data.clevr.scene_files import read_scenes
from setpredict.data.render.tracer import make_view, render
from setpredict.core.files import atomic


def compare_renders(
    folder: str | os.PathLike,
    out: str | os.PathLike,
    *,
    split: str = "train",
    scenes: Sequence[int] = (0, 1, 2, 3, 4, 5),
    width: int = 240,
    height: int = 160,
) -> Path:
    """Write a PNG: for each scene of a CLEVR folder its image and, to the right of it, our render.

    Cameras are recovered from the scenes; where the lights stood is not known, so ours are at their usual places.
    """
    table = read_scenes(Path(folder) / "scenes" / f"CLEVR_{split}_scenes.json")
    cameras = recover_cameras(table.coords, table.pixels, table.offsets)
    pairs = []
    for scene in scenes:
        if not 0 <= scene < len(table):
            raise ValueError(f"scene {scene} is not one of the {len(table)} scenes of split {split}")
        with Image.open(Path(folder) / "images" / split / table.image[scene]) as image:
            theirs = np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BICUBIC))
        ours = render(make_view(table, scene, cameras[scene]), width, height)
        pairs.append(np.hstack([theirs, ours]))
    if len(pairs) % 2:
        pairs.append(np.zeros_like(pairs[0]))
    rows = [np.hstack(pairs[i : i + 2]) for i in range(0, len(pairs), 2)]
    with atomic(Path(out)) as temporary:
        Image.fromarray(np.vstack(rows)).save(temporary, "PNG")
    return Path(out)
