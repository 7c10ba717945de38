"""Data sets as tasks: every one gives the same object, so training and evaluation never special-case.

A data set lives in a module with a function of the same name: `from setpredict.data.sources.mnist import mnist`.
`load` finds it by name. Nothing heavy is imported before it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setpredict.data.task import Batch, SetTask

__all__ = ["NAMES", "Batch", "SetTask", "load"]

NAMES = ("multisets", "polygons", "mnist", "clevr", "scenes", "folder", "coco")


def load(name: str, **options: Any) -> SetTask:
    """The data set called `name`, made with its function's options.

    >>> load("polygons", train=100).name
    'polygons'
    >>> load("poligons")
    Traceback (most recent call last):
    ValueError: no data set is called 'poligons'; there are multisets, polygons, mnist, ...
    """
    if name not in NAMES:
        raise ValueError(f"no data set is called {name!r}; there are {', '.join(NAMES)}")
    return getattr(import_module(f"{__name__}.{name}"), name)(**options)


def __getattr__(name: str) -> Any:
    if name in ("Batch", "SetTask"):
        return getattr(import_module(f"{__name__}.task"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
