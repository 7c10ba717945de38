"""The models that come with the package: one folder each, with weights, settings and a model card."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
CARD = "card.json"
"""The file that makes a folder a shipped model."""
MOST_BYTES = 4_000_000
"""Largest size of a shipped model's weights."""


def shipped() -> dict[str, Path]:
    """The folders of the shipped models by name, in display order.

    >>> list(shipped())[:2]
    ['digits-dspn', 'digits-mlp']
    """
    order = {"idspn": 0, "dspn": 1, "mlp": 2}
    folders = [path.parent for path in FOLDER.glob(f"*/{CARD}")]
    folders.sort(key=lambda f: (f.name.partition("-")[0], order.get(f.name.partition("-")[2], 3), f.name))
    return {folder.name: folder for folder in folders}
