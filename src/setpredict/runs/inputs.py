"""The inputs of `predict`: files, folders, patterns, and numbers as text."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from pathlib import Path

from setpredict.core.errors import UserError
from setpredict.data.task import SetTask

IMAGES = (".png", ".jpg", ".jpeg", ".webp")
NUMBERS = (".npy", ".json")


def find_inputs(given: Sequence[str], task: SetTask, without: Path | None = None) -> list[str]:
    """All inputs that are meant, each once: the files of folders (with those in their folders) and of patterns.

    Args:
        given: Files, folders, patterns such as `photos/*.jpg`, or JSON text.
        task: Its kind of input decides which files of a folder are meant.
        without: A folder whose files are left out where a folder around it is given, such as that of drawings.
    """
    found: dict[str, None] = {}
    for text in given:
        path = Path(text)
        if _is_text(text, task):
            found[text] = None
        elif path.is_dir():
            found |= dict.fromkeys(_files(path, task, without))
        elif _is_pattern(text) and not path.exists():
            matches = sorted(m for m in glob(text, recursive=True) if Path(m).is_file())
            if not matches:
                raise UserError(f"no file matches {text}")
            found |= dict.fromkeys(matches)
        else:
            found[text] = None
    return list(found)


def _files(folder: Path, task: SetTask, without: Path | None) -> list[str]:
    endings = IMAGES if task.input_kind == "image" else NUMBERS
    files = [f for f in folder.rglob("*") if f.suffix.lower() in endings and f.is_file()]
    if without is not None and without.resolve() != folder.resolve():
        files = [f for f in files if not f.resolve().is_relative_to(without.resolve())]
    found = sorted(map(str, files))
    if not found:
        raise UserError(f"{folder} has no files that end in {', '.join(endings)}")
    return found


def _is_text(text: str, task: SetTask) -> bool:
    """Whether it is JSON and not a path: numbers begin with a bracket, and an object is refused as text."""
    return task.input_kind != "image" and text.lstrip().startswith(("[", "{"))


def _is_pattern(text: str) -> bool:
    return any(letter in text for letter in "*?[")
