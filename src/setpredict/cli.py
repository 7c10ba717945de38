"""The command line. Options are typed dataclasses and functions; heavy imports wait until a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional, arg

from setpredict import __version__
from setpredict.data.sources.scenes import SceneOptions
from setpredict.presets import METHODS, PRESETS, SCALES, Experiment, preset


@dataclass
class TrainOptions:
    """Train a model: setpredict train PRESET [--method dspn|idspn|mlp|lstm] [--scale small|paper] [options].

    The preset, the method and the scale choose the defaults that are shown here; every one can be overridden.
    """

    experiment: Annotated[Experiment, arg(name="")]
    name: str | None = None
    """Name of the run (None: PRESET-METHOD-SEED)."""
    out: Path = Path("runs")
    """The folder that holds the runs."""
    resume: Path | None = None
    """Go on with this run from its last checkpoint: setpredict train --resume runs/NAME."""
    init_from: Path | None = None
    """Start from the best weights of this run, or from a shipped model. With --decoder.initial predicted, an mlp's
    answer becomes the guess, or a dspn's own initial set the first guess."""


def train(arguments: Sequence[str]) -> None:
    """The preset, `--method` and `--scale` are read first and choose the default instance for all other options."""
    rest, chosen = list(arguments), {}
    for option, choices in (("--method", METHODS), ("--scale", SCALES)):
        chosen[option] = _take(rest, option, choices)
        for word in get_close_matches(option, rest, cutoff=0.85):
            raise ValueError(f"{word} is no option; did you mean {option}?")
    resumed = _peek(rest, "--resume")
    for i, (before, word) in enumerate(pairwise(rest), start=1):
        takes_a_value = before.startswith("-") and not before.startswith("--no-") and "=" not in before
        if word in PRESETS and not takes_a_value:  # setpredict train --name x mnist
            rest.insert(0, rest.pop(i))
            break
    name = rest.pop(0) if rest and not rest[0].startswith("-") else None
    if resumed is not None:
        from setpredict.runs.train import read_experiment

        if name or any(chosen.values()):
            raise ValueError(f"--resume {resumed} goes on with that run's own preset, method and scale: leave them out")
        experiment = read_experiment(Path(resumed))
    elif name is None and not {"-h", "--help"} & set(rest):
        raise ValueError(f"which preset? setpredict train PRESET, one of {', '.join(PRESETS)}")
    else:
        experiment = preset(name or "multisets", chosen["--method"] or "dspn", chosen["--scale"] or "small")
    rest = ["--encoder.kind" if word == "--encoder" else _plain(word) for word in rest]
    options = tyro.cli(
        TrainOptions, default=TrainOptions(experiment), args=rest, prog=f"setpredict train {name or 'PRESET'}"
    )
    _train(options, name, chosen["--method"] or "dspn")


def _train(options: TrainOptions, preset_name: str | None, method: str) -> None:
    import json

    from rich.console import Console
    from rich.markup import escape

    from setpredict.config import to_dict
    from setpredict.report.figures.pictures import save_validation_picture
    from setpredict.runs.train import train_run

    experiment, console = options.experiment, Console()
    folder = options.resume or options.out / (options.name or f"{preset_name}-{method}-{experiment.train.seed}")
    if _is_first_process():
        console.print(json.dumps(to_dict(experiment), indent=1), highlight=False, style="dim")
        console.print(f"Run: [bold]{escape(str(folder))}[/]")
    start = {"resume": options.resume is not None, "init_from": options.init_from}
    train_run(experiment, folder, **start, draw=save_validation_picture, console=console)
    if (folder / "done.json").is_file():
        evaluate(folder)
        if _is_first_process():
            from setpredict.report.page import report_after_training

            report_after_training(folder, console)


def evaluate(
    run: Positional[Path],
    steps: tuple[int, ...] = (),
    split: Literal["test", "val", "train"] = "test",
    batch_size: int = 128,
) -> None:
    """Measure a run on a whole split: the set distance of its training, average precision for boxes and objects.

    Args:
        run: The run's folder, or the name of a shipped model such as points-idspn.
        steps: Numbers of inner steps, a row each, such as 10 20 30 (none: as trained).
        split: Models are chosen on val and reported on test.
        batch_size: Samples decoded at once.
    """
    from rich.console import Console

    from setpredict.runs.card import model_folder
    from setpredict.report.tables.text import evaluation_rows, terminal
    from setpredict.runs.train import evaluate_run

    if any(s < 0 for s in steps):
        raise ValueError(f"--steps must be 0 or more, got {' '.join(map(str, steps))}")
    console = Console()
    rows = evaluate_run(model_folder(run), steps or (None,), split, batch_size=batch_size, console=console)
    if _is_first_process():
        console.print(terminal(*evaluation_rows(rows), f"{run}, {split} split", console.width))


