"""Kill, damage and fuzz for some minutes, and print one table: python -m tests.soak [MINUTES] [SEED]

Everything happens in a temporary folder and on the loopback address. The exit code is 1 if anything was lost.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console

from tests.soak.damage import Damage
from tests.soak.http_fuzz import Server, fuzz
from tests.soak.kills import kill_a_rank, kill_and_resume, uninterrupted
from tests.soak.tally import Tally

GROWTH = 200
"""MB that the server may grow by, beyond a quarter of what it had."""


def soak(minutes: float, seed: int = 0, steps: int = 200, rounds: int = 1000, requests: int = 400) -> Tally:
    """Rounds of everything until the time is over, at least one.

    Args:
        minutes: When no further round begins.
        seed: Of everything that is random here, except how long processes take.
        steps: Training steps of each run.
        rounds: The most rounds.
        requests: Fuzzed HTTP requests per round.
    """
    began, rng, tally = time.monotonic(), random.Random(seed), Tally()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="setpredict-soak-") as name, Server(Path(name) / "server.log") as server:
        folder = Path(name)
        fuzz(server, rng, tally, requests=10 * len(server.models), seconds=60)  # first requests allocate what stays
        before = server.megabytes
        expected = uninterrupted(folder / "reference", steps)
        on_two_ranks = uninterrupted(folder / "two-ranks", steps, ranks=2)
        damage = Damage(folder / "reference", folder / "damaged", steps)
        for i in range(rounds):
            if i and time.monotonic() - began > 60 * minutes:
                break
            kill_and_resume(folder / f"killed-{i}", steps, expected, rng, tally, kills=4)
            for _ in range(20):
                damage.try_one(rng, tally)
            kill_a_rank(folder / f"ranks-{i}", steps, on_two_ranks, rng, tally)
            fuzz(server, rng, tally, requests, seconds=60)
        tally.memory = before, server.megabytes
        if tally.memory[1] > 1.25 * before + GROWTH:
            tally.wrong("memory", f"the server grew from {before} to {tally.memory[1]} MB")
    tally.seconds = time.monotonic() - began
    return tally


def main() -> int:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    tally = soak(minutes, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    console = Console(width=130)
    console.print(tally.table())
    for problem in tally.problems:
        console.print(problem, markup=False, highlight=False, style="red")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
