"""Tables of recorded runs: their scores beside the papers' numbers, and how each run was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from setpredict.metrics.units import DISTANCES, EXACT, heading, percent
from setpredict.report.figures.by_size import by_decoder
from setpredict.report.figures.results import Entry
from setpredict.report.tables.paper import TABLES
from setpredict.report.tables.text import markdown, published, summary
from setpredict.studies import studies

Table = tuple[str, list[str], list[list[str]]]


def lay_out(table: str, entries: Sequence[Entry]) -> list[Table]:
    """Name, heads and cells of each table: mean ± deviation over the seeds, the paper's numbers in parentheses."""
    if studies()[table].by_size:
        return [(table, *size_columns(entries, metric_names(entries)[0]))]
    if not studies()[table].groups:
        return [(table, *score_table(table, {e["row"]: e["row"] for e in entries}, entries))]
    return [(name, *score_table(table, rows, entries)) for name, rows in answered(table, entries).items()]


def size_columns(entries: Sequence[Entry], name: str) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of a table with a row per decoder and a column per size of the sets."""
    cells = by_decoder(entries, name)
    sizes = sorted({size for found in cells.values() for size in found})
    heads = ["model", *(f"n = {n}, d = {d}" for n, d in sizes), "runs"]
    rows = []
    for decoder, found in cells.items():
        runs = {len(values) for values in found.values()}
        shown = [summary(found[size], name) if size in found else "–" for size in sizes]
        rows.append([decoder, *shown, " to ".join(map(str, sorted({min(runs), max(runs)})))])
    return heads, rows


def answered(table: str, entries: Sequence[Entry]) -> dict[str, dict[str, str]]:
    """The questions of a study with at least two answers to compare, and the row of each answer."""
    done = {e["row"] for e in entries}
    found = {q: {k: v for k, v in g.items() if v in done} for q, g in studies()[table].groups.items()}
    return {question: group for question, group in found.items() if len(group) > 1}


def score_table(
    table: str, rows: Mapping[str, str], entries: Sequence[Entry], names: Sequence[str] = ()
) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of a table with the given rows, by their labels, and metrics (none: all that tables show)."""
    published_rows, headings = TABLES.get(table, {}), studies()[table].headings()
    names = names or metric_names([e for e in entries if e["row"] in rows.values()])
    cells, above = [], headings.get(next(iter(rows.values())), "")  # a table of one part needs no heading
    for label, row in rows.items():
        if headings.get(row, above) != above:
            above = headings[row]
            cells.append([above] + [""] * (len(names) + 3))
        mine = [e for e in entries if e["row"] == row]
        for i, first in enumerate(mine[0]["evaluations"]):
            steps = first["steps"]
            full = label if steps is None else f"{label}, {steps} steps"
            seen = [{"steps_taken": steps, **e["evaluations"][i]["metrics"]} for e in mine]
            paper = {n: published(published_rows.get(full, {}).get(n)) for n in names}
            numbers = [summary([m[n] for m in seen], n) + (f" ({paper[n]})" if paper[n] else "") for n in names]
            steps_trained = fmean(e["steps_trained"] for e in mine)
            cells.append([full, *numbers, _minutes(mine, entries), f"{steps_trained:,.0f}", str(len(mine))])
    return ["model", *map(heading, names), "minutes", "training steps", "runs"], cells


def timed(entries: Sequence[Entry]) -> list[Entry]:
    """The runs whose training minutes limited: where steps did, the machine or other programs on it may differ."""
    limits = [e["config"].get("train", {}) for e in entries]
    return [e for e, t in zip(entries, limits) if t.get("max_minutes", 1) is not None and t.get("max_steps") is None]


def _minutes(seeds: Sequence[Entry], entries: Sequence[Entry]) -> str:
    """Mean training time of a row: in a table with limits in minutes, that of seeds which these limited, or a dash."""
    counted = timed(seeds) if timed(entries) else seeds
    return f"{fmean(e['minutes'] for e in counted):.0f}" if counted else "–"


def tells(entries: Sequence[Entry], name: str) -> bool:
    """Whether a metric is worth a visible column: not if it is 0% in every row."""
    return not percent(name) or any(e["metrics"].get(name) for entry in entries for e in entry["evaluations"])


def metric_names(entries: Sequence[Entry]) -> list[str]:
    """The metrics in the columns of a table: average precisions, exact matches, or distances; sizes and steps taken."""
    metrics = entries[0]["evaluations"][0]["metrics"]
    precisions = [n for n in metrics if n.startswith("AP")] or [n for n in EXACT if n in metrics]
    stopped = any("steps_taken" in e["evaluations"][0]["metrics"] for e in entries)
    sizes = [n for n in metrics if n == "size_accuracy"]
    return (precisions or [n for n in metrics if n in DISTANCES]) + sizes + ["steps_taken"] * stopped


def origins(entries: Sequence[Entry]) -> str:
    """A table of how each run was made; seeds of a row that differ in nothing else share a line.

    The command is that of the last of them, which trains the seeds before it too.
    """
    alike: dict[tuple[str, ...], list[Entry]] = {}
    for e in entries:
        alike.setdefault((e["row"], f"{e['parameters']:,}", e["hardware"], e["revision"]), []).append(e)
    heads = ["model", "seeds", "parameters", "best step", "minutes", "command", "hardware", "revision"]
    cells = [
        [
            row,
            _each(str(e["seed"]) for e in seeds),
            parameters,
            _each(f"{e['chosen']:,} of {e['steps_trained']:,}" for e in seeds),
            _each(f"{e['minutes']:.1f}" for e in seeds),
            f"`{seeds[-1]['command']}`",
            hardware,
            revision,
        ]
        for (row, parameters, hardware, revision), seeds in alike.items()
    ]
    return markdown(heads, cells)


def _each(texts: Iterable[str]) -> str:
    """The texts in a line, each once."""
    return "; ".join(dict.fromkeys(texts))
