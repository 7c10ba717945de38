"""The options of data sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

DataName = Literal["multisets", "polygons", "numbering", "mnist", "clevr", "scenes", "folder", "coco", "memory"]


@dataclass
class AugmentConfig:
    """Random changes of training samples: of images, which boxes and points follow, or of sets with coordinates."""

    flip: Literal["none", "horizontal", "vertical", "both"] = "horizontal"
    """Mirror half of the images."""
    zoom: float = 1.6
    """Show a part of the image, enlarged up to this factor (1: no scaling, no cropping)."""
    aspect: float = 0.15
    """Stretch width against height, up to about this fraction."""
    color: float = 0.3
    """Change contrast, brightness and saturation, up to this fraction."""
    rotate: tuple[str, ...] = ()
    """Sets from sets: the names of two or three features that are coordinates in one unit; each sample is then rotated
    at random, input and target alike."""
    shift: float = 0.0
    """Sets from sets: move each sample along the coordinates of rotate by up to this, in the data's unit."""


@dataclass
class DataConfig:
    """The data set."""

    name: DataName = "multisets"
    """Which data set; memory is that of `setpredict.fit`."""
    folder: str | None = None
    """mnist, clevr: its folder (None: below $SETPREDICT_DATA). folder, coco: its folder, required; folder accepts
    whatever `setpredict data check` does. scenes: render into this folder once and read from there, instead of new
    scenes in every epoch."""
    target: Literal["state", "box"] = "state"
    """clevr, scenes: objects with attributes, or bounding boxes."""
    boxes: Literal["paper", "exact"] = "paper"
    """clevr, scenes: the paper's heuristic boxes, or boxes projected from the geometry."""
    size: int = 128
    """clevr, scenes, folder, coco: side of the square image."""
    points: int = 8
    """multisets, numbering: the (largest) number of elements in a set."""
    dim: int = 2
    """multisets: features per element."""
    distribution: Literal["uniform", "normal"] = "uniform"
    """multisets: draw elements uniformly from the unit cube, or from the standard normal distribution."""
    classes: int = 4
    """numbering: how many classes there are."""
    duplicates: bool = False
    """multisets: draw some elements more than once."""
    variable: bool = False
    """multisets: sets of 1 to the largest number of elements."""
    min_objects: int = 3
    """scenes: the smallest number of objects."""
    max_objects: int = 10
    """scenes: the largest number of objects."""
    train: int | None = None
    """Samples per epoch (None: all; multisets, polygons and scenes are endless)."""
    val: int | None = None
    """Samples to validate on (None: all of the split)."""
    test: int | None = None
    """Samples to test on (None: all of the split)."""
    seed: int = 0
    """Seed of generated data, and of the split into training and validation samples."""
    allow_outside: bool = False
    """clevr, folder, coco: accept images outside the data set's folder, by ../, an absolute path or a symbolic link."""
    augmented: bool | None = None
    """Images: change training images at random (None: those of your own data)."""
    augment: AugmentConfig = field(default_factory=AugmentConfig)


@dataclass(frozen=True)
class SceneOptions:
    """What `setpredict scenes` generates, and where."""

    out: Positional[Path]
    """The folder to write to; interrupted generation resumes there."""
    train: int = 70_000
    """Training scenes."""
    val: int = 15_000
    """Validation scenes (CLEVR's users report results on them)."""
    size: int = 128
    """Side of the square images, in pixels; with coco, the height of images that are 1.5 times as wide."""
    seed: int = 0
    """Seed of the scenes."""
    min_objects: int = 3
    """The smallest number of objects."""
    max_objects: int = 10
    """The largest number of objects."""
    workers: int = 0
    """Threads (0: one per core). The result does not depend on it."""
    states_only: bool = False
    """Write the scene files without rendering images."""
    coco: bool = False
    """Write train.json and val.json in COCO's format, with the objects' bounding boxes and shapes, and images/, instead
    of CLEVR's layout."""
