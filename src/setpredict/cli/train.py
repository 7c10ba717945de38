"""`setpredict train`: the preset, the method and the scale choose the defaults of all other options."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Annotated, TypeVar

import tyro
from tyro.conf import arg

from setpredict.cli.applicable import hidden_options, without_effect, without_hidden
from setpredict.cli.evaluate import print_evaluation
from setpredict.config import Experiment
from setpredict.core.errors import UserError
from setpredict.core.progress import is_first_process
from setpredict.presets import METHODS, PRESETS, SCALES, preset

NAMING = ("--name", "--out", "--resume", "--init-from", "--data.name", "--data.folder", "--input.weights")
"""Options whose value may be a word that is also the name of a preset."""


@dataclass
class TrainOptions:
    """Train a model: setpredict train PRESET [--method M] [--scale small|medium|paper] [options].

    Methods are dspn, idspn, slots, transformer, mlp, lstm and dense; without one, it is dspn, or for the preset folder
    what fits the data. The preset, the method and the scale choose the defaults that are shown here, and which options
    are shown; the options of other presets and methods are accepted, too. `setpredict train --help` lists presets and
    methods.
    """

    experiment: Annotated[Experiment, arg(name="")]
    name: str | None = None
    """Name of the run (None: PRESET-METHOD-SEED, or PRESET-SEED if the data choose the method)."""
    out: Path = Path("runs")
    """The folder that holds the runs."""
    resume: Path | None = None
    """Resume this run from its last checkpoint: setpredict train --resume runs/NAME."""
    init_from: Path | None = None
    """Start from the best weights of this run, or of a shipped model. With --decoder.initial predicted, the initial set
    predicted at first is the output of an mlp run, or the initial set of a dspn run."""
    allow_own_code: bool = False
    """Import the own classes (module:Class) of the run of --resume or --init-from. Runs that you trained here need no
    permission."""


def train(arguments: Sequence[str]) -> None:
    """Read the preset, `--method` and `--scale` first, then all other options, and train."""
    rest, chosen = list(arguments), {}
    for option, choices in (("--method", METHODS), ("--scale", SCALES)):
        chosen[option] = take_option(rest, option, choices)
        for word in get_close_matches(option, rest, cutoff=0.85):
            raise UserError(f"{word} is not an option; did you mean {option}?")
    resumed = _peek(rest, "--resume")
    for i, (before, word) in enumerate(pairwise(rest), start=1):
        if word in PRESETS and before.replace("_", "-") not in NAMING:  # setpredict train --name x mnist
            rest.insert(0, rest.pop(i))
            break
    name = rest.pop(0) if rest and not rest[0].startswith("-") else None
    if resumed is not None:
        from setpredict.runs.folder import RunFolder

        if name or any(chosen.values()):
            raise UserError(f"--resume {resumed} keeps that run's own preset, method and scale: leave them out")
        experiment = RunFolder(Path(resumed)).read_experiment()
    elif name is None and asks_for_help(rest):
        from rich.console import Console

        from setpredict.cli.train_help import print_overview

        print_overview(Console())
        raise SystemExit(0)  # as every other help
    elif name is None:
        raise UserError(f"which preset? setpredict train PRESET, one of {', '.join(PRESETS)}")
    else:
        experiment = preset(name, chosen["--method"] or "auto", chosen["--scale"] or "small")
    rest = ["--encoder.kind" if word == "--encoder" else option_name(word) for word in rest]
    options = parse_options(TrainOptions(experiment), rest, f"setpredict train {name or 'PRESET'}")
    for option in without_effect(rest, options.experiment) if is_first_process() else ():
        print(f"setpredict: {option} has no effect here: see --help after the preset and method", file=sys.stderr)
    method = chosen["--method"] or ("auto" if name == "folder" else "dspn")
    _train(options, name if method == "auto" else f"{name}-{method}")


def _train(options: TrainOptions, kind: str | None) -> None:
    from functools import partial

    from rich.console import Console

    from setpredict.report.figures.pictures import save_validation_picture
    from setpredict.report.page import report_after_training
    from setpredict.report.settings import print_settings
    from setpredict.runs.folder import RunFolder
    from setpredict.runs.train import train_run

    experiment, console = options.experiment, Console()
    path = options.resume or options.out / (options.name or f"{kind}-{experiment.train.seed}")
    start = {"resume": options.resume is not None, "init_from": options.init_from}
    start["allow_own_code"] = options.allow_own_code
    announce = partial(print_settings, path, console)
    train_run(experiment, path, **start, draw=save_validation_picture, announce=announce, console=console)
    if RunFolder(path).is_finished:
        verdict = print_evaluation(path, console, allow_own_code=True)  # it was just trained with that code
        if is_first_process():
            report_after_training(path, console)
            console.print(verdict, style="bold", highlight=False)


Options = TypeVar("Options")


def parse_options(default: Options, words: Sequence[str], prog: str) -> Options:
    """The options in the words; help shows only those that apply to the default's experiment."""
    if asks_for_help(words):
        default = without_hidden(default, hidden_options(default.experiment))  # pyright: ignore[reportAttributeAccessIssue]
    return tyro.cli(type(default), default=default, args=words, prog=prog)


def asks_for_help(words: Sequence[str]) -> bool:
    return bool({"-h", "--help"} & set(words))


def option_name(word: str) -> str:
    """Options as config.json names them: --train.lr is --lr, --decoder.solver.steps is --decoder.steps."""
    if word.startswith("--train."):
        return "--" + word.removeprefix("--train.")
    return word.replace("--decoder.solver.", "--decoder.", 1)


def take_option(words: list[str], option: str, choices: Sequence[str]):
    """Remove an option and its value from the words, and return the value."""
    value = _peek(words, option)
    if value is None:
        return None
    if value not in choices:
        raise UserError(f"{option} must be one of {', '.join(choices)}, got {value!r}")
    at = next(i for i, word in enumerate(words) if word.split("=")[0] == option)
    del words[at : at + (1 if "=" in words[at] else 2)]
    return value


def _peek(words: Sequence[str], option: str) -> str | None:
    for i, word in enumerate(words):
        if word == option:
            if i + 1 == len(words):
                raise UserError(f"{option} needs a value")
            return words[i + 1]
        if word.startswith(option + "="):
            return word.partition("=")[2]
    return None
