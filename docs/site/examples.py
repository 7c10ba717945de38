"""Examples in docstrings as code blocks: `>>>` would be a quotation in Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> (?:.*\n?)(?:\1(?!\s*$).*\n?)*", re.MULTILINE)


class Examples(griffe.Extension):
    """Put a fence around every example."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """A docstring with its examples as code blocks."""
    return EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0].rstrip()}\n{found[1]}```\n", text)
