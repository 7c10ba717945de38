"""`setpredict COMMAND …`: find the command, run it, and report mistakes of the user in one line."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import tyro

from setpredict import __version__
from setpredict.cli import commands
from setpredict.cli.compare import compare
from setpredict.cli.evaluate import evaluate
from setpredict.cli.export import export, site
from setpredict.cli.predict import predict
from setpredict.cli.train import train
from setpredict.core.errors import UserError, did_you_mean, first_line
from setpredict.core.progress import is_first_process

REPORT = "\nThis is a bug in setpredict, not a mistake of yours. Please report it with the traceback above."


def _train_help() -> None:
    """Train a model: setpredict train PRESET [--method M] [--scale S] [options]; train --help says which."""


def _compare_help() -> None:
    """Compare methods on one page: setpredict compare PRESET [--methods M1 M2 …] [--minutes M] [options of train]."""


COMMANDS = {
    "train": _train_help,
    "compare": _compare_help,
    "evaluate": evaluate,
    "predict": predict,
    "export": export,
    "reproduce": commands.reproduce,
    "results": commands.results,
    "scenes": commands.scenes,
    "data check": commands.check,
    "demo": commands.demo,
    "plot": commands.plot,
    "report": commands.report,
    "serve": commands.serve,
    "site": site,
}


LISTS = {
    "compare": {"--methods"},
    "evaluate": {"--steps"},
    "reproduce": {"--rows"},
    "plot": {"--samples", "--steps"},
    "serve": {"--run", "--allowed-host"},
}
"""Options that take several values, which may also be given one by one: --run A --run B is --run A B."""


def main() -> None:
    warnings.showwarning = _show_warning
    sys.exit(run(sys.argv[1:]))


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """One line on stderr, without the place in the code."""
    text = first_line(message) if isinstance(message, Warning) else message
    if text.startswith("Glyph "):  # one warning for each letter
        text = "The font of the figures lacks some letters of the data's names; they are drawn as empty boxes."
    _say_once(text)


@cache
def _say_once(text: str) -> None:
    if is_first_process():
        print(f"setpredict: {text}", file=sys.stderr)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code: 2 after a mistake of the user, which is one line on stderr.

    A bug of ours keeps its traceback and asks for a report.
    """
    words = joined(arguments)
    if words == ["--version"]:
        print(__version__)
        return 0
    if words[:2] == ["data", "check"]:
        words = ["data check", *words[2:]]
    try:
        _dispatch(words)
    except KeyboardInterrupt as e:
        if is_first_process():
            print(str(e) or "Stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `setpredict predict … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes at its end
        return 128 + 13
    except (UserError, OSError) as e:
        # An error of the operating system (disk full, permission denied) has an errno; any other OSError is a bug.
        if isinstance(e, OSError) and e.errno is None:
            e.add_note(REPORT)
            raise
        if os.environ.get("SETPREDICT_DEBUG"):
            raise
        print(f"setpredict: {e}", file=sys.stderr)
        return 2
    except Exception as e:
        e.add_note(REPORT)
        raise
    return 0


def joined(words: Sequence[str]) -> list[str]:
    """The words with each list's values in one place, its first; without this, only the last would count."""
    options = LISTS.get(words[0], set()) if words else set()
    first: list[str] = []
    groups, lists = [first], dict[str, list[str]]()
    current = first
    for word in words:
        name, equals, value = word.partition("=")
        if not word.startswith("--"):
            current.append(word)
        elif name not in options:
            groups.append(current := [word])
        else:
            if name not in lists:
                groups.append(lists.setdefault(name, [name]))
            current = lists[name]
            if equals:  # one value; the words after it are not the list's
                current.append(value)
                current = first
    return [word for group in groups for word in group]


def _dispatch(words: list[str]) -> None:
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        command = " ".join(words[:2]) if words[0] == "data" else words[0]
        near = did_you_mean(command, COMMANDS)
        raise UserError(f"there is no command {command!r}{near or ';'} setpredict --help lists all")
    own = {"train": train, "compare": compare}
    if words and words[0] in own:
        own[words[0]](words[1:])
        return
    tyro.extras.subcommand_cli_from_dict(
        COMMANDS,
        prog="setpredict",
        description="Predict sets: unordered collections of points, boxes or objects.",
        args=words,
        config=(tyro.conf.OmitArgPrefixes,),
    )
