"""Data sets as tasks: every source returns the same kind of object, a `SetTask`.

Each source is a module in `sources` with a function of the same name, such as `setpredict.data.sources.mnist.mnist`;
`load` finds it by name. Heavy imports are deferred until they are needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from setpredict.core.errors import UserError

if TYPE_CHECKING:
    from setpredict.data.locate import open_path
    from setpredict.data.task import Batch, SetTask

__all__ = ["NAMES", "Batch", "SetTask", "load", "open_path"]

NAMES = ("multisets", "polygons", "numbering", "mnist", "clevr", "scenes", "folder", "coco")


def load(name: str, **options: Any) -> SetTask:
    """The data set `name`, made by calling its source with these options.

    >>> load("polygons", train=100).name
    'polygons'
    >>> load("poligons")
    Traceback (most recent call last):
    setpredict.core.errors.UserError: unknown data set 'poligons'; expected one of multisets, polygons, numbering, ...
    """
    if name not in NAMES:
        raise UserError(f"unknown data set {name!r}; expected one of {', '.join(NAMES)}")
    if options.get("seed", 0) < 0:
        raise UserError(f"the seed of a data set must be at least 0, got {options['seed']}")
    return getattr(import_module(f"{__name__}.sources.{name}"), name)(**options)


def __getattr__(name: str) -> Any:
    if name in ("Batch", "SetTask"):
        return getattr(import_module(f"{__name__}.task"), name)
    if name == "open_path":  # any data set by its path, as `setpredict data check` opens it
        return import_module(f"{__name__}.locate").open_path
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
