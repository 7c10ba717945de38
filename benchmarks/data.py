"""How fast data is made and read: `python -m benchmarks.data` prints images and batches per second.

MNIST is read from $SETPREDICT_DATA if it is there; generated data needs nothing.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

Row = tuple[str, float, str]


def per_second(work: Callable[[], int], seconds: float = 2.0) -> float:
    """Items per second of a function that returns the number of items it processed: the best call of those that fit."""
    work()  # compiles and warms up
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        done = work()
        best = max(best, done / (time.perf_counter() - begin))
    return best


def rendered(seconds: float) -> list[Row]:
    from concurrent.futures import ThreadPoolExecutor

    from setpredict.data.render.sampler import sample_scene
    from setpredict.data.render.tracer import render

    views = [sample_scene(0, "benchmark", i).view for i in range(32)]
    cores = os.cpu_count() or 1
    one = per_second(lambda: sum(1 for v in views if render(v, 128).size), seconds)
    sampled = per_second(lambda: sum(1 for i in range(32) if sample_scene(0, "more", i)), seconds)
    with ThreadPoolExecutor(cores) as pool:
        every = per_second(lambda: len(list(pool.map(lambda v: render(v, 128), views))), seconds)
    return [
        ("rendered at 128×128, 2×2 samples per pixel, one core", one, "images/s"),
        (f"rendered, {cores} cores", every, "images/s"),
        ("scenes sampled by CLEVR's rules, one core", sampled, "scenes/s"),
    ]


def generated(seconds: float) -> list[Row]:
    from setpredict.config import SceneOptions
    from setpredict.data.render.writer import write_scenes
    from setpredict.data.sources.clevr import clevr

    with tempfile.TemporaryDirectory() as folder:
        os.environ["SETPREDICT_CACHE"] = str(Path(folder) / "cache")
        out = Path(folder) / "scenes"
        begin = time.perf_counter()
        write_scenes(SceneOptions(out, train=256, val=16))
        written = 272 / (time.perf_counter() - begin)
        begin = time.perf_counter()
        task = clevr(out, val=0.0)
        cached = 272 / (time.perf_counter() - begin)
        order = np.random.default_rng(0).permutation(256)[:32]
        read = per_second(lambda: len(task.train.batch(order, 0)), seconds)
    return [
        ("scenes generated to disk (sampled, rendered, PNG), all cores", written, "images/s"),
        ("images written to the cache, all cores", cached, "images/s"),
        ("cached images read, batches of 32, as floats", read, "images/s"),
    ]


def sets_drawn(seconds: float) -> list[Row]:
    from setpredict.data.sources.multisets import multisets

    points = multisets().train
    indices = np.arange(256)
    rows: list[Row] = [
        (
            "random multisets, batches of 256",
            per_second(lambda: int(len(points.batch(indices, 0)) > 0), seconds),
            "batches/s",
        )
    ]
    folder = os.environ.get("SETPREDICT_DATA")
    if folder and (Path(folder) / "mnist").is_dir():
        from setpredict.data.sources.mnist import mnist

        mnist()
        begin = time.perf_counter()
        train = mnist().train
        loading = time.perf_counter() - begin
        made = per_second(lambda: int(len(train.batch(indices[:32], 0)) > 0), seconds)
        rows += [
            ("MNIST, batches of 32", made, "batches/s"),
            ("MNIST, all 70,000 sets loaded from the cache", loading, "s"),
        ]
    return rows


def main(seconds: float = 2.0) -> list[Row]:
    """Measure and print everything."""
    rows = sets_drawn(seconds) + rendered(seconds) + generated(seconds)
    table = Table("data", "speed", "unit", title=f"Data, {os.cpu_count()} cores")
    for name, value, unit in rows:
        table.add_row(name, f"{value:,.3g}" if value < 10 else f"{value:,.0f}", unit)
    Console().print(table)
    return rows


if __name__ == "__main__":
    main()