def predict(
    run: Positional[Path],
    inputs: Positional[tuple[str, ...]],
    steps: int | None = None,
    threshold: float = 0.5,
    json: bool = False,
) -> None:
    """Predict sets with a trained run.

    Args:
        run: The run's folder, or the name of a shipped model such as points-idspn.
        inputs: Image files; or numbers as .npy files, .json files, or JSON on the command line.
        steps: Inner steps (None: as trained).
        threshold: Elements whose mask is above this are shown.
        json: One JSON object a line instead of words.
    """
    from json import dumps

    from setpredict.runs.card import model_folder
    from setpredict.runs.predict import predict_files

    if not inputs:
        raise ValueError("predict needs at least one input")
    if not threshold < 1:
        raise ValueError(f"--threshold must be below 1, the largest mask, got {threshold:g}")
    for answer in predict_files(model_folder(run), inputs, steps, threshold):
        words = answer.pop("words")
        if json:
            print(dumps(answer), flush=True)
            continue
        print(f"{answer['input']}: {len(words)} elements")
        for word, score in zip(words, answer["score"]):
            print(f"  {score:5.2f}  {word}")


def reproduce(
    table: Positional[Literal["mnist", "clevr-state", "clevr-box", "renders-state", "renders-box", "ablations"]],
    scale: Literal["paper", "small"] = "small",
    runs: int = 6,
    rows: tuple[str, ...] = (),
    minutes: float | None = None,
    threads: int | None = None,
    out: Path = Path("runs"),
    results: Path = Path("results"),
) -> None:
    """A table of the paper again: every row, every seed, ours beside theirs. Interrupted, it goes on where it was.

    Args:
        table: Which table.
        scale: The paper's settings, or ones for two CPU cores.
        runs: Seeds of each row; the paper has 6.
        rows: Train only these, such as MLP "DSPN (all)"; the others stay as they are.
        minutes: Training time of each run (None: the scale's own).
        threads: Threads of the tensor library on a CPU (None: its own choice).
        out: The folder that holds the runs.
        results: Where the table's file goes; `setpredict results` makes RESULTS.md of it.
    """
    from setpredict.reproduce import reproduce as again

    if runs < 1:
        raise ValueError(f"--runs must be at least 1, got {runs}")
    again(table, scale, runs, rows=rows, out=out, results=results, minutes=minutes, threads=threads)


def results(
    check: bool = False,
    folder: Path = Path("results"),
    page: Path = Path("RESULTS.md"),
    images: Path = Path("docs/images"),
) -> None:
    """Write RESULTS.md, its tables and figures, from the files that `setpredict reproduce` wrote.

    Args:
        check: Write nothing; fail if the page and the files differ.
        folder: The files.
        page: The page.
        images: Where its figures go.
    """
    from setpredict.report.results import differences, write_results

    if check:
        wrong = differences(folder, page, images)
        if wrong:
            raise ValueError(wrong)
        print(f"{page} is what the files in {folder} say.")
        return
    for path in write_results(folder, page, images):
        print(f"Written: {path}")


def scenes(options: Annotated[SceneOptions, arg(name="")]) -> None:
    """Generate CLEVR-like scenes: images and their objects, in CLEVR's own layout."""
    from setpredict.data.sources.scenes import generate

    print(generate(options))


def check(path: Positional[Path]) -> None:
    """Look at a data set of your own: counts, sizes, ranges, and a sheet of examples.

    Args:
        path: A folder with train.jsonl (and val.jsonl, test.jsonl), a COCO annotation file or folder, CLEVR's or
            MNIST's folder.
    """
    from setpredict.report.data_check import check as look

    look(path)


def plot(
    run: Positional[Path],
    samples: tuple[int, ...] = (0, 1, 2, 3),
    steps: tuple[int, ...] = (),
    baseline: Path | None = None,
    split: Literal["test", "val", "train"] = "test",
    out: Path | None = None,
) -> None:
    """Figures of a run: samples step by step, objects in words, losses against the step; PNG and PDF.

    Args:
        run: The run's folder.
        samples: Which samples of the split.
        steps: Which inner steps, such as 0 1 2 5 10 20; more than were trained is fine (none: a few up to T).
        baseline: Another run on the same data whose answers stand beside.
        split: Where the samples come from.
        out: The folder for the figures (None: RUN/plots).
    """
    from rich.console import Console

    from setpredict.report.plot import plot_run

    if not samples:
        raise ValueError("--samples needs at least one number")
    plot_run(run, samples, steps, baseline, split, out, Console())


