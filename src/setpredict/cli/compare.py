"""`setpredict compare`: several methods on the same data for the same time, and one page about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

from tyro.conf import arg

from setpredict.cli.train import asks_for_help, option_name, parse_options, take_option
from setpredict.config import Experiment
from setpredict.core.errors import UserError
from setpredict.presets import METHODS, PRESETS, SCALES, Method, preset

DEFAULT_METHODS = ("mlp", "dspn", "idspn", "slots", "transformer")


@dataclass
class CompareOptions:
    """Train methods on the same data for the same time, and write one page that compares them.

    setpredict compare PRESET [--methods mlp dspn idspn slots transformer] [--scale small|medium|paper] [options]. A
    method can also be your own decoder, as package.module:Class. The same command continues an interrupted comparison.
    All other options are those of `setpredict train`; given here, they hold for every method.
    """

    experiment: Annotated[Experiment, arg(name="")]
    minutes: float | None = None
    """Training time per method (None: the preset's own)."""
    out: Path | None = None
    """The folder of the runs and of comparison.html (None: runs/compare-PRESET-SEED)."""


def compare(arguments: Sequence[str]) -> None:
    """Read the preset, `--methods` and `--scale` first, then all other options for each method, and compare."""
    rest = list(arguments)
    scale = take_option(rest, "--scale", SCALES) or "small"
    methods = _take_methods(rest) or DEFAULT_METHODS
    name = rest.pop(0) if rest and not rest[0].startswith("-") else None
    if name is None and not asks_for_help(rest):
        raise UserError(f"which preset? setpredict compare PRESET, one of {', '.join(PRESETS)}")
    words = [option_name(word) for word in rest]
    chosen: dict[str, CompareOptions] = {}
    for method in methods:
        default = CompareOptions(_experiment(name or "multisets", method, scale))
        prog = f"setpredict compare {name or 'PRESET'}"
        chosen[_folder_name(method)] = parse_options(default, words, prog)
    first = next(iter(chosen.values()))
    if first.minutes is not None:
        if not first.minutes > 0:
            raise UserError(f"--minutes must be above 0, got {first.minutes:g}")
        for options in chosen.values():
            options.experiment.train.max_minutes = first.minutes
    out = first.out or Path("runs") / f"compare-{name}-{first.experiment.train.seed}"
    _compare({method: options.experiment for method, options in chosen.items()}, out)


def _compare(experiments: dict[str, Experiment], out: Path) -> None:
    from rich.console import Console

    from setpredict.compare import compare as compare_methods

    compare_methods(experiments, out, Console())


def _experiment(name: str, method: str, scale: str) -> Experiment:
    """The preset for a method, or for the user's own decoder, which starts from DSPN's settings."""
    kind = "dspn" if ":" in method else method
    experiment = preset(name, cast(Method, kind), scale)  # pyright: ignore[reportArgumentType]
    if ":" in method:
        experiment.decoder.kind = method
    return experiment


def _folder_name(method: str) -> str:
    return method.rpartition(":")[2]


def _take_methods(words: list[str]) -> tuple[str, ...]:
    """Remove `--methods` and its values from the words, and return the values."""
    at = next((i for i, word in enumerate(words) if word.split("=")[0] == "--methods"), None)
    if at is None:
        return ()
    first = words[at].partition("=")[2]
    end = at + 1
    while not first and end < len(words) and not words[end].startswith("-"):
        end += 1
    values = [first] if first else words[at + 1 : end]
    methods = tuple(method for value in values for method in value.split(","))
    del words[at:end]
    unknown = [method for method in methods if method not in METHODS and ":" not in method]
    if unknown or not methods:
        raise UserError(f"--methods takes some of {', '.join(METHODS)}, got {unknown[0] if unknown else 'nothing'!r}")
    names = [_folder_name(method) for method in methods]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"--methods has {twice[0]} more than once")
    return methods
