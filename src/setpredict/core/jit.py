"""The numba decorator of this package: compile serially, release the GIL, cache on disk.

Run kernels in our own threads (`core.threads`): numba's parallel loops can deadlock after a fork. Put
`@no_type_check` below `@kernel`, so that the shape checks of the tests skip the function.
"""

from __future__ import annotations

import numba

kernel = numba.njit(cache=True, nogil=True, error_model="numpy")
