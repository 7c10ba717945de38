"""Find COCO annotation files in a folder, by their names and what they contain."""

from __future__ import annotations

from pathlib import Path

from setpredict.core.errors import UserError


def annotation_files(path: Path) -> tuple[Path, Path | None]:
    """The training annotation file at a path, and the test file next to it, if there is one."""
    chosen = path
    if path.is_dir():
        train = [f for f in json_files(path) if "train" in f.stem]
        if not train:
            raise UserError(f"no *train*.json found in {path} or in its folder annotations")
        # COCO's folder also has files of captions and key points, others have logs of trainings.
        train.sort(key=lambda f: not f.stem.startswith("instances"))
        chosen = train[0] if len(train) == 1 else next(filter(looks_like_coco, train), train[0])
    test = chosen.with_name(chosen.name.replace("train", "val"))
    return chosen, test if test != chosen and test.is_file() else None


def json_files(folder: Path) -> list[Path]:
    """Where annotation files may be: in a folder, and first in its folder annotations."""
    return [*sorted((folder / "annotations").glob("*.json")), *sorted(folder.glob("*.json"))]


def looks_like_coco(file: Path) -> bool:
    """Whether the file has the three lists of an annotation file; it is parsed when it is opened."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return all(f'"{name}"' in text for name in ("images", "annotations", "categories"))
