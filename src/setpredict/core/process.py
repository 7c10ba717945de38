"""Which of several processes this is."""

from __future__ import annotations

import os


def is_first_process() -> bool:
    """torchrun sets RANK; Fabric's own launcher sets LOCAL_RANK for the processes that it starts."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0
