"""`python -m benchmarks`: the plain implementation against ours, in one run; `--json F` writes the figures.

`--page` also writes the tables of docs/performance.md. `--only NAME …` runs some of the comparisons, `--rounds N` sets
how often each side is timed, `--cpu-time` compares the CPU time of one thread where others use the machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.page import BARS, machine_line, update

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MEMORY = {"mnist_train_full_memory": "mnist_full", "mnist_train_k1_memory": "mnist_k1"}


def main() -> int:
    arguments = _arguments()
    import torch

    from benchmarks import timing
    from benchmarks.cases import CASES
    from benchmarks.machine import describe, matmul_rate

    if arguments.cpu_time:
        torch.set_num_threads(1)
        timing.clock = "cpu"
    names = arguments.only or [*CASES, "memory"]
    if unknown := [name for name in names if name not in (*CASES, "memory")]:
        raise SystemExit(f"no comparison is called {unknown[0]!r}; there are {', '.join(CASES)} and memory")
    results: dict[str, Any] = {"machine": describe() | {"clock": timing.clock}, "details": {}}
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("matrix products")
        rate = matmul_rate()
        for name in names:
            progress.update(task, description=name)
            if name == "memory":
                _measure_memory(results, lambda text: progress.update(task, description=text))
            else:
                rate = max(rate, _measure(name, CASES[name](), arguments.rounds, results, matmul_rate))
    results["matmul_gflops"] = rate / 1e9
    for work, flops in results.pop("flops", {}).items():
        results[f"{work}_matmul_fraction"] = flops / rate
    _show(results)
    if arguments.json:
        path = Path(arguments.json)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=2) + "\n")
    if arguments.page:
        update(ROOT / "docs" / "performance.md", RESULTS / "speed.json", RESULTS / "scaling.json")
    return 0


def _measure(name: str, case: Any, rounds: int | None, results: dict[str, Any], matmul_rate: Any) -> float:
    from benchmarks.timing import alternately

    apart = case.check()
    if not apart <= case.tolerance:
        raise SystemExit(f"{name}: both sides differ by {apart:.2e}, more than {case.tolerance:g}; no times are given")
    best = alternately(case.works, rounds or case.repeats)
    results["details"][f"{name}_difference"] = apart
    for key, (slow, quick) in case.ratios.items():
        results[key] = best[slow] / best[quick]
        results["details"][key] = [best[slow], best[quick]]
    results.setdefault("flops", {}).update({work: flops / best[work] for work, flops in case.flops.items()})
    return matmul_rate(5)


def _measure_memory(results: dict[str, Any], tell: Any) -> None:
    from benchmarks.memory import peak

    tell("memory: plain")
    plain = peak("mnist", "mnist_plain")
    for key, work in MEMORY.items():
        tell(f"memory: {work}")
        ours = peak("mnist", work)
        results[key] = plain / ours
        results["details"][key] = [plain, ours]


def _show(results: dict[str, Any]) -> None:
    table = Table("key", "work", "ratio", "bar")
    for key, (work, bar) in BARS.items():
        if key in results:
            met = bar is None or results[key] >= bar
            color = "green" if met else "red"
            goal = "report" if bar is None else f"{bar:g} ×"
            table.add_row(key, work, f"[{color}]{results[key]:.2f} ×[/{color}]", goal)
    console = Console()
    console.print(table)
    console.print(machine_line(results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--json", metavar="F", help="write the figures to this file")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/performance.md from results/")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run only these comparisons (or: memory)")
    parser.add_argument("--rounds", type=int, metavar="N", help="time each side so often")
    parser.add_argument("--cpu-time", action="store_true", help="one thread and its CPU time, for a machine in use")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
