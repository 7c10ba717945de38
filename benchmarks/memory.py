"""Peak memory of one work above the idle process, in a fresh one: `python -m benchmarks.memory mnist mnist_full`."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak(case: str, work: str) -> int:
    """Bytes, measured in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.memory", case, work]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    if done.returncode:
        raise RuntimeError(f"measuring the memory of {work} failed:\n{done.stderr}")
    return int(done.stdout)


def measure(case: str, work: str) -> int:
    """The highest resident size during a run less the size before it, once a batch of 1 has compiled what there is."""
    from benchmarks import cases

    build = getattr(cases, case)
    build(batch=1).works[work]()
    ready = build()
    gc.collect()
    CLEAR.write_text("5")  # the peak begins anew
    idle = kilobytes("VmRSS")
    ready.works[work]()
    return 1024 * (kilobytes("VmHWM") - idle)


def kilobytes(field: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise OSError(f"{STATUS} does not say {field}: peak memory can be measured on Linux only")


if __name__ == "__main__":
    print(measure(*sys.argv[1:3]))
