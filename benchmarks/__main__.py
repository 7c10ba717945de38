"""`python -m benchmarks`: time the plain implementation and ours in the same run; `--json F` writes the results.

`--page` also writes the tables of docs/performance.md. `--only NAME …` runs some of the cases, `--rounds N` sets how
many times each side is timed, `--cpu-time` measures CPU time on one thread, for a machine that is busy. `--avx2`
measures both sides without AVX-512, as on processors that do not have it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.page import BARS, loading_line, machine_line, rates, update

if TYPE_CHECKING:
    from benchmarks.cases import Case

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MEMORY = {
    "mnist_train_full_memory": ("mnist", "mnist_plain", "mnist_full"),
    "mnist_train_k1_memory": ("mnist", "mnist_plain", "mnist_k1"),
    "image_step_small_memory": ("image_step_small", "image_dspn_plain", "image_dspn"),
    "image_step_small_idspn_memory": ("image_step_small", "image_idspn_plain", "image_idspn"),
}
"""Keys of the results, and the case and workloads (plain and ours) whose peak memory is compared."""


OTHERS = ("memory", "loading")
"""What is measured besides the cases."""
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "",
}
"""Variables by which PyTorch, its libraries and our kernels leave out AVX-512; they are read when a process starts."""


def main() -> int:
    arguments = _arguments()
    if arguments.avx2 and any(os.environ.get(name) != value for name, value in AVX2.items()):
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]], os.environ | AVX2)
    import torch

    from benchmarks import timing
    from benchmarks.cases import CASES
    from benchmarks.machine import describe, matmul_rate

    if arguments.cpu_time:
        torch.set_num_threads(1)
        timing.clock = "cpu"
    names = arguments.only or [*CASES, *OTHERS]
    if unknown := [name for name in names if name not in (*CASES, *OTHERS)]:
        raise SystemExit(f"there is no case {unknown[0]!r}; cases are {', '.join([*CASES, *OTHERS])}")
    results: dict[str, Any] = {"machine": describe() | {"clock": timing.clock}, "details": {}}
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("matrix products")
        rates = {torch.get_num_threads(): matmul_rate()}
        for name in names:
            progress.update(task, description=name)
            if name == "memory":
                _measure_memory(results, lambda text: progress.update(task, description=text))
            elif name == "loading":
                _measure_loading(results)
            else:
                threads, rate = _measure(name, CASES[name](), arguments.rounds, results, matmul_rate)
                rates[threads] = max(rate, rates.get(threads, 0.0))
    results["matmul_gflops"] = rates[torch.get_num_threads()] / 1e9
    for workload, (flops, threads) in results.pop("flops", {}).items():
        results[f"{workload}_matmul_fraction"] = flops / rates[threads]
    _show(results)
    if arguments.json:
        path = Path(arguments.json)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=2) + "\n")
    if arguments.page:
        update(ROOT / "docs" / "performance.md", RESULTS)
    return 0


def _measure(
    name: str, case: Case, rounds: int | None, results: dict[str, Any], matmul_rate: Callable[[int], float]
) -> tuple[int, float]:
    """Time a case and add its results; returns its number of threads and their rate of matrix products after it."""
    import torch

    from benchmarks.profile import PROFILED, shares
    from benchmarks.timing import alternately

    before = torch.get_num_threads()
    threads = case.threads or before
    torch.set_num_threads(threads)
    error = case.check()
    if not error <= case.tolerance:
        raise SystemExit(f"{name}: both sides differ by {error:.2e}, more than {case.tolerance:g}; nothing was timed")
    best = alternately(case.workloads, rounds or case.rounds)
    rate = matmul_rate(5)
    torch.set_num_threads(before)
    results["details"][f"{name}_difference"] = error
    for workload in set(PROFILED) & set(case.workloads):
        results.setdefault("profile", {})[workload] = shares(case.workloads[workload])
    for key, (slow, fast) in case.ratios.items():
        results[key] = best[slow] / best[fast]
        results["details"][key] = [best[slow], best[fast]]
    for workload, flops in case.flops.items():
        results.setdefault("flops", {})[workload] = flops / best[workload], threads
    return threads, rate


def _measure_memory(results: dict[str, Any], report: Callable[[str], object]) -> None:
    from benchmarks.memory import peak

    peaks: dict[str, int] = {}
    for key, (case, *workloads) in MEMORY.items():
        for workload in workloads:
            if workload not in peaks:
                report(f"memory: {workload}")
                peaks[workload] = peak(case, workload)
        plain, ours = (peaks[workload] for workload in workloads)
        results[key] = plain / ours
        results["details"][key] = [plain, ours]


def _measure_loading(results: dict[str, Any]) -> None:
    from benchmarks.loading import waiting

    wait, step = waiting()
    results["loading_wait_share"] = wait / step
    results["details"]["loading_wait_share"] = [wait, step]


def _show(results: dict[str, Any]) -> None:
    table = Table("key", "workload", "ratio", "goal")
    for key, (workload, bar) in BARS.items():
        if key in results:
            met = bar is None or results[key] >= bar
            color = "green" if met else "red"
            goal = "–" if bar is None else f"{bar:g} ×"
            table.add_row(key, workload, f"[{color}]{results[key]:.2f} ×[/{color}]", goal)
    console = Console()
    console.print(table)
    if found := rates(results):
        reached = Table("key", "of the rate of matrix products", "ratio at 100%")
        for row in found:
            reached.add_row(*row)
        console.print(reached)
    console.print(machine_line(results))
    if "loading_wait_share" in results:
        console.print(loading_line(results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--json", metavar="F", help="write the results to this file")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/performance.md from results/")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run only these cases (or: memory, loading)")
    parser.add_argument("--rounds", type=int, metavar="N", help="how many times each side is timed")
    parser.add_argument("--cpu-time", action="store_true", help="measure CPU time on one thread, for a busy machine")
    parser.add_argument("--avx2", action="store_true", help="measure both sides without AVX-512")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
