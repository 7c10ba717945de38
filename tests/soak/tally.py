"""The counts of a soak test, and their table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rich.table import Table


@dataclass
class Tally:
    """What was tried, how it ended, and what must never happen."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    """One line each; none if all is well."""
    memory: tuple[int, int] | None = None
    """MB of the server after its first requests and at the end."""
    seconds: float = 0.0

    def add(self, name: str, count: int = 1) -> None:
        self.counts[name] += count

    def wrong(self, name: str, problem: str) -> None:
        """Count something that must never happen."""
        self.counts[name] += 1
        self.problems.append(f"{name}: {problem}")

    def table(self) -> Table:
        """All counts as a table."""
        c = self.counts
        table = Table("what", "tried", "well", "not well", title=f"Soak test, {self.seconds / 60:.1f} minutes")
        answered = f"{c['answered']} answered: {c['2xx']} with 2xx, {c['4xx']} with 4xx, {c['503']} with 503; "
        answered += f"{c['closed']} incomplete ones closed"
        recovered = f"{c['recovered']} recovered, {c['refused']} refused"
        rows = [
            ("kill -9 at random times", "kills", f"{c['kills'] - c['kills lost']} survived", "kills lost"),
            ("SIGTERM, SIGHUP, SIGINT", "signals", f"{c['signals'] - c['signals lost']} saved", "signals lost"),
            ("the same runs at their end", "runs", f"{c['runs equal']} equal to the bit", "runs differ"),
            ("damaged checkpoints and weights", "damaged", recovered, "damage used"),
            ("damaged JSON and log files", "damaged text", f"{c['text refused']} refused", "tracebacks"),
            ("one of two ranks killed", "rank kills", f"{c['ranks resumed']} resumed", "ranks lost"),
            ("the same runs at their end", "rank runs", f"{c['rank runs equal']} equal to the bit", "rank runs differ"),
            ("fuzzed HTTP requests", "requests", answered, "5xx"),
            ("valid HTTP requests in between", "valid", f"{c['valid answered']} answered", "unanswered"),
        ]
        for what, tried, well, bad in rows:
            table.add_row(what, str(c[tried]), well, f"{c[bad]} {bad}")
        if self.memory:
            table.add_row("memory of the server", "", f"{self.memory[0]} MB before, {self.memory[1]} MB after", "")
        return table
