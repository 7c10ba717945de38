"""The numba decorator of this package: compile serially, release the GIL, cache on disk.

Run kernels in our own threads (`core.threads`): numba's parallel loops can deadlock after a fork. Put
`@no_type_check` below `@kernel`, so that the shape checks of the tests skip the function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba


def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function; `options` are numba's, as in `@kernel(fastmath=True)`.

    Numba compiles the kernels that a function calls into it, and looks for changes in the function's own file only. Our
    kernels call others in their own folder and those of `core.rng`: they are compiled again if one of these changes.
    """
    if function is None:
        return partial(kernel, **options)
    settings: dict[str, Any] = {"error_model": "numpy", **options}
    compiled = numba.njit(cache=True, nogil=True, **settings)(function)
    index: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(index, "_source_stamp"):
        index._source_stamp = sources(Path(function.__code__.co_filename).parent)
    return compiled


@cache
def sources(folder: Path) -> str:
    """A checksum of the Python files in a folder, of `core.rng` and of this file."""
    found, here = hashlib.sha256(), Path(__file__)
    for path in sorted({*folder.glob("*.py"), here, here.with_name("rng.py")}):
        found.update(path.read_bytes())
    return found.hexdigest()
