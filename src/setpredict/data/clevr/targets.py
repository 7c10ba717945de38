"""What is predicted for the objects of a scene: their states or their boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from setpredict.core.errors import UserError
from setpredict.data.clevr import boxes as clevr_boxes
from setpredict.data.clevr import states as clevr_states
from setpredict.data.clevr.camera import FOCAL, HEIGHT, WIDTH
from setpredict.data.clevr.scene_files import SceneTable
from setpredict.data.features import SIDES
from setpredict.data.ragged import RaggedArray

Target = Literal["state", "box"]
Boxes = Literal["paper", "exact"]


@dataclass(frozen=True)
class ObjectTarget:
    """What is predicted for an object."""

    kind: Target
    boxes: Boxes
    """Which boxes; without a meaning for states."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Target):
            raise UserError(f"target must be state or box, got {self.kind!r}")
        if self.boxes not in get_args(Boxes):
            raise UserError(f"boxes must be paper or exact, got {self.boxes!r}")

    @property
    def description(self) -> dict[str, Any]:
        """The arguments of `SetTask` that describe an element."""
        if self.kind == "box":
            return {"kind": "boxes", "features": len(SIDES), "feature_names": SIDES}
        return {
            "kind": "states",
            "features": clevr_states.FEATURES,
            "feature_names": clevr_states.FEATURE_NAMES,
            "groups": clevr_states.GROUPS,
            "categories": clevr_states.ATTRIBUTES,
            "spoken": clevr_states.SPOKEN,
            "scale": clevr_states.SCALE,
        }

    def encode(self, table: SceneTable, cameras: np.ndarray | None = None) -> RaggedArray:
        """The objects of all scenes as elements, float32. For exact boxes, `cameras` (S, 3) are recovered if None."""
        if self.kind == "state":
            values = clevr_states.encode_states(table.coords, table.attributes)
        elif self.boxes == "paper":
            values = clevr_boxes.paper_boxes(table)
        else:
            values = clevr_boxes.exact_boxes(table, cameras)
        return RaggedArray(values.astype(np.float32), table.offsets)


def object_centers(table: SceneTable) -> RaggedArray:
    """Where the objects of all scenes are in their images, and how large they look: (x, y, size) as fractions."""
    radius = np.array([clevr_states.RADIUS[s] for s in clevr_states.ATTRIBUTES["size"]])
    looks = 2 * FOCAL * radius[table.attributes[:, clevr_boxes.SIZE]] / table.pixels[:, 2]  # in pixels of the frame
    place = table.pixels[:, :2] / (WIDTH, HEIGHT)
    values = np.concatenate([place, (looks / np.sqrt(WIDTH * HEIGHT))[:, None]], axis=1)
    return RaggedArray(values.astype(np.float32), table.offsets)
