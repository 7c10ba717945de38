"""Peak memory of a workload above the idle process: `python -m benchmarks.memory mnist mnist_full`."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak(case: str, workload: str) -> int:
    """The bytes that `measure` gives in a new process."""
    command = [sys.executable, "-m", "benchmarks.memory", case, workload]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    if done.returncode:
        raise RuntimeError(f"measuring the memory of {workload} failed:\n{done.stderr}")
    return int(done.stdout)


def measure(case: str, workload: str) -> int:
    """Bytes: the highest resident size during a run minus the size before it, after a batch of 1 that compiles."""
    from benchmarks import cases

    build = getattr(cases, case)
    build(batch=1).workloads[workload]()
    ready = build()
    gc.collect()
    CLEAR.write_text("5")  # resets the peak
    idle = kilobytes("VmRSS")
    ready.workloads[workload]()
    return 1024 * (kilobytes("VmHWM") - idle)


def kilobytes(field: str) -> int:
    """A field of /proc/self/status."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise OSError(f"{STATUS} has no field {field}: peak memory can be measured on Linux only")


if __name__ == "__main__":
    print(measure(*sys.argv[1:3]))
