"""Whether the files that a data set names are inside its folder: a downloaded data set must not read other files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def find_outside(folder: Path, names: Iterable[str]) -> tuple[int, str] | None:
    """The first file that is outside `folder`, by ../, an absolute path or a symbolic link; None if all are inside.

    Args:
        folder: Where the data set is; it may be a symbolic link itself.
        names: Paths relative to the folder, of files that exist.

    Returns:
        The index of the name and a message about it.
    """
    root = Path(os.path.realpath(folder))
    inside: dict[str, bool] = {}  # each folder is resolved once, not once per image
    for index, name in enumerate(names):
        path = os.path.join(folder, name)
        parent, last = os.path.split(path)
        if parent not in inside:
            inside[parent] = Path(os.path.realpath(parent)).is_relative_to(root)
        ordinary = last not in ("", ".", "..") and not os.path.islink(path)
        if inside[parent] if ordinary else Path(os.path.realpath(path)).is_relative_to(root):
            continue
        remedy = "copy it there, or allow it by --data.allow-outside (data check: --allow-outside)"
        return index, f"image {name} is {os.path.realpath(path)}, outside {folder}: {remedy}"
    return None
