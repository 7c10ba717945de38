"""The one exception for mistakes of the user, so that a bug of ours is never mistaken for one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Something that the user can put right: an option, a file, a data set. The message is one line that names the
    thing, its value and what was expected; the command line prints it without a traceback.

    >>> import setpredict
    >>> setpredict.GradientDescent(steps=-1)
    Traceback (most recent call last):
    setpredict.core.errors.UserError: steps must be 0 or more, got -1
    """


class NotFinite(UserError):
    """A NaN or an infinity where a number was needed; the message names the place.

    >>> import setpredict
    >>> setpredict.Sets.from_list([[[0.5]], [[float("nan")]]])
    Traceback (most recent call last):
    setpredict.core.errors.NotFinite: set 1, element 0 is nan
    """


def first_line(e: BaseException) -> str:
    """What another library's exception says, as one line: its first one, or its type if it says nothing."""
    return (str(e).strip().splitlines() or [type(e).__name__])[0]


def not_installed(what: str, missing: ModuleNotFoundError, extra: str) -> UserError:
    """The error of a part of the library whose optional packages are missing."""
    return UserError(f"{what} needs {missing.name}: pip install -c constraints.txt -e '.[{extra}]' in the checkout")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Part of a message that names the most similar name; empty if none is similar.

    >>> did_you_mean("Multiset", ["multisets", "mnist"]), did_you_mean("x", ["mnist"])
    (", did you mean 'multisets'?", '')
    """
    lower = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), lower, n=1)
    return f", did you mean {lower[near[0]]!r}?" if near else ""
