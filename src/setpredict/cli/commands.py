"""The commands, each a function whose arguments are its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from setpredict.config import SceneOptions
from setpredict.core.errors import UserError, not_installed

TableName = Literal[
    "mnist", "clevr-state", "clevr-box", "renders-state", "renders-box", "points", "numbering", "multisets",
    "ablations", "images",
]  # fmt: skip


def reproduce(
    table: Positional[TableName],
    scale: Literal["paper", "medium", "small"] = "small",
    runs: int = 6,
    first_seed: int = 0,
    rows: tuple[str, ...] = (),
    minutes: float | None = None,
    max_steps: int | None = None,
    threads: int | None = None,
    out: Path = Path("runs"),
    results: Path = Path("results"),
) -> None:
    """Reproduce a table of the paper: every row, every seed, ours beside theirs. Call it again to resume it.

    Args:
        table: Which table.
        scale: The paper's settings, ones for two CPU cores, or, for clevr-state and clevr-box, ones between them.
        runs: Seeds per row, counted from 0; the paper has 6.
        first_seed: Leave out the seeds before this one, which the table has from another machine: 1 with --runs 3
            trains the second and the third.
        rows: Train only these, such as MLP "DSPN (all)"; the others stay as they are.
        minutes: Training time per run (None: the scale's own).
        max_steps: Training steps per run, if they end before the minutes do: on a faster machine, as many as another
            took.
        threads: Threads of PyTorch on a CPU (None: its own choice).
        out: The folder that holds the runs.
        results: The folder for the table's file; `setpredict results` writes RESULTS.md from it.
    """
    from setpredict.reproduce import reproduce as reproduce_table

    if runs < 1:
        raise UserError(f"--runs must be at least 1, got {runs}")
    if not 0 <= first_seed < runs:
        raise UserError(f"--first-seed must be from 0 to {runs - 1} with --runs {runs}, got {first_seed}")
    if max_steps is not None and max_steps < 1:
        raise UserError(f"--max-steps must be at least 1, got {max_steps}")
    given = {"first_seed": first_seed, "rows": rows, "minutes": minutes, "max_steps": max_steps, "threads": threads}
    reproduce_table(table, scale, runs, out=out, results=results, **given)


def results(
    check: bool = False,
    folder: Path = Path("results"),
    page: Path = Path("RESULTS.md"),
    images: Path = Path("docs/images"),
) -> None:
    """Write RESULTS.md, its tables and figures, from the files that `setpredict reproduce` wrote.

    Args:
        check: Write nothing; fail if the page and the files differ.
        folder: The folder with the files.
        page: The page to write.
        images: The folder for its figures.
    """
    from setpredict.report.results import differences, write_results

    if check:
        wrong = differences(folder, page, images)
        if wrong:
            raise UserError(wrong)
        print(f"{page} agrees with the files in {folder}.")
        return
    for path in write_results(folder, page, images):
        print(f"Written: {path}")


def scenes(options: Annotated[SceneOptions, arg(name="")]) -> None:
    """Generate CLEVR-like scenes: images and their objects, in CLEVR's own layout or as COCO boxes."""
    from setpredict.data.render.writer import write_scenes

    print(f"Written: {write_scenes(options)}")


def check(path: Positional[Path], allow_outside: bool = False, augmented: bool = False) -> None:
    """Check a data set of your own: counts, set sizes, ranges, and a sheet of examples.

    Args:
        path: A folder with train.jsonl (and val.jsonl, test.jsonl), a COCO annotation file or folder, CLEVR's or
            MNIST's folder.
        allow_outside: Accept images outside the folder, by ../, an absolute path or a symbolic link.
        augmented: Draw the examples as training sees them: images flipped, cropped and changed in color.
    """
    from setpredict.report.data_check import check as check_data

    check_data(path, allow_outside=allow_outside, augmented=augmented)


def plot(
    run: Positional[Path],
    samples: tuple[int, ...] | None = None,
    steps: tuple[int, ...] = (),
    baseline: Path | None = None,
    split: Literal["test", "val", "train", "all"] = "test",
    data_folder: Annotated[Path | None, arg(name="data.folder")] = None,
    out: Path | None = None,
    animate: Path | None = None,
    allow_own_code: bool = False,
) -> None:
    """Draw figures of a run: samples step by step, objects as text, losses against the step; PNG and PDF.

    Args:
        run: The run's folder, or the name of a shipped model.
        samples: Which samples of the split (None: the first four).
        steps: Which inner steps, such as 0 1 2 5 10 20; more than in training is fine (none: a few up to T).
        baseline: Another run on the same data, whose predictions are drawn beside.
        split: Where the samples come from.
        data_folder: Other data than the model's own: whatever `setpredict data check` opens.
        out: The folder for the figures (None: RUN/plots).
        animate: Instead of the figures, write the samples taking shape to this file, a looping .gif or .webp of at
            most 2 MB, with the baseline below; --steps 40 ends at step 40.
        allow_own_code: Import the run's own classes (module:Class). Runs that you trained here need no permission.
    """
    from rich.console import Console

    from setpredict.report.animate import animate_run
    from setpredict.report.plot import plot_run

    if samples == ():
        raise UserError("--samples needs at least one number")
    if animate is None:
        plot_run(run, samples, steps, baseline, split, out, Console(), allow_own_code, data_folder)
        return
    if out is not None:
        raise UserError(f"--out {out} is the folder for figures; --animate {animate} is a file of its own")
    animate_run(run, animate, samples, steps, baseline, split, Console(), allow_own_code, data_folder)


def report(runs: Positional[tuple[Path, ...]], out: Path | None = None, allow_own_code: bool = False) -> None:
    """Write RUN/report.html, one self-contained page; several runs also give a comparison.

    Args:
        runs: The runs' folders.
        out: Where the comparison goes (None: comparison.html beside the first run).
        allow_own_code: Import the run's own classes (module:Class). Runs that you trained here need no permission.
    """
    from rich.console import Console

    from setpredict.report.page import write_reports

    if not runs:
        raise UserError("report needs at least one run")
    write_reports(runs, out, Console(), allow_own_code)


def serve(
    run: tuple[Path, ...] = (),
    host: str = "127.0.0.1",
    port: int = 8000,
    allowed_host: tuple[str, ...] = (),
    allow_own_code: bool = False,
) -> None:
    """Serve a web page on which sets take shape: points, digits, polygons, scenes, and your own runs.

    Args:
        run: Folders of your own runs, to see their validation samples.
        host: The address to listen on; the default is reachable from this machine only.
        port: The port to listen on (0: any free one).
        allowed_host: Further names that it answers to, such as that of a proxy before it ("*": any). Its own names and
            addresses need not be given.
        allow_own_code: Import the run's own classes (module:Class). Runs that you trained here need no permission.
    """
    from setpredict.runs.shipped import shipped

    models = [f"{len(shipped())} shipped models", *map(str, run)]
    print(f"Loading {', '.join(models)} …", flush=True)  # before the imports, which take seconds
    try:
        from setpredict.web.server import serve as start
    except ModuleNotFoundError as e:
        raise not_installed("the web page", e, "web") from None

    if not 0 <= port <= 65535:
        raise UserError(f"--port must be from 0 to 65535, got {port}")
    start(run, host, port, allowed_host, allow_own_code)


def demo(
    task: Literal["points", "polygons"] = "points",
    seconds: float | None = None,
    steps: int | None = None,
    out: Path = Path("runs/demo"),
    seed: int = 0,
    seeds: int = 1,
) -> None:
    """Watch three decoders learn the same sets for the same time.

    Args:
        task: Random point sets to auto-encode, or polygons from their angle (the paper's opening example).
        seconds: Training time per decoder (None: 33, or as long as --steps take).
        steps: Training steps per decoder, instead of a time: the numbers do not depend on the machine's speed.
        out: The folder for the picture and the numbers.
        seed: Seed of the data and the weights.
        seeds: Train each decoder with this many seeds, from --seed on; errors are means and standard deviations.
    """
    from rich.console import Console

    from setpredict.demo import Budget
    from setpredict.demo import run as run_demo

    if seconds is not None and steps is not None:
        raise UserError(f"--seconds and --steps exclude each other, got {seconds:g} and {steps}")
    for option, value in {"--seconds": seconds, "--steps": steps, "--seeds": seeds}.items():
        if value is not None and not value > 0:
            raise UserError(f"{option} must be above 0, got {value:g}")
    budget = Budget(33.0 if seconds is None else seconds) if steps is None else Budget(steps, "steps")
    run_demo(task, budget, out, range(seed, seed + seeds), Console())
