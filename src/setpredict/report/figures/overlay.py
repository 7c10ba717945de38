"""Predicted boxes and points on the original image, at its own resolution, with their class and score."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from setpredict.core.errors import UserError
from setpredict.core.files import atomic
from setpredict.data.io.images import open_image
from setpredict.data.task import SetTask
from setpredict.report.figures.palette import LINE_COLORS
from setpredict.runs.predict import Answer

FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP", ".png": "PNG"}


def check_drawable(task: SetTask) -> None:
    """Raise if elements have no place in an image."""
    if task.input_kind != "image" or task.kind not in ("boxes", "points"):
        raise UserError(
            f"--draw is for boxes and points in images, but this model predicts {task.kind} for {task.input_kind}s"
        )


def draw_answer(answer: Answer, task: SetTask, folder: Path, taken: set[Path]) -> Path:
    """Draw a prediction on its image and write it to a folder, under the image's name; returns the file.

    A name that is in `taken` gets a number; the new name is added to it.
    """
    source = Path(answer.input)
    image = overlay(open_image(source), answer, task)
    suffix = source.suffix if source.suffix.lower() in FORMATS else ".png"
    names = (folder / f"{source.stem}{f'-{i}' if i else ''}{suffix}" for i in count())
    path = next(name for name in names if name not in taken)
    if path.resolve() == source.resolve():
        raise UserError(f"--draw {folder} would overwrite {source}: choose another folder")
    taken.add(path)
    options = {"quality": 92} if suffix.lower() != ".png" else {}
    with atomic(path) as temporary:
        image.save(temporary, format=FORMATS[suffix.lower()], **options)
    return path


def overlay(image: Image.Image, answer: Answer, task: SetTask) -> Image.Image:
    """The image with the predicted elements on it, the best ones on top."""
    image = image.copy()
    draw = ImageDraw.Draw(image)
    width = max(1, round(max(image.size) / 300))
    font = ImageFont.load_default(max(10, round(max(image.size) / 50)))
    places = [] if answer.places is None else answer.places.tolist()
    for i in reversed(range(len(places))):
        color, place = _color(answer, task, i), places[i]
        label = " ".join([*answer.fields[i].categories.values(), f"{float(answer.scores[i]):.2f}"])
        if len(place) == 4:
            left, top, right, bottom = place
            corners = (min(left, right), min(top, bottom), max(left, right), max(top, bottom))
            draw.rectangle(corners, outline=color, width=width)
            _label(draw, label, (corners[0], corners[1]), color, font, image.size)
        else:
            (x, y), radius = place[:2], 3 * width
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color, outline="white")
            _label(draw, label, (x + radius, y), color, font, image.size)
    return image


def _label(draw: ImageDraw.ImageDraw, text: str, at: tuple[float, float], color: str, font, size) -> None:
    """A filled label above a position, moved inside the image."""
    left, top, right, bottom = draw.textbbox((0, 0), text, font=font)
    wide, high = right - left + 4, bottom - top + 4
    x, y = min(max(at[0], 0), max(size[0] - wide, 0)), max(at[1] - high, 0)
    draw.rectangle((x, y, x + wide, y + high), fill=color)
    draw.text((x + 2 - left, y + 2 - top), text, fill="white", font=font)


def _color(answer: Answer, task: SetTask, index: int) -> str:
    """One color per category of the first group."""
    if not task.groups:
        return LINE_COLORS[1]
    group = next(iter(task.groups))
    number = task.categories[group].index(answer.fields[index].categories[group])
    return LINE_COLORS[number % len(LINE_COLORS)]
