"""How long the page waits for its scenes: `python -m tests.web.latency`, on a machine that does nothing else.

Both models are asked about the same scene at the same time, as the page does, and no scene twice.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import torch

from setpredict.web.catalog import load_catalog
from tests.web.served import Running

NAMES = ("scenes-state", "scenes-box")
WARM_UP, SCENES = 5, 50


def main() -> None:
    """Print the median and the largest time until both answers have arrived, and until each one has."""
    torch.set_num_threads(max(1, torch.get_num_threads() // 2))  # as `setpredict serve` does
    models = {name: served for name, served in load_catalog().items() if name in NAMES}
    waited: dict[str, list[float]] = {name: [] for name in (*NAMES, "both")}
    with (
        Running(models) as address,
        httpx.Client(base_url=address, timeout=300) as client,
        ThreadPoolExecutor(len(NAMES)) as threads,
    ):
        for sample in range(100, 100 + WARM_UP + SCENES):
            start = time.perf_counter()

            def ask(name: str, sample: int = sample, start: float = start) -> float:
                client.post(f"/api/{name}/decode", json={"sample": sample}).raise_for_status()
                return time.perf_counter() - start

            times = list(threads.map(ask, NAMES))
            for name, seconds in zip(waited, (*times, max(times))):
                waited[name].append(1000 * seconds)
    for name, times in waited.items():
        kept = np.array(times[WARM_UP:])
        print(f"{name}: median {np.median(kept):.0f} ms, largest {kept.max():.0f} ms of {len(kept)} scenes")


if __name__ == "__main__":
    main()