def report(runs: Positional[tuple[Path, ...]], out: Path | None = None) -> None:
    """Write RUN/report.html, one self-contained page; several runs also give a comparison.

    Args:
        runs: The runs' folders.
        out: Where the comparison goes (None: comparison.html beside the first run).
    """
    from rich.console import Console

    from setpredict.report.page import write_reports

    if not runs:
        raise ValueError("report needs at least one run")
    write_reports(runs, out, Console())


def serve(
    run: tuple[Path, ...] = (),
    host: str = "127.0.0.1",
    port: int = 8000,
) -> None:
    """Open a web page on which sets take shape: digits, points, polygons, scenes, and your own runs.

    Args:
        run: Folders of your own trained runs, to look at their validation samples.
        host: The address to listen on; the default is reachable from this machine only.
        port: 0 takes any free one.
    """
    try:
        from setpredict.web.server import serve as start
    except ModuleNotFoundError as e:
        raise ValueError(f"the web page needs {e.name}: pip install -e '.[web]' in the checkout") from None

    if not 0 <= port <= 65535:
        raise ValueError(f"--port must be from 0 to 65535, got {port}")
    start(run, host, port)


def demo(
    task: Literal["points", "polygons"] = "points",
    seconds: float = 33.0,
    out: Path = Path("runs/demo"),
    seed: int = 0,
) -> None:
    """See it work: three decoders learn the same sets for the same time.

    Args:
        task: Random point sets to auto-encode, or polygons from their angle (the paper's opening example).
        seconds: Training time of each decoder.
        out: Where the picture and the numbers go.
        seed: Of the data and the weights.
    """
    from rich.console import Console

    from setpredict.demo import run as run_demo

    if not seconds > 0:
        raise ValueError(f"--seconds must be above 0, got {seconds:g}")
    run_demo(task, seconds, out, seed, Console())


def _train_help() -> None:
    """Train a model: setpredict train PRESET [--method M] [--scale S] [options]; train --help has all of them."""


COMMANDS = {
    "train": _train_help,
    "evaluate": evaluate,
    "predict": predict,
    "reproduce": reproduce,
    "results": results,
    "scenes": scenes,
    "data check": check,
    "demo": demo,
    "plot": plot,
    "report": report,
    "serve": serve,
}


def run(arguments: Sequence[str]) -> int:
    """Run one command; a mistake in its input is one line, not a traceback."""
    words = list(arguments)
    if words == ["--version"]:
        print(__version__)
        return 0
    if "" not in sys.path:
        sys.path.append("")  # an encoder of one's own (module:Class) may lie in the working directory; it hides nothing
    if words[:2] == ["data", "check"]:
        words = ["data check", *words[2:]]
    try:
        if words[:1] == ["train"]:
            train(words[1:])
            return 0
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="setpredict",
            description="Predict sets: unordered collections of points, boxes or objects.",
            args=words,
            config=(tyro.conf.OmitArgPrefixes,),
        )
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    except (ValueError, TypeError, OSError) as e:
        if os.environ.get("SETPREDICT_DEBUG"):
            raise
        print(f"setpredict: {e}", file=sys.stderr)
        return 2
    return 0


def _is_first_process() -> bool:
    """torchrun says RANK; Fabric's own launcher says LOCAL_RANK to the processes that it starts."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0


def _plain(word: str) -> str:
    """--train.lr, as config.json names it, is --lr."""
    return "--" + word.removeprefix("--train.") if word.startswith("--train.") else word


def _take(words: list[str], option: str, choices: Sequence[str]):
    """Remove an option and its value from the words, and return the value."""
    value = _peek(words, option)
    if value is None:
        return None
    if value not in choices:
        raise ValueError(f"{option} must be one of {', '.join(choices)}, got {value!r}")
    at = next(i for i, word in enumerate(words) if word.split("=")[0] == option)
    del words[at : at + (1 if "=" in words[at] else 2)]
    return value


def _peek(words: Sequence[str], option: str) -> str | None:
    for i, word in enumerate(words):
        if word == option:
            if i + 1 == len(words):
                raise ValueError(f"{option} needs a value")
            return words[i + 1]
        if word.startswith(option + "="):
            return word.partition("=")[2]
    return None
