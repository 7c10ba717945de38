"""Batches in parts: contiguous, none of them empty, and padded where they have few rows."""

import pytest
import torch

from setpredict.core.batch_parts import FEWEST_ROWS, compute_in_parts
from setpredict.core.threads import threads_restored


@pytest.mark.parametrize("B", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_every_sample_is_computed_once_and_no_part_is_empty(B: int, rows: int):
    with threads_restored():
        torch.set_num_threads(3)
        found = compute_in_parts(torch.arange(B), lambda part: part.clone(), rows=rows, thread_rows=10)
    assert torch.cat([part[:n] for n, part in found]).tolist() == list(range(B))
    assert all(n > 0 and len(part) * rows >= FEWEST_ROWS for n, part in found)
    assert len(found) == max(1, min(3, B, B * rows // 10))
