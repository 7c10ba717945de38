"""How this package compiles its loops: serial, without the interpreter's lock, kept on disk.

Run kernels in threads of our own; numba's parallel loops can deadlock after a fork. Put `@no_type_check` under
`@kernel`, so that the shape checks of the tests leave the function alone.
"""

from __future__ import annotations

import numba

kernel = numba.njit(cache=True, nogil=True, error_model="numpy")
